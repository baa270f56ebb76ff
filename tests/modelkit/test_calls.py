"""Calls at the SDK's door: what a failure becomes (models ERR-1, core TOOL-3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import httpx
import pytest

from hookwork.errors import ConfigurationError, ModelError, ValidationError
from hookwork.records.content import text_content
from hookwork.records.metadata import ModelResponse
from hookwork_modelkit import guarded, model_error

PIECE = ModelResponse(content=text_content("a"), partial=True)


class Source:
    """Gives its items, raises those that are errors, and notes that it was closed."""

    def __init__(self, *items: Any) -> None:
        self.items = items
        self.closed = False

    async def __call__(self) -> AsyncGenerator[ModelResponse, None]:
        try:
            for item in self.items:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            self.closed = True


async def failure(source: Source, translate: Any = None) -> BaseException:
    try:
        async with aclosing(guarded(source(), "p", "m", translate)) as responses:
            async for _ in responses:
                pass
    except BaseException as error:
        assert source.closed
        return error
    raise AssertionError("the call did not fail")


async def test_err_1_a_network_error_leaves_as_a_model_error_with_its_cause() -> None:
    cause = httpx.ConnectError("no route")
    error = await failure(Source(cause))
    assert isinstance(error, ModelError)
    assert (error.kind, error.provider, error.model, error.after_first_chunk) == ("connection", "p", "m", False)
    assert error.__cause__ is cause


async def test_err_1_the_adapter_translates_first() -> None:
    class Refused(Exception):
        pass

    def translate(error: Exception, started: bool) -> ModelError | None:
        return model_error("p", "m", status=403, started=started) if isinstance(error, Refused) else None

    error = await failure(Source(PIECE, Refused()), translate)
    assert isinstance(error, ModelError)
    assert (error.kind, error.after_first_chunk) == ("auth", True)
    assert isinstance(error.__cause__, Refused)


async def test_err_1_a_model_error_is_told_that_responses_came_before() -> None:
    own = model_error("p", "m", status=500)
    assert await failure(Source(PIECE, own)) is own
    assert own.after_first_chunk


async def test_err_1_an_answer_that_cannot_be_read_is_an_invalid_response() -> None:
    error = await failure(Source(ValidationError("bad", path="x")))
    assert isinstance(error, ModelError)
    assert error.kind == "invalid_response"


@pytest.mark.parametrize("fault", [KeyError("x"), ConfigurationError("x")])
async def test_err_1_a_fault_of_the_program_goes_up_as_it_is(fault: Exception) -> None:
    assert await failure(Source(fault)) is fault


@pytest.mark.parametrize(("items", "kind"), [((), "connection"), ((PIECE,), "stream")])
async def test_err_1_a_cancellation_nobody_asked_for_is_a_lost_connection(items: Any, kind: str) -> None:
    """CASE-TOOL-7."""
    error = await failure(Source(*items, asyncio.CancelledError()))
    assert isinstance(error, ModelError)
    assert (error.kind, error.retryable) == (kind, True)


async def test_err_1_our_own_cancellation_passes() -> None:
    entered = asyncio.Event()

    async def waits() -> AsyncGenerator[ModelResponse, None]:
        entered.set()
        await asyncio.Event().wait()
        yield PIECE

    async def consume() -> None:
        async with aclosing(guarded(waits(), "p", "m")) as responses:
            async for _ in responses:
                pass

    task = asyncio.create_task(consume())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_err_1_a_cancellation_asked_for_before_the_call_began_is_ours_too() -> None:
    """It arrives where the task waits next, which would be inside the SDK."""

    async def waits() -> AsyncGenerator[ModelResponse, None]:
        await asyncio.sleep(0)
        yield PIECE

    async def consume() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        async with aclosing(guarded(waits(), "p", "m")) as responses:
            async for _ in responses:
                pass

    task = asyncio.create_task(consume())
    await asyncio.wait([task])
    assert task.cancelled()


async def test_mod_4_leaving_early_closes_the_source() -> None:
    source = Source(PIECE, PIECE)
    async with aclosing(guarded(source(), "p", "m")) as responses:
        assert await anext(responses) is PIECE
    assert source.closed
