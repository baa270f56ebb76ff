"""A model whose ``generate`` breaks the contract is named, with what it gave and what to write (MOD-1, MOD-7)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookwork.errors import ConfigurationError, ModelError
from hookwork.model import Model, ModelRequest
from hookwork.model_streams import answer_of, open_stream
from hookwork.plugins.plugin import FunctionPlugin
from hookwork.records.content import text_content
from hookwork.records.metadata import ModelResponse
from hookwork_llm import LlmAgent
from hookwork_llm.compaction.summarizer import LlmSummarizer

HELLO = ModelResponse(content=text_content("hello"))


def made(generate: Any) -> Model:
    return type("Mine", (Model,), {"name": "mine", "generate": generate, "__module__": __name__})()  # type: ignore[no-any-return]


async def coroutine(self: Any, request: Any, *, stream: bool = False) -> Any:
    return HELLO


def generator(self: Any, request: Any, *, stream: bool = False) -> Any:
    yield HELLO


def nothing(self: Any, request: Any, *, stream: bool = False) -> Any:
    return None


def listed(self: Any, request: Any, *, stream: bool = False) -> Any:
    return [HELLO]


async def yields_none(self: Any, request: Any, *, stream: bool = False) -> Any:
    yield None


async def yields_text(self: Any, request: Any, *, stream: bool = False) -> Any:
    yield "hello"


async def no_stream_option(self: Any, request: Any) -> Any:
    yield HELLO


BROKEN = [
    (coroutine, "generate gave a coroutine"),
    (generator, "generate gave a generator that is not async"),
    (nothing, "generate gave None"),
    (listed, "generate gave list"),
    (yields_none, "generate yielded None"),
    (yields_text, "generate yielded str"),
    (no_stream_option, "generate cannot be called as generate(request, stream=False)"),
]

#: What makes the stage take another way to the model.
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "hooked": {"after_model": lambda ctx, request, response: None},
    "effect": {},
}


def plugins_of(way: str) -> list[FunctionPlugin]:
    async def perform_model(call: Any) -> Any:
        return await call.default()

    return [FunctionPlugin("effect", perform_model=perform_model)] if way == "effect" else []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("generate", "said"), BROKEN, ids=[said for _, said in BROKEN])
async def test_mod_1_a_broken_generate_is_named(
    runner_factory: Any, play: Any, generate: Any, said: str, way: str
) -> None:
    agent = LlmAgent(name="a", model=made(generate), **WAYS[way])
    async with runner_factory(agent, plugins=plugins_of(way)) as runner:
        turn = await play(runner)
    assert isinstance(turn.error, ConfigurationError)
    text = str(turn.error)
    assert text.startswith(f"model 'mine' ({__name__}.Mine): {said}")
    assert "yields ModelResponse" in text
    assert turn.outcome.kind == "failed"


@pytest.mark.parametrize("way", WAYS)
async def test_mod_7_a_raise_of_the_call_itself_is_an_error_of_the_model(
    runner_factory: Any, play: Any, way: str
) -> None:
    def raising(self: Any, request: Any, *, stream: bool = False) -> Any:
        raise TypeError("inside")

    seen: list[str] = []

    def recover(ctx: Any, request: Any, error: Exception) -> ModelResponse:
        seen.append(str(error))
        return HELLO

    async with runner_factory(LlmAgent(name="a", model=made(raising), **WAYS[way]), plugins=plugins_of(way)) as runner:
        turn = await play(runner)
    assert (type(turn.error), str(turn.error)) == (TypeError, "inside")
    agent = LlmAgent(name="a", model=made(raising), on_model_error=recover, **WAYS[way])
    async with runner_factory(agent, plugins=plugins_of(way)) as runner:
        assert (await play(runner)).scene == ["a: hello"]
    assert seen == ["inside"]


class Bare:
    """An async iterator without ``aclose``."""

    def __init__(self) -> None:
        self.items = iter([HELLO])

    def __aiter__(self) -> Bare:
        return self

    async def __anext__(self) -> ModelResponse:
        for item in self.items:
            return item
        raise StopAsyncIteration


class Reusable:
    """An async iterable that is no iterator."""

    async def __aiter__(self) -> AsyncIterator[ModelResponse]:
        yield HELLO


@pytest.mark.parametrize("kind", [Bare, Reusable])
@pytest.mark.parametrize("way", WAYS)
async def test_mod_1_any_async_iterable_is_a_stream(runner_factory: Any, play: Any, kind: type, way: str) -> None:
    def generate(self: Any, request: Any, *, stream: bool = False) -> Any:
        return kind()

    async with runner_factory(LlmAgent(name="a", model=made(generate), **WAYS[way]), plugins=plugins_of(way)) as runner:
        assert (await play(runner)).scene == ["a: hello"]


async def test_an_async_generator_is_passed_as_it_is() -> None:
    async def generate(self: Any, request: Any, *, stream: bool = False) -> Any:
        yield HELLO

    source: Any = open_stream(made(generate), ModelRequest())
    assert source.__name__ == "generate"
    assert [item async for item in source] == [HELLO]


@pytest.mark.parametrize("generate", [coroutine, generator, nothing, listed])
async def test_mod_1_who_asks_outside_of_a_run_gets_the_same_check(generate: Any) -> None:
    with pytest.raises(ConfigurationError, match="model 'mine'"):
        await answer_of(made(generate), ModelRequest())


async def test_mod_2_an_answer_is_the_whole_response_and_the_stream_is_closed() -> None:
    closed: list[bool] = []

    async def generate(self: Any, request: Any, *, stream: bool = False) -> Any:
        try:
            yield ModelResponse(content=text_content("he"), partial=True)
            yield HELLO
            yield HELLO
        finally:
            closed.append(True)

    assert await answer_of(made(generate), ModelRequest()) is HELLO
    assert closed == [True]


async def test_mod_2_no_answer_is_an_error_of_the_stream() -> None:
    async def generate(self: Any, request: Any, *, stream: bool = False) -> Any:
        return
        yield

    with pytest.raises(ModelError, match="'mine' gave no response") as raised:
        await answer_of(made(generate), ModelRequest())
    assert raised.value.kind == "stream"


async def test_cmp_2_a_summarizer_names_its_broken_model() -> None:
    summarizer = LlmSummarizer(model=made(yields_text))
    with pytest.raises(ConfigurationError, match=r"model 'mine'.*yielded str"):
        await summarizer.answer(ModelRequest())
