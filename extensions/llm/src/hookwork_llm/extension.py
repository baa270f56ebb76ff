"""Provider hooks of hookwork-llm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookwork import hookimpl

if TYPE_CHECKING:
    from hookwork.cli import CommandRegistry


@hookimpl
def register_commands(cli: CommandRegistry) -> None:
    """`hookwork prompt`."""
    cli.add("prompt", "Show the request a turn would send, without sending it.", "hookwork_llm.prompt_command:command")
