"""What the SQLite paths cost and share: statements, rows, group commit, caches, checkpoints (services CS-44, CS-46)."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import subprocess
import sys
import weakref
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.database.summaries import check_a_cold_summary_reads_its_window, compacted

from hookwork.records.session import Session
from hookwork_database import DatabaseSessionService, session_service
from hookwork_database.keys import SessionKey
from hookwork_database.sqlite.connecting import Connector
from hookwork_database.sqlite.store import SqliteStore
from hookwork_database.tables import statements_for
from hookwork_testkit.suites.base import BASE_TIME, say, texts
from hookwork_testkit.suites.histories import Move, history, moves

KEY: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "s"}


class Traced:
    """A service whose connections write down their statements."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.statements: list[str] = []
        self.service = DatabaseSessionService(SqliteStore(Connector(self.path, make=self._connect)))

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, check_same_thread=False)
        db.set_trace_callback(self.statements.append)
        return db

    def taken(self) -> list[str]:
        """The first words of the statements since the last look; how a connection is set up does not count."""
        found = [word for statement in self.statements if (word := statement.split()[0]) != "PRAGMA"]
        self.statements.clear()
        return found


async def test_cs_46_a_turn_is_as_many_statements_at_any_length(tmp_path: Path) -> None:
    """LOG-10, DB-22, DBP-4: an open, an append with and one without a delta, on 1, 100 and 1000 stored events."""
    traced = Traced(tmp_path / "s.db")
    service = traced.service
    session = await service.create_session(**KEY)
    counts = []
    for length in (1, 100, 1000):
        while len(session.events) < length:
            await service.append_event(session, say("x"))
        traced.taken()
        session = await service.get_session(**KEY)
        opened = traced.taken()
        await service.append_event(session, say("question"))
        appended = traced.taken()
        await service.append_event(session, say("answer", delta={"k": length, "app:k": length, "user:k": length}))
        counts.append((opened, appended, traced.taken()))
    assert counts[0] == counts[1] == counts[2]
    opened, appended, with_delta = counts[0]
    assert opened == ["BEGIN", "SELECT", "COMMIT"]
    assert appended == ["BEGIN", "INSERT", "UPDATE", "COMMIT"]
    assert with_delta == ["BEGIN", "INSERT", "UPDATE", *["SELECT", "INSERT"] * 2, "COMMIT"]
    await service.close()


async def test_cs_44_refresh_reads_the_row_and_only_newer_events(tmp_path: Path) -> None:
    traced = Traced(tmp_path / "s.db")
    service, other = traced.service, session_service(f"sqlite:///{tmp_path}/s.db")
    session = await service.create_session(**KEY)
    for number in range(50):
        await service.append_event(session, say(str(number)))
    traced.taken()
    assert await service.refresh(session) == 0
    assert traced.taken() == ["BEGIN", "SELECT", "COMMIT"]
    foreign = await other.get_session(**KEY)
    for number in range(3):
        await other.append_event(foreign, say(f"foreign {number}"))
    assert await service.refresh(session) == 3
    assert traced.taken() == ["BEGIN", "SELECT", "SELECT", "SELECT", "COMMIT"], "row, newer events, their count"
    await service.close()
    await other.close()


async def test_dbp_2_appends_that_wait_together_share_a_transaction(tmp_path: Path) -> None:
    traced = Traced(tmp_path / "s.db")
    sessions = [await traced.service.create_session(**{**KEY, "session_id": f"s-{n}"}) for n in range(100)]
    traced.taken()

    async def write(session: Session) -> None:
        for number in range(5):
            delta = {"n": number, f"app:{session.id}": number}
            await traced.service.append_event(session, say(str(number), delta=delta))

    await asyncio.gather(*map(write, sessions))
    statements = traced.taken()
    assert statements.count("COMMIT") < 250, "500 appends in far fewer transactions"
    for session in sessions:
        again = await traced.service.get_session(**{**KEY, "session_id": session.id})
        assert (texts(again), again.state["n"]) == (["0", "1", "2", "3", "4"], 4)
    assert len([key for key in again.state if key.startswith("app:")]) == 100
    await traced.service.close()


