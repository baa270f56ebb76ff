"""Provider hooks of hookwork-audit: its command, imported only when it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookwork.plugins.markers import hookimpl

if TYPE_CHECKING:
    from hookwork.cli import CommandRegistry


@hookimpl
def register_commands(cli: CommandRegistry) -> None:
    """`hookwork audit verify FILE`."""
    cli.add("audit", "Check an audit file.", "hookwork_audit.command:command")
