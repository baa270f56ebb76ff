"""Constructors, names and outputs of composed agents (core AGT-2, WFA; workflow CPA-6, AN-2, API-4)."""

from __future__ import annotations

from typing import Any

import pytest

import hookwork.node
import hookwork_workflow
from hookwork import Agent, Event, Runner, text_content
from hookwork.errors import ConfigurationError
from hookwork_workflow import LoopAgent, ParallelAgent, SequentialAgent
from hookwork_workflow.composed import ComposedAgent

KINDS = [SequentialAgent, ParallelAgent, LoopAgent]


def giver(name: str, output: Any = None) -> Agent:
    async def body(ctx: Any) -> Any:
        yield Event(content=text_content(name), output=output)

    return Agent(name=name, body=body)


async def outcome_of(root: Agent) -> Any:
    async with Runner(root, sessions="memory:") as runner:
        return await runner.run(user_id="u", session_id="s", message="hi").wait()


def test_api_4_no_module_takes_the_place_of_a_public_name() -> None:
    """An imported module becomes an attribute of its package: `progress` was a module once anything had run."""
    from pkgutil import iter_modules

    modules = {found.name for found in iter_modules(hookwork_workflow.__path__)}
    assert modules & {name for names in hookwork_workflow._HOMES.values() for name in names} == set()


@pytest.mark.parametrize("kind", KINDS)
def test_agt_2_a_body_is_refused(kind: Any) -> None:
    async def body(ctx: Any) -> Any:
        yield Event()

    with pytest.raises(ConfigurationError, match=f"'c': a {kind.__name__} runs its sub_agents and takes no body"):
        kind(name="c", body=body)


@pytest.mark.parametrize("kind", KINDS)
def test_agt_2_an_overridden_body_is_refused(kind: Any) -> None:
    class Own(kind):  # type: ignore[misc]
        async def body(self, ctx: Any) -> Any:
            yield Event()

    with pytest.raises(ConfigurationError, match="takes no body"):
        Own(name="c")


@pytest.mark.parametrize("kind", KINDS)
def test_agt_1_the_checks_of_every_agent_hold(kind: Any) -> None:
    child = giver("a")
    with pytest.raises(ConfigurationError, match="twice"):
        kind(name="c", sub_agents=[child, child])
    with pytest.raises(ConfigurationError, match="identifier"):
        kind(name="not a name")
    with pytest.raises(ConfigurationError, match="not an agent"):
        kind(name="c", sub_agents=["a"])


def test_the_common_base_runs_nothing() -> None:
    with pytest.raises(ConfigurationError, match="no kind of composed agent"):
        ComposedAgent(name="c").body(None)  # type: ignore[arg-type]


def test_cpa_6_names_are_unique_in_the_tree_of_a_runner() -> None:
    root = SequentialAgent(name="seq", sub_agents=[giver("a"), ParallelAgent(name="par", sub_agents=[giver("a")])])
    with pytest.raises(ConfigurationError, match="two agents in the tree are named 'a'"):
        Runner(root, sessions="memory:")


@pytest.mark.parametrize("value", [-1, True, 1.5, "2", None])
def test_wfa_4_max_iterations_is_a_whole_number(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_iterations is a whole number from 0"):
        LoopAgent(name="loop", max_iterations=value)


def test_cpa_4_escalate_is_any_or_direct() -> None:
    assert LoopAgent(name="loop").escalate == "any"
    with pytest.raises(ConfigurationError, match="'any' or 'direct', not 'all'"):
        LoopAgent(name="loop", escalate="all")


@pytest.mark.parametrize("kind", KINDS)
def test_dur_10_composed_agents_may_be_replayed(kind: Any) -> None:
    assert kind(name="c").replay_safe is True


def test_a_clone_keeps_the_fields() -> None:
    loop = LoopAgent(name="loop", sub_agents=[giver("a")], max_iterations=3, escalate="direct")
    copy = loop.clone(name="again")
    assert (copy.name, copy.max_iterations, copy.escalate) == ("again", 3, "direct")
    assert copy.sub_agents == loop.sub_agents


def test_api_4_public_names() -> None:
    for name in ("Node", "NodeConfig", "NodeOutcome", "Pause", "build_node"):
        assert getattr(hookwork_workflow, name) is getattr(hookwork.node, name)
    assert {"SequentialAgent", "ParallelAgent", "LoopAgent"} <= set(dir(hookwork_workflow))
    assert all(hasattr(hookwork_workflow, name) for name in hookwork_workflow.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = hookwork_workflow.Nothing


@pytest.mark.parametrize("kind", KINDS)
async def test_wfa_3_4_no_children_no_events(kind: Any) -> None:
    outcome = await outcome_of(kind(name="c"))
    assert (outcome.kind, outcome.final_event, outcome.output) == ("completed", None, None)


async def test_an_2_a_sequence_gives_its_last_childs_output() -> None:
    outcome = await outcome_of(SequentialAgent(name="c", sub_agents=[giver("a", 1), giver("b", 2)]))
    assert outcome.output == 2


async def test_an_2_a_loop_gives_the_last_output_of_its_last_round() -> None:
    rounds: list[int] = []

    async def body(ctx: Any) -> Any:
        rounds.append(len(rounds) + 1)
        yield Event(content=text_content("n"), output={"round": len(rounds)})

    root = LoopAgent(name="c", sub_agents=[Agent(name="a", body=body)], max_iterations=3)
    assert (await outcome_of(root)).output == {"round": 3}


async def test_an_2_a_parallel_agent_gives_a_map() -> None:
    root = ParallelAgent(name="c", sub_agents=[giver("a", 1), giver("b"), giver("d", 0)])
    assert (await outcome_of(root)).output == {"a": 1, "d": 0}
    assert (await outcome_of(ParallelAgent(name="c", sub_agents=[giver("a")]))).output is None


async def test_an_2_outputs_come_up_through_nested_agents() -> None:
    inner = SequentialAgent(name="s", sub_agents=[giver("a", 1), giver("b", "two")])
    root = ParallelAgent(
        name="p", sub_agents=[inner, LoopAgent(name="l", sub_agents=[giver("c", 3)], max_iterations=1)]
    )
    assert (await outcome_of(SequentialAgent(name="root", sub_agents=[root]))).output == {"s": "two", "l": 3}
