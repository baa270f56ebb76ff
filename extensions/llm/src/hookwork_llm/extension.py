"""Provider hooks of hookwork-llm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork import hookimpl

if TYPE_CHECKING:
    from hookwork.cli import CommandRegistry
    from hookwork.model import Model

_FALLBACK = "fallback:"


@hookimpl
def create_model(name: str, settings: dict[str, Any]) -> Model | None:
    """``fallback:a,b,c`` (models WRP-1)."""
    if not name.startswith(_FALLBACK):
        return None
    from hookwork_llm.model_wrappers.fallback import FallbackModel

    names = [part.strip() for part in name.removeprefix(_FALLBACK).split(",")]
    return FallbackModel([part for part in names if part], name=name)


@hookimpl
def register_commands(cli: CommandRegistry) -> None:
    """`hookwork prompt`."""
    cli.add("prompt", "Show the request a turn would send, without sending it.", "hookwork_llm.prompt_command:command")
