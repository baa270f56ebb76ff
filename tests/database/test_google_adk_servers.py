"""Tables on PostgreSQL and MariaDB that google-adk itself made (CS-39 on servers, spec DBL-2, DBL-3)."""

from __future__ import annotations

import os
from typing import Any

import pytest
from tests.database.test_layouts import as_adk_reads, needs_peer, peer
from tests.database.test_mariadb import HOST, PORT, Databases, administer
from tests.database.test_mariadb import databases as databases
from tests.database.test_postgresql import SERVER, _administer

from hookwork.errors import BackendError, ConfigurationError, SessionNotFoundError
from hookwork_database import session_service
from hookwork_testkit.suites.base import say, texts

KEY: dict[str, Any] = {"app_name": "golden", "user_id": "u1", "session_id": "s"}


async def check_turns(ours: str, theirs: str) -> None:
    """Both append in turns to a session that google-adk's tables hold; both read everything equally."""
    service = session_service(ours)
    session = await service.create_session(**KEY, state={"app:count": 1})
    key = ("v1", theirs, "golden", "u1", "s")
    for number in range(2):
        await service.append_event(session, say(f"ours {number}", delta={"ours": number, "user:ours": number}))
        later = session.last_update_time.timestamp() + 1
        found = await peer(*key, "append", f"theirs {number}", later, "theirs", "user:theirs")
        await service.refresh(session)
        assert found["state"] == dict(session.state)
        assert [as_adk_reads(document) for document in found["events"]] == list(session.events)
    assert texts(session) == ["ours 0", "theirs 0", "ours 1", "theirs 1"]
    await service.close()


@needs_peer
async def test_cs_39_google_adk_and_hookwork_take_turns_on_postgresql() -> None:
    name = f"hookwork_adk_{os.getpid()}"
    await _administer(f"CREATE DATABASE {name}")
    try:
        ours = SERVER.rpartition("/")[0] + f"/{name}"
        theirs = ours.replace("postgresql:", "postgresql+asyncpg:")
        await peer("tables", theirs, "golden", "u1", "none")
        await check_turns(ours, theirs)
    finally:
        await _administer(f"DROP DATABASE {name} WITH (FORCE)")


@needs_peer
async def test_dbl_2_google_adk_and_hookwork_take_turns_on_mariadb(databases: Databases) -> None:
    """Under ``mysql+`` google-adk's times are exact, but its ids follow the database's collation."""
    name = await databases.name()
    theirs = f"mysql+asyncmy://root@{HOST}:{PORT}/{name}"
    await peer("tables", theirs, "golden", "u1", "none")
    ours = f"mysql://root@{HOST}:{PORT}/{name}"
    await check_turns(ours, theirs)
    service = session_service(ours)
    for other in ("U1", "u1 "):
        with pytest.raises(BackendError, match="binary collation"):
            await service.get_session(**{**KEY, "user_id": other})
        with pytest.raises(BackendError, match="binary collation"):
            await service.create_session(app_name="golden", user_id=other)
    with pytest.raises(SessionNotFoundError):
        await service.get_session(**{**KEY, "session_id": "S"})
    await service.delete_session(**{**KEY, "session_id": "S"})
    assert len(await service.list_sessions(app_name="golden", user_id="u1")) == 1
    assert await service.list_sessions(app_name="Golden") == []
    await service.close()


@needs_peer
async def test_dbl_3_google_adks_mariadb_tables_are_refused_and_can_be_repaired(databases: Databases) -> None:
    name = await databases.name()
    theirs = f"mariadb+asyncmy://root@{HOST}:{PORT}/{name}"
    await peer("tables", theirs, "golden", "u1", "none")
    ours = f"mariadb://root@{HOST}:{PORT}/{name}"
    service = session_service(ours)
    with pytest.raises(ConfigurationError, match=r"DATETIME\(6\)") as refused:
        await service.open()
    await service.close()
    remedy = [line for line in str(refused.value).splitlines() if line.startswith("ALTER")]
    await administer(*remedy, "SELECT 1", database=name)
    await check_turns(ours, theirs)
