"""Sessions as JSON Lines: what is written, and what is read (services COD-1, COD-2, EVT-9; servers §7)."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from tests.console.session_files import event, event_line, file_of, session

from hookwork.platform import use_clock
from hookwork_console.columns import aligned, cell, width
from hookwork_console.session_lines import entries, lines_of
from hookwork_inmemory import InMemorySessionService


async def test_cod_1_a_session_is_a_line_and_so_is_each_of_its_events() -> None:
    store = InMemorySessionService()
    with use_clock(lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)):
        handle = await store.create_session(
            app_name="weather",
            user_id="u1",
            session_id="s1",
            state={"city": "Zürich", "app:unit": "°C", "user:name": "Ann", "temp:x": 1},
        )
        await store.append_event(handle, event("e1", "hello", state={"n": None}))
    first, second = lines_of(handle)
    assert (
        first.decode()
        == '{"id":"s1","appName":"weather","userId":"u1","state":{"city":"Zürich","n":null,"app:unit":"°C",'
        '"user:name":"Ann"},"lastUpdateTime":1767323045.000001}\n'
    )
    assert json.loads(second) == {
        "id": "e1",
        "timestamp": 1_700_000_000.5,
        "invocationId": "e-1",
        "author": "user",
        "content": {"role": "user", "parts": [{"text": "hello"}]},
        "actions": {"stateDelta": {"n": None}, "artifactDelta": {}},
    }


async def test_an_empty_session_has_all_keys() -> None:
    store = InMemorySessionService()
    [line] = lines_of(await store.create_session(app_name="a", user_id="u", session_id="s"))
    assert list(json.loads(line)) == ["id", "appName", "userId", "state", "lastUpdateTime"]


@pytest.mark.parametrize(
    "line",
    [
        {"id": "s1", "app_name": "weather", "user_id": "u1", "last_update_time": 1},
        {"ID": "s1", "AppName": "weather", "UserID": "u1"},
        b'\xef\xbb\xbf{"id": "s1", "appName": "weather", "userId": "u1", "state": null}\r',
    ],
)
def test_cod_2_other_spellings_are_read(line: object) -> None:
    [entry] = entries(file_of(line))
    assert entry.session is not None
    assert (entry.session.id, entry.session.app_name, entry.session.user_id) == ("s1", "weather", "u1")
    assert entry.session.state == {}


def test_blank_lines_are_passed_over_and_counted() -> None:
    found = list(entries(file_of("", session(), "  ", event_line("e1"))))
    assert [(entry.number, entry.problem) for entry in found] == [(2, ""), (4, "")]
    assert found[1].event is not None


def test_an_event_may_hold_an_unknown_key_of_a_session() -> None:
    [entry] = entries(file_of(event_line("e1", appName="x", userId="y")))
    assert entry.event is not None
    assert entry.event.extra == {"appName": "x", "userId": "y"}


def test_a_session_that_brings_its_events_inside_is_read() -> None:
    document = session(events=[event_line("e1"), event_line("e2")])
    for stream in (file_of(document), file_of(json.dumps(document, indent=2))):
        found = list(entries(stream))
        assert [entry.number for entry in found] == [1, 1, 1]
        assert [entry.event.id for entry in found[1:] if entry.event] == ["e1", "e2"]
        assert found[0].remark == ""


def test_what_no_store_keeps_of_a_session_is_said() -> None:
    [entry] = entries(file_of(session(displayName="Trip", labels={})))
    assert entry.remark == "no store keeps 'displayName', 'labels' of a session; left out"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": "e1", ', "Event: not JSON (column 13)"),
        ("[1]", "Event: expected an object, found a list"),
        (b"\xff", "not UTF-8"),
        (event_line("e1", timestamp=True), "Event at timestamp: "),
        (event_line("e1", content={"parts": [{"text": 5}]}), "Event at content.parts[0].text: expected text, found"),
        (event_line("e1", timestamp=1_700_000_000_000), "Event at timestamp"),
        (session(state=[1]), "Session at state: expected an object, found a list"),
        (session(state={"user:": 1}), "state key 'user:' has a scope but no name"),
        (session(events="x"), "Session at events: expected a list"),
        (session(events=[1]), "events[0]: Event: expected an object"),
        (session(events=[{"author": 5}]), "events[0]: Event at author: expected text, found a number"),
    ],
)
def test_cod_7_a_broken_line_is_told_by_its_place(line: object, problem: str) -> None:
    [found] = [entry for entry in entries(file_of(line)) if entry.problem]
    assert problem in found.problem


def test_a_cell_is_one_line_without_control_characters() -> None:
    assert cell("a\tb\nc\x1b[31m\x9b") == "a\\tb\\nc\\x1b[31m\\x9b"


def test_columns_of_wide_and_combining_characters_are_aligned() -> None:
    assert width("日本") == 4
    assert width("e\u0301") == 1
    assert list(aligned([("日本", "x"), ("abcdef", "y")])) == ["日本    x", "abcdef  y"]
