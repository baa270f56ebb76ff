"""A node that runs once for each item of a list (workflow §6.4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.workflow.flows import Meeting, answers, outputs, run_flow, step

from hookwork import Event, text_content
from hookwork_workflow import (
    START,
    GraphError,
    NodeContext,
    NodeTimeout,
    Retry,
    Workflow,
    node,
    parallel,
)

ITEMS = step("items", give=lambda value: [int(part) for part in value.split(",") if part])


def worker(body: Any, **settings: Any) -> Any:
    async def item(value: Any, ctx: NodeContext) -> Any:
        return await body(value, ctx)

    return node(name="item", **settings)(item)


async def double(value: int, ctx: Any) -> int:
    return value * 2


async def test_para_1_one_child_per_item_in_order_on_branches_of_their_own(kit: Any) -> None:
    """WT-2: events of items are forwarded, state is kept."""

    @node
    async def item(value: int, ctx: NodeContext) -> AsyncIterator[Any]:
        for _ in range(5 - value):
            await asyncio.sleep(0)
        ctx.state[f"item{value}"] = True
        yield Event(content=text_content(f"at {value}"))
        yield value * 2

    lab = kit.Lab(Workflow("wf", START >> ITEMS >> parallel(item, name="all") >> step("end")).as_agent)
    turn = await lab.run("1,2,3")
    assert turn.outcome.output == "end([2, 4, 6])"
    branches = {event.path: event.branch for event in turn.events if "/item@" in event.path}
    assert branches == {f"wf@1/all@1/item@{n}": f"item@{n}" for n in (1, 2, 3)}
    assert sorted(event.text for event in turn.events if event.text) == ["at 1", "at 2", "at 3"]
    assert dict((await lab.session()).state) == {"item1": True, "item2": True, "item3": True}


async def test_para_1_an_empty_list_gives_one_event(kit: Any) -> None:
    turn = await run_flow(kit, Workflow("wf", START >> ITEMS >> parallel(worker(double), name="all")), ",")
    assert [(event.path, event.output) for event in turn.events][1:] == [("wf@1/all@1", [])]


async def test_para_1_anything_but_a_list_is_refused(kit: Any) -> None:
    lab = kit.Lab(Workflow("wf", START >> parallel(worker(double), name="all")).as_agent)
    assert "parallel node all expects a list input" in str((await lab.run("text")).error)


@pytest.mark.parametrize(("workers", "most"), [(None, 5), (2, 2), (1, 1)])
async def test_para_2_max_workers(kit: Any, workers: int | None, most: int) -> None:
    meeting = Meeting()

    async def body(value: int, ctx: Any) -> int:
        await meeting.inside(str(value))
        return value

    flow = Workflow("wf", START >> ITEMS >> parallel(worker(body), name="all", max_workers=workers))
    assert (await run_flow(kit, flow, "1,2,3,4,5")).outcome.output == [1, 2, 3, 4, 5]
    assert meeting.most == most


def test_para_2_max_workers_is_a_number_from_1() -> None:
    for wrong in (0, -1, True, "two"):
        with pytest.raises(GraphError):
            parallel(worker(double), max_workers=wrong)  # type: ignore[arg-type]


async def test_para_3_retry_applies_per_item_and_timeout_to_the_whole(kit: Any) -> None:
    tries: dict[int, int] = {}

    async def body(value: int, ctx: Any) -> int:
        tries[value] = ctx.attempt
        if value == 2 and ctx.attempt < 3:
            raise OSError("not yet")
        return value

    retry = Retry(max_attempts=3, initial_delay=0)
    for every in (
        parallel(worker(body), name="item", retry=retry),
        node(name="item", retry=retry, parallel=True)(worker(body).func),
    ):
        turn = await run_flow(kit, Workflow("wf", START >> ITEMS >> every), "1,2,3")
        assert turn.outcome.output == [1, 2, 3]
        assert tries == {1: 1, 2: 3, 3: 1}

    async def slow(value: int, ctx: Any) -> None:
        await asyncio.Event().wait()

    lab = kit.Lab(Workflow("wf", START >> ITEMS >> parallel(worker(slow), name="all", timeout=0.01)).as_agent)
    assert isinstance((await lab.run("1,2")).error, NodeTimeout)


def test_para_3_and_gv_17_the_wrapped_node_has_no_retry_of_its_own() -> None:
    with pytest.raises(GraphError) as caught:
        Workflow("wf", START >> parallel(worker(double, retry=Retry()), name="all"))
    assert caught.value.code == "retry_in_parallel"


async def test_para_4_the_first_failure_cancels_the_others_and_starts_no_more(kit: Any) -> None:
    """WT-2: the error itself is raised."""
    started, left = [], []
    wrong = OSError("item 2")

    async def body(value: int, ctx: Any) -> None:
        started.append(value)
        try:
            if value == 2:
                await asyncio.sleep(0)
                raise wrong
            await asyncio.Event().wait()
        finally:
            left.append(value)

    flow = Workflow("wf", START >> ITEMS >> parallel(worker(body), name="all", max_workers=3))
    turn = await kit.Lab(flow.as_agent).run("1,2,3,4,5,6")
    assert turn.error is wrong
    assert started == [1, 2, 3]
    assert sorted(left) == [1, 2, 3]


async def test_para_5_an_item_that_pauses_lets_the_running_ones_finish(kit: Any) -> None:
    """Resumed, only the unfinished items run."""
    ran: list[int] = []

    async def body(value: int, ctx: Any) -> Any:
        ran.append(value)
        if value % 2 == 0:
            return f"{value}:{await ctx.request_input('k')}"
        for _ in range(3):
            await asyncio.sleep(0)
        return value

    flow = Workflow("wf", START >> ITEMS >> parallel(worker(body), name="all", max_workers=3) >> step("end"))
    lab = kit.Lab(flow.as_agent)
    turn = await lab.run("1,2,3,4,5,6")
    assert turn.outcome.kind == "paused"
    assert ran == [1, 2, 3]
    assert [v for path, v in outputs(turn.events).items() if "/item@" in path] == [1, 3]
    ran.clear()
    for _ in range(3):
        turn = await lab.run(answers({call: {"result": "a"} for call in turn.waits_for}))
        if turn.outcome.kind == "completed":
            break
    assert turn.outcome.output == "end([1, '2:a', 3, '4:a', 5, '6:a'])"
    assert 1 not in ran
    assert 3 not in ran
    assert ran.count(2) == 1


async def test_para_5_all_open_questions_are_told(kit: Any) -> None:
    async def body(value: int, ctx: Any) -> Any:
        return await ctx.request_input("k")

    lab = kit.Lab(Workflow("wf", START >> ITEMS >> parallel(worker(body), name="all")).as_agent)
    turn = await lab.run("1,2,3")
    assert len(turn.waits_for) == 3
    turn = await lab.run(answers({turn.waits_for[1]: {"result": "b"}}))
    assert len(turn.waits_for) == 2
    turn = await lab.run(answers({turn.waits_for[0]: {"result": "a"}, turn.waits_for[1]: {"result": "c"}}))
    assert turn.outcome.output == ["a", "b", "c"]
