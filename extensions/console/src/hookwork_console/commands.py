"""The slash commands of a chat."""

from __future__ import annotations

import difflib
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from hookwork.errors import HookworkError
from hookwork.records.frozen import thaw
from hookwork_console.summaries import summary

if TYPE_CHECKING:
    from hookwork_console.chatting import Chat

_RECENT = 20


class Command(NamedTuple):
    """A command: what it takes, one line of help, and what it does. It returns False to leave the chat."""

    takes: str
    help: str
    run: Callable[[Chat, str], Awaitable[bool]]


async def run_command(chat: Chat, line: str) -> bool:
    """Run ``/name argument``; False when the chat is to end."""
    name, _, argument = line[1:].partition(" ")
    command = COMMANDS.get(_ALIASES.get(name, name))
    if command is None:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean /{near[0]}? " if near else ""
        chat.terminal.note(f"there is no command /{name}; {hint}/help lists them, //{name} says it to the agent")
        return True
    try:
        return await command.run(chat, argument.strip())
    except HookworkError as error:
        chat.terminal.note(str(error), style="red")
        return True


async def _help(chat: Chat, _: str) -> bool:
    rows = [(f"/{name} {command.takes}".rstrip(), command.help) for name, command in COMMANDS.items()]
    width = max(len(usage) for usage, _ in rows)
    for usage, text in rows:
        chat.terminal.note(f"{usage.ljust(width)}  {text}")
    if chat.terminal.edits:
        chat.terminal.note(
            "Enter sends; Alt-Enter, or a backslash before Enter, starts a new line; Ctrl-C stops a turn"
        )
    return True


async def _state(chat: Chat, key: str) -> bool:
    session = await chat.session()
    state = dict(session.state) if session is not None else {}
    if key and key not in state:
        chat.terminal.note(f"no state value {key!r}; there are: {', '.join(sorted(state)) or 'none'}")
    else:
        shown = state[key] if key else state
        chat.terminal.result(json.dumps(thaw(shown), ensure_ascii=False, indent=2))
    return True


async def _events(chat: Chat, count: str) -> bool:
    session = await chat.session()
    events = list(session.events) if session is not None else []
    shown = int(count) if count.isdigit() else _RECENT
    first = max(len(events) - shown, 0)
    for number, event in enumerate(events[first:], first + 1):
        chat.terminal.result(f"{number:4}  {event.time:%H:%M:%S}  {event.author:<16}  {summary(event)}")
    if not events:
        chat.terminal.note("no events yet")
    return True


async def _artifacts(chat: Chat, name: str) -> bool:
    service = chat.runner.artifacts
    if service is None or chat.session_id is None:
        chat.terminal.note("no artifacts yet")
        return True
    place: dict[str, Any] = {
        "app_name": chat.runner.app_name,
        "user_id": chat.user_id,
        "session_id": chat.session_id,
    }
    if name:
        part = await service.load_artifact(**place, filename=name)
        if part.file_data is not None:
            chat.terminal.result(f"a file elsewhere: {part.file_data.file_uri}")
            return True
        data = part.inline_data.data or b"" if part.inline_data is not None else b""
        kind = part.inline_data.mime_type if part.inline_data is not None else None
        chat.terminal.result(part.text if part.text is not None else f"{len(data)} bytes of {kind or 'unknown type'}")
        return True
    names = await service.list_artifacts(**place)
    for one in names:
        versions = await service.list_versions(**place, filename=one)
        chat.terminal.result(f"{one}  (version {max(versions)})")
    if not names:
        chat.terminal.note("no artifacts yet")
    return True


async def _open(chat: Chat, _: str) -> bool:
    session = await chat.session()
    calls = list(session.open_calls.values()) if session is not None else []
    if calls:
        await chat.answer(calls)
    else:
        chat.terminal.note("nothing is open")
    return True


async def _undo(chat: Chat, _: str) -> bool:
    session = await chat.session()
    last = next((event for event in reversed(session.live_events) if event.invocation_id), None) if session else None
    if session is None or last is None:
        chat.terminal.note("there is nothing to undo")
        return True
    await chat.runner.rewind(user_id=chat.user_id, session_id=session.id, before_invocation_id=last.invocation_id)
    chat.terminal.note("the last turn is undone: its events are hidden, its state and files are put back")
    return True


async def _session(chat: Chat, _: str) -> bool:
    chat.terminal.result(f"user {chat.user_id}, session {chat.session_id or '(starts with your first message)'}")
    return True


async def _quit(chat: Chat, _: str) -> bool:
    return False


COMMANDS: dict[str, Command] = {
    "help": Command("", "this list", _help),
    "state": Command("[KEY]", "the session's state, or one value of it", _state),
    "events": Command("[N]", f"the last N events (default {_RECENT})", _events),
    "artifacts": Command("[NAME]", "the session's files, or one of them", _artifacts),
    "open": Command("", "answer what is still open", _open),
    "session": Command("", "ids of user and session", _session),
    "undo": Command("", "take the last turn back", _undo),
    "quit": Command("", "leave; the session is kept where it is stored", _quit),
}
_ALIASES = {"exit": "quit", "q": "quit", "?": "help"}
