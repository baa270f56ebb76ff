"""Databases that other ADKs wrote: they open in place, read equal, are appended to, and their writers go on (CS-39)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hookwork import Agent, InvocationContext, Runner, Settings
from hookwork.errors import BackendError, ConfigurationError, StaleSessionError
from hookwork.records.codec import load
from hookwork.records.content import Content, FunctionCall, Part
from hookwork.records.deleted import deleting
from hookwork.records.event import Event, EventActions, EventCompaction, ExcludedEvent, NodeInfo
from hookwork.records.metadata import UsageMetadata
from hookwork_database import DatabaseSessionService, session_service
from hookwork_testkit.suites import SessionServiceSuite
from hookwork_testkit.suites.base import say, texts

GOLDEN = Path(__file__).with_name("golden")
ADK_LAYOUTS = ["google_adk_v1", "google_adk_sqlite"]
#: An interpreter that has google-adk 2.13; the tests with the real writer need it.
PEER = os.environ.get("GOOGLE_ADK_PYTHON", "")
needs_peer = pytest.mark.skipif(not PEER, reason="GOOGLE_ADK_PYTHON names no interpreter with google-adk")


def restored(folder: Path, name: str) -> Path:
    """A golden database as a file."""
    path = folder / f"{name}.db"
    with sqlite3.connect(path) as db:
        db.executescript((GOLDEN / f"{name}.sql").read_text(encoding="utf-8"))
    db.close()
    return path


def as_adk_reads(document: dict[str, Any]) -> Event:
    """The event of google-adk's own JSON, without the empty maps it always writes (DBL-1)."""
    for key in ("requestedAuthConfigs", "requestedToolConfirmations"):
        if not document["actions"].get(key):
            document["actions"].pop(key, None)
    return load(Event, document)


async def opened(service: DatabaseSessionService, user: str, name: str) -> Any:
    return await service.get_session(app_name="golden", user_id=user, session_id=name)


async def peer(*arguments: object) -> dict[str, Any]:
    """What google-adk reads."""
    script = str(GOLDEN / "adk_peer.py")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(PEER, script, *map(str, arguments), stdout=pipe, stderr=pipe)
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def where(name: str, path: Path) -> str:
    """How google-adk's service of a layout names a file."""
    return str(path) if name == "google_adk_sqlite" else f"sqlite+aiosqlite:///{path}"


def kind(name: str) -> str:
    return name.removeprefix("google_adk_")


# --- google-adk -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ADK_LAYOUTS)
async def test_cs_39_a_google_adk_file_reads_as_google_adk_reads_it(tmp_path: Path, name: str) -> None:
    expected = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    service = session_service(f"sqlite:///{restored(tmp_path, name)}")
    for user, session_id in (("u1", "full"), ("u2", "empty"), ("u1", "backwards")):
        session = await opened(service, user, session_id)
        wanted = expected[session_id]
        assert list(session.events) == [as_adk_reads(document) for document in wanted["events"]]
        assert dict(session.state) == wanted["state"]
        assert session.last_update_time.timestamp() == pytest.approx(wanted["last_update_time"], abs=1e-6)
    listed = await service.list_sessions(app_name="golden")
    assert {session.id for session in listed} == {"full", "empty", "backwards"}
    await service.close()


@pytest.mark.parametrize("name", [*ADK_LAYOUTS, "adk_go"])
async def test_cs_39_a_foreign_file_is_appended_to_in_its_own_layout(tmp_path: Path, name: str) -> None:
    path = restored(tmp_path, name)
    with sqlite3.connect(path) as db:
        before = db.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall()
    db.close()
    service = session_service(f"sqlite:///{path}")
    for user, session_id in (("u1", "full"), ("u2", "empty")):
        session = await opened(service, user, session_id)
        old = list(session.events)
        for number in range(3):
            delta = {"k": number, "app:a": number, "user:u": number}
            await service.append_event(session, say(str(number), at=number, delta=delta))
        again = await opened(service, user, session_id)
        assert list(again.events) == list(session.events)
        assert list(again.events)[: len(old)] == old
        assert dict(again.state) == dict(session.state)
        assert (again.state["k"], again.state["app:a"], again.state["user:u"]) == (2, 2, 2)
        assert again.revision == session.revision
    await service.close()
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall() == before
    db.close()


