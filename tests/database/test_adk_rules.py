"""google-adk's and ADK-Go's layouts on SQLite, line by line (services §4.1 … §4.3)."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from tests.database.test_layouts import opened, restored
from tests.database.test_sqlite_paths import KEY, Traced

from hookwork.errors import ConfigurationError, SessionAlreadyExistsError, ValidationError
from hookwork.platform import use_clock
from hookwork.records.content import Blob, Content, Part
from hookwork.records.event import Event, EventActions, ToolConfirmation
from hookwork_database import DatabaseSessionService, session_service
from hookwork_database.documents import event_document, event_of_document
from hookwork_database.layouts.adk_go import AdkGoLayout
from hookwork_database.layouts.pickled import PickledLayout
from hookwork_database.moments import micros_of_text
from hookwork_testkit.suites.base import BASE_TIME, say, texts
from hookwork_testkit.suites.histories import Move, history, moves

START = datetime(2025, 1, 1, tzinfo=UTC)
_TIMES = "SELECT timestamp FROM events ORDER BY rowid"


def rows(path: Path, sql: str, *parameters: Any) -> list[Any]:
    """What another program reads from a file."""
    with closing(sqlite3.connect(path)) as db:
        return db.execute(sql, parameters).fetchall()


def write(path: Path, *statements: str) -> None:
    """What another program writes into a file."""
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)


async def started(path: Path, **state: Any) -> tuple[DatabaseSessionService, Any]:
    """A service on a new file, and a session made at `START`."""
    service = session_service(f"sqlite:///{path}")
    with use_clock(lambda: START):
        return service, await service.create_session(**KEY, state=state)


# --- google-adk version 1 ---------------------------------------------------------------------------------------------


async def test_adkdb_1_a_document_has_the_keys_google_adk_always_writes(tmp_path: Path) -> None:
    """In snake_case, without nulls, its time a number; bytes in the standard alphabet (EVT-9)."""
    service, session = await started(tmp_path / "s.db")
    await service.append_event(session, Event(id="bare", invocation_id="inv", author="user", timestamp=BASE_TIME))
    asked = EventActions(requested_tool_confirmations={"c": ToolConfirmation(hint="sure?")})
    full = say("x", at=1.5, long_running_tool_ids=("a", "b"), actions=asked)
    picture = Part(inline_data=Blob(data=b"\xfb\xff\xfe", mime_type="image/png"))
    await service.append_event(session, full.replace(content=Content(role="model", parts=[picture])))
    bare, other = (
        json.loads(row[0]) for row in rows(tmp_path / "s.db", "SELECT event_data FROM events ORDER BY rowid")
    )
    empty = {"state_delta": {}, "artifact_delta": {}, "requested_auth_configs": {}, "requested_tool_confirmations": {}}
    assert bare == {
        "id": "bare",
        "invocation_id": "inv",
        "author": "user",
        "timestamp": BASE_TIME,
        "actions": empty,
        "node_info": {"path": ""},
    }
    assert other["timestamp"] == BASE_TIME + 1.5
    assert other["long_running_tool_ids"] == ["a", "b"]
    assert other["actions"]["requested_tool_confirmations"]["c"] == {
        "hint": "sure?",
        "confirmed": False,
        "payload": None,
    }
    assert other["content"]["parts"] == [{"inline_data": {"mime_type": "image/png", "data": "+//+"}}]
    await service.close()


def test_dbl_1_empty_maps_of_google_adk_are_no_unknown_keys() -> None:
    """Only what says something is kept as one."""
    document = (
        '{"author":"a","timestamp":1.0,"actions":{"state_delta":{},"requested_auth_configs":%s,"agent_state":{}}}'
    )
    plain = event_of_document(document % "{}", id="e", invocation_id="i")
    assert plain.actions.extra == {"agent_state": {}}
    assert plain.actions.requested_tool_confirmations is None
    kept = event_of_document(document % '{"c":{"scheme":1}}', id="e", invocation_id="i")
    assert kept.actions.extra == {"requested_auth_configs": {"c": {"scheme": 1}}, "agent_state": {}}


@given(played=moves)
def test_dbp_13_documents_read_back_equal(played: list[Move]) -> None:
    """By the walker and by the short cut for events without actions alike."""
    for event in history(played):
        assert event_of_document(event_document(event), id=event.id, invocation_id=event.invocation_id) == event


async def test_adkdb_2_the_columns_win_for_ids_and_the_document_for_the_time(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    service, _ = await started(path)
    document = '{"id": "other", "invocation_id": "other", "author": "a", "timestamp": 1735689601.25}'
    row = f"('mine', 'app', 'user', 's', 'inv', '2025-01-01 00:00:09.000000', '{document}')"
    write(path, f"INSERT INTO events VALUES {row}")
    session = await service.get_session(**KEY)
    event = session.events[0]
    assert (event.id, event.invocation_id, event.timestamp) == ("mine", "inv", BASE_TIME + 1.25)
    await service.append_event(session, say("x", at=2))
    stored = rows(path, "SELECT event_data FROM events ORDER BY timestamp DESC")[0][0]
    assert isinstance(json.loads(stored)["timestamp"], float), "text would make google-adk refuse the session"
    await service.close()


async def test_adkdb_3_db_18_a_create_makes_both_shared_rows(tmp_path: Path) -> None:
    """Without state too; the row that is there keeps its keys and gets the time of the keys it is given."""
    path = tmp_path / "s.db"
    service, _ = await started(path)
    at_start = "2025-01-01 00:00:00.000000"
    assert rows(path, "SELECT * FROM app_states") == [("app", "{}", at_start)]
    assert rows(path, "SELECT * FROM user_states") == [("app", "user", "{}", at_start)]
    with use_clock(lambda: START.replace(hour=1)):
        await service.create_session(**{**KEY, "session_id": "t"}, state={"app:a": 1})
    assert rows(path, "SELECT * FROM app_states") == [("app", '{"a":1}', "2025-01-01 01:00:00.000000")]
    assert rows(path, "SELECT * FROM user_states") == [("app", "user", "{}", at_start)]
    with pytest.raises(SessionAlreadyExistsError):
        await service.create_session(**KEY, state={"app:a": 2})
    assert rows(path, "SELECT state FROM app_states") == [('{"a":1}',)]
    await service.close()


async def test_adkdb_4_the_marker_google_adk_compares_is_written_to_the_microsecond(tmp_path: Path) -> None:
    """Its handle holds the ISO text of ``update_time``: always six digits, and another one after every append."""
    path = tmp_path / "s.db"
    service, session = await started(path)
    seen = []
    for at in (1, 1, 0.5):
        await service.append_event(session, say("x", at=at))
        ((update_time,),) = rows(path, "SELECT update_time FROM sessions")
        assert update_time == session.last_update_time.replace(tzinfo=None).isoformat(" ", "microseconds")
        seen.append(update_time)
    assert seen == [f"2025-01-01 00:00:01.00000{n}" for n in range(3)]
    await service.close()


async def test_adkdb_5_rows_of_one_time_are_ordered_by_id(tmp_path: Path) -> None:
    """As google-adk's ``ORDER BY timestamp DESC, id DESC`` reversed; a limit cuts at the same place."""
    path = tmp_path / "s.db"
    service, _ = await started(path)
    for name in ("b", "c", "a"):
        document = json.dumps({"author": "x", "timestamp": BASE_TIME, "content": {"parts": [{"text": name}]}})
        write(path, f"INSERT INTO events VALUES ('{name}', 'app', 'user', 's', 'i', '2025-01-01', '{document}')")
    write(path, "UPDATE events SET timestamp = '2025-01-01 00:00:00.000000'")
    assert texts(await service.get_session(**KEY)) == ["a", "b", "c"]
    other = session_service(f"sqlite:///{path}")
    assert texts(await other.get_session(**KEY, num_recent_events=2)) == ["b", "c"]
    assert rows(path, "SELECT id FROM events ORDER BY timestamp DESC, id DESC LIMIT 2") == [("c",), ("b",)]
    session = await other.get_session(**KEY)
    with pytest.raises(ValidationError, match="k"):
        await other.append_event(session, say("x", delta={"k": {1, 2}}))  # google-adk would store its repr
    await service.close()
    await other.close()


