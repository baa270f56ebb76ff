"""Provider hooks of hookwork-vertexai: what ``vertexai:``, ``agentengine:`` and ``rag:`` URLs stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.plugins.markers import hookimpl

if TYPE_CHECKING:
    from hookwork.services import MemoryService, SessionService


def _scheme(url: str) -> str:
    scheme, colon, _ = url.partition(":")
    return scheme.lower() if colon else ""


@hookimpl
def create_session_service(url: str, settings: dict[str, Any]) -> SessionService | None:
    """Agent Engine sessions, ``vertexai://project/location/engine``; the options are in the README."""
    if _scheme(url) not in ("vertexai", "agentengine"):
        return None
    from hookwork_vertexai.opening import session_service

    return session_service(url, settings=settings)


@hookimpl
def create_memory_service(url: str, settings: dict[str, Any]) -> MemoryService | None:
    """Memory Bank (``vertexai:``) or a RAG corpus, ``rag://project/location/corpus``; the options are in the README."""
    if _scheme(url) not in ("vertexai", "agentengine", "rag"):
        return None
    from hookwork_vertexai.opening import memory_service

    return memory_service(url, settings=settings)
