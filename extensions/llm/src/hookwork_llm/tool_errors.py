"""What a tool call raised, as an error for hooks and model (tools-plugins TL-21)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from hookwork.errors import ToolError

logger = logging.getLogger("hookwork.tools")


def error_text(error: BaseException) -> str:
    """What the model is told about an error: a ToolError's own message, else type and message (TL-21)."""
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an error that cannot say what it is must not take the place of the answer
        return kind
    if isinstance(error, ToolError):
        return text or kind
    return f"{kind}: {text}" if text else kind


def told(
    raised: BaseException, name: str, task: asyncio.Task[Any] | None, *, ended: Callable[[], bool] | None = None
) -> Exception:
    """What was raised in a call's ``task``, as an error for hooks and model; what must leave the batch is re-raised.

    A `CancelledError` that nobody asked for, and a panic of an extension module, which is no `Exception`, are errors
    of the tool like others (TL-21). ``ended`` says whether the call is being ended from outside: where nobody else can
    cancel its task, a tool that does so itself is told like any other (CASE-TOOL-7). None: the task's count decides.
    """
    if isinstance(raised, Exception):
        return raised
    if isinstance(raised, asyncio.CancelledError):
        if _cancelled_by_us(ended):
            raise raised
        logger.warning("tool %r let a CancelledError escape that nobody asked for", name)
        error = ToolError(f"{name} was cancelled from within: {raised}".rstrip(": "))
    else:
        if _ends_the_process(raised) or (isinstance(raised, GeneratorExit) and not _runs(task)):
            raise raised
        logger.warning("tool %r raised; the model is told", name, exc_info=raised)
        error = ToolError(error_text(raised))
    error.__cause__ = raised
    return error


def _ends_the_process(raised: BaseException) -> bool:
    fatal = (KeyboardInterrupt, SystemExit)
    return isinstance(raised, fatal) or (isinstance(raised, BaseExceptionGroup) and raised.subgroup(fatal) is not None)


def _runs(task: asyncio.Task[Any] | None) -> bool:
    """Whether a task is the one that runs now; the coroutine of a task that was thrown away is closed elsewhere."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # no loop runs
        return False


def _cancelled_by_us(ended: Callable[[], bool] | None) -> bool:
    task = asyncio.current_task()
    if task is None or ended is None:
        return task is None or task.cancelling() > 0
    if ended():
        return True
    while task.cancelling():  # the tool cancelled its own task: its hooks are not to be taken for cancelled ones
        task.uncancel()
    return False
