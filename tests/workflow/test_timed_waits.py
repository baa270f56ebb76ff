"""Waits for moments and events, and answers that are due by a moment (workflow WB-22)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.workflow.flows import answered, answers, outputs, step

from hookwork import Plugin, Runner
from hookwork.errors import InvalidResumeResponse, NothingToResume, ValidationError
from hookwork.platform import use_clock, use_sleep
from hookwork_workflow import (
    DEFAULT,
    START,
    Join,
    NodeContext,
    RequestInput,
    WaitExpired,
    Workflow,
    answer_due,
    due_waits,
    keep_time,
    next_due,
    node,
    request_input_event,
    send_event,
    with_deadline,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WHO = {"user_id": "u", "session_id": "s"}


class Time:
    """A clock that moves when it is told to, and when somebody sleeps."""

    def __init__(self) -> None:
        self.now = NOON
        self.slept: list[float] = []

    def pass_(self, **much: int) -> None:
        self.now += timedelta(**much)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.pass_(seconds=int(seconds))


@pytest.fixture
def time() -> Iterator[Time]:
    found = Time()
    with use_clock(lambda: found.now), use_sleep(found.sleep):
        yield found


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/s.db" if request.param == "sqlite" else ""


def in_runner(lab: Any, what: Any) -> Any:
    """``what(runner)`` in a new process."""

    async def done() -> Any:
        async with lab.store.opened() as service, Runner(lab.build(), sessions=service) as runner:
            return await what(runner)

    return done()


@node
async def nap(value: str, ctx: NodeContext) -> str:
    await ctx.sleep_until(NOON + timedelta(hours=1))
    return f"rested {value}"


async def test_wb_22_a_sleeper_pauses_the_run_and_goes_on_when_it_is_due(kit: Any, time: Time, url: str) -> None:
    """In another process; what ran before is not run again."""
    ran: list[str] = []
    lab = kit.Lab(lambda: Workflow("wf", START >> step("a", ran) >> nap >> step("end", ran)).as_agent(), url=url)
    turn = await lab.run("hi")
    assert (turn.outcome.kind, ran) == ("paused", ["a"])
    [call] = turn.outcome.open_calls
    assert (call.name, call.args["until"]) == ("hookwork_wait", (NOON + timedelta(hours=1)).timestamp())
    session = await lab.session()
    assert due_waits(session) == []
    assert next_due(session) == NOON + timedelta(hours=1)
    assert await in_runner(lab, lambda runner: answer_due(runner, **WHO)) == []
    time.pass_(hours=1)
    assert [wait.call.id for wait in due_waits(session)] == [call.id]
    [outcome] = await in_runner(lab, lambda runner: answer_due(runner, **WHO))
    assert (outcome.output, ran) == ("end(rested a(hi))", ["a", "end"])
    assert next_due(await lab.session()) is None


async def test_wb_22_keep_time_is_a_timer_for_one_process(kit: Any, time: Time, url: str) -> None:
    """It sleeps by the platform's clock, answers, and ends when nothing waits for a moment any more."""

    @node
    async def two(value: str, ctx: NodeContext) -> str:
        await ctx.sleep_until(NOON + timedelta(minutes=1))
        await ctx.sleep_until((NOON + timedelta(minutes=5)).timestamp())
        return "up"

    lab = kit.Lab(lambda: Workflow("wf", START >> two).as_agent(), url=url)
    await lab.run("hi")
    outcome = await in_runner(lab, lambda runner: keep_time(runner, **WHO))
    assert outcome.output == "up"
    assert time.slept == [60.0, 240.0]
    assert await in_runner(lab, lambda runner: keep_time(runner, **WHO)) is None


async def test_wb_22_a_moment_that_has_passed_waits_for_nothing(kit: Any, time: Time) -> None:
    time.pass_(hours=2)
    turn = await kit.Lab(Workflow("wf", START >> nap).as_agent).run("hi")
    assert turn.outcome.output == "rested hi"


async def test_wb_22_other_branches_go_on_meanwhile(kit: Any, time: Time, url: str) -> None:
    """SCH-7; two sleepers are answered in one message (ANS-5)."""
    other = node(nap.func, name="other")
    lab = kit.Lab(lambda: Workflow("wf", START >> (nap, other, step("side")) >> Join("all")).as_agent(), url=url)
    turn = await lab.run("hi")
    assert outputs(turn.events) == {"wf@1/side@1": "side(hi)"}
    time.pass_(hours=1)
    [outcome] = await in_runner(lab, lambda runner: answer_due(runner, **WHO))
    assert outcome.output == {"nap": "rested hi", "other": "rested hi", "side": "side(hi)"}


