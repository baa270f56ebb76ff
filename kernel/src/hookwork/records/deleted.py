"""Deleted state keys: how a delta says so, in the process and on the wire (services BEY-13).

In the process a deleted key has the value `DELETED`. On the wire it is null in ``stateDelta``, which is what older
readers see, and its name stands in ``deletedStateKeys`` beside ``actions``: google-adk passes over keys of an event
that it does not know, but refuses a session whose ``actions`` hold one (services ACT-3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hookwork.errors import ValidationError
from hookwork.records.event import Event, EventActions
from hookwork.records.frozen import FrozenDict, freeze

#: The key beside ``actions`` that lists the deleted ones; of actions that travel alone (an effect's) it is theirs.
DELETED_KEYS: Final = "deletedStateKeys"


class Deleted:
    """The type of `DELETED`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "DELETED"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "DELETED"


#: The value of a key that a delta deletes. ``ctx.state[key] = DELETED`` is ``ctx.state.delete(key)``.
DELETED: Final = Deleted()


def is_deleting(carrier: Event | EventActions) -> bool:
    """Whether an event, or actions that travel alone, name deleted keys."""
    return carrier.extra is not None and DELETED_KEYS in carrier.extra


def delta_of(carrier: Event | EventActions) -> Mapping[str, Any]:
    """The state delta with `DELETED` for every deleted key; the record's own map when there is none.

    A name that is not in the delta, or whose value is not null there, says nothing.
    """
    if isinstance(carrier, Event):
        actions = carrier.actions
        delta, extra = actions.state_delta, carrier.extra if actions.extra is None else _extra_of(carrier)
    else:
        delta, extra = carrier.state_delta, carrier.extra
    if extra is None:
        return delta
    names = extra.get(DELETED_KEYS)
    if not isinstance(names, list):
        return delta
    gone = {name: DELETED for name in names if isinstance(name, str) and name in delta and delta[name] is None}
    return {**delta, **gone} if gone else delta


def with_delta(event: Event, delta: Mapping[str, Any], **actions: Any) -> Event:
    """The event with another state delta, whose values may be `DELETED`; ``actions`` are further fields of it."""
    wire, extra = _written(event.extra, delta)
    if event.actions.extra is not None and DELETED_KEYS in event.actions.extra:
        actions["extra"] = _with_names(event.actions.extra, [])  # google-adk refuses it there (ACT-3)
    changed = event.actions.replace(state_delta=wire, **actions)
    return event.replace(actions=changed) if extra == event.extra else event.replace(actions=changed, extra=extra)


def actions_with_delta(actions: EventActions, delta: Mapping[str, Any]) -> EventActions:
    """Actions that travel alone, as the result of an effect does, with a delta whose values may be `DELETED`."""
    wire, extra = _written(actions.extra, delta)
    return actions.replace(state_delta=wire, extra=extra)


def deleting(event: Event, keys: Iterable[str]) -> Event:
    """The event with ``keys`` deleted, beside what its delta says already: for events that are made by hand.

    Raises:
        ValidationError: a key is no text, or has a scope but no name.
    """
    if isinstance(keys, str):
        raise ValidationError("keys is a list of state keys, not one text; write deleting(event, [key])", path="keys")
    return with_delta(event, {**delta_of(event), **dict.fromkeys(keys, DELETED)})


def applied(old: Mapping[str, Any], delta: Mapping[str, Any]) -> FrozenDict:
    """``old`` with a delta applied, as a map of its own: keys replaced, added, or gone (`DELETED`)."""
    new = {**old, **delta}
    for key, value in delta.items():
        if value is DELETED:
            del new[key]
    return FrozenDict(new)


def without_deleted_temp(extra: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The unknown keys of an event as they are stored: ``temp:`` keys are named nowhere."""
    if extra is None or not isinstance(names := extra.get(DELETED_KEYS), list):
        return extra
    kept: Mapping[str, Any] | None = _with_names(extra, [name for name in names if not str(name).startswith("temp:")])
    return kept


def _extra_of(event: Event) -> Mapping[str, Any] | None:
    """An event's unknown keys; the mark of actions that travelled alone counts where the event has none."""
    if is_deleting(event) or not is_deleting(event.actions):
        return event.extra
    return event.actions.extra


def _written(extra: Mapping[str, Any] | None, delta: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any]:
    """The delta and the unknown keys as they are on the wire."""
    names = [key for key, value in delta.items() if value is DELETED]
    if names:
        delta = {key: None if value is DELETED else value for key, value in delta.items()}
    elif extra is None or DELETED_KEYS not in extra:
        return delta, extra
    return delta, _with_names(extra, names)


def _with_names(extra: Mapping[str, Any] | None, names: list[str]) -> Any:
    rest = {key: value for key, value in (extra or {}).items() if key != DELETED_KEYS}
    if names:
        rest[DELETED_KEYS] = names
    return freeze(rest) if rest else None
