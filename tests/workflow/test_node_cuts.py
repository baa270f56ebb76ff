"""Nodes that fail with an error of their own while they are ended from outside (workflow FAIL-3, RTY-4, TMO-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.workflow.flows import step

from hookwork import Event, Runner
from hookwork.platform import use_sleep
from hookwork_inmemory import InMemorySessionService
from hookwork_workflow import (
    START,
    Join,
    NodeContext,
    NodeRunError,
    NodeTimeout,
    Retry,
    Workflow,
    node,
    parallel,
)


class Dirty(Exception):
    """What a body fails with while it cleans up."""


class World:
    """One session in a store that outlives runs; bodies say when they have begun."""

    def __init__(self, build: Callable[[World], Workflow]) -> None:
        self.begun = asyncio.Event()
        #: node deadlines are over, however many seconds they are.
        self.late = asyncio.Event()
        self.broken = True
        self.error = Dirty("the file was locked")
        self.build = build
        self.sessions = InMemorySessionService()

    def runner(self) -> Runner:
        return Runner(self.build(self).as_agent(), app_name="app", sessions=self.sessions)

    async def hang(self) -> str:
        """Wait for ever; when cancelled, fail while cleaning up."""
        if not self.broken:
            return "clean"
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise self.error
        return ""

    async def events(self) -> list[Event]:
        session = await self.sessions.get_session(app_name="app", user_id="u", session_id="s")
        return list(session.events)

    async def failures(self) -> list[tuple[str, str | None, str | None]]:
        return [(e.path, e.error_code, e.error_message) for e in await self.events() if e.error_code]

    async def cancelled(self) -> BaseException:
        """Cancel the task that drives the run, once the body hangs; what leaves."""
        async with self.runner() as runner:
            task = asyncio.ensure_future(runner.ask("hi", user_id="u", session_id="s"))
            await self.begun.wait()
            task.cancel()
            try:
                await task
            except BaseException as error:
                return error
        raise AssertionError("it ended well")

    async def again(self) -> Any:
        """Go on by the invocation's id, with bodies that do not hang any more."""
        self.broken = False
        invocation = (await self.events())[0].invocation_id
        async with self.runner() as runner:
            return await runner.run(user_id="u", session_id="s", invocation_id=invocation).wait()


def plain(world: World, **options: Any) -> Any:
    @node(**options)
    async def dirty(value: Any) -> str:
        return await world.hang()

    return dirty


def alone(world: World) -> Workflow:
    return Workflow("wf", START >> step("a") >> plain(world, retry=Retry()) >> step("z"))


def limited(world: World) -> Workflow:
    return Workflow("wf", START >> step("a") >> plain(world, timeout=60) >> step("z"))


def nested(world: World) -> Workflow:
    return Workflow("wf", START >> Workflow("inner", START >> step("a") >> plain(world), timeout=60) >> step("z"))


def child(world: World) -> Workflow:
    @node
    async def parent(value: Any, ctx: NodeContext) -> Any:
        return await ctx.run_node(plain(world))

    return Workflow("wf", START >> parent >> step("z"))


def item(world: World) -> Workflow:
    return Workflow("wf", START >> step("list", give=lambda v: [v]) >> parallel(plain(world), name="all") >> step("z"))


