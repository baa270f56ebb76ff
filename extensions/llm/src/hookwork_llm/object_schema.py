"""Objects that a model writes: schemas given as types or JSON, and reading an object out of text (core §2.4)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from hookwork.errors import ConfigurationError, HookworkError, InvalidToolError, ToolArgumentError

_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"```[^\n`]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL)
_DECODER = json.JSONDecoder()


class InvalidObject(HookworkError, ValueError):
    """Text holds no object, or the object does not fit its schema. The message is meant for the model."""


class ObjectSchema:
    """What an object must look like: from a pydantic model, dataclass, attrs class, TypedDict or a JSON schema.

    Unknown keys are refused, required ones are required, and a whole number may be written as ``1.0`` (OUT-4).
    ``json_schema`` is what a model is shown.
    """

    __slots__ = ("_check", "json_schema")

    def __init__(self, spec: Any, where: str) -> None:
        """``where`` names the owner in errors, e.g. ``"agent 'a': output_schema"``. Raises ConfigurationError."""
        try:
            self.json_schema, self._check = _compiled(spec, where)
        except InvalidToolError as error:
            raise ConfigurationError(f"{where}: {error}") from error

    def validate(self, value: Any) -> Any:
        """The value in its checked JSON form; null for an optional property counts as absent. Raises InvalidObject."""
        try:
            return self._check(value)
        except InvalidObject:
            from hookwork_llm.optional_nulls import without_optional_nulls

            pruned = without_optional_nulls(value, self.json_schema)
            if pruned == value:
                raise
        return self._check(pruned)

    @property
    def is_object(self) -> bool:
        """Whether the schema's top level is an object."""
        return self.json_schema.get("type") == "object" or "properties" in self.json_schema


def _compiled(spec: Any, where: str) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    from hookwork_llm.functions.binding import json_schema_of

    if not isinstance(spec, Mapping):
        return _from_type(spec, where)
    schema = _closed(json_schema_of(spec, where, "schema", mode="validation"))
    return schema, checker_of(schema, where)


def _from_type(spec: Any, where: str) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    from hookwork_llm.functions.binding import json_schema_of
    from hookwork_llm.functions.results import to_json
    from hookwork_llm.functions.typed import TypedArguments, adapter_of

    arguments = TypedArguments(where, adapter_of(spec, where, "schema"))
    schema = json_schema_of(spec, where, "schema", mode="validation")
    in_form = checker_of(schema, where)

    def check(value: Any) -> Any:
        in_form(value)  # refuses unknown keys, which a type alone may ignore
        try:
            return to_json(arguments.convert(value))
        except ToolArgumentError as error:
            raise InvalidObject(str(error).removeprefix(f"{where}: ")) from error

    return schema, check


def checker_of(schema: dict[str, Any], where: str) -> Callable[[Any], Any]:
    """What gives a value back if it fits a JSON schema, and raises InvalidObject otherwise."""
    from hookwork_llm.functions.binding import compiled

    faults_of = compiled(schema, where, "schema").faults

    def check(value: Any) -> Any:
        faults = faults_of(value)
        if faults:
            raise InvalidObject("; ".join(f"{at or '/'}: {text}" for at, text in faults))
        return value

    return check


def _closed(schema: Any) -> Any:
    """A JSON schema with type names in lower case and objects that refuse keys they do not know."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type":
            out[key] = value.lower() if isinstance(value, str) else [str(v).lower() for v in value]
        elif key in ("properties", "$defs", "definitions", "patternProperties"):
            out[key] = {name: _closed(item) for name, item in value.items()} if isinstance(value, Mapping) else value
        elif key in ("enum", "const", "default", "examples", "required"):
            out[key] = value
        else:
            out[key] = _closed(value)
    if "properties" in out and "additionalProperties" not in out and "patternProperties" not in out:
        out["additionalProperties"] = False
    return out


def read_object(text: str) -> Any:
    """The JSON object in what a model wrote (OUT-5).

    A leading ``<think>`` block is skipped; then the first fenced block that parses, else the whole text, else the first
    balanced object in it. Raises InvalidObject.
    """
    text = _THOUGHTS.sub("", text, count=1).strip()
    for block in _FENCE.finditer(text):
        value = _parsed(block.group(1))
        if isinstance(value, dict):
            return value
    value = _parsed(text)
    if isinstance(value, dict):
        return value
    start = text.find("{")
    while start >= 0:
        try:
            value, _ = _DECODER.raw_decode(text, start)
        except ValueError:
            pass
        else:
            if isinstance(value, dict):
                return value
        start = text.find("{", start + 1)
    raise InvalidObject("the answer holds no JSON object; answer with one JSON object and nothing else")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
