"""Cost in instructions of the interpreter, which no other work on the machine changes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Steps:
    """Instructions that were carried out in the code that was watched."""

    count = 0


@contextmanager
def counted_in(*folders: str) -> Iterator[Steps]:
    """Count what is carried out in files below these folders while the block runs, in this thread."""
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
