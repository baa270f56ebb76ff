"""Agent Engine sessions, Memory Bank and RAG memory. Names are resolved lazily to keep start-up light."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_vertexai.memory_bank import VertexAiMemoryBankService
    from hookwork_vertexai.opening import memory_service, session_service
    from hookwork_vertexai.rag import VertexAiRagMemoryService
    from hookwork_vertexai.sessions import VertexAiSessionService

_HOMES = {
    "VertexAiMemoryBankService": "hookwork_vertexai.memory_bank",
    "VertexAiRagMemoryService": "hookwork_vertexai.rag",
    "VertexAiSessionService": "hookwork_vertexai.sessions",
    "memory_service": "hookwork_vertexai.opening",
    "session_service": "hookwork_vertexai.opening",
}

__all__ = [
    "VertexAiMemoryBankService",
    "VertexAiRagMemoryService",
    "VertexAiSessionService",
    "memory_service",
    "session_service",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(home), name)
    return value
