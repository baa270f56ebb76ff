"""Trying a model call again: only when asked to, and only before anything was heard (models ERR-2)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from math import isfinite
from typing import TYPE_CHECKING, Any, Self

import msgspec

from hookwork.catalogue import did_you_mean
from hookwork.errors import ConfigurationError, ModelError
from hookwork.platform import random, sleep
from hookwork.records.metadata import ModelResponse

if TYPE_CHECKING:
    from tenacity import RetryCallState

Responses = AsyncGenerator[ModelResponse, None]

#: Seconds. A service that asks for a longer wait (a quota of the day is used up) has no answer for this run: its error
#: goes up at once, with the time it named in ``retry_after``.
LONGEST_WAIT = 600.0


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often and how patiently a call is tried again.

    Attributes:
        attempts: calls in all, the first one included.
        base: seconds before the second attempt, at most.
        factor: what that grows by from attempt to attempt.
        cap: seconds an attempt waits at most, unless the service asks for more (``LONGEST_WAIT`` at most).
        jitter: wait a random part of it (full jitter) rather than the whole.
    """

    attempts: int = 5
    base: float = 1.0
    factor: float = 2.0
    cap: float = 60.0
    jitter: bool = True

    def __post_init__(self) -> None:
        numbers = (self.base, self.factor, self.cap)
        if self.attempts < 1 or self.base < 0 or self.factor < 1 or self.cap < 0 or not all(map(isfinite, numbers)):
            raise ConfigurationError(
                f"retry: attempts is at least 1, base and cap are seconds, factor is at least 1, not {self!r}"
            )

    @classmethod
    def of(cls, value: Self | Mapping[str, Any] | bool | int | None) -> Self | None:
        """A policy from what a user writes: a policy, its fields as a table, a number of attempts, True for the
        defaults; None and False mean no retries.

        Raises:
            ConfigurationError: anything else, an unknown key or a wrong type.
        """
        if value is None or value is False:
            return None
        if isinstance(value, cls):
            return value
        if value is True:
            return cls()
        if isinstance(value, int):
            return cls(attempts=value)
        known = cls.__struct_fields__
        unknown = [key for key in value if key not in known] if isinstance(value, Mapping) else []
        if unknown:
            raise ConfigurationError(
                f"retry: unknown key {unknown[0]!r}{did_you_mean(str(unknown[0]), known)}; "
                f"known keys: {', '.join(known)}"
            )
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"retry: {error}; known keys: {', '.join(known)}") from error

    def wait(self, attempt: int, retry_after: float | None = None) -> float:
        """Seconds to wait after the attempt of that number, counted from 1; ``retry_after`` wins when longer."""
        try:
            longest = min(self.cap, self.base * self.factor ** (attempt - 1))
        except OverflowError:
            longest = self.cap
        seconds = longest * random() if self.jitter else longest
        return max(seconds, retry_after or 0.0)


async def with_retries(make_call: Callable[[], Responses], policy: RetryPolicy | None) -> Responses:
    """The responses of a call that is made again while it fails, retryably, before its first response.

    ``make_call`` opens a fresh stream each time. What fails after the first response goes up as it is.
    """
    if policy is None or policy.attempts == 1:
        async with aclosing(make_call()) as responses:
            async for response in responses:
                yield response
        return
    source, first = await _opened(make_call, policy)
    async with aclosing(source):
        yield first
        async for response in source:
            yield response


async def _opened(make_call: Callable[[], Responses], policy: RetryPolicy) -> tuple[Responses, ModelResponse]:
    from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

    def patience(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        return policy.wait(state.attempt_number, getattr(error, "retry_after", None))

    async def attempt() -> tuple[Responses, ModelResponse]:
        source = make_call()
        try:
            return source, await anext(source)
        except StopAsyncIteration:
            raise ModelError("the model call gave no response; try again", kind="stream", retryable=True) from None
        except BaseException:
            await source.aclose()
            raise

    retrying = AsyncRetrying(
        sleep=sleep,
        stop=stop_after_attempt(policy.attempts),
        wait=patience,
        retry=retry_if_exception(_may_retry),
        reraise=True,
    )
    return await retrying(attempt)


def _may_retry(error: BaseException) -> bool:
    if not isinstance(error, ModelError) or not error.retryable or error.after_first_chunk:
        return False
    return error.retry_after is None or error.retry_after <= LONGEST_WAIT
