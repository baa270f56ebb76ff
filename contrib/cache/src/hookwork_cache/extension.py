"""Provider hooks of hookwork-cache: models of the name ``cached:NAME``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.plugins.markers import hookimpl

if TYPE_CHECKING:
    from hookwork.model import Model

_PREFIX = "cached:"


@hookimpl
def create_model(name: str, settings: dict[str, Any]) -> Model | None:
    """``cached:NAME``: a model that answers repeated requests from memory. Its options: ``[tool.hookwork.cached]``.

    Raises:
        hookwork.errors.ConfigurationError: an unknown option or a wrong value, or nobody takes the name.
    """
    if not name.startswith(_PREFIX):
        return None
    from hookwork_cache.model import CachedModel

    return CachedModel.named(name.removeprefix(_PREFIX).strip(), settings)
