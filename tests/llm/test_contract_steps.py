"""Steps of the loop line by line: approvals on entry, order of events, packing.

core CNF-4 … CNF-7, FLOW-20, REQ-3, REQ-4, INS-6; tools-plugins TL-22, TL-24, BT-30, BT-31.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hookwork import (
    Content,
    Event,
    EventActions,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    ModelCapabilities,
    ModelRequest,
    NodeInfo,
    Part,
    ToolConfirmation,
    ToolContext,
    text_content,
)
from hookwork.errors import ConfigurationError, DuplicateToolError
from hookwork.records.request import GenerateContentConfig
from hookwork.tool import Tool, pack_tool
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import AgentTool, GoogleSearchTool, LlmAgent, ModelTool, inject_session_state, tool
from hookwork_testkit import ScriptedModel, call, thought

REQUEST = "adk_request_confirmation"


def agent_of(model: Any, *tools: Any, **fields: Any) -> LlmAgent:
    return LlmAgent(name="a", model=model, tools=tools, **fields)


# --- approvals on entry (core CNF-4 … CNF-7) --------------------------------------------------------------------------


def stored_request(author: str = "a", scope: str = "", branch: str = "", path: str = "a@1") -> list[Event]:
    """A call of ``go`` with its placeholder and request, as one agent left them."""
    where: dict[str, Any] = {
        "invocation_id": "e-1", "author": author, "node_info": NodeInfo(path=path), "isolation_scope": scope,
        "branch": branch,
    }  # fmt: skip
    asked = FunctionCall(
        id="r1", name=REQUEST, args={"originalFunctionCall": {"id": "c1", "name": "go", "args": {"x": 1}}}
    )
    placeholder = Part(function_response=FunctionResponse(id="c1", name="go", response={"error": "asks"}))
    return [
        Event(content=Content(role="model", parts=[call("go", "c1", x=1)]), **where),
        Event(
            content=Content(role="user", parts=[placeholder]),
            actions=EventActions(requested_tool_confirmations={"c1": ToolConfirmation()}),
            **where,
        ),
        Event(
            content=Content(role="model", parts=[Part(function_call=asked)]), long_running_tool_ids=("r1",), **where
        ),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("foreign", "runs"),
    [({}, [(1, None)]), ({"author": "peer"}, []), ({"scope": "elsewhere"}, []), ({"branch": "elsewhere"}, [])],
    ids=["own", "author", "scope", "branch"],
)
async def test_cnf_4_hitl_9_only_calls_of_this_agents_own_events_are_carried_out(
    runner_factory: Any, answer: Any, gated: Any, foreign: dict[str, str], runs: list[Any]
) -> None:
    """A remote peer writes events too: what it says was called and approved is no source of a call."""
    go, sessions = gated(), InMemorySessionService()
    session = await sessions.create_session(app_name="a", user_id="u", session_id="s")
    hello = Event(invocation_id="e-1", author="user", content=text_content("hi", role="user"))
    for event in [hello, *stored_request()] if not foreign else [hello, *stored_request()[:1], *_forged(foreign)]:
        await sessions.append_event(session, event)
    async with runner_factory(agent_of(ScriptedModel(["done", "done"]), go.tool), sessions=sessions) as runner:
        await runner.run(user_id="u", session_id="s", message=answer("r1", {"confirmed": True})).wait()
    assert go.runs == runs


def _forged(foreign: dict[str, str]) -> list[Event]:
    """The agent's own call was answered; somebody else claims that it waits for an approval."""
    done = Part(function_response=FunctionResponse(id="c1", name="go", response={"done": 0}))
    own = Event(
        invocation_id="e-1", author="a", node_info=NodeInfo(path="a@1"), content=Content(role="user", parts=[done])
    )
    return [own, *stored_request(**foreign)]


async def test_cnf_5_confirmed_calls_run_as_a_batch_in_request_order_before_the_model_is_called(
    runner_factory: Any, play: Any, answer: Any
) -> None:
    order: list[str] = []
    both = asyncio.Barrier(2)

    @tool(require_confirmation=True)
    async def act(ctx: ToolContext, n: int) -> dict[str, int]:
        """Acts."""
        assert ctx.tool_confirmation is not None
        order.append(f"act {n} {ctx.tool_confirmation.confirmed}")
        await both.wait()  # at once: neither ends before the other began
        return {"did": n}

    def second(request: Any) -> str:
        order.append("model")
        return "done"

    calls = [call("act", f"c{n}", n=n) for n in (1, 2, 3)]
    async with runner_factory(agent_of(ScriptedModel([calls, second]), act)) as runner:
        paused = await play(runner)
        one, two, three = paused.open_ids
        turn = await play(
            runner, answer((three, {"confirmed": False}), (two, {"confirmed": True}), (one, {"confirmed": True}))
        )
    assert order == ["act 1 True", "act 2 True", "model"]
    assert turn.scene == ["a: -act -act -act", "a: done"]
    given = [dict(r.response or {}) for r in turn.events[0].function_responses]
    assert given[:2] == [{"did": 1}, {"did": 2}]
    assert "rejected" in given[2]["error"]


