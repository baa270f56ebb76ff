"""Handles, logs and what is derived from history (core PND, REW-2; services LOG; activations ACT-5 … ACT-8)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part
from hookwork.records.event import Event, EventActions, NodeInfo, RequestInput, ToolConfirmation
from hookwork.records.history import CLOSED_CALLS, HistoryIndex, parents
from hookwork.records.session import EventLog, Session, live_positions

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


def test_rew_2_hidden_calls_are_not_open_and_hidden_answers_close_nothing() -> None:
    assert open_ids(call("c1"), rewind("e-1")) == []
    asked = call("c1", invocation_id="e-1")
    answered = answer("c1", invocation_id="e-2")
    assert open_ids(asked, answered, rewind("e-2")) == ["c1"]


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
            [(key, msgspec.structs.replace(r, waiting={})) for key, r in sorted(index.records.items())],
            [(key, [call.id for call in r.waiting.values()]) for key, r in sorted(index.records.items())],
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
