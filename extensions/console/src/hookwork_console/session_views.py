"""How sessions look: for people in columns, for machines as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from hookwork.records.codec import dump_json
from hookwork_console.answers import compact
from hookwork_console.columns import aligned, cell
from hookwork_console.session_lines import session_line
from hookwork_console.summaries import summary

if TYPE_CHECKING:
    from hookwork.records.session import Session
    from hookwork_console.session_check import Planned
    from hookwork_console.session_import import Imported
    from hookwork_console.session_lines import SessionLine
    from hookwork_console.session_store import Key
    from hookwork_console.terminal import Terminal

# JSON escapes the control characters below a blank by itself; these it may leave as they are.
_UNESCAPED = re.compile("[\x7f-\x9f]")


def table(lines: Iterable[SessionLine]) -> Iterator[str]:
    """Sessions in columns, a heading first."""
    rows = [("SESSION", "USER", "UPDATED (UTC)", "STATE")]
    rows += [(line.id, line.user_id, _time(line.last_update_time), _state_keys(line)) for line in lines]
    return aligned(rows)


def described(session: Session) -> Iterator[str]:
    """A session's ids, its state and its events, the events numbered as they are stored."""
    line = session_line(session)
    yield from aligned(
        [
            ("session", line.id),
            ("user", line.user_id),
            ("app", line.app_name),
            ("updated", f"{_time(line.last_update_time)} UTC"),
        ]
    )
    if line.state:
        yield "state"
        yield from (f"  {text}" for text in aligned((key, compact(value)) for key, value in line.state.items()))
    first = session.log.offset + session.start + 1
    rows = [(str(i), _time(e.timestamp), e.author, summary(e)) for i, e in enumerate(session.events, first)]
    yield "events" if rows else "no events"
    if rows:
        yield from (f"  {text}" for text in aligned(rows))


def named(session_id: str, user_id: str) -> str:
    """``s1 (user u1)``."""
    return f"{cell(session_id)} (user {cell(user_id)})"


def conflict(planned: Planned) -> str:
    """What is known of a session that the store holds already."""
    if planned.stored is None:
        return f"{planned} exists already"
    return (
        f"{planned} exists already, with the first {planned.stored} of its {planned.events} events: if an import was "
        f"cut short, delete it and import again: {planned.deletion(planned.id)}"
    )


def show_imported(terminal: Terminal, imported: Imported, *, as_json: bool) -> None:
    """What became of a session of a file."""
    if as_json:
        show_json_text(terminal, msgspec.json.encode(imported))
        return
    name = named(imported.id, imported.user_id)
    if imported.stored_as is None:
        terminal.result(f"skipped  {name}")
        return
    renamed = f" as {cell(imported.stored_as)}" if imported.stored_as != imported.id else ""
    files = f", {imported.artifacts} version(s) of artifacts" if imported.artifacts else ""
    terminal.result(f"imported {name}{renamed}: {imported.events} event(s){files}")
    if imported.kept:
        terminal.note(f"{name}: {', '.join(map(cell, imported.kept))} is in the store already and stays as it is")


def show_deleted(terminal: Terminal, key: Key, *, as_json: bool) -> None:
    """That a session is gone."""
    if as_json:
        gone = {"id": key.session_id, "appName": key.app_name, "userId": key.user_id}
        show_json_text(terminal, msgspec.json.encode(gone))
    else:
        terminal.result(f"deleted {named(key.session_id, key.user_id)}")


def show_json(terminal: Terminal, line: SessionLine) -> None:
    """Write a record on a line of stdout."""
    show_json_text(terminal, dump_json(line))


def show_json_text(terminal: Terminal, line: bytes) -> None:
    """Write a line of JSON to stdout; on a terminal every control character in it is escaped, and it is JSON still."""
    text = line.decode().rstrip("\n")
    terminal.result(_UNESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text) if terminal.live else text)


def _time(epoch: float) -> str:
    return f"{datetime.fromtimestamp(epoch, UTC):%Y-%m-%d %H:%M:%S}"


def _state_keys(line: SessionLine) -> str:
    keys = list(line.state)
    shown = ", ".join(keys[:3])
    return f"{shown}, … ({len(keys)})" if len(keys) > 3 else shown
