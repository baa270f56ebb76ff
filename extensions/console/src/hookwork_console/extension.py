"""Provider hooks of hookwork-console: its commands, imported only when they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookwork.plugins.markers import hookimpl

if TYPE_CHECKING:
    from hookwork.cli import CommandRegistry


@hookimpl
def register_commands(cli: CommandRegistry) -> None:
    """`hookwork run`, `hookwork chat`, `hookwork sessions` and `hookwork doctor`."""
    cli.add("run", "Run an agent once and print its answer.", "hookwork_console.run:command")
    cli.add("chat", "Talk with an agent.", "hookwork_console.chat:command")
    cli.add("doctor", "Check settings, models and services, and say what to do.", "hookwork_console.doctor:command")
    cli.add("sessions", "List, show, export, import and delete stored sessions.", "hookwork_console.sessions:command")
