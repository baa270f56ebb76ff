"""An LLM agent goes on from stored events alone (activations ACT-20 … ACT-22, scenes S7, S8; core RES-10)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookwork.agent import Agent
from hookwork.context import InvocationContext, ToolContext
from hookwork.errors import NothingToResume
from hookwork.node import Pause
from hookwork.records.content import Content, FunctionResponse, Part, text_content
from hookwork.records.event import Event, NodeInfo
from hookwork.tool import Finished
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call


class Script:
    """A root, a helper, and tools of every kind; the models answer from the prompt, so any process can go on."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.model_calls: list[str] = []

        @tool
        async def look() -> dict[str, Any]:
            """Look."""
            self.runs.append("look")
            return {"sky": "clear"}

        @tool(require_confirmation=True)
        async def go() -> dict[str, Any]:
            """Go."""
            self.runs.append("go")
            return {"gone": True}

        @tool(long_running=True)
        async def ship() -> Any:
            """Ship."""
            self.runs.append("ship")
            return Finished({"shipped": True})

        helper = LlmAgent(
            name="helper", model=ScriptedModel(self._answer("helper", self.helper_turn)), tools=[look, go, ship]
        )
        self.root = LlmAgent(
            name="root", model=ScriptedModel(self._answer("root", self.root_turn)), tools=[look], sub_agents=[helper]
        )

    def _answer(self, name: str, turn: Any) -> Any:
        def respond(request: Any) -> Any:
            assert_valid_prompt(request.contents, ids=False)
            self.model_calls.append(name)
            return turn([r.name for content in request.contents for r in content.function_responses])

        return respond

    @staticmethod
    def root_turn(answered: list[str]) -> Any:
        return call("look", "r1") if not answered else call("transfer_to_agent", "r2", agent_name="helper")

    @staticmethod
    def helper_turn(answered: list[str]) -> Any:
        if "go" not in answered:
            return [call("look", "h1"), call("go", "h2")]
        return call("ship", "h3") if "ship" not in answered else "all done"


async def start(runner: Any) -> tuple[list[Event], Any]:
    async with runner.run(user_id="u", session_id="s", message="hi") as run:
        events = [event async for event in run]
    return events, run.outcome


async def whole_history(runner_factory: Any, answer: Any) -> list[Event]:
    sessions = InMemorySessionService()
    script = Script()
    async with runner_factory(script.root, sessions=sessions) as runner:
        _, outcome = await start(runner)
        (waiting,) = outcome.open_calls
        await runner.run(user_id="u", session_id="s", message=answer(waiting.id, {"confirmed": True})).wait()
        session = await sessions.get_session(app_name="root", user_id="u", session_id="s")
    assert script.runs == ["look", "look", "go", "ship"]
    return list(session.events)


def shape_of(events: list[Event]) -> list[Any]:
    """Authors, calls, responses and texts, without ids."""
    return [
        (
            event.author,
            [c.name for c in event.function_calls],
            [(r.name, dict(r.response or {})) for r in event.function_responses],
            event.text,
            event.path,
        )
        for event in events
    ]


async def test_res_10_a_crash_after_any_event_comes_to_the_same_end(runner_factory: Any, answer: Any) -> None:
    """The store is cut after each event; a new process with the same agents goes on by id."""
    history = await whole_history(runner_factory, answer)
    invocation = history[0].invocation_id
    assert len(history) == 13
    for length in range(1, len(history)):
        kept = history[:length]
        newest = kept[-1]
        if newest.long_running_tool_ids and newest.function_calls[0].name == "ship":
            continue  # ACT-41 (a): looks like one that waits; see the test of `rerun`
        sessions = InMemorySessionService()
        session = await sessions.create_session(app_name="root", user_id="u", session_id="s")
        for event in kept:
            await sessions.append_event(session, event)
        script = Script()
        async with runner_factory(script.root, sessions=sessions) as runner:
            waiting = list(session.open_calls)
            if waiting:
                with pytest.raises(NothingToResume):  # it only waits for the answer
                    await runner.run(user_id="u", session_id="s", invocation_id=invocation).wait()
                assert script.model_calls == []
                await runner.run(user_id="u", session_id="s", message=answer(waiting[0], {"confirmed": True})).wait()
            else:
                outcome = await runner.run(user_id="u", session_id="s", invocation_id=invocation).wait()
                if outcome.kind == "paused":
                    (request,) = outcome.open_calls
                    reply = answer(request.id, {"confirmed": True})
                    outcome = await runner.run(user_id="u", session_id="s", message=reply).wait()
                assert outcome.kind == "completed"
            with pytest.raises(NothingToResume):
                await runner.run(user_id="u", session_id="s", invocation_id=invocation).wait()
        session = await sessions.get_session(app_name="root", user_id="u", session_id="s")
        assert shape_of(list(session.events)) == shape_of(history), f"after {length} events"
        stored_answers = {r.name for event in kept for r in event.function_responses if event.author != "user"}
        if "transfer_to_agent" in stored_answers:
            assert "root" not in script.model_calls  # a caller is never entered again
        assert script.runs.count("ship") <= 1


