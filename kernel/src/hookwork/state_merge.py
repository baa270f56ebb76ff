"""Merging a state key that two writers changed at once, by a rule that the app declares (services BEY-10).

Without a rule a foreign write of a key that a run wrote too ends the run with `StaleSessionError` (SES-18). With one,
the kernel refreshes the handle, computes the value anew from (what was stored when the run wrote, what the run wrote,
what is stored now) and appends again. That is one place, whatever the backend: it needs only that the backend notices
(``capabilities.detects_stale``). What no backend notices is not merged: a write of an ``app:`` or ``user:`` key by
*another session* (SES-18), where the later append wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from hookwork import platform
from hookwork.errors import ConfigurationError, StaleSessionError, ValidationError
from hookwork.records.deleted import DELETED, delta_of, with_delta
from hookwork.records.event import Event, is_rewind
from hookwork.records.frozen import freeze_at
from hookwork.records.session import Session
from hookwork.services import SessionService
from hookwork.state import LiveState, Rule, check_state_key

#: How often an append is tried before its error is raised, and the waits between: full jitter, in seconds.
TRIES, _BASE_DELAY, _LONGEST_DELAY = 24, 0.005, 0.5


class CannotMerge(ValueError):
    """A rule does not fit the values; the run ends as it would without a rule."""


def _add(base: Any, mine: Any, current: Any) -> Any:
    """What the writer added is added to what is stored now."""
    numbers = [0 if value is None else value for value in (current, mine, base)]
    if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
        raise CannotMerge("'add' merges numbers")
    return numbers[0] + (numbers[1] - numbers[2])


def _append(base: Any, mine: Any, current: Any) -> Any:
    """What the writer appended to a list is appended to the list that is stored now."""
    lists = [[] if value is None else value for value in (base, mine, current)]
    if not all(isinstance(value, list) for value in lists):
        raise CannotMerge("'append' merges lists")
    before, after, now = lists
    if list(after[: len(before)]) != list(before):
        raise CannotMerge("'append' merges lists that only grew at their end")
    return [*now, *after[len(before) :]]


def _max(base: Any, mine: Any, current: Any) -> Any:
    """The greater one."""
    if mine is None or current is None:
        return mine if current is None else current
    try:
        return max(current, mine)
    except TypeError as error:
        raise CannotMerge("'max' merges values that can be compared") from error


def _last(base: Any, mine: Any, current: Any) -> Any:
    """The one that is stored last: the writer's own."""
    return mine


RULES: Mapping[str, Rule] = {"add": _add, "append": _append, "max": _max, "last": _last}


def rules_of(declared: Mapping[str, Any], where: str) -> dict[str, Rule]:
    """The rules of an app's ``state_merge``.

    Args:
        declared: state key → ``add`` (numbers: both increments count), ``append`` (lists: both tails), ``max``,
            ``last`` (the later append wins), or a function of (base, mine, current) that gives the value to store; a
            missing value is None, and the function may be called more than once.
        where: names the app in errors.

    Raises:
        ConfigurationError: no such rule, or a key that can have none.
    """
    if not isinstance(declared, Mapping):
        raise ConfigurationError(f"{where}: state_merge is a mapping of state keys to rules, not {declared!r}")
    rules: dict[str, Rule] = {}
    for key, rule in declared.items():
        try:
            check_state_key(key)
        except ValidationError as error:
            raise ConfigurationError(f"{where}: state_merge: {error}") from error
        if key.startswith("temp:"):
            raise ConfigurationError(f"{where}: state_merge[{key!r}]: temp: keys are never stored, so nothing merges")
        found = RULES.get(rule) if isinstance(rule, str) else rule
        if not callable(found):
            raise ConfigurationError(
                f"{where}: state_merge[{key!r}] is {rule!r}; give {', '.join(map(repr, RULES))}, or a function of "
                "(base, mine, current)"
            )
        rules[key] = found
    return rules


def merged_value(rule: Rule, base: Any, mine: Any, current: Any) -> Any:
    """What a rule makes of three values. Raises CannotMerge."""
    if mine is DELETED and rule is not _last:
        raise CannotMerge("a deleted value only merges by 'last'")
    return rule(base, mine, current)


async def append_merging(service: SessionService, session: Session, event: Event, live: LiveState) -> Event:
    """Append an event; where others wrote common keys meanwhile that all have rules, merge them and append again.

    Raises:
        StaleSessionError: a common key has no rule, its rule does not fit the values, or others were quicker too often.
        Exception: what `SessionService.append_event` raises.
    """
    rules = live.rules or {}
    tried = 0
    while True:
        base = {key: session.state.get(key) for key in rules}
        try:
            return await service.append_event(session, event)
        except StaleSessionError as stale:
            tried += 1
            if tried >= TRIES or not stale.keys or not rules.keys() >= set(stale.keys):
                raise
            if tried > 1:
                delay = min(_LONGEST_DELAY, _BASE_DELAY * 2.0**tried)
                await platform.sleep(platform.random() * delay)
            common = await _caught_up(service, session, event, rules.keys(), stale)
            event = _merged(event, live, base, common, stale)


async def _caught_up(
    service: SessionService, session: Session, event: Event, mergeable: Iterable[str], stale: StaleSessionError
) -> set[str]:
    """Refresh the handle; the keys that were written on both sides."""
    before = set(session.written_keys)
    ours = before | event.actions.state_delta.keys()
    newest = session.events[-1] if session.length else None
    goes_on = newest is not None and newest.invocation_id == event.invocation_id
    await service.refresh(session)
    session.written_keys |= before  # a refresh forgets them, and this run goes on
    touched: set[str] = set()
    for foreign in reversed(session.events):
        if newest is not None and foreign.id == newest.id:
            break
        if goes_on and is_rewind(foreign):
            raise stale  # the invocation was taken back: its values do not count any more
        touched |= foreign.actions.state_delta.keys()
    common = touched & ours
    others = sorted(common.difference(mergeable))
    if others:  # more was stored between the failed append and the refresh
        raise _stale_again(session, stale, others, "has no rule in state_merge") from stale
    return common


def _merged(
    event: Event, live: LiveState, base: Mapping[str, Any], common: Iterable[str], stale: StaleSessionError
) -> Event:
    """The event, and all that is still to be appended, brought to what is stored now."""
    session, rules = live.session, live.rules or {}
    try:
        moves: dict[str, Callable[[Any], Any]] = {
            key: partial(_moved, live, key, rules[key], base[key], session.state.get(key)) for key in common
        }
        delta = dict(delta_of(event))
        delta.update({key: moves[key](delta[key]) for key in moves if key in delta})
        live.rebase(moves)
    except CannotMerge as error:
        raise _stale_again(session, stale, stale.keys, f"could not be merged: {error}") from error
    return with_delta(event, delta)


def _moved(live: LiveState, key: str, rule: Rule, base: Any, current: Any, mine: Any) -> Any:
    value = merged_value(rule, base, mine, current)
    if value is DELETED:
        return value
    frozen = freeze_at(value, key)
    if live.check is not None:
        live.check(key, frozen)
    return frozen


def _stale_again(session: Session, stale: StaleSessionError, keys: Iterable[str], why: str) -> StaleSessionError:
    names = tuple(keys)
    return StaleSessionError(
        f"session {session.id!r}: another handle wrote {', '.join(map(repr, names))} meanwhile, which {why}; nothing "
        "was stored. Run the turn again",
        stored=stale.stored,
        local=stale.local,
        keys=names,
    )
