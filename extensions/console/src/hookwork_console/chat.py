"""`hookwork chat AGENT`: a conversation in a terminal or a pipe (servers CON-1 … CON-7)."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import click
import msgspec

from hookwork.cli import command_settings
from hookwork.errors import ConfigurationError
from hookwork.records.codec import dump
from hookwork.records.frozen import thaw
from hookwork_console.chatting import Chat, ChatTerminal
from hookwork_console.options import Options, duration, open_runner, shared_options

_EPILOG = """
/help lists the commands inside a chat. Ctrl-C stops a turn and keeps the session; at the prompt it leaves, as Ctrl-D
does. In a pipe every line of stdin is a message.
"""


class ChatOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What only ``hookwork chat`` takes."""

    stream: bool | None = None
    timeout: float | None = None
    replay: str | None = None
    save_session: str | None = None


@click.command("chat", epilog=_EPILOG)
@click.argument("agent", required=False)
@shared_options
@click.option("--stream/--no-stream", default=None, help="Stream from the model; default: when stdout is a terminal.")
@click.option("--timeout", metavar="TIME", callback=duration, help="Stop a turn after this time: 30, 10s, 2m.")
@click.option("--replay", metavar="FILE", help='Say the "queries" of a JSON file, with its "state", and leave.')
@click.option("--save-session", metavar="FILE", help="Write the session as JSON when leaving.")
def command(
    agent: str | None,
    stream: bool | None,
    timeout: float | None,
    replay: str | None,
    save_session: str | None,
    **shared: Any,
) -> int:
    """Talk with AGENT."""
    own = ChatOptions(stream=stream, timeout=timeout, replay=replay, save_session=save_session)
    try:
        return asyncio.run(_chat(agent, Options(**shared), own))
    except asyncio.CancelledError:  # the second Ctrl-C during a turn
        raise KeyboardInterrupt from None


async def _chat(agent: str | None, options: Options, own: ChatOptions) -> int:
    from hookwork.resolve import load_agent

    if own.save_session is not None:
        _check_writable(own.save_session)
    settings = command_settings()
    target = load_agent(agent, settings)
    messages, state = _replay(own.replay)
    terminal = ChatTerminal()
    async with open_runner(target, options, settings) as runner:
        streamed = own.stream if own.stream is not None else terminal.live
        chat = Chat(
            runner,
            terminal,
            user_id=options.user,
            session_id=options.session,
            config=msgspec.structs.replace(runner.config, streaming_mode="sse" if streamed else "none"),
            state={**state, **dict(options.state)},
            timeout=own.timeout,
        )
        try:
            return await (chat.talk() if own.replay is None else chat.replay(messages))
        finally:
            if own.save_session is not None:
                await _save(chat, own.save_session)


def _replay(file: str | None) -> tuple[list[str], dict[str, Any]]:
    """The messages and the state of a replay file (google-adk's ``{"state": {}, "queries": []}``)."""
    if file is None:
        return [], {}
    try:
        found = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f'--replay {file}: {error}; give a JSON file with "queries"') from error
    queries = found.get("queries") if isinstance(found, dict) else None
    state = found.get("state", {}) if isinstance(found, dict) else {}
    if (
        not isinstance(queries, list)
        or not all(isinstance(query, str) for query in queries)
        or not isinstance(state, dict)
    ):
        raise ConfigurationError(f'--replay {file}: write {{"state": {{}}, "queries": ["first message", "…"]}}')
    return queries, state


def _check_writable(file: str) -> None:
    """Refuse a file that cannot be written before anything is said: afterwards the conversation would be lost."""
    path = Path(file)
    if path.is_dir():
        problem = "is a folder"
    elif not path.parent.is_dir():
        problem = f"there is no folder {str(path.parent)!r}"
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        problem = "may not be written"
    else:
        return
    raise ConfigurationError(f"--save-session {file}: {problem}; name a file in a folder that you may write to")


async def _save(chat: Chat, file: str) -> None:
    """Write the session in the wire form of ADK."""
    session = await chat.session()
    if session is None:
        chat.terminal.note(f"no session began, so {file} was not written", style="yellow")
        return
    document = {
        "id": session.id,
        "appName": session.app_name,
        "userId": session.user_id,
        "state": thaw(dict(session.state)),
        "events": [dump(event) for event in session.events],
        "lastUpdateTime": session.last_update_time.timestamp(),
    }
    text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    try:
        await asyncio.to_thread(Path(file).write_text, text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"--save-session {file} cannot be written: {error.strerror or error}") from error
    chat.terminal.note(f"session {session.id} is in {file}", style="bright_black")
