"""Tools in live sessions: the whole hook chain, beside the flow of audio (core LIVE-7, LIVE-8, models LIVE-14)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.llm.live_talks import Talk, shown

from hookwork import (
    Blob,
    FunctionResponse,
    ModelCapabilities,
    ModelResponse,
    Part,
    Plugin,
    Stage,
    ToolContext,
    user_content,
)
from hookwork.errors import ConfigurationError, NothingToResume
from hookwork.live import CANCELLED_CALLS
from hookwork_llm import LlmAgent, StreamingTool, tool
from hookwork_testkit import Hear, ScriptedModel, call
from hookwork_testkit.live import calls, said, turn_complete

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


@tool(require_confirmation=True)
def send(text: str) -> dict[str, Any]:
    """Send a text."""
    ran.append(f"send {text}")
    return {"sent": text}


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


# --- streaming tools --------------------------------------------------------------------------------------------------


async def count(upto: int) -> AsyncIterator[str]:
    """Count up."""
    try:
        for number in range(1, upto + 1):
            yield str(number)
    finally:
        ran.append("count ended")


async def test_fn_27_a_stream_is_answered_at_once_and_each_piece_goes_to_the_model() -> None:
    talk = await Talk(
        [Hear(1), call("count", "c1", upto=2), Hear(3), "ok", turn_complete()], tools=[StreamingTool(count)]
    ).hold("go")
    assert list(answers(talk)) == ["c1"]
    assert "pending" in answers(talk)["c1"]["status"]
    assert talk.line.texts[2:] == ["Function count returned: 1", "Function count returned: 2"]
    stored = await talk.stored()
    pieces = [(event.author, event.content.role) for event in stored if "returned" in event.text]  # type: ignore[union-attr]
    assert pieces == [("voice", "user")] * 2
    assert ran == ["count ended"]


async def test_fn_27_an_error_of_the_stream_is_told_and_ends_only_the_stream(caplog: Any) -> None:
    async def fails() -> AsyncIterator[str]:
        """Fail."""
        yield "one"
        raise ValueError("no more")

    talk = await Talk(
        [Hear(1), call("fails", "c1"), Hear(3), "ok", turn_complete()], tools=[StreamingTool(fails)]
    ).hold("go")
    assert talk.line.texts[2:] == ["Function fails returned: one", "Function fails failed: ValueError: no more"]
    assert "'fails' raised" in caplog.text
    assert talk.run.outcome is not None
    assert talk.run.outcome.kind == "completed"


async def test_fn_27_a_stream_ends_with_the_session() -> None:
    async def forever() -> AsyncIterator[str]:
        """Go on."""
        try:
            yield "one"
            await asyncio.get_running_loop().create_future()
        finally:
            ran.append("forever ended")

    await Talk([Hear(1), call("forever", "c1"), Hear(2)], tools=[StreamingTool(forever)]).hold("go")
    assert ran == ["forever ended"]


async def test_fn_27_state_that_a_stream_writes_goes_with_its_pieces() -> None:
    async def counted(tool_context: ToolContext) -> AsyncIterator[str]:
        """Count in state."""
        for number in (1, 2):
            tool_context.state["n"] = number
            yield str(number)
        tool_context.state["n"] = 3

    talk = Talk([Hear(1), call("counted", "c1")], tools=[StreamingTool(counted)], close=False)
    await talk.run.send("go")
    async for event in talk.run:
        if event.actions.state_delta.get("n") == 3:
            await talk.run.close()
    deltas = [event.actions.state_delta["n"] for event in await talk.stored() if event.actions.state_delta]
    assert deltas == [1, 2, 3]


async def test_fn_28_stop_streaming_is_declared_stops_all_of_that_name_and_has_no_hooks() -> None:
    seen: list[str] = []

    async def tick(n: int) -> AsyncIterator[str]:
        """Tick."""
        try:
            yield f"tick {n}"
            await asyncio.get_running_loop().create_future()
        finally:
            ran.append(f"tick {n} ended")

    talk = await Talk(
        [
            Hear(1),
            calls(call("tick", "c1", n=1), call("tick", "c2", n=2)),
            Hear(3),
            call("stop_streaming", "c3", function_name="tick"),
            Hear(1),
            call("stop_streaming", "c4", function_name="tick"),
            Hear(1),
            "ok",
            turn_complete(),
        ],
        tools=[StreamingTool(tick)],
        before_tool=lambda ctx, tool, args: seen.append(tool.name),
    ).hold("go")
    assert "stop_streaming" in talk.line.request.declared
    assert sorted(ran) == ["tick 1 ended", "tick 2 ended"]
    assert seen == ["tick", "tick"]
    assert answers(talk)["c3"] == {"status": "stopped 'tick'"}
    assert "no running call" in answers(talk)["c4"]["status"]


async def test_fn_28_without_streaming_tools_it_is_not_declared() -> None:
    talk = await Talk([Hear(1), "ok", turn_complete()], tools=[look]).hold("go")
    assert talk.line.request.declared == ["look"]


async def test_fn_29_before_tool_and_after_tool_see_a_stream() -> None:
    log: list[Any] = []

    class Watch(Plugin):
        name = "watch"

        def before_tool(self, tool: Any) -> None:
            log.append(f"before {tool.name}")

        def after_tool(self, result: Any) -> None:
            log.append("pending" in result["status"])

    await Talk([Hear(1), call("count", "c1", upto=1), Hear(2), "ok", turn_complete()], plugins=[Watch()],
               tools=[StreamingTool(count)]).hold("go")  # fmt: skip
    assert log == ["before count", True]


async def test_fn_29_a_policy_can_deny_a_stream() -> None:
    talk = await Talk(
        [Hear(1), call("count", "c1", upto=2), Hear(1), "ok", turn_complete()],
        tools=[StreamingTool(count)],
        before_tool=lambda ctx, tool, args: {"error": "denied"},
    ).hold("go")
    assert answers(talk) == {"c1": {"error": "denied"}}
    assert (talk.line.texts[2:], ran) == ([], [])


async def test_fn_29_arguments_of_a_stream_are_checked_before_it_starts() -> None:
    talk = await Talk([Hear(1), call("count", "c1", upto="two"), Hear(1), "ok", turn_complete()],
                      tools=[StreamingTool(count)]).hold("go")  # fmt: skip
    assert "upto" in answers(talk)["c1"]["error"]
    assert ran == []


# --- a person is asked ------------------------------------------------------------------------------------------------


def approval(request_id: str, **response: Any) -> list[Part]:
    return [Part(function_response=FunctionResponse(id=request_id, name="adk_request_confirmation", response=response))]


async def _asked(talk: Talk, *sends: Any, confirmed: bool = True) -> None:
    """Hold a talk; the first request for approval is answered as soon as it is seen."""
    for request in sends:
        await talk.run.send(request)
    async for event in talk.run:
        talk.events.append(event)
        for asked in event.function_calls:
            if asked.name == "adk_request_confirmation":
                await talk.run.send(approval(asked.id or "", confirmed=confirmed))


async def test_hitl_16_the_request_is_emitted_and_the_reply_comes_through_the_live_queue() -> None:
    talk = Talk([Hear(1), call("send", "c1", text="hi"), Hear(2), "sent", turn_complete()], tools=[send])
    await _asked(talk, "send hi")
    assert ran == ["send hi"]
    assert shown(await talk.stored()) == [
        "user: send hi",
        "voice: send?",
        "voice: send!",
        "voice: adk_request_confirmation?",
        "user: adk_request_confirmation!",
        "voice: send!",
        "voice: sent",
        "voice: turn_complete",
    ]
    first, second = talk.line.responses
    assert (first.id, second.id) == ("c1", "c1")
    assert "approval" in (first.response or {})["error"]
    assert second.response == {"sent": "hi"}
    assert talk.run.open_calls == []


async def test_hitl_16_a_rejection_never_runs_the_tool() -> None:
    talk = Talk([Hear(1), call("send", "c1", text="hi"), Hear(2), "ok", turn_complete()], tools=[send])
    await _asked(talk, "send hi", confirmed=False)
    assert ran == []
    assert "rejected" in (talk.line.responses[1].response or {})["error"]


async def test_hitl_16_the_request_does_not_wait_for_the_end_of_an_utterance() -> None:
    talk = Talk([said("send hi"), call("send", "c1", text="hi"), Hear(2), "sent", turn_complete()], tools=[send])
    await _asked(talk)
    assert ran == ["send hi"]
    assert shown(await talk.stored())[:4] == [
        "voice: heard send hi",
        "voice: send?",
        "voice: send!",
        "voice: adk_request_confirmation?",
    ]


async def test_hitl_12_an_approval_sent_twice_runs_the_tool_once(caplog: Any) -> None:
    talk = Talk([Hear(1), call("send", "c1", text="hi"), Hear(2), "sent"], tools=[send], close=False)
    await talk.run.send("send hi")
    request = ""
    async for event in talk.run:
        for asked in event.function_calls:
            if asked.name == "adk_request_confirmation":
                request = asked.id or ""
                await talk.run.send(approval(request, confirmed=True))
                await talk.run.send(approval(request, confirmed=True))
        if event.partial and event.text == "sent":
            with pytest.raises(NothingToResume):
                await talk.run.send(approval(request, confirmed=True))
            await talk.run.close()
    assert ran == ["send hi"]
    assert "an answer sent to a live run was dropped" in caplog.text
    assert [event.author for event in await talk.stored()].count("user") == 2


async def test_hitl_16_two_approvals_at_once_run_each_call_once() -> None:
    talk = Talk(
        [Hear(1), calls(call("send", "c1", text="a"), call("send", "c2", text="b")), Hear(3), "ok", turn_complete()],
        tools=[send],
    )
    await talk.run.send("go")
    async for event in talk.run:
        asked = [asked for asked in event.function_calls if asked.name == "adk_request_confirmation"]
        for request in reversed(asked):
            await talk.run.send(approval(request.id or "", confirmed=True))
    assert sorted(ran) == ["send a", "send b"]
    assert talk.run.open_calls == []


async def test_hitl_16_an_approval_that_nobody_gave_keeps_the_run_paused_and_a_typed_one_resumes_it() -> None:
    talk = Talk([Hear(1), call("send", "c1", text="hi"), Hear(1), "waiting", turn_complete()], tools=[send],
                responses=["typed: sent"])  # fmt: skip
    await talk.hold("send hi")
    outcome = talk.run.outcome
    assert outcome is not None
    assert (outcome.kind, [c.kind for c in outcome.open_calls]) == ("paused", ["confirmation"])
    resumed = talk.runner.run(user_id="u", session_id="s", message=approval(outcome.open_calls[0].id, confirmed=True))
    texts = [event.text async for event in resumed]
    assert ran == ["send hi"]
    assert texts[-1] == "typed: sent"
    assert resumed.invocation_id == talk.run.invocation_id


async def test_res_2_the_answer_to_a_long_running_call_closes_it_and_goes_to_the_model() -> None:
    asked = asyncio.Event()

    @tool(long_running=True)
    def ticket() -> None:
        """Open a ticket."""
        ran.append("ticket")
        asked.set()

    async def solve(_: Any) -> None:
        await asked.wait()
        answered = FunctionResponse(id="c1", name="ticket", response={"solved": True})
        await talk.run.send([Part(function_response=answered)])

    talk = Talk([Hear(1), call("ticket", "c1"), solve, Hear(1), "done", turn_complete()], tools=[ticket])
    await talk.hold("go")
    assert ran == ["ticket"]
    assert answers(talk) == {"c1": {"solved": True}}
    assert talk.run.open_calls == []
    assert shown(await talk.stored())[:3] == ["user: go", "voice: ticket?", "user: ticket!"]


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
