"""Arguments for a call, found in a text by the declared JSON types.

Whatever is found is checked against the schema before it is used, so a call of this model always fits its declaration.
Three passes, surest evidence first: values next to a parameter's name; values that only fit by their type; loose text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hookwork_offline.matching import Option
from hookwork_offline.reading import Reading
from hookwork_offline.schema import Schema, enum_of, equal, fits, properties, required, resolve, types_of, variants
from hookwork_offline.strings import find_text, is_free_text, whole_answer
from hookwork_offline.values import Value, find_json, number_of
from hookwork_offline.words import words

_MISSING: Any = object()
_MAX_NESTING = 3
_NEGATION = re.compile(r"(?<!\w)(?:no|not|without|don['’]?t|never|disable|disabled|skip|exclude|off|false)(?!\w)", re.I)
_OFF_AFTER = re.compile(r"\w*\s*(?:=|:|is|to|set to)?\s*(?:off|false|no|disabled)(?!\w)", re.I)
_YES = frozenset({"yes", "y", "true", "on", "sure", "yep", "yeah", "ok", "okay"})
_NO = frozenset({"no", "n", "false", "off", "nope"})
_FLAG_WORDS = frozenset({"is", "has", "use", "enable", "enabled", "include", "with", "should", "allow", "do", "be"})
_LIST_SPLIT = re.compile(r"\s*,\s*(?:and\s+|or\s+)?|\s+and\s+|\s+or\s+")
_LIST_END = re.compile(r"\s+(?:to|in|into|from|for|on|at|please)\s.*$|[.?!\s]+$", re.DOTALL)


@dataclass(slots=True)
class Filled:
    """What was found for a call: arguments by name (``said``: without the defaults), and what is still needed."""

    args: dict[str, Any] = field(default_factory=dict)
    said: dict[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def fill(
    option: Option, text: str, *, known: dict[str, Any] | None = None, foreign: frozenset[str] = frozenset()
) -> Filled:
    """Fill the arguments of a call from a text.

    Args:
        option: the tool.
        text: the person's words, or the clause of them that speaks of this tool.
        known: arguments found earlier; kept.
        foreign: words of the other tools; a value tied to one of them is left alone.
    """
    reading = Reading(text, option.evidence, foreign, option.own_words)
    parameters = option.parameters
    needed = option.required
    order = sorted(parameters, key=lambda name: name not in needed)
    args = {name: value for name, value in (known or {}).items() if name in parameters or name in needed}
    for find in (_by_name, _by_type, _by_text):
        for name in order:
            if name not in args:
                value = _try(find, reading, name, parameters[name], option, name in needed)
                if value is not _MISSING:
                    args[name] = value
    return finish(option, args)


def finish(option: Option, args: dict[str, Any]) -> Filled:
    """Arguments in declared order, defaults added, and what is still missing."""
    filled = Filled(said=args)
    needed = option.required
    for name, schema in option.parameters.items():
        if name in args:
            filled.args[name] = args[name]
            continue
        default = resolve(schema, option.schema).get("default")
        if default is not None and fits(default, schema, option.schema):
            filled.args[name] = default
        elif name in needed:
            only = _only_value(schema, option.schema)
            if only is _MISSING:
                filled.missing.append(name)
            else:
                filled.args[name] = only
    for name in needed:
        if name not in option.parameters:
            if name in args:
                filled.args[name] = args[name]
            else:
                filled.missing.append(name)
    if not filled.missing and not fits(filled.args, option.schema, option.schema):
        # Each argument fits on its own, the whole does not (a union at the top, say): never send such a call.
        filled.missing = [name for name in option.parameters if name not in filled.args] or ["arguments"]
    return filled


def answer(option: Option, text: str, name: str) -> Any:
    """The value that a direct answer gives for one parameter, or `nothing()`."""
    schema = option.parameters.get(name, {})
    for variant in variants(schema, option.schema):
        kind = (types_of(variant) or ["string"])[0]
        found: Any = _MISSING
        if kind == "boolean":
            said = set(words(text))
            found = True if said & _YES else False if said & _NO else _MISSING
        elif kind == "string" and enum_of(variant) is None:
            found = whole_answer(text, name, lambda value: fits(value, schema, option.schema))
        if found is not None and found is not _MISSING and fits(found, schema, option.schema):
            return found
    return _MISSING


def nothing() -> Any:
    """What `answer` gives when it found nothing (None is a value)."""
    return _MISSING


def _only_value(schema: Schema, root: Schema) -> Any:
    """The value of a parameter that can have but one."""
    options = variants(schema, root)
    if len(options) == 1:
        allowed = enum_of(options[0])
        if allowed is None and types_of(options[0]) == ["null"]:
            allowed = [None]
        if allowed is not None and len(allowed) == 1 and fits(allowed[0], schema, root):
            return allowed[0]
    return _MISSING


Finder = Callable[[Reading, str, Schema, Option, Callable[[Any], bool], bool], Any]


def _try(find: Finder, reading: Reading, name: str, schema: Schema, option: Option, needed: bool) -> Any:
    """Run one pass over the variants of a parameter; only what fits the declared schema counts."""

    def accept(value: Any) -> bool:
        return fits(value, schema, option.schema)

    for variant in variants(schema, option.schema):
        value = find(reading, name, variant, option, accept, needed)
        if value is not _MISSING and accept(value):
            return value
    return _MISSING


def _kind(schema: Schema) -> str:
    if enum_of(schema) is not None:
        return "enum"
    return (types_of(schema) or ["string"])[0]


# --- pass 1: next to the parameter's name ----------------------------------------------------------------------------


def _by_name(
    reading: Reading, name: str, schema: Schema, option: Option, accept: Callable[[Any], bool], needed: bool
) -> Any:
    kind = _kind(schema)
    if kind in ("integer", "number"):
        return _number(reading, kind, _chain(reading.cued(name), reading.counted(name)), accept)
    if kind == "boolean":
        return _flag(reading, name)
    if kind == "string":
        return _text(find_text(reading, name, schema, accept, named_only=True))
    return _MISSING


def _chain(*sources: Iterator[Value]) -> Iterator[Value]:
    for source in sources:
        yield from source


def _text(found: str | None) -> Any:
    return _MISSING if found is None else found


def _number(reading: Reading, kind: str, found: Iterator[Value], accept: Callable[[Any], bool]) -> Any:
    for value in found:
        number = number_of(value)
        if number is None:
            continue
        if kind == "integer" and isinstance(number, float) and number.is_integer():
            number = int(number)
        if accept(number):
            reading.take(value.start, value.end)
            return number
    return _MISSING


def _flag(reading: Reading, name: str) -> Any:
    """A boolean is true where its name is said, false where a negation stands by it."""
    pieces = [word for word in words(name) if word not in _FLAG_WORDS]
    if not pieces:
        return _MISSING
    mention = re.search(r"(?<!\w)" + r"[\s_-]*".join(map(re.escape, pieces)), reading.head, re.IGNORECASE)
    if mention is None:
        return _MISSING
    around = reading.text[max(0, mention.start() - 12) : mention.start()]
    after = re.match(
        r"\w*\s*(?:=|:|is|to|set to)?\s*(?:off|false|no|disabled)(?!\w)", reading.text[mention.end() :], re.I
    )
    return _NEGATION.search(around) is None and after is None


# --- pass 2: by type -------------------------------------------------------------------------------------------------


def _by_type(
    reading: Reading, name: str, schema: Schema, option: Option, accept: Callable[[Any], bool], needed: bool
) -> Any:
    kind = _kind(schema)
    if kind == "enum":
        return _enum(reading, enum_of(schema) or [], accept)
    if kind in ("integer", "number"):
        free = (value for value in reading.free("number", "measure") if not reading.is_foreign(value))
        return _number(reading, kind, free, accept)
    if kind == "array":
        return _array(reading, name, schema, option, accept, needed)
    if kind == "object":
        return _object(reading, schema, option, accept, needed)
    return _MISSING


def _enum(reading: Reading, allowed: list[Any], accept: Callable[[Any], bool]) -> Any:
    found = [match for match in _enum_matches(reading, allowed) if accept(match[2])]
    if not found:
        return _MISSING
    start, end, value = min(found, key=lambda match: (match[0], -match[1]))
    reading.take(start, end)
    return value


def _enum_matches(reading: Reading, allowed: list[Any]) -> Iterator[tuple[int, int, Any]]:
    for option in allowed:
        if isinstance(option, str) and option:
            plain = re.fullmatch(r"[\w\s-]+", option) is not None  # "C++" is no word to be spelled freely
            core = r"[\s_-]*".join(map(re.escape, words(option))) if plain and words(option) else re.escape(option)
            for match in re.finditer(rf"(?<!\w){core}s?(?!\w)", reading.head, re.IGNORECASE):
                if not reading.is_taken(*match.span()):
                    yield match.start(), match.end(), option
        elif isinstance(option, int | float):
            for value in reading.free("number", "measure"):
                number = number_of(value)
                if number is not None and equal(number, option):
                    yield value.start, value.end, option


def _array(
    reading: Reading, name: str, schema: Schema, option: Option, accept: Callable[[Any], bool], needed: bool
) -> Any:
    for value in find_json(reading.head):
        if isinstance(value, list) and accept(value):
            return value
    for item in variants(schema.get("items", {}), option.schema):
        found = _items(reading, name, item, option, needed)
        if found and accept(found):
            return found
        if found and isinstance(schema.get("maxItems"), int) and accept(found[: schema["maxItems"]]):
            return found[: schema["maxItems"]]
    return _MISSING


def _items(reading: Reading, name: str, item: Schema, option: Option, needed: bool) -> list[Any]:
    kind = _kind(item)

    def accept(value: Any) -> bool:
        return fits(value, item, option.schema)

    if kind == "enum":
        matches = sorted(_enum_matches(reading, enum_of(item) or []), key=lambda match: match[0])
        return _distinct([match[2] for match in matches if accept(match[2])])
    if kind in ("integer", "number"):
        return list(iter(lambda: _number(reading, kind, reading.free("number", "measure"), accept), _MISSING))
    if kind == "object":
        found = _object(reading, item, option, accept, needed)
        return [] if found is _MISSING else [found]
    if kind == "string":
        return _texts(reading, name, item, option, accept) if needed else _quoted(reading, accept)
    return []


def _distinct(found: list[Any]) -> list[Any]:
    return [value for i, value in enumerate(found) if not any(equal(value, other) for other in found[:i])]


def _quoted(reading: Reading, accept: Callable[[Any], bool]) -> list[Any]:
    found = [value for value in reading.free("quoted") if accept(value.value)]
    for value in found:
        reading.take(value.start, value.end)
    return [value.value for value in found]


def _texts(reading: Reading, name: str, item: Schema, option: Option, accept: Callable[[Any], bool]) -> list[Any]:
    """All texts of one kind: quoted ones, those that the name asks for, capitalised ones, else an enumeration."""
    quoted = _quoted(reading, accept)
    if quoted:
        return quoted
    singular = name.removesuffix("es") if name.endswith(("sses", "xes")) else name.removesuffix("s")
    found: list[Any] = []
    while not is_free_text(singular) and len(found) < 100:
        text = find_text(reading, singular, {**item, "type": "string"}, accept, named_only=False)
        if text is None:
            break
        found.append(text)
    listed = _enumeration(reading, option, accept)
    return listed if len(listed) > len(found) else found


def _enumeration(reading: Reading, option: Option, accept: Callable[[Any], bool]) -> list[Any]:
    """``add milk, eggs and bread to the list`` → the three."""
    body = reading.head.split(":", 1)[-1]
    pieces = _LIST_SPLIT.split(body.strip())
    if len(pieces) < 2:
        return []
    first = pieces[0].split()
    pieces[0] = first[-1] if first else ""
    pieces[-1] = _LIST_END.sub("", pieces[-1] + " ").strip()
    return [piece for piece in pieces if piece and accept(piece)]


def _object(reading: Reading, schema: Schema, option: Option, accept: Callable[[Any], bool], needed: bool) -> Any:
    for value in find_json(reading.head):
        if isinstance(value, dict) and accept(value):
            return value
    if not needed or reading.depth >= _MAX_NESTING:
        return _MISSING
    return _nested(reading, schema, option)


def _nested(reading: Reading, schema: Schema, option: Option) -> Any:
    """An object whose properties are looked for in the same text; all required ones must be there."""
    inner, needed = properties(schema, option.schema), required(schema, option.schema)
    found: dict[str, Any] = {}
    reading.depth += 1
    try:
        for find in (_by_name, _by_type, _by_text):
            for name, declared in inner.items():
                if name not in found:
                    value = _try(find, reading, name, declared, option, name in needed)
                    if value is not _MISSING:
                        found[name] = value
    finally:
        reading.depth -= 1
    return found if found and all(name in found for name in needed) else _MISSING


# --- pass 3: loose text ----------------------------------------------------------------------------------------------


def _by_text(
    reading: Reading, name: str, schema: Schema, option: Option, accept: Callable[[Any], bool], needed: bool
) -> Any:
    """Stray text goes to a required parameter, or to the first one of a tool that requires nothing."""
    if _kind(schema) != "string":
        return _MISSING
    texts = [key for key, value in option.parameters.items() if _kind_of(value, option) == "string"]
    if needed or (not option.required and texts[:1] == [name] and not is_free_text(name)):
        return _text(find_text(reading, name, schema, accept, named_only=False))
    return _MISSING


def _kind_of(schema: Schema, option: Option) -> str:
    options = variants(schema, option.schema)
    return _kind(options[0]) if options else ""
