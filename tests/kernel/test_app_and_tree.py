"""Agents, their tree, and what an App gives a runner (core §1, RUN-2, INV-4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest

from hookwork import (
    Agent,
    AgentTree,
    App,
    Event,
    FunctionPlugin,
    InvocationContext,
    RunConfig,
    Runner,
    Settings,
    text_content,
)
from hookwork.errors import RunStateError
from hookwork.invocation import Setup
from hookwork_inmemory import InMemorySessionService


async def talk(ctx: InvocationContext) -> AsyncIterator[Event]:
    yield Event(content=text_content(f"{ctx.agent_name} speaks"))


def agent(name: str, *children: Agent, **fields: Any) -> Agent:
    return Agent(name=name, body=talk, sub_agents=children, **fields)


LEAF = agent("leaf")
MID = agent("mid", LEAF)
OTHER = agent("other")
ROOT = agent("root", MID, OTHER)


def test_agt_find_agent_is_depth_first_and_find_sub_agent_leaves_itself_out() -> None:
    assert ROOT.find_agent("root") is ROOT
    assert ROOT.find_agent("leaf") is LEAF
    assert ROOT.find_sub_agent("root") is None
    assert ROOT.find_sub_agent("other") is OTHER
    assert ROOT.find_agent("nobody") is None


def test_agt_3_the_tree_belongs_to_the_runner_and_nothing_is_written_on_agents() -> None:
    tree = AgentTree(ROOT)
    assert [node.name for node in tree] == ["root", "mid", "leaf", "other"]
    assert tree.parent(LEAF) is MID
    assert tree.parent(ROOT) is None
    assert [node.name for node in tree.ancestors(LEAF)] == ["mid", "root"]
    assert tree.find("leaf") is LEAF
    assert LEAF in tree
    stranger = agent("leaf")
    assert stranger not in tree
    assert list(tree.ancestors(stranger)) == []  # AGT-4
    assert list(AgentTree(MID)) == [MID, LEAF]  # the same objects under another root


def test_inv_4_agents_are_immutable_and_cloned_to_change() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        ROOT.description = "new"  # type: ignore[misc]
    clone = ROOT.clone(name="copy", description="new")
    assert (clone.name, clone.description, clone.sub_agents) == ("copy", "new", ROOT.sub_agents)
    assert ROOT.description == ""


async def test_inv_4_one_agent_object_serves_many_runners_and_runs_at_once() -> None:
    runners = [Runner.in_memory(ROOT, settings=Settings()), Runner.in_memory(MID, settings=Settings())]
    texts = await asyncio.gather(*(runner.ask("hi", user_id=f"u{i}") for i in range(20) for runner in runners))
    assert texts == ["root speaks", "mid speaks"] * 20


def test_agt_6_a_subclass_overrides_body() -> None:
    class Greeter(Agent):
        async def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
            yield Event(content=text_content("from the subclass"))

    runner = Runner.in_memory(Greeter(name="greeter"), settings=Settings())
    assert asyncio.run(runner.ask("hi")) == "from the subclass"
    assert Greeter(name="greeter").replay_safe is False


def test_a_body_may_be_a_plain_function_that_gives_an_iterator() -> None:
    class Items:
        """An async iterator without `aclose`."""

        def __init__(self) -> None:
            self.left = ["one", "two"]

        def __aiter__(self) -> Items:
            return self

        async def __anext__(self) -> Event:
            if not self.left:
                raise StopAsyncIteration
            return Event(content=text_content(self.left.pop(0)))

    runner = Runner.in_memory(Agent(name="root", body=lambda ctx: Items()), settings=Settings())
    assert asyncio.run(runner.ask("hi")) == "two"


def test_agents_are_prepared_once_per_runner_and_the_result_is_kept() -> None:
    prepared: list[str] = []

    class Prepared(Agent):
        def prepare(self, setup: Setup) -> Any:
            assert setup.tree is not None
            prepared.append(self.name)
            return f"for {self.name}"

    root = Prepared(name="root", body=talk, sub_agents=[Prepared(name="child", body=talk)])
    runner = Runner.in_memory(root, settings=Settings())
    asyncio.run(runner.ask("hi"))
    assert prepared == ["root", "child"]
    assert runner.setup.prepared[id(root)] == "for root"


# --- App --------------------------------------------------------------------------------------------------------------


async def test_run_2_an_app_brings_its_name_plugins_services_and_config() -> None:
    told: list[str] = []
    sessions = InMemorySessionService()
    app = App(
        "weather",
        ROOT,
        plugins=[FunctionPlugin("watch", after_run=lambda outcome: told.append(outcome.kind))],
        sessions=sessions,
        config=RunConfig(custom_metadata={"from": "app"}),
    )
    runner = Runner(app, settings=Settings())
    await runner.ask("hi", user_id="u", session_id="s")
    assert (runner.app_name, runner.sessions, told) == ("weather", sessions, ["completed"])
    session = await sessions.get_session(app_name="weather", user_id="u", session_id="s")
    assert dict(session.events[0].custom_metadata or {}) == {"from": "app"}


async def test_run_2_arguments_win_over_the_app() -> None:
    given = InMemorySessionService()
    app = App("weather", ROOT, plugins=[FunctionPlugin("a")], sessions="memory:", config=RunConfig(max_llm_calls=1))
    runner = Runner(
        app, app_name="other", sessions=given, plugins=[], config=RunConfig(max_llm_calls=2), settings=Settings()
    )
    assert (runner.app_name, runner.sessions, runner.plugins) == ("other", given, ())
    assert runner.config.max_llm_calls == 2


def test_run_2_an_app_is_immutable() -> None:
    app = App("weather", ROOT)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        app.name = "x"  # type: ignore[misc]


def test_run_1_settings_fill_what_neither_argument_nor_app_gives() -> None:
    runner = Runner(ROOT, settings=Settings(artifacts="memory:"))
    assert runner.app_name == "root"
    assert runner.artifacts is not None
    assert runner.memory is None


def test_run_2_in_memory_gives_all_three_services() -> None:
    runner = Runner.in_memory(ROOT, settings=Settings())
    assert runner.artifacts is not None
    assert runner.memory is not None


async def test_run_4_run_debug_prints_a_readable_transcript(capsys: pytest.CaptureFixture[str]) -> None:
    await Runner.in_memory(ROOT, settings=Settings()).run_debug("hi")
    assert capsys.readouterr().out.splitlines() == [
        "debug_user -> hi",
        "root -> root speaks",
        "[RunOutcome('completed')]",
    ]


async def test_run_26_the_runner_as_a_context_manager_closes_what_it_made() -> None:
    async with Runner.in_memory(ROOT, settings=Settings()) as runner:
        assert await runner.ask("hi") == "root speaks"
    with pytest.raises(RunStateError):
        await runner.ask("hi")
    with pytest.raises(RunStateError):
        await runner.open()
