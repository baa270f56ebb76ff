"""What ``vertexai:``, ``agentengine:`` and ``rag:`` URLs give (services URL-1 … URL-3, URL-7 … URL-9)."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from typing import Any

import pytest
from tests.vertexai.fake import FakeVertex
from tests.vertexai.steps import ENGINE

from hookwork.catalogue import UNRELEASED
from hookwork.errors import ConfigurationError
from hookwork.resolve import resolve_memory_service, resolve_session_service
from hookwork_vertexai import (
    VertexAiMemoryBankService,
    VertexAiRagMemoryService,
    VertexAiSessionService,
    extension,
)

CORPUS = "projects/p/locations/us-central1/ragCorpora/c"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        *("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_API_KEY"),
        *("GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI"),
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "url",
    [
        "vertexai://p/us-central1/42",
        "VertexAI://p/us-central1/42/",
        "vertexai://p/us-central1/42?timeout=5",
        f"vertexai://{ENGINE}",
        f"agentengine://{ENGINE}",
        "agentengine://p/us-central1/42",
        "vertexai://%70/us-central1/42",
    ],
)
def test_url_1_url_7_engines(url: str) -> None:
    service: Any = extension.create_session_service(url=url, settings={})
    assert isinstance(service, VertexAiSessionService)
    memory: Any = extension.create_memory_service(url=url.replace("cache_sessions", "x"), settings={})
    assert isinstance(memory, VertexAiMemoryBankService)
    for made in (service, memory):
        assert (made.place, made.engine) == (("p", "us-central1"), "42")


@pytest.mark.parametrize("url", ["rag://p/us-central1/c", f"rag://{CORPUS}", "RAG://p/us-central1/c?top_k=3"])
def test_url_7_corpora(url: str) -> None:
    memory: Any = extension.create_memory_service(url=url, settings={})
    assert isinstance(memory, VertexAiRagMemoryService)
    assert memory.corpora == (CORPUS,)
    assert extension.create_session_service(url=url, settings={}) is None


@pytest.mark.parametrize("url", ["memory:", "vertexai", "vertex://p/l/1", "sqlite:///vertexai:", ""])
def test_url_1_other_schemes_are_left_to_others(url: str) -> None:
    assert extension.create_session_service(url=url, settings={}) is None
    assert extension.create_memory_service(url=url, settings={}) is None


def test_url_7_a_bare_id_takes_its_place_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for call in (extension.create_session_service, extension.create_memory_service):
        with pytest.raises(ConfigurationError, match="GOOGLE_CLOUD_LOCATION"):
            call(url="agentengine://42", settings={})
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    with pytest.raises(ConfigurationError, match="GOOGLE_CLOUD_LOCATION"):
        extension.create_memory_service(url="rag://c", settings={})
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "us-central1")
    service: Any = extension.create_session_service(url="agentengine://42", settings={})
    assert (service.place, service.engine) == (("p", "us-central1"), "42")
    memory: Any = extension.create_memory_service(url="rag://c", settings={})
    assert memory.corpora == (CORPUS,)


def test_bey_5_a_bare_id_in_express_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "secret")
    with pytest.raises(ConfigurationError) as refused:  # a key alone may be one of AI Studio
        extension.create_session_service(url="agentengine://42", settings={})
    assert "secret" not in str(refused.value)
    monkeypatch.setenv("GOOGLE_GENAI_USE_ENTERPRISE", "True")
    service: Any = extension.create_session_service(url="agentengine://42", settings={})
    assert (service.place, service.engine) == (("", ""), "42")
    with pytest.raises(ConfigurationError):
        extension.create_memory_service(url="rag://c", settings={})


def test_url_2_options_win_over_settings() -> None:
    settings = {"top_k": 5, "scope_keys": "user_id", "timeout": 5, "cache_sessions": 3, "distance_threshold": 2}
    bank: Any = extension.create_memory_service(url="vertexai://p/us-central1/42?top_k=9", settings=settings)
    assert (bank.top_k, bank.scope_keys, bank.wait_for_completion) == (9, ("user_id",), False)
    query = "wait_for_completion=yes&start_time_key=since&source=events&scope_keys=app_name,user_id"
    bank = extension.create_memory_service(url=f"vertexai://p/us-central1/42?{query}", settings=settings)
    assert (bank.wait_for_completion, bank.start_time_key, bank.source) == (True, "since", "events")
    assert bank.scope_keys == ("app_name", "user_id")
    rag: Any = extension.create_memory_service(url="rag://p/us-central1/c?distance_threshold=0.5", settings=settings)
    assert (rag.top_k, rag.distance_threshold) == (5, 0.5)
    service: Any = extension.create_session_service(url="vertexai://p/us-central1/42", settings=settings)
    assert service._cache._size == 3


@pytest.mark.parametrize(
    ("kind", "url", "settings", "said"),
    [
        ("session", "vertexai:42", {}, ["vertexai://project/location/engine"]),
        ("session", "vertexai://", {}, ["vertexai://project/location/engine"]),
        ("session", "vertexai://p/us-central1", {}, ["vertexai://project/location/engine"]),
        ("session", "vertexai://p//42", {}, ["vertexai://project/location/engine"]),
        ("session", "vertexai://p/us-central1/42/extra", {}, ["vertexai://project/location/engine"]),
        ("session", "vertexai://p/us-central1/shop", {}, ["shop", "number"]),
        ("session", "vertexai://p/us%2Fcentral1/42", {}, ["location"]),
        ("session", "vertexai://p/us-central1/42?tmeout=5", {}, ["tmeout", "timeout"]),
        ("session", "vertexai://p/us-central1/42?timeout=soon", {}, ["timeout", "number of seconds"]),
        ("session", "vertexai://p/us-central1/42?timeout=1&timeout=2", {}, ["twice"]),
        ("session", "vertexai://p/us-central1/42?top_k=5", {}, ["top_k"]),
        ("session", "vertexai://p/us-central1/42", {"cache_session": 3}, ["tool.hookwork.vertexai", "cache_sessions"]),
        ("session", "vertexai://p/us-central1/42", {"timeout": "3"}, ["tool.hookwork.vertexai", "number of seconds"]),
        ("session", "vertexai://ann:secret@p/us-central1/42", {}, ["***"]),
        ("memory", "vertexai://p/us-central1/42?scope_keys=team", {}, ["scope_keys"]),
        ("memory", "vertexai://p/us-central1/42?top_k=1000", {}, ["top_k", "100"]),
        ("memory", "rag://p/us-central1", {}, ["rag://project/location/corpus"]),
        ("memory", "rag://p/us-central1/c%2Fd", {}, ["corpus"]),
        ("memory", f"rag://{ENGINE}", {}, ["rag://project/location/corpus"]),
    ],
)
def test_url_2_url_3_wrong_urls_are_named(kind: str, url: str, settings: dict[str, Any], said: list[str]) -> None:
    call = extension.create_session_service if kind == "session" else extension.create_memory_service
    with pytest.raises(ConfigurationError) as refused:
        call(url=url, settings=settings)
    for word in said:
        assert word in str(refused.value)
    assert "secret" not in str(refused.value)


async def test_url_8_url_9_the_kernel_finds_them_by_scheme() -> None:
    """No I/O is done, so nobody has to answer."""
    for url, kind in (("vertexai://p/eu/1", VertexAiSessionService), ("AgentEngine://p/eu/1", VertexAiSessionService)):
        service, owned = resolve_session_service(url)
        assert isinstance(service, kind)
        assert owned
        await service.close()
    memory, owned = resolve_memory_service("rag://p/eu/c")
    assert isinstance(memory, VertexAiRagMemoryService)
    assert owned
    await memory.close()
    with pytest.raises(ConfigurationError, match="rag"):
        resolve_session_service("rag://p/eu/c")
    assert "hookwork-vertexai" not in UNRELEASED


def test_the_entry_point_names_the_light_module(fake: FakeVertex) -> None:
    """Design §2: an entry module imports only ``hookwork`` and the standard library; a service, no HTTP library."""
    (found,) = [point for point in entry_points(group="hookwork") if point.name == "vertexai"]
    assert found.value == "hookwork_vertexai.extension"
    code = (
        "import sys, hookwork_vertexai.extension as extension\n"
        "print([name for name in sys.modules if name.startswith('hookwork_vertexai.') and name[18:] != 'extension'"
        " or name in ('urllib.parse', 'difflib', 'msgspec', 'hookwork.services')])\n"
        "for url in ('vertexai://p/eu/1', 'rag://p/eu/c'):\n"
        "    extension.create_session_service(url=url, settings={})\n"
        "    extension.create_memory_service(url=url, settings={})\n"
        "print([name for name in sys.modules if name in ('httpx', 'google.auth', 'requests')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]
