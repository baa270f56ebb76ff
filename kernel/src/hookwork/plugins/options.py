"""A plugin's options: the keys of its settings table, held against what its class takes (tools-plugins EXT-8)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hookwork.catalogue import did_you_mean
from hookwork.errors import HookworkError, PluginError

_BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_LISTS = (list, tuple, set, frozenset, Sequence, Iterable, Collection)

#: The types that TOML has, in its words.
_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a table",
    type(None): "nothing",
}


def construct(target: Callable[..., Any], table: Mapping[str, Any], *, plugin: str, where: str) -> Any:
    """The plugin that a class or factory makes of its table.

    Args:
        plugin: what errors call the plugin, e.g. ``plugin 'audit' (hookwork-audit)``.
        where: what they call the table, e.g. ``[audit] of pyproject.toml``.

    Raises:
        PluginError: a key that the plugin does not take, one that is missing, or a value it cannot use; with the
            nearest key and the known ones. What else the plugin raises by itself passes as it is.
    """
    named = f"{where}, options of {plugin}"
    _check_keys(target, table, named)
    try:
        return target(**table)
    except HookworkError:
        raise
    except (TypeError, ValueError, AttributeError) as error:
        raise PluginError(f"{named}: {_unfit(target, table) or _given(table)}: {error}") from error


def _check_keys(target: Callable[..., Any], table: Mapping[str, Any], where: str) -> None:
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return  # a callable of C may have none; the call tells
    known = [parameter.name for parameter in parameters if parameter.kind in _BY_KEYWORD]
    shown = ", ".join(sorted(known)) or "none"
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
    for key in table:
        if key not in known and not takes_any:
            raise PluginError(f"{where}: unknown key {key!r}{did_you_mean(key, known)}; known keys: {shown}")
    for parameter in parameters:
        if parameter.name in known and parameter.default is parameter.empty and parameter.name not in table:
            raise PluginError(f"{where}: the key {parameter.name!r} is missing; known keys: {shown}")


def _given(table: Mapping[str, Any]) -> str:
    return f"one of its values cannot be used (keys: {', '.join(table)})" if table else "it cannot be made without keys"


def _unfit(target: Callable[..., Any], table: Mapping[str, Any]) -> str:
    """The keys whose values are not of the type that the plugin's annotations ask for."""
    try:
        hints = get_type_hints(target.__init__ if isinstance(target, type) else target)  # type: ignore[misc]
    except Exception:  # noqa: BLE001 - annotations may name what exists for type checkers only; then nobody can tell
        return ""
    return "; ".join(
        f"{key!r} takes {_called(hints[key])}, not {_KINDS.get(type(value), type(value).__name__)}"
        for key, value in table.items()
        if key in hints and not _fits(value, hints[key])
    )


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value of TOML can be what an annotation asks for; yes where that is not known."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, option) for option in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    kind = origin or hint
    if kind in (bool, str, dict, type(None)):
        return isinstance(value, kind)
    if kind in (int, float):
        return isinstance(value, int | kind) and not isinstance(value, bool)
    if kind in _LISTS:
        return isinstance(value, list | tuple)
    if kind is Mapping:
        return isinstance(value, Mapping)
    return not isinstance(kind, type)  # no class of its own can be written in TOML


def _called(hint: Any) -> str:
    """An annotation in the words of TOML: those of its options that can be written there."""
    if get_origin(hint) is Literal:
        return " or ".join(repr(option) for option in get_args(hint))
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    words = []
    for option in options:
        kind = get_origin(option) or option
        if kind in _LISTS:
            words.append("a list")
        elif kind is Mapping:
            words.append("a table")
        elif kind in _KINDS and kind is not type(None):
            words.append(_KINDS[kind])
    return " or ".join(words) or "a value that settings cannot hold"
