"""Closing many things although some of them fail (tools-plugins PLUG-41, core RUN-26)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Closing:
    """Closes one thing after another; what fails is raised together once everything was tried (PLUG-41)."""

    def __init__(self) -> None:
        self._failures: list[Exception] = []
        self._cancelled: asyncio.CancelledError | None = None
        self._exit: BaseException | None = None

    async def attempt(self, what: str, close: Callable[[], Any], timeout: float | None) -> None:
        """Call ``close``, awaiting what it returns for at most ``timeout`` seconds."""
        task = asyncio.current_task()
        before = task.cancelling() if task is not None else 0
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                result = close()
                if result is not None:
                    await result
        except asyncio.CancelledError as error:
            if task is not None and task.cancelling() > before:
                self._cancelled = error  # ours: raised last
            else:
                self._failures.append(RuntimeError(f"closing {what} raised a stray CancelledError"))
        except (KeyboardInterrupt, SystemExit) as error:
            self._exit = self._exit or error
        except BaseException as error:  # noqa: BLE001 - collected, raised by `raise_failures`
            error.add_note(f"while closing {what}")
            late = TimeoutError(f"{what} did not close within {timeout} s")
            self._failures.append(late if limit.expired() else error if isinstance(error, Exception) else _named(error))

    def raise_failures(self, app_name: str) -> None:
        """Raise what went wrong: the wish to exit, a cancellation, else an ExceptionGroup of all failures."""
        if self._exit is not None:
            raise self._exit
        if self._cancelled is not None:
            raise self._cancelled
        if self._failures:
            raise ExceptionGroup(f"closing the runner of app {app_name!r} failed in part", self._failures)


def _named(error: BaseException) -> RuntimeError:
    """A bare BaseException for a group of ordinary ones."""
    named = RuntimeError(repr(error))
    named.__cause__ = error
    return named
