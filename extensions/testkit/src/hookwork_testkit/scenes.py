"""The scenes of core §7 and the invariants behind them, for any session service and any flow plugin (core B-28)."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import pytest
import pytest_asyncio

from hookwork.agent import Agent
from hookwork.errors import NothingToResume
from hookwork.invocation import RunConfig
from hookwork.model import Model
from hookwork.platform import use_clock, use_uuids
from hookwork.records.content import Content, FunctionResponse, Part
from hookwork.records.event import Event
from hookwork.records.history import Call
from hookwork.records.session import Session
from hookwork.run import Run, RunOutcome
from hookwork.runner import Runner
from hookwork.services import SessionService
from hookwork.settings import NO_SETTINGS
from hookwork_testkit.pytest_plugin import CountedIds, FixedTime
from hookwork_testkit.scene_ends import SESSION, USER, SceneEnds, line
from hookwork_testkit.scene_tools import Appender, Recorder, Waiter
from hookwork_testkit.scripted import ScriptedModel
from hookwork_testkit.steps import block, call, partial, stream, thought


def answer(call: Call, response: dict[str, Any]) -> Content:
    """A user's answer to an open call."""
    part = Part(function_response=FunctionResponse(id=call.id, name=call.name, response=response))
    return Content(role="user", parts=[part])


