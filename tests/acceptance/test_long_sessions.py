"""The framework's own share of a turn does not grow with the session (services LOG-10; issue 4), in counted steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.llm.counted_steps import counted_in

import hookwork
import hookwork_inmemory
import hookwork_llm
import hookwork_workflow
from hookwork import Content, FunctionResponse, Part, RunConfig, Runner, ToolContext
from hookwork.settings import NO_SETTINGS
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call, text
from hookwork_workflow import ParallelAgent, SequentialAgent

HOMES = tuple(str(Path(str(module.__file__)).parent) for module in (hookwork, hookwork_llm, hookwork_workflow))
STORE = str(Path(str(hookwork_inmemory.__file__)).parent)
TURNS = 2_000
#: How many turns are counted at either end.
SHARE = 4


@tool(inline=True)
def look() -> str:
    """Looks."""
    return "seen"


def speaks(name: str) -> LlmAgent:
    return LlmAgent(name=name, model=ScriptedModel(lambda request: "said"))


def uses_a_tool(name: str) -> LlmAgent:
    def respond(request: Any) -> Any:
        newest = request.contents[-1].parts[-1]
        return text("said") if newest.function_response is not None else call("look")

    return LlmAgent(name=name, model=ScriptedModel(respond), tools=[look])


ROOTS = {
    "chat": lambda: speaks("chat"),
    "with a tool": lambda: uses_a_tool("chat"),
    "sequence": lambda: SequentialAgent(name="seq", sub_agents=[speaks("a"), uses_a_tool("b")]),
    "parallel": lambda: ParallelAgent(name="par", sub_agents=[speaks("a"), uses_a_tool("b")]),
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", ROOTS)
async def test_log_10_con_16_a_turn_costs_the_same_after_two_thousand(shape: str) -> None:
    """Contents building included: the same steps in the fourth turns as in the last ones."""
    costs = await _costs(shape, TURNS, {SHARE: 0, TURNS - SHARE: 0})
    assert 0 < costs[TURNS - SHARE] <= 1.02 * costs[SHARE], costs


async def _costs(shape: str, turns: int, costs: dict[int, int], **options: Any) -> dict[int, int]:
    async with Runner(ROOTS[shape](), sessions="memory:", settings=NO_SETTINGS, **options) as runner:
        for turn in range(turns):
            run = runner.run(user_id="u", session_id="s", message="go")
            begin = next((begin for begin in costs if begin <= turn < begin + SHARE), None)
            if begin is None:
                await run.wait()
                continue
            with counted_in(*HOMES, STORE) as steps:
                await run.wait()
            costs[begin] += steps.count
    return costs


def many(shape: str, count: int) -> Any:
    """A sequence whose first part has ``count`` children, the last of which waits for a person."""

    def waits(name: str) -> LlmAgent:
        def respond(request: Any) -> Any:
            answered = any(part.function_response is not None for part in request.contents[-1].parts)
            return text("asked") if answered else call("wait", id=f"w_{name}")

        return LlmAgent(name=name, model=ScriptedModel(respond), tools=[wait])

    children = [*(speaks(f"c{number}") for number in range(count - 1)), waits("last")]
    if shape == "tool":
        first: Any = _runs(children)
    else:
        first = {"sequence": SequentialAgent, "parallel": ParallelAgent}[shape](name="many", sub_agents=children)
    return SequentialAgent(name="s", sub_agents=[first, speaks("z")])


@tool(long_running=True, inline=True)
def wait() -> None:
    """Waits."""


def _runs(children: list[LlmAgent]) -> LlmAgent:
    async def start(ctx: ToolContext) -> str:
        """Runs agents one after the other."""
        for child in children:
            await ctx.run_node(child)
        return "all"

    def respond(request: Any) -> Any:
        newest = request.contents[-1].parts[-1]
        return text("started") if newest.function_response is not None else call("start", id="s1")

    return LlmAgent(name="many", model=ScriptedModel(respond), tools=[start])


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["sequence", "parallel", "tool"])
async def test_act_6_a_resume_of_a_thousand_children_is_linear(shape: str) -> None:
    """Four times the children cost four times the steps; nobody who is done runs again."""
    costs: dict[int, int] = {}
    for count in (250, 1_000):
        root = many(shape, count)
        async with Runner(root, sessions="memory:", settings=NO_SETTINGS, config=RunConfig(max_llm_calls=0)) as runner:
            first = await runner.run(user_id="u", session_id="s", message="go").wait()
            assert first.kind == "paused"
            response = FunctionResponse(id="w_last", name="wait", response={"result": 1})
            answer = Content(role="user", parts=[Part(function_response=response)])
            run = runner.run(user_id="u", session_id="s", message=answer)
            with counted_in(*HOMES, STORE) as steps:
                outcome = await run.wait()
            assert outcome.kind == "completed"
            said = [event.author for event in run.session.events if event.invocation_id == run.invocation_id]
            assert [said.count(f"c{number}") for number in (0, count - 2)] == [1, 1]
            assert said[-1] == "z"
        costs[count] = steps.count
    assert 0 < costs[1_000] <= 4.4 * costs[250], costs
