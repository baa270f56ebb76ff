"""Provider hooks of hookwork-gcs: what a ``gs:`` URL stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.plugins.markers import hookimpl

if TYPE_CHECKING:
    from hookwork.services import ArtifactService


@hookimpl
def create_artifact_service(url: str, settings: dict[str, Any]) -> ArtifactService | None:
    """Artifacts in a bucket, ``gs://bucket``; the options are in the README."""
    if url.partition(":")[0].lower() != "gs" or ":" not in url:
        return None
    from hookwork_gcs.opening import artifact_service

    return artifact_service(url, settings=settings)
