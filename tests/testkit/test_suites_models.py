"""The model suite passes good models and catches those that break one rule each (models §1)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookwork.errors import ModelError
from hookwork.model import Model, ModelCapabilities, ModelRequest
from hookwork.records.content import Content, FunctionResponse, Part, text_content
from hookwork.records.metadata import ModelResponse, UsageMetadata
from hookwork_testkit import RecordedRequest, ScriptedModel, call, stream, thought
from hookwork_testkit.suites import ModelSuite
from hookwork_testkit.suites.broken import BrokenBackends, failures

BROKEN = BrokenBackends(ModelSuite)
SECRET = "sk-secret"


def answer(request: RecordedRequest) -> Any:
    """A turn that depends on the request: a call, or a streamed text that ends with what was said last."""
    last = request.contents[-1]
    if request.declared and not last.function_responses:
        return [thought("which?"), *stream("Let me "), call("get_weather", city="Paris")]
    return stream("You said ", repr(last.text), *(part.function_response.name or "" for part in last.parts
                                                  if part.function_response))  # fmt: skip


def failure(**attributes: Any) -> ModelError:
    """An error as an adapter would raise it."""
    fields = {"provider": "scripted", "model": "scripted", "kind": "unavailable", **attributes}
    return ModelError("scripted: model scripted is not there (503)", **fields)


class TestScripted(ModelSuite):
    """The scripted model is a good one."""

    secrets = (SECRET,)

    def make_model(self) -> Model:
        return ScriptedModel(answer)

    def make_failing_model(self) -> Model:
        return ScriptedModel(lambda request: failure())

    def make_breaking_model(self) -> Model:
        return ScriptedModel(lambda request: [*stream("half an "), failure(kind="stream", after_first_chunk=True)])

    def make_reporting_model(self, usage: UsageMetadata | None) -> Model:
        return ScriptedModel(answer, usage=usage)


class TestScriptedWithoutTools(ModelSuite):
    """A model that can only talk, neither stream nor call, and whose answers differ."""

    deterministic = False

    def make_model(self) -> Model:
        capabilities = ModelCapabilities(provider="scripted", streaming=False, tools=False)
        return ScriptedModel(lambda request: "hello", capabilities=capabilities)


class _Suite(TestScripted):
    """The suite against a broken model."""

    def __init__(self, kind: type[Good]) -> None:
        self.kind = kind

    def make_model(self) -> Model:
        return self.kind()

    def make_failing_model(self) -> Model:
        return self.kind(fails="at once")

    def make_breaking_model(self) -> Model:
        return self.kind(fails="midway")

    def make_reporting_model(self, usage: UsageMetadata | None) -> Model:
        return self.kind(usage=usage)


class Good(Model):
    """A model with a turn of the event loop before each piece, as a network has; the broken ones change one thing."""

    name = "good"
    capabilities = ModelCapabilities(provider="good")

    def __init__(self, *, fails: str = "", usage: UsageMetadata | None = None) -> None:
        self.fails = fails
        self.usage = usage

    async def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        await asyncio.sleep(0)
        if self.fails == "at once":
            raise self.error(after_first_chunk=False)
        async for response in self.pieces(request, stream):
            yield response

    async def pieces(self, request: ModelRequest, stream: bool) -> AsyncIterator[ModelResponse]:
        parts = self.parts(request)
        if stream:
            for part in parts:
                await asyncio.sleep(0)
                yield ModelResponse(content=Content(role="model", parts=[part]), partial=True)
                if self.fails == "midway":
                    raise self.error(after_first_chunk=True)
        yield self.whole(parts)

    def parts(self, request: ModelRequest) -> list[Part]:
        last = request.contents[-1]
        if request.config.function_declarations() and not last.function_responses:
            return [Part(text="Let me see."), call("get_weather", city="Paris")]
        return [thought("well"), Part(text=f"You said {last.text!r}.")]

    def whole(self, parts: list[Part]) -> ModelResponse:
        return ModelResponse(
            content=Content(role="model", parts=parts), finish_reason="STOP", usage_metadata=self.usage
        )

    def error(self, **attributes: Any) -> Exception:
        return failure(**attributes)


async def test_a_good_model_passes() -> None:
    assert await failures(_Suite(Good)) == {}


@BROKEN.breaks("test_mod_1_a_model")
class Nameless(Good):
    name = " "


@BROKEN.breaks("test_mod_1_a_model")
class ClosesOnce(Good):
    closed = False

    async def close(self) -> None:
        if self.closed:
            raise RuntimeError("already closed")
        self.closed = True


class _Again:
    """An iterator that begins again after its end."""

    def __init__(self, start: Any) -> None:
        self.start = start
        self.responses = start()
        self.closed = False

    def __aiter__(self) -> _Again:
        return self

    async def __anext__(self) -> ModelResponse:
        if self.closed:
            raise StopAsyncIteration
        try:
            response: ModelResponse = await anext(self.responses)
        except StopAsyncIteration:
            self.responses = self.start()
            raise
        return response

    async def aclose(self) -> None:
        self.closed = True
        await self.responses.aclose()


@BROKEN.breaks("test_mod_1_nothing")
class BeginsAgain(Good):
    def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        if self.fails:
            return super().generate(request, stream=stream)
        beginning = super().generate
        return _Again(lambda: beginning(request, stream=stream))


@BROKEN.breaks("test_cap_5")
class LearnsWhatItCanDo(Good):
    async def pieces(self, request: ModelRequest, stream: bool) -> AsyncIterator[ModelResponse]:
        self.capabilities = ModelCapabilities(provider="good", reasoning=True)
        async for response in super().pieces(request, stream):
            yield response


@BROKEN.breaks("test_cap_5")
class SaysItIsLive(Good):
    capabilities = ModelCapabilities(provider="good", live=True)


@BROKEN.breaks("test_cap_5")
class StreamsThoughItSaysNot(Good):
    capabilities = ModelCapabilities(provider="good", streaming=False)


@BROKEN.breaks("test_mod_2_an_unstreamed", "test_mod_4")
class AlwaysStreams(Good):
    """Two whole responses; each test that counts on one of them fails."""

    async def pieces(self, request: ModelRequest, stream: bool) -> AsyncIterator[ModelResponse]:
        async for response in super().pieces(request, stream):
            yield response
        if not stream:
            yield response


@BROKEN.breaks("test_mod_2_a_streamed_call_gives")
class MarksNothingAsPartial(Good):
    async def pieces(self, request: ModelRequest, stream: bool) -> AsyncIterator[ModelResponse]:
        async for response in super().pieces(request, stream):
            yield response.replace(partial=None) if not self.fails else response


@BROKEN.breaks("test_mod_2_a_streamed_call_ends", "test_mod_5")
class ForgetsItsCallsWhenStreamed(Good):
    async def pieces(self, request: ModelRequest, stream: bool) -> AsyncIterator[ModelResponse]:
        async for response in super().pieces(request, stream):
            content = response.content
            if stream and not response.partial and content is not None:
                texts = [part for part in content.parts if part.function_call is None]
                response = response.replace(content=content.replace(parts=texts))
            yield response


@BROKEN.breaks("test_mod_2_a_streamed_call_ends")
class GivesAnotherReasonWhenStreamed(Good):
    async def pieces(self, request: ModelRequest, stream: bool) -> AsyncIterator[ModelResponse]:
        async for response in super().pieces(request, stream):
            yield response.replace(finish_reason="MAX_TOKENS") if stream and not response.partial else response


@BROKEN.breaks("test_mod_3")
class RepeatsThePartials(Good):
    """Each partial holds all that came before, as some services send it."""

    async def pieces(self, request: ModelRequest, stream: bool) -> AsyncIterator[ModelResponse]:
        said = ""
        async for response in super().pieces(request, stream):
            if response.partial and response.text:
                yield response.replace(content=text_content(said + response.text))
                said = "and "
                yield response.replace(content=text_content(said + response.text))
            else:
                yield response


@BROKEN.breaks("test_mod_13")
class SaysNothing(Good):
    def whole(self, parts: list[Part]) -> ModelResponse:
        return ModelResponse(usage_metadata=self.usage)

    async def pieces(self, request: ModelRequest, stream: bool) -> AsyncIterator[ModelResponse]:
        async for response in super().pieces(request, stream):
            if not response.partial or self.fails:
                yield response


@BROKEN.breaks("test_mod_13")
class SpeaksAsTheUser(Good):
    def whole(self, parts: list[Part]) -> ModelResponse:
        return super().whole(parts).replace(content=Content(role="user", parts=parts))


@BROKEN.breaks("test_mod_13")
class AnswersItsOwnCalls(Good):
    def whole(self, parts: list[Part]) -> ModelResponse:
        return super().whole([*parts, Part(function_response=FunctionResponse(name="f", response={}))])


@BROKEN.breaks("test_mod_7")
class WorksAtOnce(Good):
    def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        _ = request.config
        return super().generate(request, stream=stream)


@BROKEN.breaks("test_mod_7", "test_err_1_a_failed")
class FailsAtOnce(Good):
    def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        if self.fails == "at once":
            raise self.error()
        return super().generate(request, stream=stream)


@BROKEN.breaks("test_mod_4_a_call")
class LeavesATaskBehind(Good):
    """It ends the task that keeps its connection only when the call comes to its end."""

    tasks: tuple[asyncio.Task[Any], ...] = ()

    async def pieces(self, request: ModelRequest, stream: bool) -> AsyncIterator[ModelResponse]:
        async for response in super().pieces(request, stream):
            keeper = asyncio.create_task(asyncio.Event().wait())
            self.tasks = (*self.tasks, keeper)
            yield response
            keeper.cancel()

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()


@BROKEN.breaks("test_mod_4_a_cancelled")
class SwallowsCancellation(Good):
    async def pieces(self, request: ModelRequest, stream: bool) -> AsyncIterator[ModelResponse]:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        async for response in super().pieces(request, stream):
            yield response


@BROKEN.breaks("test_mod_5")
class KeepsTheCallOnItself(Good):
    async def pieces(self, request: ModelRequest, stream: bool) -> AsyncIterator[ModelResponse]:
        self.request = request
        await asyncio.sleep(0)
        async for response in super().pieces(self.request, stream):
            yield response


@BROKEN.breaks("test_mod_6")
class AddsToTheContents(Good):
    async def pieces(self, request: ModelRequest, stream: bool) -> AsyncIterator[ModelResponse]:
        request.contents = [*request.contents, text_content("Be brief.", "user")]
        async for response in super().pieces(request, stream):
            yield response


@BROKEN.breaks("test_mod_6")
class SetsTheTemperature(Good):
    async def pieces(self, request: ModelRequest, stream: bool) -> AsyncIterator[ModelResponse]:
        request.update_config(temperature=0.0)
        async for response in super().pieces(request, stream):
            yield response


@BROKEN.breaks("test_mod_9")
class RunsTheTools(Good):
    async def pieces(self, request: ModelRequest, stream: bool) -> AsyncIterator[ModelResponse]:
        for tool in request.tools.values():
            run: Any = tool
            await run.run(None, {})
        async for response in super().pieces(request, stream):
            yield response


@BROKEN.breaks("test_mod_9")
class ReadsTheTable(Good):
    def parts(self, request: ModelRequest) -> list[Part]:
        return [Part(text="I have tools.")] if request.tools else super().parts(request)


@BROKEN.breaks("test_mod_16", "test_mod_17")
class MiscountsTheTotal(Good):
    def whole(self, parts: list[Part]) -> ModelResponse:
        usage = UsageMetadata(prompt_token_count=10, candidates_token_count=5, total_token_count=7)
        return super().whole(parts).replace(usage_metadata=usage)


@BROKEN.breaks("test_mod_16", "test_mod_17")
class CountsWhenStreamedOnly(Good):
    async def pieces(self, request: ModelRequest, stream: bool) -> AsyncIterator[ModelResponse]:
        async for response in super().pieces(request, stream):
            counted = UsageMetadata(prompt_token_count=1 if stream else 2)
            yield response if response.partial else response.replace(usage_metadata=counted)


@BROKEN.breaks("test_mod_17")
class TakesNoneForZero(Good):
    def whole(self, parts: list[Part]) -> ModelResponse:
        reported = self.usage or UsageMetadata()
        fields = ("prompt_token_count", "candidates_token_count", "total_token_count")
        counts: dict[str, Any] = {name: getattr(reported, name) or 0 for name in fields}
        usage = UsageMetadata(**counts)
        return super().whole(parts).replace(usage_metadata=usage)


@BROKEN.breaks("test_err_1")
class RaisesTheSdksError(Good):
    def error(self, **attributes: Any) -> Exception:
        return ConnectionError("reset by peer")


@BROKEN.breaks("test_err_1")
class ShowsItsKey(Good):
    def error(self, **attributes: Any) -> Exception:
        fields = {"provider": "good", "model": "good", **attributes}
        return ModelError(f"401 for key {SECRET}", **fields)


@BROKEN.breaks("test_err_1")
class DoesNotSayWhoFailed(Good):
    def error(self, **attributes: Any) -> Exception:
        return failure(**{**attributes, "provider": ""})


@BROKEN.breaks("test_err_1")
class InventsAKind(Good):
    def error(self, **attributes: Any) -> Exception:
        return failure(**{**attributes, "kind": "oops"})


@BROKEN.breaks("test_err_1_a_stream")
class MakesAHalfAnswerWhole(Good):
    async def pieces(self, request: ModelRequest, stream: bool) -> AsyncIterator[ModelResponse]:
        try:
            async for response in super().pieces(request, stream):
                yield response
        except ModelError:
            yield self.whole([Part(text="half an")])
            raise


@BROKEN.breaks("test_err_1_a_stream")
class ForgetsThatSomethingCame(Good):
    def error(self, **attributes: Any) -> Exception:
        return failure(**{**attributes, "after_first_chunk": False})


@pytest.mark.parametrize("name", list(BROKEN.kinds))
async def test_each_broken_model_fails_its_line_and_no_other(name: str) -> None:
    await BROKEN.assert_caught(name, _Suite)


def test_every_line_is_failed_by_some_broken_model() -> None:
    assert BROKEN.uncaught(BROKEN.lines) == []
