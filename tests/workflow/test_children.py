"""Children that bodies start with ``run_node`` (workflow §6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.workflow.flows import answers, calling, failure, in_turn, outputs, run_flow, step

from hookwork import Event, ToolContext, text_content
from hookwork.errors import InvalidRunId, InvalidRunNodeContext
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call
from hookwork_workflow import (
    START,
    NodeContext,
    NodeFailed,
    NodeRunError,
    RequestInput,
    Retry,
    Workflow,
    node,
)


async def test_dyn_1_a_child_runs_and_its_output_comes_back(kit: Any) -> None:
    """Whatever `build_node` takes: a node, a function, a workflow."""

    async def plain(value: str) -> str:
        return f"plain({value})"

    inner = Workflow("inner", START >> step("a") >> step("b"))
    turn = await run_flow(
        kit,
        Workflow(
            "wf",
            START
            >> calling(
                lambda ctx, v: in_turn(ctx.run_node(step("s"), v), ctx.run_node(plain, v), ctx.run_node(inner, v)),
            ),
        ),
    )
    assert turn.outcome.output == ["s(hi)", "plain(hi)", "b(a(hi))"]
    assert list(outputs(turn.events))[:3] == ["wf@1/parent@1/s@1", "wf@1/parent@1/plain@1", "wf@1/parent@1/inner@1/a@1"]


async def test_dyn_1_a_tool_inside_a_node_may_start_children(kit: Any) -> None:
    """WT-14, AN-5: in a static agent node too."""

    @tool
    async def work(ctx: ToolContext) -> str:
        """Works."""
        return f"worked: {await ctx.run_node(step('s'), 'x')}"

    def respond(request: Any) -> Any:
        return call("work") if len(request.contents) == 1 else "said"

    agent = LlmAgent(name="ag", model=ScriptedModel(respond), tools=[work])
    turn = await run_flow(kit, Workflow("wf", START >> agent))
    assert outputs(turn.events)["wf@1/ag@1/work@1-1/s@1"] == "s(x)"
    assert turn.outcome.output == "said"


async def test_dyn_1_not_in_a_hook_nor_without_a_run(kit: Any) -> None:
    from hookwork import Plugin

    class Meddler(Plugin):
        name = "meddler"

        async def before_node(self, ctx: Any, input: Any) -> Any:
            await ctx.run_node(step("x"))

    turn = await kit.Lab(Workflow("wf", START >> step("a")).as_agent).run("hi", plugins=[Meddler()])
    assert isinstance(turn.error, InvalidRunNodeContext)


async def test_dyn_2_a_child_is_a_full_activation(kit: Any) -> None:
    """WT-26: input check, output check, retry, timeout, state."""
    tries: list[int] = []

    @node(retry=Retry(max_attempts=2, initial_delay=0))
    async def child(value: int, ctx: NodeContext) -> int:
        tries.append(ctx.attempt)
        ctx.state["seen"] = value
        if ctx.attempt == 1:
            raise OSError("once")
        return value * 2

    lab = kit.Lab(Workflow("wf", START >> calling(lambda ctx, value: ctx.run_node(child, "21"))).as_agent)
    assert (await lab.run("hi")).outcome.output == 42
    assert tries == [1, 2]
    assert dict((await lab.session()).state) == {"seen": 21}

    @node(timeout=0.01)
    async def slow(value: Any) -> None:
        await asyncio.Event().wait()

    error = await failure(kit, START >> calling(lambda ctx, value: ctx.run_node(slow)))
    assert isinstance(error, NodeRunError)
    assert isinstance(error.__cause__, TimeoutError)


async def test_dyn_3_events_are_forwarded_with_their_own_path_and_are_no_output_of_the_parent(kit: Any) -> None:
    @node
    async def child(value: Any) -> AsyncIterator[Any]:
        yield Event(content=text_content("working"))
        yield Event(output="child's", routes=("somewhere",))

    async def both(ctx: Any, value: Any) -> str:
        async with asyncio.TaskGroup() as group:
            for name in ("c1", "c2"):
                group.create_task(ctx.run_node(child, run_id=name))
        return "parent's"

    parent = calling(both)
    turn = await run_flow(
        kit, Workflow("wf", START >> parent, parent.on({"somewhere": step("x")}), parent >> step("y"))
    )
    assert turn.outcome.output == "y(parent's)"
    for name in ("c1", "c2"):
        own = [event for event in turn.events if event.path == f"wf@1/parent@1/child@{name}"]
        assert [event.text or event.output for event in own] == ["working", "child's"]


async def test_dyn_4_a_failure_is_a_node_run_error_that_the_body_may_catch(kit: Any) -> None:
    cause = OSError("broken")

    @node
    async def child(value: Any) -> None:
        raise cause

    caught: list[Any] = []

    async def careful(ctx: Any, value: Any) -> str:
        try:
            await ctx.run_node(child, run_id="r-1")
        except NodeFailed as error:
            caught.append(error)
        return "went on"

    turn = await run_flow(kit, Workflow("wf", START >> calling(careful)))
    assert turn.outcome.output == "went on"
    error = caught[0]
    assert isinstance(error, NodeRunError)
    assert (error.child_name, error.child_path, error.run_id) == ("child", "wf@1/parent@1/child@r-1", "r-1")
    assert error.__cause__ is cause
    assert str(error) == "workflow: dynamic child wf@1/parent@1/child@r-1: broken"


async def test_dyn_4_a_child_that_fails_after_asking_is_a_failure(kit: Any) -> None:
    @node
    async def child(value: Any) -> AsyncIterator[Any]:
        yield RequestInput(interrupt_id="q")
        raise OSError("after asking")

    assert isinstance(await failure(kit, START >> calling(lambda ctx, v: ctx.run_node(child))), NodeRunError)


async def test_dyn_5_a_pause_of_a_child_pauses_the_parent(kit: Any) -> None:
    ran: list[str] = []

    @node
    async def asking(value: Any) -> AsyncIterator[Any]:
        ran.append("asking")
        yield RequestInput(interrupt_id="q")

    async def body(ctx: Any, value: Any) -> str:
        ran.append("parent")
        first = await ctx.run_node(step("first", ran), value)
        return f"{first} {await ctx.run_node(asking)}"

    lab = kit.Lab(Workflow("wf", START >> calling(body) >> step("end")).as_agent)
    assert (await lab.run("hi")).waits_for == ["q"]
    turn = await lab.run(answers({"q": {"result": "yes"}}))
    assert turn.outcome.output == "end(first(hi) yes)"
    assert ran == ["parent", "first", "asking", "parent"]


async def test_dyn_6_a_caller_that_could_not_finish_after_a_pause_is_refused(kit: Any) -> None:
    error = await failure(kit, START >> calling(lambda ctx, v: ctx.run_node(step("s")), rerun_on_resume=False))
    assert isinstance(error, InvalidRunNodeContext)
    assert "rerun_on_resume" in str(error)


async def test_dyn_7_cancelling_the_parent_ends_its_children(kit: Any) -> None:
    left: list[str] = []
    begun = asyncio.Event()

    @node
    async def child(value: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            left.append("child")

    @node
    async def broken(value: str) -> None:
        await begun.wait()
        raise OSError("no")

    assert isinstance(await failure(kit, START >> (calling(lambda ctx, v: ctx.run_node(child)), broken)), OSError)
    assert left == ["child"]


async def test_dyn_7_a_child_in_a_task_of_its_own_is_awaited(kit: Any) -> None:
    """Its failure fails the parent, its pause is an error."""
    tasks: list[Any] = []

    def detached(child: Any) -> Any:
        async def body(ctx: Any, value: Any) -> str:
            tasks.append(asyncio.ensure_future(ctx.run_node(child, value)))
            await asyncio.sleep(0)
            return "done"

        return calling(body)

    @node
    async def slow(value: str) -> str:
        for _ in range(5):
            await asyncio.sleep(0)
        return value

    turn = await run_flow(kit, Workflow("wf", START >> detached(slow)))
    assert outputs(turn.events) == {"wf@1/parent@1/slow@1": "hi", "wf@1/parent@1": "done"}

    @node
    async def broken(value: str) -> str:
        for _ in range(5):
            await asyncio.sleep(0)
        raise OSError("no")

    assert isinstance(await failure(kit, START >> detached(broken)), NodeRunError)

    @node
    async def asking(value: str, ctx: NodeContext) -> str:
        for _ in range(5):
            await asyncio.sleep(0)
        return str(await ctx.request_input("k"))

    assert "await it in the body" in str(await failure(kit, START >> detached(asking)))
    await asyncio.gather(*tasks, return_exceptions=True)


# --- ids, branch, scope -----------------------------------------------------------------------------------------------


async def test_dyn_10_run_ids_count_per_name_and_given_ones_do_not(kit: Any) -> None:
    async def body(ctx: Any, value: Any) -> None:
        a, b = step("a"), step("b")
        await in_turn(
            *(ctx.run_node(n, run_id=i) for n, i in [(a, None), (b, None), (a, "mine"), (a, None), (b, None)])
        )

    turn = await run_flow(kit, Workflow("wf", START >> calling(body)))
    assert [path.removeprefix("wf@1/parent@1/") for path in outputs(turn.events)] == [
        "a@1",
        "b@1",
        "a@mine",
        "a@2",
        "b@2",
    ]


@pytest.mark.parametrize("run_id", ["", "1", "007", "a/b", "a@b", "a.b", "a~b", "t2", "2-1", 7, b"x"])
async def test_dyn_10_ids_that_are_not_free(kit: Any, run_id: Any) -> None:
    error = await failure(kit, START >> calling(lambda ctx, v: ctx.run_node(step("s"), run_id=run_id)))
    assert isinstance(error, InvalidRunId)


async def test_dyn_11_and_12_branch_and_scope(kit: Any) -> None:
    """DYN-11, DYN-12."""
    seen: list[tuple[str, str]] = []

    @node
    async def look(value: Any, ctx: NodeContext) -> None:
        seen.append((ctx.branch, ctx.isolation_scope))

    async def body(ctx: Any, value: Any) -> None:
        await ctx.run_node(look)
        await ctx.run_node(look, sub_branch=True)
        await ctx.run_node(look, branch="b", sub_branch=True, run_id="x")
        await ctx.run_node(look, branch="")
        await ctx.run_node(look, scope="s")
        await ctx.run_node(look, scope="path", run_id="p")

    await run_flow(kit, Workflow("wf", START >> (calling(body), step("side", give=lambda v: None))))
    here = "parent@1"
    assert seen == [
        (here, ""),
        (f"{here}.look@2", ""),
        ("b.look@x", ""),
        (here, ""),
        (here, "s"),
        (here, "wf@1/parent@1/look@p"),
    ]


async def test_dyn_5_children_beside_one_that_waits_end_first(kit: Any) -> None:
    """Their work is not cancelled by the pause and done again after the answer, in whatever way they are awaited."""
    ran: list[str] = []

    @node
    async def slow(value: int) -> int:
        for _ in range(10):
            await asyncio.sleep(0)
        ran.append(f"slow {value}")
        return value

    @node
    async def asking(value: int, ctx: NodeContext) -> str:
        return str(await ctx.request_input("k"))

    async def grouped(ctx: Any, value: Any) -> list[Any]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ctx.run_node(child, n)) for n, child in enumerate((asking, slow, slow))]
        return [task.result() for task in tasks]

    async def gathered(ctx: Any, value: Any) -> list[Any]:
        return list(await asyncio.gather(*(ctx.run_node(child, n) for n, child in enumerate((slow, asking, slow)))))

    for body, expected in ((grouped, ["x", 1, 2]), (gathered, [0, "x", 2])):
        ran.clear()
        lab = kit.Lab(Workflow("wf", START >> calling(body)).as_agent)
        turn = await lab.run("hi")
        assert (turn.outcome.kind, len(ran)) == ("paused", 2)
        turn = await lab.run(answers({turn.waits_for[0]: {"result": "x"}}))
        assert turn.outcome.output == expected
        assert len(ran) == 2


async def test_act_25_a_body_that_said_it_waits_is_due_again_once_its_children_went_on(kit: Any) -> None:
    """One of two questions answered, then the other, and a failure beside: nothing stays behind without a question."""
    broken = [True]

    @node
    async def ask(value: Any, ctx: NodeContext) -> str:
        return str(await ctx.request_input("k"))

    @node
    async def pair(value: Any, ctx: NodeContext) -> list[Any]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ctx.run_node(ask, n)) for n in range(2)]
        return [task.result() for task in tasks]

    @node
    async def fragile(value: Any, ctx: NodeContext) -> str:
        answer = await ctx.request_input("k")
        if broken[0]:
            raise OSError("no")
        return str(answer)

    async def all_of(ctx: Any, value: Any) -> list[Any]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ctx.run_node(child)) for child in (fragile, pair)]
        return [task.result() for task in tasks]

    lab = kit.Lab(Workflow("wf", START >> calling(all_of)).as_agent)
    waits = (await lab.run("hi")).waits_for
    first, second = (call for call in waits if "/ask@" in call)
    (other,) = (call for call in waits if "fragile" in call)
    await lab.run(answers({first: {"result": "1"}}))
    await lab.run(answers({second: {"result": "2"}, other: {"result": "3"}}))
    broken[0] = False
    turn = await lab.run(invocation_id=await lab.first_invocation())
    assert turn.outcome.output == ["3", ["1", "2"]]
