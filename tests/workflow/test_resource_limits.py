"""Limits of resources by tag or name, in all runs together (workflow WB-29)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from tests.workflow.flows import answered, run_flow, step

from hookwork import Runner
from hookwork.errors import ConfigurationError, GraphError
from hookwork.platform import use_sleep
from hookwork_workflow import START, Join, NodeContext, ResourceLimits, Retry, Workflow, node, parallel


class Watch:
    """How many bodies of each kind run at once, at most."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.order: list[str] = []

    async def inside(self, kind: str, turns: int = 5) -> None:
        self.now[kind] += 1
        self.most[kind] = max(self.most[kind], self.now[kind])
        for _ in range(turns):
            await asyncio.sleep(0)
        self.now[kind] -= 1

    def user(self, name: str, kind: str = "gpu", **settings: Any) -> Any:
        async def body(value: Any) -> Any:
            self.order.append(name)
            await self.inside(kind)
            return value

        return node(name=name, **settings)(body)


async def test_wb_29_nodes_of_a_tag_in_one_graph(kit: Any) -> None:
    watch = Watch()
    users = tuple(watch.user(f"n{i}", tags="gpu") for i in range(6))
    others = tuple(watch.user(f"m{i}", "cpu") for i in range(4))
    flow = Workflow("wf", START >> (*users, *others) >> Join("all"))
    await run_flow(kit, flow, plugins=[ResourceLimits(gpu=2)])
    assert watch.most == {"gpu": 2, "cpu": 4}
    assert [name for name in watch.order if name[0] == "n"] == [f"n{i}" for i in range(6)]  # served in order


async def test_wb_29_by_the_name_of_a_node_and_several_resources(kit: Any) -> None:
    """Taken in one order: two that need both never wait for each other."""
    watch = Watch()
    a = tuple(watch.user(f"a{i}", tags=["gpu", "disk"]) for i in range(3))
    b = tuple(watch.user(f"b{i}", tags=["disk", "gpu"]) for i in range(3))
    flow = Workflow("wf", START >> (*a, *b) >> Join("all"))
    await run_flow(kit, flow, plugins=[ResourceLimits({"gpu": 1, "disk": 1, "a0": 1})])
    assert watch.most["gpu"] == 1


async def test_wb_29_shared_by_all_runs_of_all_runners() -> None:
    watch, limits = Watch(), ResourceLimits(gpu=2)

    async def one(number: int) -> None:
        flow = Workflow(f"wf{number % 2}", START >> watch.user("use", tags=("gpu",)))
        async with Runner(flow.as_agent(), sessions="memory:", plugins=[limits]) as runner:
            await asyncio.gather(*[runner.run(user_id=f"u{i}", message="go").wait() for i in range(3)])

    await asyncio.gather(one(0), one(1), one(2))
    assert watch.most["gpu"] == 2
    assert limits.in_use("gpu") == 0


async def test_wb_29_items_and_children_count(kit: Any) -> None:
    watch = Watch()
    child = watch.user("child", tags="gpu")

    @node
    async def starts(value: Any, ctx: NodeContext) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(ctx.run_node(child, value))

    give = step("give", give=lambda value: [1, 2, 3])
    flow = Workflow("wf", START >> (starts, give), give >> parallel(watch.user("item", tags="gpu")))
    await run_flow(kit, flow, plugins=[ResourceLimits(gpu=2)])
    assert watch.most["gpu"] == 2


async def test_wb_29_a_child_uses_what_its_caller_holds_one_at_a_time(kit: Any) -> None:
    """Else the caller would wait for a child that waits for the caller."""
    watch = Watch()
    child = watch.user("child", tags="gpu")

    @node(tags="gpu")
    async def starts(value: Any, ctx: NodeContext) -> str:
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(ctx.run_node(child, value))
        return "done"

    turn = await run_flow(kit, Workflow("wf", START >> starts), plugins=[ResourceLimits(gpu=1)])
    assert turn.outcome.output == "done"
    assert watch.most["gpu"] == 1


