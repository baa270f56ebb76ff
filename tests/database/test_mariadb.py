"""The MariaDB store passes the session suite, and the laws of several processes (services §8.1, spec §3, §4)."""

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
from hookwork_database.servers.mysql import MySqlStore
from hookwork_testkit.suites import SessionServiceSuite
from hookwork_testkit.suites.base import say, texts

asyncmy = pytest.importorskip("asyncmy")

HOST, PORT = "127.0.0.1", int(os.environ.get("TEST_MARIADB_PORT", "3306"))
_numbers = itertools.count()


async def administer(*statements: str, database: str = "test") -> list[Any]:
    """Rows of the last statement, as the administrator."""
    try:
        connection = await asyncmy.connect(host=HOST, port=PORT, user="root", password="", db=database, autocommit=True)
    except (OSError, asyncmy.errors.OperationalError) as error:
        pytest.skip(f"no MariaDB at {HOST}:{PORT}: {error}")
    cursor = connection.cursor()
    for statement in statements:
        await cursor.execute(statement)
    rows = list(await cursor.fetchall() or ())
    await cursor.close()
    await connection.ensure_closed()
    return rows


class Databases:
    """Databases of this test."""

    def __init__(self) -> None:
        self.made: list[str] = []

    async def name(self) -> str:
        name = f"hookwork_{os.getpid()}_{next(_numbers)}"
        await administer(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        self.made.append(name)
        return name

    async def url(self, **options: Any) -> str:
        more = "".join(f"&{key}={value}" for key, value in options.items())
        return f"mariadb://root@{HOST}:{PORT}/{await self.name()}?create_schema=true{more}"

    async def drop(self) -> None:
        for name in self.made:
            await administer(f"DROP DATABASE {name}")


@pytest_asyncio.fixture
async def databases() -> AsyncIterator[Databases]:
    made = Databases()
    yield made
    await made.drop()


class TestMariaDb(SessionServiceSuite):
    max_examples = 10

    @pytest_asyncio.fixture(autouse=True)
    async def _databases(self, databases: Databases) -> None:
        self.databases = databases
        self.urls: dict[SessionService, str] = {}

    async def make_service(self) -> SessionService:
        url = await self.databases.url(pool_size=2)
        service = self.build(url)
        self.urls[service] = url
        return service

    async def make_service_again(self, service: SessionService) -> SessionService:
        return self.build(self.urls[service])

    async def make_refusing_service(self) -> SessionService:
        return session_service(await self.databases.url(foreign_appends="refuse"))

    def append_faults(self, service: SessionService) -> Faults:
        return faults_of(MySqlStore, lambda connection: connection.close(), statements=8)

    def batch_faults(self, service: SessionService) -> Faults:
        return batch_faults_of(MySqlStore, lambda connection: connection.close(), statements=10)

    def build(self, url: str) -> DatabaseSessionService:
        return session_service(url)


class TestProcesses(TestMariaDb):
    """Every handle is a process of its own: what others stored is always found by the database."""

    max_examples = 5

    def build(self, url: str) -> DatabaseSessionService:
        return Forgetful(url)


class TestAsOnMySql(SessionServiceSuite):
    """Without the compound block, which MySQL has not: several round trips an append."""

    max_examples = 5

    @pytest_asyncio.fixture(autouse=True)
    async def _databases(self, databases: Databases) -> None:
        self.databases = databases

    async def make_service(self) -> SessionService:
        body = f"//root@{HOST}:{PORT}/{await self.databases.name()}"
        return DatabaseSessionService(MySqlStore(body, create=True, compound=False, pool_size=2))


# --- what the suite does not ask --------------------------------------------------------------------------------------


async def test_s6_a_turn_takes_three_round_trips_at_any_length(databases: Databases) -> None:
    """DB-22, DBP-5: an append is one compound block in autocommit."""
    url = await databases.url()
    async with RoundTrips(HOST, PORT) as proxy:
        service = session_service(url.replace(f":{PORT}", f":{proxy.port}"))
        await servers.check_a_turn_takes_three_round_trips(service, proxy)
        await service.close()


async def test_dbp_7_a_foreign_event_is_read_in_two_round_trips(databases: Databases) -> None:
    url = await databases.url()
    other = session_service(url)
    async with RoundTrips(HOST, PORT) as proxy:
        service = session_service(url.replace(f":{PORT}", f":{proxy.port}"))
        await servers.check_a_foreign_event_is_read(service, other, proxy, trips=2)
        await service.close()
    await other.close()


@pytest.mark.parametrize("number", [300, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("keys", ["disjoint", "common"])
async def test_db_13_two_processes_on_one_session(databases: Databases, keys: str, number: int) -> None:
    url = await databases.url()
    service = session_service(url)
    await processes.check_two_at_once(service, url, number, keys)
    await service.close()


async def test_bey_10_two_processes_count_by_rule(databases: Databases) -> None:
    url = await databases.url()
    service = session_service(url)
    await processes.check_two_count_by_rule(service, url, 100)
    await service.close()


async def test_db_10_two_processes_start_on_no_tables(databases: Databases) -> None:
    for _ in range(3):
        await processes.check_both_start_on_nothing(await databases.url())


@pytest.mark.parametrize("number", [300, pytest.param(1000, marks=pytest.mark.slow)])
async def test_db_13_shared_keys_of_two_sessions_are_all_kept(databases: Databases, number: int) -> None:
    url = await databases.url()
    service, other = session_service(url), session_service(url)
    await servers.check_shared_keys_of_two_sessions_are_all_kept(service, other, number)
    await service.close()
    await other.close()


async def test_dbl_2_ids_differ_byte_by_byte(databases: Databases) -> None:
    service = session_service(await databases.url())
    await servers.check_ids_differ_byte_by_byte(service)
    await service.close()


async def test_db_12_a_dropped_connection_is_made_anew(databases: Databases) -> None:
    """DB-26: the append that met it is tried again."""
    url = await databases.url()
    service = session_service(url)
    session = await service.create_session(app_name="app", user_id="user", session_id="s")
    for number in range(3):
        rows = await administer(f"SELECT id FROM information_schema.processlist WHERE db = '{databases.made[0]}'")
        await administer(*(f"KILL {row[0]}" for row in rows), "SELECT 1")
        await service.append_event(session, say(str(number)))
    assert texts(session) == texts(await servers.opened(service)) == ["0", "1", "2"]
    await service.close()


async def test_dbl_3_tables_that_lose_microseconds_are_refused_with_the_remedy(databases: Databases) -> None:
    """google-adk under ``mariadb+`` declares DATETIME and TEXT; the printed statements make its tables writable."""
    name = await databases.name()
    key = "VARCHAR(128) NOT NULL"
    await administer(
        f"CREATE TABLE sessions (app_name {key}, user_id {key}, id {key}, state TEXT NOT NULL, create_time DATETIME "
        "NOT NULL, update_time DATETIME NOT NULL, PRIMARY KEY (app_name, user_id, id))",
        f"CREATE TABLE events (id {key}, app_name {key}, user_id {key}, session_id {key}, invocation_id VARCHAR(256) "
        "NOT NULL, timestamp DATETIME NOT NULL, event_data TEXT, PRIMARY KEY (id, app_name, user_id, session_id), "
        "FOREIGN KEY (app_name, user_id, session_id) REFERENCES sessions (app_name, user_id, id) ON DELETE CASCADE)",
        f"CREATE TABLE app_states (app_name {key}, state TEXT NOT NULL, update_time DATETIME NOT NULL, "
        "PRIMARY KEY (app_name))",
        f"CREATE TABLE user_states (app_name {key}, user_id {key}, state TEXT NOT NULL, update_time DATETIME NOT NULL, "
        "PRIMARY KEY (app_name, user_id))",
        "SELECT 1",
        database=name,
    )
    url = f"mariadb+asyncmy://root@{HOST}:{PORT}/{name}"
    service = session_service(url)
    with pytest.raises(ConfigurationError, match=r"MODIFY `update_time` DATETIME\(6\)") as refused:
        await service.open()
    assert "MODIFY `event_data` LONGTEXT" in str(refused.value)
    remedy = [line for line in str(refused.value).splitlines() if line.startswith("ALTER")]
    await administer(*remedy, "SELECT 1", database=name)
    session = await service.create_session(app_name="app", user_id="user", session_id="s")
    long = say("long", error_code="E", error_message="x" * 200_000)
    await service.append_event(session, long)
    assert list((await servers.opened(service)).events) == [long]
    await service.close()


async def test_url_3_an_unreachable_server_is_named_without_its_password() -> None:
    service = session_service("mysql://me:secret@127.0.0.1:1/none")
    with use_sleep(_no_wait), pytest.raises(BackendError) as refused:
        await service.open()
    assert "127.0.0.1:1" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert refused.value.retryable
    await service.close()


async def _no_wait(_: float) -> None:
    return None


async def test_url_2_an_option_nobody_knows_is_told(databases: Databases) -> None:
    service = session_service(f"mysql://root@{HOST}:{PORT}/{await databases.name()}?read_timeout=5&nonsense=1")
    with pytest.raises(ConfigurationError, match="nonsense"):
        await service.open()
    await service.close()


async def test_log_8_a_cold_summary_reads_what_its_record_does_not_cover(databases: Databases) -> None:
    url = await databases.url()
    service, fresh = session_service(url), session_service(url)
    await check_a_cold_summary_reads_its_window(service, fresh, {"app_name": "a", "user_id": "u", "session_id": "s"})
    await fresh.close()
    await service.close()
