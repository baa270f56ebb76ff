"""Around hooks and the context they live in (tools-plugins §7.1).

A stage is driven in its own copy of the context variables, so what an around hook (or a span) sets holds for the stage
and for nothing else: neither for the consumer between two events, nor for outer stages. Without around hooks and
without a recording tracer none of this runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing
from contextvars import Context, copy_context
from typing import Any, Generic, TypeVar

from hookwork.plugins.dispatch import Chain, stray

logger = logging.getLogger("hookwork.plugins")

T = TypeVar("T")

#: Seconds an around hook may take to leave a cancelled stage that has a task of its own (ARD-14).
LEAVE_TIMEOUT = 5.0


class StageOutcome:
    """How a stage ended. ``source``: ``"default"``, ``"agent"``, or the plugin that decided."""

    __slots__ = ("error", "source", "value")

    def __init__(self, value: Any = None, error: BaseException | None = None, source: str = "default") -> None:
        self.value = value
        self.error = error
        self.source = source

    def __repr__(self) -> str:
        return f"StageOutcome(value={self.value!r}, error={self.error!r}, source={self.source!r})"


class Stage:
    """What an around hook holds: the stage's kind and, once it is over, its outcome."""

    __slots__ = ("kind", "outcome")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.outcome: StageOutcome | None = None


class InContext(Generic[T]):
    """Awaits something with every step of it run in a given context."""

    __slots__ = ("_awaitable", "_context")

    def __init__(self, context: Context, awaitable: Awaitable[T]) -> None:
        self._context = context
        self._awaitable = awaitable

    def __await__(self) -> Generator[Any, Any, T]:
        run = self._context.run
        steps: Any = self._awaitable.__await__()
        throw: BaseException | None = None
        value: Any = None
        while True:
            try:
                waiting = run(steps.send, value) if throw is None else run(steps.throw, throw)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            value, throw = None, None
            try:
                value = yield waiting
            except GeneratorExit:
                run(steps.close)
                raise
            except BaseException as error:  # noqa: BLE001 - handed on into the driven code
                throw = error


async def driven(context: Context | None, stream: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """The items of a generator whose every step runs in ``context``; closing this closes it there.

    ``context`` None: a copy of the one that the first step is taken in, an enclosing stage's or span's.
    """
    if context is None:
        context = copy_context()
    try:
        while True:
            try:
                item = await InContext(context, stream.__anext__())
            except StopAsyncIteration:
                return
            yield item
    finally:
        await InContext(context, stream.aclose())


async def enter_all(chain: Chain, values: tuple[Any, ...], stage: Stage) -> list[tuple[Any, str]]:
    """Enter the around hooks in order. If one raises, those entered are left with that error (ARD-13)."""
    entered: list[tuple[Any, str]] = []
    for call, name in chain:
        try:
            manager = call(*values, stage)
            await manager.__aenter__()
        except BaseException as error:
            error.add_note(f"raised by plugin {name!r} on entering around_{stage.kind}")
            leaving = stray(error, name, f"around_{stage.kind}")
            stage.outcome = StageOutcome(error=leaving)
            await leave_all(entered, stage, leaving)
            if leaving is error:
                raise
            raise leaving from error
        entered.append((manager, name))
    return entered


async def leave_all(
    entered: list[tuple[Any, str]], stage: Stage, error: BaseException | None, *, timeout: float | None = None
) -> BaseException | None:
    """Leave the around hooks in reverse; what is to be raised afterwards, the stage's own error first (ARD-12, -13)."""
    for manager, name in reversed(entered):
        details = (type(error), error, error.__traceback__) if error is not None else (None, None, None)
        limit = asyncio.timeout(timeout if isinstance(error, asyncio.CancelledError) else None)
        try:
            async with limit:
                await manager.__aexit__(*details)
        except BaseException as raised:  # noqa: BLE001 - joined with, or becomes, the stage's error
            if raised is error:
                continue
            if limit.expired():
                logger.warning("plugin %r did not leave around_%s within %s s; abandoned", name, stage.kind, timeout)
                continue
            raised.add_note(f"raised by plugin {name!r} on leaving around_{stage.kind}")
            if error is None and (other := stray(raised, name, f"around_{stage.kind}")) is not raised:
                other.__cause__ = raised
                raised = other
            if error is None:
                error = raised
                stage.outcome = StageOutcome(error=raised, source=name)
            elif _cancelled_now(raised) and not isinstance(error, asyncio.CancelledError):
                # The task itself is being cancelled meanwhile; that must not get lost behind the stage's error.
                error = raised
            else:
                error.add_note(f"plugin {name!r} also raised on leaving around_{stage.kind}: {raised!r}")
    return error


def _cancelled_now(error: BaseException) -> bool:
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


async def around_stream(
    chain: Chain, values: tuple[Any, ...], stage: Stage, body: Callable[[], AsyncGenerator[T, None]]
) -> AsyncGenerator[T, None]:
    """A streaming stage inside its around hooks. ``body`` sets ``stage.outcome`` before it ends."""
    entered = await enter_all(chain, values, stage)
    error: BaseException | None = None
    closing = False
    try:
        async with aclosing(body()) as items:
            async for item in items:
                yield item
    except GeneratorExit:
        closing = True
        error = asyncio.CancelledError(f"around_{stage.kind}: the stage was closed early")
        if stage.outcome is not None:  # the managers and those who read the outcome see one error (ARD-14)
            stage.outcome.error = error
    except BaseException as raised:  # noqa: BLE001 - raised again below, after the managers were left
        error = raised
    if error is not None and (stage.outcome is None or stage.outcome.error is None):
        stage.outcome = StageOutcome(error=error)
    raised_last = await leave_all(entered, stage, error)
    if closing:
        for note in getattr(error, "__notes__", ()):
            logger.warning("around_%s, closed early: %s", stage.kind, note)
        return
    if raised_last is not None:
        raise raised_last


def stage_stream(
    chain: Chain, values: tuple[Any, ...], stage: Stage, body: Callable[[], AsyncGenerator[T, None]]
) -> AsyncGenerator[T, None]:
    """`around_stream` driven in a context of its own."""
    return driven(None, around_stream(chain, values, stage, body))


async def around_call(
    chain: Chain, values: tuple[Any, ...], stage: Stage, body: Callable[[], Awaitable[T]], *, own_task: bool
) -> T:
    """A stage that gives one value, inside its around hooks; it runs in the caller's context (a tool's own task)."""
    entered = await enter_all(chain, values, stage)
    error: BaseException | None = None
    result: Any = None
    try:
        result = await body()
    except BaseException as raised:  # noqa: BLE001 - raised again below
        error = raised
        if stage.outcome is None or stage.outcome.error is None:
            stage.outcome = StageOutcome(error=raised)
    thrown = error if error is not None else _stage_error(stage)
    left = await leave_all(entered, stage, thrown, timeout=LEAVE_TIMEOUT if own_task else None)
    # An error that the body answered (a tool's) was thrown in for the managers to see; it is not raised again here.
    if left is not None and (error is not None or left is not thrown):
        raise left
    return result  # type: ignore[no-any-return]


def _stage_error(stage: Stage) -> BaseException | None:
    return stage.outcome.error if stage.outcome is not None else None