async def test_adkdb_6_a_new_file_is_version_1_to_google_adk(tmp_path: Path) -> None:
    """It asks the metadata table first; without one, ``actions`` without ``event_data`` would be version 0."""
    path = tmp_path / "s.db"
    service, _ = await started(path)
    assert rows(path, "SELECT value FROM adk_internal_metadata WHERE \"key\" = 'schema_version'") == [("1",)]
    columns = {row[1] for row in rows(path, "PRAGMA table_info(events)")}
    assert "event_data" in columns
    assert "actions" not in columns
    await service.close()


async def test_adkdb_7_version_0_is_adk_gos_table_without_the_workflow_columns(tmp_path: Path) -> None:
    path = restored(tmp_path, "google_adk_v0")
    found = {row[1] for row in rows(path, "PRAGMA table_info(events)")}
    workflow = {"routes_json", "output_json", "node_info_json", "requested_input_json", "isolation_scope"}
    assert set(AdkGoLayout.payload) - set(PickledLayout.payload) == workflow
    assert set(PickledLayout.payload) - set(AdkGoLayout.payload) == {"input_transcription", "output_transcription"}
    assert set(PickledLayout.payload) <= found
    assert rows(path, "SELECT substr(actions, 1, 1) FROM events LIMIT 1") == [(b"\x80",)]
    service = session_service(f"sqlite:///{path}")
    with pytest.raises(ConfigurationError, match="hookwork migrate"):
        await service.open()
    await service.close()


