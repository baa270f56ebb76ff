"""Provider hooks of services and credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.plugins.markers import hookspec

if TYPE_CHECKING:
    from hookwork.services import ArtifactService, MemoryService, SessionService


class ServiceProviders:
    """Who makes services from URLs (services §9). Each builds without I/O; None: not my scheme."""

    @hookspec
    def create_session_service(self, url: str, settings: dict[str, Any]) -> SessionService | None:
        """Called for ``sessions=URL``; the first service wins."""

    @hookspec
    def create_artifact_service(self, url: str, settings: dict[str, Any]) -> ArtifactService | None:
        """Called for ``artifacts=URL``; the first service wins."""

    @hookspec
    def create_memory_service(self, url: str, settings: dict[str, Any]) -> MemoryService | None:
        """Called for ``memory=URL``; the first service wins."""

    @hookspec
    def create_credential_provider(self, kind: str, settings: dict[str, Any]) -> Any:
        """Called for a credential provider named in settings or YAML; the first object wins."""
