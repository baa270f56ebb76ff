"""The error of a call that no recording answers."""

from __future__ import annotations

from hookwork.errors import HookworkError


class ReplayMismatchError(HookworkError, LookupError):
    """A call was made that the file has no unused recording of, or recordings were left over (crosscutting CONF-8).

    The text shows how the call differs from the nearest recording, in its redacted form.

    Attributes:
        kind: ``model`` or ``tool``; ``run`` for recordings that were left over.
        agent: who made the call; empty for ``run``.
        nearest: number of the nearest recording in the file; None when it has none of that kind, or no numbers.
    """

    def __init__(self, message: str, *, kind: str, agent: str = "", nearest: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.agent = agent
        self.nearest = nearest