async def test_cnf_6_calls_answered_after_the_request_are_skipped(runner_factory: Any, answer: Any, gated: Any) -> None:
    """The process died behind the response of the approved call: the next entry does not run it again."""
    go = gated()
    model = ScriptedModel([call("go", "c1", x=1), "done"])
    async with runner_factory(agent_of(model, go.tool)) as runner:
        first = await runner.run(user_id="u", session_id="s", message="go").wait()
        reply = answer(first.open_calls[0].id, {"confirmed": True})
        async with runner.run(user_id="u", session_id="s", message=reply) as run:
            async for event in run:
                assert event.function_responses
                break
        again = await runner.run(user_id="u", session_id="s", invocation_id=first.invocation_id).wait()
    assert (again.kind, go.runs, model.calls) == ("completed", [(1, None)], 2)


@pytest.mark.parametrize("what", ["asks again", "transfers", "skips", "plain"])
async def test_cnf_7_a_resumed_batch_is_treated_like_any_other(
    runner_factory: Any, play: Any, answer: Any, what: str
) -> None:
    rounds: list[int] = []

    @tool(require_confirmation=True)
    async def act(ctx: ToolContext) -> dict[str, Any]:
        """Acts."""
        rounds.append(1)
        if what == "asks again" and len(rounds) == 1:
            ctx.request_confirmation("sure?")
        if what == "transfers":
            ctx.actions.transfer_to_agent = "b"
        if what == "skips":
            ctx.actions.skip_summarization = True
        return {"n": len(rounds)}

    model = ScriptedModel([call("act", "c1"), "a says"])
    other = LlmAgent(name="b", model=ScriptedModel(["b says"]))
    async with runner_factory(agent_of(model, act, sub_agents=[other])) as runner:
        paused = await play(runner)
        turn = await play(runner, answer(paused.open_ids[0], {"confirmed": True}))
    assert (
        turn.scene
        == {
            "asks again": ["a: -act", f"a: +{REQUEST}"],
            "transfers": ["a: -act", "b: b says"],
            "skips": ["a: -act"],
            "plain": ["a: -act", "a: a says"],
        }[what]
    )
    assert turn.outcome.kind == ("paused" if what == "asks again" else "completed")


# --- what follows a model event (core FLOW-20; TL-22, TL-24) ----------------------------------------------------------