async def test_adkdb_8_the_sqlite_service_keeps_epoch_seconds_and_orders_by_row(tmp_path: Path) -> None:
    path = restored(tmp_path, "google_adk_sqlite")
    service = session_service(f"sqlite:///{path}")
    session = await opened(service, "u2", "empty")
    for name in ("b", "a"):
        document = json.dumps({"author": "x", "timestamp": 1.0, "content": {"parts": [{"text": name}]}})
        row = f"('{name}', 'golden', 'u2', 'empty', 'i', 2000000000.0, '{document}')"
        write(path, f"INSERT INTO events VALUES {row}", "UPDATE sessions SET update_time = 2000000000.0")
    await service.append_event(session, say("own", at=1, delta={"app:new": 1}))
    assert texts(session) == ["b", "a", "own"], "in the order of their rows, not of their ids"
    assert texts(await opened(session_service(f"sqlite:///{path}"), "u2", "empty")) == ["b", "a", "own"]
    kinds = "SELECT typeof(timestamp), timestamp FROM events WHERE session_id = 'empty' ORDER BY rowid"
    assert rows(path, kinds) == [("real", 2000000000.0)] * 2 + [("real", 2000000000.000001)]
    assert rows(path, "SELECT typeof(update_time) FROM sessions WHERE id = 'empty'") == [("real",)]
    assert rows(path, "SELECT typeof(update_time) FROM app_states") == [("real",)]
    await service.close()


# --- our own behaviour ------------------------------------------------------------------------------------------------


async def test_db_14_dbp_9_the_column_orders_and_the_document_tells_the_time(tmp_path: Path) -> None:
    """One mark for column and row: at least a microsecond behind the last one of either."""
    path = tmp_path / "s.db"
    service, session = await started(path)
    times = (5, 3, 3, 9, 1)
    for at in times:
        await service.append_event(session, say(str(at), at=at))
    marks = [micros_of_text(row[0]) for row in rows(path, _TIMES)]
    second = round(BASE_TIME * 1e6)
    assert marks == [second + 5_000_000, second + 5_000_001, second + 5_000_002, second + 9_000_000, second + 9_000_001]
    ((updated,),) = rows(path, "SELECT update_time FROM sessions")
    assert micros_of_text(updated) == marks[-1]
    documents = rows(path, "SELECT event_data FROM events ORDER BY rowid")
    assert [json.loads(row[0])["timestamp"] for row in documents] == [BASE_TIME + at for at in times]
    write(path, "UPDATE sessions SET update_time = '2025-01-01 01:00:00.000000'")
    await service.append_event(session, say("x", at=10))
    assert micros_of_text(rows(path, _TIMES)[-1][0]) == second + 3_600_000_001
    await service.close()


async def test_db_15_after_is_exact_whatever_the_column_says(tmp_path: Path) -> None:
    """The column may lie behind an event's time, never before it: it pre-filters, the event decides."""
    path = tmp_path / "s.db"
    service, session = await started(path)
    for at in (10, 1, 2, 3):
        await service.append_event(session, say(str(at), at=at))
    fresh = session_service(f"sqlite:///{path}")
    assert texts(await fresh.get_session(**KEY, after=BASE_TIME + 2)) == ["10", "2", "3"]
    await fresh.close()
    traced = Traced(path)
    await traced.service.open()
    traced.taken()
    await traced.service.get_session(**KEY, num_recent_events=2)
    assert [statement for statement in traced.statements if "LIMIT 2" in statement], "the limit alone goes into SQL"
    fresh = session_service(f"sqlite:///{path}")
    assert texts(await fresh.get_session(**KEY, after=BASE_TIME + 2, num_recent_events=2)) == ["2", "3"]
    for opened_service in (fresh, traced.service, service):
        await opened_service.close()


