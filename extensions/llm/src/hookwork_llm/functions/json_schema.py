"""Checking JSON values against a JSON schema (draft 2020-12, the part that tools use).

A schema is compiled once into closures, which also finds its mistakes; a check is then a walk over the value.
``format`` is an annotation, as the standard has it. A keyword that would have to be enforced and is not known here is
refused instead of being ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hookwork_llm.functions.faults import EXPECTED, MISSING, UNKNOWN, Fault, pointer

# A place in the value, innermost step last: (parent, step), None for the whole.
_At = Any
_Check = Callable[[Any, _At, list[Fault]], None]

_REFUSED = ("$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties", "$id")


class SchemaError(ValueError):
    """The schema is not a valid JSON schema, or uses a keyword that cannot be enforced here."""


class JsonSchema:
    """A compiled schema; `faults` lists what is wrong with a value."""

    __slots__ = ("_check", "_compiled", "_root")

    def __init__(self, schema: Any) -> None:
        """Compile ``schema``, a mapping or a bool. Raises SchemaError."""
        self._root = schema
        self._compiled: dict[str, _Check | None] = {}
        self._check = self._schema(schema, "")

    def faults(self, value: Any) -> list[Fault]:
        """Everything that is wrong with a JSON value; empty when it fits."""
        found: list[Fault] = []
        self._check(value, None, found)
        return found

    # --- compiling ---------------------------------------------------------------------------------------------------

    def _schema(self, schema: Any, where: str) -> _Check:
        if schema is True:
            return _anything
        if schema is False:
            return _nothing
        if not isinstance(schema, Mapping):
            raise SchemaError(f"{where or 'the schema'} is a {type(schema).__name__}, not an object")
        for keyword in _REFUSED:
            if keyword in schema:
                raise SchemaError(f"{where or 'the schema'} uses {keyword!r}, which is not supported")
        for name, sub in {**_mapping(schema, "$defs", where), **_mapping(schema, "definitions", where)}.items():
            self._schema(sub, f"{where}/$defs/{name}")
        checks: list[_Check] = []
        for build in (self._types, self._values, self._numbers, self._texts, self._arrays, self._objects, self._logic):
            checks += build(schema, where)
        if "$ref" in schema:
            checks.append(self._reference(schema["$ref"], where))
        return checks[0] if len(checks) == 1 else _all(checks) if checks else _anything

    def _reference(self, ref: Any, where: str) -> _Check:
        if not isinstance(ref, str) or not ref.startswith("#"):
            raise SchemaError(f"{where or 'the schema'}: $ref {ref!r} does not point into this schema")
        if ref not in self._compiled:
            self._compiled[ref] = None  # a recursive schema meets itself here; the closure below asks later
            target = self._root
            for step in ref[1:].split("/")[1:]:
                key = step.replace("~1", "/").replace("~0", "~")
                if not isinstance(target, Mapping) or key not in target:
                    raise SchemaError(f"{where or 'the schema'}: $ref {ref!r} points at nothing")
                target = target[key]
            self._compiled[ref] = self._schema(target, ref[1:])

        def check(value: Any, at: _At, found: list[Fault]) -> None:
            self._compiled[ref](value, at, found)  # type: ignore[misc]

        return check

    def _types(self, schema: Mapping[str, Any], where: str) -> list[_Check]:
        if "type" not in schema:
            return []
        names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        if not isinstance(names, Sequence) or not names or any(name not in _TYPES for name in names):
            raise SchemaError(f"{where or 'the schema'}: type {schema['type']!r} is not one of {', '.join(_TYPES)}")
        tests = [_TYPES[name] for name in names]
        text = EXPECTED.get(names[0], f"Input should be a valid {names[0]}")
        if len(names) > 1:
            text = f"Input should be {' or '.join(names)}"

        def check(value: Any, at: _At, found: list[Fault]) -> None:
            if not any(test(value) for test in tests):
                found.append((_pointer(at), text))

        return [check]

    def _values(self, schema: Mapping[str, Any], where: str) -> list[_Check]:
        checks = []
        if "enum" in schema:
            allowed = schema["enum"]
            if not isinstance(allowed, Sequence) or isinstance(allowed, str):
                raise SchemaError(f"{where or 'the schema'}: enum is not a list")
            shown = ", ".join(repr(value) for value in allowed[:20])
            checks.append(
                _rule(lambda v: any(json_equal(v, one) for one in allowed), f"Input should be one of {shown}")
            )
        if "const" in schema:
            only = schema["const"]
            checks.append(_rule(lambda v: json_equal(v, only), f"Input should be {only!r}"))
        return checks

    def _numbers(self, schema: Mapping[str, Any], where: str) -> list[_Check]:
        checks = []
        for keyword, test, text in _NUMBER_RULES:
            limit = _number(schema, keyword, where)
            if limit is not None:
                checks.append(_rule(_when(is_number, test, limit), f"Input should be {text} {limit}"))
        return checks

    def _texts(self, schema: Mapping[str, Any], where: str) -> list[_Check]:
        checks = _lengths(schema, where, "minLength", "maxLength", _TYPES["string"], "characters")
        if "pattern" in schema:
            pattern = _regex(schema["pattern"], where)
            text = f"Input should match pattern {pattern.pattern!r}"
            checks.append(_rule(lambda v: not isinstance(v, str) or pattern.search(v) is not None, text))
        return checks

    def _arrays(self, schema: Mapping[str, Any], where: str) -> list[_Check]:
        checks = _lengths(schema, where, "minItems", "maxItems", _TYPES["array"], "items")
        if schema.get("uniqueItems") is True:
            checks.append(_rule(_unique, "Input should have no equal items"))
        prefix = [self._schema(sub, f"{where}/prefixItems/{i}") for i, sub in enumerate(schema.get("prefixItems", ()))]
        rest = self._schema(schema["items"], f"{where}/items") if "items" in schema else None
        if prefix or rest is not None:

            def check(value: Any, at: _At, found: list[Fault]) -> None:
                if not isinstance(value, list | tuple):
                    return
                for i, item in enumerate(value):
                    sub = prefix[i] if i < len(prefix) else rest
                    if sub is not None:
                        sub(item, (at, i), found)

            checks.append(check)
        if "contains" in schema:
            checks.append(self._contains(schema, where))
        return checks

    def _contains(self, schema: Mapping[str, Any], where: str) -> _Check:
        wanted = self._schema(schema["contains"], f"{where}/contains")
        least = int(_number(schema, "minContains", where, default=1) or 0)
        most = _number(schema, "maxContains", where, default=math.inf)

        def check(value: Any, at: _At, found: list[Fault]) -> None:
            if isinstance(value, list | tuple):
                count = sum(_fits(wanted, item) for item in value)
                if not least <= count <= (math.inf if most is None else most):
                    found.append((_pointer(at), "Input does not hold the right number of matching items"))

        return check

    def _objects(self, schema: Mapping[str, Any], where: str) -> list[_Check]:
        checks = _lengths(
            schema, where, "minProperties", "maxProperties", lambda v: isinstance(v, Mapping), "properties"
        )
        known = {
            k: self._schema(v, f"{where}/properties/{k}") for k, v in _mapping(schema, "properties", where).items()
        }
        patterns = [
            (_regex(key, where), self._schema(sub, f"{where}/patternProperties/{key}"))
            for key, sub in _mapping(schema, "patternProperties", where).items()
        ]
        other = self._schema(schema.get("additionalProperties", True), f"{where}/additionalProperties")
        names = self._schema(schema["propertyNames"], f"{where}/propertyNames") if "propertyNames" in schema else None
        required = _names(schema.get("required", ()), f"{where}: required")
        if required:
            checks.append(_required(required))
        if known or patterns or other is not _anything or names is not None:
            checks.append(_properties(known, patterns, other, names))
        for key, needed in _mapping(schema, "dependentRequired", where).items():
            checks.append(_if_present(key, _required(_names(needed, f"{where}: dependentRequired"))))
        for key, sub in _mapping(schema, "dependentSchemas", where).items():
            checks.append(_if_present(key, self._schema(sub, f"{where}/dependentSchemas/{key}")))
        return checks

    def _logic(self, schema: Mapping[str, Any], where: str) -> list[_Check]:
        checks: list[_Check] = []
        for keyword, build in (("allOf", _all), ("anyOf", _any), ("oneOf", _one)):
            if keyword in schema:
                subs = schema[keyword]
                if not isinstance(subs, Sequence) or isinstance(subs, str) or not subs:
                    raise SchemaError(f"{where or 'the schema'}: {keyword} is not a list of schemas")
                checks.append(build([self._schema(sub, f"{where}/{keyword}/{i}") for i, sub in enumerate(subs)]))
        if "not" in schema:
            wrong = self._schema(schema["not"], f"{where}/not")
            checks.append(_rule(lambda v: not _fits(wrong, v), "Input has a form that is not allowed"))
        if "if" in schema:
            test = self._schema(schema["if"], f"{where}/if")
            then = self._schema(schema.get("then", True), f"{where}/then")
            otherwise = self._schema(schema.get("else", True), f"{where}/else")
            checks.append(lambda v, at, found: (then if _fits(test, v) else otherwise)(v, at, found))
        return checks


# --- types and values ------------------------------------------------------------------------------------------------


def is_number(value: Any) -> bool:
    """Whether JSON calls the value a number; a bool is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: is_number(v) and (isinstance(v, int) or v.is_integer()),
    "number": is_number,
    "boolean": lambda v: isinstance(v, bool),
    "object": lambda v: isinstance(v, Mapping),
    "array": lambda v: isinstance(v, list | tuple),
    "null": lambda v: v is None,
}


