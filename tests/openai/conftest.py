"""A scripted service for each test, on one real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.openai.server import Service, ServiceHost, running_host


@pytest.fixture(scope="session")
def host() -> Iterator[ServiceHost]:
    with running_host() as host:
        yield host


@pytest.fixture
def service(host: ServiceHost) -> Service:
    return host.service()


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine's environment says of accounts and addresses decides nothing here."""
    for name in ("API_KEY", "BASE_URL", "ORG_ID", "PROJECT_ID", "ADMIN_KEY", "CUSTOM_HEADERS"):
        monkeypatch.delenv(f"OPENAI_{name}", raising=False)
    monkeypatch.delenv("AZURE_OPENAI_API_KEY", raising=False)