async def test_db_16_a_read_is_one_transaction(tmp_path: Path) -> None:
    service, session = await started(tmp_path / "s.db", k=1)
    await service.append_event(session, say("x", delta={"app:a": 1, "user:u": 2}))
    traced = Traced(tmp_path / "s.db")
    await traced.service.open()
    traced.taken()
    again = await traced.service.get_session(**KEY)
    assert traced.taken() == ["BEGIN", "SELECT", "SELECT", "COMMIT"], "row and states, then the events"
    assert dict(again.state) == {"k": 1, "app:a": 1, "user:u": 2}
    await traced.service.close()
    await service.close()


async def test_db_17_a_delete_removes_the_events_itself(tmp_path: Path) -> None:
    """And every connection checks foreign keys and writes ahead."""
    path = tmp_path / "s.db"
    traced = Traced(path)
    session = await traced.service.create_session(**KEY)
    await traced.service.append_event(session, say("x"))
    traced.taken()
    await traced.service.delete_session(**KEY)
    deletes = [statement for statement in traced.statements if statement.startswith("DELETE")]
    assert list(dict.fromkeys(statement.split()[2] for statement in deletes)) == ["events", "sessions"]
    words = traced.taken()
    assert (words[0], set(words[1:-1]), words[-1]) == ("BEGIN", {"DELETE"}, "COMMIT")
    assert rows(path, "SELECT COUNT(*) FROM events") == [(0,)]
    pragmas = await traced.service._store._writer.call(  # type: ignore[attr-defined]
        lambda db: [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("foreign_keys", "journal_mode")]
    )
    assert pragmas == [1, "wal"]
    await traced.service.close()


def test_db_19_no_document_holds_what_postgresql_cannot() -> None:
    """JSONB refuses ``\\u0000``; it never gets there, as the record holds U+FFFD already (EVT-12)."""
    event = say("a\x00b\ud83dc", delta={"k\x00": ["\x00"]})
    document = event_document(event)
    assert "\\u0000" not in document
    assert "\x00" not in document
    assert json.loads(document)["content"]["parts"][0]["text"] == "a\ufffdb\ufffdc"
    assert document.encode("utf-8")


@pytest.mark.parametrize("scheme", ["sqlite", "postgresql", "postgres", "mysql", "mariadb", "spanner"])
def test_db_19_one_distribution_but_for_spanner(scheme: str) -> None:
    from hookwork_database.extension import create_session_service

    made = create_session_service(f"{scheme}://localhost/db" if scheme != "sqlite" else "sqlite:///x.db", {})
    assert (made is None) is (scheme == "spanner")


async def test_dbp_10_an_absorbed_append_reads_only_what_is_behind(tmp_path: Path) -> None:
    """The row, the event of that id, the newer events, their count; and no more however long the log is."""
    path = tmp_path / "s.db"
    traced = Traced(path)
    session = await traced.service.create_session(**KEY)
    found = []
    for length in (1, 100):
        while len(session.events) < length:
            await traced.service.append_event(session, say("x"))
        other = session_service(f"sqlite:///{path}")
        await other.append_event(await other.get_session(**KEY), say("foreign", delta={"n": length}))
        await other.close()
        traced.taken()
        await traced.service.append_event(session, say("own", delta={"k": length}))
        found.append(traced.taken())
        assert texts(session)[-2:] == ["foreign", "own"]
    fast_try = ["BEGIN", "INSERT", "UPDATE", "DELETE"]
    assert found[0] == found[1] == [*fast_try, *["SELECT"] * 4, "INSERT", "UPDATE", "COMMIT"]
    await traced.service.close()


async def test_dbp_11_a_handle_behind_its_own_log_takes_the_fast_path(tmp_path: Path) -> None:
    """What this process stored itself is checked in memory."""
    traced = Traced(tmp_path / "s.db")
    session = await traced.service.create_session(**KEY)
    behind = await traced.service.get_session(**KEY)
    await traced.service.append_event(session, say("one", delta={"a": 1}))
    traced.taken()
    await traced.service.append_event(behind, say("two", delta={"b": 2}))
    assert traced.taken() == ["BEGIN", "INSERT", "UPDATE", "COMMIT"]
    assert (texts(behind), dict(behind.state)) == (["one", "two"], {"a": 1, "b": 2})
    await traced.service.close()


# --- ADK-Go -----------------------------------------------------------------------------------------------------------


