"""Children that were run before, delegated outputs, waiting children (workflow §6.3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from tests.workflow.flows import answers, calling, failure, outputs, paths, run_flow, step

from hookwork import Event, Runner, ToolContext, text_content
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call
from hookwork_workflow import (
    START,
    GraphNode,
    Join,
    NodeConfig,
    NodeContext,
    NodeRunError,
    OutputAlreadyDelegated,
    Retry,
    Workflow,
    node,
)

# --- dedup and replay -------------------------------------------------------------------------------------------------


async def test_dyn_20_a_path_that_has_an_outcome_is_not_run_again(kit: Any) -> None:
    """WT-11: outcomes without output too."""
    ran: list[str] = []

    async def body(ctx: Any, value: Any) -> list[Any]:
        loud, silent = step("loud", ran), step("silent", ran, lambda v: None)
        return [await ctx.run_node(n, run_id="same") for n in (loud, loud, silent, silent)]

    turn = await run_flow(kit, Workflow("wf", START >> calling(body)))
    assert turn.outcome.output == ["loud(None)", "loud(None)", None, None]
    assert ran == ["loud", "silent"]
    assert paths(turn.events).count("wf@1/parent@1/silent@same") == 1


async def test_dyn_20_failures_are_not_kept(kit: Any) -> None:
    ran: list[int] = []

    @node
    async def flaky(value: Any) -> str:
        ran.append(1)
        if len(ran) == 1:
            raise OSError("once")
        return "ok"

    async def body(ctx: Any, value: Any) -> str:
        try:
            return str(await ctx.run_node(flaky, run_id="r"))
        except NodeRunError:
            return str(await ctx.run_node(flaky, run_id="r"))

    assert (await run_flow(kit, Workflow("wf", START >> calling(body)))).outcome.output == "ok"


async def test_dyn_21_the_cache_is_that_of_the_activation_and_outlives_a_retry(kit: Any) -> None:
    """WT-8: a loop's next round has fresh children; a retried parent keeps those that completed."""
    from hookwork_workflow import routed

    ran: list[str] = []

    @node(retry=Retry(max_attempts=2, initial_delay=0))
    async def rounds(value: Any, ctx: NodeContext) -> Any:
        await ctx.run_node(step("child", ran))
        if ctx.attempt == 1:
            raise OSError("once per round")
        return routed("again" if ctx.run_id == "1" else "on", None)

    await run_flow(kit, Workflow("wf", START >> rounds, rounds.on({"again": rounds, "on": step("end")})))
    assert ran == ["child", "child"]


async def test_dyn_22_two_calls_with_one_run_id_share_one_execution(kit: Any) -> None:
    """WT-27."""
    ran: list[int] = []

    @node
    async def slow(value: Any) -> int:
        ran.append(1)
        await asyncio.sleep(0)
        return len(ran)

    async def body(ctx: Any, value: Any) -> list[Any]:
        return list(await asyncio.gather(*(ctx.run_node(slow, run_id="same") for _ in range(5))))

    assert (await run_flow(kit, Workflow("wf", START >> calling(body)))).outcome.output == [1] * 5


async def test_dyn_23_on_resume_completed_children_return_at_once(kit: Any) -> None:
    """WT-9: paths are the same in the resumed run, so nothing runs twice."""
    ran: list[str] = []

    async def body(ctx: Any, value: Any) -> list[Any]:
        first = await ctx.run_node(step("a", ran), value)
        asked = await ctx.request_input("k")
        return [first, asked, await ctx.run_node(step("b", ran), asked)]

    lab = kit.Lab(Workflow("wf", START >> calling(body)).as_agent)
    turn = await lab.run("hi")
    turn = await lab.run(answers({turn.waits_for[0]: {"result": "x"}}))
    assert turn.outcome.output == ["a(hi)", "x", "b(x)"]
    assert ran == ["a", "b"]
    assert [path for path in outputs(turn.events) if "/a@" in path] == []


async def test_dyn_24_a_delegated_output_is_the_parents(kit: Any) -> None:
    """WT-28: handed to successors, no second event, the return value ignored, all ancestors stamped."""

    async def middle(ctx: Any, value: Any) -> str:
        await ctx.run_node(step("leaf"), value, use_as_output=True)
        return "ignored"

    async def outer(ctx: Any, value: Any) -> None:
        mid = node(name="mid")(lambda_node(middle))
        await ctx.run_node(mid, value, use_as_output=True)

    turn = await run_flow(kit, Workflow("wf", START >> calling(outer) >> step("end")))
    assert turn.outcome.output == "end(leaf(hi))"
    leaf = next(event for event in turn.events if event.path.endswith("leaf@1"))
    assert leaf.node_info.output_for == ("wf@1/parent@1/mid@1/leaf@1", "wf@1/parent@1/mid@1", "wf@1/parent@1")
    assert list(outputs(turn.events)) == ["wf@1/parent@1/mid@1/leaf@1", "wf@1/end@1"]
    terminal = await run_flow(kit, Workflow("wf", START >> calling(outer)))
    leaf = next(event for event in terminal.events if event.path.endswith("leaf@1"))
    assert leaf.node_info.output_for[-1] == "wf@1"
    assert terminal.outcome.output == "leaf(hi)"


