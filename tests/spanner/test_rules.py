"""What only Spanner asks: its statements, round trips, errors and URLs (services §4.2, §4.3, §9)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, timedelta
from typing import Any

import grpc
import pytest
import sqlalchemy
from google.cloud.spanner_v1 import param_types
from sqlalchemy.pool import NullPool
from tests.spanner.conftest import fresh_url
from tests.spanner.fake import FakeSpanner

from hookwork import Settings
from hookwork.errors import BackendError, ConfigurationError, SessionNotFoundError, ValidationError
from hookwork.platform import use_sleep
from hookwork.resolve import resolve_session_service
from hookwork_database import DatabaseSessionService
from hookwork_spanner import engine_service, session_service
from hookwork_spanner.extension import create_session_service
from hookwork_spanner.layout import SpannerLayout, named, schema_statements
from hookwork_spanner.opening import OPTIONS, place_of
from hookwork_spanner.store import _typed
from hookwork_testkit.suites.base import say, texts

KEY: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "s"}
_BAD_STATUSES = [
    (grpc.StatusCode.PERMISSION_DENIED, "auth", False),
    (grpc.StatusCode.UNAUTHENTICATED, "auth", False),
    (grpc.StatusCode.NOT_FOUND, "no_database", False),
    (grpc.StatusCode.ABORTED, "aborted", True),
]


async def no_sleep(seconds: float) -> None:
    """Retries wait for nothing."""


# --- statements -------------------------------------------------------------------------------------------------------


def test_db_2_the_tables_are_google_adks_in_spanners_types() -> None:
    """§4.2: keys of 128 and 256 characters, STRING(MAX) for JSON, TIMESTAMP with a zone."""
    made = schema_statements()
    kinds = dict(re.findall(r"CREATE TABLE IF NOT EXISTS (\w+) \((.*?)(?:, FOREIGN|\) PRIMARY)", " ".join(made)))
    key = "STRING(128) NOT NULL"
    columns = {name: [piece.strip() for piece in body.split(",")] for name, body in kinds.items()}
    times = ["create_time TIMESTAMP NOT NULL", "update_time TIMESTAMP NOT NULL"]
    assert columns["sessions"] == [
        f"app_name {key}",
        f"user_id {key}",
        f"id {key}",
        "state STRING(MAX) NOT NULL",
        *times,
    ]
    assert columns["events"] == [
        *(f"{name} {key}" for name in ("id", "app_name", "user_id", "session_id")),
        "invocation_id STRING(256) NOT NULL",
        "timestamp TIMESTAMP NOT NULL",
        "event_data STRING(MAX)",
    ]
    assert set(columns) == {"adk_internal_metadata", "sessions", "events", "app_states", "user_states"}
    (events,) = (statement for statement in made if " events (" in statement and "CREATE TABLE" in statement)
    assert events.endswith(") PRIMARY KEY (id, app_name, user_id, session_id)")
    assert "REFERENCES sessions (app_name, user_id, id) ON DELETE CASCADE" in events
    assert made[-1].endswith("ON events (app_name, user_id, session_id, timestamp DESC, id DESC)")


def _statements() -> dict[str, str]:
    return {name: text for name, text in vars(SpannerLayout()).items() if isinstance(text, str) and " " in text}


@pytest.mark.parametrize("name", sorted(_statements()))
def test_db_19_each_statement_keeps_to_googlesql(name: str) -> None:
    """Named parameters from @p1 on, a WHERE wherever rows are changed, and no words of other dialects."""
    sql = _statements()[name]
    if name == "lock":
        return
    numbers = [int(number) for number in re.findall(r"@p(\d+)", sql)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert not re.search(r"\?|%s|\$\d|ON CONFLICT|ON DUPLICATE|RETURNING|excluded\.|\bIF\(|::", sql)
    assert re.match(r"SELECT |INSERT INTO |INSERT OR (UPDATE|IGNORE) INTO |UPDATE \w+ SET |DELETE FROM ", sql)
    if re.match("UPDATE|DELETE", sql):
        assert " WHERE " in sql, "Spanner refuses a change of rows without one"
    assert sql.endswith(" FOR UPDATE") is (name in ("row", "lock_app", "lock_user", "user_rows"))


def test_db_24_times_are_bound_with_their_zone() -> None:
    moment = SpannerLayout().time(1735689600_123456)
    assert moment.utcoffset() == timedelta(0)
    values, types = _typed(("a", 3, moment))
    assert values == {"p1": "a", "p2": 3, "p3": moment}
    assert types == {"p1": param_types.STRING, "p2": param_types.INT64, "p3": param_types.TIMESTAMP}
    assert SpannerLayout().micros(moment.astimezone(UTC)) == 1735689600_123456
    assert named("a = ? AND b = ?") == "a = @p1 AND b = @p2"


# --- round trips ------------------------------------------------------------------------------------------------------


async def test_db_22_an_append_is_one_batch_and_its_commit(spanner: FakeSpanner) -> None:
    """At any length, with and without state of every scope; an open of a loaded session is one call."""
    service = session_service(fresh_url())
    session = await service.create_session(**KEY)
    counts = []
    for length in (1, 60):
        while len(session.events) < length:
            await service.append_event(session, say("x"))
        spanner.calls.clear()
        session = await service.get_session(**KEY)
        await service.append_event(session, say("question"))
        await service.append_event(session, say("answer", delta={"k": length, "app:k": length, "user:k": length}))
        counts.append(list(spanner.calls))
    assert counts == [["ExecuteStreamingSql", *["ExecuteBatchDml", "Commit"] * 2]] * 2
    await service.close()


async def test_db_22_what_others_stored_is_found_by_the_append_in_full(spanner: FakeSpanner) -> None:
    url = fresh_url()
    here, there = session_service(url), session_service(url)
    session = await here.create_session(**KEY)
    await there.append_event(await there.get_session(**KEY), say("theirs", delta={"app:theirs": 1}))
    spanner.calls.clear()
    await here.append_event(session, say("ours", delta={"app:ours": 1}))
    assert Counter(spanner.calls)["Commit"] == 1
    assert spanner.calls[:2] == ["ExecuteBatchDml", "Rollback"]
    assert (texts(session), dict(session.state)) == (["theirs", "ours"], {"app:theirs": 1, "app:ours": 1})
    await here.close()
    await there.close()


# --- tables -----------------------------------------------------------------------------------------------------------


async def test_db_8_tables_are_made_on_demand_only_and_others_refused(spanner: FakeSpanner) -> None:
    url = fresh_url()
    service = session_service(url.partition("?")[0])
    with pytest.raises(ConfigurationError, match=r"create_schema=true"):
        await service.open()
    await service.create_schema()
    await service.create_schema()
    assert (await service.create_session(**KEY)).id == "s"
    store: Any = service._store
    async with store._pool.connection() as database:
        insert = "UPDATE adk_internal_metadata SET value = '2' WHERE key = 'schema_version'"
        database.run_in_transaction(lambda transaction: list(transaction.execute_sql(insert)))
    await service.close()
    other = session_service(url)
    with pytest.raises(ConfigurationError, match="schema version '2'"):
        await other.open()
    await other.close()


async def test_db_8_another_layout_is_refused(spanner: FakeSpanner) -> None:
    url = fresh_url()
    service = session_service(url)
    store: Any = service._store
    async with store._pool.connection() as database:
        ddl = "CREATE TABLE IF NOT EXISTS events (id STRING(128) NOT NULL, actions STRING(MAX)) PRIMARY KEY (id)"
        database.update_ddl([ddl]).result()
    with pytest.raises(ConfigurationError, match=r"columns actions, id; in Spanner only google-adk's version 1"):
        await service.open()
    await service.close()


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "code", "retryable"), _BAD_STATUSES)
async def test_gen_7_a_failure_is_told_as_what_it_is(
    spanner: FakeSpanner, status: grpc.StatusCode, code: str, retryable: bool
) -> None:
    """Never as a session that is not there; retryable ones after five more tries (DB-12)."""
    service = session_service(fresh_url())
    session = await service.create_session(**KEY)
    tries = 6 if retryable else 1
    spanner.failures += [("ExecuteBatchDml", status, False)] * tries
    with use_sleep(no_sleep), pytest.raises(BackendError) as failed:
        await service.append_event(session, say("x", delta={"k": 1}))
    assert (failed.value.code, failed.value.retryable) == (code, retryable)
    assert not isinstance(failed.value, SessionNotFoundError)
    assert failed.value.__cause__ is not None
    assert (spanner.failures, texts(session), dict(session.state)) == ([], [], {})
    await service.append_event(session, say("y"))
    await service.close()


async def test_db_26_after_an_unknown_commit_the_event_id_decides(spanner: FakeSpanner) -> None:
    """The commit was carried out and its answer lost: the retry finds the event (SES-19)."""
    service = session_service(fresh_url())
    session = await service.create_session(**KEY)
    event = say("one", delta={"k": 1})
    with spanner.failing("Commit", grpc.StatusCode.UNKNOWN, after=True), pytest.raises(BackendError):
        await service.append_event(session, event)
    await service.append_event(session, event)
    with use_sleep(no_sleep), spanner.failing("Commit", grpc.StatusCode.DEADLINE_EXCEEDED, after=True):
        await service.append_event(session, say("two", delta={"k": 2}))
    for handle in (session, await service.get_session(**KEY)):
        assert (texts(handle), dict(handle.state)) == (["one", "two"], {"k": 2})
    await service.close()


async def test_db_25_a_value_too_long_for_an_older_table_names_its_column(spanner: FakeSpanner) -> None:
    service = session_service(fresh_url())
    store: Any = service._store
    narrow = [statement.replace("STRING(256)", "STRING(10)") for statement in schema_statements()]
    async with store._pool.connection() as database:
        database.update_ddl(narrow).result()
    session = await service.create_session(**KEY)
    with pytest.raises(BackendError, match="invocation_id") as refused:
        await service.append_event(session, say("x", invocation="i" * 11, delta={"k": 1}))
    assert (refused.value.code, refused.value.retryable) == ("too_long", False)
    await service.append_event(session, say("y", invocation="i" * 10))
    again = await service.get_session(**KEY)
    assert (texts(again), dict(again.state)) == (["y"], {})
    await service.close()


async def test_gen_4_a_service_that_is_closed_says_so(spanner: FakeSpanner) -> None:
    service = session_service(fresh_url())
    await service.create_session(**KEY)
    await service.close()
    await service.close()
    with pytest.raises(BackendError, match="closed"):
        await service.get_session(**KEY)


# --- ways in ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "spanner://my-project/main/adk",
        "SPANNER://my-project/main/adk",
        "spanner://my%2Dproject/main/adk",
        "spanner+spanner:///projects/my-project/instances/main/databases/adk",
    ],
)
def test_url_1_the_forms_of_a_url(url: str) -> None:
    """google-adk writes SQLAlchemy's (URL-7)."""
    assert place_of(url, url.partition(":")[2]) == ("my-project", "main", "adk")
    assert isinstance(create_session_service(url, {}), DatabaseSessionService)


