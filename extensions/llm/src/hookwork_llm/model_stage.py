"""The model call and its hooks (core §4.3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from hookwork.effects import perform
from hookwork.errors import LimitExceeded, ModelError, PluginError
from hookwork.inside import effect_call, invocation_of
from hookwork.merge import cancel_and_wait
from hookwork.model import Model, ModelRequest
from hookwork.model_streams import not_a_response, open_stream
from hookwork.platform import new_uuid
from hookwork.plugins.dispatch import first, first_callback
from hookwork.records.content import FunctionCall, Part
from hookwork.records.metadata import ModelResponse
from hookwork.stages import Stage, StageOutcome, stage_stream

if TYPE_CHECKING:
    from hookwork.context import CallbackContext
    from hookwork_llm.agent import LlmAgent

EMPTY_RESPONSE = "EMPTY_RESPONSE"


class _ShownCall:
    """A call that partial responses showed: the id the model gave it, its name, the id it goes by here."""

    __slots__ = ("given", "name", "open", "own", "used")

    def __init__(self, own: str, name: str, given: str) -> None:
        self.own = own
        self.name = name
        self.given = given
        self.open = True
        self.used = False


class CallIds:
    """Gives calls without an id one, and a second call of an id within a response (core MCB-6).

    A call keeps its id from its first partial to the final response. Partials come piece by piece (models AGG-1): each
    holds further calls, or a fragment of a call that is still open.

    ``reserved`` says which ids may not come again, because an earlier call of that id still waits: its answer would be
    taken for one to the new call.
    """

    __slots__ = ("_reserved", "_shown")

    def __init__(self, reserved: Callable[[str], bool] | None = None) -> None:
        self._reserved = reserved
        self._shown: list[_ShownCall] = []

    def _is_free(self, call_id: str) -> bool:
        return bool(call_id) and (self._reserved is None or not self._reserved(call_id))

    def apply(self, response: ModelResponse) -> ModelResponse:
        content = response.content
        if content is None:
            return response
        parts = content.parts
        for part in parts:
            if part.function_call is not None:
                break
        else:
            return response
        ids = self._of_partial(parts) if response.partial else self._of_final(parts)
        named = [_with_id(part, call_id) for part, call_id in zip(parts, ids, strict=True)]
        return response.replace(content=content.replace(parts=named))

    def _of_partial(self, parts: Sequence[Part]) -> list[str]:
        ids: list[str] = []
        for part in parts:
            call = part.function_call
            shown = self._shown_by(call) if call is not None else None
            ids.append(shown.given if shown is not None else "")
        return ids

    def _shown_by(self, call: FunctionCall) -> _ShownCall | None:
        own, name = call.id or "", call.name or ""
        fragment = call.partial_args is not None or bool(call.will_continue)
        shown = None
        if fragment:
            for known in reversed(self._shown):
                if known.open and (not own or known.own == own) and (not name or name == known.name):
                    shown = known
                    break
        elif not name:
            return None  # closes a call and is none itself (models AGG-13)
        if shown is None:
            taken = not self._is_free(own) or any(known.given == own for known in self._shown)
            shown = _ShownCall(own, name, f"adk-{new_uuid()}" if taken else own)
            self._shown.append(shown)
        shown.open = bool(call.will_continue)
        return shown

    def _of_final(self, parts: Sequence[Part]) -> list[str]:
        ids: list[str] = []
        seen: set[str] = set()
        for part in parts:
            call = part.function_call
            if call is None:
                ids.append("")
                continue
            own, name = call.id or "", call.name or ""
            call_id = own if self._is_free(own) else ""
            for known in self._shown:
                if not known.used and known.own == own and known.name == name:
                    known.used = True
                    call_id = known.given
                    break
            if not call_id or call_id in seen:
                call_id = f"adk-{new_uuid()}"
            seen.add(call_id)
            ids.append(call_id)
        return ids


def _with_id(part: Part, call_id: str) -> Part:
    call = part.function_call
    if call is None or not call_id or call.id == call_id:
        return part
    return part.replace(function_call=call.replace(id=call_id))


def says_nothing(response: ModelResponse) -> bool:
    """A finished response without anything in it (core FLOW-13)."""
    if response.partial or response.error_code or response.interrupted:
        return False
    if response.input_transcription is not None or response.output_transcription is not None:
        return False
    content = response.content
    if content is None:
        return True
    for part in content.parts:  # spelled out: this runs for every answer
        if _says(part):
            return False
    return True


def _says(part: Part) -> bool:
    text = part.text
    if text is not None:
        return (bool(text) and not text.isspace()) or part.thought_signature is not None
    return not part.is_empty()


def checked(response: ModelResponse) -> ModelResponse:
    """An empty final response gets its error code; usage and finish reason stay."""
    if says_nothing(response):
        return response.replace(
            error_code=EMPTY_RESPONSE, error_message="the model ended its turn without saying or calling anything"
        )
    return response


class ModelStage:
    """One model call: hooks, effect, model. Iterate `responses`."""

    __slots__ = (
        "_cancels",
        "_ids",
        "_task",
        "agent",
        "ctx",
        "event_id",
        "inv",
        "model",
        "plain",
        "request",
        "source",
        "stage",
        "stream",
        "used_model",
    )

    def __init__(
        self,
        agent: LlmAgent,
        model: Model,
        request: ModelRequest,
        ctx: CallbackContext,
        *,
        stream: bool,
        event_id: str = "",
    ) -> None:
        self.event_id = event_id
        self.agent = agent
        self.model = model
        self.request = request
        self.ctx = ctx
        self.inv = invocation_of(ctx)
        self.stream = stream
        self.stage: Stage | None = None
        self.source = "default"
        self.plain = False
        #: False when a hook answered instead.
        self.used_model = True

    def responses(self) -> AsyncGenerator[ModelResponse, None]:
        """Partial responses, then one whole one, through all hooks.

        When nobody listens (``plain``) this is the model's own stream: the flow then calls `polished` on each
        response, and `stray` when a CancelledError comes out of it.
        """
        inv = self.inv
        hooks, agent = inv.hooks, self.agent
        chain = hooks.around_model
        #: who drives the stage, and how often that task had been asked to cancel before.
        self._task = task = asyncio.current_task()
        self._cancels = task.cancelling() if task is not None else 0
        self.plain = not (
            chain
            or inv.tracer is not None
            or hooks.before_model
            or hooks.after_model
            or hooks.on_model_error
            or hooks.perform_model
            or agent.before_model
            or agent.after_model
            or agent.on_model_error
        )
        if self.plain:
            inv.count_llm_call()
            self._ids = CallIds(self._waits)
            return open_stream(self.model, self.request, stream=self.stream)
        if not chain:
            return self._staged()
        self.stage = stage = Stage("model")
        return stage_stream(chain, (self.ctx, self.request), stage, self._staged)

    def _waits(self, call_id: str) -> bool:
        """Whether a call of an id is open, whoever made it, or one of this agent's has no real response yet."""
        for call in self.inv.history().unanswered.values():
            if call.id == call_id:
                last = call.last_response
                if call.is_open or (call.author == self.agent.name and (last is None or last.placeholder)):
                    return True
        return False

    @property
    def was_cancelled(self) -> bool:
        """Whether the task that drives the stage had been asked to cancel before it began."""
        return self._cancels > 0

    def polished(self, response: ModelResponse) -> ModelResponse:
        """A response of a plain stage with its call ids, and its error code when it says nothing."""
        if not isinstance(response, ModelResponse):
            raise not_a_response(self.model, response)
        if response.content is not None:
            response = self._ids.apply(response)
        return response if response.partial else checked(response)

    def stray(self, error: asyncio.CancelledError) -> ModelError | None:
        """A CancelledError that the model's own client let escape, as a model error; None when it is ours (TOOL-3)."""
        task = asyncio.current_task()
        if task is None or task.cancelling() > (self._cancels if task is self._task else 0):
            return None
        failed = ModelError(
            f"model {self.model.name!r}: its client was cancelled from within; try again",
            provider=self.model.capabilities.provider,
            model=self.model.name,
            kind="connection",
            retryable=True,
        )
        failed.__cause__ = error
        return failed

    async def _staged(self) -> AsyncGenerator[ModelResponse, None]:
        inv, ctx, request, agent = self.inv, self.ctx, self.request, self.agent
        hooks = inv.hooks
        if self._cancels:
            await asyncio.sleep(0)  # a cancellation that was asked for before comes here: it is not the model's
        if hooks.before_model or agent.before_model:
            answer = await self._decided("before_model", ctx, request)
            if answer is not None:
                self.used_model = False
                answer = checked(CallIds(self._waits).apply(answer))
                self._finish(answer)
                yield answer
                return
        has_after = bool(hooks.after_model or agent.after_model)
        final: ModelResponse | None = None
        ids = CallIds(self._waits)
        async with aclosing(self._effect()) as source:
            while True:
                try:
                    response = await anext(source)
                    if not isinstance(response, ModelResponse):
                        raise not_a_response(self.model, response)
                    if response.content is not None:
                        response = ids.apply(response)
                except StopAsyncIteration:
                    break
                except LimitExceeded:
                    raise  # a used-up budget is no failure of the model that a hook could answer
                except Exception as error:  # noqa: BLE001 - on_model_error decides; without it the error goes on
                    response = await self._recovered(error)
                except asyncio.CancelledError as error:
                    failed = self.stray(error)
                    if failed is None:
                        raise
                    response = await self._recovered(failed)
                if not response.partial:
                    response = checked(response)
                    final = response
                if has_after:
                    response = await self._after(response)
                    if not response.partial:
                        final = response
                        self._finish(final)
                yield response
        if not has_after and final is not None:
            self._finish(final)

    def _finish(self, final: ModelResponse) -> None:
        if self.stage is not None:
            self.stage.outcome = StageOutcome(final, source=self.source)

    async def _decided(self, hook: str, *values: Any) -> ModelResponse | None:
        chain = getattr(self.inv.hooks, hook)
        decided = await first(chain, hook, *values) if chain else None
        if decided is not None:
            answer, self.source = decided
        else:
            answer = await first_callback(getattr(self.agent, hook), *values)
            if answer is not None:
                self.source = "agent"
        if answer is not None and not isinstance(answer, ModelResponse):
            who = f"agent {self.agent.name!r}" if self.source == "agent" else f"plugin {self.source!r}"
            raise PluginError(
                f"{who}: {hook} returned {type(answer).__name__}; return a ModelResponse, or None for no opinion"
            )
        return answer

    async def _recovered(self, error: Exception) -> ModelResponse:
        """What ``on_model_error`` makes of an error; without a value the error goes on (MCB-3)."""
        hooks = self.inv.hooks
        if hooks.on_model_error or self.agent.on_model_error:
            answer = await self._decided("on_model_error", self.ctx, self.request, error)
            if answer is not None:
                return CallIds(self._waits).apply(answer)
        raise error

    async def _after(self, response: ModelResponse) -> ModelResponse:
        replaced = await self._decided("after_model", self.ctx, self.request, response)
        if replaced is None:
            return response
        inherited: dict[str, Any] = {
            name: getattr(response, name)
            for name in ("partial", "turn_complete", "usage_metadata")
            if getattr(replaced, name) is None and getattr(response, name) is not None
        }
        return replaced.replace(**inherited) if inherited else replaced

    # --- the effect ---------------------------------------------------------------------------------------------------

    def _effect(self) -> AsyncGenerator[ModelResponse, None]:
        """The model call, in place or through the effect hook, under a span when somebody traces."""
        inv = self.inv
        if inv.hooks.perform_model:
            source = self._performed()
        else:
            inv.count_llm_call()
            source = open_stream(self.model, self.request, stream=self.stream)
        return source if inv.tracer is None else self._traced(source)

    async def _traced(self, source: AsyncGenerator[ModelResponse, None]) -> AsyncGenerator[ModelResponse, None]:
        """The model call alone, without its callbacks; the span ends before the answer is handed on (TEL-12)."""
        from hookwork.telemetry import start_span, traced_stream

        inv = self.inv
        span = start_span(
            inv.tracer,
            f"generate_content {self.request.model or self.model.name}",
            {
                "gen_ai.operation.name": "generate_content",
                "gen_ai.provider.name": self.model.capabilities.provider or None,
                "gen_ai.request.model": self.request.model or self.model.name,
                "gen_ai.conversation.id": inv.session_id,
                "gen_ai.agent.name": self.agent.name,
                "gcp.vertex.agent.invocation_id": inv.invocation_id,
                "gcp.vertex.agent.event_id": self.event_id or None,
            },
        )
        async with aclosing(traced_stream(span, source, inv)) as items:
            async for response in items:
                if not isinstance(response, ModelResponse):
                    raise not_a_response(self.model, response)
                if not response.partial and span.is_recording():
                    _describe_response(span, response)
                    span.end()
                yield response

    async def _performed(self) -> AsyncGenerator[ModelResponse, None]:
        """The model through the effect hook: partials come by ``call.emit``, the final one is its result (EFF-4)."""
        from hookwork.records.codec import dump

        partials: asyncio.Queue[ModelResponse | None] = asyncio.Queue()
        request = {
            "model": self.request.model,
            "contents": [dump(content) for content in self.request.contents],
            "config": dump(self.request.config),
        }
        data = {"model": self.model.name, "request": request, "stream": self.stream}
        ctx = self.ctx

        async def run() -> ModelResponse:
            try:
                result, self.source = await perform(
                    self.inv.hooks.perform_model,
                    "perform_model",
                    lambda then: effect_call(ctx, "model", ctx.idempotency_key, data, then, partials.put_nowait),
                    lambda: self._carried_out(partials),
                )
                if not isinstance(result, ModelResponse):
                    raise PluginError(
                        f"plugin {self.source!r}: perform_model returned {type(result).__name__}; "
                        "return a ModelResponse"
                    )
                return result
            finally:
                partials.put_nowait(None)

        task = asyncio.ensure_future(run())
        try:
            while (partial := await partials.get()) is not None:
                yield partial
            yield await task
        finally:
            if not task.done():
                await cancel_and_wait([task])

    async def _carried_out(self, partials: asyncio.Queue[ModelResponse | None]) -> ModelResponse:
        """The model call here and now, each time a plugin asks for it; every one counts (FLOW-4, FLOW-13)."""
        self.inv.count_llm_call()
        final: ModelResponse | None = None
        ids = CallIds(self._waits)
        async with aclosing(open_stream(self.model, self.request, stream=self.stream)) as stream:
            async for response in stream:
                if not isinstance(response, ModelResponse):
                    raise not_a_response(self.model, response)
                response = ids.apply(response)
                if response.partial:
                    partials.put_nowait(response)
                else:
                    final = response
        if final is None:
            raise ModelError(
                f"model {self.model.name!r} gave no response", model=self.model.name, kind="stream", retryable=True
            )
        return final


def _describe_response(span: Any, response: ModelResponse) -> None:
    usage = response.usage_metadata
    if response.finish_reason:
        span.set_attribute("gen_ai.response.finish_reasons", [response.finish_reason.lower()])
    if usage is None:
        return
    output = None
    if usage.candidates_token_count is not None or usage.thoughts_token_count is not None:
        output = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    for name, value in (
        ("gen_ai.usage.input_tokens", usage.prompt_token_count),
        ("gen_ai.usage.output_tokens", output),
        ("gen_ai.usage.cache_read.input_tokens", usage.cached_content_token_count),
        ("gen_ai.usage.reasoning.output_tokens", usage.thoughts_token_count),
    ):
        if value is not None:
            span.set_attribute(name, value)
