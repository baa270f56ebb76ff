"""Arguments of any type, checked and converted by pydantic in one strict JSON pass (tools-plugins FN-02, FN-12).

The only module of the package that loads pydantic; it is imported when a function needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import typing_extensions
from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUndefinedAnnotation
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

from hookwork.errors import InvalidToolError
from hookwork_llm.functions.annotations import UnresolvedName
from hookwork_llm.functions.bridges import make_typed_dict, rewrite
from hookwork_llm.functions.faults import UNKNOWN, Fault, argument_error, pointer
from hookwork_llm.functions.schema import describe_properties, tidy

_BASE64 = ConfigDict(extra="forbid", val_json_bytes="base64", ser_json_bytes="base64")
_KEY_TYPES = frozenset({"str", "any", "literal", "enum"})


class _ToolJsonSchema(GenerateJsonSchema):
    """Without titles that only repeat a name, and with the string formats of FN-02."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - the base declares it so

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        return {"type": "string", "format": "decimal"}

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        result = super().bytes_schema(schema)
        if result.get("format") == "base64url":
            result["format"] = "byte"
        return result

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _without_title(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return _without_title(super().dataclass_schema(schema), schema["cls"])

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return _without_title(super().typed_dict_schema(schema), schema.get("cls"))

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        return _without_title(super().enum_schema(schema), schema["cls"])


def _without_title(document: JsonSchemaValue, kind: Any) -> JsonSchemaValue:
    if kind is not None and document.get("title") == kind.__name__:
        del document["title"]
    return document


# --- building --------------------------------------------------------------------------------------------------------


def adapter_of(annotation: Any, tool: str, what: str) -> TypeAdapter[Any]:
    """The pydantic adapter of an annotation.

    Raises:
        UnresolvedName: a class in it has a field whose type is not defined (yet).
        InvalidToolError: no schema can be derived from it; names the tool and ``what``.
    """
    try:
        rewritten = rewrite(annotation)
        config = None if _has_own_config(rewritten) else _BASE64
        adapter: TypeAdapter[Any] = TypeAdapter(rewritten, config=config)
        if not adapter.pydantic_complete:  # a name was not found; asked again, it says which
            adapter.rebuild()
        _check_keys(adapter.core_schema, tool, what)
        return adapter
    except (PydanticUndefinedAnnotation, NameError) as error:
        raise UnresolvedName(error.name or str(error), f"tool {tool!r}: {what}") from error
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
        reason = str(error).splitlines()[0].split(". ")[0]
        raise InvalidToolError(
            f"tool {tool!r}: no JSON schema can be derived from the type of {what} ({reason}); use JSON-like types, "
            "attrs classes, dataclasses or pydantic models, or give a schema with input_schema= / output_schema="
        ) from error


def _has_own_config(annotation: Any) -> bool:
    # TypeAdapter takes no config beside that of a class which brings its own.
    kind = getattr(annotation, "__origin__", annotation)
    return any(hasattr(kind, name) for name in ("model_config", "__dataclass_fields__", "__pydantic_config__")) or (
        typing_extensions.is_typeddict(kind)
    )


def _check_keys(schema: Any, tool: str, what: str) -> None:
    if isinstance(schema, dict):
        if schema.get("type") == "dict" and "keys_schema" in schema:
            keys = schema["keys_schema"]
            allowed = keys.get("expected") or keys.get("members") or ()
            texts = all(isinstance(getattr(one, "value", one), str) for one in allowed)
            if keys.get("type") not in _KEY_TYPES or not texts:
                raise InvalidToolError(
                    f"tool {tool!r}: {what} has a dict whose keys are not text; JSON knows no others; use dict[str, T]"
                )
        for key, value in schema.items():
            if key not in ("metadata", "serialization"):
                _check_keys(value, tool, what)
    elif isinstance(schema, list | tuple):
        for item in schema:
            _check_keys(item, tool, what)


def schema_of(
    adapter: TypeAdapter[Any], tool: str, what: str, *, mode: JsonSchemaMode = "validation"
) -> dict[str, Any]:
    """The raw JSON schema of an adapter. Raises InvalidToolError if JSON cannot express the type."""
    try:
        return adapter.json_schema(schema_generator=_ToolJsonSchema, mode=mode)
    except (PydanticInvalidForJsonSchema, PydanticUserError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidToolError(f"tool {tool!r}: JSON cannot express the type of {what} ({reason})") from error


def keyword_adapter(
    tool: str, annotations: Mapping[str, Any], required: frozenset[str], *, extras: bool
) -> TypeAdapter[Any]:
    """An adapter for keyword arguments: absent ones stay absent, so the function's own defaults count (FN-14)."""
    try:
        fields: dict[str, Any] = {}
        for name, annotation in annotations.items():
            marker: Any = typing_extensions.Required if name in required else typing_extensions.NotRequired
            fields[name] = marker[rewrite(annotation)]
        document = make_typed_dict("Arguments", fields)
        document.__pydantic_config__ = ConfigDict(**{**_BASE64, "extra": "allow" if extras else "forbid"})
        adapter = adapter_of(document, tool, "its parameters")
        schema_of(adapter, tool, "its parameters")
        return adapter
    except (InvalidToolError, NameError):
        for name, annotation in annotations.items():  # name the parameter at fault
            _check_parameter(annotation, tool, name)
        raise


def _check_parameter(annotation: Any, tool: str, name: str) -> None:
    what = f"parameter {name!r}"
    try:
        schema_of(adapter_of(annotation, tool, what), tool, what)
    except UnresolvedName as error:
        error.parameter = name
        raise


def result_schema(annotation: Any, tool: str) -> dict[str, Any]:
    """The JSON schema of a return annotation, in the form in which results are encoded."""
    try:
        adapter = adapter_of(annotation, tool, "the result")
        return tidy(schema_of(adapter, tool, "the result", mode="serialization"), closed=False)
    except UnresolvedName as error:
        error.parameter = "return"
        raise


# --- converting ------------------------------------------------------------------------------------------------------


class TypedArguments:
    """Checks and converts arguments with an adapter."""

    __slots__ = ("_adapter", "_forbid", "_reserved", "_tool")

    def __init__(self, tool: str, adapter: TypeAdapter[Any], *, reserved: frozenset[str] = frozenset()) -> None:
        self._tool = tool
        self._adapter = adapter
        self._reserved = reserved
        # Models that say nothing about unknown names refuse them, as their declared schema says; one that says
        # otherwise keeps its word, and then every model follows its own setting.
        self._forbid: Any = "forbid" if _says_nothing_of_extras(adapter.core_schema) else None

    @property
    def closed(self) -> bool:
        """Whether objects refuse unknown names throughout."""
        return self._forbid is not None

    def schema(self, descriptions: Mapping[str, str], annotated: Mapping[str, str]) -> dict[str, Any]:
        """The declared schema; ``annotated`` texts win over those of a field, these over ``descriptions``."""
        raw = schema_of(self._adapter, self._tool, "its parameters")
        if "$ref" not in raw:
            describe_properties(raw, annotated, override=True)
            describe_properties(raw, descriptions)
        result = tidy(raw, closed=self.closed)
        describe_properties(result, descriptions)
        result.pop("description", None)
        return result

    def convert(self, args: Mapping[str, Any]) -> Any:
        """The arguments as Python values. Raises ToolArgumentError."""
        taken = self._reserved & args.keys()
        if taken:
            raise argument_error(self._tool, [(pointer([name]), UNKNOWN) for name in sorted(taken)])
        try:
            data = msgspec.json.encode(args)
        except (TypeError, UnicodeError, OverflowError, RecursionError) as error:
            raise argument_error(self._tool, [("", f"JSON cannot hold them ({error})")]) from error
        while True:
            try:
                return self._adapter.validate_json(data, strict=True, extra=self._forbid)
            except ValidationError as error:
                document = msgspec.json.decode(data)
                problems = [(place_of(e["loc"], e["type"], document), e) for e in error.errors(include_url=False)]
                if not _integers(document, [path for path, _ in problems]):
                    faults: list[Fault] = [(pointer(path), e["msg"]) for path, e in problems]
                    raise argument_error(self._tool, faults) from error
                data = msgspec.json.encode(document)
            except Exception as error:  # a validator of the user's class may raise anything
                text = f"{type(error).__name__}: {error}"
                raise argument_error(self._tool, [("", text)]) from error


def _says_nothing_of_extras(schema: Any) -> bool:
    if isinstance(schema, dict):
        if schema.get("type") == "typed-dict" and schema.get("extra_behavior") in ("allow", "ignore"):
            return False
        config = schema.get("config")
        if isinstance(config, dict) and config.get("extra_fields_behavior") in ("allow", "ignore"):
            return False
        return all(_says_nothing_of_extras(value) for key, value in schema.items() if key != "metadata")
    if isinstance(schema, list | tuple):
        return all(_says_nothing_of_extras(item) for item in schema)
    return True


def place_of(loc: tuple[int | str, ...], kind: str, document: Any) -> list[str | int]:
    """The path in the document that pydantic means; names of union members in ``loc`` are no steps of it."""
    path: list[str | int] = []
    for i, step in enumerate(loc):
        if isinstance(step, int):
            inside = isinstance(document, list) and step < len(document)
        else:
            inside = isinstance(document, dict) and step in document
        if inside:
            document = document[step]
        elif not (kind.startswith("missing") and i == len(loc) - 1):
            continue
        path.append(step)
    return path


def _integers(document: Any, paths: list[list[str | int]]) -> bool:
    """Turn integral floats at these paths into integers (FN-12: ``1.0`` is ``1``); whether there was one."""
    changed = False
    for path in paths:
        if not path:
            continue
        parent: Any = document
        for step in path[:-1]:
            parent = parent[step]
        try:
            value = parent[path[-1]]
        except LookupError:  # something is missing there
            continue
        if isinstance(value, float) and value.is_integer():
            parent[path[-1]] = int(value)
            changed = True
    return changed
