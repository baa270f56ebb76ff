"""Entering a known invocation by id or answer, ends, and hand-overs (activations ACT-10, ACT-14, ACT-17)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.kernel.running import Body, said
from tests.kernel.waiting_agents import Lab, answer, asks

from hookwork import (
    Agent,
    Event,
    EventActions,
    FunctionPlugin,
    InvocationContext,
    NodeInfo,
    Pause,
    Runner,
    Settings,
    Standing,
)
from hookwork.errors import (
    ConfigurationError,
    InvocationNotFoundError,
    NothingToResume,
    ValidationError,
)

# --- ends (ACT-14) ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "marker"),
    [
        (said("text"), True),
        (Event(output={"n": 1}), False),
        (Event(routes=("left",)), False),
        (said("text", node_info=NodeInfo(status="completed")), False),
    ],
)
async def test_act_14_an_end_marker_comes_exactly_where_nothing_else_is_an_end(last: Event, marker: bool) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("before")
        yield last

    lab = Lab()
    lab.root = Agent(name="root", body=body)
    outcome = await lab.run()
    assert outcome.kind == "completed"
    story = await lab.story()
    assert (story[-1] == "root@1: ✓") is marker
    assert len(story) == 3 + marker
    with pytest.raises(NothingToResume, match="is completed"):
        await lab.run(None, invocation_id=outcome.invocation_id)


@pytest.mark.parametrize("how", ["error", "cancelled", "left", "ended"])
async def test_act_12_failed_cancelled_and_ended_bodies_leave_no_end_and_may_go_on(how: str) -> None:
    lab = Lab()
    entered = asyncio.Event()

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("part")
        if ctx.resuming:
            return
        entered.set()
        if how == "error":
            raise LookupError("broken")
        if how == "ended":
            ctx.end_invocation()
            return
        await asyncio.Event().wait()

    lab.root = Agent(name="root", body=body)
    run = lab.runner().run(user_id="u", session_id="s", message="hi")
    if how == "error":
        with pytest.raises(LookupError):
            await run.wait()
    elif how == "left":
        async with run:
            async for _ in run:
                break
    else:
        task = asyncio.create_task(run.wait())
        await entered.wait()
        if how == "cancelled":
            task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() is (how == "cancelled")
    assert await lab.story() == ["user: hi", "root@1: part"]
    resumed = await lab.run(None, invocation_id=run.invocation_id)
    assert resumed.kind == "completed"
    assert await lab.story() == ["user: hi", "root@1: part", "root@1: part", "root@1: ✓"]


# --- entering by id or by answer (RES-7, RES-10, RUN-12) --------------------------------------------------------------


async def test_res_10_an_unknown_invocation_is_refused() -> None:
    lab = Lab()
    with pytest.raises(InvocationNotFoundError, match="does not exist"):
        await lab.run(None, invocation_id="e-none")
    assert await lab.sessions.list_sessions(app_name="root") == []
    await lab.run()
    with pytest.raises(InvocationNotFoundError, match="'e-none'"):
        await lab.run(None, invocation_id="e-none")


@pytest.mark.parametrize("extra", [{}, {"state_delta": {"k": 1}}])
async def test_res_10_nothing_to_resume_stores_nothing_and_meets_no_hook(extra: dict[str, Any]) -> None:
    lab = Lab()
    waiting = await lab.run()
    hooks: list[str] = []
    lab.plugins = [
        FunctionPlugin("p", before_run=lambda: hooks.append("before"), after_run=lambda: hooks.append("after"))
    ]
    before = await lab.story()
    with pytest.raises(NothingToResume, match="only waits for answers to: c1"):
        await lab.run(None, invocation_id=waiting.invocation_id, **extra)
    lab.plugins = []
    await lab.run(answer("c1"))
    done = await lab.story()
    with pytest.raises(NothingToResume, match="is completed"):
        await lab.run(None, invocation_id=waiting.invocation_id, **extra)
    assert (await lab.story(), hooks) == (done, [])
    assert done[: len(before)] == before
    assert "k" not in (await lab.session()).state


async def test_act_43_rerun_runs_an_open_call_again() -> None:
    lab = Lab()
    runs: list[bool] = []

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        runs.append("c1" in ctx.view.rerun)
        if not ctx.view.calls:
            yield asks("c1")
            raise Pause
        yield said("ran again")

    lab.root = Agent(name="root", body=body)
    first = await lab.run()
    for bad in ("other", "c1"):
        with pytest.raises(ValidationError, match="rerun"):
            await lab.run(None, invocation_id=None if bad == "c1" else first.invocation_id, rerun=[bad])
    await lab.run(None, invocation_id=first.invocation_id, rerun=["c1"])
    assert runs == [False, True]


async def test_res_7_unknown_and_repeated_answers() -> None:
    lab = Lab()
    with pytest.raises(NothingToResume) as raised:
        await lab.run(answer("nobody"))
    assert list(raised.value.unknown) == ["nobody"]
    assert await lab.sessions.list_sessions(app_name="root") == []  # not even the session
    await lab.run()
    before = await lab.story()
    with pytest.raises(NothingToResume, match="unknown: \\['nobody'\\]") as raised:
        await lab.run(answer("nobody"))
    assert (list(raised.value.unknown), list(raised.value.repeated)) == (["nobody"], [])
    assert await lab.story() == before


async def test_res_7_what_is_not_usable_is_left_out_of_the_stored_message() -> None:
    lab = Lab()
    await lab.run()
    await lab.run(answer("nobody", "c1"))
    answered = next(event for event in (await lab.session()).events if event.function_responses)
    assert [response.id for response in answered.function_responses] == ["c1"]


async def test_fn_33_a_repeated_answer_to_a_plain_long_running_call_replaces_the_earlier_one() -> None:
    lab = Lab()
    await lab.run()
    await lab.run(answer("c1", value=1))
    assert (await lab.run(answer("c1", value=2))).kind == "completed"
    assert (await lab.story())[-2:] == ["root@1: root answered {'value': 2}", "root@1: ✓"]


async def test_run_12_answers_to_two_invocations_are_refused_by_name() -> None:
    lab = Lab()
    asked = iter(["c1", "c2"])

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        if not ctx.resuming:
            yield asks(next(asked))

    class Restarting(Agent):
        @property
        def on_message_while_waiting(self) -> str:
            return "restart"

    lab.root = Restarting(name="root", body=body)
    first, second = await lab.run(), await lab.run()
    assert first.invocation_id != second.invocation_id
    before = await lab.story()
    with pytest.raises(ValidationError) as raised:
        await lab.run(answer("c1", "c2"))
    assert first.invocation_id in str(raised.value)
    assert second.invocation_id in str(raised.value)
    assert await lab.story() == before
    with pytest.raises(ValidationError, match="answers calls of invocation"):
        await lab.run(answer("c1"), invocation_id=second.invocation_id)
    assert await lab.story() == before


async def test_res_10_a_message_that_answers_nothing_may_not_name_a_known_invocation() -> None:
    lab = Lab()
    lab.root = Agent(name="root", body=lab.talking("x"))
    first = await lab.run()
    before = await lab.story()
    with pytest.raises(ValidationError, match="exists already"):
        await lab.run("more", invocation_id=first.invocation_id)
    assert await lab.story() == before
    assert (await lab.run("new", invocation_id="e-mine")).invocation_id == "e-mine"  # a durable engine's own id


async def test_act_10_a_changed_tree_is_refused_by_both_paths() -> None:
    lab = Lab()
    await lab.run()
    before = await lab.story()
    lab.root = Agent(name="other", body=lab.talking("x"))
    runner = Runner(lab.root, app_name="root", sessions=lab.sessions, settings=Settings())
    with pytest.raises(ConfigurationError, match=r"'root@1'.*'other@1'"):
        await runner.run(user_id="u", session_id="s", message=answer("c1")).wait()
    assert await lab.story() == before


# --- hand-over (ACT-17) -----------------------------------------------------------------------------------------------


class Handing(Agent):
    """Hands over with a transfer action, as an LLM agent does; its standing says so."""

    def standing(self, view: Any) -> Standing:
        record = view.record
        return Standing.HANDED if record is not None and record.handover >= 0 else super().standing(view)


async def test_act_17_five_hundred_hand_overs_in_a_row() -> None:
    lab = Lab()
    left = 500

    def handing(to: str) -> Body:
        async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
            nonlocal left
            left -= 1
            if left > 0:
                yield Event(actions=EventActions(transfer_to_agent=to))
            else:
                yield said("the end")

        return body

    a, b = Handing(name="a", body=handing("b")), Handing(name="b", body=handing("a"))
    lab.root = Handing(name="root", body=handing("a"), sub_agents=[a, b])
    outcome = await lab.run()
    assert outcome.kind == "completed"
    assert outcome.final_event is not None
    assert (outcome.final_event.text, left) == ("the end", 0)
    paths = [event.path for event in (await lab.session()).events if event.actions.transfer_to_agent]
    assert paths[:5] == ["root@1", "root@1/a@1", "root@1/b@1", "root@1/a@t2", "root@1/b@t2"]
    assert len(set(paths)) == 499


async def test_act_17_after_agent_runs_at_the_hand_over_and_a_resume_passes_the_caller() -> None:
    lab = Lab()
    hooks: list[str] = []
    lab.plugins = [
        FunctionPlugin(
            "p",
            before_agent=lambda ctx, agent: hooks.append(f"({agent.name}"),
            after_agent=lambda ctx, agent: hooks.append(f"{agent.name})"),
        )
    ]

    async def hand(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event(actions=EventActions(transfer_to_agent="asker"))

    asker = Agent(name="asker", body=lab.asking("c1"))
    lab.root = Handing(name="root", body=hand, sub_agents=[asker])
    outcome = await lab.run()
    assert (outcome.kind, [call.path for call in outcome.open_calls]) == ("paused", ["root@1/asker@1"])
    assert hooks == ["(root", "root)", "(asker", "asker)"]
    hooks.clear()
    assert (await lab.run(answer("c1"))).kind == "completed"
    assert hooks == ["(asker", "asker)"]
    with pytest.raises(NothingToResume):
        await lab.run(None, invocation_id=outcome.invocation_id)


async def test_act_17_a_hand_over_to_nobody_is_refused_by_name() -> None:
    async def hand(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event(actions=EventActions(transfer_to_agent="nobody"))

    lab = Lab()
    lab.root = Handing(name="root", body=hand)
    with pytest.raises(ConfigurationError, match="root@1 handed over to 'nobody', which is not in the agent tree"):
        await lab.run()


async def test_act_4_a_hand_over_back_to_the_parent_stands_beside_its_first_place() -> None:
    lab = Lab()
    asked = 0

    async def root(ctx: InvocationContext) -> AsyncIterator[Event]:
        nonlocal asked
        asked += 1
        if asked == 1:
            yield Event(actions=EventActions(transfer_to_agent="child"))
        else:
            yield said("root again")

    async def back(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event(actions=EventActions(transfer_to_agent="root"))

    child = Handing(name="child", body=back)
    lab.root = Handing(name="root", body=root, sub_agents=[child])
    assert (await lab.run()).kind == "completed"
    assert [line for line in await lab.story() if "✓" not in line] == [
        "user: hi", "root@1:", "root@1/child@1:", "root@t2: root again"
    ]  # fmt: skip
