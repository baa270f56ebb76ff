"""Faults on SQLite: full disks, locks, read-only files, huge events, odd ids, clocks, cancellation (spec §4, GEN-5)."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hookwork.errors import BackendError, ConfigurationError, SessionNotFoundError, ValidationError
from hookwork.platform import use_clock, use_sleep
from hookwork.records.content import Blob, Content, Part
from hookwork.records.event import new_event
from hookwork_database import DatabaseSessionService, session_service
from hookwork_database.extension import create_session_service
from hookwork_database.opening import dialect_of
from hookwork_database.sqlite.connecting import Connector
from hookwork_database.sqlite.store import SqliteStore
from hookwork_testkit.suites.base import Snapshot, say, texts

KEY = {"app_name": "app", "user_id": "user", "session_id": "s"}


async def created(service: DatabaseSessionService) -> Any:
    return await service.create_session(**KEY)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True, capture_output=True)


async def test_a_full_disk_loses_nothing_and_is_told(small_disk: Path) -> None:
    service = session_service(f"sqlite:///{small_disk}/s.db")
    session = await created(service)
    stored = 0
    full: Any = None
    while full is None and stored < 1000:
        try:
            await service.append_event(session, say("x" * 5000, id=str(stored), delta={"n": stored}))
            stored += 1
        except BackendError as error:
            full = error
    assert full.code in ("disk_full", "io")
    assert not full.retryable
    assert (len(session.events), session.state["n"]) == (stored, stored - 1)
    again = await service.get_session(**KEY)
    assert (len(again.events), again.state["n"]) == (stored, stored - 1)
    await service.close()
    with sqlite3.connect(small_disk / "s.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


async def test_db_12_a_lock_is_waited_for_and_then_told(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db?busy_timeout=20"
    service = session_service(url)
    session = await created(service)
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    other = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    before = Snapshot(session)
    with use_sleep(sleep), pytest.raises(BackendError) as locked:
        await service.append_event(session, say("x", delta={"k": 1}))
    assert (locked.value.code, locked.value.retryable, len(waited)) == ("locked", True, 5)
    assert all(0 <= seconds <= 0.5 for seconds in waited)
    before.assert_unchanged(session, "a lock")
    assert texts(await service.get_session(**KEY)) == [], "reading is not held up"
    appending = asyncio.ensure_future(service.append_event(session, say("later")))
    await asyncio.sleep(0)
    other.execute("COMMIT")
    other.close()
    await appending
    assert texts(session) == ["later"]
    await service.close()


async def test_a_file_that_cannot_be_written_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    service = session_service(f"sqlite:///{path}")
    session = await created(service)
    await service.append_event(session, say("x"))
    await service.close()
    reading = DatabaseSessionService(SqliteStore(Connector(str(path), read_only=True), create=False))
    session = await reading.get_session(**KEY)
    assert texts(session) == ["x"]
    before = Snapshot(session)
    with pytest.raises(BackendError) as refused:
        await reading.append_event(session, say("y", delta={"k": 1}))
    assert (refused.value.code, refused.value.retryable) == ("read_only", False)
    before.assert_unchanged(session, "a read-only file")
    await reading.close()


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda path: path.write_bytes(b"no database at all, just some text" * 100), "not_a_database"),
        (lambda path: path.mkdir(), "cannot_open"),
    ],
)
async def test_a_file_that_is_no_database_is_told(tmp_path: Path, make: Any, code: str) -> None:
    path = tmp_path / "s.db"
    make(path)
    service = session_service(f"sqlite:///{path}")
    with pytest.raises(BackendError) as refused:
        await created(service)
    assert refused.value.code == code
    assert "s.db" in str(refused.value)
    await service.close()


async def test_url_5_a_missing_folder_is_named(tmp_path: Path) -> None:
    service = session_service(f"sqlite:///{tmp_path}/absent/s.db")
    with pytest.raises(BackendError, match="absent"):
        await created(service)
    await service.close()


async def test_ten_megabytes_in_one_event(tmp_path: Path) -> None:
    service = session_service(f"sqlite:///{tmp_path}/s.db")
    session = await created(service)
    part = Part(inline_data=Blob(data=os.urandom(10_000_000), mime_type="application/octet-stream"))
    big = new_event("inv", author="user", content=Content(parts=[part]))
    await service.append_event(session, big)
    await service.append_event(session, say("after"))
    other = session_service(f"sqlite:///{tmp_path}/s.db")
    assert list((await other.get_session(**KEY)).events) == list(session.events)
    await other.close()
    await service.close()


async def test_db_11_ids_of_every_kind(tmp_path: Path) -> None:
    service = session_service(f"sqlite:///{tmp_path}/s.db")
    fine = [
        "'; DROP TABLE events; --",
        'a"b\\c',
        "%_*?[",
        "数据🎈",
        "é",
        "e\u0301",
        "A",
        "a",
        "x" * 128,
        "a b",
        "\t.\t",
    ]
    for user in fine:
        key = {**KEY, "user_id": user, "session_id": user}
        session = await service.create_session(**key)
        await service.append_event(session, say(user, id=user))
        assert texts(await service.get_session(**key)) == [user]
    assert len(await service.list_sessions(app_name="app")) == len(fine)
    for bad in ("", "  ", "x" * 129, "a\x00b", "a\ud800b"):
        with pytest.raises(ValidationError):
            await service.create_session(app_name="app", user_id=bad)
        with pytest.raises(ValidationError):
            await service.get_session(app_name=bad, user_id="user", session_id="s")
    session = await service.create_session(app_name="app", user_id="user")
    for event in (say("x", id="i" * 129), say("x", invocation="i" * 257)):
        before = Snapshot(session)
        with pytest.raises(ValidationError):
            await service.append_event(session, event)
        before.assert_unchanged(session, "an id that is too long")
    await service.close()


async def test_ses_20_a_clock_that_runs_backwards(tmp_path: Path) -> None:
    service = session_service(f"sqlite:///{tmp_path}/s.db")
    start = datetime(2026, 1, 1, tzinfo=UTC)
    times: list[datetime] = []
    with use_clock(lambda: start):
        session = await created(service)
    for step in range(5):
        with use_clock(lambda step=step: start - timedelta(hours=step)):  # type: ignore[misc]
            await service.append_event(session, new_event("inv", author="user"))
        times.append(session.last_update_time)
    assert times == sorted(set(times))
    other = session_service(f"sqlite:///{tmp_path}/s.db")
    again = await other.get_session(**KEY)
    assert [event.time for event in again.events] == [start - timedelta(hours=step) for step in range(5)]
    assert again.last_update_time == times[-1]
    await other.close()
    await service.close()


async def test_gen_5_cancelled_appends_are_carried_to_their_end(tmp_path: Path) -> None:
    """The thread is held in the middle of the first one; the second waits for it and is cancelled before it begins."""
    held, go = threading.Event(), threading.Event()

    def make() -> sqlite3.Connection:
        db = sqlite3.connect(tmp_path / "s.db", check_same_thread=False)
        db.create_function("hold", 0, lambda: held.set() or go.wait(30))
        return db

    service = DatabaseSessionService(SqliteStore(Connector(str(tmp_path / "s.db"), make=make)))
    session = await created(service)
    await service._store._writer.call(  # type: ignore[attr-defined]
        lambda db: db.execute(
            "CREATE TEMP TRIGGER t AFTER INSERT ON events WHEN new.id = 'one' BEGIN SELECT hold(); END"
        )
    )
    first = asyncio.ensure_future(service.append_event(session, say("one", id="one", delta={"k": 1})))
    second = asyncio.ensure_future(service.append_event(session, say("two", delta={"k": 2})))
    await asyncio.to_thread(held.wait, 30)
    first.cancel()
    second.cancel()
    await asyncio.wait([first, second])
    assert (first.cancelled(), second.cancelled(), texts(session)) == (True, True, [])
    go.set()
    await service.append_event(session, say("three", delta={"j": 3}))
    assert texts(session) == ["one", "three"]
    assert dict(session.state) == {"k": 1, "j": 3}
    assert dict((await service.get_session(**KEY)).state) == {"k": 1, "j": 3}
    await service.close()


async def test_ses_17_a_session_deleted_by_another_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    here, there = session_service(url), session_service(url)
    session = await created(here)
    await here.append_event(session, say("old"))
    await there.delete_session(**KEY)
    before = Snapshot(session)
    with pytest.raises(SessionNotFoundError):
        await here.append_event(session, say("x", delta={"k": 1}))
    before.assert_unchanged(session, "a deleted session")
    fresh = await there.create_session(**KEY)
    await there.append_event(fresh, say("new"))
    with pytest.raises(SessionNotFoundError):
        await here.append_event(session, say("x", delta={"k": 1}))
    with pytest.raises(SessionNotFoundError):
        await here.refresh(session)
    assert texts(await here.get_session(**KEY)) == ["new"]
    await here.close()
    await there.close()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite://host/file.db", "three slashes"),
        ("sqlite:///s.db?cash_sessions=3", "cache_sessions"),
        ("sqlite:///s.db?cache_sessions=3&cache_sessions=4", "twice"),
        ("sqlite:///s.db?cache_sessions=many", "whole number"),
        ("sqlite:///s.db?synchronous=off", "'normal' or 'full'"),
        ("sqlite:///s.db?pool_size=3", "unknown option"),
        ("postgresql+psycopg2://localhost/x", r"postgresql\+asyncpg"),
        ("mysql+pymysql://localhost/x", r"mysql\+asyncmy"),
        ("oracle://localhost/x", "sqlite, postgresql, mysql or mariadb"),
    ],
)
def test_url_2_wrong_urls_say_what_is_right(url: str, expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        session_service(url)


def test_url_2_settings_are_checked_and_the_url_wins() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'cache_sessions'"):
        session_service("sqlite://", settings={"cash_sessions": 3})
    with pytest.raises(ConfigurationError, match="whole number"):
        session_service("sqlite://", settings={"cache_sessions": "3"})
    service = session_service(
        "sqlite://?foreign_appends=absorb", settings={"foreign_appends": "refuse", "pool_size": 3}
    )
    assert service.foreign_appends == "absorb"


async def test_case_sess_5_hosts_in_other_time_zones(tmp_path: Path) -> None:
    """DB-24: the same file under two zones: nothing is stale, and every time is what it was."""
    script = (
        "import asyncio, sys\n"
        "from hookwork_database import session_service\n"
        "from hookwork_testkit.suites.base import say\n"
        "async def main():\n"
        "    service = session_service('sqlite:///' + sys.argv[1])\n"
        "    key = dict(app_name='a', user_id='u', session_id='s')\n"
        "    session = await (service.create_session if sys.argv[2] == 'create' else service.get_session)(**key)\n"
        "    for number in range(2):\n"
        "        delta = {'app:k': number, 'k': number}\n"
        "        await service.append_event(session, say(sys.argv[2], at=number, delta=delta))\n"
        "    again = await service.get_session(**key)\n"
        "    assert again.last_update_time == session.last_update_time, 'update time'\n"
        "    listed = await service.list_sessions(app_name='a')\n"
        "    assert listed[0].last_update_time == session.last_update_time, 'listed'\n"
        "    print(session.last_update_time.isoformat(), *[event.timestamp for event in again.events])\n"
        "    await service.close()\n"
        "asyncio.run(main())\n"
    )
    printed = []
    for zone, verb in (("America/St_Johns", "create"), ("Asia/Kathmandu", "open")):
        command = [sys.executable, "-c", script, str(tmp_path / "s.db"), verb]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, env={**os.environ, "TZ": zone}
        )
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.split())
    assert printed[1][1:3] == printed[0][1:3] == ["1735689600.0", "1735689601.0"]
    assert printed[1][0] > printed[0][0]
    assert printed[0][0].endswith("+00:00")


def test_url_2_options_of_a_url_hold_for_a_service_made_by_hand() -> None:
    assert DatabaseSessionService("sqlite://?foreign_appends=refuse").foreign_appends == "refuse"
    assert (
        DatabaseSessionService("sqlite://?foreign_appends=refuse", foreign_appends="absorb").foreign_appends == "absorb"
    )
    assert DatabaseSessionService("sqlite://").foreign_appends == "absorb"


@pytest.mark.parametrize(
    ("url", "dialect"),
    [
        ("sqlite+aiosqlite:///s.db", "sqlite"),
        ("SQLite:///s.db", "sqlite"),
        ("postgresql+asyncpg://h/d", "postgresql"),
        ("postgresql+psycopg://h/d", "postgresql"),
        ("postgres://h/d", "postgresql"),
        ("mysql+asyncmy://h/d", "mysql"),
        ("mysql+aiomysql://h/d", "mysql"),
        ("mariadb+asyncmy://h/d", "mariadb"),
    ],
)
def test_url_4_driver_suffixes_are_accepted(url: str, dialect: str) -> None:
    """They say nothing here: the driver is the distribution's own."""
    assert dialect_of(url) == dialect
    assert create_session_service(url, {}) is not None


@pytest.mark.parametrize(
    ("url", "right"),
    [
        ("postgresql+psycopg2://u:secret@h/d", "postgresql+asyncpg"),
        ("postgres+psycopg2://u:secret@h/d", "postgresql+asyncpg"),
        ("postgresql+pg8000://u:secret@h/d", "postgresql+asyncpg"),
        ("mysql+mysqldb://u:secret@h/d", "mysql+asyncmy"),
        ("mariadb+mariadbconnector://u:secret@h/d", "mariadb+asyncmy"),
    ],
)
def test_url_4_a_driver_that_blocks_is_refused_and_the_right_one_named(url: str, right: str) -> None:
    with pytest.raises(ConfigurationError, match="blocks the event loop") as refused:
        create_session_service(url, {})
    assert right in str(refused.value)
    assert "secret" not in str(refused.value)
