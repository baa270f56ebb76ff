"""What the `hookwork` command owes the process it runs in: standard streams at the start, a timely end."""

from __future__ import annotations

import os
import sys
import threading
import time

#: Seconds that threads get to end by themselves: idle ones of a closed pool take about a millisecond.
GRACE = 0.2

#: How the threads of a runner's pool for blocking tools are named.
_TOOL_THREADS = "hookwork-"


def open_streams() -> None:
    """Put the null device where the shell closed a standard stream (``>&-``): Python then has None there, and the next
    file that is opened, a database say, would get the descriptor of that stream."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _occupy(descriptor)
            stream = open(descriptor, "w" if descriptor else "r", encoding="utf-8", closefd=False)  # noqa: SIM115 - it stays open
            setattr(sys, name, stream)


def _occupy(descriptor: int) -> None:
    """Open the null device under a number that is closed."""
    try:
        os.fstat(descriptor)
    except OSError:
        opened = os.open(os.devnull, os.O_RDWR)
        if opened != descriptor:
            os.dup2(opened, descriptor)
            os.close(opened)


def leave(code: int) -> None:
    """End the process now if a thread of a blocking tool is still busy; else return, and let it end as it would.

    A thread cannot be stopped, and the interpreter would wait for it. By now every runner is closed, so nobody waits
    for what it gives: it ends with the process, after stderr said so, exit handlers ran and streams were flushed.
    """
    busy = _busy_threads()
    if not busy:
        return
    import atexit
    import logging

    what = "a blocking tool is" if len(busy) == 1 else f"{len(busy)} blocking tools are"
    print(f"{what} still busy and ends with this process; an async tool could be stopped", file=sys.stderr)
    atexit._run_exitfuncs()
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # the reader is gone; the exit code still tells
    os._exit(code)


def _busy_threads() -> list[threading.Thread]:
    """The tool threads that do not end within the grace."""
    threads = [
        thread for thread in threading.enumerate() if thread.name.startswith(_TOOL_THREADS) and not thread.daemon
    ]
    until = time.monotonic() + GRACE
    for thread in threads:
        thread.join(max(until - time.monotonic(), 0.0))
    return [thread for thread in threads if thread.is_alive()]
