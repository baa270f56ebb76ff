"""The server of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.gcs.servers import emulator_at, fake_gcs_server


@pytest.fixture(scope="session")
def gcs_url() -> Iterator[str]:
    """The URL of a fake-gcs-server."""
    with fake_gcs_server() as url:
        yield url


@pytest.fixture
def gcs(gcs_url: str) -> Iterator[str]:
    """The same, named in the environment."""
    with emulator_at(gcs_url):
        yield gcs_url
