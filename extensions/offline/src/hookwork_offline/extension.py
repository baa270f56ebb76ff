"""Provider hooks of hookwork-offline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork import hookimpl

if TYPE_CHECKING:
    from hookwork.model import Model


@hookimpl
def create_model(name: str, settings: dict[str, Any]) -> Model | None:
    """The model named ``offline``; every other name belongs to somebody else (models REG-1a).

    Raises:
        hookwork.errors.ConfigurationError: ``[tool.hookwork.offline]`` holds an unknown key or a bad value.
    """
    if name != "offline":
        return None
    from hookwork_offline.model import OfflineModel

    return OfflineModel.from_settings(settings)
