"""Cost in instructions of the interpreter, which no other work on the machine changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import CodeType, FrameType
from typing import Any


class Steps:
    """Instructions that were carried out in the code that was watched."""

    count = 0


@contextmanager
def _traced(folders: tuple[str, ...]) -> Iterator[Steps]:
    """By the trace function, as Python 3.11 has nothing else."""
    steps = Steps()

    def in_frame(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode":
            steps.count += 1
        return in_frame

    def on_call(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(folders):
            return None
        frame.f_trace_opcodes = True
        return in_frame

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        yield steps
    finally:
        sys.settrace(before)


@contextmanager
def _monitored(folders: tuple[str, ...]) -> Iterator[Steps]:
    """By `sys.monitoring`: from Python 3.12 on a trace function misses opcodes of code that runs for the first time."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    steps = Steps()

    def on_instruction(code: CodeType, offset: int) -> Any:
        if not code.co_filename.startswith(folders):
            return monitoring.DISABLE
        steps.count += 1
        return None

    tool = monitoring.PROFILER_ID
    monitoring.use_tool_id(tool, "counted_in")
    monitoring.register_callback(tool, monitoring.events.INSTRUCTION, on_instruction)
    monitoring.restart_events()
    monitoring.set_events(tool, monitoring.events.INSTRUCTION)
    try:
        yield steps
    finally:
        monitoring.set_events(tool, monitoring.events.NO_EVENTS)
        monitoring.register_callback(tool, monitoring.events.INSTRUCTION, None)
        monitoring.free_tool_id(tool)


_count: Callable[[tuple[str, ...]], AbstractContextManager[Steps]] = (
    _monitored if sys.version_info >= (3, 12) else _traced
)


def counted_in(*folders: str) -> AbstractContextManager[Steps]:
    """Count what is carried out in files below these folders while the block runs (on 3.11: in this thread)."""
    return _count(folders)
