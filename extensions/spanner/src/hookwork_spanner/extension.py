"""Provider hooks of hookwork-spanner: what ``spanner:`` URLs stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.plugins.markers import hookimpl

if TYPE_CHECKING:
    from hookwork.services import SessionService


@hookimpl
def create_session_service(url: str, settings: dict[str, Any]) -> SessionService | None:
    """Sessions in a Spanner database; the options are in the README."""
    if url.partition(":")[0].partition("+")[0].lower() != "spanner":
        return None
    from hookwork_spanner.opening import session_service

    return session_service(url, settings=settings)
