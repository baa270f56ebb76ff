"""Provider hooks of hookwork-llm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork import hookimpl

if TYPE_CHECKING:
    from hookwork.cli import CommandRegistry
    from hookwork.model import Model

_FALLBACK = "fallback:"
_REDACTED = "redacted:"
_ON_AUTH = "fallback_on_auth"
_REDACT = "redact"


@hookimpl
def create_model(name: str, settings: dict[str, Any]) -> Model | None:
    """``fallback:a,b,c`` (models WRP-1) and ``redacted:a``.

    Raises:
        hookwork.errors.ConfigurationError: ``[tool.hookwork.llm]`` holds another key than ``fallback_on_auth`` (true
            or false) and ``redact`` (a list of texts), or a value of another kind.
    """
    if not name.startswith((_FALLBACK, _REDACTED)):
        return None
    on_auth, redact = _options(settings)
    if name.startswith(_REDACTED):
        from hookwork_llm.model_wrappers.redacting import RedactedModel

        inner = name.removeprefix(_REDACTED).strip()
        if not inner:
            from hookwork.errors import ConfigurationError

            raise ConfigurationError(f"{name!r} names no model; write {_REDACTED}NAME")
        return RedactedModel(inner, name=name) if redact is None else RedactedModel(inner, patterns=redact, name=name)
    from hookwork_llm.model_wrappers.fallback import FallbackModel

    names = [part.strip() for part in name.removeprefix(_FALLBACK).split(",")]
    return FallbackModel([part for part in names if part], name=name, on_auth=on_auth)


def _options(settings: dict[str, Any]) -> tuple[bool, list[str] | None]:
    """Values of `_ON_AUTH` and `_REDACT`. Raises ConfigurationError."""
    from hookwork.catalogue import did_you_mean
    from hookwork.errors import ConfigurationError

    known = (_ON_AUTH, _REDACT)
    for key in settings:
        if key not in known:
            near = did_you_mean(key, known)
            raise ConfigurationError(f"[tool.hookwork.llm]: unknown key {key!r}{near}; known keys: {', '.join(known)}")
    on_auth, redact = settings.get(_ON_AUTH, False), settings.get(_REDACT)
    if not isinstance(on_auth, bool):
        raise ConfigurationError(f"[tool.hookwork.llm]: {_ON_AUTH} is true or false, not {on_auth!r}")
    if redact is not None and not (isinstance(redact, list) and all(isinstance(item, str) for item in redact)):
        raise ConfigurationError(f"[tool.hookwork.llm]: {_REDACT} is a list of texts, not {redact!r}")
    return on_auth, redact


@hookimpl
def register_commands(cli: CommandRegistry) -> None:
    """`hookwork prompt`."""
    cli.add("prompt", "Show the request a turn would send, without sending it.", "hookwork_llm.prompt_command:command")
