"""Times and numbers as the API has them: RFC 3339, and doubles for everything (services EVT-10, VTX-9)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hookwork.errors import BackendError, ValidationError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
#: 0001-01-01 and the last second of 9999, in epoch seconds: what a time may be (EVT-6).
FIRST, LAST = -62135596800, 253402300799
#: Whole numbers up to here are exact in a double.
EXACT = 1 << 53


def micros_of_epoch(seconds: float) -> int:
    """Epoch seconds in whole microseconds. Raises ValidationError outside years 1 to 9999."""
    if not FIRST <= seconds <= LAST:  # false for NaN too
        raise ValidationError("a time must be epoch seconds of the years 1 to 9999", path="timestamp")
    return round(seconds * 1e6)


def epoch_of_micros(micros: int) -> float:
    """The same as a float of seconds, the form of event times."""
    return micros / 1_000_000


def moment_of(micros: int) -> datetime:
    """The same as an aware datetime."""
    return _EPOCH + timedelta(microseconds=micros)


def micros_of(moment: datetime) -> int:
    """An aware datetime in whole microseconds."""
    return (moment - _EPOCH) // _MICROSECOND


def rfc3339(micros: int) -> str:
    """UTC with ``Z`` and a fraction of 0 or 6 digits."""
    return moment_of(micros).isoformat()[:-6] + "Z"


def micros_of_text(text: Any, what: str) -> int:
    """Microseconds of RFC 3339 text; digits behind the microsecond are cut off.

    Raises:
        BackendError: the service gave something else for ``what``.
    """
    try:
        moment = datetime.fromisoformat(text)
        return micros_of(moment)
    except (TypeError, ValueError) as error:
        raise BackendError(f"Vertex AI: {what} is no time", code="malformed") from error


def whole(value: Any) -> Any:
    """A value read from a ``Struct``, its whole numbers as integers again (EVT-10)."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and -EXACT <= value <= EXACT else value
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    return value


def is_exact(value: Any) -> bool:
    """Whether a ``Struct`` gives a JSON value back as it is: no whole number in it is too large for a double."""
    if isinstance(value, int):
        return -EXACT <= value <= EXACT
    if isinstance(value, Mapping):
        return all(is_exact(item) for item in value.values())
    if isinstance(value, list | tuple):
        return all(is_exact(item) for item in value)
    return True


def check_state(state: Mapping[str, Any]) -> None:
    """Raise ValidationError for a state value that the service would silently change."""
    for key, value in state.items():
        if not is_exact(value):
            raise ValidationError(
                f"state {key!r}: Agent Engine keeps numbers as doubles, which cannot hold whole numbers beyond 2**53; "
                "store it as text",
                path=f"state_delta.{key}",
            )
