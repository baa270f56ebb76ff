"""Provider hooks of hookwork-skills: the toolset kind ``skills``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork import hookimpl

if TYPE_CHECKING:
    from hookwork.tool import Toolset


@hookimpl
def create_toolset(kind: str, settings: dict[str, Any]) -> Toolset | None:
    """Skills of a ``folder`` or a ``package``; further keys: ``name``, ``instruction``, ``strict``."""
    if kind != "skills":
        return None
    from hookwork_skills.options import toolset_of

    return toolset_of(settings)
