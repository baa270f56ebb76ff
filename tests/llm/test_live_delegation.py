"""Agents under a live agent, forms of its answers, and what a live run does not have (core §2.2, §2.4, §3.6)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.llm.live_talks import Talk, brief, shown

from hookwork import LiveRunConfig, ModelCapabilities, Part, Plugin, Runner, Settings
from hookwork.errors import UnsupportedOperationError
from hookwork.live import CANCELLED_CALLS
from hookwork.records.content import FunctionResponse
from hookwork.records.metadata import ModelResponse
from hookwork_llm import LlmAgent, tool
from hookwork_llm.planning import PlanReActPlanner
from hookwork_testkit import Hear, ScriptedModel, call
from hookwork_testkit.live import calls, said, turn_complete


def booking(*steps: Any, **fields: Any) -> Any:
    """A live agent with a task agent under it that plays typed steps."""
    typed = ScriptedModel(list(steps))
    child = LlmAgent(name="book", model=typed, mode="task", description="Books.", **fields)
    return lambda model: LlmAgent(name="front", model=model, sub_agents=[child])


def answers(talk: Talk) -> dict[str | None, Any]:
    return {response.id: response.response for line in talk.connections for response in line.responses}


async def talk_back(talk: Talk, replies: dict[str, Any], *sends: Any) -> Talk:
    """Hold a talk; whenever an event reads like a key, its reply is sent."""
    async with asyncio.timeout(20):
        for request in sends:
            await talk.run.send(request)
        async for event in talk.run:
            talk.events.append(event)
            reply = replies.pop(brief(event), None)
            reply = reply(event) if callable(reply) else reply
            if reply is not None:
                await talk.run.send(reply)
    return talk


# --- tasks ------------------------------------------------------------------------------------------------------------


async def test_mode_10_a_task_asks_back_and_what_the_user_writes_goes_to_it() -> None:
    """RUN-16, RUN-24: the reply carries the task's scope; MODE-9: the result answers the model's call."""
    script = [Hear(1), call("book", "c1", request="a table"), Hear(1), "booked for two", turn_complete()]
    tree = booking("for how many?", call("finish_task", result="two, 8 pm"))
    talk = await talk_back(Talk(script, root=tree), {"for how many?": "two"}, "book a table")
    assert answers(talk) == {"c1": {"output": "two, 8 pm"}}
    assert talk.line.texts == ["book a table", ""], "the live model hears the request and the result, not the reply"
    stored = await talk.stored()
    assert [(event.author, brief(event), bool(event.isolation_scope)) for event in stored] == [
        ("user", "book a table", False),
        ("front", "book?", False),
        ("book", "for how many?", True),
        ("user", "two", True),
        ("book", "finish_task?", True),
        ("book", "finish_task!", True),
        ("user", "book!", False),
        ("front", "booked for two", False),
        ("front", "turn_complete", False),
    ]
    assert talk.run.outcome is not None
    assert (talk.run.outcome.kind, talk.run.outcome.open_delegations) == ("completed", ())


async def test_mode_10_what_the_user_says_after_the_task_goes_to_the_live_model_again() -> None:
    script = [Hear(1), call("book", "c1", request="a table"), Hear(1), "done", Hear(1), "bye", turn_complete()]
    tree = booking(call("finish_task", result="ok"))
    talk = await talk_back(Talk(script, root=tree), {"~done": "thanks"}, "book a table")
    assert talk.line.texts == ["book a table", "", "thanks"]


async def test_mode_11_a_task_waits_for_the_calls_beside_it_and_for_its_call_to_be_stored() -> None:
    """LIVE-6: the call is held back while an utterance is open; the task is handed over once it stands in the log."""
    order: list[str] = []

    @tool
    async def look() -> dict[str, Any]:
        """Look."""
        await asyncio.sleep(0)
        order.append("look")
        return {}

    class Watch(Plugin):
        name = "watch"

        def before_agent(self, ctx: Any) -> None:
            order.append(ctx.agent_name)

    def tree(model: Any) -> LlmAgent:
        typed = ScriptedModel([call("finish_task", result="ok")])
        child = LlmAgent(name="book", model=typed, mode="task", description="Books.")
        return LlmAgent(name="front", model=model, sub_agents=[child], tools=[look])

    made = calls(call("book", "c1", request="a table"), call("look", "c2"))
    script = [said("book a table"), made, Hear(1), turn_complete(), Hear(1), "done", turn_complete()]
    talk = await Talk(script, root=tree, plugins=[Watch()]).hold()
    assert order == ["front", "look", "book"]
    assert answers(talk) == {"c1": {"output": "ok"}, "c2": {}}
    assert shown(await talk.stored())[:2] == ["front: heard book a table", "front: book? look?"]


async def test_mode_8_tasks_are_handed_over_one_by_one() -> None:
    """The second is not begun while the first waits for the user."""
    made = calls(call("book", "c1", request="a table"), call("book", "c2", request="a taxi"))
    script = [Hear(1), made, Hear(2), "both booked", turn_complete()]
    tree = booking("for how many?", call("finish_task", result="table"), call("finish_task", result="taxi"))
    talk = await talk_back(Talk(script, root=tree), {"for how many?": "two"}, "book both")
    assert answers(talk) == {"c1": {"output": "table"}, "c2": {"output": "taxi"}}
    texts = [brief(event) for event in talk.events if event.author == "book" or event.function_responses]
    assert texts == [
        "for how many?", "finish_task?", "finish_task!", "book!", "finish_task?", "finish_task!", "book!",
    ]  # fmt: skip


async def test_hitl_18_an_approval_inside_a_task_lets_it_go_on() -> None:
    ran: list[str] = []

    @tool(require_confirmation=True)
    def pay() -> dict[str, Any]:
        """Pay."""
        ran.append("pay")
        return {"paid": True}

    def approve(event: Any) -> list[Part]:
        asked = event.function_calls[0]
        return [Part(function_response=FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": True}))]

    script = [Hear(1), call("book", "c1", request="a table"), Hear(1), "booked", turn_complete()]
    tree = booking(call("pay", "p1"), call("finish_task", result="paid"), tools=[pay])
    talk = await talk_back(Talk(script, root=tree), {"adk_request_confirmation?": approve}, "book a table")
    assert ran == ["pay"]
    assert answers(talk) == {"c1": {"output": "paid"}}


async def test_models_live_7_a_task_that_the_model_withdrew_is_closed_and_hears_nothing_more() -> None:
    gone = ModelResponse(custom_metadata={CANCELLED_CALLS: ["c1"]}, partial=True)
    asked = asyncio.Event()

    async def until_asked(_: Any) -> None:
        await asked.wait()

    script = [Hear(1), call("book", "c1", request="a table"), until_asked, gone, Hear(1), "never mind", turn_complete()]
    talk = Talk(script, root=booking("for how many?"))

    def note(_: Any) -> None:
        asked.set()

    await talk_back(talk, {"for how many?": note, "book!": "forget it"}, "book a table")
    assert answers(talk) == {}, "no answer goes to a call that was withdrawn"
    assert talk.line.texts == ["book a table", "forget it"]
    assert "front: book!" in shown(await talk.stored())
    assert talk.run.outcome is not None
    assert talk.run.outcome.open_delegations == ()


async def test_act_26_a_task_left_open_by_a_live_session_goes_on_in_a_typed_run() -> None:
    tree = booking("for how many?", call("finish_task", result="two"))
    talk = Talk([Hear(1), call("book", "c1", request="a table")], close=False, root=tree, responses=["booked"])
    await talk.hold_until("for how many?", "book a table")
    await talk.finish()
    assert talk.run.outcome is not None
    assert [call.id for call in talk.run.outcome.open_delegations] == ["c1"]
    assert await talk.runner.ask(user_id="u", session_id="s", message="two") == "booked"


async def test_a_task_that_fails_is_not_run_in_circles() -> None:
    failed = ModelResponse(error_code="SAFETY", error_message="no")
    talk = Talk([Hear(1), call("book", "c1", request="a table")], close=False, root=booking(failed, failed, failed))
    await talk.hold_until("SAFETY", "book a table")
    await talk.finish()
    assert [brief(event) for event in talk.events].count("SAFETY") == 1


# --- single-turn agents that ask --------------------------------------------------------------------------------------


async def test_hitl_18_an_approval_inside_a_single_turn_agent_lets_its_call_run_again() -> None:
    ran: list[str] = []

    @tool(require_confirmation=True)
    def pay() -> dict[str, Any]:
        """Pay."""
        ran.append("pay")
        return {"paid": True}

    def approve(event: Any) -> list[Part]:
        asked = event.function_calls[0]
        return [Part(function_response=FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": True}))]

    def tree(model: Any) -> LlmAgent:
        typed = ScriptedModel([call("pay", "p1"), "paid"])
        child = LlmAgent(name="payer", model=typed, mode="single_turn", description="Pays.", tools=[pay])
        return LlmAgent(name="front", model=model, sub_agents=[child])

    script = [Hear(1), call("payer", "c1", request="pay"), Hear(1), "done", turn_complete()]
    talk = await talk_back(Talk(script, root=tree), {"adk_request_confirmation?": approve}, "pay it")
    assert ran == ["pay"]
    assert answers(talk) == {"c1": {"result": "paid"}}
    assert talk.line.texts == ["pay it", ""], "the answer to the request is no content for the model"


# --- the form of answers ----------------------------------------------------------------------------------------------

FORM = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NATIVE = ModelCapabilities(provider="scripted", live=True, output_schema=True, output_schema_with_tools=True)


@pytest.mark.parametrize("with_tools", [False, True])
async def test_out_2_a_live_agent_gives_its_object_by_the_tool(with_tools: bool) -> None:
    """No live connection takes a response schema (google-genai: LiveConnectConfig has none), so the tool is asked for,
    even where the model could do it in typed turns; OUT-3: what it takes is the final event."""

    @tool
    def look() -> dict[str, Any]:
        """Look."""
        return {}

    script = [Hear(1), call("set_model_response", "c1", town="Rome"), Hear(1), "I mean"]
    script += [call("set_model_response", "c2", city="Rome"), Hear(1), turn_complete()]
    talk = await Talk(
        script, capabilities=NATIVE, output_schema=FORM, output_key="place", tools=[look] if with_tools else []
    ).hold("which city?")
    asked = talk.line.request
    assert "set_model_response" in asked.tools
    assert (asked.config.response_json_schema, asked.config.response_mime_type) == (None, None)
    assert "error" in answers(talk)["c1"]
    assert answers(talk)["c2"] == {"city": "Rome"}
    session = await talk.runner.sessions.get_session(app_name=talk.runner.app_name, user_id="u", session_id="s")
    assert session.state["place"] == {"city": "Rome"}, "LLM-10: the checked object, and no text that was said"
    assert '{"city": "Rome"}' in [event.text for event in await talk.stored()]


def test_out_2_live_connections_of_google_genai_have_no_response_schema() -> None:
    types = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    assert not {"response_schema", "response_json_schema", "response_mime_type"} & set(
        types.LiveConnectConfig.model_fields
    )


# --- what a live run does not have ------------------------------------------------------------------------------------


class Executor:
    async def execute(self, *_: Any) -> Any:
        raise AssertionError("never run")


OPTIONS: list[tuple[str, Any]] = [("planner", PlanReActPlanner()), ("code_executor", Executor())]


@pytest.mark.parametrize(("option", "value"), OPTIONS)
async def test_live_2_what_has_no_live_form_is_refused_at_the_start_by_name(option: str, value: Any) -> None:
    asked: list[str] = []

    class Watch(Plugin):
        name = "watch"

        def before_run(self) -> None:
            asked.append("before_run")

    talk = Talk([], close=False, plugins=[Watch()], **{option: value})
    with pytest.raises(UnsupportedOperationError, match=rf"'voice'.*\({option}="):
        await talk.hold("hi")
    assert (asked, talk.connections, await talk.stored()) == ([], [], [])


@pytest.mark.parametrize(("option", "value"), OPTIONS)
async def test_live_2_so_it_is_where_an_agent_is_reached_by_transfer(option: str, value: Any) -> None:
    def tree(model: Any) -> LlmAgent:
        child = LlmAgent(name="thinker", model=model, **{option: value})
        return LlmAgent(name="front", model=model, sub_agents=[child])

    talk = Talk([Hear(1), call("transfer_to_agent", "c1", agent_name="thinker"), Hear(1)], close=False, root=tree)
    with pytest.raises(UnsupportedOperationError, match=rf"'thinker'.*\({option}="):
        await talk.hold("think")
    assert talk.model.open_connections == 0


async def test_live_2_a_model_that_is_not_live_names_the_agent() -> None:
    runner = Runner.in_memory(LlmAgent(name="voice", model=ScriptedModel(["hi"])), settings=Settings())
    run = runner.run_live(user_id="u", session_id="s", config=LiveRunConfig())
    with pytest.raises(UnsupportedOperationError, match="live"):
        await anext(run)
