"""Activations: how anything runs under a path, pauses, hands over and is found done again (activations spec).

One mechanism for roots, sub-agents, transfer targets, children of composed agents and of tools. A place that has a
record is asked one pure question, `standing`: done, waiting, handed over, or to be entered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from hookwork.context import CallbackContext, InvocationContext
from hookwork.errors import ConfigurationError, PluginError
from hookwork.node import Pause, Standing
from hookwork.platform import new_uuid, timestamp
from hookwork.plugins.dispatch import first, first_callback, notify
from hookwork.records.content import Content
from hookwork.records.event import NO_ACTIONS, Event, NodeInfo
from hookwork.records.history import Call
from hookwork.stages import Stage, StageOutcome, stage_stream
from hookwork.state import DeltaBuffer
from hookwork.view import View, handover_place

if TYPE_CHECKING:
    from hookwork.agent import Agent
    from hookwork.invocation import Invocation

COMPLETED = "completed"

T = TypeVar("T")


def checked(value: Any, kind: type[T], plugin: str, hook: str) -> T:
    """A hook's value if it is of the kind that the hook may give. Raises PluginError."""
    if not isinstance(value, kind):
        raise PluginError(
            f"plugin {plugin!r}: {hook!r} returned {type(value).__name__}; return {kind.__name__}, "
            "or None for no opinion"
        )
    return value


class AgentOutcome:
    """How an agent call ended; what ``around_agent`` finds in ``stage.outcome.value``."""

    __slots__ = ("final_event", "open_calls", "status")

    def __init__(self, status: str, final_event: Event | None, open_calls: Sequence[Call]) -> None:
        self.status = status
        self.final_event = final_event
        self.open_calls = open_calls


