"""`hookwork sessions`: list, show, export, import, delete and erase what a session store holds (servers §7)."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, aclosing, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import click

from hookwork.cli import command_settings
from hookwork.errors import ConfigurationError
from hookwork_console import session_views as views
from hookwork_console.columns import cell
from hookwork_console.session_check import Checked, check
from hookwork_console.session_erasing import erase_user_command
from hookwork_console.session_export import Write, export_sessions, written_file
from hookwork_console.session_import import Imported, OnConflict, import_sessions
from hookwork_console.session_lines import by_session, entries, lines_of, session_line
from hookwork_console.session_store import Key, Place, Store, Where, located
from hookwork_console.terminal import Terminal

_EPILOG = """
The store is --sessions, else the project's App's, else the settings' `sessions`. Exit codes: 0 done, 1 failed, 64 wrong
usage, 130 interrupted.
"""
#: A store may keep the sessions it read. So that no command ever holds all, it is opened anew after so many.
_AT_ONCE = 16


def _store_options(app: str, user: str) -> Callable[[Any], Any]:
    """The options about the store, with the help of two of them."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        options: list[Callable[[Any], Any]] = [
            click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks."),
            click.option("--config", metavar="FILE", expose_value=False, help="Settings file; 'none' reads none."),
            click.option("--user", metavar="ID", help=user),
            click.option("--app", metavar="NAME", help=app),
            click.option("--sessions", "--session_service_uri", metavar="URL", help="The store: sqlite:///chat.db."),
        ]
        for option in options:
            function = option(function)
        return function

    return add


_of_store = _store_options("Name of the app; default: the project's.", "User id; default: all users.")
_into_store = _store_options("Store under this app, not the file's.", "Store under this user, not the file's.")
_with_artifacts = click.option(
    "--artifacts", "--artifact_service_uri", metavar="URL", help="The sessions' files too: file:///folder."
)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")


