"""Provider hooks of hookwork-gemini: which model names are its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hookwork import hookimpl

if TYPE_CHECKING:
    from hookwork.model import Model

#: Gemini models by short or full name, and Vertex AI endpoints (models §2).
_NAMES = re.compile(
    r"^(?:models/|publishers/google/models/)?gemini-|^projects/.+/(?:publishers/google/models/gemini-|endpoints/)"
)


@hookimpl
def create_model(name: str, settings: dict[str, Any]) -> Model | None:
    """A Gemini model; other names belong to somebody else. The options are in the README.

    Raises:
        hookwork.errors.ConfigurationError: ``[tool.hookwork.gemini]`` holds an unknown key or a wrong value.
    """
    if _NAMES.search(name) is None:
        return None
    from hookwork_gemini.model import GeminiModel
    from hookwork_gemini.options import options_from

    return GeminiModel(name, **options_from(settings))
