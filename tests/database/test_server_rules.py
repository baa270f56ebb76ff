"""What holds on the database servers line by line (services §4.3, spec §2, §3)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from tests.database.servers import opened
from tests.database.test_mariadb import Databases, administer
from tests.database.test_mariadb import databases as databases
from tests.database.test_postgresql import Schemas, _administer
from tests.database.test_postgresql import schemas as schemas

from hookwork.errors import BackendError
from hookwork.platform import use_sleep
from hookwork.records.frozen import FrozenDict
from hookwork_database import session_service
from hookwork_database.entered import enter
from hookwork_database.keys import SessionKey
from hookwork_database.layouts.base import Layout
from hookwork_database.loaded import Marker
from hookwork_database.moments import naive_of
from hookwork_database.reading import Known
from hookwork_database.servers import mysql, postgresql
from hookwork_database.servers.mysql import MySqlStore
from hookwork_database.servers.mysql_statements import MySqlLayout
from hookwork_database.servers.postgresql import PostgresStore
from hookwork_database.servers.postgresql_statements import PostgresLayout
from hookwork_database.writing import Appended, AppendRequest, Existing, Missing, append_fully
from hookwork_testkit.suites.base import say, texts

KEY: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "s"}
NO_STATE = FrozenDict({})


def request(layout: Layout) -> AppendRequest:
    """An append by a writer who knows one event of the session."""
    marker = Marker(naive_of(0), naive_of(5), 5, "known", 1)
    known = Known(
        0,
        marker,
        (naive_of(5), "known"),
        (naive_of(5), "known"),
        0,
        1,
        [],
        NO_STATE,
        (None, NO_STATE),
        (None, NO_STATE),
    )
    return AppendRequest(
        key=SessionKey("app", "user", "s"),
        known=known,
        known_ids={"known": 0},
        entered=enter(say("x", id="new", delta={"k": 1, "app:a": 1, "user:u": 1}, timestamp=6e-6), layout),
        mark=6,
        state=FrozenDict({"k": 1}),
        ours=set(),
        refuse=False,
        redelivery=False,
    )


def carried_out(layout: Layout, answers: dict[str, Sequence[Any]]) -> tuple[list[str], Any]:
    """The statements of an append in full, and its outcome; statements without an answer give no rows."""
    plan = append_fully(layout, request(layout))
    asked: list[str] = []
    answer: Sequence[Any] | None = None
    try:
        while True:
            sql, _ = plan.send(answer)  # type: ignore[arg-type]
            asked.append(next(name for name, text in vars(layout).items() if text == sql))
            answer = answers.get(asked[-1], [])
    except StopIteration as finished:
        return asked, finished.value


@pytest.mark.parametrize("layout", [PostgresLayout(), MySqlLayout()])
def test_db_11_dbp_6_the_row_is_locked_first_and_newer_rows_are_read_behind_it(layout: Layout) -> None:
    """DB-12: session, app, user; then the event and the row. A wait for the lock precedes what has to be seen."""
    row = [(naive_of(0), naive_of(9), "{}")]
    foreign = [(naive_of(9), "other", "other", "inv", '{"author":"x","timestamp":1.0}')]
    asked, outcome = carried_out(
        layout, {"row": row, "behind": foreign, "count": [(2,)], "put_app": [("{}",)], "put_user": [("{}",)]}
    )
    assert asked[:4] == ["row", "event", "behind", "count"]
    assert layout.row.endswith("FOR UPDATE")
    writes = [name for name in asked[4:] if name.startswith(("put_", "insert_", "update_"))]
    assert writes == ["put_app", "put_user", "insert_event", "update_state"]
    locks = [name for name in asked if name in ("row", "lock_app", "lock_user", "put_app", "put_user")]
    assert all(locks.index(before) < locks.index(after) for before, after in pairwise(dict.fromkeys(locks)))
    assert isinstance(outcome, Appended)
    assert outcome.mark == 10, "1 µs behind the foreign event, which is later than the event's own time (DBP-9)"
    assert [stored.event.id for stored in outcome.foreign.events] == ["other"]  # type: ignore[union-attr]


@pytest.mark.parametrize("layout", [PostgresLayout(), MySqlLayout()])
def test_db_11_an_absent_session_and_a_stored_event_write_nothing(layout: Layout) -> None:
    assert carried_out(layout, {}) == (["row"], Missing())
    row = [(naive_of(0), naive_of(5), "{}")]
    stored = [(naive_of(5), "new", "new", "inv", '{"author":"x","timestamp":1.0}')]
    asked, outcome = carried_out(layout, {"row": row, "event": stored, "count": [(1,)]})
    assert isinstance(outcome, Existing)
    assert asked == ["row", "event", "behind", "count"]


# --- what the drivers say ---------------------------------------------------------------------------------------------


class MySqlFault(Exception):
    """An error as asyncmy raises it: number and text."""

    __module__ = "asyncmy.errors"


class PostgresFault(Exception):
    """An error as asyncpg raises it: with the five characters of its state."""

    __module__ = "asyncpg.exceptions"

    def __init__(self, state: str) -> None:
        super().__init__("said the server")
        self.sqlstate = state


@pytest.mark.parametrize("number", [1020, 1205, 1213, 2006, 2013])
def test_db_12_dbl_6_lost_races_of_mysql_are_retried(number: int) -> None:
    """1020 is MariaDB's word for a row that changed since it was read."""
    error = MySqlStore("//root@localhost/db")._backend_error(MySqlFault(number, "said the server"))
    assert error is not None
    assert error.retryable


