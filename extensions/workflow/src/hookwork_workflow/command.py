"""`hookwork graph AGENT`: the picture of an agent or a workflow, with the state of a stored session (WB-27)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hookwork.records.session import Session
    from hookwork.settings import Settings


@click.command("graph")
@click.argument("agent", required=False)
@click.option("--sessions", metavar="URL", help="Session service to read the session from.")
@click.option("--session", metavar="ID", help="A stored session, shown by colour: done, waiting, failed, started.")
@click.option("--user", metavar="ID", default="console_user", show_default=True, help="User id.")
@click.option("--invocation", metavar="ID", help="Which invocation of the session; default: the newest.")
@click.option("--direction", type=click.Choice(["TD", "LR"]), default="TD", show_default=True, help="Down or right.")
@click.option("--svg", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write an SVG picture.")
@click.option("--png", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write a PNG picture.")
def command(
    agent: str | None,
    sessions: str | None,
    session: str | None,
    user: str,
    invocation: str | None,
    direction: str,
    svg: Path | None,
    png: Path | None,
) -> None:
    """Show AGENT, or the workflow it is, as Mermaid text; with --svg or --png as a picture in a file."""
    if invocation is not None and session is None:
        raise click.UsageError("--invocation needs --session")
    from hookwork.cli import command_settings
    from hookwork.resolve import load_agent
    from hookwork_workflow.picture import rendered, to_mermaid

    settings = command_settings()
    loaded = load_agent(agent, settings)
    root = getattr(loaded, "root", loaded)
    stored = asyncio.run(_stored(loaded.name, session, user, sessions, settings)) if session is not None else None
    text = to_mermaid(root, stored, invocation_id=invocation, direction=direction)
    written = False
    for path, format in ((svg, "svg"), (png, "png")):
        if path is not None:
            path.write_bytes(rendered(text, format))
            written = True
    if not written:
        click.echo(text, nl=False)


async def _stored(app_name: str, session_id: str, user: str, url: str | None, settings: Settings) -> Session:
    from hookwork.resolve import resolve_session_service

    service, owned = resolve_session_service(url, settings)
    try:
        found: Any = await service.get_session(app_name=app_name, user_id=user, session_id=session_id)
        return found  # type: ignore[no-any-return]
    finally:
        if owned:
            await service.close()
