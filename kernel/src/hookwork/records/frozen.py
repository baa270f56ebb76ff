"""Immutable JSON: dicts and lists that look plain and refuse every change (core DLT-2, services COD-8).

Payloads (call arguments, state values, outputs) are frozen once, when they enter a record. Afterwards they can be
shared by any number of sessions, requests and threads without a copy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NoReturn

from hookwork.errors import StateMutationError, ValidationError
from hookwork.records.text import clean, report_cleaned

# Where a value hangs: a linked tuple (parent, step). None = a value on its own.
Where = tuple[Any, Any] | None

#: Python turns no larger integer into text (`sys.set_int_max_str_digits`, 4300 digits by default).
_LARGEST = 10**4300


def where_text(where: Where) -> str:
    """``a.b[0]`` for the linked form."""
    steps: list[Any] = []
    while where is not None:
        where, step = where
        steps.append(step)
    text = ""
    for step in reversed(steps):
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else str(step)
    return text


def _refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
    where = where_text(getattr(self, "_where", None))
    key = where.split(".")[0].split("[")[0] if where else ""
    at = f"{where!r}" if where else "this value"
    remedy = (
        f"assign a new value (ctx.state[{key!r}] = ...) or use `with ctx.state.edit({key!r}) as value:`"
        if key
        else "copy it first (dict(value), list(value) or copy.deepcopy(value)) and use the copy"
    )
    raise StateMutationError(f"{at} is frozen and cannot be changed in place; {remedy}.")


class FrozenDict(dict[str, Any]):
    """A read-only dict. ``dict(x)``, ``x | y``, `copy.copy` and `copy.deepcopy` give plain mutable ones."""

    # Where the value hangs, for error texts; set only when it is known. Without an __init__ of its own the type is
    # built at the speed of a plain dict.
    __slots__ = ("_where",)
    _where: Where

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def copy(self) -> dict[str, Any]:
        return dict(self)

    __copy__ = copy

    def __or__(self, other: Any) -> Any:
        return dict(self) | other

    def __ror__(self, other: Any) -> Any:
        return other | dict(self)

    def __deepcopy__(self, _: Any) -> dict[str, Any]:
        return thaw(self)  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        return FrozenDict, (dict(self),)


class FrozenList(list[Any]):
    """A read-only list. ``list(x)``, ``x + y``, slices, `copy.copy` and `copy.deepcopy` give plain mutable ones."""

    __slots__ = ("_where",)
    _where: Where

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse

    def copy(self) -> list[Any]:
        return list(self)

    __copy__ = copy

    def __add__(self, other: Any) -> Any:
        return list(self) + list(other)

    def __deepcopy__(self, _: Any) -> list[Any]:
        return thaw(self)  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        return FrozenList, (list(self),)


def thaw(value: Any) -> Any:
    """A plain, mutable deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [thaw(item) for item in value]
    return value


def freeze(value: Any, where: Where = None) -> Any:
    """The frozen form of a JSON value; what is frozen already is taken as it is.

    Text that no store can hold is replaced on the way, with one warning (services EVT-12).

    Raises:
        ValidationError: JSON cannot hold the value (its path is named, never the value itself).
    """
    kind = type(value)
    if kind is str and value.isascii() and "\x00" not in value:
        return value
    if kind is FrozenDict or kind is FrozenList or kind is bool or value is None:
        return value
    if kind is int:
        return _storable(value, where)
    cleaned: list[str] = []
    try:
        frozen = _freeze(value, where, cleaned)
    except RecursionError:
        raise ValidationError(
            f"{where_text(where) or 'value'} contains itself or is nested too deeply for JSON", path=where_text(where)
        ) from None
    if cleaned:
        report_cleaned(cleaned[0], len(cleaned))
    return frozen


def _storable(value: int, where: Where) -> int:
    if -_LARGEST < value < _LARGEST:
        return value
    path = where_text(where)
    raise ValidationError(
        f"{path or 'value'}: an integer of more than 4,300 digits cannot be written as JSON; store it as text",
        path=path,
    )


def freeze_at(value: Any, key: str) -> Any:
    """`freeze` for a state value: whatever it came from, its error texts name ``key``."""
    if type(value) in (FrozenDict, FrozenList) and _root(getattr(value, "_where", None)) != key:
        value = thaw(value)
    return freeze(value, (None, key))


def _root(where: Where) -> Any:
    step = None
    while where is not None:
        where, step = where
    return step


def _freeze(value: Any, where: Where, cleaned: list[str]) -> Any:
    kind = type(value)
    if kind is FrozenDict or kind is FrozenList or kind is bool or value is None:
        return value
    if kind is int:
        return _storable(value, where)
    if kind is float:
        if math.isfinite(value):
            return value
        path = where_text(where)
        raise ValidationError(f"{path or 'value'}: JSON has no NaN and no infinity", path=path)
    if isinstance(value, str):
        text = clean(value)
        if text is not value and text != value:
            cleaned.append(where_text(where))
        return text if type(text) is str else str.__str__(text)
    if isinstance(value, dict):
        return _freeze_dict(value, where, cleaned)
    if isinstance(value, list | tuple):
        frozen = FrozenList([_freeze(item, (where, i), cleaned) for i, item in enumerate(value)])
        frozen._where = where
        return frozen
    if isinstance(value, Mapping):
        return _freeze_dict(value, where, cleaned)
    if isinstance(value, int):  # an IntEnum, or another subclass
        return _storable(int(value), where)
    if isinstance(value, float):
        return _freeze(float(value), where, cleaned)
    raise ValidationError(
        f"{where_text(where) or 'value'}: JSON cannot hold a {kind.__module__}.{kind.__qualname__}",
        path=where_text(where),
    )


def _freeze_dict(value: Mapping[Any, Any], where: Where, cleaned: list[str]) -> FrozenDict:
    frozen: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise ValidationError(
                f"{where_text(where) or 'value'}: JSON keys are text, not {type(key).__name__}", path=where_text(where)
            )
        text = clean(key)
        if type(text) is not str:  # a StrEnum, say: keys are plain text, as they are once read back
            text = str.__str__(text)
        if text != key:
            cleaned.append(where_text((where, text)))
            if text in frozen or text in value:
                raise ValidationError(
                    f"{where_text(where) or 'value'}: two keys become equal once NUL and lone surrogates are replaced",
                    path=where_text(where),
                )
        frozen[text] = _freeze(item, (where, text), cleaned)
    hung = FrozenDict(frozen)
    hung._where = where
    return hung