@pytest.mark.parametrize(("state", "retryable"), [("40001", True), ("40P01", True), ("08006", True), ("23505", False)])
def test_db_12_lost_races_of_postgresql_are_retried(state: str, retryable: bool) -> None:
    error = PostgresStore("//localhost/db")._backend_error(PostgresFault(state))
    assert error is not None
    assert error.retryable is retryable
    assert set(mysql._MEANINGS) & {1205, 1213}
    assert "40001" in postgresql._MEANINGS


# --- on the servers themselves ----------------------------------------------------------------------------------------


async def test_db_25_a_value_too_long_for_an_older_table_names_its_column_on_postgresql(schemas: Schemas) -> None:
    url = await schemas.url()
    service = session_service(url)
    await service.create_session(**KEY)
    await service.close()
    await _administer(f"ALTER TABLE {schemas.made[0]}.events ALTER invocation_id TYPE VARCHAR(10)")
    await _check_too_long(url)


async def test_db_25_a_value_too_long_for_an_older_table_names_its_column_on_mariadb(databases: Databases) -> None:
    """On a server that would only warn and cut the value, too."""
    url = await databases.url()
    service = session_service(url)
    await service.create_session(**KEY)
    await service.close()
    table = f"{databases.made[0]}.events"
    (before,) = await administer("SELECT @@GLOBAL.sql_mode")
    try:
        await administer(f"ALTER TABLE {table} MODIFY invocation_id VARCHAR(10) NOT NULL", "SET GLOBAL sql_mode = ''")
        await _check_too_long(url)
    finally:
        await administer(f"SET GLOBAL sql_mode = '{before[0]}'")


async def _check_too_long(url: str) -> None:
    service = session_service(url)
    session = await opened(service)
    await service.append_event(session, say("one", invocation="short"))
    with pytest.raises(BackendError, match="invocation_id") as refused:
        await service.append_event(session, say("two", invocation="x" * 11, delta={"k": 1, "app:k": 1}))
    assert (refused.value.code, refused.value.retryable) == ("too_long", False)
    await service.append_event(session, say("three", invocation="y" * 10))
    again = await opened(service)
    assert (texts(again), dict(again.state)) == (["one", "three"], {})
    await service.close()


async def test_dbl_5_what_jsonb_does_to_free_form_content(schemas: Schemas) -> None:
    """A declared exception: keys by length and bytes, a float without a fraction as a whole number."""
    service = session_service(await schemas.url())
    session = await service.create_session(**KEY)
    await service.append_event(session, say("x", delta={"k": {"long": 1, "b": 2, "a": 3}, "f": 1e22}))
    other = session_service(service_url(schemas))
    state = (await opened(other)).state
    await other.close()
    assert list(state["k"]) == ["a", "b", "long"]
    assert (state["f"], type(state["f"])) == (10**22, int)
    await service.close()


def service_url(made: Schemas) -> str:
    from tests.database.test_postgresql import SERVER

    return f"{SERVER}?search_path={made.made[-1]}"


async def test_dbp_12_many_events_are_decoded_outside_of_the_event_loop(
    schemas: Schemas, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = session_service(await schemas.url())
    session = await service.create_session(**KEY)
    decoded_in: set[int] = set()
    decode = PostgresLayout.decode

    def noted(layout: PostgresLayout, columns: Any, id: str) -> Any:
        decoded_in.add(threading.get_ident())
        return decode(layout, columns, id)

    monkeypatch.setattr(PostgresLayout, "decode", noted)
    for length, here in ((10, True), (310, False)):
        while len(session.events) < length:
            await service.append_event(session, say("x"))
        other = session_service(service_url(schemas))
        await other.open()
        decoded_in.clear()
        assert len((await opened(other)).events) == length
        assert (decoded_in == {threading.get_ident()}) is here
        await other.close()
    await service.close()


async def test_db_26_a_statement_that_takes_too_long_is_ended(schemas: Schemas) -> None:
    service = session_service(await schemas.url(statement_timeout=200))
    await service.create_session(**KEY)
    async with service._store._pool.connection() as connection:  # type: ignore[attr-defined]
        assert await connection.fetchval("SHOW statement_timeout") == "200ms"
    await service.close()


async def test_db_26_a_connection_that_does_not_become_free_is_told(schemas: Schemas) -> None:
    service = session_service(await schemas.url(pool_size=1, pool_timeout=0))
    await service.create_session(**KEY)
    slept: list[float] = []

    async def no_sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)

    async with service._store._pool.connection():  # type: ignore[attr-defined]
        with use_sleep(no_sleep), pytest.raises(BackendError, match="pool_size") as refused:
            await opened(service)
    assert (refused.value.code, refused.value.retryable, len(slept)) == ("pool_timeout", True, 5)
    assert (await opened(service)).id == "s"
    await service.close()


async def test_db_2_google_adks_types_on_postgresql(schemas: Schemas) -> None:
    """§4.2: JSONB, and times without a zone."""
    service = session_service(await schemas.url())
    await service.create_session(**KEY)
    async with service._store._pool.connection() as connection:  # type: ignore[attr-defined]
        rows = await connection.fetch(
            "SELECT table_name || '.' || column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = $1",
            schemas.made[0],
        )
    kinds = {row[0]: row[1] for row in rows}
    assert kinds["events.event_data"] == kinds["sessions.state"] == "jsonb"
    assert kinds["events.timestamp"] == kinds["sessions.update_time"] == "timestamp without time zone"
    assert kinds["events.invocation_id"] == "character varying"
    await service.close()