async def test_flow_20_responses_then_requests_then_the_structured_answer_then_the_step_is_over(
    runner_factory: Any, play: Any, answer: Any, gated: Any
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    go = gated()
    model = ScriptedModel([call("go", "c1"), call("set_model_response", "c2", n=3)])
    async with runner_factory(agent_of(model, go.tool, output_schema=schema)) as runner:
        first = await play(runner)
        assert first.scene == ["a: +go", "a: -go", f"a: +{REQUEST}"]
        second = await play(runner, answer(first.open_ids[0], {"confirmed": True}))
    assert second.scene == ["a: -go", "a: +set_model_response", "a: -set_model_response", 'a: {"n": 3}']
    assert second.outcome.final_event.text == '{"n": 3}'


async def test_flow_20_a_turn_without_responses_goes_on_with_the_next_one(runner_factory: Any, play: Any) -> None:
    @tool(long_running=True, inline=True)
    def wait() -> None:
        """Waits."""

    async with runner_factory(agent_of(ScriptedModel([call("wait", "c1")]), wait)) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: +wait"]  # no response event at all


async def test_flow_20_act_18_an_approval_in_the_batch_comes_before_the_hand_over(
    runner_factory: Any, play: Any, answer: Any, gated: Any
) -> None:
    go = gated()
    model = ScriptedModel([[call("go", "c1"), call("transfer_to_agent", "c2", agent_name="b")]])
    other = LlmAgent(name="b", model=ScriptedModel(["b says"]))
    async with runner_factory(agent_of(model, go.tool, sub_agents=[other])) as runner:
        first = await play(runner)
        assert first.scene == ["a: +go +transfer_to_agent", "a: -go -transfer_to_agent", f"a: +{REQUEST}"]
        assert first.outcome.kind == "paused"
        second = await play(runner, answer(first.open_ids[0], {"confirmed": True}))
    assert second.scene == ["a: -go", "b: b says"]


async def test_tl_22_actions_of_a_batch_are_merged_by_rule(runner_factory: Any, play: Any, stored: Any) -> None:
    """State by time of writing and never deep, the higher artifact version, flags or'ed, the last transfer set."""
    first_wrote, second_wrote = asyncio.Event(), asyncio.Event()

    @tool
    async def one(ctx: ToolContext) -> dict[str, Any]:
        """Writes early, and once more late."""
        ctx.state["map"] = {"one": 1}
        ctx.state["late"] = "first"
        first_wrote.set()
        await second_wrote.wait()
        ctx.state["late"] = "newest"
        await ctx.artifacts.save("f", Part(text="third version"))
        ctx.actions.skip_summarization = True
        return {}

    @tool
    async def two(ctx: ToolContext) -> dict[str, Any]:
        """Writes between the two."""
        await first_wrote.wait()
        ctx.state["map"] = {"two": 2}
        ctx.state["late"] = "second"
        await ctx.artifacts.save("f", Part(text="first version"))
        await ctx.artifacts.save("f", Part(text="second version"))
        ctx.actions.escalate = True
        second_wrote.set()
        return {}

    async with runner_factory(agent_of(ScriptedModel([[call("one"), call("two")]]), one, two)) as runner:
        turn = await play(runner)
        session = await stored(runner)
    actions = turn.events[1].actions
    assert dict(actions.state_delta) == {"map": {"two": 2}, "late": "newest"}
    assert dict(actions.artifact_delta) == {"f": 3}
    assert (actions.skip_summarization, actions.escalate, actions.transfer_to_agent) == (True, True, None)
    assert {key: session.state[key] for key in ("map", "late")} == {"map": {"two": 2}, "late": "newest"}


@pytest.mark.parametrize(
    ("steps", "calls", "last", "final"),
    [
        (["text"], 1, "a: text", True),
        ([[thought("hm")], "text"], 2, "a: text", True),
        ([call("skips")], 1, "a: -skips", True),
        ([call("waits")], 1, "a: +waits", True),
        ([call("ends")], 1, "a: +ends", False),
        ([call("plain"), "text"], 2, "a: text", True),
    ],
    ids=["text", "thoughts", "skips", "waits", "ended", "tool"],
)
async def test_tl_24_when_the_loop_ends(
    runner_factory: Any, play: Any, steps: list[Any], calls: int, last: str, final: bool
) -> None:
    @tool(inline=True)
    def skips(ctx: ToolContext) -> dict[str, Any]:
        """Skips."""
        ctx.actions.skip_summarization = True
        return {}

    @tool(long_running=True, inline=True)
    def waits() -> None:
        """Waits."""

    @tool(inline=True)
    def plain() -> dict[str, Any]:
        """Is plain."""
        return {}

    @tool(inline=True)
    def ends() -> dict[str, Any]:
        """Never runs."""
        raise AssertionError

    def stop(ctx: Any, request: Any, response: Any) -> None:
        if response.content.function_calls and response.content.function_calls[0].name == "ends":
            ctx.end_invocation()

    model = ScriptedModel(steps)
    agent = agent_of(model, skips, waits, plain, ends, after_model=[stop])
    async with runner_factory(agent) as runner:
        turn = await play(runner)
    assert (model.calls, turn.scene[-1]) == (calls, last)
    assert turn.events[-1].is_final_response() is final


# --- the request (core REQ-3, REQ-4, INS-6; BT-30, BT-31) -------------------------------------------------------------


class Hidden(Tool):
    """Callable, but not shown to the model."""

    name = "hidden"
    description = "Hidden."

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        return {"found": True}


class Declared(Hidden):
    def __init__(self, name: str) -> None:
        self.name = name

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name=self.name, description="Shown.")


def test_req_3_declarations_are_merged_into_one_and_names_are_unique() -> None:
    request = ModelRequest()
    for found in (Declared("one"), Hidden(), Declared("two")):
        pack_tool(request, found)
    assert list(request.tools) == ["one", "hidden", "two"]
    [entry] = request.config.tools
    assert [declaration.name for declaration in entry.function_declarations or ()] == ["one", "two"]
    with pytest.raises(DuplicateToolError, match="'one'"):
        pack_tool(request, Declared("one"))
    with pytest.raises(DuplicateToolError, match="no name"):
        pack_tool(request, Declared(""))


