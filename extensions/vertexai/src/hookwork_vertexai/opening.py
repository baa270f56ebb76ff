"""Services from ``vertexai:``, ``agentengine:`` and ``rag:`` URLs (services URL-2, URL-3, URL-7)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hookwork.errors import ConfigurationError, ValidationError
from hookwork.service_options import SWITCH, WHOLE_NUMBER, Option, options_of, words
from hookwork.urls import redact_url

if TYPE_CHECKING:
    from hookwork.services import MemoryService
    from hookwork_vertexai.sessions import VertexAiSessionService

_NUMBER = Option(float, float, "a number")
_TEXT = Option(str, str, "text")
_COMMON = {"base_url": _TEXT, "timeout": Option(float, float, "a number of seconds")}
SESSIONS: Mapping[str, Option] = {**_COMMON, "cache_sessions": WHOLE_NUMBER, "ttl": _NUMBER}
MEMORY_BANK: Mapping[str, Option] = {
    **_COMMON,
    "scope_keys": words("app_name,user_id", "user_id"),
    "top_k": WHOLE_NUMBER,
    "wait_for_completion": SWITCH,
    "start_time_key": _TEXT,
    "source": words("session", "events"),
}
RAG: Mapping[str, Option] = {**_COMMON, "top_k": WHOLE_NUMBER, "distance_threshold": _NUMBER}
_ALL = {**SESSIONS, **MEMORY_BANK, **RAG}

_ENGINE_FORM = "vertexai://project/location/engine"
_CORPUS_FORM = "rag://project/location/corpus"
_TRUE = ("1", "true", "yes", "on")


def session_service(url: str, *, settings: Mapping[str, Any] | None = None) -> VertexAiSessionService:
    """The sessions of ``vertexai://project/location/engine?option=value``; no I/O is done.

    Args:
        settings: the table ``[tool.hookwork.vertexai]``; the URL's options win.

    Raises:
        ConfigurationError: the URL names no engine, or an option is wrong.
    """
    from hookwork_vertexai.sessions import VertexAiSessionService

    return _made(VertexAiSessionService, url, settings, "sessions", SESSIONS)  # type: ignore[no-any-return]


def memory_service(url: str, *, settings: Mapping[str, Any] | None = None) -> MemoryService:
    """The Memory Bank of a ``vertexai:`` URL, or the corpus of ``rag://project/location/corpus``; no I/O is done.

    Args:
        settings: the table ``[tool.hookwork.vertexai]``; the URL's options win.

    Raises:
        ConfigurationError: the URL names no engine or corpus, or an option is wrong.
    """
    if url.partition(":")[0].lower() == "rag":
        from hookwork_vertexai.rag import VertexAiRagMemoryService

        return _made(VertexAiRagMemoryService, url, settings, "memory", RAG)  # type: ignore[no-any-return]
    from hookwork_vertexai.memory_bank import VertexAiMemoryBankService

    return _made(VertexAiMemoryBankService, url, settings, "memory", MEMORY_BANK)  # type: ignore[no-any-return]


def _made(service: Any, url: str, settings: Mapping[str, Any] | None, kind: str, options: Mapping[str, Option]) -> Any:
    at = f"{kind} URL {redact_url(url)!r}"
    body, _, query = url.partition(":")[2].partition("?")
    given = options_of(query, settings, options, extension="vertexai", at=at, others=_ALL)
    where = _where(body, at, corpus=options is RAG)
    try:
        return service(**where, **given)
    except ValidationError as error:
        raise ConfigurationError(f"{at}: {redact_url(str(error))}") from error


def _where(body: str, at: str, *, corpus: bool) -> dict[str, Any]:
    """The arguments that say which engine or corpus is meant."""
    from urllib.parse import unquote

    form = _CORPUS_FORM if corpus else _ENGINE_FORM
    parts = [unquote(part) for part in body.removeprefix("//").rstrip("/").split("/")]
    if not body.startswith("//") or "@" in body or not all(parts):
        raise ConfigurationError(f"{at} must be like {form}")
    last = "corpora" if corpus else "engine"
    if len(parts) == 6 and parts[::2] == ["projects", "locations", "ragCorpora" if corpus else "reasoningEngines"]:
        parts = parts[1::2]
    if len(parts) == 3:
        return {"project": parts[0], "location": parts[1], last: parts[2]}
    if len(parts) == 1:
        return {**_surroundings(at, form, express=not corpus), last: parts[0]}
    raise ConfigurationError(f"{at} must be like {form}")


def _surroundings(at: str, form: str, *, express: bool) -> dict[str, Any]:
    """Project and location of the environment, or the API key of an express-mode account (URL-7, BEY-5)."""
    project = os.environ.get("GOOGLE_CLOUD_PROJECT", "").strip()
    location = os.environ.get("GOOGLE_CLOUD_LOCATION", "").strip()
    if project and location:
        return {"project": project, "location": location}
    key = os.environ.get("GOOGLE_API_KEY", "").strip()
    switches = ("GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI")
    if express and key and not project and any(os.environ.get(name, "").lower() in _TRUE for name in switches):
        return {"api_key": key}
    raise ConfigurationError(
        f"{at} names no project and location; write {form}, or set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION"
    )
