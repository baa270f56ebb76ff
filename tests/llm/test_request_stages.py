"""Named request stages and how plugins and agents change them (core §4.2, REQ-1)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork.context import CallbackContext, ReadonlyContext
from hookwork.errors import ConfigurationError
from hookwork.model import ModelRequest
from hookwork.plugins.plugin import Plugin
from hookwork.records.content import Content, text_content
from hookwork.records.request import GenerateContentConfig
from hookwork_llm import LlmAgent, RequestStage, tool
from hookwork_llm.request_stages import BUILT_IN, compile_stages
from hookwork_testkit import ScriptedModel


@tool
async def look() -> None:
    """Look."""


def names(*changes: RequestStage) -> list[str]:
    built_in = [(name, lambda *_: None) for name in BUILT_IN]
    return [name for name, _ in compile_stages(built_in, changes, "agent 'a'")]


def nothing(ctx: Any, request: Any) -> None:
    return None


# --- order ------------------------------------------------------------------------------------------------------------


def test_core_4_2_the_built_in_order() -> None:
    assert names() == [
        "basic", "collect_tools", "auth", "confirmation_resume", "instructions", "identity", "compaction", "contents",
        "planning", "code_execution", "structured_output", "transfer", "provider_cleanup", "tool_requests",
        "toolset_requests",
    ]  # fmt: skip


def test_req_1_added_before_after_and_at_the_end() -> None:
    order = names(
        RequestStage("x", nothing, before="contents"),
        RequestStage("y", nothing, after="contents"),
        RequestStage("z", nothing),
    )
    at = order.index("contents")
    assert order[at - 1 : at + 2] == ["x", "contents", "y"]
    assert order[-1] == "z"


def test_req_1_replaced_and_removed() -> None:
    assert "mine" in names(RequestStage("mine", nothing, replaces="contents"))
    assert "contents" not in names(RequestStage("mine", nothing, replaces="contents"))
    assert "identity" not in names(RequestStage("identity", None))
    assert names(RequestStage("identity", nothing)) == list(BUILT_IN)  # put in its place


def test_req_1_a_stage_may_refer_to_one_that_comes_later_in_the_list() -> None:
    order = names(RequestStage("x", nothing, before="y"), RequestStage("y", nothing, before="contents"))
    at = order.index("contents")
    assert order[at - 2 : at] == ["x", "y"]


def test_req_1_an_unknown_name_is_an_error_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match=r"'content'.*did you mean 'contents'") as raised:
        names(RequestStage("x", nothing, before="content"))
    assert "agent 'a'" in str(raised.value)
    with pytest.raises(ConfigurationError, match="'identty'"):
        names(RequestStage("identty", None))


def test_req_1_a_circle_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="circle") as raised:
        names(RequestStage("x", nothing, before="y"), RequestStage("y", nothing, before="x"))
    assert "'x', 'y'" in str(raised.value)


def test_req_1_one_position_only() -> None:
    with pytest.raises(ConfigurationError, match="one of before, after and replaces"):
        RequestStage("x", nothing, before="contents", after="identity")


def test_req_1_something_else_in_the_list_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="RequestStage objects, not str"):
        names("identity")  # type: ignore[arg-type]


async def test_req_1_errors_come_when_the_runner_is_built(runner_factory: Any) -> None:
    agent = LlmAgent(name="a", model=ScriptedModel(), request_stages=[RequestStage("x", nothing, after="nope")])
    with pytest.raises(ConfigurationError, match="'nope'"):
        runner_factory(agent)


# --- what stages do ---------------------------------------------------------------------------------------------------


async def test_req_1_plugins_first_then_the_agents_own(runner_factory: Any, play: Any) -> None:
    order: list[str] = []

    def noting(name: str) -> Any:
        def stage(ctx: CallbackContext, request: ModelRequest) -> None:
            order.append(name)

        return stage

    class P(Plugin):
        name = "p"
        request_stages = (RequestStage("one", noting("plugin"), before="contents"),)

    agent = LlmAgent(
        name="a", model=ScriptedModel(["done"]), request_stages=[RequestStage("two", noting("agent"), after="one")]
    )
    async with runner_factory(agent, plugins=[P()]) as runner:
        await play(runner)
    assert order == ["plugin", "agent"]


async def test_req_1_a_stage_sees_what_is_there_and_its_state_is_stored(
    runner_factory: Any, play: Any, stored: Any
) -> None:
    async def add(ctx: CallbackContext, request: ModelRequest) -> None:
        ctx.state["contents"] = len(request.contents)
        request.contents = [*request.contents, text_content("by the way", role="user")]

    model = ScriptedModel(["done"])
    agent = LlmAgent(name="a", model=model, request_stages=[RequestStage("extra", add, after="contents")])
    async with runner_factory(agent) as runner:
        turn = await play(runner)
        session = await stored(runner)
    assert [content.text for content in model.prompts[0]] == ["hi", "by the way"]
    assert dict(turn.events[0].actions.state_delta) == {"contents": 1}
    assert [event.text for event in session.events] == ["hi", "done"]  # transient


async def test_req_1_removing_and_replacing_a_stage(runner_factory: Any, play: Any) -> None:
    def own_contents(ctx: CallbackContext, request: ModelRequest) -> None:
        request.contents = [Content(role="user", parts=text_content("mine").parts)]

    model = ScriptedModel(["done"])
    agent = LlmAgent(
        name="a",
        model=model,
        instruction="Be brief.",
        request_stages=[RequestStage("identity", None), RequestStage("mine", own_contents, replaces="contents")],
    )
    async with runner_factory(agent) as runner:
        await play(runner)
    assert model.requests[0].instruction == "Be brief."
    assert [content.text for content in model.prompts[0]] == ["mine"]


async def test_a_failing_stage_is_named(runner_factory: Any, play: Any) -> None:
    def fails(ctx: Any, request: Any) -> None:
        raise LookupError("nothing there")

    agent = LlmAgent(name="a", model=ScriptedModel(), request_stages=[RequestStage("mine", fails)])
    async with runner_factory(agent) as runner:
        turn = await play(runner)
    assert isinstance(turn.error, LookupError)
    assert any("'mine'" in note and "'a'" in note for note in turn.error.__notes__)


async def test_ins_4_order_of_the_system_instruction(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel(["done", "done"])
    config = GenerateContentConfig(system_instruction=text_content("CONFIG", role="user"), temperature=0.5)
    helper = LlmAgent(name="helper", model=model, description="Helps.")
    root = LlmAgent(
        name="root",
        description="The root.",
        model=model,
        global_instruction="GLOBAL {city}",
        instruction="AGENT {city?}",
        generate_content_config=config,
        sub_agents=[helper],
    )
    async with runner_factory(root) as runner:
        await play(runner, state_delta={"city": "Rome"})
    request = model.requests[0]
    pieces = ["CONFIG", "GLOBAL Rome", "AGENT Rome", '"root"', "The root.", "helper: Helps."]
    positions = [request.instruction.index(piece) for piece in pieces]
    assert positions == sorted(positions)
    assert request.instruction.startswith("CONFIG\n\nGLOBAL Rome\n\nAGENT Rome\n\n")
    assert request.config.temperature == 0.5


async def test_ins_4_empty_pieces_leave_no_blank_text(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel(["done"])
    agent = LlmAgent(name="a", model=model, instruction_provider=lambda ctx: "")
    async with runner_factory(agent) as runner:
        await play(runner)
    assert "\n\n\n" not in model.requests[0].instruction
    assert not model.requests[0].instruction.startswith("\n")


async def test_ins_7_providers_are_called_on_every_step_and_read_only(runner_factory: Any, play: Any) -> None:
    from hookwork_testkit import call

    seen: list[Any] = []

    async def provider(ctx: ReadonlyContext) -> str:
        seen.append(ctx.state["n"])
        with pytest.raises(TypeError):
            ctx.state["x"] = 1
        return "{n} is not a placeholder here"

    model = ScriptedModel([call("look"), "done"])
    agent = LlmAgent(name="a", model=model, tools=[look], instruction="unused", instruction_provider=provider)
    async with runner_factory(agent) as runner:
        await play(runner, state_delta={"n": 7})
    assert seen == [7, 7]
    assert model.requests[0].instruction.startswith("{n} is not a placeholder here\n\n")


async def test_core_2_only_the_roots_global_instruction_counts(runner_factory: Any, play: Any) -> None:
    from hookwork_testkit import call

    model = ScriptedModel(["done"])
    b = LlmAgent(name="b", model=model, global_instruction="NOT THIS", instruction="B")
    root = LlmAgent(
        name="root",
        model=ScriptedModel([call("transfer_to_agent", agent_name="b")]),
        global_instruction_provider=lambda ctx: "GLOBAL",
        sub_agents=[b],
    )
    async with runner_factory(root) as runner:
        await play(runner)
    assert model.requests[0].instruction.startswith("GLOBAL\n\nB\n\n")
    assert "NOT THIS" not in model.requests[0].instruction


async def test_ins_3_a_missing_value_names_key_and_agent(runner_factory: Any, play: Any) -> None:
    async with runner_factory(LlmAgent(name="a", model=ScriptedModel(), instruction="In {town}.")) as runner:
        turn = await play(runner)
    assert isinstance(turn.error, KeyError)
    assert "'town'" in str(turn.error)
    assert "'a'" in str(turn.error)


async def test_req_1_a_static_request_and_a_staged_one_are_equal(runner_factory: Any, play: Any) -> None:
    """The prepared request is a short cut, not another behaviour."""
    requests = []
    for extra in ((), (RequestStage("nothing", nothing),)):
        model = ScriptedModel(["done"])
        helper = LlmAgent(name="helper", model=model)
        agent = LlmAgent(
            name="a",
            description="An agent.",
            model=model,
            instruction="Be {{brief}}.",
            global_instruction="Global.",
            tools=[look],
            sub_agents=[helper],
            generate_content_config=GenerateContentConfig(top_k=3),
            request_stages=extra,
        )
        async with runner_factory(agent) as runner:
            await play(runner)
        requests.append(model.requests[0])
    static, staged = requests
    assert static.instruction == staged.instruction
    assert static.contents == staged.contents
    assert (static.tools, sorted(static.declared)) == (staged.tools, sorted(staged.declared))
    assert static.config == staged.config
