"""Laws of prompt contents over random histories (core CON-15, CON-16, INV-7)."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part, text_content
from hookwork.records.event import (
    Event,
    EventActions,
    EventCompaction,
    ExcludedEvent,
    NodeInfo,
    ToolConfirmation,
)
from hookwork.records.metadata import Transcription
from hookwork.records.session import EventLog, Session
from hookwork_llm.contents import build_contents, rebuild_contents

ME = "me"
AGENTS = {ME: object(), "other": object()}
CONFIRM = "adk_request_confirmation"


def valid_faults(prompt: list[Content]) -> list[str]:
    """What breaks VALID (cases): emptiness, unanswered calls, responses without call, a repeated id in one turn."""
    faults: list[str] = []
    expected: list[tuple[str | None, str | None]] = []
    for i, content in enumerate(prompt):
        if not content.parts:
            faults.append(f"{i}: empty content")
        if any(part.replace(thought=None) in (Part(), Part(text="")) for part in content.parts):
            faults.append(f"{i}: empty part")
        if [(r.name, r.id) for r in content.function_responses] != expected:
            faults.append(f"{i}: responses {content.function_responses} for calls {expected}")
        expected = [(c.name, c.id) for c in content.function_calls]
        repeated = [n for key, n in Counter(call.id for call in content.function_calls).items() if key and n > 1]
        if repeated:
            faults.append(f"{i}: repeated id")
    if expected:
        faults.append("the last calls are unanswered")
    return faults


ids = st.sampled_from([None, "adk-1", "adk-2", "call_0", "call_0", "c1", "c2"])
names = st.sampled_from(["f", "g", "book"])
texts = st.sampled_from(["a", "b", "", "  ", "a\nb"])
authors = st.sampled_from(["user", ME, ME, ME, "other"])
branches = st.sampled_from(["", "", "", "p.me", "p.other", "p"])
scopes = st.sampled_from(["", "", "", "", "c1", "c1~2"])
invocations = st.sampled_from(["e0", "e1", "e2"])

text_parts = st.one_of(
    texts.map(lambda t: Part(text=t)),
    texts.map(lambda t: Part(text=t, thought=True)),
    st.just(Part()),
    st.just(Part(text="", thought_signature=b"\x01")),
)
call_parts = st.builds(
    lambda i, n, a, s: Part(function_call=FunctionCall(id=i, name=n, args=a), thought_signature=s),
    ids,
    names,
    st.sampled_from([None, {}, {"x": 1}, [1]]),
    st.sampled_from([None, None, b"\x01\xff"]),
)
response_parts = st.builds(
    lambda i, n, r: Part(function_response=FunctionResponse(id=i, name=n, response=r)),
    ids,
    names,
    st.sampled_from([None, {"r": 1}, {"r": 2}, {"error": "no"}]),
)


@st.composite
def plain_events(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["text", "text", "call", "call", "response", "response", "mixed"]))
    some: dict[str, st.SearchStrategy[list[Part]]] = {
        "text": st.lists(text_parts, min_size=0, max_size=2),
        "call": st.lists(st.one_of(call_parts, call_parts, text_parts), min_size=1, max_size=3),
        "response": st.lists(st.one_of(response_parts, response_parts, text_parts), min_size=1, max_size=3),
        "mixed": st.lists(st.one_of(response_parts, call_parts, text_parts), min_size=1, max_size=3),
    }
    parts: list[Part] = draw(some[kind])
    fields: dict[str, Any] = {
        "author": draw(authors),
        "content": Content(role=draw(st.sampled_from(["user", "model"])), parts=parts),
        "branch": draw(branches),
        "isolation_scope": draw(scopes),
        "error_code": draw(st.sampled_from([None, None, None, "MAX_TOKENS"])),
    }
    called = [p.function_call.id for p in parts if p.function_call is not None and p.function_call.id]
    if draw(st.booleans()) and called:
        fields["long_running_tool_ids"] = tuple(called)
    answered = [p.function_response.id for p in parts if p.function_response is not None and p.function_response.id]
    if draw(st.booleans()) and answered:
        fields["actions"] = EventActions(requested_tool_confirmations={i: ToolConfirmation() for i in answered})
    if draw(st.booleans()):
        fields["node_info"] = NodeInfo(path=draw(st.sampled_from(["me@1", "me@1/f@1-1/kid@1", "me@1/book@c1"])))
    return fields


@st.composite
def special_events(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["request", "answer", "spoken", "state", "stateless", "roleless"]))
    number = draw(st.sampled_from(["r1", "r2"]))
    if kind == "request":
        original = {"id": draw(ids) or "c1", "name": "f", "args": {}}
        call = FunctionCall(id=number, name=CONFIRM, args={"originalFunctionCall": original})
        content = Content(role="model", parts=[Part(function_call=call)])
        return {"author": ME, "content": content, "long_running_tool_ids": (number,)}
    if kind == "answer":
        response = FunctionResponse(id=number, name=CONFIRM, response={"confirmed": draw(st.booleans())})
        parts = [Part(function_response=response), *draw(st.lists(text_parts, max_size=1))]
        return {"author": "user", "content": Content(role="user", parts=parts)}
    if kind == "spoken":
        said = Transcription(text=draw(texts), finished=True)
        return {"author": draw(authors), draw(st.sampled_from(["input_transcription", "output_transcription"])): said}
    if kind == "state":
        return {"author": ME, "actions": EventActions(state_delta={"k": 1})}
    return {"author": ME, "content": Content(role="model" if kind == "stateless" else None, parts=[])}


events = st.one_of(plain_events(), plain_events(), special_events())
rewinds = invocations.map(lambda i: {"author": "user", "actions": EventActions(rewind_before_invocation_id=i)})


@st.composite
def compactions(draw: st.DrawFn) -> dict[str, Any]:
    start = draw(st.integers(0, 20))
    record = EventCompaction(
        start_timestamp=float(start),
        end_timestamp=float(start + draw(st.integers(0, 10))),
        compacted_content=Content(role="model", parts=[Part(text=draw(texts))]),
        excluded_events=(ExcludedEvent(invocation_id="e0", timestamp=float(start + 1)),),
    )
    return {"author": "user", "actions": EventActions(compaction=record), "branch": draw(branches)}


steps = st.tuples(invocations, st.one_of(events, events, events, rewinds, compactions()), st.booleans())


def new_session() -> Session:
    return Session(
        app_name="app",
        user_id="u",
        id="s",
        log=EventLog(),
        last_update_time=datetime(2026, 1, 1, tzinfo=UTC),
        revision="",
    )


def append(session: Session, invocation: str, fields: dict[str, Any]) -> None:
    at = session.length
    session.log.append(Event(id=f"ev{at}", timestamp=float(at), invocation_id=invocation, **fields))
    session.length += 1


def variants(session: Session) -> list[dict[str, Any]]:
    return [
        {"agent_name": ME},
        {"agent_name": ME, "pairs_by_id": True},
        {"agent_name": ME, "branch": "p.me"},
        {"agent_name": ME, "isolation_scope": "c1"},
        {"agent_name": ME, "compaction": True},
        {"agent_name": ME, "include_contents": "none"},
        {"agent_name": "other", "include_contents": "none", "branch": "p.other", "compaction": True},
    ]


def check(session: Session) -> list[tuple[Any, list[Content]]]:
    taken = []
    for arguments in variants(session):
        agent = AGENTS[arguments["agent_name"]]
        prompt = build_contents(session, agent=agent, **arguments)
        assert prompt == list(rebuild_contents(session, agent=agent, **arguments)), arguments
        assert valid_faults(list(prompt)) == [], arguments
        taken.append((prompt, list(prompt)))
    return taken


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=24))
def test_con_15_con_16_every_prompt_is_valid_and_the_cache_changes_nothing(
    history: list[tuple[str, dict[str, Any], bool]],
) -> None:
    session = new_session()
    taken: list[tuple[Any, list[Content]]] = []
    for invocation, fields, build in history:
        append(session, invocation, fields)
        if build:
            taken += check(session)
    taken += check(session)
    for prompt, copy in taken:  # a prompt that was handed out never changes afterwards
        assert list(prompt) == copy


def test_con_16_a_scope_that_is_older_than_the_call_of_its_name() -> None:
    """An event bears the id of a call that comes only later: with and without the cache the prompts are the same."""
    session = new_session()
    append(session, "e0", {"author": "user", "content": text_content("astray", "user"), "isolation_scope": "c1"})
    check(session)
    made = Content(role="model", parts=[Part(function_call=FunctionCall(id="c1", name="f"))])
    append(session, "e0", {"author": "me", "content": made})
    assert len(check(session)) == len(variants(session))


def test_con_16_a_call_that_has_the_id_of_its_own_scope() -> None:
    """An event of that scope under another path makes it a call that handed something over: it waits from then on."""
    session = new_session()
    made = Content(role="model", parts=[Part(function_call=FunctionCall(id="c1", name="f"))])
    append(session, "e0", {"author": "me", "content": made, "isolation_scope": "c1"})
    check(session)
    where = NodeInfo(path="me@1/f@1-1/kid@1")
    append(session, "e0", {"author": "me", "isolation_scope": "c1", "node_info": where})
    assert len(check(session)) == len(variants(session))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(invocations, st.one_of(events, events, rewinds)), max_size=16), st.data())
def test_con_16_a_handle_behind_the_log_gets_the_prompt_of_its_own_range(
    history: list[tuple[str, dict[str, Any]]], data: st.DataObject
) -> None:
    session = new_session()
    alone = new_session()
    cut = data.draw(st.integers(0, len(history)))
    for i, (invocation, fields) in enumerate(history):
        append(session, invocation, fields)
        if i < cut:
            append(alone, invocation, fields)
    for first_full in (True, False):
        session.log.slots.clear()
        if first_full:
            build_contents(session, agent=AGENTS[ME], agent_name=ME)
        prompt = build_contents(session.view(length=cut), agent=AGENTS[ME], agent_name=ME)
        assert prompt == build_contents(alone, agent=AGENTS[ME], agent_name=ME)
        full = build_contents(session, agent=AGENTS[ME], agent_name=ME)
        assert full == rebuild_contents(session, agent=AGENTS[ME], agent_name=ME)
