"""Provider hooks of hookwork-inmemory: what a ``memory:`` URL stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.plugins.markers import hookimpl

if TYPE_CHECKING:
    from hookwork.services import ArtifactService, MemoryService, SessionService


def _is_ours(url: str) -> bool:
    return url.partition(":")[0].lower() == "memory" and ":" in url


@hookimpl
def create_session_service(url: str, settings: dict[str, Any]) -> SessionService | None:
    """Sessions in the process; options ``max_sessions``, ``foreign_appends``."""
    if not _is_ours(url):
        return None
    from hookwork_inmemory.options import options_of
    from hookwork_inmemory.sessions import InMemorySessionService

    return InMemorySessionService(**options_of(url, settings, "sessions"))


@hookimpl
def create_artifact_service(url: str, settings: dict[str, Any]) -> ArtifactService | None:
    """Artifacts in the process; options ``first_version``, ``nested_names``, ``reuse_versions``."""
    if not _is_ours(url):
        return None
    from hookwork_inmemory.artifacts import InMemoryArtifactService
    from hookwork_inmemory.options import options_of

    return InMemoryArtifactService(**options_of(url, settings, "artifacts"))


@hookimpl
def create_memory_service(url: str, settings: dict[str, Any]) -> MemoryService | None:
    """Memory in the process; option ``max_results``."""
    if not _is_ours(url):
        return None
    from hookwork_inmemory.memory import InMemoryMemoryService
    from hookwork_inmemory.options import options_of

    return InMemoryMemoryService(**options_of(url, settings, "memory"))
