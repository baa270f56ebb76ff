"""Provider hook of toolsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.plugins.markers import hookspec

if TYPE_CHECKING:
    from hookwork.tool import Toolset


class ToolProviders:
    """Who makes toolsets from names."""

    @hookspec
    def create_toolset(self, kind: str, settings: dict[str, Any]) -> Toolset | None:
        """Called for a toolset named in settings or YAML; the first toolset wins."""
