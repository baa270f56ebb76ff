"""The local services of the adapters behind the proxy, and an environment that names nobody."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.gemini.service import Service as GeminiService
from tests.gemini.service import served
from tests.openai.server import Service as OpenAIService
from tests.openai.server import ServiceHost, running_host

_VARIABLES = (
    "APIGEE_PROXY_URL",
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_GENAI_USE_ENTERPRISE",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_GENAI_API_VERSION",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
)


@pytest.fixture(scope="session")
def running_gemini() -> Iterator[GeminiService]:
    service = GeminiService()
    with served(service) as url:
        service.url = url
        yield service


@pytest.fixture
def gemini(running_gemini: GeminiService) -> GeminiService:
    running_gemini.reset()
    return running_gemini


@pytest.fixture(scope="session")
def running_openai() -> Iterator[ServiceHost]:
    with running_host() as host:
        yield host


@pytest.fixture
def openai(running_openai: ServiceHost) -> OpenAIService:
    return running_openai.service()


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
