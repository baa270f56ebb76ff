"""Engines of SQLAlchemy in place of URLs: used as they are and not closed (services DB-4)."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import StaticPool
from tests.database.test_mariadb import Databases
from tests.database.test_mariadb import databases as databases
from tests.database.test_postgresql import Schemas
from tests.database.test_postgresql import schemas as schemas

from hookwork.errors import ConfigurationError
from hookwork_database import DatabaseSessionService, session_service
from hookwork_testkit.suites.base import say, texts

KEY = {"app_name": "app", "user_id": "user", "session_id": "s"}


async def check_turn(service: DatabaseSessionService) -> None:
    """Two events through two services' worth of paths."""
    session = await service.create_session(**KEY, state={"app:a": 0})
    await service.append_event(session, say("one", delta={"k": 1, "app:a": 1, "user:u": 1}))
    again = await service.get_session(**KEY)
    await service.append_event(again, say("two", delta={"k": 2, "app:a": 2, "user:u": 2}))
    assert texts(again) == ["one", "two"]
    await service.refresh(session)
    assert dict(session.state) == {"k": 2, "app:a": 2, "user:u": 2}
    await service.close()


async def test_db_4_a_sync_engine_in_memory_shares_its_connection() -> None:
    engine = sqlalchemy.create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    await check_turn(DatabaseSessionService(engine))
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.text("SELECT COUNT(*) FROM events")).scalar() == 2
    engine.dispose()


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_db_4_an_engine_on_a_file(tmp_path: Path, asynchronous: bool) -> None:
    """DBP-14: a sync engine does as well."""
    make = create_async_engine if asynchronous else sqlalchemy.create_engine
    if asynchronous:
        pytest.importorskip("aiosqlite")
    engine = make(f"sqlite{'+aiosqlite' if asynchronous else ''}:///{tmp_path}/s.db")
    await check_turn(DatabaseSessionService(engine))


async def test_db_4_an_async_engine_on_postgresql(schemas: Schemas) -> None:
    url = (await schemas.url()).partition("?")[0].replace("postgresql:", "postgresql+asyncpg:")
    settings = {"server_settings": {"search_path": schemas.made[0]}}
    engine = create_async_engine(url, connect_args=settings)
    await check_turn(DatabaseSessionService(engine, create_schema=True))
    async with engine.connect() as connection:
        assert (await connection.execute(sqlalchemy.text("SELECT COUNT(*) FROM events"))).scalar() == 2
    await engine.dispose()


async def test_db_4_an_async_engine_on_mariadb(databases: Databases) -> None:
    url = (await databases.url()).partition("?")[0].replace("mariadb:", "mariadb+asyncmy:")
    engine = create_async_engine(url)
    await check_turn(DatabaseSessionService(engine, create_schema=True))
    async with engine.connect() as connection:
        assert (await connection.execute(sqlalchemy.text("SELECT COUNT(*) FROM events"))).scalar() == 2
    await engine.dispose()


def test_db_4_what_cannot_be_used_is_told() -> None:
    with pytest.raises(ConfigurationError, match="StaticPool"):
        DatabaseSessionService(sqlalchemy.create_engine("sqlite://"))
    with pytest.raises(ConfigurationError, match="URL or a SQLAlchemy engine"):
        DatabaseSessionService(object())


@pytest.mark.parametrize("port", ["x", "99999", "-1"])
@pytest.mark.parametrize("scheme", ["postgresql", "mariadb"])
def test_url_8_a_port_that_is_none_is_told_without_the_password(scheme: str, port: str) -> None:
    with pytest.raises(ConfigurationError, match="the port is no number from 0 to 65535") as refused:
        session_service(f"{scheme}://u:secret@host:{port}/db")
    assert "secret" not in str(refused.value)


def test_url_8_several_hosts_with_ports_are_postgresqls_own_affair() -> None:
    assert session_service("postgresql://u@one:5432,two:5433/db") is not None
