"""The handle of a live run and the life behind it (core §3.6). Loaded by `Runner.run_live`, never by a normal run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any

from hookwork.activation import COMPLETED, Activation, checked
from hookwork.artifacts import save_blobs
from hookwork.credentials import take_answers
from hookwork.entry import decide
from hookwork.ephemeral import EphemeralScope
from hookwork.errors import (
    ConfigurationError,
    InvalidResumeResponse,
    NothingToResume,
    RunStateError,
    ValidationError,
)
from hookwork.invocation import RunConfig
from hookwork.lifecycle import RunCore
from hookwork.live import LiveRunConfig, check_content, live_request
from hookwork.live_channel import LiveChannel
from hookwork.platform import new_uuid, timestamp
from hookwork.plugins.dispatch import first
from hookwork.records.content import Content, user_content
from hookwork.records.event import NO_ACTIONS, Event, EventActions, NodeInfo
from hookwork.run import Run
from hookwork.stages import StageOutcome

if TYPE_CHECKING:
    from hookwork.context import InvocationContext
    from hookwork.invocation import Invocation
    from hookwork.runner import Runner
    from hookwork.stages import Stage

logger = logging.getLogger("hookwork.runner")


class LiveRun(Run):
    """A live run: a `Run` that also takes input while it goes on (core LIVE-1).

        async with runner.run_live(user_id="u", session_id="s", config=LiveRunConfig()) as run:
            await run.send("hello")
            async for event in run:
                ...

    Iterate in one task and `send` from any other of the same loop. The iterator ends after `close`, when the agent is
    done, or with an error when the connection is lost for good.
    """

    __slots__ = ()

    _core: LiveCore

    async def __aenter__(self) -> LiveRun:
        return self

    async def send(self, request: Any) -> None:
        """Send text, a Content, a list of Parts, a Blob, ActivityStart, ActivityEnd or a LiveRequest.

        Returns when it is queued, not when it was sent; waits only for room, when much realtime input is queued.
        Contents are stored in the session and sent in order; answers to open calls close them (core RES-7).

        Raises:
            RunStateError: the run was closed or is over, or no agent listens (between the children of a sequence).
            ValidationError: nothing that can be sent. NothingToResume, InvalidResumeResponse: an answer to no call.
        """
        await self._core.channel.send(live_request(request))

    async def close(self) -> None:
        """No more input: what was sent is handed on, then the session ends and the iterator with it. Idempotent."""
        self._core.channel.close()


def start_live_run(
    runner: Runner, *, user_id: str, session_id: str, config: Any, ephemeral: Mapping[str, Any] | None
) -> LiveRun:
    """The handle of a live run; nothing happens before it is iterated. Raises ConfigurationError: no live config."""
    if not isinstance(config, LiveRunConfig):
        raise ConfigurationError(f"a live run needs config=LiveRunConfig(…), not {config!r}")
    return LiveRun(LiveCore(runner, user_id=user_id, session_id=session_id, config=config, ephemeral=ephemeral))


def _run_config(config: LiveRunConfig, default: RunConfig) -> RunConfig:
    """What contexts of a live run see as their RunConfig: the runner's, with what the live settings say."""
    return RunConfig(
        save_input_blobs_as_artifacts=default.save_input_blobs_as_artifacts,
        max_llm_calls=default.max_llm_calls if config.max_llm_calls is None else config.max_llm_calls,
        custom_metadata=default.custom_metadata if config.custom_metadata is None else dict(config.custom_metadata),
    )


class LiveActivation(Activation):
    """An agent call that runs the agent's live body (core LIVE-7)."""

    __slots__ = ("ends_by_tool", "live")

    def __init__(
        self, inv: Invocation, target: Any, path: str, channel: LiveChannel, *, ends_by_tool: bool = False, **place: Any
    ) -> None:
        super().__init__(inv, target, path, **place)
        #: what the sending side and the live body share.
        self.live = channel
        #: the agent is given a tool with which it says that it is done (core LIVE-20).
        self.ends_by_tool = ends_by_tool

    def _events_of(self, ctx: InvocationContext) -> Any:
        return self.target.live_body(ctx)