def json_equal(a: Any, b: Any) -> bool:
    """Equality of JSON values: 1 equals 1.0, but true is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(json_equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(json_equal, a, b))
    return bool(a == b)


def _multiple(value: float, of: float) -> bool:
    quotient = value / of
    return abs(quotient - round(quotient)) <= 1e-9 * max(1.0, abs(quotient))


_NUMBER_RULES: tuple[tuple[str, Callable[[Any, Any], bool], str], ...] = (
    ("minimum", lambda v, limit: v >= limit, "greater than or equal to"),
    ("maximum", lambda v, limit: v <= limit, "less than or equal to"),
    ("exclusiveMinimum", lambda v, limit: v > limit, "greater than"),
    ("exclusiveMaximum", lambda v, limit: v < limit, "less than"),
    ("multipleOf", _multiple, "a multiple of"),
)


def _unique(value: Any) -> bool:
    if not isinstance(value, list | tuple):
        return True
    # Scalars are told apart by a set (a bool is no number in JSON); only arrays and objects are compared one by one.
    scalars = [(isinstance(one, bool), one) for one in value if not isinstance(one, list | tuple | Mapping)]
    nested = [one for one in value if isinstance(one, list | tuple | Mapping)]
    if len(set(scalars)) < len(scalars):
        return False
    return not any(json_equal(a, b) for i, a in enumerate(nested) for b in nested[:i])


# --- building blocks -------------------------------------------------------------------------------------------------


def _pointer(at: _At) -> str:
    steps: list[str | int] = []
    while at is not None:
        at, step = at
        steps.append(step)
    return pointer(steps[::-1])


def _anything(value: Any, at: _At, found: list[Fault]) -> None:
    """The schema ``true``."""


def _nothing(value: Any, at: _At, found: list[Fault]) -> None:
    found.append((_pointer(at), UNKNOWN))


def _fits(check: _Check, value: Any) -> bool:
    found: list[Fault] = []
    check(value, None, found)
    return not found


def _rule(test: Callable[[Any], bool], text: str) -> _Check:
    def check(value: Any, at: _At, found: list[Fault]) -> None:
        if not test(value):
            found.append((_pointer(at), text))

    return check


def _when(applies: Callable[[Any], bool], test: Callable[[Any, Any], bool], limit: Any) -> Callable[[Any], bool]:
    return lambda value: not applies(value) or test(value, limit)


def _lengths(
    schema: Mapping[str, Any], where: str, least: str, most: str, applies: Callable[[Any], bool], what: str
) -> list[_Check]:
    checks = []
    low, high = _number(schema, least, where), _number(schema, most, where)
    if low is not None:
        checks.append(_rule(_when(applies, lambda v, n: len(v) >= n, low), f"Input should have at least {low} {what}"))
    if high is not None:
        checks.append(_rule(_when(applies, lambda v, n: len(v) <= n, high), f"Input should have at most {high} {what}"))
    return checks


def _all(checks: Sequence[_Check]) -> _Check:
    def check(value: Any, at: _At, found: list[Fault]) -> None:
        for one in checks:
            one(value, at, found)

    return check


def _any(checks: Sequence[_Check]) -> _Check:
    def check(value: Any, at: _At, found: list[Fault]) -> None:
        closest: list[Fault] | None = None
        for one in checks:
            tried: list[Fault] = []
            one(value, at, tried)
            if not tried:
                return
            # The branch that got deepest into the value is the one that was meant; its faults help most.
            if closest is None or _depth(tried) > _depth(closest):
                closest = tried
        deeper = closest is not None and _depth(closest) > _pointer(at).count("/")
        found.extend(closest if deeper and closest else [(_pointer(at), "Input has none of the allowed forms")])

    return check


def _depth(found: Sequence[Fault]) -> int:
    return max(where.count("/") for where, _ in found)


def _one(checks: Sequence[_Check]) -> _Check:
    some = _any(checks)

    def check(value: Any, at: _At, found: list[Fault]) -> None:
        fitting = sum(_fits(one, value) for one in checks)
        if fitting == 0:
            some(value, at, found)
        elif fitting > 1:
            found.append((_pointer(at), "Input has more than one of the allowed forms"))

    return check


def _required(names: Sequence[str]) -> _Check:
    def check(value: Any, at: _At, found: list[Fault]) -> None:
        if isinstance(value, Mapping):
            found.extend((_pointer((at, name)), MISSING) for name in names if name not in value)

    return check


def _if_present(key: str, check: _Check) -> _Check:
    def guarded(value: Any, at: _At, found: list[Fault]) -> None:
        if isinstance(value, Mapping) and key in value:
            check(value, at, found)

    return guarded


def _properties(
    known: Mapping[str, _Check], patterns: Sequence[tuple[re.Pattern[str], _Check]], other: _Check, names: _Check | None
) -> _Check:
    def check(value: Any, at: _At, found: list[Fault]) -> None:
        if not isinstance(value, Mapping):
            return
        for key, item in value.items():
            place = (at, key)
            if names is not None:
                names(key, place, found)
            matched = key in known
            if matched:
                known[key](item, place, found)
            for pattern, sub in patterns:
                if pattern.search(key):
                    matched = True
                    sub(item, place, found)
            if not matched:
                other(item, place, found)

    return check


# --- reading keywords ------------------------------------------------------------------------------------------------


def _mapping(schema: Mapping[str, Any], keyword: str, where: str) -> Mapping[str, Any]:
    value = schema.get(keyword, {})
    if not isinstance(value, Mapping):
        raise SchemaError(f"{where or 'the schema'}: {keyword} is not an object")
    return value


def _number(schema: Mapping[str, Any], keyword: str, where: str, default: Any = None) -> Any:
    value = schema.get(keyword, default)
    if value is not None and not is_number(value):
        raise SchemaError(f"{where or 'the schema'}: {keyword} is not a number")
    if keyword == "multipleOf" and value is not None and value <= 0:
        raise SchemaError(f"{where or 'the schema'}: multipleOf is not above 0")
    return value


def _names(value: Any, where: str) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Sequence) or any(not isinstance(one, str) for one in value):
        raise SchemaError(f"{where} is not a list of names")
    return list(value)


def _regex(pattern: Any, where: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as error:
        raise SchemaError(f"{where or 'the schema'}: pattern {pattern!r} does not compile: {error}") from error
