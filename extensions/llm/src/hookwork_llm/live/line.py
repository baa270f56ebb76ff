"""One connection: hooks around it, history, reading and sending at once (core LIVE-7, models LIVE-13)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

from hookwork.errors import LiveConnectionClosed, ModelError
from hookwork.inside import invocation_of
from hookwork.live import LiveConnection, LiveRunConfig, without_audio
from hookwork.model import ModelRequest
from hookwork.model_streams import not_a_response
from hookwork.records.metadata import ModelResponse
from hookwork.stages import InContext, Stage, StageOutcome, around_call
from hookwork_llm.live.inbox import Answered, Inbox, LineDown, LineUp, Received
from hookwork_llm.model_stage import CallIds, ModelStage

if TYPE_CHECKING:
    from hookwork_llm.live.outbox import Outbox
    from hookwork_llm.live.server_calls import ServerCalls

T = TypeVar("T")


class Line(ModelStage):
    """A connection and the model stage around it; `run` is the work of a task.

    ``before_model`` runs once, ``after_model`` for each server message, ``around_model`` spans the connection.
    """

    __slots__ = ("_config", "_connection", "_history", "_inbox", "_last", "_outbox", "_server_calls", "hook_failed")

    def __init__(
        self,
        agent: Any,
        model: Any,
        request: ModelRequest,
        ctx: Any,
        *,
        config: LiveRunConfig,
        history: bool,
        inbox: Inbox,
        outbox: Outbox,
        server_calls: ServerCalls,
    ) -> None:
        super().__init__(agent, model, request, ctx, stream=False)
        self._config = config
        #: whether the request's contents are told first; not on a connection that resumes.
        self._history = history
        self._inbox = inbox
        self._outbox = outbox
        self._last: ModelResponse | None = None
        self._connection: LiveConnection | None = None
        #: what ended the line was raised by a hook, not by the model: no case for ``on_model_error`` (core MCB-2).
        self.hook_failed = False
        self._server_calls = server_calls

    async def run(self) -> None:
        """Open the connection and keep it until it is lost; what ended it goes into the inbox as `LineDown`."""
        try:
            await self._traced_stage()
        except Exception as error:  # noqa: BLE001 - the session judges it
            self._inbox.post(LineDown(error))
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            self._inbox.post(LineDown(self._stray_error(error)))

    @property
    def session_id(self) -> str:
        """What the service calls the session of this connection, ``""`` when it does not say."""
        return self._connection.session_id if self._connection is not None else ""

    async def recovered(self, error: Exception) -> ModelResponse:
        """What ``on_model_error`` makes of the error that ends the session; without a value the error goes on."""
        return await self._recovered(error)

    # --- stages around the connection ---------------------------------------------------------------------------------

    async def _traced_stage(self) -> None:
        tracer = invocation_of(self.ctx).tracer
        if tracer is None:
            await self._stage()
            return
        from hookwork.telemetry import record_error, span_context, start_span

        span = start_span(
            tracer,
            f"generate_content {self.request.model or self.model.name}",
            {
                "gen_ai.operation.name": "generate_content",
                "gen_ai.provider.name": self.model.capabilities.provider or None,
                "gen_ai.request.model": self.request.model or self.model.name,
                "gen_ai.conversation.id": invocation_of(self.ctx).session_id,
            },
        )
        try:
            await InContext(span_context(span), self._stage())
        except Exception as error:
            record_error(span, error)
            raise
        finally:
            span.end()

    async def _stage(self) -> None:
        chain = invocation_of(self.ctx).hooks.around_model
        if not chain:
            await self._connected()
            return
        self.stage = stage = Stage("model")

        async def body() -> None:
            try:
                await self._connected()
            finally:
                stage.outcome = StageOutcome(self._last, source=self.source)

        await around_call(chain, (self.ctx, self.request), stage, body, own_task=True)

    async def _connected(self) -> None:
        hooks, agent = invocation_of(self.ctx).hooks, self.agent
        if hooks.before_model or agent.before_model:
            answer = await self._hooked(self._decided("before_model", self.ctx, self.request))
            if answer is not None:
                self._last = answer
                self._inbox.post(Answered(answer))
                self._inbox.post(LineDown(None))
                return
        self._ids = CallIds(self._waits)
        async with self.model.connect(self.request, self._config) as connection:
            self._connection = connection
            contents = without_audio(self.request.contents) if self._history else []
            if contents:
                await connection.send_history(contents)
            self._inbox.post(LineUp())
            await self._talk(connection)

    async def _hooked(self, deciding: Awaitable[T]) -> T:
        try:
            return await deciding
        except Exception:
            self.hook_failed = True
            raise

    # --- the connection -----------------------------------------------------------------------------------------------

    async def _talk(self, connection: LiveConnection) -> None:
        """Read and send at once, until one of the two ends."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._guarded(self._read(connection)))
                group.create_task(self._guarded(self._outbox.send_to(connection)))
        except BaseExceptionGroup as errors:
            raise _first(errors) from None

    async def _guarded(self, work: Any) -> None:
        """A task of the group, which would take a stray CancelledError for its own end and wait for the other one."""
        try:
            await work
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            raise self._stray_error(error) from error

    async def _read(self, connection: LiveConnection) -> None:
        has_after = bool(invocation_of(self.ctx).hooks.after_model or self.agent.after_model)
        async with aclosing(_messages(connection)) as messages:
            async for message in messages:
                if not isinstance(message, ModelResponse):
                    raise not_a_response(self.model, message)
                self._outbox.note(message)
                response = self._with_ids(message)
                if has_after:
                    response = await self._hooked(self._after(response))
                self._last = response
                await self._inbox.offer(Received(response))
        raise LiveConnectionClosed(
            f"model {self.model.name!r} ended the live connection",
            close_code=1000,
            provider=self.model.capabilities.provider,
            model=self.model.name,
        )

    def _with_ids(self, message: ModelResponse) -> ModelResponse:
        """A message with an id on every call; what the server called them is remembered for the answers (MCB-6)."""
        content = message.content
        if content is None or not content.function_calls:
            return message
        named = self._ids.apply(message)
        assert named.content is not None
        for given, own in zip(content.function_calls, named.content.function_calls, strict=True):
            self._server_calls.made(own.id or "", given.id)
        return named

    def _stray_error(self, error: BaseException) -> ModelError:
        failed = ModelError(
            f"model {self.model.name!r}: its client was cancelled from within; try again",
            provider=self.model.capabilities.provider,
            model=self.model.name,
            kind="connection",
            retryable=True,
        )
        failed.__cause__ = error
        return failed


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _first(errors: BaseExceptionGroup[Any]) -> BaseException:
    """The error that ended a connection; of reader and sender the one with a close code, which says more."""
    flat: list[BaseException] = []
    for error in errors.exceptions:
        flat.append(_first(error) if isinstance(error, BaseExceptionGroup) else error)
    return next((error for error in flat if isinstance(error, LiveConnectionClosed)), flat[0])


async def _messages(connection: LiveConnection) -> AsyncGenerator[ModelResponse, None]:
    source: Any = connection.receive()
    try:
        async for message in source:
            yield message
    finally:
        if hasattr(source, "aclose"):
            await source.aclose()
