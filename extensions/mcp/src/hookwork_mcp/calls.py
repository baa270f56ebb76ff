"""Which tool call a server means when it asks something back.

Newer protocol versions ask within the call, in its context; older ones ask anywhere on the session, and then it can
only be told when a single call is under way on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_own: ContextVar[tuple[Calls, Any] | None] = ContextVar("hookwork_mcp_call", default=None)


class Calls:
    """The calls under way on one session."""

    def __init__(self) -> None:
        self._contexts: list[Any] = []

    @contextmanager
    def made_by(self, ctx: Any) -> Iterator[None]:
        """While a call goes on."""
        self._contexts.append(ctx)
        token = _own.set((self, ctx))
        try:
            yield
        finally:
            _own.reset(token)
            self._contexts.remove(ctx)

    def current(self) -> Any:
        """The context of the call that the server asks about, None when it cannot be told."""
        own = _own.get()
        if own is not None and own[0] is self:
            return own[1]
        return self._contexts[0] if len(self._contexts) == 1 else None