def lambda_node(body: Any) -> Any:
    async def parent(value: Any, ctx: NodeContext) -> Any:
        return await body(ctx, value)

    return parent


async def test_dyn_24_a_second_delegate_is_refused_the_same_path_is_fine(kit: Any) -> None:
    async def twice(ctx: Any, value: Any) -> None:
        await ctx.run_node(step("a"), value, use_as_output=True, run_id="one")
        await ctx.run_node(step("a"), value, use_as_output=True, run_id="one")
        await ctx.run_node(step("a"), value, use_as_output=True, run_id="two")

    error = await failure(kit, START >> calling(twice))
    assert isinstance(error, OutputAlreadyDelegated)
    assert "child" not in str(error)
    assert "a@one" in str(error)


async def test_dyn_24_a_delegate_is_found_again_after_a_pause(kit: Any) -> None:
    async def body(ctx: Any, value: Any) -> None:
        await ctx.run_node(step("leaf"), value, use_as_output=True)
        await ctx.request_input("k")

    lab = kit.Lab(Workflow("wf", START >> calling(body) >> step("end")).as_agent)
    turn = await lab.run("hi")
    turn = await lab.run(answers({turn.waits_for[0]: {"result": "x"}}))
    assert turn.outcome.output == "end(leaf(hi))"


async def test_dyn_25_raise_on_wait_false_gives_none_for_a_child_that_waits(kit: Any) -> None:
    @node
    async def asking(value: Any, ctx: NodeContext) -> str:
        return str(await ctx.request_input("k"))

    seen: list[Any] = []

    async def body(ctx: Any, value: Any) -> str:
        seen.append(await ctx.run_node(asking, raise_on_wait=False))
        return f"went on with {seen[-1]}"

    lab = kit.Lab(Workflow("wf", START >> calling(body)).as_agent)
    turn = await lab.run("hi")
    assert seen == [None]
    assert turn.outcome.kind == "paused"
    turn = await lab.run(answers({turn.waits_for[0]: {"result": "x"}}))
    assert turn.outcome.output == "went on with x"


async def test_dyn_26_a_child_that_waits_for_output_pauses_its_parent_without_a_call(kit: Any) -> None:
    class Hungry(GraphNode[Any, Any]):
        name = "hungry"
        config = NodeConfig(wait_for_output=True)

        async def run(self, ctx: Any, input: Any) -> AsyncIterator[Event]:
            for event in ():
                yield event

    turn = await run_flow(kit, Workflow("wf", START >> calling(lambda ctx, v: ctx.run_node(Hungry())) >> step("end")))
    assert turn.outcome.kind == "paused"
    assert turn.waits_for == []


async def test_many_children_at_once_keep_their_events_in_order(kit: Any) -> None:
    """DYN-3: emission is serialised; each child's events are in order."""

    @node
    async def child(value: int) -> AsyncIterator[Any]:
        for number in range(3):
            yield Event(content=text_content(f"{value}.{number}"))
        yield value

    async def body(ctx: Any, value: Any) -> int:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ctx.run_node(child, n, run_id=f"c-{n}")) for n in range(50)]
        return sum(task.result() for task in tasks)

    turn = await run_flow(kit, Workflow("wf", START >> calling(body) >> Join("j")))
    assert turn.outcome.output == {"parent": sum(range(50))}
    for number in range(50):
        texts = [event.text for event in turn.events if event.path.endswith(f"@c-{number}") and event.text]
        assert texts == [f"{number}.{k}" for k in range(3)]


async def test_dyn_1_a_tool_of_a_chat_agent_runs_nodes_too() -> None:
    """`ToolContext.run_node` and `NodeContext.run_node` are one mechanism."""

    @tool
    async def work(ctx: ToolContext) -> str:
        """Works."""
        return str(await ctx.run_node(Workflow("inner", START >> step("a") >> step("b")), "x"))

    agent = LlmAgent(name="chat", model=ScriptedModel([call("work"), "done"]), tools=[work])
    async with Runner(agent, sessions=InMemorySessionService()) as runner:
        events = [event async for event in runner.run(user_id="u", session_id="s", message="hi")]
    assert outputs(events) == {
        "chat@1/work@1-1/inner@1/a@1": "a(x)",
        "chat@1/work@1-1/inner@1/b@1": "b(a(x))",
    }
    response = next(r for event in events for r in event.function_responses)
    assert response.response == {"result": "b(a(x))"}


async def test_dyn_24_a_delegate_that_failed_leaves_the_output_to_the_parent(kit: Any) -> None:
    @node
    async def broken(value: Any) -> None:
        raise OSError("no")

    async def body(ctx: Any, value: Any) -> str:
        try:
            await ctx.run_node(broken, use_as_output=True)
        except NodeRunError:
            return "instead"
        return "never"

    assert (await run_flow(kit, Workflow("wf", START >> calling(body) >> step("end")))).outcome.output == "end(instead)"