async def test_sch_6_nothing_is_held_before_a_further_attempt(kit: Any) -> None:
    """As a place among ``max_concurrency`` is not (SCH-6)."""
    limits = ResourceLimits(gpu=1)
    held: list[int] = []
    tries: list[int] = []

    async def delay(seconds: float) -> None:
        held.append(limits.in_use("gpu"))

    @node(tags="gpu", retry=Retry(max_attempts=2, jitter=0))
    async def flaky(value: Any) -> str:
        held.append(limits.in_use("gpu"))
        tries.append(1)
        if len(tries) == 1:
            raise OSError
        return "ok"

    with use_sleep(delay):
        turn = await run_flow(kit, Workflow("wf", START >> flaky, max_concurrency=1), plugins=[limits])
    assert turn.outcome.output == "ok"
    assert held == [1, 0, 1]
    assert limits.in_use("gpu") == 0


async def test_wb_29_nothing_is_held_at_a_pause_or_after_a_failure(kit: Any) -> None:
    limits = ResourceLimits(gpu=1)

    @node(tags="gpu")
    async def ask(value: Any, ctx: NodeContext) -> Any:
        answer = await ctx.request_input("q", "?")
        assert limits.in_use("gpu") == 1
        raise OSError(answer)

    lab = kit.Lab(Workflow("wf", START >> ask).as_agent)
    turn = await lab.run("hi", plugins=[limits])
    assert limits.in_use("gpu") == 0
    with pytest.raises(OSError, match="yes"):
        await answered(lab, {turn.waits_for[0]: "yes"}, plugins=[limits])
    assert limits.in_use("gpu") == 0


async def test_inv_3_who_is_cancelled_while_waiting_takes_no_permit() -> None:
    limits = ResourceLimits(gpu=1)
    begun, go_on = asyncio.Event(), asyncio.Event()

    @node(tags="gpu")
    async def hold(value: Any) -> str:
        begun.set()
        await go_on.wait()
        return "held"

    flow = Workflow("wf", START >> hold)
    async with Runner(flow.as_agent(), sessions="memory:", plugins=[limits]) as runner:
        first = asyncio.ensure_future(runner.run(user_id="a", message="go").wait())
        await begun.wait()
        waiting = runner.run(user_id="b", message="go")
        second = asyncio.ensure_future(waiting.wait())
        for _ in range(50):
            await asyncio.sleep(0)
        await waiting.stop()
        assert (await second).kind == "closed"
        go_on.set()
        assert (await first).output == "held"
        assert (await runner.run(user_id="c", message="go").wait()).output == "held"
    assert limits.in_use("gpu") == 0


def test_wb_29_in_any_event_loop() -> None:
    """Runs of several threads share the limit."""
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier, Lock

    limits, lock, most = ResourceLimits(gpu=1), Lock(), [0, 0]
    begin = Barrier(3)

    @node(tags="gpu")
    def use(value: str) -> str:
        with lock:
            most[0] += 1
            most[1] = max(most)
        for _ in range(1000):
            pass
        with lock:
            most[0] -= 1
        return value

    def one(number: int) -> str:
        async def run() -> str:
            async with Runner(Workflow("wf", START >> use).as_agent(), sessions="memory:", plugins=[limits]) as runner:
                begin.wait(timeout=30)
                for i in range(10):
                    outcome = await runner.run(user_id=f"u{i}", message="go").wait()
                return str(outcome.output)

        return asyncio.run(run())

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(one, range(3))) == ["go"] * 3
    assert most == [0, 1]
    assert limits.in_use("gpu") == 0


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "2"])
def test_wb_29_other_limits_are_refused(limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="gpu"):
        ResourceLimits(gpu=limit)
    with pytest.raises(ConfigurationError):
        ResourceLimits()


def test_wb_29_tags_are_texts() -> None:
    assert node(tags="gpu", name="x")(lambda value: value).tags == ("gpu",)
    assert node(tags=["gpu", "disk"], name="x")(lambda value: value).tags == ("gpu", "disk")
    for tags in (3, [3], [""]):
        with pytest.raises(GraphError, match="tags"):
            node(tags=tags, name="x")(lambda value: value)
