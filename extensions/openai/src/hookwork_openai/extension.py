"""Provider hooks of hookwork-openai."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hookwork.plugins.markers import hookimpl

if TYPE_CHECKING:
    from hookwork.model import Model

#: Names that are OpenAI's without a prefix (models §2).
_NAMES = re.compile(r"^(?:gpt-|o\d+(?:-|$)|chatgpt-)")


@hookimpl
def create_model(name: str, settings: dict[str, Any], addressed: bool) -> Model | None:
    """A model of OpenAI, or, as ``openai/name``, any model of the service that ``[tool.hookwork.openai]`` names.

    Raises:
        hookwork.errors.ConfigurationError: ``[tool.hookwork.openai]`` holds an unknown key or a bad value.
    """
    if not addressed and _NAMES.match(name) is None:
        return None
    from hookwork_openai.model import OpenAIModel

    return OpenAIModel.from_settings(name, settings)
