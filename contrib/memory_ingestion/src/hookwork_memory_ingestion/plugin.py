"""The plugin: after a run, the memory service takes the session in (services BEY-6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hookwork import Plugin
from hookwork.errors import ConfigurationError

if TYPE_CHECKING:
    from hookwork import InvocationContext, RunOutcome, Session

#: How a run may end (core §3.0).
OUTCOMES = ("completed", "paused", "ended", "limit", "failed", "closed")


class MemoryIngestion(Plugin):
    """Adds the session to memory after runs. By itself the kit never does (core CTX-3).

    Args:
        every: after each so many turns of a session; a turn is a message of the user that is no answer to a call.
        outcomes: of which runs: those that ended in one of these ways.
        name: the plugin's name.

    A memory service that fails is logged; the run keeps its outcome. Without a memory service every run logs that.

    Raises:
        ConfigurationError: ``every`` is no whole number from 1, or an unknown outcome.
    """

    def __init__(
        self, *, every: int = 1, outcomes: Iterable[str] = ("completed",), name: str = "memory_ingestion"
    ) -> None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ConfigurationError(f"plugin {name!r}: every is a whole number from 1, not {every!r}")
        self._outcomes = (outcomes,) if isinstance(outcomes, str) else tuple(outcomes)
        for outcome in self._outcomes:
            if outcome not in OUTCOMES:
                raise ConfigurationError(f"plugin {name!r}: outcomes are of {', '.join(OUTCOMES)}, not {outcome!r}")
        self.name = name
        self._every = every

    async def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
        if outcome.kind in self._outcomes and turns(ctx.session) % self._every == 0:
            await ctx.add_session_to_memory()


def turns(session: Session) -> int:
    """Messages of the user in a session, answers to calls left out; any process counts alike."""
    messages = (event for event in session.live_events if event.author == "user" and event.content is not None)
    return sum(1 for event in messages if not event.function_responses)
