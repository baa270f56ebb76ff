"""The life of one run, from taking its session to after_run (core §3.1)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any

from hookwork.activation import COMPLETED, Activation, checked
from hookwork.context import InvocationContext
from hookwork.control import RunControl
from hookwork.ending import end_run
from hookwork.entry import Entry, decide
from hookwork.ephemeral import EphemeralScope
from hookwork.errors import (
    LimitExceeded,
    SessionAlreadyExistsError,
    SessionNotFoundError,
)
from hookwork.incoming import check_new_session, check_resumable, take_message
from hookwork.invocation import Invocation, RunConfig
from hookwork.platform import new_uuid, timestamp
from hookwork.plugins.dispatch import first
from hookwork.policy import locks_of
from hookwork.records.content import Content, user_content
from hookwork.records.deleted import delta_of, with_delta
from hookwork.records.event import Event, NodeInfo, is_human_input
from hookwork.records.session import Session
from hookwork.run import RunOutcome, check_message
from hookwork.stages import Stage, StageOutcome, stage_stream
from hookwork.state import Settled
from hookwork.storing import append_event
from hookwork.telemetry import active_tracer, watched
from hookwork.waiting import find_task, find_waiting

if TYPE_CHECKING:
    from hookwork.runner import Runner
    from hookwork.services import SessionService


logger = logging.getLogger("hookwork.runner")


class RunCore(RunControl):
    """What a run's generator works on."""

    __slots__ = (
        "config",
        "entry",
        "ephemeral",
        "final",
        "given_id",
        "inv",
        "invocation_id",
        "message",
        "rerun",
        "runner",
        "session",
        "session_id",
        "spans",
        "state_delta",
        "user_id",
        "yield_user_message",
    )

    def __init__(
        self,
        runner: Runner,
        *,
        user_id: str,
        session_id: str,
        message: Content | None,
        invocation_id: str | None,
        rerun: frozenset[str],
        state_delta: Mapping[str, Any] | None,
        config: RunConfig,
        ephemeral: EphemeralScope,
        yield_user_message: bool,
    ) -> None:
        super().__init__()
        self.runner = runner
        self.user_id = user_id
        self.session_id = session_id
        self.message = message
        #: what the caller gave; `invocation_id` is what was decided.
        self.given_id = self.invocation_id = invocation_id
        self.rerun = rerun
        self.state_delta = state_delta
        self.config = config
        self.ephemeral = ephemeral
        self.yield_user_message = yield_user_message
        self.inv: Invocation | None = None
        self.session: Session | None = None
        self.entry: Entry | None = None
        self.final: Event | None = None
        self.spans: list[Any] = []

    # --- the life of the run ------------------------------------------------------------------------------------------

    async def events(self) -> AsyncGenerator[Event, None]:
        """The whole run, from taking the session to after_run (core §3.1)."""
        runner = self.runner
        self.loop = asyncio.get_running_loop()
        outer = self.enter()
        runner.remember(self)
        key = (runner.app_name, self.user_id, self.session_id)
        locks = None
        try:
            await runner.open()
            locks = locks_of(runner.sessions)
            await locks.acquire(key, self, runner.session_policy)
            inv = await self._begin()
            stage = Stage("run")
            leaving: BaseException | None = None
            chain = inv.hooks.around_run
            ctx = self._run_context(inv)
            stream = (
                self._body(inv, ctx, stage)
                if not chain
                else stage_stream(chain, (ctx,), stage, lambda: self._body(inv, ctx, stage))
            )
            try:
                try:
                    async for event in stream:
                        self.leave_to(outer)
                        yield event
                        outer = self.enter()
                except GeneratorExit:
                    self.note_how_left()
                    outer = self.enter()
                    raise
                finally:
                    await stream.aclose()
            except BaseException as error:  # noqa: BLE001 - every way out ends in after_run, then goes on
                leaving = error
            self.ending = True
            await end_run(self, inv, ctx, leaving)
            if leaving is not None and not isinstance(leaving, GeneratorExit):
                raise leaving
        except BaseException as error:
            if not self._is_settled_by_stop(error):
                raise
        else:
            if self.stop_sent and self._take_back_stop():
                raise asyncio.CancelledError
        finally:
            if locks is not None:
                locks.release(key, self)
            if self.outcome is None:
                self.outcome = RunOutcome("closed", reason=self.stop_reason or "left")
            if self.inv is not None:
                self.inv.run = None  # no cycle is left: reference counting frees the run
            self._finish()
            runner.forget(self)
            self.leave_to(outer)

    def _is_settled_by_stop(self, error: BaseException) -> bool:
        """Fix the outcome of a run that leaves by an error; True when the error is our own stop's doing (HND-4)."""
        others_cancelled = self._take_back_stop() if self.stop_sent else isinstance(error, asyncio.CancelledError)
        stopped = bool(self.stop_reason) and not others_cancelled
        if self.outcome is None:  # it met no hook: the run's context was never built (RUN-23)
            if stopped or isinstance(error, asyncio.CancelledError):
                self.outcome = RunOutcome("closed", reason=self.stop_reason or "cancelled")
            else:
                self.outcome = RunOutcome("failed", error=error)
        if not stopped or self.outcome.kind != "closed" or not isinstance(error, Exception | asyncio.CancelledError):
            return False
        if isinstance(error, Exception):
            logger.warning("run %s was stopped; its teardown raised %r", self.invocation_id, error, exc_info=error)
        return True

    async def _begin(self) -> Invocation:
        """Session, entry and invocation context (RUN-10 … RUN-13)."""
        runner, tracer = self.runner, active_tracer()
        of_services = tracer if self.config.trace_services else None
        sessions = watched(runner.sessions, "sessions", of_services)
        session = self.session = await self._open_session(sessions)
        self.message = self._take_secrets(session, self.message)
        entry = self._decide(session, self.message, self.given_id)
        inv = Invocation(
            app_name=runner.app_name,
            user_id=self.user_id,
            session=session,
            invocation_id=entry.invocation_id,
            sessions=sessions,
            artifacts=watched(runner.artifacts, "artifacts", of_services),
            memory=watched(runner.memory, "memory", of_services),
            hooks=runner.hooks,
            config=self.config,
            ephemeral=self.ephemeral,
            user_content=self.message,
            setup=runner.setup,
            known=entry.known,
            rerun=self.rerun,
            tracer=tracer,
            run=self,
        )
        self.inv = inv
        self._take(inv, entry)
        if self.message is None:
            check_resumable(inv, entry)
        return inv

    def _take(self, inv: Invocation, entry: Entry) -> None:
        self.entry = entry
        self.invocation_id = inv.invocation_id = entry.invocation_id
        inv.known = entry.known
        inv.user_messages = 0 if self.message is None else 1
        if entry.known:
            session = inv.session
            first = session.history().invocations.get(entry.invocation_id, 0)
            since = session.live_events if session.log.has_rewinds else session.events[first:]
            inv.user_messages += sum(
                1
                for event in since
                if event.content is not None and event.invocation_id == entry.invocation_id and is_human_input(event)
            )

    def _take_secrets(self, session: Session, message: Content | None) -> Content | None:
        """The message as it may be stored and shown: credentials in it go to the ephemeral scope alone (AUTH-32)."""
        if message is None or not message.function_responses:
            return message
        from hookwork.credentials import take_answers

        return take_answers(session, message, self.ephemeral)

    def _decide(self, session: Session, message: Content | None, given_id: str | None) -> Entry:
        runner = self.runner
        entry = decide(
            session,
            runner.tree,
            message,
            invocation_id=given_id,
            rerun=self.rerun,
            routing=runner.routing,
            find_waiting=lambda: find_waiting(session, runner.setup),
            find_task=lambda: find_task(session, runner.setup),
        )
        if entry.agent is runner.tree.root:
            entry.agent.check_root()
        return entry

    async def _open_session(self, sessions: SessionService) -> Session:
        runner = self.runner
        try:
            return await sessions.get_session(
                app_name=runner.app_name, user_id=self.user_id, session_id=self.session_id
            )
        except SessionNotFoundError:
            if not runner.auto_create_session:
                raise
            check_new_session(self.session_id, self.message, self.given_id)
        try:
            return await sessions.create_session(
                app_name=runner.app_name, user_id=self.user_id, session_id=self.session_id
            )
        except SessionAlreadyExistsError:  # another process was quicker
            return await sessions.get_session(
                app_name=runner.app_name, user_id=self.user_id, session_id=self.session_id
            )

    def _run_context(self, inv: Invocation) -> InvocationContext:
        assert self.entry is not None
        return InvocationContext(inv, self.entry.agent, place=f"run/{inv.user_messages}")

    async def _body(self, inv: Invocation, ctx: InvocationContext, stage: Stage) -> AsyncGenerator[Event, None]:
        """What lies inside ``around_run``; sets outcome and stage outcome, however it is left."""
        try:
            for event in await take_message(self, inv, ctx):
                if self.yield_user_message:
                    yield event
            assert self.entry is not None
            answer = await first(inv.hooks.before_run, "before_run", ctx) if inv.hooks.before_run else None
            if answer is not None:
                info = NodeInfo(path=self.entry.path, status=COMPLETED)
                content = checked(answer[0], Content, answer[1], "before_run")
                event = self._answer_event(inv, content, info)
                yield await self._store(inv, ctx, event)
                self.outcome = self._outcome(COMPLETED)
            elif self.entry.held and self.entry.waiting is not None:
                delegations = inv.session.open_delegations
                calls = self.entry.waiting.open_calls
                self.outcome = self._outcome("paused", open_calls=calls, open_delegations=delegations)
            else:
                activation = Activation(inv, self.entry.agent, self.entry.path)
                while (events := activation.next_entry()) is not None:
                    try:
                        async for event in events:
                            if self.stop_sent:  # a body that swallowed the cancellation says nothing more (HND-4)
                                raise asyncio.CancelledError
                            if event.partial:
                                if inv.hooks.on_event:
                                    event = await self._filter(inv, ctx, event)
                                yield event
                            else:
                                yield await self._store(inv, ctx, event)
                    finally:
                        await events.aclose()
                self._conclude(inv, activation)
            stage.outcome = StageOutcome(self.outcome, source=answer[1] if answer is not None else "default")
        except BaseException as error:
            self.conclude_error(inv, error)
            stage.outcome = StageOutcome(self.outcome, error=error)
            raise

    # --- message ------------------------------------------------------------------------------------------------------

    def replace_message(self, inv: Invocation, ctx: InvocationContext, value: Any, plugin: str) -> None:
        """Go on with another message; where the run enters is decided again (RUN-14)."""
        message = user_content(checked(value, Content, plugin, "on_user_message"))
        check_message(message)
        message = self._take_secrets(inv.session, message) or message
        before = self.entry
        entry = self._decide(inv.session, message, self.given_id)
        if before is not None and not before.known and not entry.known:
            entry.invocation_id = before.invocation_id  # hooks have seen this id already
        self.message = inv.user_content = message
        self._take(inv, entry)
        ctx.enter_at(entry.agent, f"run/{inv.user_messages}")

    # --- events -------------------------------------------------------------------------------------------------------

    def _answer_event(self, inv: Invocation, content: Content, info: NodeInfo) -> Event:
        assert self.entry is not None
        return Event(
            id=new_uuid(),
            timestamp=timestamp(),
            invocation_id=inv.invocation_id,
            author=self.entry.agent.name,
            content=content,
            node_info=info,
        )

    async def _filter(self, inv: Invocation, ctx: InvocationContext, event: Event) -> Event:
        """``on_event``: a replacement keeps what identifies the event (RUN-20)."""
        replaced = await first(inv.hooks.on_event, "on_event", ctx, event)
        if replaced is None or replaced[0] is event:
            return event
        new = checked(replaced[0], Event, replaced[1], "on_event")
        return new.replace(
            id=event.id,
            invocation_id=event.invocation_id,
            timestamp=event.timestamp,
            author=event.author,
            branch=event.branch,
            isolation_scope=event.isolation_scope,
            node_info=event.node_info,
            long_running_tool_ids=event.long_running_tool_ids,
            actions=new.actions.replace(compaction=event.actions.compaction)
            if new.actions.compaction is not event.actions.compaction
            else new.actions,
        )

    async def _store(self, inv: Invocation, ctx: InvocationContext, event: Event) -> Event:
        """Settle, ``on_event``, append; the stored form (RUN-19)."""
        info = event.node_info
        if info is not None and info.message_as_output and event.output is not None and event.content is not None:
            event = event.replace(output=None)
        if event.actions.compaction is not None:  # the framework's own to set (CMP-9)
            event = event.replace(actions=event.actions.replace(compaction=None))
        if inv.live.check is not None:
            inv.live.check_delta(delta_of(event))
        buffers = inv.unsettled.pop(event.id, None) if inv.unsettled else None
        settled: Settled | None = None
        if buffers is not None or event.actions.state_delta:
            settled = inv.live.settle(buffers or (), delta_of(event))
            event = _with_settled(event, settled)
        if self.config.custom_metadata:
            event = event.replace(custom_metadata={**self.config.custom_metadata, **(event.custom_metadata or {})})
        if inv.hooks.on_event:
            try:
                filtered = await self._filter(inv, ctx, event)
                if inv.live.check is not None and filtered is not event:
                    inv.live.check_delta(delta_of(filtered))
            except BaseException:
                if settled is not None:
                    inv.live.drop(settled)
                raise
            if delta_of(filtered) != delta_of(event):
                if settled is not None:
                    inv.live.drop(settled)
                settled = inv.live.settle((), delta_of(filtered))
            event = filtered
        stored = await self.append(inv, event, settled)
        if stored.is_final_response():
            self.final = stored
        return stored

    async def append(self, inv: Invocation, event: Event, settled: Settled | None = None) -> Event:
        """Append through the write effect; what cannot be stored leaves the live state (DLT-7, RUN-21)."""
        assert inv.sessions is not None
        try:
            if inv.hooks.perform_write or inv.live.rules:
                stored = await append_event(inv, event)
            else:
                stored = await inv.sessions.append_event(inv.session, event)
        except BaseException:
            if settled is not None:
                inv.live.drop(settled)
            raise
        if settled is not None:
            inv.live.appended(settled)
        return stored

    # --- end ----------------------------------------------------------------------------------------------------------

    def _outcome(self, kind: str, **more: Any) -> RunOutcome:
        inv = self.inv
        assert inv is not None
        return RunOutcome(kind, invocation_id=inv.invocation_id, final_event=self.final, usage=inv.usage, **more)

    def _conclude(self, inv: Invocation, activation: Activation) -> None:
        if self.stop_sent:
            raise asyncio.CancelledError
        if inv.unsettled:
            self._forget_unsettled(inv)
        if inv.ended:
            self.outcome = self._outcome("ended", reason=inv.end_reason)
            return
        delegations = inv.session.open_delegations
        if activation.status == "paused":
            calls, tasks = activation.open_calls, [task.path for task in inv.session.open_tasks]
            by_task_only = not calls and (delegations or tasks) and activation.target.conversational
            kind = COMPLETED if by_task_only else "paused"
            self.outcome = self._outcome(kind, open_calls=calls, open_delegations=delegations, open_tasks=tasks)
            return
        self.outcome = self._outcome(COMPLETED, output=activation.output, open_delegations=delegations)

    def conclude_error(self, inv: Invocation, error: BaseException) -> None:
        if self.stop_reason or isinstance(error, GeneratorExit | asyncio.CancelledError):
            left = isinstance(error, GeneratorExit) and not self.abandoned
            reason = self.stop_reason or ("left" if left else "cancelled")
            self.outcome = self._outcome("closed", reason=reason)
        elif isinstance(error, LimitExceeded):
            self.outcome = self._outcome("limit", error=error, reason=str(error))
        else:
            self.outcome = self._outcome("failed", error=error)
        self._forget_unsettled(inv)

    @staticmethod
    def _forget_unsettled(inv: Invocation) -> None:
        """Writes whose event never came out can no longer be stored (INV-6)."""
        for buffers in inv.unsettled.values():
            for buffer in buffers:
                inv.live.discard(buffer)
        inv.unsettled.clear()

    def end_spans(self) -> None:
        """End spans of a run that was dropped, innermost first (HND-3)."""
        while self.spans:
            span = self.spans.pop()
            if span.is_recording():
                span.end()


def _with_settled(event: Event, settled: Settled) -> Event:
    actions, artifacts = event.actions, settled.artifacts
    if actions.artifact_delta:
        artifacts = {**artifacts}
        for name, version in actions.artifact_delta.items():
            artifacts[name] = max(version, artifacts.get(name, version))
    return with_delta(event, settled.delta, artifact_delta=artifacts)
