"""`hookwork prompt AGENT "message"`: the request a turn would send, without a model call (core B-26)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import click


@click.command("prompt")
@click.argument("agent", required=False)
@click.argument("message", required=False)
@click.option("--sessions", metavar="URL", help="Session service to read the history from.")
@click.option("--session", metavar="ID", help="A stored session; without it the history is empty.")
@click.option("--user", metavar="ID", default="console_user", show_default=True, help="User id.")
@click.option("--model", metavar="NAME", help="Model of all agents.")
@click.option("--json", "as_json", is_flag=True, help="The request as one JSON object in the wire form of genai.")
def command(
    agent: str | None,
    message: str | None,
    sessions: str | None,
    session: str | None,
    user: str,
    model: str | None,
    as_json: bool,
) -> None:
    """Show what AGENT would send to its model for MESSAGE; nothing is sent or stored."""
    request = asyncio.run(_request(agent, message, sessions, session, user, model))
    if as_json:
        click.echo(json.dumps(request, ensure_ascii=False))
        return
    for line in _lines(request):
        click.echo(line)


async def _request(
    agent: str | None, message: str | None, sessions: str | None, session: str | None, user: str, model: str | None
) -> dict[str, Any]:
    from hookwork.cli import command_settings
    from hookwork.records.codec import dump
    from hookwork.resolve import load_agent
    from hookwork.runner import Runner

    settings = command_settings()
    async with Runner(load_agent(agent, settings), sessions=sessions, model=model, settings=settings) as runner:
        request = await runner.preview(message, user_id=user, session_id=session)
        return {
            "model": request.model,
            "config": dump(request.config),
            "contents": [dump(content) for content in request.contents],
        }


def _lines(request: dict[str, Any]) -> list[str]:
    config = request["config"]
    lines = [f"model: {request['model'] or '(none)'}"]
    for part in config.get("systemInstruction", {}).get("parts", ()):
        lines += ["", "system instruction:", part.get("text", "")]
    declarations = [d for entry in config.get("tools", ()) for d in entry.get("functionDeclarations", ())]
    if declarations:
        lines += ["", "tools:"]
    for declaration in declarations:
        lines.append(f"- {declaration['name']}: {declaration.get('description', '')}".rstrip(": "))
        schema = declaration.get("parametersJsonSchema")
        if schema is not None:
            lines.append(f"    {json.dumps(schema, ensure_ascii=False)}")
    lines += ["", "contents:"]
    for content in request["contents"]:
        for part in content.get("parts", ()):
            lines.append(f"{content.get('role', '?')}: {part['text'] if 'text' in part else json.dumps(part)}")
    return lines
