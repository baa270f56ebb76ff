"""OpenAI Responses, Chat Completions of any compatible server, and Realtime for Hookwork."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_openai.model import OpenAIModel
    from hookwork_openai.options import Options

_HOMES = {"OpenAIModel": "hookwork_openai.model", "Options": "hookwork_openai.options"}

__all__ = ["OpenAIModel", "Options"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(home), name)
    return value
