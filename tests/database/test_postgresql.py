"""The PostgreSQL store passes the session suite, and the laws of several processes (services §8.1, spec §4)."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.database import processes, servers
from tests.database.faults import Faults, batch_faults_of, faults_of
from tests.database.forgetful import Forgetful
from tests.database.proxy import RoundTrips
from tests.database.summaries import check_a_cold_summary_reads_its_window

from hookwork.errors import BackendError, ConfigurationError
from hookwork.platform import use_sleep
from hookwork.services import SessionService
from hookwork_database import DatabaseSessionService, session_service
from hookwork_database.servers.postgresql import PostgresStore
from hookwork_testkit.suites import SessionServiceSuite
from hookwork_testkit.suites.base import say, texts

asyncpg = pytest.importorskip("asyncpg")

SERVER = os.environ.get("TEST_POSTGRESQL", "postgresql://postgres@127.0.0.1:5432/test")
_numbers = itertools.count()


async def _administer(statement: str) -> None:
    try:
        connection = await asyncpg.connect(SERVER, timeout=3)
    except (OSError, TimeoutError) as error:
        pytest.skip(f"no PostgreSQL at {SERVER}: {error}")
    await connection.execute(statement)
    await connection.close()


class Schemas:
    """Schemas of this test, each a database of its own for the tables."""

    def __init__(self) -> None:
        self.made: list[str] = []

    async def url(self, **options: Any) -> str:
        name = f"hookwork_{os.getpid()}_{next(_numbers)}"
        await _administer(f"CREATE SCHEMA {name}")
        self.made.append(name)
        more = "".join(f"&{key}={value}" for key, value in options.items())
        return f"{SERVER}?search_path={name}&create_schema=true{more}"

    async def drop(self) -> None:
        for name in self.made:
            await _administer(f"DROP SCHEMA {name} CASCADE")


@pytest_asyncio.fixture
async def schemas() -> AsyncIterator[Schemas]:
    made = Schemas()
    yield made
    await made.drop()


class TestPostgres(SessionServiceSuite):
    max_examples = 10

    @pytest_asyncio.fixture(autouse=True)
    async def _schemas(self, schemas: Schemas) -> None:
        self.schemas = schemas
        self.urls: dict[SessionService, str] = {}

    def build(self, url: str) -> DatabaseSessionService:
        return session_service(url)

    async def make_service(self) -> SessionService:
        url = await self.schemas.url(pool_size=2)
        service = self.build(url)
        self.urls[service] = url
        return service

    async def make_service_again(self, service: SessionService) -> SessionService:
        return self.build(self.urls[service])

    async def make_refusing_service(self) -> SessionService:
        return self.build(await self.schemas.url(foreign_appends="refuse"))

    def append_faults(self, service: SessionService) -> Faults:
        return faults_of(PostgresStore, lambda connection: connection.terminate(), statements=7)

    def batch_faults(self, service: SessionService) -> Faults:
        return batch_faults_of(PostgresStore, lambda connection: connection.terminate(), statements=9)


class TestProcesses(TestPostgres):
    """Every handle is a process of its own: what others stored is always found by the database."""

    max_examples = 5

    def build(self, url: str) -> DatabaseSessionService:
        return Forgetful(url)


# --- what the suite does not ask --------------------------------------------------------------------------------------


async def test_s6_a_turn_takes_three_round_trips_at_any_length(schemas: Schemas) -> None:
    """DB-22, DBP-5: an append is one statement in autocommit."""
    url = await schemas.url()
    async with RoundTrips("127.0.0.1", 5432) as proxy:
        service = session_service(url.replace(":5432", f":{proxy.port}"))
        await servers.check_a_turn_takes_three_round_trips(service, proxy)
        await service.close()


async def test_dbp_7_a_foreign_event_is_read_in_one_round_trip(schemas: Schemas) -> None:
    url = await schemas.url()
    other = session_service(url)
    async with RoundTrips("127.0.0.1", 5432) as proxy:
        service = session_service(url.replace(":5432", f":{proxy.port}"))
        await servers.check_a_foreign_event_is_read(service, other, proxy)
        await service.close()
    await other.close()


@pytest.mark.parametrize("number", [300, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("keys", ["disjoint", "common"])
async def test_db_13_two_processes_on_one_session(schemas: Schemas, keys: str, number: int) -> None:
    url = await schemas.url()
    service = session_service(url)
    await processes.check_two_at_once(service, url, number, keys)
    await service.close()


async def test_bey_10_two_processes_count_by_rule(schemas: Schemas) -> None:
    url = await schemas.url()
    service = session_service(url)
    await processes.check_two_count_by_rule(service, url, 100)
    await service.close()


async def test_db_10_two_processes_start_on_no_tables(schemas: Schemas) -> None:
    for _ in range(3):
        await processes.check_both_start_on_nothing(await schemas.url())


@pytest.mark.parametrize("number", [300, pytest.param(1000, marks=pytest.mark.slow)])
async def test_db_13_shared_keys_of_two_sessions_are_all_kept(schemas: Schemas, number: int) -> None:
    url = await schemas.url()
    service, other = session_service(url), session_service(url)
    await servers.check_shared_keys_of_two_sessions_are_all_kept(service, other, number)
    await service.close()
    await other.close()


async def test_dbl_2_ids_differ_byte_by_byte(schemas: Schemas) -> None:
    service = session_service(await schemas.url())
    await servers.check_ids_differ_byte_by_byte(service)
    await service.close()


async def test_db_12_a_dropped_connection_is_made_anew(schemas: Schemas) -> None:
    """DB-26: the append that met it is tried again."""
    url = await schemas.url()
    service = session_service(url)
    session = await service.create_session(app_name="app", user_id="user", session_id="s")
    for number in range(3):
        await _administer(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND query LIKE '%sessions%' AND application_name = ''"
        )
        await service.append_event(session, say(str(number)))
    assert texts(session) == texts(await servers.opened(service)) == ["0", "1", "2"]
    await service.close()


async def test_db_8_tables_are_made_on_demand_only(schemas: Schemas) -> None:
    url = (await schemas.url()).replace("&create_schema=true", "")
    service = session_service(url)
    with pytest.raises(ConfigurationError, match="create_schema"):
        await service.list_sessions(app_name="a")
    await service.create_schema()
    await service.create_schema()
    assert await service.list_sessions(app_name="a") == []
    await service.close()


async def test_url_3_an_unreachable_server_is_named_without_its_password() -> None:
    service = session_service("postgresql://me:secret@127.0.0.1:1/none")
    with pytest.raises(BackendError) as refused, use_sleep(_no_wait):
        await service.open()
    assert "127.0.0.1:1" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert refused.value.retryable
    await service.close()


async def _no_wait(_: float) -> None:
    return None


async def test_log_8_a_cold_summary_reads_what_its_record_does_not_cover(schemas: Schemas) -> None:
    url = await schemas.url()
    service, fresh = session_service(url), session_service(url)
    await check_a_cold_summary_reads_its_window(service, fresh, {"app_name": "a", "user_id": "u", "session_id": "s"})
    await fresh.close()
    await service.close()
