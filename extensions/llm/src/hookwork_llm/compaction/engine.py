"""Compaction at work: after a run, and before a model request (core CMP-4 … CMP-10)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hookwork.errors import CompactionError
from hookwork.inside import effect_call, invocation_of
from hookwork.plugins.dispatch import first
from hookwork.records.content import Content
from hookwork.records.event import Event
from hookwork.storing import append_event
from hookwork_llm.compaction.record import clean_summary, compaction_event, span_of, still_holds
from hookwork_llm.compaction.size import CHARS_PER_TOKEN, characters, reported_size
from hookwork_llm.compaction.timeline import Lane, Timeline
from hookwork_llm.compaction.transcript import lines_of
from hookwork_llm.compaction.windows import Fit, Window, sliding_window, tail_window
from hookwork_llm.contents import build_contents
from hookwork_llm.contents.summaries import summary_of
from hookwork_llm.contents.visibility import sees_branch

if TYPE_CHECKING:
    from hookwork.context import CallbackContext, InvocationContext
    from hookwork.invocation import Invocation
    from hookwork.model import Model
    from hookwork.run import RunOutcome
    from hookwork_llm.agent import LlmAgent
    from hookwork_llm.compaction.config import EventsCompaction
    from hookwork_llm.compaction.summarizer import Summarizer

logger = logging.getLogger("hookwork.compaction")

#: Agent name under which the summarizer's calls are counted in `run.usage` (models USE-2).
USAGE_NAME = "compaction"


class TailState:
    """What tail retention did in one run. ``armed``: the next time the prompt is too large counts."""

    __slots__ = ("armed", "busy", "done")

    def __init__(self) -> None:
        self.armed = True
        self.busy = False
        self.done = False


class Compaction:
    """The compaction of one runner. Made by `EventsCompaction.bind`."""

    def __init__(self, config: EventsCompaction, summarizer: Summarizer) -> None:
        self.config = config
        self.summarizer = summarizer

    @property
    def retains_tail(self) -> bool:
        """Whether `before_request` has anything to do."""
        return self.config.token_threshold > 0

    # --- sliding window -----------------------------------------------------------------------------------------------

    async def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> Event | None:
        """Summarise the window that is due; the stored event, None when none was (CMP-4).

        The kernel calls it after ``after_run`` of a run that did not fail and was not cancelled.

        Raises:
            CompactionError: the summary failed; nothing was stored (CMP-10).
        """
        config, inv = self.config, invocation_of(ctx)
        if not config.compaction_interval or outcome.kind in ("failed", "limit"):
            return None
        state = inv.compaction
        if state is not None and state.done:
            return None
        await _load_all(inv)
        timeline = Timeline(inv.session)
        window = sliding_window(
            timeline, interval=config.compaction_interval, overlap=config.overlap_size, fit=self._fit(timeline)
        )
        if window is None:
            return None
        try:
            return await self._compact(ctx, timeline, window, filtered=True)
        except CompactionError:
            raise
        except Exception as error:
            raise CompactionError(
                f"compaction of session {inv.session_id!r} failed: {error}; nothing was stored, and it is tried again "
                "after the next run"
            ) from error

    # --- tail retention -----------------------------------------------------------------------------------------------

    async def before_request(self, ctx: CallbackContext, agent: LlmAgent, model: Model | None) -> Event | None:
        """Summarise the older events when the next prompt is too large; the stored event, None when none was (CMP-5).

        A failure is logged and the turn goes on (CMP-10).
        """
        inv = invocation_of(ctx)
        if not self.retains_tail:
            return None
        state: TailState = inv.compaction
        if state is None:
            state = inv.compaction = TailState()
        if state.busy:  # a sibling is at it
            return None
        size = self._size(ctx, agent, model)
        if size < self.config.token_threshold or size == 0:
            state.armed = True
            return None
        if not state.armed:
            return None
        state.busy = True
        try:
            await _load_all(inv)
            timeline = Timeline(inv.session)
            window = self._tail(ctx, timeline)
            if window is None:
                return None
            state.armed = False  # a summary that fails or is declined is not asked for again at every step
            stored = await self._compact(ctx, timeline, window, filtered=False)
            state.done = state.done or stored is not None
            return stored
        except Exception:
            logger.warning(
                "compaction of session %s failed; the turn goes on uncompacted", inv.session_id, exc_info=True
            )
            return None
        finally:
            state.busy = False

    def _size(self, ctx: CallbackContext, agent: LlmAgent, model: Model | None) -> float:
        """Tokens of the next prompt (CMP-5)."""
        inv = invocation_of(ctx)
        size = reported_size(inv.session, branch=ctx.branch, scope=ctx.isolation_scope)
        if size is not None:
            return size
        contents = build_contents(
            inv.session,
            agent=agent,
            agent_name=agent.name,
            branch=ctx.branch,
            isolation_scope=ctx.isolation_scope,
            include_contents=agent.include_contents,
            pairs_by_id=model is not None and model.capabilities.pairs_calls_by_id,
            compaction=True,
            user_content=inv.user_content,
        )
        return characters(contents) / CHARS_PER_TOKEN

    def _tail(self, ctx: CallbackContext, timeline: Timeline) -> Window | None:
        inv = invocation_of(ctx)
        branch, scope = ctx.branch, ctx.isolation_scope

        def visible(lane: Lane) -> bool:
            return lane[1] == scope and sees_branch(branch, lane[0])

        events = timeline.events
        question = next((p for p in timeline.live if events[p].invocation_id == inv.invocation_id), None)
        return tail_window(
            timeline,
            visible=visible,
            retention=self.config.event_retention_size,
            question=question,
            measure=lambda position: characters_of(events[position]),
            fit=self._fit(timeline),
        )

    # --- both ---------------------------------------------------------------------------------------------------------

    def _fit(self, timeline: Timeline) -> Fit | None:
        limit = getattr(self.summarizer, "max_chars", None)
        if limit is None:
            return None
        each = getattr(self.summarizer, "max_part_chars", None) or limit
        events = timeline.events
        return Fit(limit, lambda position: sum(len(line) + 1 for line in lines_of(_shown(events[position]), each)))

    async def _compact(
        self, ctx: CallbackContext, timeline: Timeline, window: Window, *, filtered: bool
    ) -> Event | None:
        """Summarise a window and store the record, unless something happened to it meanwhile (CMP-7)."""
        inv = invocation_of(ctx)
        events = [_shown(timeline.events[position]) for position in (*window.seeds, *window.positions)]
        content, usage = await self._summary(ctx, events)
        if content is None:
            return None
        span = span_of(timeline, window)
        event = compaction_event(window, span, clean_summary(content), usage)
        if inv.config.custom_metadata:
            event = event.replace(custom_metadata=inv.config.custom_metadata)
        if filtered and inv.hooks.on_event:
            event = await _filtered(ctx, event)
        if not await self._holds(inv, timeline, window, span):
            logger.info("a summary of session %s was discarded: its events changed meanwhile", inv.session_id)
            return None
        return await append_event(inv, event)

    @staticmethod
    async def _holds(inv: Invocation, timeline: Timeline, window: Window, span: Any) -> bool:
        assert inv.sessions is not None
        fresh = await inv.sessions.get_session(app_name=inv.app_name, user_id=inv.user_id, session_id=inv.session_id)
        return still_holds(timeline, window, span, fresh)

    async def _summary(self, ctx: CallbackContext, events: Sequence[Event]) -> tuple[Content | None, Any]:
        """Ask the summarizer and count what it cost, whatever its answer is worth."""
        inv, summarizer = invocation_of(ctx), self.summarizer
        name = str(getattr(summarizer, "name", None) or type(summarizer).__name__)
        try:
            if inv.hooks.perform_model and hasattr(summarizer, "request"):
                return await _performed(ctx, summarizer, events)
            answer = summarizer.summarize(events)
            content, usage = await answer if inspect.isawaitable(answer) else answer
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling() > 0:
                raise
            # A client cancelled from within is a failed call, not the end of the run (core TOOL-3).
            raise CompactionError(f"summarizer {name!r} was cancelled from within") from error
        if content is not None or usage is not None:
            inv.usage.add(USAGE_NAME, name, usage)
        return content, usage


def characters_of(event: Event) -> int:
    """Characters of an event's content; of a compaction event, of its summary."""
    content = _shown(event).content
    return characters((content,)) if content is not None else 0


