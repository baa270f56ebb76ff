"""Ordinary work on MariaDB says nothing: the driver logs each warning of the server, ids included.

Each costs a SHOW WARNINGS too, a round trip more (spec DBP-7).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.database.test_mariadb import Databases

from hookwork_database import DatabaseSessionService
from hookwork_testkit.suites.base import say


@pytest_asyncio.fixture
async def databases() -> AsyncIterator[Databases]:
    made = Databases()
    yield made
    await made.drop()


async def test_further_sessions_of_a_known_user_warn_of_nothing(
    databases: Databases, caplog: pytest.LogCaptureFixture
) -> None:
    service = DatabaseSessionService(await databases.url())
    caplog.set_level(logging.WARNING)
    for number in range(2):
        session = await service.create_session(
            app_name="a", user_id="ann@example.com", state={"user:lang": "de", "app:unit": "C", "n": number}
        )
        await service.append_event(session, say("x", delta={"user:lang": "fr", "app:unit": "F", "n": 7}))
    kept = await service.create_session(app_name="a", user_id="ann@example.com")
    assert dict(kept.state) == {"user:lang": "fr", "app:unit": "F"}
    await service.close()
    assert caplog.text == ""
