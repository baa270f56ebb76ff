"""One model call at an SDK's door: every failure leaves as a ModelError, nothing is left open (models ERR-1, MOD-4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from hookwork.errors import HookworkError, ModelError, ValidationError
from hookwork.records.metadata import ModelResponse
from hookwork_modelkit.errors import UNSENDABLE, model_error, transport_error

Responses = AsyncGenerator[ModelResponse, None]


async def guarded(
    source: Responses,
    provider: str,
    model: str,
    translate: Callable[[Exception, bool], ModelError | None] | None = None,
) -> Responses:
    """The responses of ``source``; what it raises is turned into a ModelError with its cause.

    Args:
        translate: gets an exception and whether responses came before it; gives its ModelError, or None for one that
            it does not know. Network and decoder errors are known here (`transport_error`); what nobody knows goes up
            as it is, since it is a fault of the program.

    A ValidationError of the records is an answer that could not be read. A ``CancelledError`` that the SDK made up
    while nobody cancelled this task is a lost connection (CASE-TOOL-7).
    """
    task = asyncio.current_task()
    cancels = task.cancelling() if task is not None else 0
    started = False
    async with aclosing(source):
        if cancels:
            await asyncio.sleep(0)  # a cancellation that was asked for before comes here: it is not the SDK's
        while True:
            try:
                response = await anext(source)
            except StopAsyncIteration:
                return
            except ModelError as error:
                error.after_first_chunk = error.after_first_chunk or started
                raise
            except Exception as error:
                if isinstance(error, HookworkError) and not isinstance(error, ValidationError):
                    raise
                failed = translate(error, started) if translate is not None else None
                failed = failed or transport_error(provider, model, error, started=started)
                if failed is None:
                    raise
                if failed.code == UNSENDABLE:
                    raise failed from None  # the cause quotes the header, which may be the key
                raise failed from error
            except asyncio.CancelledError as error:
                current = asyncio.current_task()
                if current is None or current.cancelling() > (cancels if current is task else 0):
                    raise
                kind = "stream" if started else "connection"
                raise model_error(
                    provider,
                    model,
                    kind=kind,
                    retryable=True,
                    started=started,
                    detail="its client was cancelled from within; try again",
                ) from error
            started = True
            yield response
