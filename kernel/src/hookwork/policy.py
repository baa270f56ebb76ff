"""Two runs on one session: queue, reject or supersede (core POL).

The table hangs on the session service object, so all runners that share the service share it; nothing is global.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any

from hookwork.control import RunControl
from hookwork.errors import ConfigurationError, SessionBusyError

POLICIES = ("queue", "reject", "supersede")


class _Line:
    """Who holds a session and who waits for it, first come first served."""

    __slots__ = ("holder", "waiting")

    def __init__(self, holder: Any) -> None:
        self.holder = holder
        self.waiting: deque[tuple[asyncio.Future[None], Any]] = deque()


class SessionLocks:
    """One entry per session that is held; removed when nobody holds or waits (POL-6)."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str, str], _Line] = {}

    def __len__(self) -> int:
        return len(self._lines)

    async def acquire(self, key: tuple[str, str, str], owner: Any, policy: str) -> None:
        """Hold a session for ``owner``. Raises SessionBusyError by policy or to avoid a deadlock (POL-3, POL-5)."""
        while (line := self._lines.get(key)) is not None:
            if not await self._make_way(line.holder, owner, policy):
                await self._wait_in_line(key, line, owner)
                return
        self._lines[key] = _Line(owner)

    async def _wait_in_line(self, key: tuple[str, str, str], line: _Line, owner: Any) -> None:
        if any(getattr(ahead, "live", False) for _, ahead in line.waiting):
            raise SessionBusyError(f"a live run waits for session {owner.session_id!r} already; use another session")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.waiting.append((turn, owner))
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.release(key, owner)  # the turn came while we were cancelled: pass it on
            else:
                with contextlib.suppress(ValueError):  # `release` may have passed over it already
                    line.waiting.remove((turn, owner))
            raise

    async def _make_way(self, holder: Any, owner: Any, policy: str) -> bool:
        """End the holder where that is due; False when it has to be waited for."""
        if not isinstance(holder, RunControl):
            if policy == "reject":
                raise self._busy(owner)
            return False
        if holder.runs_inside_caller():
            raise SessionBusyError(
                f"a run on session {owner.session_id!r} was started from inside a run on the same session and would "
                "wait for itself; use another session, or ctx.activate for a child"
            )
        if holder.left_by_caller():
            await holder.close()  # the caller broke out of its last run on this session and starts the next one
        elif policy == "reject":
            raise self._busy(owner)
        elif policy == "supersede":
            await holder.stop(reason="superseded")
        elif holder.live:
            raise SessionBusyError(
                f"session {owner.session_id!r} is held by a live run, whose end nobody can tell; close it first, "
                "use session_policy='supersede', or another session"
            )
        else:
            return False
        return True

    @staticmethod
    def _busy(owner: Any) -> SessionBusyError:
        return SessionBusyError(
            f"session {owner.session_id!r} is held by another run and the session policy is 'reject'; "
            "wait for that run, or use session_policy='queue'"
        )

    def release(self, key: tuple[str, str, str], owner: Any) -> None:
        """Give the session up; the next in line gets it."""
        line = self._lines.get(key)
        if line is None or line.holder is not owner:
            return
        while line.waiting:
            turn, following = line.waiting.popleft()
            if not turn.done():
                line.holder = following
                turn.set_result(None)
                return
        del self._lines[key]


def locks_of(service: Any) -> SessionLocks:
    """The table of a session service object."""
    locks = service.__dict__.get("_hookwork_session_locks")
    if locks is None:
        locks = service.__dict__["_hookwork_session_locks"] = SessionLocks()
    return locks  # type: ignore[no-any-return]


def check_policy(policy: str) -> str:
    """A known policy name, or ConfigurationError."""
    if policy not in POLICIES:
        raise ConfigurationError(f"session_policy is one of {', '.join(POLICIES)}, not {policy!r}")
    return policy