@pytest.mark.parametrize("name", ADK_LAYOUTS)
async def test_db_23_an_event_stored_in_front_is_noticed(tmp_path: Path, name: str) -> None:
    """A foreign writer with a slow clock: its event sorts before what a handle knows already."""
    path = restored(tmp_path, name)
    service = session_service(f"sqlite:///{path}")
    session = await opened(service, "u1", "full")
    before = texts(session)
    with sqlite3.connect(path) as db:
        early = 1735689600.2 if name == "google_adk_sqlite" else "2025-01-01 00:00:00.200000"
        document = json.dumps(
            {"id": "slow", "author": "user", "timestamp": 1735689600.2, "content": {"parts": [{"text": "slow"}]}}
        )
        row = ("slow", "golden", "u1", "full", "inv", early, document)
        db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        db.execute("UPDATE sessions SET update_time = ? WHERE id = 'full'", (early,))
    db.close()
    await service.append_event(session, say("own", at=100))
    assert texts(session) == [before[0], "slow", *before[1:], "own"]
    assert texts(await opened(service, "u1", "full")) == texts(session)
    await service.append_event(session, say("again", at=101))
    assert texts(session)[-2:] == ["own", "again"]
    await service.close()


async def test_dbp_8_a_foreign_event_of_the_same_time_is_noticed(tmp_path: Path) -> None:
    """google-adk writes ``update_time = event.timestamp``: an equal time alone would hide it, and lose its state."""
    path = restored(tmp_path, "google_adk_v1")
    service = session_service(f"sqlite:///{path}")
    session = await opened(service, "u1", "full")
    with sqlite3.connect(path) as db:
        (time, state) = db.execute("SELECT update_time, state FROM sessions WHERE id = 'full'").fetchone()
        changed = json.dumps({**json.loads(state), "theirs": 1})
        document = json.dumps(
            {"author": "user", "timestamp": 1735689602.623456, "actions": {"state_delta": {"theirs": 1}}}
        )
        db.execute("INSERT INTO events VALUES ('zz', 'golden', 'u1', 'full', 'inv', ?, ?)", (time, document))
        db.execute("UPDATE sessions SET state = ? WHERE id = 'full'", (changed,))
    db.close()
    with pytest.raises(StaleSessionError) as stale:
        await service.append_event(session, say("mine", at=100, delta={"theirs": 2}))
    assert stale.value.keys == ("theirs",)
    await service.append_event(session, say("mine", at=100, delta={"ours": 2}))
    assert [event.id for event in session.events][-2] == "zz"
    assert (session.state["theirs"], session.state["ours"]) == (1, 2)
    assert dict((await opened(service, "u1", "full")).state) == dict(session.state)
    await service.close()


async def test_dbl_4_numbers_and_text_json_cannot_hold_are_replaced(tmp_path: Path, caplog: Any) -> None:
    path = restored(tmp_path, "google_adk_v1")
    with sqlite3.connect(path) as db:
        db.execute("UPDATE sessions SET state = '{\"x\": NaN, \"y\": [Infinity, 1.5]}' WHERE id = 'empty'")
        document = (
            '{"author": "a", "timestamp": 5.5, "content": {"parts": [{"text": "half \\ud83d"}]}, "output": {"n": NaN}}'
        )
        row = ("odd", "golden", "u2", "empty", "inv", "1970-01-01 00:00:05.500000", document)
        db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    db.close()
    service = session_service(f"sqlite:///{path}")
    with caplog.at_level(logging.WARNING, "hookwork"):
        session = await opened(service, "u2", "empty")
    assert dict(session.state) == {"x": None, "y": [None, 1.5], "app:count": 1, "app:name": "golden"}
    assert session.events[0].text == "half \ufffd"
    assert session.events[0].output == {"n": None}
    assert len(caplog.records) >= 2
    await service.close()


async def test_db_21_a_row_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """DB-26: in one pass; the first broken row ends it."""
    path = restored(tmp_path, "google_adk_v1")
    with sqlite3.connect(path) as db:
        db.execute("UPDATE events SET event_data = '{broken' WHERE id = 'evt-1'")
        db.execute("UPDATE sessions SET state = '[1]' WHERE id = 'empty'")
    db.close()
    service = session_service(f"sqlite:///{path}")
    with pytest.raises(BackendError, match=r"table events: event 'evt-1' of session 'full' .*golden"):
        await opened(service, "u1", "full")
    with pytest.raises(BackendError, match=r"table sessions: 'empty'"):
        await opened(service, "u2", "empty")
    await service.close()


async def test_cs_40_absent_rows_of_shared_state_are_empty(tmp_path: Path) -> None:
    path = restored(tmp_path, "google_adk_v1")
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM app_states")
        db.execute("DELETE FROM user_states")
    db.close()
    service = session_service(f"sqlite:///{path}")
    session = await opened(service, "u2", "empty")
    assert dict(session.state) == {}
    await service.append_event(session, say("x", delta={"app:a": 1, "user:u": 2}))
    assert dict((await opened(service, "u2", "empty")).state) == {"app:a": 1, "user:u": 2}
    assert await service.get_user_state(app_name="golden", user_id="u2") == {"u": 2}
    await service.close()


