"""What Gemini models can do, by generation and backend (models CAP-2, CAP-3, CAP-5)."""

from __future__ import annotations

import re

from msgspec import structs

from hookwork.model import ModelCapabilities

GEMINI_API = "gcp.gemini"
VERTEX_AI = "gcp.vertex_ai"

_VERSION = re.compile(r"^gemini-(\d+(?:\.\d+)?)")

_BUILTIN_TOOLS = ("google_search", "google_search_retrieval", "google_maps", "url_context", "code_execution",
                  "computer_use")  # fmt: skip
_VERTEX_TOOLS = ("enterprise_web_search", "retrieval", "parallel_ai_search", "exa_ai_search")
_API_TOOLS = ("file_search", "mcp_servers")


def version_of(name: str) -> float | None:
    """The generation in a model's name: ``gemini-2.5-flash`` → 2.5; None for a name without a number (CAP-2)."""
    found = _VERSION.match(name.rpartition("/")[2].lower())
    return float(found[1]) if found is not None else None


def by_interactions(capabilities: ModelCapabilities) -> ModelCapabilities:
    """The same model through the Interactions API: calls and results are paired by their ids there."""
    return structs.replace(
        capabilities,
        pairs_calls_by_id=True,
        output_schema_with_tools=False,
        builtin_tools=frozenset(("google_search", "google_maps", "url_context", "code_execution")),
    )


def capabilities_of(name: str, *, vertexai: bool) -> ModelCapabilities:
    """The capability record of a model on one of the two backends."""
    version = version_of(name)
    own_tools = _VERTEX_TOOLS if vertexai else _API_TOOLS
    return ModelCapabilities(
        provider=VERTEX_AI if vertexai else GEMINI_API,
        live=True,
        output_schema=True,
        output_schema_with_tools=vertexai and version is not None and version >= 2,
        builtin_tools=frozenset((*_BUILTIN_TOOLS, *own_tools)),
        builtin_with_functions=version is not None and version >= 3,
        file_uris=True,
        media=("image/", "audio/", "video/", "text/", "application/pdf"),
        reasoning=version is not None and version >= 2.5,
    )