async def test_act_43_a_long_running_call_that_never_ran_is_run_by_rerun(runner_factory: Any, answer: Any) -> None:
    history = await whole_history(runner_factory, answer)
    invocation = history[0].invocation_id
    cut = next(i for i, event in enumerate(history) if event.long_running_tool_ids == ("h3",)) + 1
    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="root", user_id="u", session_id="s")
    for event in history[:cut]:
        await sessions.append_event(session, event)
    script = Script()
    async with runner_factory(script.root, sessions=sessions) as runner:
        with pytest.raises(NothingToResume):
            await runner.run(user_id="u", session_id="s", invocation_id=invocation).wait()
        outcome = await runner.run(user_id="u", session_id="s", invocation_id=invocation, rerun=["h3"]).wait()
    assert (outcome.kind, script.runs) == ("completed", ["ship"])
    session = await sessions.get_session(app_name="root", user_id="u", session_id="s")
    assert shape_of(list(session.events)) == shape_of(history)


async def test_act_43_a_call_that_gave_a_status_and_may_not_be_repeated_is_run_by_rerun(
    runner_factory: Any, play: Any
) -> None:
    """It is open, and the caller says so explicitly."""
    runs: list[str] = []

    @tool(long_running=True, idempotent=False)
    async def build() -> Any:
        """Build."""
        runs.append("build")
        return {"status": "queued"} if len(runs) == 1 else Finished({"built": True})

    model = ScriptedModel([call("build", "c1"), "queued", "built"])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[build])) as runner:
        paused = await play(runner)
        assert paused.open_ids == ["c1"]
        done = await play(runner, None, invocation_id=paused.outcome.invocation_id, rerun=["c1"])
    assert done.scene == ["a: -build", "a: built"]
    assert (done.outcome.kind, done.open_ids, len(runs)) == ("completed", [], 2)
    assert_valid_prompt(model.prompts[-1])


async def test_res_10_a_tool_that_may_not_be_repeated_is_answered_as_interrupted(
    runner_factory: Any, play: Any
) -> None:
    runs: list[str] = []

    @tool(idempotent=False)
    async def pay() -> dict[str, Any]:
        """Pay."""
        runs.append("pay")
        return {}

    @tool
    async def look() -> dict[str, Any]:
        """Look."""
        runs.append("look")
        return {"sky": "clear"}

    sessions = InMemorySessionService()
    model = ScriptedModel([[call("pay", "c1"), call("look", "c2")], "done"])
    agent = LlmAgent(name="a", model=model, tools=[pay, look])
    async with runner_factory(agent, sessions=sessions) as runner:
        async with runner.run(user_id="u", session_id="s", message="hi") as run:
            async for event in run:
                assert event.function_calls
                break
        turn = await play(runner, None, invocation_id=run.invocation_id)
    assert turn.scene == ["a: -pay -look", "a: done"]  # in call order
    interrupted, looked = (r.response for r in turn.events[0].function_responses)
    assert "interrupted" in interrupted["error"]
    assert looked == {"sky": "clear"}
    assert runs == ["look"]


async def test_act_42_seen_from_the_next_turn_unanswered_calls_are_interrupted(runner_factory: Any, play: Any) -> None:
    runs: list[str] = []

    @tool
    async def look() -> dict[str, Any]:
        """Look."""
        runs.append("look")
        return {}

    model = ScriptedModel([call("look", "c1"), "next"])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[look])) as runner:
        async with runner.run(user_id="u", session_id="s", message="hi") as run:
            async for _ in run:
                break
        await play(runner, "and now?")
    assert runs == []
    assert_valid_prompt(model.prompts[-1])
    assert [(r.response or {})["status"] for c in model.prompts[-1] for r in c.function_responses] == ["interrupted"]


async def test_act_15_a_log_without_stamps_is_understood(runner_factory: Any) -> None:
    """Another ADK stored the turn: a final answer of the newest event is the end."""
    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="a", user_id="u", session_id="s")
    asked = text_content("hi", role="user")
    user = Event(id="1", invocation_id="e-1", author="user", timestamp=1.0, content=asked)
    said = Event(id="2", invocation_id="e-1", author="a", timestamp=2.0, content=text_content("hello"))
    for event in (user, said):
        await sessions.append_event(session, event)
    model = ScriptedModel()
    async with runner_factory(LlmAgent(name="a", model=model), sessions=sessions) as runner:
        with pytest.raises(NothingToResume):
            await runner.run(user_id="u", session_id="s", invocation_id="e-1").wait()
    assert model.calls == 0


