"""What an LlmAgent checks, and what it resolves (core §2)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork.agent import Agent
from hookwork.errors import ConfigurationError, DuplicateToolError, InvalidToolError, UnknownModelError
from hookwork.records.request import FunctionDeclaration, GenerateContentConfig
from hookwork.tool import RESERVED_TOOL_NAMES, Tool, Toolset, ToolWrapper
from hookwork_llm import FunctionTool, LlmAgent, tool
from hookwork_testkit import ScriptedModel, call


class Named(Tool):
    def __init__(self, name: str) -> None:
        self.name = name


class Empty(Toolset):
    name = "empty"

    async def tools(self, ctx: Any) -> list[Tool]:
        return []


def look(city: str) -> str:
    """Look at a city."""
    return city


@pytest.mark.parametrize("name", ["", "user", "two words", "a-b", "1st", "a/b"])
def test_agt_1_names_are_identifiers_and_not_user(name: str) -> None:
    with pytest.raises(ConfigurationError):
        LlmAgent(name=name)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("include_contents", "some", "'default' or 'none'"),
        ("model", 7, "a Model or a name"),
        ("output_key", "", "output_key"),
        ("output_key", 3, "output_key 3"),
        ("output_key", "app:", "has a scope but no name"),
        ("instruction", 3, "instruction is a text, not 3"),
        ("instruction", look, "a function goes into instruction_provider"),
        ("global_instruction", None, "global_instruction is a text"),
        ("instruction_provider", "text", "instruction_provider is a function"),
        ("templating", 1, "True or False"),
        ("tools", look, r"list of functions, tools and toolsets, not look; write tools=\[…\]"),
        ("tools", "look", "not str"),
        ("tools", {"look": look}, "not dict"),
        ("tools", Empty(), "not Empty"),
        ("tools", ["look"], "is not a tool"),
        ("sub_agents", "x", "sub_agents is a list of agents, not str"),
        ("sub_agents", Agent(name="b", body=lambda ctx: None), "not Agent"),  # type: ignore[arg-type, return-value]
        ("sub_agents", 3, "not int"),
        ("request_stages", ["identity"], "no RequestStage"),
        ("before_model", "log", "before_model is a function .* not 'log'"),
        ("on_tool_error", [look, 3], "on_tool_error is a function .* not 3"),
        ("before_agent", 3, "before_agent is a function .* not 3"),
        ("generate_content_config", 3, "a GenerateContentConfig or a dict, not int"),
        ("generate_content_config", {"temprature": 1}, r"unknown key 'temprature' \(did you mean 'temperature'\?\)"),
        ("generate_content_config", {"temperature": "hot"}, "at temperature: expected a number"),
    ],
)
def test_bad_fields_are_named(field: str, value: Any, text: str) -> None:
    fields: dict[str, Any] = {field: value}
    with pytest.raises(ConfigurationError, match=text) as raised:
        LlmAgent(name="a", **fields)
    assert "'a'" in str(raised.value)


def test_generation_settings_may_be_a_dict_in_either_spelling() -> None:
    agent = LlmAgent(name="a", generate_content_config={"temperature": 0.5, "topK": 3, "max_output_tokens": 9})
    assert agent.generate_content_config == GenerateContentConfig(temperature=0.5, top_k=3, max_output_tokens=9)
    assert agent.clone(name="b").generate_content_config is agent.generate_content_config


@pytest.mark.parametrize("timeout", ["5", -1, 0, True, float("nan")])
def test_fn_a_tools_timeout_is_a_number_of_seconds(timeout: Any) -> None:
    with pytest.raises(InvalidToolError, match="tool 'look': timeout is a number of seconds above 0"):
        tool(timeout=timeout)(look)


def test_fn_6_functions_methods_tools_and_toolsets_may_stand_in_tools() -> None:
    class Desk:
        def ask(self, question: str) -> str:
            """Ask."""
            return question

    toolset = Empty()
    agent = LlmAgent(name="a", tools=[look, Desk().ask, Named("n"), toolset])
    assert [one.name for one in agent.function_tools] == ["look", "ask", "n"]
    assert isinstance(agent.function_tools[0], FunctionTool)
    assert agent.toolsets == (toolset,)  # moved out of `tools`


def test_core_2_toolsets_may_be_given_as_such_and_come_after_those_among_the_tools() -> None:
    one, two = Empty(), Empty()
    agent = LlmAgent(name="a", tools=[look, one], toolsets=[two])
    assert ([tool.name for tool in agent.tools], agent.toolsets) == (["look"], (one, two))
    copy = agent.clone(name="b", tools=[])
    assert (copy.tools, copy.toolsets) == ((), (one, two))
    with pytest.raises(ConfigurationError, match=r"'a'.*goes into tools"):
        LlmAgent(name="a", toolsets=[look])  # type: ignore[list-item]


def test_what_is_no_tool_is_refused() -> None:
    with pytest.raises(InvalidToolError):
        LlmAgent(name="a", tools=["look"])


def test_tl_12_two_tools_of_one_name_are_found_at_construction() -> None:
    with pytest.raises(DuplicateToolError, match="'look'") as raised:
        LlmAgent(name="a", tools=[look, tool(name="look")(lambda: 1)])
    assert "'a'" in str(raised.value)


@pytest.mark.parametrize("name", sorted(RESERVED_TOOL_NAMES))
def test_tl_13_reserved_names_are_refused(name: str) -> None:
    with pytest.raises(DuplicateToolError, match="reserved"):
        LlmAgent(name="a", tools=[Named(name)])


def test_inv_4_fields_cannot_be_changed_and_clone_gives_another_agent() -> None:
    agent = LlmAgent(name="a", instruction="one")
    with pytest.raises(AttributeError):
        agent.name = "b"  # type: ignore[misc]
    other = agent.clone(name="b")
    assert (other.name, other.instruction, agent.name) == ("b", "one", "a")
    assert isinstance(other, LlmAgent)


def test_one_callback_or_a_list_of_them() -> None:
    def first(ctx: Any, request: Any) -> None:
        return None

    assert LlmAgent(name="a", before_model=first).before_model == (first,)
    assert LlmAgent(name="a", before_model=[first, first]).before_model == (first, first)


def test_ext_5_a_model_name_is_resolved_when_the_runner_is_built(runner_factory: Any) -> None:
    agent = LlmAgent(name="a", model="no-such-model-anywhere")  # not at construction
    with pytest.raises(UnknownModelError, match="no-such-model-anywhere"):
        runner_factory(agent)


async def test_the_runners_model_replaces_every_agents_model(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel([call("transfer_to_agent", agent_name="b"), "done"])
    root = LlmAgent(name="a", model=ScriptedModel(), sub_agents=[LlmAgent(name="b")])
    async with runner_factory(root, model=model) as runner:
        turn = await play(runner)
    assert turn.scene[-1] == "b: done"
    assert model.calls == 2


async def test_agt_5_an_agent_outside_the_tree_runs_under_a_body(runner_factory: Any, play: Any) -> None:
    """No parent map for it: its targets are its own sub-agents only."""
    inner = LlmAgent(name="inner", model=ScriptedModel(["inside"]))

    async def body(ctx: Any) -> Any:
        activation = ctx.activate(inner)
        async for event in activation:
            yield event

    async with runner_factory(Agent(name="outer", body=body)) as runner:
        turn = await play(runner)
    assert turn.scene[0] == "inner: inside"
    assert turn.events[0].path == "outer@1/inner@1"


async def test_core_2_1_the_prompt_follows_include_contents(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel(["one", "two"])
    async with runner_factory(LlmAgent(name="a", model=model, include_contents="none")) as runner:
        await play(runner, "first")
        await play(runner, "second")
    assert [[content.text for content in prompt] for prompt in model.prompts] == [["first"], ["second"]]


@pytest.mark.parametrize(
    ("fields", "sticky"), [({}, True), ({"disallow_transfer_to_parent": True}, False)], ids=["default", "returns"]
)
def test_act_5_what_the_kernel_asks(fields: dict[str, Any], sticky: bool) -> None:
    agent = LlmAgent(name="a", **fields)
    assert (agent.conversational, agent.sticky, agent.delegate) == (True, sticky, False)
    agent.check_root()


def test_the_public_names_are_lazy_and_listed() -> None:
    import hookwork_llm

    assert set(hookwork_llm.__all__) <= set(dir(hookwork_llm))
    for name in hookwork_llm.__all__:
        assert getattr(hookwork_llm, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        hookwork_llm.Nothing  # noqa: B018


class Duck:
    """A tool by its methods, without the base class."""

    name = "duck"

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name="duck", description="Quacks.")

    async def run(self, ctx: Any, args: dict[str, Any]) -> dict[str, Any]:
        return {"quack": args}


class DuckThatProcesses(Duck):
    async def process_request(self, ctx: Any, request: Any) -> None:
        request.append_instruction("Mind the duck.")


async def test_tl_1_a_tool_needs_no_base_class(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel([call("duck", loud=True), "done"])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[Duck()])) as runner:
        turn = await play(runner)
    assert model.requests[0].declared == ["duck"]
    assert turn.events[1].function_responses[0].response == {"quack": {"loud": True}}


async def test_tl_1_its_own_process_request_decides(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel(["done"])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[DuckThatProcesses()])) as runner:
        await play(runner)
    assert model.requests[0].declared == []
    assert model.requests[0].instruction.endswith("Mind the duck.")


async def test_tl_11_a_wrappers_own_run_is_not_passed_by(runner_factory: Any, play: Any) -> None:
    seen: list[Any] = []

    class Logging(ToolWrapper):
        async def run(self, ctx: Any, args: dict[str, Any]) -> Any:
            seen.append(args)
            return await self.inner.run(ctx, args)  # type: ignore[attr-defined]

    model = ScriptedModel([[call("look", city="Rome"), call("look", city=7)], "done"])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[Logging(FunctionTool(look))])) as runner:
        turn = await play(runner)
    answered, refused = (response.response for response in turn.events[1].function_responses)
    assert answered == {"result": "Rome"}
    assert "/city" in refused["error"]
    assert seen == [{"city": "Rome"}]  # arguments are checked before


def test_fn_2_what_cannot_be_resolved_is_found_when_the_tool_enters_an_agent() -> None:
    namespace: dict[str, Any] = {}
    exec("from __future__ import annotations\ndef f(a: NotThere) -> None: ...\n", namespace)
    made = tool(namespace["f"])  # it may still come to be defined
    with pytest.raises(InvalidToolError, match="'NotThere'"):
        LlmAgent(name="a", tools=[made])


async def test_run_26_tools_and_toolsets_are_closed_with_the_runner(runner_factory: Any) -> None:
    closed: list[str] = []

    class ClosableTool(Named):
        async def close(self) -> None:
            closed.append("tool")

    class ClosableSet(Empty):
        async def close(self) -> None:
            closed.append("toolset")

    agent = LlmAgent(name="a", model=ScriptedModel(), tools=[ClosableTool("t"), ClosableSet()])
    async with runner_factory(agent):
        pass
    assert sorted(closed) == ["tool", "toolset"]
