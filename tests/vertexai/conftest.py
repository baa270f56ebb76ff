"""The fake service of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.vertexai.fake import FakeVertex, running


@pytest.fixture(scope="session")
def served() -> Iterator[FakeVertex]:
    """The fake, served over HTTP."""
    with running(FakeVertex()) as fake:
        yield fake


@pytest.fixture
def fake(served: FakeVertex) -> FakeVertex:
    """The same, empty."""
    served.reset()
    return served
