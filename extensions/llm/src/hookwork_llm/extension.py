"""Provider hooks of hookwork-llm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork import hookimpl

if TYPE_CHECKING:
    from hookwork.cli import CommandRegistry
    from hookwork.model import Model

_FALLBACK = "fallback:"
_ON_AUTH = "fallback_on_auth"


@hookimpl
def create_model(name: str, settings: dict[str, Any]) -> Model | None:
    """``fallback:a,b,c`` (models WRP-1).

    Raises:
        hookwork.errors.ConfigurationError: ``[tool.hookwork.llm]`` holds another key than ``fallback_on_auth``, or
            that is not true or false.
    """
    if not name.startswith(_FALLBACK):
        return None
    from hookwork_llm.model_wrappers.fallback import FallbackModel

    on_auth = _on_auth(settings)
    names = [part.strip() for part in name.removeprefix(_FALLBACK).split(",")]
    return FallbackModel([part for part in names if part], name=name, on_auth=on_auth)


def _on_auth(settings: dict[str, Any]) -> bool:
    from hookwork.catalogue import did_you_mean
    from hookwork.errors import ConfigurationError

    for key in settings:
        if key != _ON_AUTH:
            near = did_you_mean(key, [_ON_AUTH])
            raise ConfigurationError(f"[tool.hookwork.llm]: unknown key {key!r}{near}; known keys: {_ON_AUTH}")
    value = settings.get(_ON_AUTH, False)
    if not isinstance(value, bool):
        raise ConfigurationError(f"[tool.hookwork.llm]: {_ON_AUTH} is true or false, not {value!r}")
    return value


@hookimpl
def register_commands(cli: CommandRegistry) -> None:
    """`hookwork prompt`."""
    cli.add("prompt", "Show the request a turn would send, without sending it.", "hookwork_llm.prompt_command:command")