@click.group("sessions", epilog=_EPILOG, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List, show, export, import and delete stored sessions; erase users."""
    if ctx.invoked_subcommand is None:
        raise click.UsageError(f"no command is given; give one of {', '.join(command.list_commands(ctx))}", ctx)


command.add_command(erase_user_command)


def _heard_or_not() -> AbstractContextManager[None]:
    """What changes a store goes on to its end, even if nobody reads any more what it tells."""
    return suppress(BrokenPipeError)


# --- looking ----------------------------------------------------------------------------------------------------------


@command.command("list")
@_of_store
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Only the N that were used last.")
@_as_json
def list_command(limit: int | None, as_json: bool, **where: Any) -> int:
    """List sessions, the one used last at the end."""
    return asyncio.run(_list(Where(**where), limit, as_json=as_json))


async def _list(where: Where, limit: int | None, *, as_json: bool) -> int:
    terminal = Terminal()
    async with located(where, command_settings()).opened() as place:
        found = await place.service.list_sessions(app_name=place.app_name, user_id=place.user_id)
        lines = [session_line(session) for session in (found if limit is None else found[-limit:])]
    if as_json:
        for line in lines:
            views.show_json(terminal, line)
    elif lines:
        for text in views.table(lines):
            terminal.result(text)
    else:
        of_user = f" of user {place.user_id!r}" if place.user_id is not None else ""
        terminal.note(f"{place.name} holds no session{of_user} of app {place.app_name!r}")
    return 0


@command.command("show")
@click.argument("session_id", metavar="ID")
@_of_store
@click.option("--last", metavar="N", type=click.IntRange(min=0), help="Only the last N events.")
@_as_json
def show_command(session_id: str, last: int | None, as_json: bool, **where: Any) -> int:
    """Show a session's state and events."""
    return asyncio.run(_show(session_id, Where(**where), last, as_json=as_json))


async def _show(session_id: str, where: Where, last: int | None, *, as_json: bool) -> int:
    terminal = Terminal()
    async with located(where, command_settings()).opened() as place:
        [key] = await place.find([session_id])
        session = await place.service.get_session(**key._asdict(), num_recent_events=last)
    if as_json:
        for line in lines_of(session):
            views.show_json_text(terminal, line)
    else:
        for text in views.described(session):
            terminal.result(text)
    return 0


# --- exporting --------------------------------------------------------------------------------------------------------


@command.command("export")
@click.argument("session_ids", metavar="[ID]...", nargs=-1)
@_of_store
@click.option("--all", "everything", is_flag=True, help="Every session of the app (of --user).")
@click.option("--output", "-o", metavar="FILE", help="Write to this file; default: stdout.")
@_with_artifacts
def export_command(session_ids: tuple[str, ...], everything: bool, output: str | None, **where: Any) -> int:
    """Write sessions as JSON Lines.

    They have the wire form of ADK: a line for a session, then one for each of its events. With --artifacts a line
    for each version of its files follows.
    """
    if everything == bool(session_ids):
        raise click.UsageError("give the ids of the sessions to export, or --all; not both")
    return asyncio.run(_export(session_ids, Where(**where), output))


async def _export(ids: Sequence[str], where: Where, output: str | None) -> int:
    terminal = Terminal()
    store = located(where, command_settings())
    async with store.opened() as place:
        keys = await (place.find(ids) if ids else place.keys())
    with _target(terminal, output) as write:
        sessions, events, versions, failures = await _written(store, keys, write, terminal)
    files = f", {versions} version(s) of artifacts" if store.artifacts else ""
    into = f" in {output}" if output is not None else ""
    terminal.note(f"{sessions} session(s), {events} event(s){files}{into}", style="bright_black")
    if failures:
        raise click.ClickException(f"{failures} session(s) could not be read and were left out")
    return 0


@contextmanager
def _target(terminal: Terminal, output: str | None) -> Iterator[Write]:
    if output is not None and output != "-":
        with written_file(output) as write:
            yield write
    elif terminal.live:
        yield lambda line: views.show_json_text(terminal, line)
    else:
        yield sys.stdout.buffer.write


async def _written(store: Store, keys: Sequence[Key], write: Write, terminal: Terminal) -> tuple[int, int, int, int]:
    """(sessions, events, versions of files, failures) of an export."""
    sessions = events = versions = failures = 0
    users: set[tuple[str, str]] = set()
    for start in range(0, len(keys), _AT_ONCE):
        async with (
            store.opened() as place,
            aclosing(
                export_sessions(place.service, keys[start : start + _AT_ONCE], write, place.artifacts, users)
            ) as exported,
        ):
            async for done in exported:
                if done.failure:
                    failures += 1
                    terminal.note(f"{views.named(done.key.session_id, done.key.user_id)}: {done.failure}")
                else:
                    sessions, events = sessions + 1, events + done.events
                    versions += done.artifacts
    return sessions, events, versions, failures


# --- importing --------------------------------------------------------------------------------------------------------


@command.command("import")
@click.argument("file")
@_into_store
@click.option(
    "--on-conflict",
    type=click.Choice(["refuse", "skip", "new-id"]),
    default="refuse",
    show_default=True,
    help="What to do with a session whose id is taken.",
)
@_with_artifacts
@_as_json
def import_command(file: str, on_conflict: OnConflict, as_json: bool, **where: Any) -> int:
    """Store the sessions of a file.

    FILE is checked to its end before anything is stored; '-' reads stdin.
    """
    # Opened before the loop runs: there, Ctrl-C would not interrupt a read from a keyboard.
    with _source(file) as stream:
        return asyncio.run(_import(stream, file, Where(**where), on_conflict, as_json=as_json))


async def _import(stream: BinaryIO, file: str, where: Where, on_conflict: OnConflict, *, as_json: bool) -> int:
    terminal = Terminal()
    store = located(where, command_settings(), writes=True)
    async with store.opened() as place:
        checked = await check(place.service, stream, file, app_name=where.app, user_id=where.user)
    _refuse(checked, file, on_conflict, terminal)
    planned = checked.planned
    if store.artifacts is None and (versions := sum(plan.artifacts for plan in planned)):
        terminal.note(f"{versions} version(s) of artifacts are left out; --artifacts URL stores them too")
    done: list[Imported] = []

    def tell(imported: Imported) -> None:
        done.append(imported)
        with _heard_or_not():
            views.show_imported(terminal, imported, as_json=as_json)

    stream.seek(0)
    sessions = by_session(entries(stream))
    try:
        for start in range(0, len(planned), _AT_ONCE):
            some = planned[start : start + _AT_ONCE]
            async with store.opened() as place:
                await import_sessions(
                    place.service,
                    sessions,
                    some,
                    artifacts=place.artifacts,
                    on_conflict=on_conflict,
                    done=tell,
                    note=terminal.note,
                )
    except BaseException:
        terminal.note(
            f"{len(done)} session(s) are done, {len(planned) - len(done)} are not; import the file again with "
            "--on-conflict skip to go on"
        )
        raise
    return 0


def _refuse(checked: Checked, file: str, on_conflict: OnConflict, terminal: Terminal) -> None:
    """Say what is wrong, or will not be kept; raise when nothing is to be stored."""
    for text in (*checked.problems, *checked.remarks):
        terminal.note(text)
    if checked.broken:
        raise click.ClickException(f"{file}: {checked.broken} problem(s); nothing was stored")
    conflicts = [planned for planned in checked.planned if planned.exists]
    for planned in conflicts:
        if on_conflict != "new-id" or planned.stored is not None:
            terminal.note(views.conflict(planned))
    if conflicts and on_conflict == "refuse":
        raise click.ClickException(
            f"{len(conflicts)} session(s) exist already; nothing was stored. --on-conflict skip leaves them "
            "out, new-id stores them under new ids"
        )


@contextmanager
def _source(file: str) -> Iterator[BinaryIO]:
    """The file, to be read twice; what can be read only once is copied aside first."""
    with ExitStack() as stack:
        try:
            stream: BinaryIO = sys.stdin.buffer if file == "-" else stack.enter_context(Path(file).open("rb"))
            if file == "-" or not stream.seekable():
                copy = stack.enter_context(tempfile.TemporaryFile())
                shutil.copyfileobj(stream, copy)
                copy.seek(0)
                stream = copy
        except OSError as error:
            text = f"cannot read {file!r}: {error.strerror or error}; name a file to import"
            raise ConfigurationError(text) from error
        yield stream


# --- deleting ---------------------------------------------------------------------------------------------------------


@command.command("delete")
@click.argument("session_ids", metavar="ID...", nargs=-1, required=True)
@_of_store
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@_as_json
def delete_command(session_ids: tuple[str, ...], yes: bool, as_json: bool, **where: Any) -> int:
    """Delete sessions with their events.

    State of the app and of the user stays: other sessions share it.
    """
    return asyncio.run(_delete(session_ids, Where(**where), yes=yes, as_json=as_json))


async def _delete(ids: Sequence[str], where: Where, *, yes: bool, as_json: bool) -> int:
    terminal = Terminal()
    async with located(where, command_settings()).opened() as place:
        keys = await place.find(ids)
        if not yes and not await _agreed(terminal, place, keys):
            terminal.note("nothing was deleted")
            return 1
        for key in keys:
            await place.service.delete_session(**key._asdict())
            with _heard_or_not():
                views.show_deleted(terminal, key, as_json=as_json)
    return 0


async def _agreed(terminal: Terminal, place: Place, keys: Sequence[Key]) -> bool:
    if not terminal.interactive:
        raise click.UsageError("there is nobody to ask whether to delete; give --yes")
    for key in keys:
        terminal.note(f"  {views.named(key.session_id, key.user_id)}")
    answer = await terminal.ask(f"Delete {len(keys)} session(s) of app {cell(place.app_name)}? [y/N] ")
    return (answer or "").strip().lower() in ("y", "yes")
