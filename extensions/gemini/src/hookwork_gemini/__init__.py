"""Gemini API and Vertex AI models for Hookwork, live connections included.

Names are resolved on first use; google-genai is imported at the first call.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_gemini.caching import ContextCache
    from hookwork_gemini.conversion import config_from_genai, from_genai, to_genai
    from hookwork_gemini.interactions.settings import Interactions
    from hookwork_gemini.model import GeminiModel

_HOMES = {
    "ContextCache": "caching",
    "GeminiModel": "model",
    "Interactions": "interactions.settings",
    "config_from_genai": "conversion",
    "from_genai": "conversion",
    "to_genai": "conversion",
}

__all__ = ["ContextCache", "GeminiModel", "Interactions", "config_from_genai", "from_genai", "to_genai"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
