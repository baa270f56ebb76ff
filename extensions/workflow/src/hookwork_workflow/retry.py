"""When a node is tried again, and after how long (workflow §7.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from hookwork.errors import ConfigurationError
from hookwork_workflow.errors import InputValidationError

RetryOn = type[BaseException] | Iterable[type[BaseException]] | Callable[[BaseException], bool]


class Retry(msgspec.Struct, frozen=True):
    """How a node is tried again; ``Retry()`` is the default policy (RTY-1).

    Args:
        max_attempts: with the first one; 0 and 1: no retry.
        initial_delay, max_delay: seconds before the second attempt, and at most (0: no cap).
        backoff_factor: what each further delay is multiplied by; 0 or less: 1.
        jitter: spread of a delay as a share of it: uniform in ``delay·(1 ± jitter)``; 0: none.
        retry_on: exception classes, or a function of the error; None: everything but `InputValidationError`.

    Raises:
        ConfigurationError: a number is negative or none, or ``retry_on`` is neither.
    """

    max_attempts: int = 5
    initial_delay: float = 1.0
    max_delay: float = 60.0
    backoff_factor: float = 2.0
    jitter: float = 1.0
    retry_on: Any = None

    def __post_init__(self) -> None:
        attempts = self.max_attempts
        if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 0:
            raise ConfigurationError(f"Retry: max_attempts is a whole number from 0, not {attempts!r}")
        for name in ("initial_delay", "max_delay", "jitter"):
            if not _is_number(getattr(self, name)) or getattr(self, name) < 0:
                raise ConfigurationError(f"Retry: {name} is a number from 0, not {getattr(self, name)!r}")
        if not _is_number(self.backoff_factor):
            raise ConfigurationError(f"Retry: backoff_factor is a number, not {self.backoff_factor!r}")
        msgspec.structs.force_setattr(self, "retry_on", _classes_or_predicate(self.retry_on))

    def delay(self, k: int, random: Callable[[], float]) -> float:
        """Seconds to wait after the k-th failure, k from 1; ``random`` gives a float in [0, 1) (RTY-2).

        The jitter never takes a delay above ``max_delay``: what it starts from is limited first.
        """
        factor = self.backoff_factor if self.backoff_factor > 0 else 1.0
        try:
            delay = self.initial_delay * factor ** (k - 1)
        except OverflowError:
            delay = math.inf
        if self.max_delay:
            delay = min(delay, self.max_delay)
        if self.jitter:
            if self.max_delay:
                delay = min(delay, self.max_delay / (1 + self.jitter))
            delay *= 1 + self.jitter * (2 * random() - 1)
        return max(delay, 0.0)

    def should_retry(self, error: BaseException, k: int) -> bool:
        """Whether another attempt follows the k-th failure, k from 1."""
        if k >= self.max_attempts:
            return False
        if self.retry_on is None:
            return not isinstance(error, InputValidationError)
        if isinstance(self.retry_on, tuple):
            return isinstance(error, self.retry_on)
        return bool(self.retry_on(error))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _classes_or_predicate(value: Any) -> Any:
    if value is None or (isinstance(value, tuple) and all(_is_error_class(member) for member in value)):
        return value
    if _is_error_class(value):
        return (value,)
    if callable(value) and not isinstance(value, type):
        return value
    if isinstance(value, Iterable) and not isinstance(value, str):
        members = tuple(value)
        if all(_is_error_class(member) for member in members):
            return members
    raise ConfigurationError(f"Retry: retry_on is exception classes or a function of the error, not {value!r}")


def _is_error_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)
