"""Provider hooks of hookwork-testkit: its commands, imported only when they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookwork.plugins.markers import hookimpl

if TYPE_CHECKING:
    from hookwork.cli import CommandRegistry


@hookimpl
def register_commands(cli: CommandRegistry) -> None:
    """`hookwork new`."""
    cli.add("new", "Write a new plugin, extension or agent, with tests.", "hookwork_testkit.new.command:command")