def _shown(event: Event) -> Event:
    """The event as a summarizer gets it: an earlier summary as the content of its event."""
    record = event.actions.compaction
    return event if record is None else event.replace(content=summary_of(record))


async def _filtered(ctx: CallbackContext, event: Event) -> Event:
    """``on_event`` may rewrite the words of a summary, nothing else of the record (CMP-7, CMP-9)."""
    replaced = await first(invocation_of(ctx).hooks.on_event, "on_event", ctx, event)
    record = event.actions.compaction
    assert record is not None
    if replaced is None or replaced[0] is event:
        return event
    if not isinstance(replaced[0], Event):
        raise CompactionError(f"plugin {replaced[1]!r}: 'on_event' gave {type(replaced[0]).__name__}, not an Event")
    other = replaced[0].actions.compaction
    if other is None or other.compacted_content == record.compacted_content:
        return event
    rewritten = record.replace(compacted_content=clean_summary(other.compacted_content))
    return event.replace(actions=event.actions.replace(compaction=rewritten))


async def _performed(ctx: CallbackContext, summarizer: Any, events: Sequence[Event]) -> tuple[Content | None, Any]:
    """The summarizer's model call as a model effect, so that engines and recorders carry it out too (EFF-1)."""
    from hookwork.effects import perform
    from hookwork.records.codec import dump

    inv = invocation_of(ctx)
    request = summarizer.request(events)
    data = {
        "model": summarizer.name,
        "request": {
            "model": request.model,
            "contents": [dump(content) for content in request.contents],
            "config": dump(request.config),
        },
        "stream": False,
    }
    key = f"{inv.invocation_id}/compaction/{events[0].id}/{events[-1].id}"
    response, _ = await perform(
        inv.hooks.perform_model,
        "perform_model",
        lambda then: effect_call(ctx, "model", key, data, then),
        lambda: summarizer.answer(request),
    )
    inv.usage.add(USAGE_NAME, response.model_version or summarizer.name, response.usage_metadata)
    content, usage = summarizer.read(response)
    return content, usage


async def _load_all(inv: Invocation) -> None:
    """A handle that was opened with its newest events alone gets the others: a window may begin there (LOG-9)."""
    while not inv.session.complete:
        assert inv.sessions is not None
        if not await inv.sessions.load_earlier(inv.session, 1000):
            return
