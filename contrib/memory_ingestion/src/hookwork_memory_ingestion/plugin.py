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
TAKEN = ("session", "events")
#: State key by which a run asks to be remembered; it is never stored.
ASKED = "temp:remember"


class MemoryIngestion(Plugin):
    """Adds the session to memory after runs. By itself the kit never does (core CTX-3).

    Args:
        every: after each so many turns of a session; a turn is a message of the user that is no answer to a call.
        take: ``session``: the session as a whole. ``events``: the events of each run, as they come, with a flush after
            every so many turns; for services that gather events (Memory Bank), and for long sessions.
        on_demand: only runs that were asked to: in which the state key ``temp:remember`` was set to something true, by
            a tool, a callback or the caller's ``state_delta``. ``every`` does not count then.
        outcomes: of which runs: those that ended in one of these ways.
        name: the plugin's name.

    A memory service that fails is logged; the run keeps its outcome. Without a memory service every run logs that.

    Raises:
        ConfigurationError: ``every`` is no whole number from 1, or an unknown outcome or word for ``take``.
    """

    def __init__(
        self,
        *,
        every: int = 1,
        outcomes: Iterable[str] = ("completed",),
        take: str = "session",
        on_demand: bool = False,
        name: str = "memory_ingestion",
    ) -> None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ConfigurationError(f"plugin {name!r}: every is a whole number from 1, not {every!r}")
        self._outcomes = (outcomes,) if isinstance(outcomes, str) else tuple(outcomes)
        for outcome in self._outcomes:
            if outcome not in OUTCOMES:
                raise ConfigurationError(f"plugin {name!r}: outcomes are of {', '.join(OUTCOMES)}, not {outcome!r}")
        if take not in TAKEN:
            raise ConfigurationError(f"plugin {name!r}: take is one of {', '.join(TAKEN)}, not {take!r}")
        if not isinstance(on_demand, bool):
            raise ConfigurationError(f"plugin {name!r}: on_demand is true or false, not {on_demand!r}")
        self.name = name
        self._every = every
        self._events = take == "events"
        self._on_demand = on_demand

    async def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
        if outcome.kind not in self._outcomes:
            return
        due = bool(ctx.state.get(ASKED)) if self._on_demand else turns(ctx.session) % self._every == 0
        if self._events and (due or not self._on_demand):
            said = [event for event in ctx.session.live_events if event.invocation_id == ctx.invocation_id]
            await ctx.add_events_to_memory(said, flush=due)
        elif due:
            await ctx.add_session_to_memory()


def turns(session: Session) -> int:
    """Messages of the user in a session, answers to calls left out; any process counts alike."""
    messages = (event for event in session.live_events if event.author == "user" and event.content is not None)
    return sum(1 for event in messages if not event.function_responses)