class Activation:
    """One execution of an agent under a path: iterate it for its events, then read how it ended.

    Attributes:
        status: ``""`` while it runs, then ``completed``, ``paused``, ``failed`` or ``cancelled``.
        output, routes: what it gave. open_calls: what it waits for.

    Close it when you leave early: ``async with contextlib.aclosing(activation) as events``.
    """

    __slots__ = (
        "_begun",
        "_decided_by",
        "_ended",
        "_events",
        "_final",
        "_handed",
        "_info",
        "_inv",
        "_paused",
        "_raised",
        "_waits",
        "branch",
        "input",
        "isolation_scope",
        "open_calls",
        "output",
        "path",
        "routes",
        "status",
        "target",
    )

    def __init__(
        self, inv: Invocation, target: Agent, path: str, *, input: Any = None, branch: str = "", scope: str = ""
    ) -> None:
        self._inv = inv
        self.target = target
        self.path = path
        self.input = input
        self.branch = branch
        self.isolation_scope = scope
        self.status = ""
        self.output: Any = None
        self.routes: tuple[str, ...] = ()
        self.open_calls: Sequence[Call] = ()
        self._events: AsyncGenerator[Event, None] | None = None
        self._begun = False
        self._final: Event | None = None
        self._info = NodeInfo(path=path)
        self._reset()

    def _reset(self) -> None:
        self._raised: list[str] = []
        self._ended = False
        self._handed = False
        self._paused = False
        self._waits = False
        #: whose value the newest before or after stage took (tools-plugins ARD-11).
        self._decided_by = "default"

    @property
    def final_event(self) -> Event | None:
        """The newest own event of the last agent of the chain, None when none was made in this run."""
        return self._final

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        events = self._events
        if events is None:
            events = self._events = self._run()
        return events

    def __anext__(self) -> Any:
        return self.__aiter__().__anext__()

    async def aclose(self) -> None:
        """End early: the body and everything below it is closed and awaited."""
        if self._events is not None:
            await self._events.aclose()

    # --- the loop over hand-overs -------------------------------------------------------------------------------------

    async def _run(self) -> AsyncGenerator[Event, None]:
        while (events := self.next_entry()) is not None:
            try:
                async for event in events:
                    yield event
            finally:
                await events.aclose()

    def next_entry(self) -> AsyncGenerator[Event, None] | None:
        """The events of the next agent call of the chain, to be read to their end and closed; None when it is over.

        For a consumer that loops over the calls itself: one generator less for each event to pass than iterating.
        """
        inv = self._inv
        if self._begun:
            if not self._handed:
                return None
            self._hand_over()
        while True:
            path = self.path
            record = None
            if inv.known or path in inv.entered:
                record = inv.history().record(inv.invocation_id, path)
            if record is not None and (settled := self._stands()) is not None:
                if settled:
                    return None
                continue
            inv.entered.add(path)
            if record is not None:  # an activation keeps its recorded branch and scope (ACT-16)
                self.branch, self.isolation_scope = record.branch or self.branch, record.scope or self.isolation_scope
            self._begun = True
            return self._enter(record is not None)

    def _stands(self) -> bool | None:
        """Apply the standing of a place with a record: True = over, False = gone on elsewhere, None = to be entered."""
        view = View(self._inv, self._inv.invocation_id, self.path)
        standing = self.target.standing(view)
        if standing is Standing.DONE:
            self.status = COMPLETED
            self.output = self.target.output(view)
            return True
        if standing is Standing.WAITING:
            self.status = "paused"
            self.open_calls = view.open_calls
            return True
        if standing is Standing.HANDED:
            self._hand_over()
            return False
        return None

    def _hand_over(self) -> None:
        """Go on at the transfer target; a loop, because recursion would end after a few hundred transfers (ACT-17)."""
        record = self._inv.history().record(self._inv.invocation_id, self.path)
        assert record is not None
        self.target, self.path = handover_place(self._inv, self.path, record)
        self.input = None
        self._info = NodeInfo(path=self.path)
        self._reset()

    # --- one entry ----------------------------------------------------------------------------------------------------

    def _enter(self, resuming: bool) -> AsyncGenerator[Event, None]:
        inv = self._inv
        chain = inv.hooks.around_agent
        if not chain and inv.tracer is None:
            return self._call(resuming, None)
        stage = Stage("agent")
        ctx = self._callback_context(resuming, None)

        def body() -> AsyncGenerator[Event, None]:
            if not chain:
                return self._call(resuming, stage)
            return stage_stream(chain, (ctx, self.target), stage, lambda: self._call(resuming, stage))

        if inv.tracer is None:
            return body()
        from hookwork.telemetry import start_span, traced_stream

        name, attributes = self.target.span()
        span = start_span(inv.tracer, name, {**attributes, "gen_ai.conversation.id": inv.session_id})
        return traced_stream(span, body(), inv)

    def _callback_context(self, resuming: bool, buffer: DeltaBuffer | None) -> CallbackContext:
        inv = self._inv
        return CallbackContext(
            inv,
            self.target,
            self.branch,
            self.isolation_scope,
            self.path,
            buffer=buffer,
            place=f"agent/{inv.user_messages}",
            resuming=resuming,
        )

    async def _call(self, resuming: bool, stage: Stage | None) -> AsyncGenerator[Event, None]:
        """One agent call in order (core AGT-10)."""
        inv, target = self._inv, self.target
        try:
            if inv.hooks.before_agent or target.before_agent:
                event, answered = await self._callback_event("before_agent", resuming, end=True)
                if event is not None:
                    yield event
                if answered:
                    self.status = COMPLETED
                    self._finish_stage(stage)
                    return
            if not inv.ended:
                ctx = self._body_context(resuming)
                events = self._events_of(ctx)
                left = False
                try:
                    async for event in events:
                        left = True
                        yield (
                            event
                            if type(event) is Event and event.partial and event.node_info
                            else self._own(event, ctx)
                        )
                        left = False
                except GeneratorExit as error:
                    if left:
                        raise
                    # Raised by code below, it would pass for a consumer that leaves.
                    raise RuntimeError(f"GeneratorExit was raised inside agent {target.name!r}") from error
                except Pause:
                    self._paused = True
                except BaseExceptionGroup as group:
                    errors = group.split(Pause)[1]  # of a task group that ended by nothing but pauses: none (ASK-7)
                    if errors is not None:
                        raise errors from None
                    self._paused = True
                finally:
                    if hasattr(events, "aclose"):  # a plain iterator has none
                        await events.aclose()
                    ctx.close()
            if not inv.ended:
                standing = self._settle_status(resuming)
                event = await self._after(resuming, standing)
                if event is not None:
                    yield event
            elif not self.status:
                self.status = COMPLETED
            if self.status == "paused" and self._raised and inv.hooks.on_pause:
                await self._tell_pause(resuming)
            self._finish_stage(stage)
        except Exception as error:
            self.status = "failed"
            self._forget_unsettled()
            if inv.hooks.on_agent_error:
                seen_from = self._callback_context(resuming, None)
                await notify(inv.hooks.on_agent_error, "on_agent_error", seen_from, target, error)
            raise
        except (asyncio.CancelledError, GeneratorExit):
            self.status = "cancelled"
            self._forget_unsettled()
            raise

    def _events_of(self, ctx: InvocationContext) -> Any:
        """The agent's own work; a live activation asks for another one."""
        return self.target.body(ctx)

    def _forget_unsettled(self) -> None:
        """The call is over early: writes on an event that nobody took up can no longer be stored (INV-6)."""
        inv = self._inv
        if inv.unsettled and self._final is not None:
            for buffer in inv.unsettled.pop(self._final.id, ()):
                inv.live.discard(buffer)

    def _finish_stage(self, stage: Stage | None) -> None:
        if stage is not None:
            value = AgentOutcome(self.status, self._final, self.open_calls)
            stage.outcome = StageOutcome(value, source=self._decided_by)

    def _body_context(self, resuming: bool) -> InvocationContext:
        inv = self._inv
        return InvocationContext(
            inv,
            self.target,
            self.branch,
            self.isolation_scope,
            self.path,
            buffer=DeltaBuffer(),
            place=f"agent/{inv.user_messages}",
            resuming=resuming,
            activation=self,
            input=self.input,
        )

    def _own(self, event: Event, ctx: InvocationContext) -> Event:
        """An event of the body on its way out: completed, noted, with the artifacts the body saved."""
        if not isinstance(event, Event):
            raise ConfigurationError(
                f"the body of agent {self.target.name!r} yielded {type(event).__name__}; yield Event objects, e.g. "
                "Event(content=text_content('hello'))"
            )
        event = self._completed(event)
        if not event.partial:
            self._note(event)
            ctx.hand_over_writes(event)
        return event

    def _completed(self, event: Event) -> Event:
        """An event with everything set that its body left unset (core AGT-17)."""
        info = event.node_info
        changes: dict[str, Any] = {}
        if not event.author:
            by_user = event.content is not None and event.content.role == "user"
            changes["author"] = "user" if by_user else self.target.name
        if not event.id:
            changes["id"] = new_uuid()
        if not event.timestamp:
            changes["timestamp"] = timestamp()
        if not event.invocation_id:
            changes["invocation_id"] = self._inv.invocation_id
        if self.branch and not event.branch:
            changes["branch"] = self.branch
        if self.isolation_scope and not event.isolation_scope:
            changes["isolation_scope"] = self.isolation_scope
        if info is None:
            changes["node_info"] = self._info
        elif not info.path:
            changes["node_info"] = info.replace(path=self.path)
        return event.replace(**changes) if changes else event

    def _note(self, event: Event) -> None:
        """Remember what decides how this call ends."""
        info = event.node_info
        own = info is not None and info.path == self.path
        if event.long_running_tool_ids:
            self._waits = True
            if own:
                self._raised.extend(event.long_running_tool_ids)
        if not own:
            if info is not None and info.output_for and self.path in info.output_for:
                self._ended, self.output = True, event.output
            return
        self._final = event
        if event.actions.transfer_to_agent:
            self._handed = True
        if event.output is not None or event.routes or (info is not None and info.status == COMPLETED):
            self._ended = True
            self.output = event.output
            self.routes = event.routes

    def _settle_status(self, resuming: bool) -> Standing:
        """How the call ended, from stored events; without any when nothing can wait and the end was seen (ACT-12)."""
        inv = self._inv
        maybe_waiting = self._paused or self._waits or inv.session.log.has_scopes
        if resuming and not maybe_waiting:  # an end of this entry counts unless a call of an earlier one is open
            maybe_waiting = not self._ended or bool(View(inv, inv.invocation_id, self.path).open_calls)
        handed, self._handed = self._handed, False
        if not maybe_waiting and not handed and (self._ended or not self.target.derives_end):
            self.status = COMPLETED
            return Standing.DONE
        view = View(inv, inv.invocation_id, self.path)
        standing = self.target.standing(view)
        if standing is Standing.HANDED:
            self._handed = True
            return standing
        self.open_calls = view.open_calls
        if self.open_calls or standing is Standing.WAITING or (self._paused and standing is not Standing.DONE):
            self.status = "paused"
            return Standing.WAITING
        self.status = COMPLETED
        if self.target.derives_end and not self._ended:
            self.output = self.target.output(view)
        return Standing.DONE

    async def _after(self, resuming: bool, standing: Standing) -> Event | None:
        """``after_agent``'s event, or the end marker of a body that gave no end (ACT-14 c)."""
        inv, target = self._inv, self.target
        due = standing is Standing.DONE and not self._ended and not target.derives_end
        event: Event | None = None
        if inv.hooks.after_agent or target.after_agent:
            event, _ = await self._callback_event("after_agent", resuming, end=due)
        if event is None and due:
            info = NodeInfo(path=self.path, status=COMPLETED)
            event = self._completed(Event(author=target.name, node_info=info))
        return event

    async def _callback_event(self, hook: str, resuming: bool, *, end: bool) -> tuple[Event | None, bool]:
        """Run a before or after stage; (its event or None, whether a content was given) (core AGT-11 … AGT-15).

        ``end``: a content is the activation's end. A before stage without content is none.
        """
        inv, target = self._inv, self.target
        buffer = DeltaBuffer()
        ctx = self._callback_context(resuming, buffer)
        content: Content | None = None
        try:
            chain = getattr(inv.hooks, hook)
            decided = await first(chain, hook, ctx, target) if chain else None
            if decided is not None:
                content = checked(decided[0], Content, decided[1], hook)
                self._decided_by = decided[1]
            else:
                content = await first_callback(getattr(target, hook), ctx)
                if content is not None and not isinstance(content, Content):
                    raise ConfigurationError(
                        f"agent {target.name!r}: a {hook} callback returned {type(content).__name__}; return Content, "
                        "or None for no opinion"
                    )
                if content is not None:
                    self._decided_by = "agent"
        except BaseException:
            inv.live.discard(buffer)
            raise
        buffer.closed = True
        if content is None and not buffer:
            return None, False
        stamped = end and (content is not None or hook == "after_agent")
        event = self._completed(
            Event(
                author=target.name,
                content=content,
                node_info=NodeInfo(path=self.path, status=COMPLETED) if stamped else self._info,
                actions=NO_ACTIONS,
            )
        )
        if content is not None:
            self._final = event
        return inv.attach(event, buffer), content is not None

    async def _tell_pause(self, resuming: bool) -> None:
        inv = self._inv
        own = [call for call in self.open_calls if call.path == self.path and call.id in self._raised]
        if own:
            ctx = self._callback_context(resuming, None)
            await notify(inv.hooks.on_pause, "on_pause", ctx, own)
