"""The model suite: the contract of models §1 (MOD, ERR-1, CAP-5), for adapters, wrappers and local models alike."""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec
import pytest

from hookwork.errors import ModelError
from hookwork.model import Model, ModelCapabilities, ModelRequest
from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part, text_content, user_content
from hookwork.records.metadata import ModelResponse, UsageMetadata
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool
from hookwork_testkit.suites.leftovers import assert_cancellable, no_tasks_left, settle

#: The kinds of a failed call (models ERR-1).
ERROR_KINDS = frozenset(
    {
        "rate_limit",
        "unavailable",
        "timeout",
        "connection",
        "stream",
        "auth",
        "invalid_request",
        "invalid_response",
        "live",
    }
)

_WEATHER = FunctionDeclaration(
    name="get_weather",
    description="Current weather of a city.",
    parameters_json_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
_COUNTS = ("prompt_token_count", "candidates_token_count", "total_token_count", "thoughts_token_count",
           "cached_content_token_count", "tool_use_prompt_token_count")  # fmt: skip


class WatchedRequest(ModelRequest):
    """A request that notes which of its fields are read."""

    __slots__ = ("read",)

    def __init__(self, original: ModelRequest) -> None:
        self.read: list[str] = []
        super().__init__(model=original.model, contents=original.contents, config=original.config, tools=original.tools)

    def __getattribute__(self, name: str) -> Any:
        if name in ModelRequest.__slots__:
            super().__getattribute__("read").append(name)
        return super().__getattribute__(name)


class _Untouched(Tool):
    """A tool that a model must not run."""

    name = "get_weather"
    description = "Current weather of a city."

    def __init__(self) -> None:
        self.ran = 0

    async def run(self, ctx: Any, args: dict[str, Any]) -> Any:
        self.ran += 1
        return {}


class ModelSuite(ABC):
    """Subclass it in a test module and say how a model is made.

    Attributes:
        deterministic: the same request gives the same answer every time (a recorded or scripted service, a model of
            rules). False: answers are not compared with each other, only their form is checked.
        secrets: texts that no error may show: the key, the header that carries it.
    """

    pytestmark = pytest.mark.asyncio

    deterministic: bool = True
    secrets: tuple[str, ...] = ()

    @abstractmethod
    def make_model(self) -> Model:
        """A fresh model. It is asked the requests of `make_requests`, in any order, several times, and at once."""

    def make_requests(self) -> Mapping[str, ModelRequest]:
        """Fresh requests to ask, by a name; tools only for a model that has function calling."""
        requests = {
            "text": ModelRequest(contents=[user_content("Say hello.")]),
            "chat": ModelRequest(
                contents=[user_content("Say hello."), text_content("Hello."), user_content("Say it again.")]
            ),
        }
        if self.make_model().capabilities.tools:
            asked = ModelRequest(contents=[user_content("What is the weather in Paris?")])
            asked.add_declarations([_WEATHER])
            call = FunctionCall(id="adk-1", name="get_weather", args={"city": "Paris"})
            result = FunctionResponse(id="adk-1", name="get_weather", response={"sky": "clear"})
            answered = ModelRequest(
                contents=[
                    *asked.contents,
                    Content(role="model", parts=[Part(function_call=call)]),
                    Content(role="user", parts=[Part(function_response=result)]),
                ],
                config=asked.config,
            )
            requests |= {"tools": asked, "result": answered}
        return requests

    def make_failing_model(self) -> Model | None:
        """A model whose every call fails before its first response; None where that cannot be arranged."""
        return None

    def make_breaking_model(self) -> Model | None:
        """A model whose streamed call fails after its first response; None where that cannot be arranged."""
        return None

    def make_reporting_model(self, usage: UsageMetadata | None) -> Model | None:
        """A model whose service reports these token counts; None where a test cannot say what is reported."""
        return None

    # --- steps --------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def model(self) -> AsyncIterator[Model]:
        """The model under test, closed afterwards."""
        model = self.make_model()
        try:
            yield model
        finally:
            await model.close()

    async def ask(self, model: Model, request: ModelRequest, *, stream: bool = False) -> list[ModelResponse]:
        """All responses of one call."""
        async with aclosing(_closable(model.generate(request, stream=stream))) as responses:
            return [response async for response in responses]

    async def whole(self, model: Model, request: ModelRequest, *, stream: bool = False) -> ModelResponse:
        """The last response of one call."""
        return (await self.ask(model, request, stream=stream))[-1]

    # --- what a model is ----------------------------------------------------------------------------------------------

    async def test_mod_1_a_model_has_a_name_and_closes_more_than_once(self) -> None:
        model = self.make_model()
        assert isinstance(model, Model), f"{type(model).__name__} is no hookwork.model.Model"
        assert isinstance(model.name, str), "a model's name is a string"
        assert model.name.strip(), "a model needs a name"
        await model.close()
        await model.close()
        used = self.make_model()
        await self.ask(used, self.make_requests()["text"])
        await used.close()
        await used.close()

    async def test_cap_5_capabilities_are_a_frozen_record_that_fits_together(self) -> None:
        async with self.model() as model:
            before = model.capabilities
            assert isinstance(before, ModelCapabilities), "capabilities is a ModelCapabilities"
            await self.ask(model, self.make_requests()["text"])
            assert model.capabilities == before, "capabilities do not change"
            assert before.output_schema or not before.output_schema_with_tools
            assert before.builtin_tools or not before.builtin_with_functions
            assert not before.live or type(model).connect is not Model.connect, (
                "a live model has a connect() of its own"
            )
            if not before.streaming:
                responses = await self.ask(model, self.make_requests()["text"], stream=True)
                assert len(responses) == 1, "a model without streaming gives one whole response"

    # --- one call -----------------------------------------------------------------------------------------------------

    async def test_mod_2_an_unstreamed_call_gives_exactly_one_whole_response(self) -> None:
        async with self.model() as model:
            for name, request in self.make_requests().items():
                responses = await self.ask(model, request)
                assert len(responses) == 1, f"{name}: {len(responses)} responses"
                assert isinstance(responses[0], ModelResponse), f"{name}: a {type(responses[0]).__name__}"
                assert not responses[0].partial, f"{name}: the only response is partial"

    async def test_mod_2_a_streamed_call_gives_partials_and_then_one_whole_response(self) -> None:
        async with self.model() as model:
            for name, request in self.make_requests().items():
                marks = [bool(response.partial) for response in await self.ask(model, request, stream=True)]
                assert marks, f"{name}: no response at all"
                assert marks == [True] * (len(marks) - 1) + [False], f"{name}: partial marks {marks}"

    async def test_mod_2_a_streamed_call_ends_with_what_the_unstreamed_one_gives(self) -> None:
        if not self.deterministic:
            pytest.skip("the model's answers differ from call to call")
        async with self.model() as model:
            for name, request in self.make_requests().items():
                whole, streamed = await self.whole(model, request), await self.whole(model, request, stream=True)
                for field in ("content", "finish_reason", "error_code", "error_message"):
                    assert getattr(streamed, field) == getattr(whole, field), f"{name}: {field} differs"

    async def test_mod_3_the_texts_of_the_partials_make_up_the_whole_text(self) -> None:
        async with self.model() as model:
            for name, request in self.make_requests().items():
                *partials, whole = await self.ask(model, request, stream=True)
                for thought in (False, True):
                    shown = "".join(_text(partial, thought) for partial in partials)
                    said = _text(whole, thought)
                    assert not shown or shown == said, f"{name}: partials say {shown!r}, the whole says {said!r}"

    async def test_mod_13_a_whole_response_says_something_or_why_not(self) -> None:
        async with self.model() as model:
            for name, request in self.make_requests().items():
                whole = await self.whole(model, request)
                says = whole.content is not None and bool(whole.content.parts)
                assert says or whole.error_code or whole.finish_reason, f"{name}: a response that says nothing"
                if whole.content is not None:
                    assert whole.content.role == "model", f"{name}: the content's role is {whole.content.role!r}"
                    assert not whole.content.function_responses, f"{name}: a model answers no calls"

    async def test_mod_7_work_starts_with_iteration(self) -> None:
        async with self.model() as model:
            for name, request in self.make_requests().items():
                watched = WatchedRequest(request)
                watched.read.clear()
                responses = _closable(model.generate(watched, stream=True))
                await settle()
                assert watched.read == [], f"{name}: generate() read {watched.read} before iteration"
                await responses.aclose()
        failing = self.make_failing_model()
        if failing is not None:
            await _closable(failing.generate(self.make_requests()["text"])).aclose()  # no raise: nothing has begun
            await failing.close()

    # --- ends ---------------------------------------------------------------------------------------------------------

    async def test_mod_4_a_call_that_is_left_early_yields_nothing_more(self) -> None:
        async with self.model() as model:
            for name, request in self.make_requests().items():
                length = len(await self.ask(model, request, stream=True))
                for taken in range(length):
                    async with no_tasks_left(f"{name}: a call closed after {taken} responses"):
                        responses = _closable(model.generate(request, stream=True))
                        for _ in range(taken):
                            await anext(responses)
                        await responses.aclose()
                        assert await anext(responses, None) is None, f"{name}: more after aclose()"
                assert len(await self.ask(model, request)) == 1, f"{name}: not usable after calls were left"

    async def test_mod_4_a_cancelled_call_ends(self) -> None:
        async with self.model() as model:
            for name, request in self.make_requests().items():
                for stream in (False, True):
                    await assert_cancellable(
                        f"{name}: a call",
                        lambda asked=request, how=stream: self.ask(model, asked, stream=how),  # type: ignore[misc]
                        at_most=40,
                    )
                assert len(await self.ask(model, request)) == 1, f"{name}: not usable after calls were cancelled"

    async def test_mod_1_nothing_follows_the_last_response(self) -> None:
        async with self.model() as model:
            responses = _closable(model.generate(self.make_requests()["text"]))
            async for _ in responses:
                pass
            assert await anext(responses, None) is None

    # --- side effects -------------------------------------------------------------------------------------------------

    async def test_mod_5_calls_at_once_do_not_mix(self) -> None:
        if not self.deterministic:
            pytest.skip("the model's answers differ from call to call")
        async with self.model() as model:
            wanted = {name: await self.whole(model, request) for name, request in self.make_requests().items()}
            calls = [(name, request) for _ in range(4) for name, request in self.make_requests().items()]
            got = await asyncio.gather(*[self.whole(model, request, stream=n % 2 == 1)
                                         for n, (_, request) in enumerate(calls)])  # fmt: skip
            for (name, _), whole in zip(calls, got, strict=True):
                assert whole.content == wanted[name].content, f"{name}: another answer beside other calls"
            streams = {name: self._steps(model, request) for name, request in self.make_requests().items()}
            for name, content in (await _in_turns(streams)).items():
                assert content == wanted[name].content, f"{name}: another answer when streams alternate"

    async def _steps(self, model: Model, request: ModelRequest) -> AsyncIterator[Content | None]:
        async with aclosing(_closable(model.generate(request, stream=True))) as responses:
            async for response in responses:
                yield response.content

    async def test_mod_6_the_request_is_not_changed(self) -> None:
        async with self.model() as model:
            for stream in (False, True):
                for name, request in self.make_requests().items():
                    contents, listed = request.contents, list(request.contents)
                    before = (request.model, request.config, dict(request.tools))
                    packed = msgspec.json.encode((listed, request.config), enc_hook=repr)
                    await self.ask(model, request, stream=stream)
                    assert request.contents is contents, f"{name}: request.contents was replaced"
                    assert [id(item) for item in request.contents] == [id(item) for item in listed], f"{name}: contents"
                    assert request.config is before[1], f"{name}: request.config was replaced"
                    assert (request.model, request.tools) == (before[0], before[2]), f"{name}: model or tools changed"
                    after = msgspec.json.encode((list(request.contents), request.config), enc_hook=repr)
                    assert after == packed, f"{name}: a record of the request was changed in place"

    async def test_mod_9_declarations_come_from_the_config_and_tools_are_never_run(self) -> None:
        async with self.model() as model:
            if not model.capabilities.tools:
                pytest.skip("the model has no function calling")
            bare, full = self.make_requests()["tools"], self.make_requests()["tools"]
            tool = _Untouched()
            full.tools = {tool.name: tool}
            without, beside = await self.whole(model, bare), await self.whole(model, full)
            assert tool.ran == 0, "the model ran a tool by itself"
            if self.deterministic:
                assert beside.content == without.content, "the execution table changed the answer"

    # --- token counts -------------------------------------------------------------------------------------------------

    async def test_mod_16_token_counts_are_counts_and_the_same_streamed_or_not(self) -> None:
        async with self.model() as model:
            for name, request in self.make_requests().items():
                whole, streamed = await self.whole(model, request), await self.whole(model, request, stream=True)
                for usage in (whole.usage_metadata, streamed.usage_metadata):
                    _check_usage(name, usage)
                if self.deterministic:
                    assert streamed.usage_metadata == whole.usage_metadata, f"{name}: usage differs when streamed"

    async def test_mod_17_not_reported_is_none_and_reported_zero_is_zero(self) -> None:
        cases = (
            None,
            UsageMetadata(prompt_token_count=0, candidates_token_count=0, total_token_count=0),
            UsageMetadata(prompt_token_count=7, candidates_token_count=3, total_token_count=10),
            UsageMetadata(prompt_token_count=7, thoughts_token_count=0, cached_content_token_count=0),
        )
        for usage in cases:
            model = self.make_reporting_model(usage)
            if model is None:
                pytest.skip("the suite was not told how the service reports usage")
            for stream in (False, True):
                got = (await self.whole(model, self.make_requests()["text"], stream=stream)).usage_metadata
                for field in _COUNTS:
                    wanted, found = (getattr(side, field, None) for side in (usage, got))
                    assert found == wanted, f"{field}: reported {wanted!r}, got {found!r}"
            await model.close()

    # --- errors -------------------------------------------------------------------------------------------------------

    async def test_err_1_a_failed_call_raises_a_model_error(self) -> None:
        model = self.make_failing_model()
        if model is None:
            pytest.skip("the suite was not told how a call fails")
        for stream in (False, True):
            responses = _closable(model.generate(self.make_requests()["text"], stream=stream))
            error = await _error_of(responses, self.secrets)
            assert not error.after_first_chunk, "nothing was received before this error"
            assert await anext(responses, None) is None, "a response after the error"
        await model.close()

    async def test_err_1_a_stream_that_breaks_gives_no_whole_response(self) -> None:
        model = self.make_breaking_model()
        if model is None:
            pytest.skip("the suite was not told how a stream breaks")
        responses = _closable(model.generate(self.make_requests()["text"], stream=True))
        first = await anext(responses, None)
        assert first is not None, "the stream should break after its first response"
        assert first.partial, "what was received before a break is not made whole (MOD-4)"
        error = await _error_of(responses, self.secrets)
        assert error.after_first_chunk, "the error should say that responses came before it"
        assert await anext(responses, None) is None, "a response after the error"
        await model.close()


def _closable(responses: Any) -> Any:
    """What `generate` gave, if it can be iterated and closed."""
    if inspect.iscoroutine(responses):
        responses.close()
        raise AssertionError("generate() is a coroutine function; it must be an async generator function")
    for name in ("__anext__", "aclose"):
        assert hasattr(responses, name), f"what generate() gives has no {name}(), so it cannot be left early"
    return responses


async def _error_of(responses: Any, secrets: tuple[str, ...]) -> ModelError:
    """The ModelError that ends a call; partials may come first."""
    raised: Exception | None = None
    try:
        async for response in responses:
            assert response.partial, "a whole response of a call that fails"
    except AssertionError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it is looked at below
        raised = error
    if not isinstance(raised, ModelError):
        what = "nothing" if raised is None else f"{type(raised).__name__}: {raised}"
        raise AssertionError(f"a call that fails raises a ModelError, not {what}") from raised
    shown = "\n".join([str(raised), *getattr(raised, "__notes__", ())])
    assert raised.kind in ERROR_KINDS, f"unknown kind {raised.kind!r}"
    assert raised.provider, "the error does not say which provider failed"
    assert raised.model, "the error does not say which model failed"
    assert str(raised).strip(), "the error says nothing"
    assert not any(secret in shown for secret in secrets), "the error shows a secret"
    return raised


async def _in_turns(streams: Mapping[str, AsyncIterator[Content | None]]) -> dict[str, Content | None]:
    """The last item of each stream, taken from all of them in turns."""
    last: dict[str, Content | None] = {}
    live = dict(streams)
    while live:
        for name in list(live):
            try:
                last[name] = await anext(live[name])
            except StopAsyncIteration:
                del live[name]
    return last


def _text(response: ModelResponse, thought: bool) -> str:
    parts = response.content.parts if response.content is not None else ()
    return "".join(part.text for part in parts if part.text and bool(part.thought) == thought)


def _check_usage(name: str, usage: UsageMetadata | None) -> None:
    if usage is None:
        return
    for field in _COUNTS:
        value = getattr(usage, field)
        assert value is None or (type(value) is int and value >= 0), f"{name}: {field} is {value!r}"
    cached, prompt = usage.cached_content_token_count, usage.prompt_token_count
    assert cached is None or prompt is None or cached <= prompt, f"{name}: more cached tokens than tokens in the prompt"
    parts = (prompt, usage.candidates_token_count, usage.thoughts_token_count, usage.tool_use_prompt_token_count)
    total = usage.total_token_count
    known = sum(part for part in parts if part is not None)
    assert total is None or total >= known, f"{name}: a total of {total} for {known} tokens"