def activate_live(ctx: InvocationContext, target: Any, *, segment: str, ends_by_tool: bool = False) -> LiveActivation:
    """Run a child live under the place of a live body's context, on the same channel.

    Raises:
        UnsupportedInContext: ``ctx`` is not that of a live body.
    """
    return LiveActivation(
        ctx._inv,
        target,
        f"{ctx.path}/{segment}",
        channel_of(ctx),
        ends_by_tool=ends_by_tool,
        branch=ctx.branch,
        scope=ctx.isolation_scope,
    )


def channel_of(ctx: InvocationContext) -> LiveChannel:
    """The channel of the live run that a body works for. Raises UnsupportedInContext outside one."""
    activation = ctx.activation
    if not isinstance(activation, LiveActivation):
        from hookwork.errors import UnsupportedInContext

        raise UnsupportedInContext("this body was not entered by a live run; use runner.run_live(...)")
    return activation.live


class LiveCore(RunCore):
    """What a live run's generator works on."""

    __slots__ = ("channel", "hook_context")

    live = True

    def __init__(
        self,
        runner: Runner,
        *,
        user_id: str,
        session_id: str,
        config: LiveRunConfig,
        ephemeral: Mapping[str, Any] | None,
    ) -> None:
        super().__init__(
            runner,
            user_id=user_id,
            session_id=session_id,
            message=None,
            invocation_id=None,
            rerun=frozenset(),
            state_delta=None,
            config=_run_config(config, runner.config),
            ephemeral=EphemeralScope(ephemeral),
            yield_user_message=False,
        )
        self.channel = LiveChannel(config, take=self._take_content, judge=self._judge)
        self.hook_context: InvocationContext | None = None

    def _finish(self) -> None:
        self.channel.end()
        super()._finish()

    async def _begin(self) -> Invocation:
        inv = await super()._begin()
        assert self.entry is not None
        agent = self.entry.agent
        try:
            agent.check_live()
            if self.channel.config.save_live_blob and inv.artifacts is None:
                raise ConfigurationError(
                    "save_live_blob needs an artifact service; give the runner one, e.g. Runner(..., "
                    "artifacts='memory:')"
                )
        except BaseException:
            self.inv = None  # its context was never built: no hook is owed (RUN-22)
            raise
        return inv

    async def _body(self, inv: Invocation, ctx: InvocationContext, stage: Stage) -> AsyncGenerator[Event, None]:
        """What lies inside ``around_run``: ``before_run``, then the agent's live body (LIVE-2)."""
        self.hook_context = ctx
        assert self.entry is not None
        try:
            answer = await first(inv.hooks.before_run, "before_run", ctx) if inv.hooks.before_run else None
            if answer is not None:
                self.channel.close()
                info = NodeInfo(path=self.entry.path, status=COMPLETED)
                content = checked(answer[0], Content, answer[1], "before_run")
                yield await self._store(inv, ctx, self._answer_event(inv, content, info))
                self.outcome = self._outcome(COMPLETED)
            else:
                activation = LiveActivation(inv, self.entry.agent, self.entry.path, self.channel)
                try:
                    async for event in activation:
                        if self.stop_sent:
                            raise asyncio.CancelledError
                        if is_stored(event):
                            yield await self._store(inv, ctx, event)
                        else:
                            yield await self._filter(inv, ctx, event) if inv.hooks.on_event else event
                finally:
                    await activation.aclose()
                self._conclude(inv, activation)
            stage.outcome = StageOutcome(self.outcome, source=answer[1] if answer is not None else "default")
        except BaseException as error:
            self.conclude_error(inv, error)
            stage.outcome = StageOutcome(self.outcome, error=error)
            raise

    async def _store(self, inv: Invocation, ctx: InvocationContext, event: Event) -> Event:
        final = self.final
        stored = await super()._store(inv, ctx, event)
        if not is_answer(stored):
            self.final = final
        return stored

    # --- what is sent -------------------------------------------------------------------------------------------------

    def _judge(self, content: Content) -> None:
        """Refuse answers to nothing before they are queued (RES-7). Raises what `decide` raises."""
        if self.session is not None and content.function_responses:
            self._answers(take_answers(self.session, content, EphemeralScope(None)))  # credentials: taken when stored

    def _answers(self, content: Content) -> list[tuple[str, Content]]:
        """The usable answers of a content, by isolation scope."""
        assert self.session is not None
        tree = self.runner.tree
        entry = decide(self.session, tree, content, invocation_id=None, rerun=frozenset(), routing=self.runner.routing)
        if self.inv is not None and entry.known and entry.invocation_id != self.inv.invocation_id:
            raise ValidationError(
                f"the answer is for a call of invocation {entry.invocation_id!r}, which is not this live run's; answer "
                "it with runner.run(message=…). Nothing was stored."
            )
        return list(entry.messages)

    async def _take_content(self, content: Content, scope: str) -> Content | None:
        """``on_user_message``, then the user's event is stored; the content as it is to be sent, None: nothing is."""
        inv, ctx = self.inv, self.hook_context
        assert inv is not None
        assert ctx is not None
        assert self.entry is not None
        try:
            content = self._without_secrets(inv, content)
        except (NothingToResume, InvalidResumeResponse) as error:
            _tell_dropped(error)
            return None
        inv.user_messages += 1
        ctx.enter_at(self.entry.agent, f"run/{inv.user_messages}")
        if inv.hooks.on_user_message:
            replaced = await first(inv.hooks.on_user_message, "on_user_message", ctx, content)
            if replaced is not None:
                content = check_content(user_content(checked(replaced[0], Content, replaced[1], "on_user_message")))
                content = self._without_secrets(inv, content)
        messages: list[tuple[str, Content]] = [(scope, content)]
        if content.function_responses:
            try:
                messages = self._answers(content)
            except (NothingToResume, InvalidResumeResponse, ValidationError) as error:
                _tell_dropped(error)
                return None
        parts: list[Any] = []
        for scope, message in messages:
            parts.extend((await self._store_message(inv, scope, message)).parts)
        inv.user_content = content.replace(parts=parts)
        return inv.user_content

    def _without_secrets(self, inv: Invocation, content: Content) -> Content:
        """A content as it may be stored, shown and sent; credentials in it go to the ephemeral scope (AUTH-32)."""
        return take_answers(inv.session, content, self.ephemeral) if content.function_responses else content

    async def _store_message(self, inv: Invocation, scope: str, content: Content) -> Content:
        actions = NO_ACTIONS
        if self.config.save_input_blobs_as_artifacts and inv.artifacts is not None:
            content, versions = await save_blobs(inv, content)
            if versions:
                actions = EventActions(artifact_delta=versions)
        await self.append(
            inv,
            Event(
                id=new_uuid(),
                timestamp=timestamp(),
                invocation_id=inv.invocation_id,
                author="user",
                content=content,
                actions=actions,
                isolation_scope=scope,
                custom_metadata=self.config.custom_metadata,
            ),
        )
        return content


def _tell_dropped(error: Exception) -> None:
    """An answer was answered meanwhile by another one, or was sent before anybody could judge it."""
    logger.warning("an answer sent to a live run was dropped: %s", error)


def is_stored(event: Event) -> bool:
    """Whether an event of a live run goes into the session: whole, and without inline data (core LIVE-6)."""
    if event.partial:
        return False
    content = event.content
    return content is None or not any(part.inline_data is not None for part in content.parts)


def is_answer(event: Event) -> bool:
    """Whether an event of a live run may be its final response: something the model said, or an error."""
    if event.error_code or event.output_transcription is not None:
        return True
    content = event.content
    return content is not None and content.role != "user" and any(part.file_data is None for part in content.parts)


__all__ = [
    "LiveActivation",
    "LiveChannel",
    "LiveRun",
    "RunStateError",
    "activate_live",
    "channel_of",
    "is_answer",
    "is_stored",
]
