"""Migrations: every layout into a fresh database, version 0 without running code of the file's (DB-9, CS-40)."""

from __future__ import annotations

import asyncio
import itertools
import json
import pickle
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.database.test_layouts import GOLDEN, as_adk_reads, restored
from tests.database.test_mariadb import Databases
from tests.database.test_mariadb import databases as databases
from tests.database.test_postgresql import Schemas
from tests.database.test_postgresql import schemas as schemas

from hookwork.errors import BackendError, ConfigurationError, ValidationError
from hookwork.records.event import Event
from hookwork_database import session_service
from hookwork_database.layouts.pickled import unpickled
from hookwork_database.migration.command import command
from hookwork_database.migration.copying import migrate
from hookwork_testkit.suites.base import say, texts


class Malicious:
    """What a pickle may do to who loads it."""

    def __reduce__(self) -> Any:
        return print, ("run",)


@pytest.mark.parametrize("name", ["google_adk_v1", "google_adk_sqlite", "adk_go"])
async def test_db_9_a_migration_keeps_everything(tmp_path: Path, name: str) -> None:
    path = restored(tmp_path, name)
    before = sha256(path.read_bytes()).digest()
    target = f"sqlite:///{tmp_path}/target.db"
    report = await migrate(f"sqlite:///{path}", target)
    assert report.rejected == []
    assert sha256(path.read_bytes()).digest() == before, "the source is never written to"
    old, new = session_service(f"sqlite:///{path}"), session_service(target)
    listed = await old.list_sessions(app_name="golden")
    assert (report.sessions, len(listed)) == (len(listed), len(await new.list_sessions(app_name="golden")))
    events = 0
    for session in listed:
        key = {"app_name": "golden", "user_id": session.user_id, "session_id": session.id}
        was, found = await old.get_session(**key), await new.get_session(**key)
        assert list(found.events) == list(was.events)
        assert dict(found.state) == dict(was.state)
        assert found.last_update_time >= was.last_update_time
        events += len(found.events)
        await new.append_event(found, say("goes on", delta={"k": 1}))
        assert texts(await new.get_session(**key))[-1] == "goes on"
    assert report.events == events
    await old.close()
    await new.close()


async def test_db_9_version_0_is_read_by_name_only(tmp_path: Path) -> None:
    path = restored(tmp_path, "google_adk_v0")
    target = f"sqlite:///{tmp_path}/target.db"
    with pytest.raises(ConfigurationError, match="--allow-pickles"):
        await migrate(f"sqlite:///{path}", target)
    report = await migrate(f"sqlite:///{path}", target, allow_pickles=True)
    assert (report.layout, report.sessions, report.events, report.rejected) == ("google-adk version 0", 1, 6, [])
    service = session_service(target)
    session = await service.get_session(app_name="golden", user_id="u1", session_id="full")
    wanted = json.loads((GOLDEN / "google_adk_v1.json").read_text(encoding="utf-8"))["full"]["events"]
    for found, document in zip(session.events, wanted, strict=True):
        assert comparable(found) == comparable(as_adk_reads(document))
    assert dict(session.state) == {"city": "Zürich", "app:count": 1, "user:lang": "de"}
    await service.close()


def comparable(event: Event) -> Event:
    """What version 0 keeps: it has no columns for some fields, and cuts error messages."""
    lost = {"finish_reason": None, "model_version": None, "error_message": None}
    return event.replace(**lost)


async def test_cs_40_a_pickle_that_runs_code_is_rejected_and_runs_nothing(tmp_path: Path, capsys: Any) -> None:
    path = restored(tmp_path, "google_adk_v0")
    with sqlite3.connect(path) as db:
        db.execute("UPDATE events SET actions = ? WHERE id = 'evt-1'", (pickle.dumps(Malicious()),))
        db.execute("UPDATE events SET actions = x'80' WHERE id = 'evt-2'")
    db.close()
    report = await migrate(f"sqlite:///{path}", f"sqlite:///{tmp_path}/target.db", allow_pickles=True)
    assert "run" not in capsys.readouterr().out
    assert (report.sessions, report.events) == (1, 4)
    assert [("evt-1" in where, "builtins.print" in why) for where, why in report.rejected] == [
        (True, True),
        (False, False),
    ]


@pytest.mark.parametrize(
    "value",
    [
        Malicious(),
        {"state_delta": Malicious()},
        [1, 2],
        pytest.param(eval, id="eval"),
        pytest.param(pickle.loads, id="loads"),
    ],
)
def test_cs_40_only_data_classes_are_known(value: Any) -> None:
    with pytest.raises(ValidationError):
        unpickled(pickle.dumps(value))


async def test_db_9_a_target_in_use_is_refused(tmp_path: Path) -> None:
    source = f"sqlite:///{restored(tmp_path, 'google_adk_v1')}"
    target = f"sqlite:///{tmp_path}/target.db"
    service = session_service(target)
    await service.create_session(app_name="a", user_id="u", session_id="s")
    with pytest.raises(ConfigurationError, match="holds sessions already"):
        await migrate(source, target)
    await service.close()