async def test_bey_4_the_store_of_google_adks_dev_server_goes_on_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``.adk/session.db`` beside the agent, which its dev server makes, is a URL like any other."""
    (tmp_path / ".adk").mkdir()
    restored(tmp_path, "google_adk_sqlite").rename(tmp_path / ".adk" / "session.db")
    monkeypatch.chdir(tmp_path)

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=Content(role="model", parts=[Part(text=f"{len(ctx.session.events)} before")]))

    settings = Settings(sessions="sqlite:///.adk/session.db")
    async with Runner(Agent(name="golden", body=body), settings=settings) as runner:
        before = await runner.sessions.get_session(app_name="golden", user_id="u1", session_id="full")
        assert await runner.ask("go on", user_id="u1", session_id="full") == f"{len(before.events) + 1} before"
        after = await runner.sessions.get_session(app_name="golden", user_id="u1", session_id="full")
        assert list(after.events[: len(before.events)]) == list(before.events)
    assert [path.name for path in (tmp_path / ".adk").iterdir()] == ["session.db"]


# --- with google-adk itself -------------------------------------------------------------------------------------------


@needs_peer
@pytest.mark.parametrize("name", ADK_LAYOUTS)
async def test_cs_39_google_adk_and_hookwork_take_turns(tmp_path: Path, name: str) -> None:
    """ADKDB-4: both read what the other wrote, neither finds the other's handle stale, and no state is lost."""
    path = restored(tmp_path, name)
    service = session_service(f"sqlite:///{path}")
    session = await opened(service, "u1", "full")
    key = (kind(name), where(name, path), "golden", "u1", "full")
    for number in range(2):
        await service.append_event(session, say(f"ours {number}", delta={"ours": number, "app:ours": number}))
        found = await peer(
            *key, "append", f"theirs {number}", session.last_update_time.timestamp() + 1, "theirs", "app:theirs"
        )
        assert found["state"]["ours"] == found["state"]["app:ours"] == number
        assert [as_adk_reads(document) for document in found["events"][:-1]] == list(session.events)
        await service.refresh(session)
        assert session.events[-1].text == f"theirs {number}"
        assert session.state["theirs"] == session.state["app:theirs"] == f"theirs {number}"
    found = await peer(*key)
    assert [as_adk_reads(document) for document in found["events"]] == list(session.events)
    assert found["state"] == dict(session.state)
    await service.close()


@needs_peer
@pytest.mark.parametrize("name", ADK_LAYOUTS)
async def test_trap_20_google_adk_reads_a_session_with_deleted_keys(tmp_path: Path, name: str) -> None:
    """BEY-13, ACT-3: it shows null in the event, no such key in the state, and goes on with the session."""
    path = restored(tmp_path, name)
    service = session_service(f"sqlite:///{path}")
    session = await opened(service, "u1", "full")
    await service.append_event(session, say("written", delta={"k": 1, "app:k": 1, "user:k": 1}))
    await service.append_event(session, deleting(say("gone"), ["k", "app:k", "user:k"]))
    key = (kind(name), where(name, path), "golden", "u1", "full")
    found = await peer(*key, "append", "theirs", session.last_update_time.timestamp() + 1, "theirs")
    assert found["events"][-2]["actions"]["stateDelta"] == {"k": None, "app:k": None, "user:k": None}
    assert not {"k", "app:k", "user:k"} & found["state"].keys()
    await service.refresh(session)
    assert found["state"] == dict(session.state)
    assert session.events[-1].text == "theirs"
    await service.close()


@needs_peer
@pytest.mark.parametrize("clock", ["equal", "older"])
async def test_dbp_8_google_adk_writes_with_another_clock_while_a_handle_is_held(tmp_path: Path, clock: str) -> None:
    path = tmp_path / "s.db"
    service = session_service(f"sqlite:///{path}")
    session = await service.create_session(app_name="golden", user_id="u1", session_id="s")
    await service.append_event(session, say("one", at=0, delta={"k": 1}))
    moment = session.last_update_time.timestamp() - (50 if clock == "older" else 0)
    key = ("v1", where("v1", path), "golden", "u1", "s")
    await peer(*key, "append", "theirs", moment, "theirs")
    await service.append_event(session, say("two", delta={"k": 2}))
    again = await opened(service, "u1", "s")
    assert sorted(texts(session)) == ["one", "theirs", "two"]
    assert texts(again) == texts(session)
    assert texts(session)[-1] == "two"
    assert dict(again.state) == dict(session.state) == {"k": 2, "theirs": "theirs"}
    found = await peer(*key)
    assert found["state"] == dict(session.state)
    await service.close()


# --- ADK-Go -----------------------------------------------------------------------------------------------------------


