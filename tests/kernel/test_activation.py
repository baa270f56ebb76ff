"""Activations with agents that have a body of their own: places, pause, resume, replay (activations §1-§5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.kernel.running import said
from tests.kernel.waiting_agents import Lab, answer, asks

from hookwork import (
    Agent,
    CallbackContext,
    Event,
    FunctionPlugin,
    InvocationContext,
    Pause,
)
from hookwork.errors import (
    InvalidRunId,
)
from hookwork.starting import check_run_id
from hookwork.view import segment_name

# --- pause and resume -------------------------------------------------------------------------------------------------


async def test_act_12_a_body_with_an_open_call_pauses_and_leaves_no_end() -> None:
    lab = Lab()
    outcome = await lab.run()
    assert (outcome.kind, [call.id for call in outcome.open_calls]) == ("paused", ["c1"])
    assert await lab.story() == ["user: hi", "root@1: call c1"]


@pytest.mark.parametrize("how", ["raise Pause", "return", "group"])
async def test_act_12_however_the_body_is_over_it_is_the_open_call_that_pauses(how: str) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield asks("c1")
        if how == "raise Pause":
            raise Pause
        if how == "group":

            async def child() -> None:
                raise Pause

            async with asyncio.TaskGroup() as group:
                group.create_task(child())

    lab = Lab()
    lab.root = Agent(name="root", body=body)
    outcome = await lab.run()
    assert (outcome.kind, [call.id for call in outcome.open_calls]) == ("paused", ["c1"])


async def test_ask_7_an_error_beside_a_pause_is_raised_without_it() -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield asks("c1")

        async def pauses() -> None:
            raise Pause

        async def fails() -> None:
            raise LookupError("broken")

        async with asyncio.TaskGroup() as group:
            group.create_task(pauses())
            group.create_task(fails())

    told: list[Any] = []
    lab = Lab()
    lab.root = Agent(name="root", body=body)
    lab.plugins = [
        FunctionPlugin(
            "p", on_agent_error=lambda error: told.append(error), on_run_error=lambda error: told.append(error)
        )
    ]
    with pytest.raises(ExceptionGroup) as raised:
        await lab.run()
    assert [str(error) for error in raised.value.exceptions] == ["broken"]
    assert told == [raised.value, raised.value]


async def test_act_12_a_pause_without_a_call_pauses_every_time() -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("not yet")
        raise Pause

    lab = Lab()
    lab.root = Agent(name="root", body=body)
    first = await lab.run()
    assert (first.kind, first.open_calls) == ("paused", ())
    again = await lab.run(None, invocation_id=first.invocation_id)
    assert again.kind == "paused"
    assert await lab.story() == ["user: hi", "root@1: not yet", "root@1: not yet"]


async def test_res_9_an_answer_goes_on_in_the_same_invocation_in_a_new_process() -> None:
    lab = Lab()
    first = await lab.run()
    second = await lab.run(answer("c1", value=7))
    assert second.kind == "completed"
    assert second.invocation_id == first.invocation_id
    assert await lab.story() == [
        "user: hi",
        "root@1: call c1",
        "user: answer c1",
        "root@1: root answered {'value': 7}",
        "root@1: ✓",
    ]


async def test_act_11_two_levels_deep_the_asker_finishes_then_its_parents_go_on() -> None:
    lab = Lab()
    first, last = Agent(name="first", body=lab.talking("one")), Agent(name="last", body=lab.talking("three"))
    asker = Agent(name="asker", body=lab.asking("c1"))
    lab.root = lab.sequence(first, lab.sequence(asker, name="mid"), last)
    outcome = await lab.run()
    assert (outcome.kind, [call.path for call in outcome.open_calls]) == ("paused", ["root@1/mid@1/asker@1"])
    assert lab.log == ["root enters", "first enters", "mid enters", "asker enters"]
    lab.log.clear()
    assert (await lab.run(answer("c1"))).kind == "completed"
    assert lab.log == ["root again", "mid again", "asker again", "last enters"]  # `first` is answered from its record
    assert await lab.story() == [
        "user: hi",
        "root@1/first@1: one",
        "root@1/first@1: ✓",
        "root@1/mid@1/asker@1: call c1",
        "user: answer c1",
        "root@1/mid@1/asker@1: asker answered {'ok': True}",
        "root@1/mid@1/asker@1: ✓",
        "root@1/mid@1: ✓",
        "root@1/last@1: three",
        "root@1/last@1: ✓",
        "root@1: ✓",
    ]


async def test_act_11_what_is_done_or_waits_is_not_entered_and_meets_no_hook() -> None:
    hooks: list[str] = []
    lab = Lab()
    lab.plugins = [
        FunctionPlugin(
            "p",
            before_agent=lambda ctx, agent: hooks.append(f"before {agent.name} {ctx.resuming}"),
            after_agent=lambda ctx, agent: hooks.append(f"after {agent.name}"),
        )
    ]
    done = Agent(name="done", body=lab.talking("one"))
    lab.root = lab.sequence(done, Agent(name="a", body=lab.asking("c1")))
    await lab.run()
    assert hooks == [
        "before root False", "before done False", "after done", "before a False", "after a", "after root"
    ]  # fmt: skip
    hooks.clear()
    await lab.run(answer("c1"))
    assert hooks == ["before root True", "before a True", "after a", "after root"]


async def test_act_25_an_answered_sibling_never_runs_the_others_again() -> None:
    """Two children wait; one is answered: the other stands WAITING and the parent pauses again."""
    lab = Lab()
    a, b = Agent(name="a", body=lab.asking("ca")), Agent(name="b", body=lab.asking("cb"))

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        statuses = []
        for child in (a, b):
            activation = ctx.activate(child, run_id="1")
            async for event in activation:
                yield event
            statuses.append(activation.status)
        lab.log.append(" ".join(statuses))
        if "paused" in statuses:
            raise Pause

    lab.root = Agent(name="root", body=body, sub_agents=[a, b])
    outcome = await lab.run()
    assert [call.id for call in outcome.open_calls] == ["ca", "cb"]
    lab.log.clear()
    outcome = await lab.run(answer("cb"))
    assert (outcome.kind, [call.id for call in outcome.open_calls]) == ("paused", ["ca"])
    assert lab.log == ["b again", "paused completed"]
    lab.log.clear()
    assert (await lab.run(answer("ca"))).kind == "completed"
    assert lab.log == ["a again", "completed completed"]


async def test_plug_43_on_pause_tells_each_new_call_once_and_not_its_ancestors() -> None:
    told: list[str] = []

    def on_pause(ctx: CallbackContext, open_calls: Any) -> None:
        told.append(f"{ctx.agent_name} {[call.id for call in open_calls]}")

    lab = Lab()
    lab.plugins = [FunctionPlugin("p", on_pause=on_pause)]
    asker = Agent(name="asker", body=lab.asking("c1"))
    other = Agent(name="other", body=lab.asking("c2"))
    lab.root = lab.sequence(lab.sequence(asker, name="mid"), other)
    await lab.run()
    assert told == ["asker ['c1']"]
    await lab.run(answer("c1"))
    assert told == ["asker ['c1']", "other ['c2']"]


# --- records, run ids, output -----------------------------------------------------------------------------------------


async def test_act_24_children_with_run_ids_of_their_own_are_answered_from_records() -> None:
    lab = Lab()

    async def square(ctx: InvocationContext) -> AsyncIterator[Event]:
        lab.log.append(f"square {ctx.input}")
        yield Event(output=ctx.input**2)

    child = Agent(name="square", body=square)
    outputs: list[Any] = []

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        for key in ("x", "y"):
            activation = ctx.activate(child, {"x": 3, "y": 4}[key], run_id=key)
            async for event in activation:
                yield event
            outputs.append((activation.status, activation.output))
        if ctx.view.open_calls or not ctx.view.calls:
            yield asks("c1")
            raise Pause

    lab.root = Agent(name="root", body=body, sub_agents=[child])
    await lab.run()
    assert outputs == [("completed", 9), ("completed", 16)]
    outputs.clear()
    assert (await lab.run(answer("c1"))).kind == "completed"
    assert outputs == [("completed", 9), ("completed", 16)]
    assert lab.log == ["square 3", "square 4"]  # never run again
    assert [line for line in await lab.story() if "square" in line] == [
        "root@1/square@x:", "root@1/square@y:"
    ]  # fmt: skip  # an output is an end, so no marker (ACT-14)


async def test_act_30_run_numbers_count_per_name_and_stay_the_same_in_a_replay() -> None:
    lab = Lab()
    child = Agent(name="child", body=lab.talking("x"))

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        for _ in range(2):
            async for event in ctx.activate(child):
                yield event
        if not ctx.view.calls:
            yield asks("c1")
            raise Pause
        async for event in ctx.activate(child):
            yield event

    lab.root = Agent(name="root", body=body, sub_agents=[child])
    await lab.run()
    await lab.run(answer("c1"))
    paths = [line.partition(":")[0] for line in await lab.story() if "child" in line and "✓" not in line]
    assert paths == ["root@1/child@1", "root@1/child@2", "root@1/child@3"]


@pytest.mark.parametrize("run_id", ["", "a/b", "a@b", "a.b", "a~2", "t2", "3-1"])
def test_act_30_run_ids_of_the_kernel_are_refused(run_id: str) -> None:
    with pytest.raises(InvalidRunId, match="run id"):
        check_run_id(run_id)


@pytest.mark.parametrize("run_id", ["1", "item", "t", "t2x", "3-", "a-1", "%2F"])
def test_act_30_other_run_ids_are_free(run_id: str) -> None:
    assert check_run_id(run_id) == run_id


def test_segment_name() -> None:
    assert segment_name("root@1/mid@x/leaf@t2") == "leaf"


async def test_act_16_an_activation_keeps_its_recorded_branch_and_scope() -> None:
    lab = Lab()
    asker = Agent(name="asker", body=lab.asking("c1"))

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        branch = "other" if ctx.resuming else "first"
        activation = ctx.activate(asker, run_id="1", branch=branch)
        async for event in activation:
            yield event
        if activation.status == "paused":
            raise Pause

    lab.root = Agent(name="root", body=body, sub_agents=[asker])
    await lab.run()
    await lab.run(answer("c1"))
    branches = [event.branch for event in (await lab.session()).events if event.path.endswith("asker@1")]
    assert set(branches) == {"first"}


# --- agents without a runner (AGT-5) ----------------------------------------------------------------------------------


async def test_agt_5_an_agent_runs_without_a_runner() -> None:
    from hookwork_testkit import make_context

    child = Agent(name="child", body=Lab().talking("from the child"))

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        async for event in ctx.activate(child):
            yield event
        yield said("from the parent")

    agent = Agent(name="alone", body=body, sub_agents=[child])
    ctx = make_context("invocation", agent=agent)
    texts = [event.text async for event in agent.run(ctx) if event.content is not None]
    assert texts == ["from the child", "from the parent"]