async def test_db_9_what_cannot_be_read_is_reported_and_the_rest_is_copied(tmp_path: Path) -> None:
    path = restored(tmp_path, "google_adk_v1")
    with sqlite3.connect(path) as db:
        db.execute("UPDATE events SET event_data = '{broken' WHERE id = 'evt-1'")
        db.execute("UPDATE sessions SET state = '[1]' WHERE id = 'empty'")
    db.close()
    report = await migrate(f"sqlite:///{path}", f"sqlite:///{tmp_path}/target.db")
    assert (report.sessions, report.events) == (2, 8)
    assert sorted("evt-1" in where or "'empty'" in where for where, _ in report.rejected) == [True, True]


async def test_db_9_from_a_file_to_servers_and_back(tmp_path: Path, schemas: Schemas, databases: Databases) -> None:
    """JSONB keeps the events of google-adk as they are; only its order of keys differs."""
    urls = [f"sqlite:///{restored(tmp_path, 'google_adk_v1')}"]
    urls += [await schemas.url(), await databases.url(), f"sqlite:///{tmp_path}/back.db"]
    for source, target in itertools.pairwise(urls):
        report = await migrate(source, target)
        assert (report.sessions, report.events, report.rejected) == (3, 9, [])
    first, last = session_service(urls[0]), session_service(urls[-1])
    for user, name in (("u1", "full"), ("u2", "empty"), ("u1", "backwards")):
        key = {"app_name": "golden", "user_id": user, "session_id": name}
        was, found = await first.get_session(**key), await last.get_session(**key)
        assert list(found.events) == list(was.events)
        assert dict(found.state) == dict(was.state)
    await first.close()
    await last.close()


def test_srv_7_hookwork_migrate(tmp_path: Path) -> None:
    source = restored(tmp_path, "google_adk_v1")
    runner = CliRunner()
    done = runner.invoke(command, [f"sqlite:///{source}", f"sqlite:///{tmp_path}/one.db"])
    assert (done.exit_code, done.output) == (0, "google-adk version 1: 3 session(s), 9 event(s) copied\n")
    with sqlite3.connect(source) as db:
        db.execute("UPDATE events SET event_data = '{broken' WHERE id = 'evt-1'")
    db.close()
    partly = runner.invoke(command, [f"sqlite:///{source}", f"sqlite:///{tmp_path}/two.db"])
    assert partly.exit_code == 1
    assert "8 event(s) copied" in partly.output
    assert "evt-1" in partly.output


@pytest.mark.parametrize("name", ["google_adk_sqlite", "adk_go", "google_adk_v1"])
def test_bey_9_a_migration_in_place_takes_the_files_name_and_keeps_the_file(tmp_path: Path, name: str) -> None:
    path = restored(tmp_path, name)
    old = asyncio.run(_everything(f"sqlite:///{path}"))
    before = path.read_bytes()
    done = CliRunner().invoke(command, [f"sqlite:///{path}", "--in-place"])
    assert done.exit_code == 0, done.output
    assert "session(s)" in done.output
    assert asyncio.run(_everything(f"sqlite:///{path}")) == old
    with closing(sqlite3.connect(path)) as db:
        version = db.execute("SELECT value FROM adk_internal_metadata WHERE key = 'schema_version'").fetchone()
    assert version == ("1",)
    kept = path.with_name(f"{path.name}.before-migration")
    assert kept.read_bytes() == before
    assert not path.with_name(f"{path.name}.migrating").exists()
    again = CliRunner().invoke(command, [f"sqlite:///{path}", "--in-place"])
    assert isinstance(again.exception, ConfigurationError)
    assert kept.name in str(again.exception)


async def _everything(url: str) -> list[Any]:
    service = session_service(url)
    try:
        found = [
            await service.get_session(app_name="golden", user_id=listed.user_id, session_id=listed.id)
            for listed in await service.list_sessions(app_name="golden")
        ]
        return sorted((s.user_id, s.id, [event.id for event in s.events], dict(s.state)) for s in found)
    finally:
        await service.close()


def test_bey_9_in_place_what_cannot_be_copied_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    path = restored(tmp_path, "google_adk_v1")
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE events SET event_data = '{broken' WHERE id = 'evt-1'")
        db.commit()
    before = path.read_bytes()
    done = CliRunner().invoke(command, [f"sqlite:///{path}", "--in-place"])
    assert done.exit_code == 1
    assert "evt-1" in done.output
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(path.name)] == [path.name]


def test_bey_9_in_place_wants_a_sqlite_file_that_nobody_writes_to(tmp_path: Path) -> None:
    path = restored(tmp_path, "google_adk_v1")
    with closing(sqlite3.connect(path, timeout=0)) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.MonkeyPatch.context() as patch:
            connect = sqlite3.connect
            patch.setattr(sqlite3, "connect", lambda *given, **more: connect(*given, **{**more, "timeout": 0}))
            busy = CliRunner().invoke(command, [f"sqlite:///{path}", "--in-place"])
        assert isinstance(busy.exception, BackendError)
        assert "stop the program" in str(busy.exception)
    for url, text in (
        ("postgresql://u:secret@h/d", "no SQLite file"),
        (f"sqlite:///{tmp_path}/absent.db", "there is no file"),
        ("sqlite://", "there is no file"),
    ):
        refused = CliRunner().invoke(command, [url, "--in-place"])
        assert isinstance(refused.exception, ConfigurationError)
        assert text in str(refused.exception)
        assert "secret" not in str(refused.exception)
    for wrong in ([f"sqlite:///{path}"], [f"sqlite:///{path}", f"sqlite:///{tmp_path}/t.db", "--in-place"]):
        assert CliRunner().invoke(command, wrong).exit_code == 2
