"""Provider hook of models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.plugins.markers import hookspec

if TYPE_CHECKING:
    from hookwork.model import Model


class ModelProviders:
    """Who makes models from names."""

    @hookspec
    def create_model(self, name: str, settings: dict[str, Any], addressed: bool) -> Model | None:
        """Called when a model is given by name (models REG-1); the first model wins.

        ``name`` is the name without the ``provider/`` prefix; ``settings`` the extension's own table; ``addressed``
        tells that the prefix was there: no pattern need match then. Do no I/O and need no credentials. None: not
        mine. A raise means "mine, but wrong": it propagates, nobody else is asked.
        """
