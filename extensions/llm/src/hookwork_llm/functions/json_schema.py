"""Checking JSON values against a JSON schema (draft 2020-12), by the `jsonschema` library.

The library is imported when the first schema is compiled: plain function tools never need it. Its texts quote the
value; ours say only what was expected, because they go to models and logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hookwork_llm.functions.faults import EXPECTED, MISSING, UNKNOWN, Fault, pointer

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

#: Validator keyword → what a fault says; ``{}`` is the keyword's value in the schema.
_TEXTS = {
    "const": "Input should be {!r}",
    "pattern": "Input should match pattern {!r}",
    "minimum": "Input should be greater than or equal to {}",
    "maximum": "Input should be less than or equal to {}",
    "exclusiveMinimum": "Input should be greater than {}",
    "exclusiveMaximum": "Input should be less than {}",
    "multipleOf": "Input should be a multiple of {}",
    "minLength": "Input should have at least {} characters",
    "maxLength": "Input should have at most {} characters",
    "minItems": "Input should have at least {} items",
    "maxItems": "Input should have at most {} items",
    "minProperties": "Input should have at least {} entries",
    "maxProperties": "Input should have at most {} entries",
    "uniqueItems": "Input should have no equal items",
}


#: Keywords whose value holds data, and keywords whose value maps free names to schemas.
_DATA = frozenset({"const", "enum", "default", "examples", "example"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})

#: JSON type → Python types whose every value is of it.
_EXACT_TYPES: dict[Any, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int,),
    "boolean": (bool,),
}


class SchemaError(ValueError):
    """The schema is not a valid JSON schema, or refers to something outside itself."""


class JsonSchema:
    """A compiled schema; `faults` lists what is wrong with a value."""

    __slots__ = ("_quick", "_validator")

    def __init__(self, schema: Any) -> None:
        """Compile ``schema``, a mapping or a bool. Raises SchemaError."""
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError as Invalid
        from referencing import Registry

        plain = _plain(schema)
        try:
            Draft202012Validator.check_schema(plain)
        except Invalid as error:
            raise SchemaError(f"{pointer(list(error.absolute_path)) or 'the schema'}: {error.message}") from error
        # An empty registry: a reference that leaves the schema is an error, never a download.
        self._validator = Draft202012Validator(plain, registry=Registry())
        _check_references(plain)
        # A schema that names one type and nothing else is what most results have: no need to walk the library for it.
        bare = isinstance(plain, dict) and not set(plain) - {"type", "title", "description"}
        self._quick: tuple[type, ...] = _EXACT_TYPES.get(str(plain.get("type")), ()) if bare else ()

    def faults(self, value: Any) -> list[Fault]:
        """Everything that is wrong with a JSON value; empty when it fits."""
        if type(value) in self._quick:
            return []
        try:
            return [fault for error in self._validator.iter_errors(value) for fault in _faults(error)]
        except RecursionError:
            return [("", "nested too deeply to be checked, or by a schema that refers to itself without end")]


def _plain(schema: Any) -> Any:
    """The schema as plain dicts and lists, which the library asks for."""
    if isinstance(schema, Mapping):
        return {key: _named(item) if key in _MAPS else _plain(item) for key, item in schema.items()}
    if isinstance(schema, list | tuple):
        return [_plain(item) for item in schema]
    return schema


def _named(schemas: Any) -> Any:
    """A map of names to schemas. The library gives no place for the schema `false`, so it is put in another way."""
    if not isinstance(schemas, Mapping):
        return _plain(schemas)
    return {name: {"not": {}} if schema is False else _plain(schema) for name, schema in schemas.items()}


def _check_references(schema: Any) -> None:
    """Every reference must point into the schema itself. Raises SchemaError."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resolver = Registry().with_resource("", DRAFT202012.create_resource(schema)).resolver()
    for reference in _references(schema):
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise SchemaError(f"$ref {reference!r} does not point into this schema")
        try:
            resolver.lookup(reference)
        except Unresolvable as error:
            raise SchemaError(f"$ref {reference!r} points at nothing") from error


def _references(schema: Any) -> list[Any]:
    """Every reference of a schema. Data that it holds, and the names of properties, are no references."""
    if isinstance(schema, list):
        return [found for item in schema for found in _references(item)]
    if not isinstance(schema, dict):
        return []
    references = [schema[key] for key in ("$ref", "$dynamicRef") if key in schema]
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, dict):
            references += _references(list(value.values()))
        elif key not in _DATA:
            references += _references(value)
    return references


def _faults(error: ValidationError) -> list[Fault]:
    at = list(error.absolute_path)
    keyword = str(error.validator)
    limit: Any = error.validator_value
    if keyword == "required":
        absent = [name for name in limit if isinstance(error.instance, dict) and name not in error.instance]
        named = [name for name in absent if error.message.startswith(repr(name))] or absent
        return [(pointer([*at, named[0]]), MISSING)] if named else [(pointer(at), MISSING)]
    if keyword == "additionalProperties" and isinstance(error.instance, dict):
        return [(pointer([*at, name]), UNKNOWN) for name in _surplus(error)]
    if keyword in ("anyOf", "oneOf"):
        return _meant(error) or [(pointer(at), "Input has none of the allowed forms")]
    if error.validator is None or (keyword == "not" and limit == {}):  # the schema `false`
        return [(pointer(at), "Nothing is allowed here")]
    return [(pointer(at), _text(keyword, limit))]


def _text(keyword: str, limit: Any) -> str:
    if keyword == "type":
        names = [limit] if isinstance(limit, str) else list(limit)
        if len(names) > 1:
            return f"Input should be {' or '.join(names)}"
        return EXPECTED.get(names[0], f"Input should be a valid {names[0]}")
    if keyword == "enum":
        return f"Input should be one of {', '.join(repr(value) for value in limit[:20])}"
    return _TEXTS[keyword].format(limit) if keyword in _TEXTS else f"Input does not satisfy {keyword!r}"


def _surplus(error: ValidationError) -> list[str]:
    import re

    schema: Mapping[str, Any] = error.schema if isinstance(error.schema, Mapping) else {}
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return [
        name
        for name in (error.instance if isinstance(error.instance, dict) else {})
        if name not in known and not any(re.search(pattern, name) for pattern in patterns)
    ]


def _meant(error: ValidationError) -> list[Fault]:
    """The faults of the one branch whose kind fits the value, so that the model learns what to mend."""
    branches: dict[Any, list[ValidationError]] = {}
    for sub in error.context or ():
        branches.setdefault(sub.schema_path[0], []).append(sub)
    fitting = [
        subs
        for subs in branches.values()
        if not any(s.validator in ("type", "const", "enum") and not s.path for s in subs)
    ]
    return [fault for sub in fitting[0] for fault in _faults(sub)] if len(fitting) == 1 else []