async def test_bey_9_flush_and_close_wait_for_queued_appends(tmp_path: Path) -> None:
    """What was handed in is committed, that of a caller who went away too; those of one session wait in its queue."""
    path = tmp_path / "s.db"
    service = session_service(f"sqlite:///{path}")
    session = await service.create_session(**KEY)

    def committed() -> int:
        with closing(sqlite3.connect(path)) as db:
            return int(db.execute("SELECT COUNT(*) FROM events").fetchone()[0])

    for ends_in, finish in (("flush", service.flush), ("close", service.close)):
        before = committed()
        tasks = [asyncio.ensure_future(service.append_event(session, say(f"{ends_in} {n}"))) for n in range(10)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await finish()
        assert committed() == before + 10, ends_in
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_dbp_2_one_bad_job_of_a_transaction_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    service = session_service(f"sqlite:///{tmp_path}/s.db")
    sessions = [await service.create_session(**{**KEY, "session_id": f"s-{n}"}) for n in range(10)]
    with sqlite3.connect(tmp_path / "s.db") as db:
        db.execute("UPDATE app_states SET state = '[broken'")
    db.close()
    results = await asyncio.gather(
        *(service.append_event(s, say("x", delta={"app:k": 1} if n % 3 == 0 else {})) for n, s in enumerate(sessions)),
        return_exceptions=True,
    )
    assert [isinstance(result, BaseException) for result in results] == [n % 3 == 0 for n in range(10)]
    assert [len(session.events) for session in sessions] == [int(n % 3 != 0) for n in range(10)]
    await service.close()


@pytest.mark.parametrize("size", [0, 2])
async def test_log_7_logs_of_unused_sessions_are_let_go(tmp_path: Path, size: int) -> None:
    service = session_service(f"sqlite:///{tmp_path}/s.db?cache_sessions={size}")
    logs = []
    for number in range(5):
        session = await service.create_session(**{**KEY, "session_id": str(number)})
        logs.append(weakref.ref(session.backend))
        held = await service.get_session(**{**KEY, "session_id": str(number)})
        assert held.log is session.log, "handles of one session share its log, cached or not"
        del session, held
    gc.collect()
    assert [log() is not None for log in logs] == [False] * (5 - size) + [True] * size
    await service.close()


async def test_dbp_2_the_write_ahead_log_is_moved_into_the_file(tmp_path: Path) -> None:
    service = session_service(f"sqlite:///{tmp_path}/s.db")
    session = await service.create_session(**KEY)
    for number in range(3000):
        await service.append_event(session, say(str(number)))
        if number % 250 == 0:
            await service.refresh(session)  # the reading thread is done with what it was asked for before
    assert (tmp_path / "s.db-wal").stat().st_size < 18_000_000
    assert (tmp_path / "s.db").stat().st_size > 500_000
    await service.close()
    assert not (tmp_path / "s.db-wal").exists()


async def test_ses_8_a_handle_of_a_list_can_be_used(tmp_path: Path) -> None:
    service = session_service(f"sqlite:///{tmp_path}/s.db")
    session = await service.create_session(**KEY)
    for number in range(3):
        await service.append_event(session, say(str(number)))
    (refreshed,) = await service.list_sessions(app_name="app")
    (appending,) = await service.list_sessions(app_name="app")
    (loading,) = await session_service_list(tmp_path)
    assert not refreshed.complete
    await service.append_event(session, say("new", delta={"k": 1}))
    assert await service.refresh(refreshed) == 1
    assert texts(refreshed) == ["new"]
    await service.append_event(appending, say("newer"))
    assert (texts(appending), appending.state["k"]) == (["new", "newer"], 1)
    assert texts(loading) == []
    await service.close()


async def session_service_list(folder: Path) -> list[Session]:
    other = session_service(f"sqlite:///{folder}/s.db")
    found = await other.list_sessions(app_name="app")
    assert await other.load_earlier(found[0], 2) == 2
    assert texts(found[0]) == ["1", "2"]
    found[0].length = 0
    await other.close()
    return found


def test_dbp_1_the_tables_are_those_that_core_describes() -> None:
    """The SQL text that SQLite's are made with and the tables of the other dialects have one description."""
    made, described = sqlite3.connect(":memory:"), sqlite3.connect(":memory:")
    from hookwork_database.sqlite.schema import create_tables

    create_tables(made)
    for statement in statements_for("sqlite"):
        described.execute(statement)
    for table in ("sessions", "events", "app_states", "user_states", "adk_internal_metadata"):
        for look in ("table_info", "foreign_key_list", "index_list"):
            assert (
                made.execute(f"PRAGMA {look}({table})").fetchall()
                == described.execute(f"PRAGMA {look}({table})").fetchall()
            ), (table, look)
    made.close()
    described.close()


def test_s1_opening_sqlite_imports_no_sqlalchemy(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from hookwork_database import session_service\n"
        "async def main():\n"
        f"    service = session_service('sqlite:///{tmp_path}/s.db')\n"
        "    await service.create_session(app_name='a', user_id='u')\n"
        "    await service.close()\n"
        "asyncio.run(main())\n"
        "print([name for name in ('sqlalchemy', 'asyncpg', 'asyncmy', 'pydantic') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_forgotten_service_does_not_hold_the_process(tmp_path: Path) -> None:
    script = (
        "import asyncio\n"
        "from hookwork_database import session_service\n"
        "async def main():\n"
        f"    service = session_service('sqlite:///{tmp_path}/s.db')\n"
        "    await service.create_session(app_name='a', user_id='u')\n"
        "asyncio.run(main())\n"
        "print('done')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=20)
    assert (done.stdout, done.stderr) == ("done\n", "")


async def test_bey_12_a_page_reads_no_session_in_front_of_it_and_a_stream_keeps_nothing(tmp_path: Path) -> None:
    """Ten thousand sessions are not read for one page, nor a long log for one event."""
    traced = Traced(tmp_path / "s.db")
    service = traced.service
    session = await service.create_session(**KEY)
    for number in range(10):
        await service.create_session(app_name="app", user_id=f"u{number}", session_id="s", state={"big": "x" * 1000})
    for number in range(100):
        await service.append_event(session, say(str(number)))
    fresh = Traced(tmp_path / "s.db")
    first = await fresh.service.list_session_page(app_name="app", limit=3)
    fresh.taken()
    page = await fresh.service.list_session_page(app_name="app", limit=3, page_token=first.next_page_token)
    assert len(page.sessions) == 3
    assert [statement for statement in fresh.statements if "LIMIT 4" in statement]
    fresh.taken()
    events = [event.text async for event in fresh.service.stream_events(**KEY, page_size=40)]
    assert events == [str(number) for number in range(100)]
    assert len([statement for statement in fresh.statements if "LIMIT 40" in statement]) == 3
    assert fresh.service._cache.get(SessionKey("app", "user", "s")) is None
    await fresh.service.close()
    await service.close()


async def test_s6_a_cold_tail_looks_through_no_session(tmp_path: Path) -> None:
    """It asks for the place where its first invocation begins once, and by an index (budgets S6)."""
    service = session_service(f"sqlite:///{tmp_path}/s.db")
    session = await service.create_session(**KEY)
    for number in range(120):
        await service.append_event(session, say(str(number), invocation=f"inv-{number // 4}"))
    fresh = Traced(tmp_path / "s.db")
    await fresh.service.open()
    fresh.taken()
    tail = await fresh.service.get_session(**KEY, tail=50)
    assert texts(tail) == [str(number) for number in range(68, 120)], "to the start of an invocation"
    (asked,) = [statement for statement in fresh.statements if "substr(invocation_id" in statement]
    with closing(sqlite3.connect(tmp_path / "s.db")) as db:
        plan = db.execute(f"EXPLAIN QUERY PLAN {asked}").fetchall()
    assert "idx_hookwork_events_invocation" in plan[0][3]
    await fresh.service.close()
    await service.close()


async def test_dbp_3_a_durable_log_has_its_length_from_the_start(tmp_path: Path) -> None:
    """Syncing a growing file costs much more; what stands in the log already is not touched (synchronous=full)."""
    path = tmp_path / "s.db"
    first = session_service(f"sqlite:///{path}")
    session = await first.create_session(**KEY)
    for number in range(20):
        await first.append_event(session, say(str(number)))
    durable = session_service(f"sqlite:///{path}?synchronous=full")
    again = await durable.get_session(**KEY)
    await durable.append_event(again, say("durable"))
    assert (tmp_path / "s.db-wal").stat().st_size >= 4 << 20
    await first.append_event(session, say("normal"))
    third = session_service(f"sqlite:///{path}")
    assert texts(await third.get_session(**KEY)) == [*map(str, range(20)), "durable", "normal"]
    for service in (third, durable, first):
        await service.close()
    assert not (tmp_path / "s.db-wal").exists()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize("layout", ["google_adk_v1", "google_adk_sqlite"])
async def test_log_8_a_cold_summary_reads_what_its_record_does_not_cover(tmp_path: Path, layout: str) -> None:
    from tests.database.test_layouts import restored

    path = restored(tmp_path, layout)
    key = {**KEY, "app_name": "golden"}
    service, fresh = (session_service(f"sqlite:///{path}") for _ in range(2))
    await check_a_cold_summary_reads_its_window(service, fresh, key)
    await fresh.close()
    await service.close()


async def test_dbl_4_a_summary_is_found_beside_documents_with_nan(tmp_path: Path) -> None:
    """google-adk stores NaN, which SQLite takes for no JSON: such an event counts as one that no span covers."""
    path = tmp_path / "s.db"
    service, fresh = (session_service(f"sqlite:///{path}") for _ in range(2))
    session = await service.create_session(**KEY)
    for number in range(10):
        await service.append_event(session, say(str(number), at=number, invocation=f"inv-{number}"))
    await service.append_event(session, compacted(0, 8))
    odd = session.events[5].id
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            'UPDATE events SET event_data = replace(event_data, \'"author"\', \'"x":NaN,"author"\') WHERE id = ?',
            (odd,),
        )
    cold = await fresh.get_session(**KEY, tail="summary")
    assert cold.events[-1].actions.compaction is not None
    assert {"5", "9"} <= set(texts(cold)), "what may not be covered is there"
    await fresh.close()
    await service.close()


@given(played=moves, spans=st.lists(st.tuples(st.integers(-1, 12), st.integers(-1, 12)), max_size=3))
@settings(max_examples=25, deadline=None, database=None)
def test_log_8_a_cold_summary_is_the_warm_one(
    tmp_path_factory: pytest.TempPathFactory, played: list[Move], spans: list[tuple[int, int]]
) -> None:
    """Over random histories with records of any spans, rewinds and clocks that run backwards."""
    folder = tmp_path_factory.mktemp("summary")
    events = history(played)
    for number, (start, end) in enumerate(spans):
        places = [event.timestamp - BASE_TIME for event in events] or [0.0]
        bounds = [places[min(max(0, at), len(places) - 1)] + (at < 0) * -5.0 for at in (start, end)]
        events.insert(len(events) * (number + 1) // 3, compacted(min(bounds), max(bounds)))

    async def law() -> None:
        service, fresh = (session_service(f"sqlite:///{folder}/s.db") for _ in range(2))
        session = await service.create_session(**KEY)
        for event in events:
            await service.append_event(session, event)
        warm = await service.get_session(**KEY, tail="summary")
        cold = await fresh.get_session(**KEY, tail="summary")
        ids = [event.id for event in warm.events]
        assert [event.id for event in cold.events][-len(ids) :] == ids if ids else True
        assert len(cold.events) >= len(ids)
        await service.close()
        await fresh.close()

    asyncio.run(law())