async def test_wb_22_an_event_is_answered_by_its_name(kit: Any, url: str) -> None:
    """What came with it is checked as any answer is (ANS-3); nobody waits for others."""

    @node
    async def pay(value: str, ctx: NodeContext) -> str:
        paid = await ctx.wait_event("payment/42", schema={"type": "object", "required": ["sum"]})
        return f"paid {paid['sum']}"

    lab = kit.Lab(lambda: Workflow("wf", START >> pay >> step("end")).as_agent(), url=url)
    turn = await lab.run("hi")
    assert [call.args["event"] for call in turn.outcome.open_calls] == ["payment/42"]
    assert next_due(await lab.session()) is None
    with pytest.raises(NothingToResume, match="payment/43"):
        await in_runner(lab, lambda runner: send_event(runner, "payment/43", **WHO))
    with pytest.raises(InvalidResumeResponse):
        await in_runner(lab, lambda runner: send_event(runner, "payment/42", {"amount": 3}, **WHO))
    [outcome] = await in_runner(lab, lambda runner: send_event(runner, "payment/42", {"sum": 3}, **WHO))
    assert outcome.output == "end(paid 3)"
    with pytest.raises(NothingToResume):
        await in_runner(lab, lambda runner: send_event(runner, "payment/42", {"sum": 3}, **WHO))


async def test_wb_22_one_event_for_all_who_wait_and_the_next_for_the_next_wait(kit: Any) -> None:
    @node
    async def twice(value: str, ctx: NodeContext) -> list[Any]:
        return [await ctx.wait_event("tick"), await ctx.wait_event("tick")]

    @node
    async def once(value: str, ctx: NodeContext) -> Any:
        return await ctx.wait_event("tick")

    lab = kit.Lab(lambda: Workflow("wf", START >> (twice, once) >> Join("both")).as_agent())
    await lab.run("hi")
    [outcome] = await in_runner(lab, lambda runner: send_event(runner, "tick", 1, **WHO))
    assert outcome.kind == "paused"
    [outcome] = await in_runner(lab, lambda runner: send_event(runner, "tick", 2, **WHO))
    assert outcome.output == {"twice": [1, 2], "once": 1}


async def test_wb_22_two_invocations_wait_for_one_event(kit: Any) -> None:
    @node
    async def once(value: str, ctx: NodeContext) -> str:
        return f"{value}{await ctx.wait_event('tick')}"

    flow = Workflow("wf", START >> once, on_message_while_waiting="restart")
    lab = kit.Lab(flow.as_agent)
    await lab.run("a")
    await lab.run("b")
    outcomes = await in_runner(lab, lambda runner: send_event(runner, "tick", 7, **WHO))
    assert sorted(outcome.output for outcome in outcomes) == ["a7", "b7"]


def asking(style: str, **more: Any) -> Any:
    """A node that asks with a deadline of one hour."""
    deadline = NOON + timedelta(hours=1)

    @node(name="ask")
    async def awaits(value: str, ctx: NodeContext) -> Any:
        return await ctx.request_input("q", "?", schema=more.pop("schema", None), deadline=deadline, **more)

    @node(name="ask")
    async def hands_off(value: str) -> AsyncIterator[Any]:
        yield with_deadline(request_input_event(RequestInput(interrupt_id="q", message="?")), deadline, **more)

    @node(name="ask")
    async def event(value: str, ctx: NodeContext) -> Any:
        return await ctx.wait_event("e", deadline=deadline, **more)

    return {"awaits": awaits, "hands off": hands_off, "event": event}[style]


STYLES = ["awaits", "hands off", "event"]


def routes_of(ask: Any) -> Any:
    return START >> ask, ask.on({"expired": step("late"), DEFAULT: step("end")})


@pytest.mark.parametrize("style", STYLES)
async def test_wb_22_a_default_answer_when_the_deadline_has_passed(kit: Any, time: Time, style: str, url: str) -> None:
    lab = kit.Lab(lambda: Workflow("wf", *routes_of(asking(style, default="nobody"))).as_agent(), url=url)
    await lab.run("hi")
    assert await in_runner(lab, lambda runner: answer_due(runner, **WHO)) == []
    time.pass_(hours=1)
    [outcome] = await in_runner(lab, lambda runner: answer_due(runner, **WHO))
    assert outcome.output == "end(nobody)"


@pytest.mark.parametrize("style", STYLES)
async def test_wb_22_the_route_expired_without_a_default_answer(kit: Any, time: Time, style: str, url: str) -> None:
    """No output; resumed once more it is still that route."""
    ran: list[str] = []

    def build() -> Any:
        ask = asking(style)
        late = step("late", ran, give=lambda value: f"late({value})")
        return Workflow("wf", START >> ask, ask.on({"expired": late >> asked_again, DEFAULT: step("end")})).as_agent()

    @node
    async def asked_again(value: str) -> RequestInput:
        return RequestInput(interrupt_id="again", message="?")

    lab = kit.Lab(build, url=url)
    await lab.run("hi")
    time.pass_(hours=1)
    [outcome] = await in_runner(lab, lambda runner: answer_due(runner, **WHO))
    assert ([call.id for call in outcome.open_calls], ran) == (["again"], ["late"])
    assert [e.output for e in await lab.events() if e.path == "wf@1/late@1"] == ["late(None)"]
    turn = await answered(lab, {"again": "ok"})
    assert (turn.outcome.output, ran) == ("ok", ["late"])