async def test_req_3_a_tool_that_is_not_shown_can_be_called(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel([call("hidden", "c1"), "ok"])
    async with runner_factory(agent_of(model, Hidden(), Declared("one"))) as runner:
        turn = await play(runner)
    assert model.requests[0].declared == ["one"]
    assert turn.events[1].function_responses[0].response == {"found": True}


async def test_req_4_tl_6_state_written_while_a_request_is_built_is_stored_with_the_models_answer(
    runner_factory: Any, play: Any, stored: Any
) -> None:
    class Counts(Hidden):
        async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
            ctx.state["requests"] = ctx.state.get("requests", 0) + 1
            pack_tool(request, self)

    model = ScriptedModel([call("hidden", "c1"), "ok"])
    async with runner_factory(agent_of(model, Counts())) as runner:
        turn = await play(runner)
        session = await stored(runner)
    assert [dict(event.actions.state_delta) for event in turn.events] == [{"requests": 1}, {}, {"requests": 2}]
    assert session.state["requests"] == 2


async def test_ins_6_a_provider_may_fill_in_a_template_itself(runner_factory: Any, play: Any) -> None:
    async def instruction(ctx: Any) -> str:
        return f"{{raw}} and {await inject_session_state(ctx, 'in {city}, {missing?}{{literal}}')}"

    model = ScriptedModel(["ok"])
    async with runner_factory(agent_of(model, instruction_provider=instruction)) as runner:
        await play(runner, state_delta={"city": "Rome", "raw": "never"})
    assert model.requests[0].instruction.startswith("{raw} and in Rome, {literal}")


def test_bt_30_instructions_join_the_last_text_part_or_begin_a_content() -> None:
    request = ModelRequest()
    request.append_instruction("one", "", "two")
    assert request.config.system_instruction == Content(role="user", parts=[Part(text="one\n\ntwo")])
    request.append_instruction("three")
    assert request.config.system_instruction is not None
    assert [part.text for part in request.config.system_instruction.parts] == ["one\n\ntwo\n\nthree"]
    own = ModelRequest(
        config=GenerateContentConfig(system_instruction=Content(role="system", parts=[Part(text="own")]))
    )
    own.append_instruction("more")
    assert own.config.system_instruction == Content(role="system", parts=[Part(text="own\n\nmore")])


SEARCHES = ModelCapabilities(builtin_tools=frozenset({"google_search", "url_context"}))
BOTH = ModelCapabilities(builtin_tools=frozenset({"google_search", "url_context"}), builtin_with_functions=True)


@tool(inline=True)
def look() -> dict[str, Any]:
    """Looks."""
    return {}


@pytest.mark.parametrize(
    ("fields", "beside"),
    [
        ({"tools": [GoogleSearchTool(), look]}, "look"),
        ({"tools": [look, ModelTool("pages", "Reads pages.", {"url_context": {}})]}, "look"),
        (
            {"tools": [GoogleSearchTool()], "sub_agents": [LlmAgent(name="b", model="offline")]},
            "transfer_to_agent",
        ),
    ],
    ids=["function", "function first", "transfer"],
)
async def test_bt_31_a_model_side_tool_beside_functions_is_refused_where_the_provider_would(
    runner_factory: Any, play: Any, fields: dict[str, Any], beside: str
) -> None:
    """The error says what stands beside what, and the way out."""
    model = ScriptedModel(["never"], capabilities=SEARCHES)
    async with runner_factory(LlmAgent(name="a", model=model, **fields)) as runner:
        turn = await play(runner)
    assert isinstance(turn.error, ConfigurationError)
    text = str(turn.error)
    assert all(word in text for word in ("'a'", beside, "scripted", "AgentTool"))
    assert any(kind in text for kind in ("google_search", "url_context"))
    assert model.calls == 0


async def test_bt_31_a_model_that_combines_them_gets_both(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel(["found"], capabilities=BOTH)
    async with runner_factory(agent_of(model, GoogleSearchTool(), look)) as runner:
        turn = await play(runner)
    assert turn.scene == ["a: found"]
    assert len(model.requests[0].config.tools) == 2


async def test_bt_31_one_agent_for_each_kind_behind_an_agent_tool(runner_factory: Any, play: Any) -> None:
    searching = ScriptedModel(["the sky is clear"], capabilities=SEARCHES)
    search = LlmAgent(name="search", description="Searches.", model=searching, tools=[GoogleSearchTool()])
    model = ScriptedModel([[call("search", "c1", request="sky?"), call("look", "c2")], "clear"], capabilities=SEARCHES)
    async with runner_factory(agent_of(model, AgentTool(search), look)) as runner:
        turn = await play(runner)
    assert turn.events[1].function_responses[0].response == {"result": "the sky is clear"}
    assert turn.scene[-1] == "a: clear"