class RunnerScenes(SceneEnds):
    """Subclass it in a test module, with a name that pytest collects, and say how sessions and agents are made.

    Each scene asserts the events in their order, that what was yielded is what is stored, that live and stored state
    are equal, and that every prompt was valid: in plain and in streaming mode, and ended by leaving, by ``stop()`` and
    by cancellation, after each event and at any turn of the event loop (`SceneEnds`).
    """

    pytestmark = pytest.mark.asyncio

    @abstractmethod
    async def make_sessions(self) -> SessionService:
        """A session service on an empty store."""

    async def reopen_sessions(self, sessions: SessionService) -> SessionService:
        """A second service on the same store, as another process would have; default: the same object."""
        return sessions

    @abstractmethod
    def make_agent(
        self, name: str, model: Model, *, tools: Sequence[Any] = (), sub_agents: Sequence[Agent] = ()
    ) -> Agent:
        """An agent of the flow under test; its description may be anything."""

    @pytest_asyncio.fixture
    async def sessions(self) -> AsyncIterator[SessionService]:
        """The session service under test."""
        service = await self.make_sessions()
        yield service
        await service.close()

    # --- steps --------------------------------------------------------------------------------------------------------

    def runner(self, agent: Agent, sessions: SessionService) -> Runner:
        """A runner whose settings are nobody's."""
        return Runner(agent, app_name="scenes", sessions=sessions, settings=NO_SETTINGS)

    async def play(
        self, agent: Agent, sessions: SessionService, message: Any, **options: Any
    ) -> tuple[list[Event], RunOutcome]:
        """One run of a runner of its own, from the first event to the outcome; what it leaves behind is checked."""
        async with (
            self.runner(agent, sessions) as runner,
            runner.run(user_id=USER, session_id=SESSION, message=message, **options) as run,
        ):
            events = [event async for event in run]
            live = dict(run.session.state) if run.session is not None else {}
        assert run.outcome is not None
        stored = await self.stored(sessions)
        whole = [event for event in events if not event.partial]
        assert list(stored.events)[-len(whole) :] == whole, "what was yielded is what is stored (core RUN-19)"
        assert dict(stored.state) == live, "live and stored state are equal (core INV-6)"
        return events, run.outcome

    async def stored(self, sessions: SessionService) -> Session:
        """The session as a new handle shows it."""
        return await sessions.get_session(app_name="scenes", user_id=USER, session_id=SESSION)

    def assert_story(self, events: Iterable[Event], *lines: str) -> None:
        """Assert the events in their order."""
        assert [line(event) for event in events] == list(lines)

    # --- scenes (core §7) ---------------------------------------------------------------------------------------------

    async def test_tool_call(self, sessions: SessionService) -> None:
        """Tool call: call, response, text."""
        model, look = ScriptedModel([call("look"), "clear"]), Recorder("look")
        events, outcome = await self.play(self.make_agent("a", model, tools=[look]), sessions, "sky?")
        self.assert_story(events, "a: call look", "a: response look", "a: text")
        assert (outcome.kind, outcome.final_event) == ("completed", events[-1])
        assert (look.calls, dict(events[1].function_responses[0].response or {})) == ([{}], {"n": 1})
        self.assert_valid(model)

    async def test_sse_text(self, sessions: SessionService) -> None:
        """SSE text: partials, then the full text; partials are not stored (INV-2, CASE-STREAM-3)."""
        turn = [partial(thought("hm")), *stream("It is ", "5.")]
        model = ScriptedModel([turn])
        config = RunConfig(streaming_mode="sse")
        events, _ = await self.play(self.make_agent("a", model), sessions, "time?", config=config)
        assert [event.text for event in events if event.partial] == ["", "It is ", "5."]
        finals = [event for event in events if event.is_final_response()]
        assert [event.text for event in finals] == ["It is 5."]
        assert {event.id for event in events} == {finals[0].id}
        assert [event.text for event in (await self.stored(sessions)).events] == ["time?", "It is 5."]

    @pytest.mark.parametrize("confirmed", [True, False])
    async def test_confirm(self, sessions: SessionService, confirmed: bool) -> None:
        """Confirm: call, response, request; answered in another process; a rejected call never runs (HITL-02)."""
        model, act = ScriptedModel([call("act", x=1), "done"]), Recorder("act", confirm=True)
        agent = self.make_agent("a", model, tools=[act])
        events, outcome = await self.play(agent, sessions, "go")
        self.assert_story(events, "a: call act", "a: response act", "a: call adk_request_confirmation")
        assert (outcome.kind, act.calls) == ("paused", [])
        [asked] = outcome.open_calls
        assert asked.kind == "confirmation"
        later = await self.reopen_sessions(sessions)
        reply = answer(asked, {"confirmed": confirmed})
        events, outcome = await self.play(agent, later, reply)
        self.assert_story(events, "a: response act", "a: text")
        assert (outcome.kind, act.calls) == ("completed", [{"x": 1}] if confirmed else [])
        with pytest.raises(NothingToResume):
            await self.play(agent, later, reply)
        assert len(act.calls) == int(confirmed), "a re-sent approval runs nothing (HITL-12)"
        self.assert_valid(model)

    async def test_transfer(self, sessions: SessionService) -> None:
        """Transfer: call, response, text of the other agent, where the next turn starts, too (RUN-33)."""
        expert = ScriptedModel(["I know.", "still me"])
        first = ScriptedModel([call("transfer_to_agent", agent_name="b")])
        agent = self.make_agent("a", first, sub_agents=[self.make_agent("b", expert)])
        events, _ = await self.play(agent, sessions, "who knows?")
        self.assert_story(events, "a: call transfer_to_agent", "a: response transfer_to_agent", "b: text")
        assert events[1].actions.transfer_to_agent == "b"
        events, _ = await self.play(agent, sessions, "and now?")
        self.assert_story(events, "b: text")
        self.assert_valid(first, expert)

    async def test_long_running_without_a_response(self, sessions: SessionService) -> None:
        """Long-running, None: the call stays open until the user answers it."""
        model, ship = ScriptedModel([call("ship"), "shipped"]), Recorder("ship", long_running=True, answer=None)
        agent = self.make_agent("a", model, tools=[ship])
        events, outcome = await self.play(agent, sessions, "go")
        self.assert_story(events, "a: call ship")
        assert outcome.kind == "paused"
        [waiting] = outcome.open_calls
        later = await self.reopen_sessions(sessions)
        events, outcome = await self.play(agent, later, answer(waiting, {"status": "arrived"}))
        self.assert_story(events, "a: text")
        assert (outcome.kind, len(ship.calls)) == ("completed", 1)
        self.assert_valid(model)

    async def test_long_running_that_fails(self, sessions: SessionService) -> None:
        """Long-running, fails: an ordinary error response in the same run (CASE-HITL-1)."""
        model, ship = ScriptedModel([call("ship"), "sorry"]), Recorder("ship", long_running=True, error="no ship")
        events, outcome = await self.play(self.make_agent("a", model, tools=[ship]), sessions, "go")
        self.assert_story(events, "a: call ship", "a: response ship", "a: text")
        assert "error" in (events[1].function_responses[0].response or {})
        assert (outcome.kind, list(outcome.open_calls)) == ("completed", [])
        self.assert_valid(model)

    # --- invariants (core §0) -----------------------------------------------------------------------------------------

    async def test_inv_1_an_event_is_stored_before_it_is_handed_on(self, sessions: SessionService) -> None:
        model, look = ScriptedModel([call("look"), "clear"]), Recorder("look")
        async with (
            self.runner(self.make_agent("a", model, tools=[look]), sessions) as runner,
            runner.run(user_id=USER, session_id=SESSION, message="sky?") as run,
        ):
            async for event in run:
                assert list((await self.stored(sessions)).events)[-1] == event
        assert look.seen == [["look"]], "a tool sees the event that called it"

    @pytest.mark.parametrize("way", ["leave", "stop", "cancel"])
    async def test_inv_3_a_run_ended_in_its_model_stream_leaves_nothing_behind(
        self, sessions: SessionService, way: str
    ) -> None:
        model = ScriptedModel([[partial("half an "), *block("answer")], "second"])
        agent = self.make_agent("a", model)
        await self._end(agent, sessions, way, model.wait_blocked, config=RunConfig(streaming_mode="sse"))
        assert model.cut_short == 1, "the model stream was closed before control came back"
        model.release()
        for _ in range(20):
            await asyncio.sleep(0)
        assert [event.text for event in (await self.stored(sessions)).events] == ["go"]
        events, _ = await self.play(agent, sessions, "again")
        self.assert_story(events, "a: text")
        self.assert_valid(model)

    @pytest.mark.parametrize("way", ["stop", "cancel"])
    async def test_inv_3_a_tool_in_flight_is_awaited(self, sessions: SessionService, way: str) -> None:
        model, wait = ScriptedModel([call("wait"), "second"]), Waiter()
        agent = self.make_agent("a", model, tools=[wait])
        await self._end(agent, sessions, way, wait.started.wait)
        assert wait.left == 1, "its cleanup ran before control came back"
        events, _ = await self.play(agent, sessions, "again")
        self.assert_story(events, "a: text")
        self.assert_valid(model)

    async def test_inv_4_one_agent_serves_runs_at_once(self, sessions: SessionService) -> None:
        model = ScriptedModel(lambda request: request.contents[-1].text)
        async with self.runner(self.make_agent("a", model), sessions) as runner:
            names = [f"s-{i}" for i in range(8)]
            answers = await asyncio.gather(*[runner.ask(name, user_id=USER, session_id=name) for name in names])
        assert answers == names

    async def test_inv_5_fixed_providers_make_equal_histories(self) -> None:
        histories: list[list[Event]] = []
        for _ in range(2):
            sessions = await self.make_sessions()
            with use_clock(FixedTime()), use_uuids(CountedIds()):
                agent = self.make_agent("a", ScriptedModel([call("look"), "clear"]), tools=[Recorder("look")])
                events, _ = await self.play(agent, sessions, "sky?")
            histories.append(events)
            await sessions.close()
        assert histories[0] == histories[1]

    async def test_inv_6_parallel_writes_are_kept_in_the_order_in_which_they_were_made(
        self, sessions: SessionService
    ) -> None:
        """The first call writes last, so its list, which holds both items, is the one that stays (CASE-STATE-1)."""
        model = ScriptedModel([[call("add", item="a", turns=5), call("add", item="b", turns=0)], "done"])
        agent = self.make_agent("a", model, tools=[Appender()])
        await self.play(agent, sessions, "go", state_delta={"items": []})
        state = dict((await self.stored(sessions)).state)
        assert state == {"items": ["b", "a"], "has_a": True, "has_b": True}
        self.assert_valid(model)

    async def _end(self, agent: Agent, sessions: SessionService, way: str, started: Any, **options: Any) -> None:
        """Begin a run, and end it from outside as soon as ``started()`` returns."""
        async with self.runner(agent, sessions) as runner:
            run = runner.run(user_id=USER, session_id=SESSION, message="go", **options)
            if way == "leave":
                async with run:
                    await anext(aiter(run))
            else:
                consumer = asyncio.create_task(_drain(run))
                await started()
                if way == "stop":
                    await run.stop()
                    await consumer
                else:
                    consumer.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await consumer
            assert run.outcome is not None
            assert run.outcome.kind == "closed"


async def _drain(run: Run) -> None:
    async with run:
        async for _ in run:
            pass