SHAPES = {
    alone: "wf@1/dirty@1",
    limited: "wf@1/dirty@1",
    nested: "wf@1/inner@1/dirty@1",
    child: "wf@1/parent@1/dirty@1",
    item: "wf@1/all@1/dirty@1",
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_fail_3_an_own_error_beside_a_cancellation_is_recorded_and_its_context(shape: Any) -> None:
    """It leaves as `CancelledError`, is never retried, and goes on by its id (RPL-9)."""
    world = World(shape)
    error = await world.cancelled()
    assert type(error) is asyncio.CancelledError
    assert error.__context__ is world.error
    assert any(SHAPES[shape] in note for note in world.error.__notes__)
    assert await world.failures() == [(SHAPES[shape], "Dirty", "the file was locked")]
    assert (await world.again()).kind == "completed"


async def test_fail_3_a_deadline_around_the_run_is_a_timeout_error_all_the_same() -> None:
    world = World(alone)

    async def over(limit: asyncio.Timeout) -> None:
        await world.begun.wait()
        limit.reschedule(asyncio.get_running_loop().time())

    async def ask(runner: Runner) -> None:
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:
            group.create_task(over(limit))
            await runner.ask("hi", user_id="u", session_id="s")

    async with world.runner() as runner:
        with pytest.raises(TimeoutError) as caught:
            await ask(runner)
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    assert caught.value.__cause__.__context__ is world.error
    assert await world.failures() == [("wf@1/dirty@1", "Dirty", "the file was locked")]


async def test_fail_3_a_node_that_failed_before_the_cancellation_is_its_context() -> None:
    """The error is recorded already, once; a sibling takes its time to clean up when the cancellation comes."""
    wrong = OSError("no")

    def build(world: World) -> Workflow:
        ready = asyncio.Event()

        @node
        async def slow(value: Any) -> None:
            ready.set()
            try:
                await asyncio.Event().wait()
            finally:
                world.begun.set()
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.01)

        @node
        async def broken(value: Any) -> None:
            await ready.wait()
            raise wrong

        return Workflow("wf", START >> (slow, broken))

    world = World(build)
    error = await world.cancelled()
    assert type(error) is asyncio.CancelledError
    assert error.__context__ is wrong
    assert await world.failures() == [("wf@1/broken@1", "OSError", "no")]


async def test_fail_3_an_error_of_a_run_that_was_stopped_is_told_and_not_stored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """INV-3: no further event of a run that was ended by choice."""
    world = World(alone)
    async with world.runner() as runner:
        run = runner.run(user_id="u", session_id="s", message="hi")
        waiting = asyncio.ensure_future(run.wait())
        await world.begun.wait()
        await run.stop()
        assert (await waiting).kind == "closed"
    assert await world.failures() == []
    assert "wf@1/dirty@1 failed while its run was ended" in caplog.text
    assert (await world.again()).kind == "completed"


@pytest.mark.parametrize("how", ["cancelled", "left"])
async def test_fail_3_a_consumer_that_goes_at_an_event(how: str, caplog: pytest.LogCaptureFixture) -> None:
    """Cancelled there, the error is recorded; leaving by choice stores nothing more (INV-3)."""
    world = World(lambda world: Workflow("wf", START >> (plain(world), step("a"))))

    async def consume(runner: Runner) -> None:
        async with runner.run(user_id="u", session_id="s", message="hi") as run:
            async for _ in run:
                await world.begun.wait()
                if how == "left":
                    return
                world.late.set()
                await asyncio.Event().wait()

    async with world.runner() as runner:
        consuming = asyncio.ensure_future(consume(runner))
        if how == "cancelled":
            await world.late.wait()
            consuming.cancel()
        await asyncio.wait([consuming])
    assert consuming.cancelled() is (how == "cancelled")
    assert [code for _, code, _ in await world.failures()] == (["Dirty"] if how == "cancelled" else [])
    assert ("failed while its run was ended" in caplog.text) is (how == "left")


# --- deadlines of nodes and graphs ------------------------------------------------------------------------------------


async def raised_by(world: World) -> BaseException:
    async def sleep(seconds: float) -> None:
        await world.late.wait()

    with use_sleep(sleep):
        async with world.runner() as runner:
            asking = asyncio.ensure_future(runner.ask("hi", user_id="u", session_id="s"))
            await world.begun.wait()
            world.late.set()
            with pytest.raises(Exception) as caught:
                await asking
    return caught.value


def bounded(inner: Callable[[World], Any]) -> Callable[[World], Workflow]:
    return lambda world: Workflow("wf", START >> Workflow("inner", START >> inner(world), timeout=60) >> step("z"))


