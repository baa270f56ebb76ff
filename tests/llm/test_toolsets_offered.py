"""What toolsets may list (tools-plugins TL-03, TL-04, TL-12, TL-13)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork.context import ToolContext
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import RESERVED_TOOL_NAMES, Tool, Toolset
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call


class Raw(Tool):
    """A tool of the plain contract."""

    def __init__(self, name: Any, result: Any = None) -> None:
        self.name = name
        self._result = result

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name=self.name, description=self.name)

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> Any:
        return {"from": self._result}


class Duck:
    """A tool by its methods alone."""

    name = "duck"

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name="duck")

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> Any:
        return {"from": "duck"}


class Silent(Tool):
    """A tool that only takes part in requests."""

    name = "silent"

    async def process_request(self, ctx: Any, request: Any) -> None:
        request.append_instruction("quack")


class Offers(Toolset):
    """Lists what it is given."""

    def __init__(self, name: str, listed: Any, *, optional: bool = False) -> None:
        self.name = name
        self._listed = listed
        self.optional = optional

    async def tools(self, ctx: Any) -> Any:
        return self._listed


def plain(x: int) -> int:
    """A plain function."""
    return x


async def failed(runner_factory: Any, play: Any, *tools: Any) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel(["done"])
    async with runner_factory(LlmAgent(name="a", model=model, tools=tools)) as runner:
        return (await play(runner)).error, model


async def test_tl_01_functions_and_tools_by_methods_alone_can_be_listed(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel([[call("plain", x=1), call("duck")], "done"])
    offers = Offers("o", (plain, Duck(), Silent(), Silent()))
    async with runner_factory(LlmAgent(name="a", model=model, tools=[offers])) as runner:
        turn = await play(runner)
    assert [r.response for r in turn.events[1].function_responses] == [{"result": 1}, {"from": "duck"}]
    assert model.requests[0].declared == ["plain", "duck"]


@pytest.mark.parametrize("listed", [[None], [3], ["text"], [int], "tools", None, {"a": Raw("a")}, Raw("a")])
async def test_tl_04_what_is_no_tool_is_an_error_that_names_the_toolset(
    runner_factory: Any, play: Any, listed: Any
) -> None:
    error, model = await failed(runner_factory, play, Offers("shelf", listed))
    assert "'shelf'" in str(error)
    assert model.calls == 0


@pytest.mark.parametrize("name", sorted(RESERVED_TOOL_NAMES))
@pytest.mark.parametrize("optional", [False, True])
async def test_tl_13_a_toolset_may_not_offer_a_reserved_name(
    runner_factory: Any, play: Any, name: str, optional: bool
) -> None:
    error, model = await failed(runner_factory, play, Offers("shelf", [Raw(name)], optional=optional))
    assert type(error).__name__ == "DuplicateToolError"
    assert f"'shelf' of agent 'a': the tool name {name!r} is reserved" in str(error)
    assert model.calls == 0


@pytest.mark.parametrize("name", ["", None, 3])
async def test_tl_12_a_tool_without_a_name_is_refused(runner_factory: Any, play: Any, name: Any) -> None:
    error, _ = await failed(runner_factory, play, Offers("shelf", [Raw(name)]))
    assert "'shelf' of agent 'a': a tool of type Raw has no name" in str(error)


@pytest.mark.parametrize(
    "tools",
    [
        [Offers("one", [Raw("t")]), Offers("two", [Raw("t")])],
        [Raw("t"), Offers("two", [Raw("t")])],
        [Offers("two", [Raw("t"), Raw("t")])],
        [tool(name="t")(plain), Offers("two", [Duck(), Raw("t")])],
    ],
    ids=["two toolsets", "agent and toolset", "in one", "function and tool"],
)
async def test_tl_12_equal_names_are_refused_by_toolset_and_agent(runner_factory: Any, play: Any, tools: Any) -> None:
    error, model = await failed(runner_factory, play, *tools)
    assert type(error).__name__ == "DuplicateToolError"
    assert "'two' of agent 'a': the tool name 't' is taken" in str(error)
    assert model.calls == 0


async def test_hitl_11_a_name_that_two_toolsets_offer_by_now_runs_neither(
    runner_factory: Any, play: Any, answer: Any
) -> None:
    """A second toolset begins to offer the name between the question and the answer."""
    runs: list[str] = []

    def body(which: str) -> Any:
        return tool(name="t", require_confirmation=True)(lambda: runs.append(which))

    shelf: list[Any] = []
    offers = [Offers("one", [body("one")]), Offers("two", shelf)]
    async with runner_factory(
        LlmAgent(name="a", model=ScriptedModel([call("t", "c1"), "done"]), tools=offers)
    ) as runner:
        turn = await play(runner)
        shelf.append(body("two"))
        turn = await play(runner, answer(turn.open_ids[0], {"confirmed": True}))
    assert type(turn.error).__name__ == "DuplicateToolError"
    assert runs == []
