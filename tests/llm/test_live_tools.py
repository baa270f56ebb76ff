"""Tools in live sessions: the whole hook chain, beside the flow of audio (core LIVE-7, LIVE-8, models LIVE-14)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.llm.live_talks import Talk, brief, shown

from hookwork import (
    Agent,
    Blob,
    FunctionResponse,
    LiveRunConfig,
    ModelCapabilities,
    ModelResponse,
    Part,
    Plugin,
    Stage,
    ToolContext,
    user_content,
)
from hookwork.errors import ConfigurationError, LlmCallLimitError, UnsupportedOperationError
from hookwork.live import CANCELLED_CALLS
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import Hear, ScriptedModel, call
from hookwork_testkit.live import calls, said, spoke, turn_complete

SOUND = Blob(data=b"\0\1", mime_type="audio/pcm")
ran: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ran.clear()


@tool
def look(what: str = "it") -> dict[str, Any]:
    """Look at something."""
    ran.append(f"look {what}")
    return {"seen": what}


@tool
def pay() -> dict[str, Any]:
    """Pay."""
    ran.append("pay")
    return {"paid": True}


def answers(talk: Talk) -> dict[str | None, Any]:
    """id → response, of all function responses that the model got."""
    return {response.id: response.response for line in talk.connections for response in line.responses}


# --- the chain --------------------------------------------------------------------------------------------------------


async def test_case_plug_2_tool_hooks_fire_in_live_sessions_too() -> None:
    class Policy(Plugin):
        name = "policy"

        def __init__(self) -> None:
            self.before: list[str] = []
            self.after: list[str] = []

        def before_tool(self, tool: Any) -> dict[str, Any] | None:
            self.before.append(tool.name)
            return {"error": "denied"} if tool.name == "pay" else None

        def after_tool(self, tool: Any) -> None:
            self.after.append(tool.name)

    policy = Policy()
    talk = await Talk(
        [Hear(1), calls(call("look", "c1"), call("pay", "c2")), Hear(1), "done", turn_complete()],
        plugins=[policy],
        tools=[look, pay],
    ).hold("go")
    assert (sorted(policy.before), sorted(policy.after)) == (["look", "pay"], ["look", "pay"])
    assert ran == ["look it"]
    assert answers(talk) == {"c1": {"seen": "it"}, "c2": {"error": "denied"}}


async def test_models_live_14_the_response_event_is_merged_stored_and_then_sent_back() -> None:
    talk = await Talk(
        [Hear(1), calls(call("look", "c1", what="a"), call("look", "c2", what="b")), Hear(1), "ok", turn_complete()],
        tools=[look],
    ).hold("go")
    stored = await talk.stored()
    assert shown(stored) == [
        "user: go",
        "voice: look? look?",
        "voice: look! look!",
        "voice: ok",
        "voice: turn_complete",
    ]
    sent = talk.line.contents[1]
    assert stored[2].content == sent
    assert [response.id for response in sent.function_responses] == ["c1", "c2"]


async def test_run_19_the_model_gets_the_response_as_on_event_left_it() -> None:
    class Redactor(Plugin):
        name = "redactor"

        def on_event(self, event: Any) -> Any:
            if not event.function_responses:
                return None
            hidden = FunctionResponse(id="c1", name="look", response={"seen": "***"})
            return event.replace(content=event.content.replace(parts=[Part(function_response=hidden)]))

    talk = await Talk([Hear(1), call("look", "c1"), Hear(1), "ok", turn_complete()], plugins=[Redactor()],
                      tools=[look]).hold("go")  # fmt: skip
    assert answers(talk) == {"c1": {"seen": "***"}}


async def test_live_7_around_tool_and_agent_callbacks_too() -> None:
    log: list[str] = []

    class Timer(Plugin):
        name = "timer"

        @asynccontextmanager
        async def around_tool(self, ctx: ToolContext, tool: Any, args: Any, stage: Stage) -> AsyncIterator[None]:
            log.append(f"({tool.name}")
            yield
            assert stage.outcome is not None
            log.append(f"{tool.name}) {stage.outcome.value}")

    await Talk(
        [Hear(1), call("look", "c1"), Hear(1), "ok", turn_complete()],
        plugins=[Timer()],
        tools=[look],
        before_tool=lambda ctx, tool, args: log.append("before"),
        after_tool=lambda ctx, tool, args, result, error: {"seen": "more"},
    ).hold("go")
    assert log == ["(look", "before", "look) {'seen': 'more'}"]


async def test_models_live_14_audio_flows_while_a_tool_runs() -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> dict[str, Any]:
        """Take a while."""
        started.set()
        await go_on.wait()
        return {"slow": True}

    async def heard(connection: Any) -> None:
        await started.wait()
        await connection.wait_for(lambda line: line.realtime)
        go_on.set()

    talk = Talk([Hear(1), call("slow", "c1"), "meanwhile ", heard, Hear(1), "done", turn_complete()], tools=[slow])

    async def speak() -> None:
        await started.wait()
        await talk.run.send(SOUND)

    speaking = asyncio.create_task(speak())
    await talk.hold("go")
    await speaking
    assert talk.line.sent == [user_content("go"), SOUND, talk.line.contents[1]]
    assert "voice: ~meanwhile " in shown(talk.events)


async def test_models_live_7_a_withdrawn_call_is_cancelled_and_not_answered_to_the_model() -> None:
    started = asyncio.Event()

    @tool
    async def slow() -> dict[str, Any]:
        """Take for ever."""
        started.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ran.append("slow ended")
        return {}

    withdrawn = ModelResponse(partial=True, custom_metadata={CANCELLED_CALLS: ["c1"]})

    async def until_started(_: Any) -> None:
        await started.wait()

    talk = await Talk(
        [Hear(1), calls(call("slow", "c1"), call("look", "c2")), until_started, withdrawn, Hear(1), "ok",
         turn_complete()],
        tools=[slow, look],
    ).hold("go")  # fmt: skip
    assert ran == ["look it", "slow ended"] or ran == ["slow ended", "look it"]
    assert answers(talk) == {"c2": {"seen": "it"}}
    responses = next(event for event in await talk.stored() if event.function_responses).function_responses
    assert [(response.id, "cancelled" in str(response.response)) for response in responses] == [
        ("c1", True),
        ("c2", False),
    ]


async def test_live_7_all_tools_of_the_request_are_callable_transfer_included() -> None:
    def tree(model: Any) -> LlmAgent:
        helper = LlmAgent(name="helper", model=model, description="Helps.")
        return LlmAgent(name="front", model=model, sub_agents=[helper], tools=[look])

    talk = await Talk(
        [Hear(1), calls(call("look", "c1"), call("transfer_to_agent", "c2", agent_name="helper")), Hear(1)],
        ["I help", turn_complete()],
        root=tree,
    ).hold("help me")
    front, helper = talk.connections
    assert answers(talk) == {"c1": {"seen": "it"}, "c2": {}}
    assert '"helper"' in helper.request.instruction
    assert front.closed
    assert shown(talk.events)[-3:] == ["helper: ~I help", "helper: I help", "helper: turn_complete"]
    told = [content.text for content in helper.history or ()]
    assert told[0] == "help me"


async def test_trf_4_a_transfer_to_nobody_raises() -> None:
    @tool
    def away(tool_context: ToolContext) -> dict[str, Any]:
        """Go away."""
        tool_context.actions.transfer_to_agent = "nobody"
        return {}

    talk = Talk([Hear(1), call("away", "c1")], close=False, tools=[away])
    with pytest.raises(ConfigurationError, match="nobody"):
        await talk.hold("go")
    assert talk.line.closed


async def test_mcb_6_a_call_without_an_id_gets_one_here_and_is_answered_without() -> None:
    talk = await Talk([Hear(1), call("look"), Hear(1), "ok", turn_complete()], tools=[look]).hold("go")
    assert list(answers(talk)) == [None]
    stored = next(event for event in await talk.stored() if event.function_calls)
    assert (stored.function_calls[0].id or "").startswith("adk-")


async def test_tool_5_an_unknown_name_is_an_error_for_the_model_and_the_session_goes_on() -> None:
    talk = await Talk([Hear(1), calls(call("nope", "c1"), call("look", "c2")), Hear(1), "ok", turn_complete()],
                      tools=[look]).hold("go")  # fmt: skip
    assert "look" in answers(talk)["c1"]["error"]
    assert answers(talk)["c2"] == {"seen": "it"}


async def test_flow_14_calls_of_a_message_with_an_error_are_not_run() -> None:
    failed = calls(call("look", "c1")).replace(error_code="MAX_TOKENS")
    await Talk([Hear(1), failed, turn_complete()], tools=[look]).hold("go")
    assert ran == []


async def test_tool_9_state_of_a_tool_goes_with_the_response_event() -> None:
    @tool
    def note(tool_context: ToolContext) -> dict[str, Any]:
        """Note."""
        tool_context.state["noted"] = 1
        return {}

    talk = await Talk([Hear(1), call("note", "c1"), Hear(1), "ok", turn_complete()], tools=[note]).hold("go")
    deltas = {tuple(event.actions.state_delta.items()) for event in await talk.stored() if event.function_responses}
    assert deltas == {(("noted", 1),)}


@pytest.mark.parametrize("held", [False, True])
async def test_eff_2_a_call_runs_at_the_place_that_the_log_gives_it(held: bool) -> None:
    places: list[str] = []

    @tool
    def where(tool_context: ToolContext) -> dict[str, Any]:
        """Say where."""
        places.append(tool_context.path)
        return {}

    heard = [said("where")] if held else [Hear(1)]
    talk = Talk(
        [*heard, "hm", calls(call("where", "c1"), call("where", "c2")), Hear(1), "so ", call("where", "c3"), Hear(1),
         turn_complete(), Hear(1), "and", call("where", "c4"), Hear(1), "end", turn_complete()],
        tools=[where],
    )  # fmt: skip
    await talk.hold(*(["again"] if held else ["go", "again"]))
    assert talk.run.session is not None
    logged = [f"{c.path}/{c.name}@{c.turn}-{c.number}" for c in talk.run.session.history().calls]
    assert len(places) == 4
    assert sorted(places) == sorted(logged)


async def test_agt_18_end_invocation_ends_the_session() -> None:
    @tool
    def enough(tool_context: ToolContext) -> dict[str, Any]:
        """Enough."""
        tool_context.end_invocation("enough")
        return {}

    talk = await Talk([Hear(1), call("enough", "c1")], close=False, tools=[enough]).hold("go")
    assert talk.run.outcome is not None
    assert (talk.run.outcome.kind, talk.run.outcome.reason) == ("ended", "enough")
    assert talk.line.closed


async def test_cap_5_no_more_tools_at_once_than_the_model_allows() -> None:
    running = [0, 0]

    @tool
    async def busy() -> dict[str, Any]:
        """Be busy."""
        running[0] += 1
        running[1] = max(running)
        for _ in range(5):
            await asyncio.sleep(0)
        running[0] -= 1
        return {}

    at_once = calls(*(call("busy", f"c{i}") for i in range(4)))
    script = [Hear(1), at_once, Hear(1), "ok", turn_complete()]
    await Talk(script, tools=[busy], capabilities=ModelCapabilities(live=True, max_parallel_live_tools=2)).hold("go")
    assert running == [0, 2]
    running[:] = [0, 0]
    await Talk(script, tools=[busy]).hold("go")
    assert running == [0, 4]


# --- closing while tools run ------------------------------------------------------------------------------------------


async def test_live_13_a_tool_that_runs_ends_with_the_session() -> None:
    started = asyncio.Event()

    @tool
    async def slow() -> dict[str, Any]:
        """Take for ever."""
        started.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ran.append("slow ended")
        return {}

    async def until_started(_: Any) -> None:
        await started.wait()

    talk = await Talk([Hear(1), call("slow", "c1"), until_started], tools=[slow]).hold("go")
    assert ran == ["slow ended"]
    assert shown(await talk.stored()) == ["user: go", "voice: slow?"]


async def test_hnd_5_a_long_running_call_that_closing_cut_waits_for_nobody() -> None:
    started = asyncio.Event()

    @tool(long_running=True)
    async def slow() -> None:
        """Take for ever."""
        started.set()
        await asyncio.get_running_loop().create_future()

    async def until_started(_: Any) -> None:
        await started.wait()

    talk = await Talk([Hear(1), call("slow", "c1"), until_started], tools=[slow]).hold("go")
    assert shown(await talk.stored()) == ["user: go", "voice: slow?", "voice: slow!", "voice: (end)"]
    assert talk.run.open_calls == []
    assert talk.run.outcome is not None
    assert talk.run.outcome.kind == "completed"


async def test_mode_6_a_single_turn_agent_is_a_tool_in_a_live_session_too() -> None:
    def tree(model: Any) -> LlmAgent:
        child = LlmAgent(name="adder", model=ScriptedModel(["5"]), mode="single_turn", description="Adds.")
        return LlmAgent(name="front", model=model, sub_agents=[child])

    talk = await Talk([Hear(1), call("adder", "c1", request="2+3"), Hear(1), "five", turn_complete()], root=tree).hold(
        "add"
    )
    assert answers(talk) == {"c1": {"result": "5"}}
    assert shown(await talk.stored()) == [
        "user: add", "front: adder?", "adder: 5", "front: adder!", "front: five", "front: turn_complete",
    ]  # fmt: skip
    assert talk.run.usage.by_agent["adder"].calls == 1


async def test_mode_9_a_task_that_needs_no_answer_is_carried_out_in_a_live_session() -> None:
    def tree(model: Any) -> LlmAgent:
        typed = ScriptedModel([call("finish_task", result="booked")])
        child = LlmAgent(name="book", model=typed, mode="task", description="Books.")
        return LlmAgent(name="front", model=model, sub_agents=[child])

    talk = await Talk(
        [Hear(1), call("book", "c1", request="a table"), Hear(1), "done", turn_complete()], root=tree
    ).hold("book a table")
    assert answers(talk) == {"c1": {"output": "booked"}}
    assert "front: done" in shown(await talk.stored())


async def test_live_2_a_hand_over_to_an_agent_that_is_not_live_raises() -> None:
    async def body(ctx: Any) -> AsyncIterator[Any]:
        raise AssertionError("it must not run")
        yield

    def tree(model: Any) -> LlmAgent:
        return LlmAgent(name="front", model=model, sub_agents=[Agent(name="typist", body=body)])

    talk = Talk([Hear(1), call("transfer_to_agent", "c1", agent_name="typist"), Hear(1)], close=False, root=tree)
    with pytest.raises(UnsupportedOperationError, match="'typist'"):
        await talk.hold("type it")
    assert talk.line.closed


async def test_rt_3_a_turn_that_ends_with_its_call_is_not_the_end_and_frees_what_was_held_back() -> None:
    """A provider that completes a turn with the call in it: transcripts are finished there, the answer comes next."""

    @tool
    async def look() -> dict[str, Any]:
        """Look."""
        return {"seen": 1}

    script = [
        Hear(1),
        spoke("let me see"),
        call("look", "c1"),
        turn_complete(),
        Hear(1),
        spoke("a cat"),
        turn_complete(),
    ]
    talk = await Talk(script, tools=[look]).hold("what is there?")
    whole = [brief(event) for event in talk.events if not event.partial]
    assert sorted(whole[:4]) == sorted(["spoke let me see", "look?", "look!", "turn_complete"])
    assert whole.index("spoke let me see") < whole.index("look?") < whole.index("look!")
    assert whole[4:] == ["spoke a cat", "turn_complete"]
    stamped = [event.node_info.status for event in await talk.stored() if event.turn_complete and event.node_info]
    assert stamped == [None, "completed"]
    assert talk.run.usage.total.calls == 2


async def test_act_14_a_quick_tool_does_not_make_the_end_of_its_own_turn_the_end_of_all() -> None:
    @tool
    def look() -> dict[str, Any]:
        """Look."""
        return {}

    answered = [call("look", "c1"), Hear(1), turn_complete(), "a cat", turn_complete()]
    talk = await Talk([Hear(1), *answered], tools=[look]).hold("what is there?")
    stamped = [event.node_info.status for event in await talk.stored() if event.turn_complete and event.node_info]
    assert stamped == [None, "completed"]


async def test_flow_4_what_follows_the_answers_to_calls_is_another_model_call() -> None:
    """A model that calls in circles within one turn meets the limit."""

    @tool
    def look() -> dict[str, Any]:
        """Look."""
        return {}

    circle: list[Any] = [step for number in range(9) for step in (call("look", f"c{number}"), Hear(1))]
    talk = Talk([Hear(1), *circle], tools=[look], config=LiveRunConfig(max_llm_calls=3), close=False)
    with pytest.raises(LlmCallLimitError):
        await talk.hold("go")
    assert talk.run.outcome is not None
    assert talk.run.outcome.kind == "limit"
    assert talk.run.usage.total.calls == 3
