"""Live state = stored state + what is outstanding, whatever the interleaving (core INV-6, DLT-3 … DLT-7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from hookwork import (
    Agent,
    CallbackContext,
    Event,
    EventActions,
    FunctionPlugin,
    InvocationContext,
    Runner,
    Settings,
    ToolContext,
    text_content,
)
from hookwork.errors import ContextClosedError
from hookwork.state import DeltaBuffer, LiveState, Settled, State
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call

KEYS = st.sampled_from(["a", "b", "user:c", "temp:d"])
VALUES = st.integers(0, 9)

#: what `settle` gave, and key → number of what it took.
Taken = tuple[Settled, dict[str, int]]


class Writers(RuleBasedStateMachine):
    """Writers open buffers, write, settle, store or lose their events, in any order; a plain model keeps the truth.

    The model holds every write with its number. Outstanding: written and neither stored, dropped nor overtaken by a
    stored write of a higher number. The live value of a key is that of its highest outstanding write, else the stored.
    """

    buffers = Bundle("buffers")
    events = Bundle("events")

    @initialize()
    def begin(self) -> None:
        self.service = InMemorySessionService()
        self.session = asyncio.run(self.service.create_session(app_name="app", user_id="u", state={"a": "initial"}))
        self.live = LiveState(self.session)
        self.stored: dict[str, Any] = {"a": "initial"}
        self.stored_number: dict[str, int] = {}
        #: number → (key, value) of writes that are outstanding.
        self.outstanding: dict[int, tuple[str, Any]] = {}
        self.number = 0
        #: buffer → key → number of its last write.
        self.owned: dict[int, dict[str, int]] = {}

    @rule(target=buffers)
    def open_writer(self) -> DeltaBuffer:
        buffer = DeltaBuffer()
        self.owned[id(buffer)] = {}
        return buffer

    @rule(buffer=buffers, key=KEYS, value=VALUES)
    def write(self, buffer: DeltaBuffer, key: str, value: int) -> None:
        if buffer.closed:
            with pytest.raises(ContextClosedError):
                self.live.write(buffer, key, value)
            return
        self.live.write(buffer, key, value)
        self.number += 1
        mine = self.owned[id(buffer)]
        if key in mine:
            self.outstanding.pop(mine[key], None)
        mine[key] = self.number
        self.outstanding[self.number] = (key, value)

    @rule(target=events, first=buffers, second=buffers, explicit=st.dictionaries(KEYS, VALUES, max_size=2))
    def settle(
        self, first: DeltaBuffer, second: DeltaBuffer, explicit: dict[str, int]
    ) -> tuple[Settled, dict[str, int]]:
        """An event takes one or two buffers and a delta of its own."""
        batch = [first] if first is second else [first, second]
        settled = self.live.settle(batch, explicit)
        newest: dict[str, int] = {}
        for buffer in batch:
            for key, number in self.owned[id(buffer)].items():
                if key in newest:
                    self.outstanding.pop(min(newest[key], number), None)
                newest[key] = max(newest.get(key, 0), number)
            self.owned[id(buffer)] = {}
        for key, value in explicit.items():
            self.number += 1
            if key in newest:
                self.outstanding.pop(newest[key], None)
            newest[key] = self.number
            self.outstanding[self.number] = (key, value)
        taken = {}
        for key, number in newest.items():
            if self.stored_number.get(key, 0) > number:
                self.outstanding.pop(number, None)
            else:
                taken[key] = number
        assert settled.numbers == taken
        return settled, taken

    @rule(event=consumes(events))
    def store(self, event: Taken) -> None:
        settled, taken = event
        appended = Event(
            id=f"e{self.number}-{len(self.session.events)}", actions=EventActions(state_delta=settled.delta)
        )
        asyncio.run(self.service.append_event(self.session, appended))
        self.live.appended(settled)
        for key, number in taken.items():
            self.stored[key] = settled.delta[key]
            self.stored_number[key] = max(self.stored_number.get(key, 0), number)
            for older in [n for n, (k, _) in self.outstanding.items() if k == key and n <= number]:
                del self.outstanding[older]

    @rule(event=consumes(events))
    def lose(self, event: Taken) -> None:
        settled, taken = event
        self.live.drop(settled)
        for number in taken.values():
            self.outstanding.pop(number, None)

    @rule(buffer=buffers, close=st.booleans())
    def cancel_writer(self, buffer: DeltaBuffer, close: bool) -> None:
        self.live.discard(buffer, close=close)
        for number in self.owned[id(buffer)].values():
            self.outstanding.pop(number, None)
        self.owned[id(buffer)] = {}

    @invariant()
    def live_is_stored_overlaid_by_outstanding(self) -> None:
        if not hasattr(self, "live"):
            return
        expected = dict(self.stored)
        for number in sorted(self.outstanding):
            key, value = self.outstanding[number]
            expected[key] = value
        assert State(self.live, None).to_dict() == expected

    @invariant()
    def the_handle_and_the_store_agree(self) -> None:
        if not hasattr(self, "live"):
            return
        fresh = asyncio.run(self.service.get_session(app_name="app", user_id="u", session_id=self.session.id))
        kept = {key: value for key, value in dict(self.session.state).items() if not key.startswith("temp:")}
        assert dict(fresh.state) == kept


Writers.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestWriters = Writers.TestCase


# --- the same law in runs ---------------------------------------------------------------------------------------------


async def fresh_state(runner: Runner) -> dict[str, Any]:
    session = await runner.sessions.get_session(app_name="root", user_id="u", session_id="s")
    return dict(session.state)


async def test_case_state_1_parallel_calls_that_append_to_one_list_lose_nothing() -> None:
    later = asyncio.Event()

    async def add(ctx: ToolContext, item: str) -> str:
        if item == "a":
            await later.wait()
        ctx.state["items"] = [*ctx.state["items"], item]
        later.set()
        return item

    model = ScriptedModel([[call("add", item="a"), call("add", item="b")], "done"])
    runner = Runner.in_memory(LlmAgent(name="root", model=model, tools=[add]), settings=Settings())
    run = runner.run(user_id="u", session_id="s", message="hi", state_delta={"items": []})
    await run.wait()
    assert run.session is not None
    assert run.session.state["items"] == ["b", "a"]
    assert await fresh_state(runner) == {"items": ["b", "a"]}


async def test_case_state_2_a_change_in_place_is_refused_by_name_and_edit_stores() -> None:
    async def wrong(ctx: ToolContext) -> int:
        ctx.state["cart"]["lines"].append("x")
        return 1

    async def right(ctx: ToolContext) -> int:
        with ctx.state.edit("cart") as cart:
            cart["lines"].append("x")
        return len(ctx.state["cart"]["lines"])

    model = ScriptedModel([call("wrong"), call("right"), "done"])
    runner = Runner.in_memory(LlmAgent(name="root", model=model, tools=[wrong, right]), settings=Settings())
    run = runner.run(user_id="u", session_id="s", message="hi", state_delta={"cart": {"lines": []}})
    responses = [r.response or {} async for event in run for r in event.function_responses]
    assert "cart" in responses[0]["error"]
    assert "edit" in responses[0]["error"]
    assert responses[1] == {"result": 1}
    assert await fresh_state(runner) == {"cart": {"lines": ["x"]}}


def _is_turn_of(done: list[int], position: int) -> bool:
    return len(done) == position


ORDERS = st.lists(st.tuples(st.integers(0, 3), KEYS, VALUES, st.booleans()), max_size=12)


@given(script=ORDERS, failing=st.sets(st.integers(0, 3)))
@settings(max_examples=40, deadline=None)
async def test_inv_6_parallel_tools_leave_live_and_stored_state_equal(
    script: list[tuple[int, str, int, bool]], failing: set[int]
) -> None:
    """Four tools write in a random order; some then fail. A write counts even then (DLT-10); the last in time wins."""
    turn = asyncio.Condition()
    done: list[int] = []
    expected: dict[str, int] = {}

    async def work(ctx: ToolContext, number: int) -> str:
        for position, (who, key, value, pause) in enumerate(script):
            if who != number:
                continue
            async with turn:
                await turn.wait_for(partial(_is_turn_of, done, position))
                ctx.state[key] = value
                expected[key] = value
                assert ctx.state[key] == value
                done.append(position)
                turn.notify_all()
            if pause:
                await asyncio.sleep(0)
        if number in failing:
            raise LookupError("failed after writing")
        return "ok"

    live: list[dict[str, Any]] = []

    def look(ctx: CallbackContext, event: Event) -> None:
        live.append(dict(ctx.state.to_dict()))

    model = ScriptedModel([[call("work", number=n) for n in range(4)], "done"])
    plugin = FunctionPlugin("look", on_event=look)
    runner = Runner.in_memory(LlmAgent(name="root", model=model, tools=[work]), plugins=[plugin], settings=Settings())
    run = runner.run(user_id="u", session_id="s", message="hi")
    await run.wait()
    assert run.session is not None
    assert dict(run.session.state) == expected
    assert await fresh_state(runner) == {k: v for k, v in expected.items() if not k.startswith("temp:")}
    assert live[-1] == expected


async def test_dlt_5_an_older_write_of_a_slower_event_never_comes_back() -> None:
    """The callback's write is older than the body's, but its event leaves first; a hand-made delta is the newest."""

    def before(ctx: CallbackContext) -> None:
        ctx.state["k"] = "callback"

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        assert ctx.state["k"] == "callback"
        yield Event(content=text_content("x"), actions=EventActions(state_delta={"k": "body"}))
        assert ctx.state["k"] == "body"

    runner = Runner.in_memory(Agent(name="root", body=body, before_agent=before), settings=Settings())
    run = runner.run(user_id="u", session_id="s", message="hi")
    deltas = [dict(event.actions.state_delta) async for event in run]
    assert deltas == [{"k": "callback"}, {"k": "body"}, {}]
    assert await fresh_state(runner) == {"k": "body"}


async def test_dlt_4_temp_keys_live_as_long_as_the_invocation_and_are_never_stored() -> None:
    seen: list[Any] = []

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        seen.append(ctx.state.get("temp:t"))
        yield Event(content=text_content("x"), actions=EventActions(state_delta={"temp:t": 2}))
        seen.append(ctx.state.get("temp:t"))

    runner = Runner.in_memory(Agent(name="root", body=body), settings=Settings())
    await runner.run(user_id="u", session_id="s", message="hi", state_delta={"temp:t": 1}).wait()
    await runner.run(user_id="u", session_id="s", message="hi").wait()
    assert seen == [1, 2, None, 2]
    assert await fresh_state(runner) == {}
