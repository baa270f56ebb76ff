"""The server of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

pytest.importorskip("google.cloud.sqlalchemy_spanner")

from tests.spanner.fake import FakeSpanner

_numbers = count()


@pytest.fixture(scope="session")
def spanner_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeSpanner]:
    """A server, once for all tests."""
    server = FakeSpanner(tmp_path_factory.mktemp("spanner"))
    yield server
    server.stop()


@pytest.fixture
def spanner(spanner_server: FakeSpanner, monkeypatch: pytest.MonkeyPatch) -> FakeSpanner:
    """The same, which clients find as they find the emulator."""
    monkeypatch.setenv("SPANNER_EMULATOR_HOST", spanner_server.host)
    spanner_server.calls.clear()
    spanner_server.statements.clear()
    spanner_server.aborting = 0
    assert spanner_server.failures == []
    return spanner_server


def fresh_url(**options: object) -> str:
    """A database of its own, whose tables are made at first use."""
    more = "".join(f"&{name}={value}" for name, value in options.items())
    return f"spanner://project/instance/database-{next(_numbers)}?create_schema=true{more}"
