"""Session handles over shared logs (services EVT-2, LOG, STA; core REW-2)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from hookwork.errors import StateMutationError
from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part
from hookwork.records.event import Event, EventActions
from hookwork.records.session import EventLog, Session, without_temp


def session(*events: Event, **fields: Any) -> Session:
    fields.setdefault("log", EventLog(events))
    return Session(
        app_name="app", user_id="u", id="s", last_update_time=datetime(2026, 1, 1, tzinfo=UTC), revision="1", **fields
    )


def text(words: str, invocation_id: str = "e-1") -> Event:
    return Event(author="a", invocation_id=invocation_id, content=Content(role="model", parts=[Part(text=words)]))


def call(id: str, invocation_id: str = "e-1") -> Event:
    content = Content(role="model", parts=[Part(function_call=FunctionCall(id=id, name="book", args={}))])
    return Event(author="a", invocation_id=invocation_id, content=content, long_running_tool_ids=(id,))


def answer(id: str) -> Event:
    content = Content(role="user", parts=[Part(function_response=FunctionResponse(id=id, name="book", response={}))])
    return Event(author="user", invocation_id="e-1", content=content)


def rewind(target: str) -> Event:
    actions = EventActions(rewind_before_invocation_id=target)
    return Event(author="user", invocation_id=f"e-rewind-{target}", actions=actions)


# --- REW-2 ------------------------------------------------------------------------------------------------------------


def words(events: Sequence[Event]) -> list[str]:
    return [event.text for event in events]


def test_rew_2_everything_back_to_the_first_event_of_the_invocation_is_hidden() -> None:
    events = [
        text("one", invocation_id="e-1"),
        text("two", invocation_id="e-2"),
        text("two more", invocation_id="e-2"),
        text("three", invocation_id="e-3"),
        rewind("e-2"),
        text("four", invocation_id="e-4"),
    ]
    found = session(*events)
    assert words(found.live_events) == ["one", "four"]
    assert words(found.events) == ["one", "two", "two more", "three", "", "four"]
    assert words(session(*events[:5]).live_events) == ["one"]
    assert words(session(*events[:4]).live_events) == ["one", "two", "two more", "three"]


def test_rew_2_rewinds_behind_and_inside_each_other() -> None:
    one, two, three = (text(name, invocation_id=name) for name in ("one", "two", "three"))
    assert words(session(one, two, rewind("two"), three, rewind("one")).live_events) == []
    assert words(session(one, two, rewind("two"), three, rewind("three")).live_events) == ["one"]
    # The newer rewind hides the older one, and so what that one hid is hidden by the newer one's own span only.
    assert words(session(one, two, three, rewind("two"), rewind("e-rewind-two")).live_events) == ["one", "two", "three"]
    assert words(session(one, rewind("never"), two).live_events) == ["one", "two"]


# --- LOG --------------------------------------------------------------------------------------------------------------


def test_log_1_evt_2_events_are_an_immutable_sequence() -> None:
    events = [text(str(i)) for i in range(4)]
    found = session(*events).events
    assert len(found) == 4
    assert (found[0], found[-1], list(found[1:3]), list(found[::-1])) == (
        events[0],
        events[3],
        events[1:3],
        events[::-1],
    )
    assert found == events
    assert events[2] in found
    for index in (4, -5):
        with pytest.raises(IndexError, match="4 event"):
            found[index]
    assert not hasattr(found, "append")
    with pytest.raises(TypeError):
        found[0] = events[1]


def test_log_2_opening_a_handle_copies_nothing_and_iterating_is_safe_while_others_append() -> None:
    log = EventLog([text("0"), text("1")])
    first = session(log=log)
    assert first.log is log
    seen = []
    for event in first.events:
        seen.append(event.text)
        log.append(text("later"))
    assert seen == ["0", "1"]


def test_log_3_another_append_is_invisible_until_the_range_grows() -> None:
    found = session(text("0"))
    found.log.append(text("1"))
    assert words(found.events) == ["0"]
    assert not found.is_current
    found.length += 1
    assert words(found.events) == ["0", "1"]
    assert found.is_current


def test_log_9_a_handle_without_its_older_events_is_not_complete() -> None:
    log = EventLog([text("2")], offset=2)
    found = session(log=log)
    assert not found.complete
    log.prepend([text("0"), text("1")])
    assert (log.offset, words(log.events)) == (0, ["0", "1", "2"])
    assert session(text("0")).complete


def test_log_11_a_view_is_cut_and_has_a_state_of_its_own() -> None:
    found = session(
        text("0"), call("c1"), answer("c1"), text("3"), session_state={"a": 1}, app_state={"b": 2}, user_state={"c": 3}
    )
    cut = found.view(length=2, state={"a": 9, "app:b": 8, "user:c": 7, "temp:t": 6}, revision="0")
    assert words(cut.events) == words(found.events[:2])
    assert cut.log is found.log
    assert dict(cut.state) == {"a": 9, "app:b": 8, "user:c": 7}
    assert (cut.revision, cut.id, cut.app_name, cut.user_id) == ("0", "s", "app", "u")
    assert list(cut.open_calls) == ["c1"]
    assert list(found.open_calls) == []
    same = found.view()
    assert (dict(same.state), same.length, same.revision) == (dict(found.state), 4, "1")
    assert found.view(length=99).length == 4


def test_log_12_a_range_that_ends_before_a_rewind_is_answered_from_its_own_events() -> None:
    found = session(call("c1", invocation_id="e-1"), text("2", invocation_id="e-2"), rewind("e-1"))
    before = found.view(length=2)
    assert list(before.open_calls) == ["c1"]
    assert len(before.live_events) == 2
    assert list(found.open_calls) == []


def test_log_12_derived_data_belongs_to_the_log_and_is_built_once() -> None:
    found = session(call("c1"))
    index = found.history()
    again = found.view()
    assert again.history() is index
    found.log.append(answer("c1"))
    found.length += 1
    assert found.history() is index
    assert list(found.open_calls) == []
    slots = found.log.slots
    slots["flow"] = 1
    found.log.append(text("more"))
    assert slots == {"flow": 1}
    generation = found.log.generation
    found.log.append(rewind("e-1"))
    assert found.log.slots == {}
    assert found.log.generation == generation + 1


def test_log_12_an_append_after_a_rewind_looks_at_no_older_event(monkeypatch: pytest.MonkeyPatch) -> None:
    found = session(call("c1", invocation_id="e-1"), rewind("e-1"))
    assert found.log.index().calls == []
    monkeypatch.setattr("hookwork.records.session.live_positions", None)
    found.log.append(call("c2", invocation_id="e-2"))
    assert [c.id for c in found.log.index().calls] == ["c2"]


# --- STA-5 ------------------------------------------------------------------------------------------------------------


def test_sta_5_the_state_of_a_handle_is_read_only() -> None:
    found = session(session_state={"a": 1}, app_state={"b": 2}, user_state={"c": 3}, temp_state={"temp:d": 4})
    state: Any = found.state
    assert dict(state) == {"a": 1, "app:b": 2, "user:c": 3, "temp:d": 4}
    assert (state["app:b"], state.get("user:x", 0), "temp:d" in state, 3 in state, len(state)) == (2, 0, True, False, 4)
    with pytest.raises(KeyError):
        state["missing"]
    with pytest.raises(StateMutationError, match=r"'a'.*ctx\.state.*state_delta"):
        state["a"] = 2
    with pytest.raises(StateMutationError, match="'a'"):
        del state["a"]
    for key in state:
        found.session_state = {**found.session_state, key + "2": 0}
    assert len(state) == 8


def test_sta_1_temp_keys_are_not_stored() -> None:
    event = Event(actions=EventActions(state_delta={"temp:a": 1, "b": 2, "app:temp:c": 3}))
    assert without_temp(event).actions.state_delta == {"b": 2, "app:temp:c": 3}
    clean = Event(actions=EventActions(state_delta={"b": 2}))
    assert without_temp(clean) is clean