async def test_db_2_db_5_an_append_writes_adk_gos_types_and_leaves_the_event_alone(tmp_path: Path) -> None:
    path = restored(tmp_path, "adk_go")
    service = session_service(f"sqlite:///{path}")
    session = await opened(service, "u1", "full")
    shared = rows(path, "SELECT update_time FROM app_states") + rows(path, "SELECT update_time FROM user_states")
    event = say("x", timestamp=BASE_TIME + 100.00000049, delta={"k": 1, "temp:t": 2})
    await service.append_event(session, event)
    assert event.timestamp == BASE_TIME + 100.00000049, "its time is rounded in the stored copy only"
    assert dict(event.actions.state_delta) == {"k": 1, "temp:t": 2}
    names = ("actions", "content", "timestamp", "routes_json", "branch", "error_code")
    kinds = ", ".join(f"typeof({name})" for name in names)
    newest = f"SELECT {kinds}, timestamp FROM events ORDER BY timestamp DESC LIMIT 1"
    assert rows(path, newest) == [("blob", "text", "text", "null", "null", "null", "2025-01-01 00:01:40.000000+00:00")]
    row = "SELECT typeof(state), update_time FROM sessions WHERE id = 'full'"
    assert rows(path, row) == [("text", "2025-01-01 00:01:40.000000+00:00")]
    after = rows(path, "SELECT update_time FROM app_states") + rows(path, "SELECT update_time FROM user_states")
    assert after == shared, "shared rows are written only with keys of theirs"
    await service.close()


async def test_db_6_events_of_one_time_have_an_order_in_adk_gos_layout_too(tmp_path: Path) -> None:
    path = restored(tmp_path, "adk_go")
    write(path, "UPDATE events SET timestamp = '2025-01-01 00:00:01+00:00' WHERE session_id = 'full'")
    for _ in range(3):
        service = session_service(f"sqlite:///{path}")
        session = await opened(service, "u1", "full")
        assert [event.id for event in session.events] == ["evt-0", "evt-1", "evt-2"]
        newest = await service.get_session(app_name="golden", user_id="u1", session_id="full", num_recent_events=1)
        assert [event.id for event in newest.events] == ["evt-2"]
        await service.close()


async def test_db_7_create_and_delete_are_whole_in_adk_gos_layout(tmp_path: Path) -> None:
    path = restored(tmp_path, "adk_go")
    traced = Traced(path)
    await traced.service.open()
    traced.taken()
    key = {"app_name": "golden", "user_id": "u3"}
    session = await traced.service.create_session(**key, session_id="s", state={"k": 1, "app:a": 2, "user:u": 3})
    made = traced.taken()
    assert (made[0], made[-1], made.count("BEGIN"), made.count("COMMIT")) == ("BEGIN", "COMMIT", 1, 1)
    assert rows(path, "SELECT state FROM user_states WHERE user_id = 'u3'") == [('{"u":3}',)]
    await traced.service.append_event(session, say("x"))
    await traced.service.delete_session(**key, session_id="s")
    assert rows(path, "SELECT COUNT(*) FROM events WHERE user_id = 'u3'") == [(0,)]
    assert rows(path, "SELECT state FROM user_states WHERE user_id = 'u3'") == [('{"u":3}',)]
    await traced.service.close()


@pytest.mark.parametrize("name", ["google_adk_v1", "google_adk_sqlite"])
async def test_bey_8_fields_of_google_adk_that_are_not_modelled_stay(tmp_path: Path, name: str) -> None:
    """Read, appended after, and read again: in the form they came in (COD-3)."""
    extra = {
        "turn_complete_reason": "STOP",
        "interaction_status": "done",
        "live_session_resumption_update": {"new_handle": "h", "resumable": True},
        "live_session_id": "l-1",
        "go_away": {"time_left": "10s"},
        "voice_activity": {"voice_activity_type": "ACTIVITY_START"},
        "cache_metadata": {"cache_name": "c", "expire_time": 1.5},
        "interaction_id": "i-1",
        "environment_id": "e-1",
    }
    path = restored(tmp_path, name)
    service = session_service(f"sqlite:///{path}")
    session = await opened(service, "u2", "empty")
    document = json.dumps({"author": "a", "timestamp": 2000000000.5, **extra})
    at = "2000000000.5" if name == "google_adk_sqlite" else "'2033-05-18 03:33:20.500000'"
    row = f"('live', 'golden', 'u2', 'empty', 'i', {at}, '{document}')"
    write(path, f"INSERT INTO events VALUES {row}", f"UPDATE sessions SET update_time = {at} WHERE id = 'empty'")
    await service.refresh(session)
    assert session.events[-1].extra == extra
    await service.append_event(session, session.events[-1].replace(id="copy", timestamp=2000000001.0))
    stored = json.loads(rows(path, "SELECT event_data FROM events WHERE id = 'copy'")[0][0])
    assert {key: stored[key] for key in extra} == extra
    await service.close()
