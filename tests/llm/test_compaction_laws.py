"""Laws of compaction over random histories (core CMP-3, CMP-6, CMP-11; INV-7).

Every text event has a label of its own, and a summary says the labels that it stands for. So what a prompt tells is a
set of labels, and it can be compared with the history.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part
from hookwork.records.event import Event, EventActions, EventCompaction, ToolConfirmation, is_compaction
from hookwork.records.session import EventLog, Session
from hookwork_llm.compaction.record import span_of
from hookwork_llm.compaction.timeline import Timeline
from hookwork_llm.compaction.windows import MAX_SUMMARIES, Fit, Window, sliding_window, tail_window
from hookwork_llm.contents import build_contents, rebuild_contents
from hookwork_llm.contents.visibility import sees_branch
from hookwork_testkit import assert_valid_prompt

CONFIRM = "adk_request_confirmation"
BRANCHES = ("", "p.a", "p.b")


class World:
    """A history that grows by random deeds; what is open in it is kept aside to answer later."""

    def __init__(self) -> None:
        self.session = Session(
            app_name="app",
            user_id="u",
            id="s",
            log=EventLog(),
            last_update_time=datetime(2026, 1, 1, tzinfo=UTC),
            revision="0",
        )
        self.agent = object()
        self.labels = 0
        self.calls = 0
        self.clock = 100.0
        #: open things: (invocation, branch, call id, whether a person has to approve)
        self.waiting: list[tuple[str, str, str, bool]] = []

    def label(self) -> str:
        self.labels += 1
        return f"<{self.labels}>"

    def add(self, invocation: str, author: str, part: Part | None, *, tick: bool = True, **fields: Any) -> None:
        self.clock += 1.0 if tick else 0.0
        content = None
        if part is not None:
            role = "user" if author == "user" or part.function_response else "model"
            content = Content(role=role, parts=[part])
        at = self.session.length
        event = Event(
            id=f"ev{at}", timestamp=self.clock, invocation_id=invocation, author=author, content=content, **fields
        )
        self.session.log.append(event)
        self.session.length += 1

    def do(self, deed: str, invocation: str, branch: str, pick: int, tick: bool) -> None:
        if deed == "say":
            self.add(invocation, "user", Part(text=self.label()), tick=tick)
            self.add(invocation, "me", Part(text=self.label()), tick=tick, branch=branch)
        elif deed == "work":
            part, reply = self.call()
            self.add(invocation, "me", part, tick=tick, branch=branch)
            self.add(invocation, "me", Part(text=self.label()), branch=branch)
            self.add(invocation, "me", reply, tick=tick, branch=branch)
        elif deed == "ask":
            part, _ = self.call()
            name = f"c{self.calls}"
            self.add(invocation, "me", part, branch=branch)
            asked = EventActions(requested_tool_confirmations={name: ToolConfirmation()})
            self.add(invocation, "me", response(name, {"error": "asks"}), branch=branch, actions=asked)
            original = {"originalFunctionCall": {"id": name, "name": "f", "args": {}}}
            request = Part(function_call=FunctionCall(id=f"r-{name}", name=CONFIRM, args=original))
            self.add(invocation, "me", request, branch=branch, long_running_tool_ids=(f"r-{name}",))
            self.waiting.append((invocation, branch, name, True))
        elif deed == "start":
            part, _ = self.call()
            name = f"c{self.calls}"
            self.add(invocation, "me", part, branch=branch, long_running_tool_ids=(name,))
            if pick % 2:
                self.add(invocation, "me", response(name, {"status": "started"}), branch=branch)
            self.waiting.append((invocation, branch, name, False))
        elif deed == "answer" and self.waiting:
            self.answer(pick)
        elif deed == "break":
            part, _ = self.call()
            self.add(invocation, "me", part, branch=branch)
        elif deed == "rewind":
            self.rewind(pick)

    def call(self) -> tuple[Part, Part]:
        self.calls += 1
        name = f"c{self.calls}"
        return Part(function_call=FunctionCall(id=name, name="f", args={})), response(name, {"r": 1})

    def answer(self, pick: int) -> None:
        invocation, branch, name, asked = self.waiting.pop(pick % len(self.waiting))
        if asked:
            reply = FunctionResponse(id=f"r-{name}", name=CONFIRM, response={"confirmed": True})
            self.add(invocation, "user", Part(function_response=reply))
            self.add(invocation, "me", response(name, {"r": 1}), branch=branch)
        else:
            self.add(invocation, "user", response(name, {"r": 1}))
        self.add(invocation, "me", Part(text=self.label()), branch=branch)

    def rewind(self, pick: int) -> None:
        names = list(dict.fromkeys(e.invocation_id for e in self.session.live_events if not is_compaction(e)))
        if names:
            actions = EventActions(rewind_before_invocation_id=names[pick % len(names)])
            self.add("x", "user", None, actions=actions)
            live = {event.id for event in self.session.live_events}
            kept = {c.id for e in self.session.events if e.id in live for c in e.function_calls}
            self.waiting = [entry for entry in self.waiting if entry[2] in kept]

    # --- compaction ---------------------------------------------------------------------------------------------------

    def carry_out(self, window: Window) -> None:
        timeline = Timeline(self.session)
        check_window(timeline, window)
        before = set(timeline.uncovered)
        span = span_of(timeline, window)
        events = self.session.events
        told = " ".join(said(events[position]) for position in (*window.seeds, *window.positions)).split()
        words = " ".join(dict.fromkeys(["S", *told]))
        record = EventCompaction(
            start_timestamp=span.start,
            end_timestamp=span.end,
            compacted_content=Content(role="model", parts=[Part(text=words)]),
            excluded_events=span.excluded,
        )
        branch, scope = window.lane
        actions = EventActions(compaction=record)
        self.add(f"s{self.session.length}", "user", None, actions=actions, branch=branch, isolation_scope=scope)
        after = Timeline(self.session)
        # The record covers its window and nothing else, and brings nothing back.
        assert before - set(after.uncovered) == before & set(window.positions)
        assert set(after.uncovered) <= before
        self.session.log.slots.clear()
        assert Timeline(self.session).uncovered == after.uncovered

    def prompts(self) -> Iterable[tuple[str, list[Content]]]:
        for branch in BRANCHES:
            options: dict[str, Any] = {"agent": self.agent, "agent_name": "me", "branch": branch, "compaction": True}
            prompt = build_contents(self.session, **options)
            assert prompt == rebuild_contents(self.session, **options)
            assert_valid_prompt(prompt)
            yield branch, list(prompt)


def response(name: str, payload: Any) -> Part:
    return Part(function_response=FunctionResponse(id=name, name="f", response=payload))


def said(event: Event) -> str:
    """The labels of an event; of a summary, those of what it stands for."""
    record = event.actions.compaction
    content = record.compacted_content if record is not None else event.content
    return " ".join(re.findall(r"<\d+>", content.text)) if content is not None else ""


def check_window(timeline: Timeline, window: Window) -> None:
    """No window parts a call from an answer or a question from its reply, or holds what still waits."""
    events = timeline.events
    inside = set(window.positions)
    assert inside
    assert inside & set(timeline.uncovered)
    assert {timeline.lane(position) for position in inside} == {window.lane}
    assert not any(is_compaction(events[position]) for position in inside)
    assert inside <= set(timeline.live)
    for one in timeline.session.history().calls:
        answers = {answer.position for answer in one.responses}
        together = {one.position, *answers} | ({one.request.position} if one.request is not None else set())
        assert together <= inside or not together & inside
        if one.position in inside:
            assert not one.is_open
            assert any(not answer.placeholder for answer in one.responses)
    moments = {events[position].timestamp for position in inside}
    lane = [p for p in timeline.live if timeline.lane(p) == window.lane and not is_compaction(events[p])]
    assert all(position in inside for position in lane if events[position].timestamp in moments)


deeds = st.sampled_from(["say", "say", "say", "work", "work", "ask", "start", "answer", "answer", "break", "rewind"])
steps = st.lists(
    st.tuples(
        deeds,
        st.integers(0, 2),
        st.sampled_from(["", "", "", "p.a", "p.b"]),
        st.integers(0, 9),
        st.sampled_from([True, True, True, False]),
        st.sampled_from(["", "", "slide", "tail"]),
    ),
    max_size=25,
)


def grow(world: World, number: int, step: tuple[str, int, str, int, bool, str]) -> None:
    deed, back, branch, pick, tick, _ = step
    world.do(deed, f"e{max(0, number - back // 2)}", branch, pick, tick)


def compact(world: World, how: str, number: int, branch: str, *, interval: int, overlap: int, fit: Fit | None) -> None:
    if not how:
        return
    timeline = Timeline(world.session)
    if how == "slide":
        window = sliding_window(timeline, interval=interval, overlap=overlap, fit=fit)
        world.session.log.slots.clear()
        anew = Timeline(world.session)
        assert sliding_window(anew, interval=interval, overlap=overlap, fit=fit) == window
        anew.look_everywhere()
        assert sliding_window(anew, interval=interval, overlap=overlap, fit=fit) == window
        assert window is None or span_of(anew, window) == span_of(timeline, window)
    else:
        events = timeline.events
        window = tail_window(
            timeline,
            visible=lambda lane: not lane[1] and sees_branch(branch, lane[0]),
            retention=2,
            question=next((p for p in timeline.live if events[p].invocation_id == f"e{number}"), None),
            measure=lambda position: 1,
            fit=fit,
        )
    if window is not None:
        world.carry_out(window)


@given(steps, st.integers(1, 3), st.integers(0, 2), st.sampled_from([None, None, 3, 8]))
@settings(max_examples=300, deadline=None)
def test_cmp_6_cmp_11_every_event_is_told_once_and_every_prompt_is_valid(
    given_steps: list[tuple[str, int, str, int, bool, str]], interval: int, overlap: int, limit: int | None
) -> None:
    world = World()
    fit = None if limit is None else Fit(limit, lambda position: 1)
    for number, step in enumerate(given_steps):
        grow(world, number, step)
        compact(world, step[5], number, step[2], interval=interval, overlap=overlap, fit=fit)
        for _ in world.prompts():
            pass
    world.do("say", "last", "", 0, tick=True)
    live = [event for event in world.session.live_events if not is_compaction(event)]
    for branch, prompt in world.prompts():
        visible = {said(event) for event in live if sees_branch(branch, event.branch)} - {""}
        texts = [content.text for content in prompt if content.text]
        raw = {label for text in texts if not text.startswith("S") for label in text.split()}
        summed = {label for text in texts if text.startswith("S") for label in text.split()[1:]}
        assert raw | summed == visible
        assert not raw & summed
        assert len(set(texts)) == len(texts)  # no summary stands there twice


@given(steps, st.integers(1, 4), st.integers(0, 2))
@settings(max_examples=200, deadline=None)
def test_cmp_4_a_backlog_drains_and_the_summaries_stay_few(
    given_steps: list[tuple[str, int, str, int, bool, str]], interval: int, overlap: int
) -> None:
    world = World()
    for number, (deed, back, _, pick, _, _) in enumerate(given_steps):
        if deed not in ("rewind", "break"):
            world.do(deed, f"e{max(0, number - back // 2)}", "", pick, tick=True)
    while world.waiting:
        world.answer(0)
    seen = Timeline(world.session).uncovered
    while (window := sliding_window(Timeline(world.session), interval=interval, overlap=overlap)) is not None:
        world.carry_out(window)
        left = Timeline(world.session).uncovered
        assert len(left) < len(seen)
        seen = left
    timeline = Timeline(world.session)
    events = timeline.events
    names = list(dict.fromkeys(events[position].invocation_id for position in timeline.uncovered))
    alone = [name for name in names if sum(events[p].invocation_id == name for p in timeline.uncovered) == 1]
    assert len(names) - len(alone) < interval  # an event left alone between two windows may stay
    (_, prompt), *_ = world.prompts()
    assert sum(content.text.startswith("S") for content in prompt) <= MAX_SUMMARIES
