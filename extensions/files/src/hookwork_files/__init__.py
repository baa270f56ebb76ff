"""Artifacts in a folder. Names are resolved lazily to keep start-up light."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_files.opening import artifact_service
    from hookwork_files.service import FileArtifactService

_HOMES = {
    "FileArtifactService": "hookwork_files.service",
    "artifact_service": "hookwork_files.opening",
}

__all__ = ["FileArtifactService", "artifact_service"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(home), name)
    return value
