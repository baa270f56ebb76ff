"""`hookwork sessions erase-user`: all that the project's stores keep of a user (services BEY-14)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import Any

import click
import msgspec

from hookwork.cli import command_settings
from hookwork_console.columns import cell
from hookwork_console.session_store import Where, located
from hookwork_console.session_views import show_json_text
from hookwork_console.terminal import Terminal


@click.command("erase-user")
@click.argument("user_id", metavar="USER")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
@click.option("--config", metavar="FILE", expose_value=False, help="Settings file; 'none' reads none.")
@click.option("--app", metavar="NAME", help="Name of the app; default: the project's.")
@click.option("--sessions", "--session_service_uri", metavar="URL", help="The store: sqlite:///chat.db.")
@click.option("--artifacts", "--artifact_service_uri", metavar="URL", help="The store of files: file:///folder.")
@click.option("--memory", "--memory_service_uri", metavar="URL", help="The memory: sqlite:///memory.db.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def erase_user_command(user_id: str, memory: str | None, yes: bool, as_json: bool, **where: Any) -> int:
    """Erase a user: sessions, the user's state, files and memories.

    The stores are those of the options, the project's App and the settings. What a store cannot erase is named, and
    the command fails. A second time finds nothing and is done.
    """
    return asyncio.run(_erase(user_id, Where(**where), memory, yes=yes, as_json=as_json))


async def _erase(user_id: str, where: Where, memory: str | None, *, yes: bool, as_json: bool) -> int:
    from hookwork.erasing import erase_user

    terminal, settings = Terminal(), command_settings()
    store = located(where, settings)
    whose = f"user {cell(user_id)} of app {cell(store.app_name)}"
    if not yes and not await _agreed(terminal, whose):
        terminal.note("nothing was erased")
        return 1
    async with store.opened() as place, AsyncExitStack() as stack:
        own = _own_app(store.app_name, settings)
        others = {
            "artifacts": place.artifacts or await _opened("artifact", own, settings.artifacts, settings, stack),
            "memory": await _opened("memory", memory or own, settings.memory, settings, stack),
        }
        erased = await erase_user(app_name=store.app_name, user_id=user_id, sessions=place.service, **others)
    with suppress(BrokenPipeError):  # it is done, even if nobody reads any more what is told
        if as_json:
            show_json_text(
                terminal,
                msgspec.json.encode({"userId": user_id, "appName": store.app_name, **erased._asdict()}),
            )
        else:
            terminal.result(
                f"erased {whose}: {erased.sessions} session(s), {erased.artifacts} file(s), "
                f"{erased.memories} memory entries"
            )
    return 0


def _own_app(app_name: str, settings: Any) -> Any:
    """The project's App, when it is the one that is meant."""
    if not (settings.app or settings.agent):
        return None
    from hookwork.resolve import load_agent

    target = load_agent(None, settings)
    return target if target.name == app_name else None


async def _opened(kind: str, given: Any, default: Any, settings: Any, stack: AsyncExitStack) -> Any:
    """The service of an option's URL, of the App, or of the settings; None when there is none, or it is in memory."""
    from hookwork import resolve

    if given is not None and not isinstance(given, str):
        given = getattr(given, "artifacts" if kind == "artifact" else "memory", None)
    wanted = default if given is None else given
    if not wanted or (isinstance(wanted, str) and wanted.lower().partition(":")[0] == "memory"):
        return None
    service, owned = getattr(resolve, f"resolve_{kind}_service")(wanted, settings)
    if owned:
        stack.push_async_callback(service.close)
    return service


async def _agreed(terminal: Terminal, whose: str) -> bool:
    if not terminal.interactive:
        raise click.UsageError("there is nobody to ask whether to erase; give --yes")
    answer = await terminal.ask(f"Erase all of {whose}? This cannot be taken back. [y/N] ")
    return (answer or "").strip().lower() in ("y", "yes")