async def test_db_1_an_adk_go_file_reads_as_its_columns_say(tmp_path: Path) -> None:
    service = session_service(f"sqlite:///{restored(tmp_path, 'adk_go')}")
    session = await opened(service, "u1", "full")
    call = FunctionCall(id="adk-c1", name="get_weather", args={"city": "Zürich", "stateDelta": {"a_b": None}})
    second = 1735689600.0
    first, asked, answered = session.events
    assert first == Event(
        id="evt-0",
        invocation_id="inv-0",
        author="user",
        timestamp=second + 0.123456,
        content=Content(role="user", parts=[Part(text="What is the weather? 🌤")]),
        partial=False,
        turn_complete=False,
        interrupted=False,
    )
    assert asked.content == Content(role="model", parts=[Part(function_call=call, thought_signature=b"\xfb\xff\xfe")])
    assert asked.long_running_tool_ids == ("adk-c1",)
    assert asked.custom_metadata == {"snake_key": [0, "", None]}
    assert asked.usage_metadata == UsageMetadata(prompt_token_count=11)
    assert asked.node_info == NodeInfo(path="weather_agent@1")
    assert (asked.branch, asked.turn_complete, asked.timestamp) == ("root.weather_agent", True, second + 1)
    assert answered.actions == EventActions(
        state_delta={"city": "Zürich", "app:count": 1, "user:lang": "de"},
        artifact_delta={"a.png": 1},
        compaction=EventCompaction(
            start_timestamp=second + 0.123456,
            end_timestamp=second + 1,
            excluded_events=(ExcludedEvent(invocation_id="inv-0", timestamp=second + 1),),
        ),
    )
    assert (answered.routes, answered.output, answered.isolation_scope) == (("left",), 0, "scope")
    assert (answered.error_code, answered.error_message, answered.interrupted) == ("E", "boom", True)
    assert dict(session.state) == {"city": "Zürich", "app:count": 1, "user:lang": "de"}
    await service.close()


class TestAdkGoLayout(SessionServiceSuite):
    """The suite on ADK-Go's tables; the fields it has no column for are declared (DB-3)."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.made = 0

    def empty(self) -> Path:
        self.made += 1
        folder = self.folder / str(self.made)
        folder.mkdir()
        path = restored(folder, "adk_go")
        with sqlite3.connect(path) as db:
            for table in ("events", "sessions", "app_states", "user_states"):
                db.execute(f"DELETE FROM {table}")
        db.close()
        return path

    async def make_service(self) -> DatabaseSessionService:
        service = session_service(f"sqlite:///{self.empty()}")
        await service.open()
        return service


class TestAdkSqliteLayout(TestAdkGoLayout):
    """The suite on the tables of google-adk's SQLite service."""

    def empty(self) -> Path:
        self.made += 1
        folder = self.folder / str(self.made)
        folder.mkdir()
        path = restored(folder, "google_adk_sqlite")
        with sqlite3.connect(path) as db:
            for table in ("events", "sessions", "app_states", "user_states"):
                db.execute(f"DELETE FROM {table}")
        db.close()
        return path


# --- what cannot be opened --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("CREATE TABLE events (id, actions BLOB); INSERT INTO events VALUES ('e', x'80049500')", "version 0.*migrate"),
        ("CREATE TABLE events (id, actions BLOB)", "version 0.*migrate"),
        ("CREATE TABLE events (id, title, starts_at)", "no known layout"),
        (
            "CREATE TABLE events (id, timestamp DATETIME, event_data TEXT); "
            "CREATE TABLE adk_internal_metadata (key, value); "
            "INSERT INTO adk_internal_metadata VALUES ('schema_version', '2')",
            "schema version '2'",
        ),
    ],
)
async def test_db_8_a_layout_that_cannot_be_written_is_refused(tmp_path: Path, statements: str, expected: str) -> None:
    path = tmp_path / "s.db"
    with sqlite3.connect(path) as db:
        db.executescript(statements)
    db.close()
    before = path.read_bytes()
    service = session_service(f"sqlite:///{path}")
    with pytest.raises(ConfigurationError, match=expected):
        await service.open()
    await service.close()
    with sqlite3.connect(path) as db:
        assert [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE name = 'sessions'")] == []
    db.close()
    assert before


async def test_db_8_nothing_is_created_unless_wanted(tmp_path: Path) -> None:
    service = session_service(f"sqlite:///{tmp_path}/s.db?create_schema=false")
    with pytest.raises(ConfigurationError, match="create_schema"):
        await service.open()
    await service.create_schema()
    await service.create_schema()
    session = await service.create_session(app_name="a", user_id="u", session_id="s")
    assert list(session.events) == []
    await service.close()
