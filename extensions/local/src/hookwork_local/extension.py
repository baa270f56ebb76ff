"""Provider hooks of hookwork-local: the names ``local/path.gguf``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.plugins.markers import hookimpl

if TYPE_CHECKING:
    from hookwork.model import Model


@hookimpl
def create_model(name: str, settings: dict[str, Any], addressed: bool) -> Model | None:
    """The model of a weight file; only as ``local/…`` (models LOC-1).

    Raises:
        hookwork.errors.ConfigurationError: ``[tool.hookwork.local]`` holds an unknown key or a bad value.
    """
    if not addressed:
        return None
    from hookwork_local.model import LocalModel

    return LocalModel(name, **settings)
