"""`hookwork plugins` and `hookwork version`: what is installed, and in which order hooks run (EXT-9)."""

from __future__ import annotations

import asyncio
import inspect
import json
import platform
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from hookwork.cli import command_settings
from hookwork.errors import ConfigurationError
from hookwork.hookspecs.table import LIFECYCLE_HOOKS
from hookwork.plugins.discovery import extensions
from hookwork.settings import NO_SETTINGS, Settings
from hookwork.version import VERSION

if TYPE_CHECKING:
    from hookwork.plugins.entry_points import EntryPoint

_COLUMNS = ("kind", "name", "state", "distribution", "version", "hooks")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One extension, plugin or agent as it is shown. ``state``: loaded, available, active, disabled or broken."""

    name: str
    distribution: str
    version: str
    module: str
    hooks: tuple[str, ...] = ()
    state: str = "available"
    error: str = ""


@click.command("version")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def version_command(as_json: bool) -> None:
    """Print the version."""
    python = platform.python_version()
    click.echo(
        json.dumps({"hookwork": VERSION, "python": python}) if as_json else f"hookwork {VERSION} (Python {python})"
    )


@click.command("plugins")
@click.option(
    "--explain",
    metavar="AGENT",
    is_flag=False,
    flag_value="",
    help="Show for each hook the plugins of that agent in the order in which they run.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--config", metavar="FILE", help="Read this settings file; 'none' reads no file.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(explain: str | None, as_json: bool, config: str | None, debug: bool) -> None:
    """List every extension, plugin and agent: distribution, version, state, hooks."""
    del config, debug  # read by `hookwork.cli` before the command is known
    if explain is not None:
        _explain(explain or None, as_json)
        return
    tables = inventory(_settings_or_none())
    if as_json:
        click.echo(json.dumps({kind: [msgspec.to_builtins(row) for row in rows] for kind, rows in tables.items()}))
        return
    lines = [
        (kind.removesuffix("s"), row.name, row.state, row.distribution or "-", row.version or "-", _last_column(row))
        for kind, rows in tables.items()
        for row in rows
    ]
    for line in aligned([_COLUMNS, *lines]):
        click.echo(line)


def inventory(settings: Settings) -> dict[str, list[Row]]:
    """``extensions``, ``plugins`` and ``agents`` as rows; plugins are imported to see their hooks."""
    registry = extensions()
    records = sorted((*registry.loaded, *registry.broken, *registry.skipped), key=lambda r: (r.distribution, r.name))
    active = {entry.partition(":")[0] for entry in settings.plugins}
    return {
        "extensions": [msgspec.convert(msgspec.to_builtins(record), Row) for record in records],
        "plugins": [_plugin_row(point, point.name in active) for point in _ordered(registry.plugins.values())],
        "agents": [_row(point) for point in _ordered(registry.agents.values())],
    }


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines whose columns start at the same place; the last column is not padded."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def implemented_hooks(target: Any) -> tuple[str, ...]:
    """The lifecycle hooks a plugin class, object or module implements, in the order of the table; nothing is called."""
    from hookwork.plugins.markers import PROJECT_NAME
    from hookwork.plugins.plugin import Plugin

    kind = target if isinstance(target, type) else type(target)
    unmarked = issubclass(kind, Plugin)
    found = set()
    for name in dir(target):
        member = inspect.getattr_static(target, name, None)
        function = getattr(member, "__func__", member)
        options = getattr(function, f"{PROJECT_NAME}_impl", None)
        if options is not None:
            found.add(options.get("specname") or name)
        elif unmarked and name in LIFECYCLE_HOOKS:
            found.add(name)
    return tuple(hook for hook in LIFECYCLE_HOOKS if hook in found)


def _ordered(points: Iterable[EntryPoint]) -> list[EntryPoint]:
    return sorted(points, key=lambda point: (point.distribution, point.name))


def _row(point: EntryPoint, **more: Any) -> Row:
    return Row(name=point.name, distribution=point.distribution, version=point.version, module=point.value, **more)


def _plugin_row(point: EntryPoint, active: bool) -> Row:
    try:
        target = point.load()
    except Exception as error:  # noqa: BLE001 - a broken plugin is a line of the listing, not its end
        return _row(point, state="broken", error=f"{type(error).__name__}: {' '.join(str(error).split())}")
    return _row(point, state="active" if active else "available", hooks=implemented_hooks(target))


def _last_column(row: Row) -> str:
    return f"error: {row.error}" if row.error else ", ".join(row.hooks) or "-"


def _settings_or_none() -> Settings:
    """The settings, or none with a warning: this command shows what is installed even when they are faulty."""
    try:
        return command_settings()
    except ConfigurationError as error:
        click.echo(f"warning: {error}", err=True)
        return NO_SETTINGS


def _explain(reference: str | None, as_json: bool) -> None:
    from hookwork.plugins.dispatch import Hooks, notify
    from hookwork.resolve import load_agent, resolve_plugins

    settings = command_settings()
    target = load_agent(reference, settings)
    hooks = Hooks(resolve_plugins(getattr(target, "plugins", ()) or settings.plugins, settings))
    order = {hook: [name for _, name in getattr(hooks, hook)] for hook in LIFECYCLE_HOOKS if getattr(hooks, hook)}
    asyncio.run(notify(hooks.close, "close"))
    if as_json:
        click.echo(json.dumps({"agent": target.name, "plugins": [name for name, _ in hooks.plugins], "hooks": order}))
    elif not order:
        click.echo(f"{target.name}: no plugin implements a hook")
    else:
        for line in aligned([(hook, " → ".join(names)) for hook, names in order.items()]):
            click.echo(line)