# --- calls that started something (scene S6) --------------------------------------------------------------------------


def asking(name: str, log: list[str]) -> Agent:
    """An agent that asks a person once and says what the answer was."""

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        log.append(f"{name} body")
        if not ctx.view.calls:
            yield Event(content=_ask(name), long_running_tool_ids=(f"{name}-q",))
            raise Pause
        reply = ctx.view.calls[0].answer
        if reply is None:
            raise Pause
        yield Event(output=dict(reply.payload), node_info=NodeInfo(path=ctx.path))

    return Agent(name=name, body=body)


def _ask(name: str) -> Content:
    return Content(role="model", parts=[call("adk_request_input", f"{name}-q", message="?")])


def delegating(name: str, child: Agent, log: list[str]) -> Any:
    @tool(name=name)
    async def run(ctx: ToolContext) -> dict[str, Any]:
        """Run a child and give what it gave."""
        log.append(f"{name} tool")
        activation = ctx.activate(child)
        async for event in activation:
            await ctx.emit_event(event)  # type: ignore[misc]
        if activation.status == "paused":
            raise Pause
        return {"got": activation.output}

    return run


async def test_s6_a_tool_whose_child_waits_is_run_again_only_when_it_can_go_on(runner_factory: Any, play: Any) -> None:
    log: list[str] = []
    one, two = delegating("one", asking("c1", log), log), delegating("two", asking("c2", log), log)
    paused_hooks: list[str] = []
    model = ScriptedModel([[call("one", "t1"), call("two", "t2")], "done"])
    agent = LlmAgent(name="a", model=model, tools=[one, two], before_agent=lambda ctx: paused_hooks.append("entered"))

    def reply(call_id: str) -> Any:
        response = FunctionResponse(id=call_id, name="adk_request_input", response={"v": call_id})
        return Content(role="user", parts=[Part(function_response=response)])

    async with runner_factory(agent) as runner:
        paused = await play(runner)
        assert sorted(paused.open_ids) == ["c1-q", "c2-q"]
        assert sorted({event.path for event in paused.events}) == ["a@1", "a@1/one@1-1/c1@1", "a@1/two@1-2/c2@1"]
        log.clear()
        half = await play(runner, reply("c2-q"))
        assert log == ["two tool", "c2 body"]  # the other one waits: not run again
        assert half.scene[-1] == "a: -two"
        assert (half.outcome.kind, half.open_ids, model.calls) == ("paused", ["c1-q"], 1)  # ACT-22
        log.clear()
        done = await play(runner, reply("c1-q"))
    assert log == ["one tool", "c1 body"]
    assert done.scene[-2:] == ["a: -one", "a: done"]
    assert done.outcome.kind == "completed"
    answers = {r.name: r.response for c in model.prompts[-1] for r in c.function_responses}
    assert answers == {"one": {"got": {"v": "c1-q"}}, "two": {"got": {"v": "c2-q"}}}
    assert_valid_prompt(model.prompts[-1])


# --- scene S8 ---------------------------------------------------------------------------------------------------------


async def test_s8_two_approvals_one_at_a_time(runner_factory: Any, play: Any, answer: Any) -> None:
    runs: list[str] = []

    @tool(require_confirmation=True)
    async def x() -> dict[str, Any]:
        """Do x."""
        runs.append("x")
        return {}

    @tool(require_confirmation=True)
    async def y() -> dict[str, Any]:
        """Do y."""
        runs.append("y")
        return {}

    model = ScriptedModel([[call("x", "c1"), call("y", "c2")], "after y", "noted", "after x"])
    async with runner_factory(LlmAgent(name="plan", model=model, tools=[x, y])) as runner:
        first = await play(runner)
        r1, r2 = first.open_ids
        second = await play(runner, answer(r2, {"confirmed": True}))
        assert second.scene == ["plan: -y", "plan: after y"]
        assert (second.outcome.kind, second.open_ids) == ("paused", [r1])
        third = await play(runner, "wait")
        assert (third.scene, third.outcome.kind) == (["plan: noted"], "completed")
        fourth = await play(runner, answer(r1, {"confirmed": False}))
        assert fourth.scene == ["plan: -x", "plan: after x"]
        assert fourth.outcome.kind == "completed"
        assert fourth.outcome.invocation_id == first.outcome.invocation_id
    assert runs == ["y"]
    for prompt in model.prompts:
        assert_valid_prompt(prompt)
