"""The retry policy (workflow §7.2)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookwork.errors import ConfigurationError
from hookwork_workflow import InputValidationError, NodeTimeout, Retry


def middle() -> float:
    """A random source that gives no jitter: ``1 ± jitter`` around its middle."""
    return 0.5


def test_rty_1_the_bare_constructor_is_the_default_policy() -> None:
    """WT-29: in the reference a literal without fields means "never"."""
    policy = Retry()
    assert (policy.max_attempts, policy.initial_delay, policy.max_delay) == (5, 1.0, 60.0)
    assert (policy.backoff_factor, policy.jitter, policy.retry_on) == (2.0, 1.0, None)
    assert [policy.should_retry(ValueError(), k) for k in range(1, 7)] == [True, True, True, True, False, False]
    assert Retry(initial_delay=3).max_attempts == 5


@pytest.mark.parametrize("attempts", [0, 1])
def test_rty_1_none_or_one_attempt_is_no_retry(attempts: int) -> None:
    assert not Retry(max_attempts=attempts).should_retry(ValueError(), 1)


def test_rty_2_delays_grow_up_to_the_cap() -> None:
    policy = Retry(jitter=0, max_delay=5)
    assert [policy.delay(k, middle) for k in range(1, 6)] == [1, 2, 4, 5, 5]
    assert Retry(jitter=0, max_delay=0).delay(11, middle) == 1024  # no cap
    assert [Retry(jitter=0, backoff_factor=f).delay(3, middle) for f in (0, -2, 1, 3)] == [1, 1, 1, 9]


def test_rty_2_jitter_stays_below_the_cap() -> None:
    """The delay is limited first, so that even the longest jitter ends at ``max_delay``; Go may reach twice that."""
    policy = Retry(initial_delay=100, max_delay=60, jitter=1.0)
    assert policy.delay(1, lambda: 0.0) == 0
    assert policy.delay(1, middle) == 30
    assert policy.delay(1, lambda: 1.0) == 60
    assert Retry(initial_delay=10, jitter=0.5).delay(1, lambda: 0.0) == 5
    assert Retry(initial_delay=10, jitter=0.5).delay(1, lambda: 1.0) == 15
    assert Retry(initial_delay=10, jitter=3, max_delay=0).delay(1, lambda: 0.0) == 0  # never negative


@settings(deadline=None)
@given(
    st.floats(0, 1e6), st.floats(0, 1e6), st.floats(-2, 10), st.floats(0, 5), st.integers(1, 2000), st.floats(0, 0.999)
)
def test_rty_2_law(initial: float, cap: float, factor: float, jitter: float, k: int, drawn: float) -> None:
    policy = Retry(initial_delay=initial, max_delay=cap, backoff_factor=factor, jitter=jitter)
    delay = policy.delay(k, lambda: drawn)
    assert delay >= 0
    if cap:
        assert delay <= cap * (1 + 1e-9)
        assert math.isfinite(delay)


def test_rty_2_what_is_retried() -> None:
    invalid = InputValidationError("n")
    assert not Retry().should_retry(invalid, 1)
    assert Retry().should_retry(NodeTimeout("n", 1), 1)  # RTY-3: timeouts are retryable
    assert Retry(retry_on=InputValidationError).should_retry(invalid, 1)
    only = Retry(retry_on=(OSError, KeyError))
    assert only.should_retry(ConnectionError(), 1)
    assert not only.should_retry(ValueError(), 1)
    assert Retry(retry_on=[OSError]).should_retry(OSError(), 1)


def test_rty_2_a_predicate_decides_alone() -> None:
    policy = Retry(max_attempts=3, retry_on=lambda error: "again" in str(error))
    assert policy.should_retry(InputValidationError("again"), 1)
    assert not policy.should_retry(ValueError("no"), 1)
    assert not policy.should_retry(ValueError("again"), 3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": -1},
        {"max_attempts": 1.5},
        {"max_attempts": True},
        {"initial_delay": -1},
        {"max_delay": "5"},
        {"jitter": math.nan},
        {"backoff_factor": math.inf},
        {"retry_on": "OSError"},
        {"retry_on": [int]},
        {"retry_on": 5},
    ],
)
def test_rty_1_values_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"Retry: {next(iter(wrong))}"):
        Retry(**wrong)