@pytest.mark.parametrize("style", STYLES)
async def test_wb_22_an_answer_in_time_counts(kit: Any, time: Time, style: str) -> None:
    lab = kit.Lab(lambda: Workflow("wf", *routes_of(asking(style, default="nobody"))).as_agent())
    turn = await lab.run("hi")
    turn = await answered(lab, {turn.waits_for[0]: "me"})
    assert turn.outcome.output == "end(me)"
    time.pass_(hours=2)
    assert await in_runner(lab, lambda runner: answer_due(runner, **WHO)) == []


async def test_wb_22_a_body_may_handle_that_it_expired(kit: Any, time: Time) -> None:
    @node
    async def ask(value: str, ctx: NodeContext) -> str:
        try:
            return str(await ctx.request_input("q", "?", deadline=NOON + timedelta(hours=1)))
        except WaitExpired as expired:
            return f"no {expired.key}"

    lab = kit.Lab(lambda: Workflow("wf", START >> ask).as_agent())
    await lab.run("hi")
    time.pass_(hours=1)
    [outcome] = await in_runner(lab, lambda runner: answer_due(runner, **WHO))
    assert outcome.output == "no q"


async def test_wb_22_in_a_task_group_it_expires_as_well(kit: Any, time: Time) -> None:
    """ASK-7 for groups: one that ended by nothing else takes the route."""

    @node
    async def ask(value: str, ctx: NodeContext) -> None:
        async with asyncio.TaskGroup() as group:
            for key in "ab":
                group.create_task(ctx.request_input(key, "?", deadline=NOON + timedelta(hours=1)))

    lab = kit.Lab(lambda: Workflow("wf", *routes_of(ask)).as_agent())
    await lab.run("hi")
    time.pass_(hours=1)
    [outcome] = await in_runner(lab, lambda runner: answer_due(runner, **WHO))
    assert outcome.output == "late(None)"


async def test_wb_22_nobody_says_too_early_that_it_expired(kit: Any, time: Time) -> None:
    """A client cannot let a question expire; nothing is stored."""
    lab = kit.Lab(lambda: Workflow("wf", *routes_of(asking("awaits", schema=int))).as_agent())
    turn = await lab.run("hi")
    before = len(await lab.events())
    turn = await lab.run(answers({turn.waits_for[0]: {"hookworkExpired": True}}))
    assert isinstance(turn.error, InvalidResumeResponse)
    assert len(await lab.events()) == before


async def test_wb_22_a_child_that_expired_gives_none(kit: Any, time: Time) -> None:
    """DYN-1: its route is its own; the caller goes on with None."""

    @node
    async def parent(value: str, ctx: NodeContext) -> str:
        return f"got {await ctx.run_node(asking('awaits'), value)}"

    lab = kit.Lab(lambda: Workflow("wf", START >> parent).as_agent())
    await lab.run("hi")
    time.pass_(hours=1)
    [outcome] = await in_runner(lab, lambda runner: answer_due(runner, **WHO))
    assert outcome.output == "got None"


async def test_ask_8_a_wait_is_made_once_however_often_the_body_runs(kit: Any, time: Time) -> None:
    """A moment counted from now is another one in each run of the body; the stored one counts."""

    @node
    async def both(value: str, ctx: NodeContext) -> str:
        async def sleeps() -> None:
            await ctx.sleep_until(time.now + timedelta(hours=1), key="nap")

        async with asyncio.TaskGroup() as group:
            group.create_task(sleeps())
            asked = group.create_task(ctx.request_input("q", "?"))
        return str(asked.result())

    lab = kit.Lab(lambda: Workflow("wf", START >> both).as_agent())
    turn = await lab.run("hi")
    [question] = [call.id for call in turn.outcome.open_calls if call.name == "adk_request_input"]
    time.pass_(minutes=59)
    turn = await answered(lab, {question: "yes"})
    assert turn.outcome.kind == "paused"
    assert next_due(await lab.session()) == NOON + timedelta(hours=1)
    time.pass_(minutes=1)
    [outcome] = await in_runner(lab, lambda runner: answer_due(runner, **WHO))
    assert outcome.output == "yes"


async def test_plug_43_a_wait_is_told_to_on_pause(kit: Any, time: Time) -> None:
    told: list[Any] = []

    class Watch(Plugin):
        async def on_pause(self, ctx: Any, open_calls: Any) -> None:
            told.extend(open_calls)

    await kit.Lab(Workflow("wf", START >> nap).as_agent).run("hi", plugins=[Watch()])
    assert [call.name for call in told] == ["hookwork_wait"]


@pytest.mark.parametrize("moment", [datetime(2026, 1, 1), "soon", True, None])
async def test_wb_22_a_moment_has_a_time_zone(kit: Any, moment: Any) -> None:
    @node
    async def ask(value: str, ctx: NodeContext) -> None:
        await ctx.sleep_until(moment)

    assert isinstance((await kit.Lab(Workflow("wf", START >> ask).as_agent).run("hi")).error, ValidationError)


async def test_wb_22_a_default_answer_needs_a_deadline(kit: Any) -> None:
    @node
    async def ask(value: str, ctx: NodeContext) -> None:
        await ctx.request_input("q", default=1)

    assert isinstance((await kit.Lab(Workflow("wf", START >> ask).as_agent).run("hi")).error, ValidationError)
