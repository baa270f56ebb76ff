"""A service that asks for hours (a quota of the day) does not hold a run for hours (models ERR-2)."""

from __future__ import annotations

import pytest
from tests.modelkit.test_retrying import ANSWER, Service, busy, played, recorded_waits

from hookwork.errors import ModelError
from hookwork_modelkit import RetryPolicy


async def test_err_2_a_wait_of_hours_is_an_error_at_once_that_names_it() -> None:
    service = Service([busy(429, retry_after=86_400.0)], [ANSWER])
    with recorded_waits() as waits, pytest.raises(ModelError) as caught:
        await played(service, RetryPolicy())
    assert waits == []
    assert caught.value.retry_after == 86_400.0


async def test_err_2_a_wait_of_minutes_is_waited_for() -> None:
    service = Service([busy(429, retry_after=300.0)], [ANSWER])
    with recorded_waits() as waits:
        await played(service, RetryPolicy())
    assert waits == [300.0]
