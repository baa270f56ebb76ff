"""The activation contract, line by line (core ACV-1 … ACV-5, AGT-15; activations ACT-40)."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.kernel.running import run_of, runner_of, said, stored
from tests.kernel.waiting_agents import Lab, answer, asks

from hookwork import Agent, CallbackContext, Event, InvocationContext, Plugin, Stage, Standing
from hookwork.invocation import Invocation
from hookwork.view import View


class Child:
    """Runs one activation under a root and notes what the child saw and how it stood afterwards."""

    def __init__(self, body: Any, **place: Any) -> None:
        self.seen: dict[str, Any] = {}
        self.ended: list[Any] = []
        self.activation: Any = None

        async def child(ctx: InvocationContext) -> AsyncIterator[Event]:
            self.seen = {
                "path": ctx.path,
                "branch": ctx.branch,
                "scope": ctx.isolation_scope,
                "input": ctx.input,
                "attempt": ctx.attempt,
            }
            async for event in body(ctx):
                yield event

        agent = Agent(name="child", body=child)

        async def root(ctx: InvocationContext) -> AsyncIterator[Event]:
            activation = self.activation = ctx.activate(agent, **place)
            assert activation.status == ""
            try:
                async with aclosing(activation) as events:
                    async for event in events:
                        yield event
            finally:
                ids = [call.id for call in activation.open_calls]
                self.ended.append((activation.status, activation.output, activation.routes, ids))

        self.root = Agent(name="root", body=root, sub_agents=[agent])


async def test_acv_1_a_place_is_given_by_run_id_branch_scope_and_input() -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("x", output={"n": 1}, routes=("left",))

    child = Child(body, input={"q": 1}, run_id="mine", branch="b", scope="s")
    events = await run_of(runner_of(child.root))
    assert child.seen == {
        "path": "root@1/child@mine", "branch": "b", "scope": "s", "input": {"q": 1}, "attempt": 1,
    }  # fmt: skip
    assert child.ended == [("completed", {"n": 1}, ("left",), [])]
    assert [(event.path, event.branch, event.isolation_scope) for event in events[:1]] == [
        ("root@1/child@mine", "b", "s")
    ]


async def test_acv_1_without_a_place_it_is_the_next_run_under_the_parents_branch_and_scope() -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("x")

    child = Child(body)
    await run_of(runner_of(child.root))
    assert child.seen == {"path": "root@1/child@1", "branch": "", "scope": "", "input": None, "attempt": 1}


@pytest.mark.parametrize("how", ["completed", "paused", "failed", "cancelled"])
async def test_acv_1_an_activation_ends_in_one_of_four_ways(how: str) -> None:
    reached = asyncio.Event()

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield asks("c1") if how == "paused" else said("x")
        if how == "failed":
            raise LookupError("broken")
        if how == "cancelled":
            reached.set()
            await asyncio.Event().wait()

    child = Child(body)
    running = asyncio.create_task(run_of(runner_of(child.root)))
    if how == "cancelled":
        await reached.wait()
        running.cancel()
    await asyncio.wait([running])
    assert running.cancelled() == (how == "cancelled")
    failed = running.exception() if not running.cancelled() else None
    assert (repr(failed) if failed else "") == ("LookupError('broken')" if how == "failed" else "")
    assert child.ended == [(how, None, (), ["c1"] if how == "paused" else [])]


@attrs.define(eq=False, slots=False)
class Asked(Agent):
    """Notes when it is asked how it stands."""

    log: list[str] = attrs.field(factory=list)

    def standing(self, view: View) -> Standing:
        self.log.append("standing")
        return super().standing(view)


async def test_acv_2_standing_around_before_body_after_in_this_order() -> None:
    log: list[str] = []

    class Noting(Plugin):
        @asynccontextmanager
        async def around_agent(self, ctx: CallbackContext, agent: Agent, stage: Stage) -> AsyncIterator[None]:
            log.append("(around")
            yield
            log.append("around)")

        def before_agent(self) -> None:
            log.append("before")

        def after_agent(self) -> None:
            log.append("after")

    lab = Lab()
    lab.plugins = [Noting()]

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        log.append("body")
        if not ctx.resuming:
            yield asks("c1")
        else:
            yield said("x")

    lab.root = Asked(name="root", body=body, log=log)
    paused = await lab.run()
    # Without a record nothing is asked first; how a call ended that may wait is the same question (ACT-12).
    assert log == ["(around", "before", "body", "standing", "after", "around)"]
    log.clear()
    await lab.run(answer("c1"))
    assert log == ["standing", "(around", "before", "body", "standing", "after", "around)"]
    log.clear()
    with pytest.raises(Exception, match="is completed"):  # fast-forwarded: no hook, no body
        await lab.run(None, invocation_id=paused.invocation_id)
    assert set(log) == {"standing"}


async def test_acv_2_agt_10_events_are_completed_and_the_writes_of_each_stage_are_its_own() -> None:
    def before(ctx: CallbackContext) -> None:
        ctx.state["before"] = 1

    def after(ctx: CallbackContext) -> None:
        ctx.state["after"] = 1

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event()
        yield said("x")

    runner = runner_of(Agent(name="root", body=body, before_agent=before, after_agent=after))
    events = await run_of(runner)
    assert [(event.author, event.path, dict(event.actions.state_delta)) for event in events] == [
        ("root", "root@1", {"before": 1}),
        ("root", "root@1", {}),
        ("root", "root@1", {}),
        ("root", "root@1", {"after": 1}),
    ]
    assert all(event.id and event.timestamp and event.invocation_id for event in events)
    assert (await stored(runner))[1:] == events


async def test_acv_3_a_body_that_ended_is_paused_while_a_descendant_waits() -> None:
    """The parent's body returns as if nothing were open; the grandchild's call says otherwise."""
    lab = Lab()
    asker = Agent(name="asker", body=lab.asking("c1"))
    statuses: list[str] = []

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        activation = ctx.activate(asker)
        async with aclosing(activation) as events:
            async for event in events:
                yield event
        statuses.append(activation.status)

    mid = Agent(name="mid", body=body, sub_agents=[asker])
    lab.root = lab.sequence(mid)
    outcome = await lab.run()
    assert (outcome.kind, statuses) == ("paused", ["paused"])
    assert [call.path for call in outcome.open_calls] == ["root@1/mid@1/asker@1"]
    assert not any(line.startswith("root@1/mid@1:") for line in await lab.story())  # no end marker at a pause


async def test_acv_4_a_final_looking_event_is_no_end_and_roots_need_one_too() -> None:
    """The run broke behind an event that looks like an answer: a later run enters the root again."""
    entries: list[bool] = []

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        entries.append(ctx.resuming)
        yield said("this looks final")
        if not ctx.resuming:
            raise LookupError("broken")

    lab = Lab()
    lab.root = Agent(name="root", body=body)
    run = lab.runner().run(user_id="u", session_id="s", message="hi")
    with pytest.raises(LookupError):
        await run.wait()
    assert (await lab.session()).events[-1].is_final_response()
    again = await lab.run(None, invocation_id=run.invocation_id)
    assert (again.kind, entries) == ("completed", [False, True])


async def test_acv_4_an_end_older_than_an_answer_is_none() -> None:
    """A call is answered although the body had given its output already: the answer is still to be heard."""
    entries: list[bool] = []

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        entries.append(ctx.resuming)
        if not ctx.resuming:
            yield asks("c1")
            yield said("early", output="early")
        else:
            yield said("late", output="late")

    lab = Lab()
    lab.root = Agent(name="root", body=body)
    first = await lab.run()
    assert first.kind == "paused"
    second = await lab.run(answer("c1"))
    assert (second.kind, second.output, entries) == ("completed", "late", [False, True])


async def test_acv_5_numbers_count_under_one_parent_and_a_resumed_activation_keeps_its_place() -> None:
    lab = Lab()
    talker, asker = Agent(name="talker", body=lab.talking("t")), Agent(name="asker", body=lab.asking("c1"))

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        for child in (talker, asker, talker):
            activation = ctx.activate(child)
            async with aclosing(activation) as events:
                async for event in events:
                    yield event
            if activation.status == "paused":
                return

    lab.root = Agent(name="root", body=body, sub_agents=[talker, asker])
    await lab.run()
    await lab.run(answer("c1"))
    places = [line.partition(":")[0] for line in await lab.story()]
    assert places == [
        "user",
        "root@1/talker@1", "root@1/talker@1",
        "root@1/asker@1",
        "user",
        "root@1/asker@1", "root@1/asker@1",
        "root@1/talker@2", "root@1/talker@2",
        "root@1",
    ]  # fmt: skip


async def test_agt_15_the_callbacks_of_one_chain_share_one_delta() -> None:
    def note(key: str) -> Any:
        def callback(ctx: CallbackContext) -> None:
            ctx.state[key] = ctx.state.get("count", 0)
            ctx.state["count"] = ctx.state.get("count", 0) + 1

        return callback

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("x")

    agent = Agent(
        name="root", body=body, before_agent=[note("a"), note("b")], after_agent=[note("c"), note("d"), note("e")]
    )
    events = await run_of(runner_of(agent))
    assert [dict(event.actions.state_delta) for event in events if event.actions.state_delta] == [
        {"a": 0, "b": 1, "count": 2},
        {"c": 2, "d": 3, "e": 4, "count": 5},
    ]


# --- the seam (ACT-40) ------------------------------------------------------------------------------------------------


async def test_act_40_a_view_tells_of_a_place_what_lies_under_it_and_where_a_hand_over_leads() -> None:
    lab = Lab()
    asker = Agent(name="asker", body=lab.asking("c1"))
    lab.root = lab.sequence(Agent(name="first", body=lab.talking("one")), asker)
    outcome = await lab.run()
    root = await _view(lab, outcome.invocation_id, "root@1")
    child = root.child("asker@1")
    assert child.path == "root@1/asker@1"
    assert child.record is not None
    assert ([c.id for c in child.calls], [c.id for c in root.calls]) == (["c1"], [])
    assert [c.id for c in root.open_calls] == ["c1"]
    assert child.follow().path == child.path  # nothing was handed over
    assert (child.newest, child.newest_answer) == (3, -1)
    assert [event.text for event in root.child("first@1").events] == ["one", ""]
    assert root.child("nobody@1").record is None
    assert root.scope_record("nowhere") is None
    await lab.run(answer("c1"))
    later = await _view(lab, outcome.invocation_id, "root@1")
    assert (later.newest_answer, later.open_calls) == (4, [])
    # A handle shows its own range, whatever the log took in since.
    assert (child.newest, root.newest_answer, [c.id for c in root.open_calls]) == (3, -1, ["c1"])


async def _view(lab: Lab, invocation_id: str, path: str) -> View:
    session = await lab.session()
    runner = lab.runner()
    inv = Invocation(
        app_name="root", user_id="u", session=session, invocation_id=invocation_id, setup=runner.setup, known=True
    )
    return View(inv, invocation_id, path)


@pytest.mark.parametrize(("name", "other"), [("llm", "workflow"), ("workflow", "llm")])
def test_act_40_the_two_kinds_of_agents_do_not_know_each_other(name: str, other: str) -> None:
    folder = Path(__file__).parents[2] / "extensions" / name / "src"
    files = sorted(folder.rglob("*.py"))
    assert files
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not any(found.split(".")[0] == f"hookwork_{other}" for found in names), file
