"""Provider hooks of hookwork-needle: the name ``needle``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.plugins.markers import hookimpl

if TYPE_CHECKING:
    from hookwork.model import Model

_NAMES = ("needle", "needle3")


@hookimpl
def create_model(name: str, settings: dict[str, Any]) -> Model | None:
    """The packaged model (models LOC-3).

    Raises:
        hookwork.errors.ConfigurationError: ``[tool.hookwork.needle]`` holds an unknown key or a bad value.
    """
    if name not in _NAMES:
        return None
    from hookwork_needle.model import NeedleModel

    return NeedleModel.from_settings(settings)
