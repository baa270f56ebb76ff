"""Retries: models ERR-2. Waits are recorded, never waited."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import pytest

from hookwork.errors import ConfigurationError, ModelError
from hookwork.platform import use_random, use_sleep
from hookwork.records.content import text_content
from hookwork.records.metadata import ModelResponse
from hookwork_modelkit import RetryPolicy, model_error, with_retries

ANSWER = ModelResponse(content=text_content("ok"), turn_complete=True)


class Service:
    """Each call plays the next script: items are given, errors raised."""

    def __init__(self, *scripts: list[Any]) -> None:
        self.scripts = list(scripts)
        self.calls = 0
        self.open = 0

    async def __call__(self) -> AsyncGenerator[ModelResponse, None]:
        script = self.scripts[self.calls]
        self.calls += 1
        self.open += 1
        try:
            for item in script:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.open -= 1


@contextmanager
def recorded_waits(random: float = 1.0) -> Iterator[list[float]]:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    with use_sleep(sleep), use_random(lambda: random):
        yield waits


async def played(make: Callable[[], AsyncGenerator[ModelResponse, None]], policy: RetryPolicy | None) -> list[Any]:
    async with aclosing(with_retries(make, policy)) as responses:
        return [response async for response in responses]


def busy(status: int = 503, **fields: Any) -> ModelError:
    return model_error("p", "m", status=status, **fields)


async def test_err_2_the_defaults_are_five_attempts_doubling_from_a_second() -> None:
    service = Service(*[[busy()] for _ in range(4)], [ANSWER])
    with recorded_waits() as waits:
        assert await played(service, RetryPolicy()) == [ANSWER]
    assert waits == [1.0, 2.0, 4.0, 8.0]
    assert (RetryPolicy().cap, service.open) == (60.0, 0)


async def test_err_2_the_wait_is_a_random_part_of_it_and_capped() -> None:
    policy = RetryPolicy(attempts=10)
    with recorded_waits(random=0.5):
        assert policy.wait(1) == 0.5
        assert policy.wait(7) == 30.0
        assert policy.wait(5000) == 30.0
    assert RetryPolicy(jitter=False).wait(2) == 2.0


async def test_err_2_what_the_service_asks_for_wins_when_longer() -> None:
    service = Service([busy(retry_after=90.0)], [busy(429, retry_after=0.0)], [ANSWER])
    with recorded_waits() as waits:
        await played(service, RetryPolicy())
    assert waits == [90.0, 2.0]


async def test_err_2_the_last_error_goes_up_when_attempts_are_used_up() -> None:
    errors = [busy(), busy(), busy(429)]
    service = Service(*[[error] for error in errors])
    with recorded_waits(), pytest.raises(ModelError) as caught:
        await played(service, RetryPolicy(attempts=3))
    assert caught.value is errors[2]
    assert service.calls == 3


@pytest.mark.parametrize("error", [busy(400), busy(429, code="insufficient_quota"), KeyError("x")])
async def test_err_2_only_retryable_errors_are_tried_again(error: Exception) -> None:
    service = Service([error], [ANSWER])
    with recorded_waits(), pytest.raises(type(error)):
        await played(service, RetryPolicy())
    assert service.calls == 1


async def test_err_2_after_the_first_response_nothing_is_tried_again() -> None:
    """CASE-MODEL-3: no second half-answer."""
    service = Service([ANSWER.replace(partial=True), busy()], [ANSWER])
    with recorded_waits():
        async with aclosing(with_retries(service, RetryPolicy())) as responses:
            assert (await anext(responses)).partial
            with pytest.raises(ModelError):
                await anext(responses)
    assert (service.calls, service.open) == (1, 0)


async def test_err_2_it_is_off_unless_asked_for() -> None:
    service = Service([busy()], [ANSWER])
    with recorded_waits() as waits, pytest.raises(ModelError):
        await played(service, None)
    assert (service.calls, waits) == (1, [])


async def test_mod_4_leaving_early_closes_the_call() -> None:
    service = Service([busy()], [ANSWER, ANSWER])
    with recorded_waits():
        async with aclosing(with_retries(service, RetryPolicy())) as responses:
            await anext(responses)
            assert service.open == 1
    assert service.open == 0


async def test_err_1_a_call_without_a_response_is_a_stream_error() -> None:
    with recorded_waits(), pytest.raises(ModelError) as caught:
        await played(Service([], []), RetryPolicy(attempts=2))
    assert caught.value.kind == "stream"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (None, None),
        (False, None),
        (True, RetryPolicy()),
        (3, RetryPolicy(attempts=3)),
        ({"attempts": 2, "base": 0.5}, RetryPolicy(attempts=2, base=0.5)),
        (RetryPolicy(cap=1), RetryPolicy(cap=1)),
    ],
)
def test_err_2_a_policy_is_read_from_settings(given: Any, wanted: RetryPolicy | None) -> None:
    assert RetryPolicy.of(given) == wanted


@pytest.mark.parametrize("given", [{"attemps": 2}, {"base": "1"}, 0, {"factor": 0.5}, "yes"])
def test_err_2_a_wrong_policy_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="retry"):
        RetryPolicy.of(given)
