"""Handles, logs and what is derived from history (core PND, REW-2; services LOG; activations ACT-5 … ACT-8)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookwork.errors import StateMutationError
from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part
from hookwork.records.event import Event, EventActions, NodeInfo, RequestInput, ToolConfirmation
from hookwork.records.history import CLOSED_CALLS, HistoryIndex, parents
from hookwork.records.session import EventLog, Session, live_positions, without_temp

CLOSING_KEY = "hookwork_closed_calls"


def session(*events: Event, **fields: Any) -> Session:
    return Session(
        app_name="app",
        user_id="u",
        id="s",
        log=EventLog(events),
        last_update_time=datetime(2026, 1, 1, tzinfo=UTC),
        revision="1",
        **fields,
    )


def call(*ids: str, author: str = "a", name: str = "book", args: Any = None, long: bool = True, **fields: Any) -> Event:
    parts = [Part(function_call=FunctionCall(id=id, name=name, args=args or {})) for id in ids]
    fields.setdefault("invocation_id", "e-1")
    return Event(
        author=author,
        content=Content(role="model", parts=parts),
        long_running_tool_ids=ids if long else (),
        **fields,
    )


def answer(*ids: str, author: str = "user", payload: Any = None, **fields: Any) -> Event:
    response = {"ok": True} if payload is None else payload
    parts = [Part(function_response=FunctionResponse(id=id, name="book", response=response)) for id in ids]
    fields.setdefault("invocation_id", "e-1")
    return Event(author=author, content=Content(role="user", parts=parts), **fields)


def text(words: str, author: str = "a", **fields: Any) -> Event:
    fields.setdefault("invocation_id", "e-1")
    role = "user" if author == "user" else "model"
    return Event(author=author, content=Content(role=role, parts=[Part(text=words)]), **fields)


def at(path: str) -> dict[str, Any]:
    return {"node_info": NodeInfo(path=path)}


def rewind(target: str) -> Event:
    actions = EventActions(rewind_before_invocation_id=target)
    return Event(author="user", invocation_id=f"e-rewind-{target}", actions=actions)


def open_ids(*events: Event) -> list[str]:
    return list(session(*events).open_calls)


# --- PND-1 ------------------------------------------------------------------------------------------------------------


def test_pnd_1_a_long_running_call_without_a_closing_response_is_open() -> None:
    assert open_ids(call("c1")) == ["c1"]
    assert open_ids(call("c1", long=False)) == []
    assert open_ids(call("c1", error_code="X")) == []
    assert open_ids() == []


def test_pnd_1_any_response_in_a_user_event_closes() -> None:
    assert open_ids(call("c1"), answer("c1")) == []
    assert open_ids(call("c1"), answer("c1", payload={"error": "x"})) == []
    assert open_ids(call("c1"), answer("c2")) == ["c1"]


def test_pnd_1_a_status_of_the_agent_closes_nothing() -> None:
    assert open_ids(call("c1"), answer("c1", author="a", payload={"status": "working"})) == ["c1"]


def test_pnd_1_an_error_response_of_the_agent_closes() -> None:
    """CASE-HITL-1: a long-running tool that raises is not waiting."""
    assert open_ids(call("c1"), answer("c1", author="a", payload={"error": "boom"})) == []
    assert open_ids(call("c1"), answer("c1", author="a", payload={"error": None})) == []


def test_pnd_1_finished_closes_by_the_list_of_its_event() -> None:
    assert CLOSED_CALLS == CLOSING_KEY
    done = answer("c1", author="a", payload={"r": 1}, custom_metadata={CLOSING_KEY: ["c1"]})
    assert open_ids(call("c1", "c2"), done) == ["c2"]


def test_pnd_1_other_authors_close_nothing() -> None:
    assert open_ids(call("c1"), answer("c1", author="b", payload={"error": "x"})) == ["c1"]
    listed = answer("c1", author="b", custom_metadata={CLOSING_KEY: ["c1"]})
    assert open_ids(call("c1"), listed) == ["c1"]


def test_pnd_1_a_response_before_the_call_closes_nothing() -> None:
    assert open_ids(answer("c1"), call("c1")) == ["c1"]


def placeholder(id: str) -> Event:
    asked = EventActions(requested_tool_confirmations={id: ToolConfirmation(hint="Sure?")})
    return answer(id, author="a", payload={"error": "needs confirmation"}, actions=asked)


def request(id: str, original: str) -> Event:
    args = {
        "originalFunctionCall": {"id": original, "name": "book", "args": {}},
        "toolConfirmation": {"hint": "Sure?", "confirmed": False, "payload": {"n": 1}},
    }
    return call(id, name="adk_request_confirmation", args=args)


def test_pnd_1_a_confirmation_placeholder_closes_nothing() -> None:
    events = [call("c1"), placeholder("c1"), request("r1", "c1")]
    assert open_ids(*events) == ["r1"]  # until it is answered, the request is what is open
    events.append(answer("r1", payload={"confirmed": True}))
    assert open_ids(*events) == ["c1"]  # afterwards the long-running call is
    assert open_ids(*events, answer("c1", author="a", payload={"status": "working"})) == ["c1"]
    assert open_ids(*events, answer("c1", author="a", payload={"error": "no"})) == []
    assert open_ids(*events, answer("c1")) == []


def test_pnd_1_a_quick_call_that_waits_for_approval_is_not_open_itself() -> None:
    events = [call("c1", long=False), placeholder("c1"), request("r1", "c1")]
    assert open_ids(*events) == ["r1"]
    assert open_ids(*events, answer("r1")) == []


def test_pnd_1_the_response_of_a_delegating_call_closes_every_open_call_of_its_scope() -> None:
    inside = call("c1", author="helper", isolation_scope="d1", **at("root@1/helper@1"))
    events = [
        call("d1", long=False, author="root", **at("root@1")),
        inside,
        call("other", author="root", **at("root@1")),
    ]
    assert open_ids(*events) == ["c1", "other"]
    assert open_ids(*events, answer("d1")) == ["other"]


# --- PND-2, PND-3, PND-4 ----------------------------------------------------------------------------------------------


def test_pnd_2_an_open_call_says_all_a_person_or_client_needs() -> None:
    event = call(
        "c1", args={"city": "Oslo"}, branch="a.b", isolation_scope="s", id="ev", timestamp=3.5, **at("root@1/a@1")
    )
    (found,) = session(text("hi", "user"), event).open_calls.values()
    named = ("id", "name", "args", "kind", "author", "branch", "isolation_scope", "path", "invocation_id", "event_id")
    assert [getattr(found, name) for name in named] == [
        "c1", "book", {"city": "Oslo"}, "tool", "a", "a.b", "s", "root@1/a@1", "e-1", "ev",
    ]  # fmt: skip
    assert (found.timestamp, found.position, found.message, found.payload) == (3.5, 1, None, None)


def test_pnd_2_confirmations_and_inputs_carry_their_question() -> None:
    schema = {"type": "object"}
    asked = call(
        "i1",
        name="adk_request_input",
        requested_input=RequestInput(interrupt_id="i1", message="Which?", payload=[1], response_schema=schema),
    )
    plain = call("i2", name="adk_request_input", args={"message": "Who?", "response_schema": schema})
    events = [request("r1", "c1"), asked, plain, call("k1", name="adk_request_credential")]
    found = session(*events).open_calls
    assert [(c.id, c.kind, c.message, c.payload, c.response_schema) for c in found.values()] == [
        ("r1", "confirmation", "Sure?", {"n": 1}, None),
        ("i1", "input", "Which?", [1], schema),
        ("i2", "input", "Who?", None, schema),
        ("k1", "credential", None, None, None),
    ]


def test_pnd_2_open_calls_come_in_order_of_raising() -> None:
    assert open_ids(call("b", "a"), call("c"), answer("a")) == ["b", "c"]


def test_pnd_3_an_entry_is_the_newest_call_of_its_id() -> None:
    """CASE-HIST-3: ids repeat across turns."""
    first, second = call("call_0", args={"city": "A"}), call("call_0", args={"city": "B"}, invocation_id="e-2")
    found = session(first, answer("call_0"), second)
    assert [c.args for c in found.open_calls.values()] == [{"city": "B"}]
    assert open_ids(first, answer("call_0"), second, answer("call_0", payload={"t": 2})) == []
    index = session(first, answer("call_0", payload={"t": 1}), second, answer("call_0", payload={"t": 2})).history()
    assert [(c.args["city"], [r.payload for r in c.responses]) for c in index.calls] == [
        ("A", [{"t": 1}]),
        ("B", [{"t": 2}]),
    ]
    assert [c.occurrence for c in index.calls] == [1, 2]
    assert [c.scope for c in index.calls] == ["call_0", "call_0~2"]


def test_pnd_3_two_calls_of_one_id_in_one_turn_get_a_response_each() -> None:
    both = Event(
        author="a",
        invocation_id="e-1",
        content=Content(
            role="user",
            parts=[Part(function_response=FunctionResponse(id="w", response={"n": n})) for n in (1, 2)],
        ),
    )
    index = session(call("w", "w", long=False), both).history()
    assert [[r.payload for r in c.responses] for c in index.calls] == [[{"n": 1}], [{"n": 2}]]
    assert [c.number for c in index.calls] == [1, 2]


def test_pnd_4_open_delegations_are_unanswered_calls_that_are_a_scope() -> None:
    events = [
        call("d1", "x1", long=False, author="root", **at("root@1")),
        text("a question", "helper", isolation_scope="d1", **at("root@1/helper@1")),
    ]
    found = session(*events)
    assert [c.id for c in found.open_delegations] == ["d1"]
    assert list(found.open_calls) == []
    assert session(*events, answer("d1")).open_delegations == []
    assert session(events[0]).open_delegations == []


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


def test_rew_2_hidden_calls_are_not_open_and_hidden_answers_close_nothing() -> None:
    assert open_ids(call("c1"), rewind("e-1")) == []
    asked = call("c1", invocation_id="e-1")
    answered = answer("c1", invocation_id="e-2")
    assert open_ids(asked, answered, rewind("e-2")) == ["c1"]


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
    first = Session(
        app_name="app", user_id="u", id="s", log=log, last_update_time=datetime(2026, 1, 1, tzinfo=UTC), revision="1"
    )
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
    found = session()
    found.log, found.length = log, 1
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


# --- ACT-5 … ACT-8 ----------------------------------------------------------------------------------------------------


def test_act_5_a_record_per_place_with_aggregates_of_its_subtree() -> None:
    events = [
        text("hi", "user"),
        text("start", "root", branch="b", **at("root@1")),
        call("c1", author="kid", isolation_scope="s", **at("root@1/kid@1")),
        answer("c1"),
        text("done", "kid", output=7, actions=EventActions(escalate=True), **at("root@1/kid@1")),
        text("over", "root", actions=EventActions(transfer_to_agent="next"), **at("root@1")),
    ]
    index = session(*events).history()
    root, kid = index.record("e-1", "root@1"), index.record("e-1", "root@1/kid@1")
    assert root is not None
    assert kid is not None
    assert (root.own, root.newest, root.branch, root.children) == ([1, 5], 5, "b", ["root@1/kid@1"])
    assert (kid.own, kid.newest, kid.scope, [c.id for c in kid.calls]) == ([2, 4], 4, "s", ["c1"])
    assert (kid.newest_answer, root.newest_answer, root.news) == (3, 3, 3)
    assert (kid.end, kid.output, root.end) == (4, 7, -1)
    assert (kid.escalated, root.escalated, root.escalated_below) == (True, False, True)
    assert (root.handover, root.handover_target, kid.handover) == (5, "next", -1)
    assert (root.turns, kid.turns) == (2, 2)
    assert index.invocations == {"e-1": 0}
    assert index.record("e-2", "root@1") is None


def test_act_5_open_calls_of_a_subtree() -> None:
    events = [
        call("c1", **at("root@1/a@1")),
        call("c2", **at("root@1/a@1/b@1")),
        call("c3", **at("root@1/ab@1")),
        call("c4", invocation_id="e-2", **at("root@1/a@1")),
    ]
    index = session(*events).history()
    assert [c.id for c in index.open_below("e-1", "root@1/a@1")] == ["c1", "c2"]
    assert [c.id for c in index.open_below("e-1", "root@1")] == ["c1", "c2", "c3"]
    assert [c.id for c in index.open_below("e-2", "root@1")] == ["c4"]


def test_act_6_parents_of_a_path_nearest_first() -> None:
    assert list(parents("root@1/a@2/b@1")) == ["root@1/a@2", "root@1"]
    assert list(parents("root@1")) == []


def test_act_7_outputs_go_to_the_paths_they_are_for() -> None:
    ending = text("x", "kid", output="v", node_info=NodeInfo(path="root@1/kid@1", output_for=("root@1",)))
    spoken = text("the answer", "kid", node_info=NodeInfo(path="root@1/kid@2", message_as_output=True))
    stamped = Event(author="kid", invocation_id="e-1", node_info=NodeInfo(path="root@1/kid@3", status="completed"))
    index = session(ending, spoken, stamped).history()
    ends = {path: (record.end, record.output) for (_, path), record in index.records.items()}
    assert ends["root@1/kid@1"] == ends["root@1"] == (0, "v")
    assert ends["root@1/kid@2"] == (1, "the answer")
    assert ends["root@1/kid@3"] == (2, None)


def test_act_7_a_user_event_is_news_and_no_sign_of_life() -> None:
    index = session(text("start", "root", **at("root@1")), text("more", "user", **at("root@1"))).history()
    record = index.record("e-1", "root@1")
    assert record is not None
    assert (record.own, record.newest, record.newest_message, record.own_message) == ([0], 0, 1, 1)


def test_act_7_an_event_without_path_belongs_to_its_author_at_run_one() -> None:
    index = session(text("hi", "weather"), call("c1", author="weather")).history()
    record = index.record("e-1", "weather@1")
    assert record is not None
    assert record.own == [0, 1]
    assert [c.path for c in index.calls] == ["weather@1"]


# --- laws -------------------------------------------------------------------------------------------------------------

ids = st.sampled_from(["c1", "c2", "d1"])
invocations = st.sampled_from(["e-1", "e-2", "e-3"])
places = st.sampled_from(["root@1", "root@1/a@1", "root@1/a@2", "root@1/a@1/b@1", ""])
authors = st.sampled_from(["user", "root", "a"])


@st.composite
def events_of(draw: st.DrawFn, with_rewinds: bool = True) -> Event:
    kind = draw(st.sampled_from(["call", "answer", "text", "end"] + (["rewind"] if with_rewinds else [])))
    if kind == "rewind":
        return rewind(draw(invocations))
    fields: dict[str, Any] = {"invocation_id": draw(invocations), "author": draw(authors)}
    if path := draw(places):
        fields |= at(path)
    fields["isolation_scope"] = draw(st.sampled_from(["", "", "d1"]))
    if kind == "call":
        return call(*draw(st.lists(ids, min_size=1, max_size=2)), long=draw(st.booleans()), **fields)
    if kind == "answer":
        return answer(draw(ids), payload=draw(st.sampled_from([{}, {"error": "x"}, {"ok": 1}])), **fields)
    if kind == "end":
        return text("end", output=draw(st.integers(0, 3)), **fields)
    return text("words", **fields)


def built(events: Sequence[Event]) -> Any:
    index = HistoryIndex()
    index.extend(events, live_positions(events))
    return facts(index)


def facts(index: HistoryIndex) -> Any:
    return msgspec.to_builtins(
        [
            index.calls,
            list(index.open_calls()),
            [c.id for c in index.open_delegations()],
            sorted(index.records.items()),
            index.invocations,
            index.scope_paths,
        ],
        order="deterministic",
    )


@given(st.lists(events_of(), max_size=14), st.data())
@settings(deadline=None)
def test_log_12_an_index_carried_on_equals_one_built_anew(events: list[Event], data: st.DataObject) -> None:
    found = session()
    for event in events:
        found.log.append(event)
        found.length += 1
        if data.draw(st.booleans()):
            found.history()
    assert facts(found.history()) == built(events)


@given(st.lists(events_of(), min_size=1, max_size=14), st.data())
@settings(deadline=None)
def test_act_8_a_shorter_range_equals_its_own_events(events: list[Event], data: st.DataObject) -> None:
    found = session(*events)
    found.history()
    length = data.draw(st.integers(0, len(events)))
    cut = found.view(length=length)
    assert facts(cut.history()) == built(events[:length])
    assert list(cut.live_events) == [events[i] for i in live_positions(events[:length])]


@given(st.lists(events_of(), max_size=10), st.lists(events_of(), max_size=10))
@settings(deadline=None)
def test_log_12_load_earlier_rebuilds_over_the_longer_range(older: list[Event], newer: list[Event]) -> None:
    log = EventLog(newer, offset=len(older))
    log.index()
    log.prepend(older)
    assert facts(log.index()) == built([*older, *newer])
    assert log.offset == 0


@given(st.lists(events_of(), max_size=14))
def test_rew_2_live_positions_by_the_definition(events: list[Event]) -> None:
    hidden: set[int] = set()
    for position in range(len(events) - 1, -1, -1):
        target = events[position].actions.rewind_before_invocation_id
        if position in hidden or not target:
            continue
        hidden.add(position)
        first = next((i for i in range(position) if events[i].invocation_id == target), position)
        hidden.update(range(first, position))
    assert live_positions(events) == [i for i in range(len(events)) if i not in hidden]