async def test_fail_3_a_deadline_of_a_graph_is_a_timeout_error() -> None:
    def hanging(world: World) -> Any:
        @node
        async def hung(value: Any) -> None:
            world.begun.set()
            await asyncio.Event().wait()

        return hung

    error = await raised_by(World(bounded(hanging)))
    assert type(error) is NodeTimeout
    assert isinstance(error, TimeoutError)


async def test_fail_3_a_node_with_an_error_of_its_own_wins_over_the_deadline_around_it() -> None:
    world = World(bounded(plain))
    assert await raised_by(world) is world.error
    assert await world.failures() == [
        ("wf@1/inner@1/dirty@1", "Dirty", "the file was locked"),
        ("wf@1/inner@1", "Dirty", "the file was locked"),
    ]
    assert (await world.again()).kind == "completed"


@pytest.mark.parametrize("kind", ["graph", "parallel", "child"])
async def test_fail_3_a_node_that_failed_before_the_deadline_wins(kind: str) -> None:
    """Its sibling is still cleaning up when the time is over."""
    wrong = OSError("no")

    def build(world: World) -> Workflow:
        ready = asyncio.Event()

        @node
        async def one(value: Any) -> None:
            if value == "broken":
                await ready.wait()
                raise wrong
            ready.set()
            try:
                await asyncio.Event().wait()
            finally:
                world.begun.set()
                for _ in range(20):  # turns of the loop, in which the deadline is noticed
                    await asyncio.sleep(0)

        @node(timeout=60)
        async def parent(value: Any, ctx: NodeContext) -> Any:
            async with asyncio.TaskGroup() as group:
                for each in ("slow", "broken"):
                    group.create_task(ctx.run_node(one, each, run_id=f"r-{each}"))

        many = parallel(one, name="many", timeout=60)
        slow = step("slow", give=lambda v: "slow")
        broken = step("broken", give=lambda v: "broken")
        graph = Workflow("graph", START >> (slow >> one, broken >> one.replace(name="two")), timeout=60)
        both = step("both", give=lambda v: ["slow", "broken"])
        return Workflow("wf", START >> both >> {"graph": graph, "parallel": many, "child": parent}[kind])

    world = World(build)
    error = await raised_by(world)
    if kind == "child":  # a task group tells of all its errors
        assert isinstance(error, ExceptionGroup)
        assert isinstance(error.exceptions[0], NodeRunError)
        error = error.exceptions[0].__cause__ or error
    assert error is wrong
    assert "OSError" in [code for _, code, _ in await world.failures()]


async def test_tmo_1_a_body_that_fails_while_it_is_out_of_time_is_out_of_time() -> None:
    """What it failed with is the cause."""
    world = World(lambda world: Workflow("wf", START >> plain(world, timeout=60)))
    error = await raised_by(world)
    assert type(error) is NodeTimeout
    assert error.__cause__ is world.error
    assert [code for _, code, _ in await world.failures()] == ["NodeTimeout"]


async def test_fail_1_an_error_beside_a_siblings_failure_is_not_stored_later() -> None:
    """The first error wins; a graph that is tried again and ends well keeps nothing of the other."""
    tries: list[int] = []

    def build(world: World) -> Workflow:
        @node
        async def first(value: Any) -> str:
            tries.append(1)
            if len(tries) == 1:
                await world.begun.wait()
                world.broken = False
                raise OSError("first")
            return "ok"

        @node
        async def second(value: Any) -> str:
            return await world.hang()

        inner = Workflow("inner", START >> (first, second) >> Join("j"), retry=Retry(max_attempts=2, initial_delay=0))
        return Workflow("wf", START >> inner >> step("z", give=lambda v: "end"))

    world = World(build)
    async with world.runner() as runner:
        outcome = await runner.run(user_id="u", session_id="s", message="hi").wait()
    assert outcome.kind == "completed"
    assert [code for _, code, _ in await world.failures()] == ["OSError", "OSError"]
