"""The model call and its hooks (core §4.3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from hookwork.effects import perform
from hookwork.errors import ModelError
from hookwork.model import Model, ModelRequest
from hookwork.platform import new_uuid
from hookwork.plugins.dispatch import first, first_callback
from hookwork.records.content import Part
from hookwork.records.metadata import ModelResponse
from hookwork.stages import Stage, StageOutcome, stage_stream

if TYPE_CHECKING:
    from hookwork.context import CallbackContext
    from hookwork_llm.agent import LlmAgent

EMPTY_RESPONSE = "EMPTY_RESPONSE"


class CallIds:
    """Gives calls without an id one, and a second call of an id within a response (core MCB-6).

    A call keeps its id from partial to final: ids given are remembered by the call's position among the calls.
    """

    __slots__ = ("_given",)

    def __init__(self) -> None:
        self._given: dict[int, str] = {}

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
        return response.replace(content=content.replace(parts=self._with_ids(parts)))

    def _with_ids(self, parts: list[Part]) -> list[Part]:
        seen: set[str] = set()
        number = 0
        named: list[Part] = []
        for part in parts:
            call = part.function_call
            if call is not None:
                if not call.id or call.id in seen:
                    call_id = self._given.setdefault(number, f"adk-{new_uuid()}")
                    call = call.replace(id=call_id)
                    part = part.replace(function_call=call)
                seen.add(call.id or "")
                number += 1
            named.append(part)
        return named


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

    __slots__ = ("_ids", "agent", "ctx", "model", "plain", "request", "source", "stage", "stream", "used_model")

    def __init__(
        self, agent: LlmAgent, model: Model, request: ModelRequest, ctx: CallbackContext, *, stream: bool
    ) -> None:
        self.agent = agent
        self.model = model
        self.request = request
        self.ctx = ctx
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
        inv = self.ctx._inv
        hooks, agent = inv.hooks, self.agent
        chain = hooks.around_model
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
            self._ids = CallIds()
            return self.model.generate(self.request, stream=self.stream)  # type: ignore[return-value]
        if not chain and inv.tracer is None:
            return self._staged()
        if chain:
            self.stage = stage = Stage("model")
            body = stage_stream(chain, (self.ctx, self.request), stage, self._staged)
        else:
            body = self._staged()
        return self._traced(body) if inv.tracer is not None else body

    def polished(self, response: ModelResponse) -> ModelResponse:
        """A response of a plain stage with its call ids, and its error code when it says nothing."""
        if response.content is not None:
            response = self._ids.apply(response)
        return response if response.partial else checked(response)

    def stray(self, error: asyncio.CancelledError) -> ModelError | None:
        """A CancelledError that the model's own client let escape, as a model error; None when it is ours (TOOL-3)."""
        task = asyncio.current_task()
        if task is None or task.cancelling() > 0:
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

    async def _traced(self, body: Any) -> AsyncGenerator[ModelResponse, None]:
        """Under a span, unless a hook answers in the model's place (crosscutting TEL-12)."""
        from hookwork.telemetry import start_span, traced_stream

        inv = self.ctx._inv
        span = start_span(
            inv.tracer,
            f"generate_content {self.request.model or self.model.name}",
            {
                "gen_ai.operation.name": "generate_content",
                "gen_ai.provider.name": self.model.capabilities.provider or None,
                "gen_ai.request.model": self.request.model or self.model.name,
                "gen_ai.conversation.id": inv.session_id,
                "gen_ai.agent.name": self.agent.name,
            },
        )
        async with aclosing(traced_stream(span, body, inv)) as items:
            async for response in items:
                if not response.partial and span.is_recording():
                    _describe_response(span, response)
                yield response

    async def _staged(self) -> AsyncGenerator[ModelResponse, None]:
        inv, ctx, request, agent = self.ctx._inv, self.ctx, self.request, self.agent
        hooks = inv.hooks
        if hooks.before_model or agent.before_model:
            answer = await self._decided("before_model", ctx, request)
            if answer is not None:
                self.used_model = False
                answer = checked(CallIds().apply(answer))
                self._finish(answer)
                yield answer
                return
        has_after = bool(hooks.after_model or agent.after_model)
        final: ModelResponse | None = None
        inv.count_llm_call()
        ids = CallIds()
        effect = self._performed() if hooks.perform_model else self.model.generate(request, stream=self.stream)
        async with aclosing(effect) as source:  # type: ignore[type-var]
            while True:
                try:
                    response = await anext(source)
                    if response.content is not None:
                        response = ids.apply(response)
                except StopAsyncIteration:
                    break
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
        chain = getattr(self.ctx._inv.hooks, hook)
        decided = await first(chain, hook, *values) if chain else None
        if decided is not None:
            self.source = decided[1]
            return decided[0]  # type: ignore[no-any-return]
        answer = await first_callback(getattr(self.agent, hook), *values)
        if answer is not None:
            self.source = "agent"
        return answer  # type: ignore[no-any-return]

    async def _recovered(self, error: Exception) -> ModelResponse:
        """What ``on_model_error`` makes of an error; without a value the error goes on (MCB-3)."""
        hooks = self.ctx._inv.hooks
        if hooks.on_model_error or self.agent.on_model_error:
            answer = await self._decided("on_model_error", self.ctx, self.request, error)
            if answer is not None:
                return CallIds().apply(answer)
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

    async def _performed(self) -> AsyncGenerator[ModelResponse, None]:
        """The model through the effect hook: partials come by ``call.emit``, the final one is its result (EFF-4)."""
        from hookwork.records.codec import dump

        partials: asyncio.Queue[ModelResponse | None] = asyncio.Queue()

        async def default() -> ModelResponse:
            final: ModelResponse | None = None
            ids = CallIds()
            async with aclosing(self.model.generate(self.request, stream=self.stream)) as stream:  # type: ignore[type-var]
                async for response in stream:
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

        request = {
            "model": self.request.model,
            "contents": [dump(content) for content in self.request.contents],
            "config": dump(self.request.config),
        }
        data = {"model": self.model.name, "request": request, "stream": self.stream}
        ctx = self.ctx

        async def run() -> ModelResponse:
            try:
                result, owner = await perform(
                    ctx._inv.hooks.perform_model,
                    "perform_model",
                    lambda then: ctx._effect("model", ctx.idempotency_key, data, then, partials.put_nowait),
                    default,
                )
                self.source = owner
                return result  # type: ignore[no-any-return]
            finally:
                partials.put_nowait(None)

        task = asyncio.ensure_future(run())
        try:
            while (partial := await partials.get()) is not None:
                yield partial
            yield await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])


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
