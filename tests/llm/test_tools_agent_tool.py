"""Agents as tools (tools-plugins BT-01 … BT-04, TL-28; core EPH)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel

from hookwork import Agent, Event, Plugin, RunConfig, Runner, Settings
from hookwork.context import InvocationContext, ToolContext
from hookwork.errors import ConfigurationError, DuplicateToolError, UnknownModelError
from hookwork.records.content import Part, text_content
from hookwork.records.event import EventActions
from hookwork_llm import AgentTool, LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call
from hookwork_workflow import SequentialAgent


def caller(child: Any, *script: Any, **fields: Any) -> Any:
    """A root that calls the tool ``helper`` once, then says what it was scripted to."""
    model = ScriptedModel([call("helper", "c1", **fields.pop("args", {"request": "do it"})), *script])
    return LlmAgent(name="root", model=model, tools=[child], **fields)


def helper(*script: Any, **fields: Any) -> Any:
    return LlmAgent(name="helper", model=ScriptedModel(list(script)), **fields)


def response_of(turn: Any) -> Any:
    return turn.events[1].function_responses[0].response


def speaker(*events: Event, name: str = "helper") -> Agent:
    """An agent whose body yields these events."""

    async def body(_: InvocationContext) -> AsyncIterator[Event]:
        for event in events:
            yield event

    return Agent(name=name, body=body)


# --- declaration and arguments ----------------------------------------------------------------------------------------


def test_bt_02_declared_like_the_agent() -> None:
    made = AgentTool(helper(description="Knows the weather."))
    declaration = made.declaration()
    assert (declaration.name, declaration.description) == ("helper", "Knows the weather.")
    assert declaration.parameters_json_schema is not None
    assert declaration.parameters_json_schema["required"] == ["request"]
    assert declaration.parameters_json_schema["properties"]["request"]["type"] == "string"


class Query(BaseModel):
    city: str
    days: int = 1


@pytest.mark.parametrize("agent", [None, "root", LlmAgent], ids=str)
def test_bt_only_an_agent_is_taken(agent: Any) -> None:
    with pytest.raises(ConfigurationError, match="takes an agent"):
        AgentTool(agent)


def test_bt_an_agent_that_cannot_be_a_root_is_refused_at_construction() -> None:
    with pytest.raises(ConfigurationError, match="single_turn"):
        AgentTool(helper(mode="single_turn"))


def test_tl_13_a_tool_of_the_same_name_is_a_duplicate() -> None:
    with pytest.raises(DuplicateToolError, match="helper"):
        LlmAgent(name="root", tools=[AgentTool(helper()), AgentTool(helper())])


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ({}, "/city: "),
        ({"city": "Oslo", "days": "two"}, "/days: "),
        ({"city": "Oslo", "zip": "1"}, "/zip: "),
    ],
)
@pytest.mark.parametrize("schema", [Query, Query.model_json_schema()], ids=["type", "json"])
async def test_bt_02_arguments_are_checked_strictly(
    runner_factory: Any, play: Any, args: Any, error: str, schema: Any
) -> None:
    child = helper("never", input_schema=schema)
    async with runner_factory(caller(AgentTool(child), "sorry", args=args)) as runner:
        turn = await play(runner)
    assert response_of(turn)["error"].startswith(f"helper: {error}")
    assert child.model.calls == 0


async def test_bt_02_the_message_is_the_arguments_as_json(runner_factory: Any, play: Any) -> None:
    child = helper("fine", input_schema=Query)
    async with runner_factory(caller(AgentTool(child), "ok", args={"city": "Zürich", "days": 2.0})) as runner:
        await play(runner)
    assert json.loads(child.model.prompts[0][-1].text) == {"city": "Zürich", "days": 2}


@pytest.mark.parametrize(
    ("request_value", "message"), [("as it is", "as it is"), (7, "7"), ({"a": [1]}, '{"a": [1]}'), (False, "false")]
)
async def test_bt_02_a_request_that_is_no_text_becomes_text(
    runner_factory: Any, play: Any, request_value: Any, message: str
) -> None:
    child = helper("fine")
    async with runner_factory(caller(AgentTool(child), "ok", args={"request": request_value, "x": 1})) as runner:
        await play(runner)
    assert child.model.prompts[0][-1].text == message


@pytest.mark.parametrize("args", [{}, {"request": None}, {"request": "  "}])
async def test_bt_02_a_request_is_required(runner_factory: Any, play: Any, args: Any) -> None:
    child = helper("never")
    async with runner_factory(caller(AgentTool(child), "ok", args=args)) as runner:
        turn = await play(runner)
    assert "/request" in response_of(turn)["error"]
    assert child.model.calls == 0


# --- results ----------------------------------------------------------------------------------------------------------


async def test_bt_03_text_parts_of_the_last_event_without_thoughts(runner_factory: Any, play: Any) -> None:
    parts = [Part(text="hm", thought=True), Part(text="one"), Part(text="two")]
    first = Event(content=text_content("not this"))
    last = Event(content=text_content("x").replace(parts=parts))
    stateful = Event(actions=EventActions(state_delta={"k": 1}))
    async with runner_factory(caller(AgentTool(speaker(first, last, stateful)), "ok")) as runner:
        turn = await play(runner)
    assert response_of(turn) == {"result": "one\ntwo"}


async def test_bt_03_nothing_said_is_an_empty_result(runner_factory: Any, play: Any) -> None:
    async with runner_factory(caller(AgentTool(speaker()), "ok")) as runner:
        turn = await play(runner)
    assert response_of(turn) == {}
    assert turn.outcome.kind == "completed"


class Verdict(BaseModel):
    good: bool


async def test_bt_03_an_output_schema_gives_its_object(runner_factory: Any, play: Any) -> None:
    async with runner_factory(caller(AgentTool(helper('{"good": true}', output_schema=Verdict)), "ok")) as runner:
        turn = await play(runner)
    assert response_of(turn) == {"good": True}


async def test_bt_03_a_reply_of_another_form_is_an_error(runner_factory: Any, play: Any) -> None:
    child = helper("no object", "still none", output_schema=Verdict)
    async with runner_factory(caller(AgentTool(child), "ok")) as runner:
        turn = await play(runner)
    assert "'helper'" in response_of(turn)["error"]
    assert "INVALID_OUTPUT" in response_of(turn)["error"]


async def test_bt_03_an_error_event_is_a_tool_error(runner_factory: Any, play: Any) -> None:
    reached: list[str] = []

    async def body(_: InvocationContext) -> AsyncIterator[Event]:
        yield Event(error_code="SAFETY", error_message="blocked")
        reached.append("after")

    async with runner_factory(caller(AgentTool(Agent(name="helper", body=body)), "ok")) as runner:
        turn = await play(runner)
    assert response_of(turn) == {"error": "agent 'helper' ended with SAFETY: blocked"}
    assert reached == []


async def test_bt_03_a_raise_is_a_tool_error_that_names_the_agent(runner_factory: Any, play: Any) -> None:
    async def body(_: InvocationContext) -> AsyncIterator[Event]:
        yield Event(actions=EventActions(state_delta={"before": 1}))
        raise RuntimeError("boom")

    async with runner_factory(caller(AgentTool(Agent(name="helper", body=body)), "ok")) as runner:
        turn = await play(runner)
    assert response_of(turn) == {"error": "agent 'helper' failed: RuntimeError: boom"}
    assert turn.outcome.kind == "completed"


async def test_tl_28_skip_summarization_shows_the_answer(runner_factory: Any, play: Any) -> None:
    root = caller(AgentTool(helper("the answer"), skip_summarization=True), output_key="said")
    async with runner_factory(root) as runner:
        turn = await play(runner)
    assert root.model.calls == 1
    assert turn.outcome.final_event.text == "the answer"
    assert turn.events[-1].actions.state_delta == {"said": "the answer"}


async def test_case_flow_2_d_the_caller_sums_up_in_both_turns(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel(
        [call("helper", "c1", request="a"), "summed up", call("helper", "c2", request="b"), "summed up again"]
    )
    root = LlmAgent(name="root", model=model, tools=[AgentTool(helper("one", "two"))])
    async with runner_factory(root) as runner:
        first, second = await play(runner), await play(runner, "more")
    assert [event.author for event in (*first.events, *second.events)] == ["root"] * 6
    assert [response_of(turn) for turn in (first, second)] == [{"result": "one"}, {"result": "two"}]
    assert [turn.outcome.final_event.text for turn in (first, second)] == ["summed up", "summed up again"]
    for prompt in model.prompts:
        assert_valid_prompt(prompt)


async def test_bt_01_composed_agents_work_as_tools(runner_factory: Any, play: Any) -> None:
    draft = LlmAgent(name="draft", model=ScriptedModel(["a draft"]), output_key="draft")
    final = LlmAgent(name="final", model=ScriptedModel(["polished"]), instruction="Polish {draft}")
    team = SequentialAgent(name="helper", sub_agents=[draft, final])
    async with runner_factory(caller(AgentTool(team), "ok")) as runner:
        turn = await play(runner)
    assert response_of(turn) == {"result": "polished"}
    assert turn.events[1].actions.state_delta == {"draft": "a draft"}


# --- what the child sees ----------------------------------------------------------------------------------------------


async def test_bt_01_a_session_of_its_own_that_begins_with_the_parents_state(runner_factory: Any, play: Any) -> None:
    seen: dict[str, Any] = {}

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        seen.update(ctx.state)
        seen["ids"] = (ctx.app_name, ctx.user_id, ctx.session_id, len(ctx.session.events))
        yield Event(content=text_content("ok"))

    given = {"topic": "x", "user:name": "Ann", "app:v": 1, "temp:t": 2, "_adk_private": 3}
    async with runner_factory(caller(AgentTool(Agent(name="helper", body=body)), "ok")) as runner:
        await play(runner, state_delta=given)
        stored = await runner.sessions.list_sessions(app_name="root", user_id="u")
        others = await runner.sessions.list_sessions(app_name="helper")
    app_name, user_id, session_id, events = seen.pop("ids")
    assert seen == {"topic": "x", "user:name": "Ann", "app:v": 1, "temp:t": 2}
    assert (app_name, user_id, events) == ("helper", "u", 1)
    assert session_id != "s"
    assert ([session.id for session in stored], others) == (["s"], [])


async def test_bt_04_each_call_has_a_fresh_session(runner_factory: Any, play: Any) -> None:
    child = helper("one", "two")
    model = ScriptedModel([[call("helper", "c1", request="a"), call("helper", "c2", request="b")], "ok"])
    async with runner_factory(LlmAgent(name="root", model=model, tools=[AgentTool(child)])) as runner:
        await play(runner)
    assert sorted(prompt[-1].text for prompt in child.model.prompts) == ["a", "b"]
    assert [len(prompt) for prompt in child.model.prompts] == [1, 1]


async def test_bt_04_state_written_in_the_child_is_written_by_the_call(
    runner_factory: Any, play: Any, stored: Any
) -> None:
    @tool
    async def note(ctx: ToolContext) -> str:
        """Note."""
        ctx.state["found"] = [1]
        ctx.state["user:found"] = True
        return "noted"

    child = helper(call("note", "n1"), "done", tools=[note])
    async with runner_factory(caller(AgentTool(child), "ok")) as runner:
        turn = await play(runner)
        session = await stored(runner)
    assert turn.events[1].actions.state_delta == {"found": [1], "user:found": True}
    assert dict(session.state) == {"found": [1], "user:found": True}


async def test_bt_04_artifacts_are_the_parents(runner_factory: Any, play: Any) -> None:
    @tool
    async def copy(ctx: ToolContext) -> str:
        """Copy."""
        part = await ctx.artifacts.load("in.txt")
        await ctx.artifacts.save("out.txt", Part(text=f"{part.text}!"))
        return ", ".join(await ctx.artifacts.list())

    child = helper(call("copy", "n1"), "done", tools=[copy])
    async with runner_factory(caller(AgentTool(child), "ok")) as runner:
        scope = {"app_name": "root", "user_id": "u", "session_id": "s"}
        await runner.artifacts.save_artifact(**scope, filename="in.txt", artifact=Part(text="hello"))
        turn = await play(runner)
        saved = await runner.artifacts.load_artifact(**scope, filename="out.txt")
    assert child.model.prompts[1][-1].function_responses[0].response == {"result": "in.txt, out.txt"}
    assert saved.text == "hello!"
    assert turn.events[1].actions.artifact_delta == {"out.txt": 1}


async def test_bt_04_memory_is_the_parents(runner_factory: Any, play: Any) -> None:
    @tool
    async def look(ctx: ToolContext) -> list[str]:
        """Look."""
        found = await ctx.search_memory("Oslo")
        await ctx.add_session_to_memory()
        return [entry.content.text for entry in found if entry.content is not None]

    child = helper(call("look", "n1"), "done", tools=[look])
    async with runner_factory(caller(AgentTool(child), "ok", args={"request": "visit Bergen"})) as runner:
        session = await runner.sessions.create_session(app_name="root", user_id="u", session_id="old")
        await runner.sessions.append_event(session, Event(author="user", content=text_content("I live in Oslo")))
        await runner.memory.add_session_to_memory(session)
        await play(runner)
        bergen = await runner.memory.search_memory(app_name="root", user_id="u", query="Bergen")
    assert child.model.prompts[1][-1].function_responses[0].response == {"result": ["I live in Oslo"]}
    assert [entry.content.text for entry in bergen if entry.content is not None] == ["visit Bergen"]


async def test_eph_1_the_ephemeral_scope_is_the_same_mapping(runner_factory: Any, play: Any) -> None:
    scopes: list[Any] = []

    class Watch(Plugin):
        async def before_run(self, ctx: InvocationContext) -> None:
            scopes.append(ctx.ephemeral)

    async with runner_factory(caller(AgentTool(helper("x")), "ok"), plugins=[Watch()]) as runner:
        await play(runner, ephemeral={"token": "t"})
    assert len(scopes) == 2
    assert scopes[0] is scopes[1]
    assert scopes[1]["token"] == "t"


async def test_bt_04_unary_whatever_the_parent_streams(runner_factory: Any, play: Any) -> None:
    child = helper("the whole answer")
    config = RunConfig(streaming_mode="sse")
    async with runner_factory(caller(AgentTool(child), "ok")) as runner:
        await play(runner, config=config)
    assert [request.stream for request in child.model.requests] == [False]


async def test_bt_01_agents_without_a_model_have_the_runners(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel([call("helper", "c1", request="q"), "child speaks", "root speaks"])
    root = LlmAgent(name="root", tools=[AgentTool(LlmAgent(name="helper"))])
    async with runner_factory(root, model=model) as runner:
        turn = await play(runner)
    assert turn.scene[1:] == ["root: -helper", "root: root speaks"]
    assert response_of(turn) == {"result": "child speaks"}


def test_ext_5_a_model_that_is_not_there_is_found_when_the_runner_is_built() -> None:
    inner = LlmAgent(name="inner", model="ofline")
    agent = LlmAgent(name="outer", model=ScriptedModel(["x"]), tools=[AgentTool(inner)])
    with pytest.raises(UnknownModelError, match=r"'ofline'.*did you mean 'offline'"):
        Runner.in_memory(agent, settings=Settings())
