"""The founding example at the call sites of graph nodes (tools-plugins §7; workflow HK-2): ``[watch, cache, policy]``.

The plugin in the middle decides at one call site; ``policy`` behind it writes down whether it was asked, and the around
hook of the first one sees how the stage ended.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hookwork import FunctionPlugin, NodeOutcome, Runner
from hookwork.effects import NodeResult
from hookwork.hookspecs.table import LIFECYCLE_HOOKS, Rule
from hookwork_workflow import START, Workflow, node

RunnerFactory = Callable[..., Runner]

#: Call site → what a value skips, what runs nevertheless, what a raise skips, what runs nevertheless.
SKIPS = {
    "before_node": (
        "before_node BODY on_node_error",
        "after_node on_event after_run",
        "before_node BODY after_node",
        "on_node_error on_agent_error on_run_error after_run",
    ),
    "after_node": (
        "after_node on_node_error",
        "before_node BODY on_event after_run",
        "after_node",
        "before_node BODY on_node_error on_agent_error on_run_error after_run",
    ),
    "on_node_error": (
        "on_node_error on_agent_error on_run_error",
        "before_node BODY after_node on_event after_run",
        "on_node_error after_node",
        "before_node BODY on_agent_error on_run_error after_run",
    ),
}
HOOKS = ("before_node", "after_node", "on_node_error", "on_event", "on_agent_error", "on_run_error", "after_run")


class Veto(Exception):
    """What the cache raises."""


class Scene:
    """One run of a graph of one node in which ``hook`` is called."""

    def __init__(self, hook: str, runner_factory: RunnerFactory) -> None:
        self.hook = hook
        self.ran: list[str] = []
        self.outcome: Any = None
        self.output: Any = None
        self.error: BaseException | None = None
        self._factory = runner_factory

    def _body(self) -> str:
        self.ran.append("BODY")
        if self.hook == "on_node_error":
            raise ValueError("the node is broken")
        return "from the node"

    async def play(self, cache: Any) -> None:
        @node(inline=True)
        def work(value: str) -> str:
            return self._body()

        @asynccontextmanager
        async def watch(stage: Any) -> AsyncIterator[None]:
            try:
                yield
            finally:
                self.outcome = stage.outcome

        @asynccontextmanager
        async def passes() -> AsyncIterator[None]:
            self.ran.append("around_node")
            yield

        def noting(name: str) -> Callable[..., None]:
            return lambda: self.ran.append(name)

        policy: dict[str, Any] = {name: noting(name) for name in HOOKS}
        plugins = [
            FunctionPlugin("watch", around_node=watch),
            FunctionPlugin("cache", **{self.hook: cache}),
            FunctionPlugin("policy", around_node=passes, **policy),
        ]
        agent = Workflow("wf", START >> work).as_agent()
        async with self._factory(agent, plugins=plugins) as runner:
            run = runner.run(user_id="u", session_id="s", message="Hi")
            try:
                async for _ in run:
                    pass
            except Exception as error:
                self.error = error
            self.output = run.outcome.output if run.outcome is not None else None


def test_every_call_site_of_nodes_has_its_row() -> None:
    first = {name for name, (rule, _) in LIFECYCLE_HOOKS.items() if rule is Rule.FIRST and "node" in name}
    assert first == set(SKIPS)


@pytest.mark.parametrize("hook", SKIPS)
async def test_plug_01_a_value_skips_what_the_table_says(hook: str, runner_factory: RunnerFactory) -> None:
    skips, keeps, _, _ = SKIPS[hook]
    scene = Scene(hook, runner_factory)
    await scene.play(lambda: NodeOutcome(output="from the cache"))
    assert scene.error is None
    assert [name for name in skips.split() if name in scene.ran] == []
    assert [name for name in keeps.split() if name not in scene.ran] == []
    assert scene.output == "from the cache"
    assert (scene.outcome.value.output, scene.outcome.source, scene.outcome.error) == ("from the cache", "cache", None)


@pytest.mark.parametrize("hook", SKIPS)
async def test_plug_01_none_skips_nothing(hook: str, runner_factory: RunnerFactory) -> None:
    scene = Scene(hook, runner_factory)
    await scene.play(lambda: None)
    assert "BODY" in scene.ran
    assert hook in scene.ran
    assert scene.outcome.source == "default"
    assert (scene.outcome.error is None) is (hook != "on_node_error")
    assert isinstance(scene.error, ValueError) is (hook == "on_node_error")


@pytest.mark.parametrize("hook", SKIPS)
async def test_plug_01_a_raise_is_the_nodes_failure(hook: str, runner_factory: RunnerFactory) -> None:
    def veto() -> None:
        raise Veto("no")

    _, _, skips, keeps = SKIPS[hook]
    scene = Scene(hook, runner_factory)
    await scene.play(veto)
    assert isinstance(scene.error, Veto)
    assert f"raised by plugin 'cache' in {hook!r}" in scene.error.__notes__  # PLUG-06
    assert [name for name in skips.split() if name in scene.ran] == []
    assert [name for name in keeps.split() if name not in scene.ran] == []
    assert scene.outcome.error is scene.error


async def test_ard_13_a_raise_on_entering_is_the_stages_error(runner_factory: RunnerFactory) -> None:
    @asynccontextmanager
    async def veto() -> AsyncIterator[None]:
        raise Veto("no")
        yield

    scene = Scene("around_node", runner_factory)
    await scene.play(veto)
    assert isinstance(scene.error, Veto)
    assert scene.outcome.error is scene.error
    assert {"around_node", "before_node", "BODY", "on_node_error"} & set(scene.ran) == set()
    assert "after_run" in scene.ran


async def test_ard_10_around_hooks_are_all_entered(runner_factory: RunnerFactory) -> None:
    entered: list[str] = []

    @asynccontextmanager
    async def passes() -> AsyncIterator[None]:
        entered.append("cache")
        yield

    scene = Scene("around_node", runner_factory)
    await scene.play(passes)
    assert (entered, "around_node" in scene.ran, scene.error) == (["cache"], True, None)
    assert scene.outcome.value.output == "from the node"


@pytest.mark.parametrize("decides", ["value", "default", "raise"])
async def test_eff_1_the_first_that_carries_a_body_out_decides(decides: str, runner_factory: RunnerFactory) -> None:
    async def carry_out(call: Any) -> Any:
        if decides == "raise":
            raise Veto("no")
        return await call.default() if decides == "default" else NodeResult(output="from the cache")

    scene = Scene("perform_node", runner_factory)
    await scene.play(carry_out)
    assert ("BODY" in scene.ran) is (decides == "default")
    assert ("on_node_error" in scene.ran) is (decides == "raise")  # its error goes where the node's goes (EFF-3)
    assert isinstance(scene.error, Veto) is (decides == "raise")
    if decides != "raise":
        assert scene.output == ("from the cache" if decides == "value" else "from the node")