@pytest.mark.parametrize("url", ["sqlite:///x.db", "span://p/i/d", "memory:"])
def test_url_1_other_schemes_are_left_to_others(url: str) -> None:
    assert create_session_service(url, {}) is None


@pytest.mark.parametrize(
    ("url", "settings", "said"),
    [
        ("spanner://project/instance", {}, "project, instance and database"),
        ("spanner://project/instance/database/more", {}, "project, instance and database"),
        ("spanner://u:secret@project/instance/database", {}, "project, instance and database"),
        ("spanner+asyncpg://p/i/d", {}, "its own"),
        ("spanner://p/i/d?pool_sise=3", {}, "did you mean 'pool_size'"),
        ("spanner://p/i/d?pool_size=3&pool_size=4", {}, "twice"),
        ("spanner://p/i/d?create_schema=perhaps", {}, "true or false"),
        ("spanner://p/i/d", {"pool_size": "many"}, "whole number"),
    ],
)
def test_url_2_wrong_urls_say_what_is_right(url: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        create_session_service(url, settings)
    assert "secret" not in str(refused.value)


def test_url_2_the_url_wins_over_settings_and_values_are_checked() -> None:
    made = session_service(
        "spanner://p/i/d?cache_sessions=1", settings={"cache_sessions": 5, "foreign_appends": "refuse"}
    )
    assert (made._cache._size, made.foreign_appends) == (1, "refuse")
    for wrong in ("pool_size=0", "statement_timeout=-1", "foreign_appends=maybe", "cache_sessions=-1"):
        with pytest.raises(ValidationError):
            session_service(f"spanner://p/i/d?{wrong}")


async def test_url_9_the_kernel_finds_it_by_its_scheme(spanner: FakeSpanner) -> None:
    service, owned = resolve_session_service(fresh_url(), Settings())
    assert owned
    session = await service.create_session(**KEY)
    await service.append_event(session, say("x"))
    assert texts(await service.get_session(**KEY)) == ["x"]
    await service.close()


async def test_db_4_an_engine_is_used_as_it_is_and_not_closed(spanner: FakeSpanner) -> None:
    name = fresh_url().partition("?")[0].rpartition("/")[2]
    url = f"spanner+spanner:///projects/project/instances/instance/databases/{name}"
    engine = sqlalchemy.create_engine(url, poolclass=NullPool)
    service = engine_service(engine, create_schema=True, statement_timeout=5000)
    session = await service.create_session(**KEY)
    await service.append_event(session, say("x", delta={"k": 1}))
    await service.close()
    other = engine_service(engine)
    assert texts(await other.get_session(**KEY)) == ["x"]
    await other.close()
    with pytest.raises(ConfigurationError, match="sqlalchemy-spanner"):
        engine_service(sqlalchemy.create_engine("sqlite://"))


def test_url_2_the_options_are_those_of_an_engine_service() -> None:
    import inspect

    arguments = set(inspect.signature(engine_service).parameters) - {"engine", "cipher"}
    assert set(OPTIONS) == {*arguments, "key_variable"}, "the variable gives the cipher"


def test_the_entry_point_names_the_light_module() -> None:
    script = (
        "import sys\n"
        "import hookwork_spanner.extension as extension\n"
        "assert extension.create_session_service('memory:', {}) is None\n"
        "assert extension.create_session_service('spanner://p/i/d', {}) is not None\n"
        "print([name for name in ('sqlalchemy', 'google.cloud.spanner_v1', 'grpc') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_forgotten_service_does_not_hold_the_process(spanner: FakeSpanner) -> None:
    script = (
        "import asyncio\n"
        "from hookwork_spanner import session_service\n"
        "async def main():\n"
        f"    service = session_service({fresh_url()!r})\n"
        "    await service.create_session(app_name='a', user_id='u')\n"
        "asyncio.run(main())\n"
        "print('done')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "done\n"
