"""Waits for something else than a person, and answers that are due by a moment (workflow WB-22).

Both are calls like any question: stored, open until a response comes by the ordinary way, in whatever process. What
answers them (a timer, a webhook) is somebody else's; the arguments of the call say all that it has to know.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hookwork import platform
from hookwork.asking import waiting_event
from hookwork.errors import InvalidResumeResponse, NodeFailed, ValidationError
from hookwork.records.content import FunctionCall
from hookwork.records.history import EXPIRED_KEY, WAIT

if TYPE_CHECKING:
    from hookwork.records.event import Event
    from hookwork.records.history import Call

#: Keys of a call's arguments. Moments are seconds since 1970 UTC, as event times are.
UNTIL, EVENT, EXPIRES_AT, DEFAULT_ANSWER = "until", "event", "expiresAt", "defaultAnswer"
#: The response to a call whose time ran out without a default answer.
EXPIRY: Mapping[str, Any] = {EXPIRED_KEY: True}
#: Where a node goes on whose question was not answered in time.
EXPIRED_ROUTE = "expired"

#: The value of an answer that did not come in time.
EXPIRED: Any = type("Expired", (), {"__repr__": lambda self: "EXPIRED", "__bool__": lambda self: False})()
#: No default answer.
NO_DEFAULT: Any = type("NoDefault", (), {"__repr__": lambda self: "NO_DEFAULT"})()


class WaitExpired(NodeFailed):
    """An answer did not come in time. A body that lets it pass ends without output, with the route ``expired``."""

    def __init__(self, key: str, path: str) -> None:
        super().__init__(f"no answer to {key!r} of {path} came before its deadline")
        self.key = key


def epoch(moment: datetime | float) -> float:
    """A moment as seconds since 1970 UTC. Raises ValidationError: it has no time zone, or is no moment."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValidationError(f"{moment!r} has no time zone; give one, e.g. datetime.now(UTC)", path="moment")
        return round(moment.timestamp(), 6)
    if isinstance(moment, bool) or not isinstance(moment, int | float):
        raise ValidationError(f"a moment is a datetime or seconds since 1970, not {moment!r}", path="moment")
    return float(moment)


def wait_event_of(
    interrupt_id: str, *, until: float | None = None, event: str = "", schema: Mapping[str, Any] | None = None
) -> Event:
    """The event of a wait for a moment, or for an event of that name."""
    args: dict[str, Any] = {"interruptId": interrupt_id}
    if until is not None:
        args[UNTIL] = until
        args["message"] = f"waits until {datetime.fromtimestamp(until, platform.now().tzinfo).isoformat()}"
    else:
        args[EVENT] = event
        args["message"] = f"waits for the event {event!r}"
    if schema is not None:
        args["responseSchema"] = schema
    return waiting_event(FunctionCall(id=interrupt_id, name=WAIT, args=args), rerun=True)


def with_deadline(asking: Event, deadline: datetime | float | None, default: Any = NO_DEFAULT) -> Event:
    """The event of a question that may be left unanswered until ``deadline``.

    Args:
        asking: the event of one call. default: the answer then; without one the answer is that it expired.
    """
    if deadline is None or asking.content is None:
        if default is not NO_DEFAULT:
            raise ValidationError("a default answer needs a deadline", path="default")
        return asking
    more: dict[str, Any] = {EXPIRES_AT: epoch(deadline)}
    if default is not NO_DEFAULT:
        more[DEFAULT_ANSWER] = default
    parts = []
    for part in asking.content.parts:
        call = part.function_call
        if call is not None:
            part = part.replace(function_call=call.replace(args={**(call.args or {}), **more}))
        parts.append(part)
    return asking.replace(content=asking.content.replace(parts=parts))


def is_expiry(payload: Any) -> bool:
    """Whether a response says that the time ran out."""
    return isinstance(payload, Mapping) and dict(payload) == EXPIRY


def check_expiry(call: Call) -> None:
    """Raises InvalidResumeResponse unless the deadline of a call has passed and it has no default answer."""
    due = call.args.get(EXPIRES_AT)
    if due is None or DEFAULT_ANSWER in call.args or platform.now().timestamp() < due:
        raise InvalidResumeResponse(
            f"the call {call.id!r} has not expired: its deadline has not passed, or it has none, or a default answer; "
            "nothing was stored, it still waits"
        )
