"""The local service, and an environment without anybody's keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.gemini.interactions_service import InteractionsService
from tests.gemini.live_service import LiveServer, live_server
from tests.gemini.service import Service, served

from hookwork_gemini import conversion


@pytest.fixture(scope="session")
def running_service() -> Iterator[Service]:
    service = Service()
    with served(service) as url:
        service.url = url
        yield service


@pytest.fixture
def service(running_service: Service) -> Service:
    running_service.reset()
    return running_service


@pytest.fixture(scope="session")
def running_interactions() -> Iterator[InteractionsService]:
    service = InteractionsService()
    with served(service) as url:
        service.url = url
        yield service


@pytest.fixture
def kept(running_interactions: InteractionsService) -> InteractionsService:
    running_interactions.reset()
    return running_interactions


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "GOOGLE_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_GENAI_USE_ENTERPRISE",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_GENAI_API_VERSION",
        "GOOGLE_APPLICATION_CREDENTIALS",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LiveServer]:
    async with live_server(monkeypatch) as running:
        yield running


@pytest.fixture(autouse=True)
def warn_again() -> None:
    conversion._warned.clear()
