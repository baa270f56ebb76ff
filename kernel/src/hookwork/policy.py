"""Two runs on one session: queue, reject or supersede (core POL).

The table hangs on the session service object, so all runners that share the service share it; nothing is global.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from hookwork.errors import ConfigurationError, SessionBusyError

if TYPE_CHECKING:
    from hookwork.runner import Run

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

    async def acquire(self, key: tuple[str, str, str], owner: Run | object, policy: str) -> None:
        """Hold a session for ``owner``. Raises SessionBusyError by policy or to avoid a deadlock (POL-3, POL-5)."""
        line = self._lines.get(key)
        if line is None:
            self._lines[key] = _Line(owner)
            return
        await self._make_way(line, owner, policy)
        line = self._lines.get(key)
        if line is None:
            self._lines[key] = _Line(owner)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.waiting.append((turn, owner))
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.release(key, owner)  # the turn came while we were cancelled: pass it on
            else:
                line.waiting.remove((turn, owner))
            raise

    async def _make_way(self, line: _Line, owner: Any, policy: str) -> None:
        holder = line.holder
        if policy == "reject":
            raise SessionBusyError(
                f"session {owner.session_id!r} is held by another run and the session policy is 'reject'; "
                "wait for that run, or use session_policy='queue'"
            )
        inside = getattr(holder, "runs_inside_caller", None)
        if inside is not None and inside():
            raise SessionBusyError(
                f"a run on session {owner.session_id!r} was started from inside a run on the same session and would "
                "wait for itself; use another session, or ctx.activate for a child"
            )
        left_behind = getattr(holder, "left_by_caller", None)
        if left_behind is not None and left_behind():
            await holder.close()  # the caller broke out of its last run on this session and starts the next one
        elif policy == "supersede" and hasattr(holder, "stop"):
            await holder.stop(reason="superseded")

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
