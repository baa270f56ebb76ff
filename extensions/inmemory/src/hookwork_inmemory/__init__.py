"""Session, memory and artifact services that live in the process. Names are resolved lazily to keep start-up light."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_inmemory.artifacts import InMemoryArtifactService
    from hookwork_inmemory.memory import InMemoryMemoryService
    from hookwork_inmemory.sessions import InMemorySessionService

__all__ = ["InMemoryArtifactService", "InMemoryMemoryService", "InMemorySessionService"]

_HOMES = {
    "InMemoryArtifactService": "hookwork_inmemory.artifacts",
    "InMemoryMemoryService": "hookwork_inmemory.memory",
    "InMemorySessionService": "hookwork_inmemory.sessions",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(home), name)
    return value
