"""Schemas of what goes into nodes and comes out of them (workflow NODE-1 … NODE-5).

An annotation becomes a `Schema`: msgspec reads most types; pydantic is loaded only for types that need it (its own
models, constraints in ``Annotated``, unions of classes), jsonschema only for schemas that are given as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from hookwork.errors import ConfigurationError, ValidationError
from hookwork.records.base import Record
from hookwork.records.content import Content
from hookwork_workflow.json_form import to_json
from hookwork_workflow.json_schema import canonical, covers, takes_text
from hookwork_workflow.type_reading import needs_pydantic, type_text

#: Characters of a schema's rule up to which an error quotes it.
_LONGEST_RULE = 120


class SchemaFault(ValueError):
    """A value does not fit; the text says what was expected and where, and quotes nothing of the value."""


class Schema:
    """What a value has to be. `validate` takes JSON forms and gives Python values.

    Attributes:
        raw: the JSON schema as the library gives it, None when there is none.
        json_schema: its canonical form, to compare.
        takes_text: text is a value of it as it stands (a string at the root).
        exact: a plain type whose every value fits as it is; None for all others.
    """

    raw: dict[str, Any] | None = None
    json_schema: dict[str, Any] | None = None
    takes_text: bool = False
    exact: type | None = None
    text: str = ""

    def validate(self, value: Any) -> Any:
        """The value, a JSON form, as the type says. Raises SchemaFault."""
        raise TypeError(f"{type(self).__name__} checks nothing")


class _MsgspecSchema(Schema):
    def __init__(self, annotation: Any, raw: dict[str, Any]) -> None:
        self._type = annotation
        self.exact = annotation if annotation in (str, int, bool) else None
        self.text = type_text(annotation)
        self.raw = raw
        self.json_schema = canonical(raw)
        self.takes_text = takes_text(self.json_schema)

    def validate(self, value: Any) -> Any:
        try:
            return msgspec.convert(value, self._type, str_keys=True)
        except msgspec.ValidationError as error:
            raise SchemaFault(str(error)) from error
        except Exception as error:  # a __post_init__ of the user's class may raise anything
            raise SchemaFault(f"{type(error).__name__}: {error}") from error


class _PydanticSchema(Schema):
    def __init__(self, annotation: Any) -> None:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticInvalidForJsonSchema

        self._adapter = TypeAdapter(annotation)
        self.text = type_text(annotation)
        try:
            self.raw = self._adapter.json_schema()
            self.json_schema = canonical(self.raw)
        except PydanticInvalidForJsonSchema:
            self.raw = None
        self.takes_text = self.json_schema is not None and takes_text(self.json_schema)

    def validate(self, value: Any) -> Any:
        from pydantic import ValidationError as Invalid

        try:
            return self._adapter.validate_json(msgspec.json.encode(value), strict=True)
        except Invalid as error:
            faults = [f"{_place(fault['loc'])}{fault['msg']}" for fault in error.errors(include_url=False)]
            raise SchemaFault("; ".join(faults)) from error
        except Exception as error:  # a validator of the user's class may raise anything
            raise SchemaFault(f"{type(error).__name__}: {error}") from error


def _place(loc: tuple[int | str, ...]) -> str:
    return f"{'.'.join(str(step) for step in loc)}: " if loc else ""


class _RecordSchema(Schema):
    """A record of the kit, in its wire form; for a `Content` text will do as well."""

    def __init__(self, record: type[Record]) -> None:
        self._record = record
        self.text = record.__name__
        self.takes_text = record is Content

    def validate(self, value: Any) -> Any:
        if isinstance(value, self._record):
            return value
        if self._record is Content and isinstance(value, str):
            from hookwork.records.content import user_content

            return user_content(value)
        if not isinstance(value, Mapping):
            raise SchemaFault(f"expected a {self.text} in its JSON form, got {type(value).__name__}")
        from hookwork.records.codec import load

        try:
            return load(self._record, value)
        except ValidationError as error:
            raise SchemaFault(str(error)) from error


class _JsonSchema(Schema):
    """A schema that was given as JSON (draft 2020-12); values stay as they are."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError
        from referencing import Registry

        plain = msgspec.to_builtins(dict(schema))
        try:
            Draft202012Validator.check_schema(plain)
        except SchemaError as error:
            raise ConfigurationError(f"the JSON schema is not valid: {error.message}") from error
        # An empty registry: a reference that leaves the schema is an error, never a download.
        self._validator = Draft202012Validator(plain, registry=Registry())
        self.text = str(plain.get("title", "a JSON schema"))
        self.raw = plain
        self.json_schema = canonical(plain)
        self.takes_text = takes_text(self.json_schema)

    def validate(self, value: Any) -> Any:
        from referencing.exceptions import Unresolvable

        try:
            error = next(self._validator.iter_errors(value), None)
        except Unresolvable as outside:
            raise ConfigurationError(
                f"the JSON schema refers to {outside.ref!r}, which is not in it; write that part into the schema"
            ) from outside
        if error is not None:
            raise SchemaFault(f"{error.json_path}: does not fit {error.validator!r} of the schema{_rule_text(error)}")
        return value


def _rule_text(error: Any) -> str:
    """What the schema asks for there, if it is short; never what was given."""
    text = msgspec.json.encode(error.validator_value).decode()
    return f", which says {text}" if len(text) <= _LONGEST_RULE else ""


def schema_of(annotation: Any) -> Schema | None:
    """The schema of an annotation or JSON schema; None when it accepts everything (``Any``, ``object``, None).

    Raises:
        ConfigurationError: no schema can be made of it.
    """
    if annotation is None or annotation is Any or annotation is object:
        return None
    if isinstance(annotation, Schema):
        return annotation
    if isinstance(annotation, Mapping):
        return _JsonSchema(annotation) if annotation else None
    try:
        return _cached(annotation)
    except TypeError:  # unhashable, such as Annotated with a dict
        return _make(annotation)


@lru_cache(maxsize=1024)
def _cached(annotation: Any) -> Schema:
    return _make(annotation)


def _make(annotation: Any) -> Schema:
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return _RecordSchema(annotation)
    if not needs_pydantic(annotation):
        try:
            return _MsgspecSchema(annotation, msgspec.json.schema(annotation))
        except (TypeError, NameError):
            pass  # not a type msgspec reads; pydantic knows more
    try:
        return _PydanticSchema(annotation)
    except Exception as error:
        reason = str(error).splitlines()[0]
        raise ConfigurationError(
            f"{type_text(annotation)} cannot be checked ({reason}); use a type that JSON can hold, or Any"
        ) from error


def schemas_agree(given: Any, taken: Any) -> bool:
    """Whether what one node gives is what the next takes (GV-12).

    Equal once names, descriptions and the order of properties are left out; what is taken may also be wider (a union
    with the type that is given, a number for a whole number). A schema that accepts everything agrees with all.
    """
    if given == taken:
        return True
    try:
        left, right = schema_of(given), schema_of(taken)
    except ConfigurationError:  # a schema of another kind, e.g. of a provider's SDK: nothing to compare
        return True
    if left is None or right is None or left.json_schema is None or right.json_schema is None:
        return True
    return covers(right.json_schema, left.json_schema)


def check_input(schema: Schema, value: Any) -> Any:
    """An input as the schema says (NODE-2). Raises SchemaFault.

    Text for a schema that takes no text is read as JSON first, then taken as it is (an enum member, a date).
    """
    if value is None:
        return None
    plain = _plain(value)
    if not isinstance(plain, str) or schema.takes_text:
        return schema.validate(plain)
    try:
        return schema.validate(_decoded(plain))
    except SchemaFault as fault:
        try:
            return schema.validate(plain)
        except SchemaFault:
            raise fault from None


def check_output(schema: Schema, value: Any) -> Any:
    """An output in its JSON form, as the schema says (NODE-3). Raises SchemaFault: of several faults the first."""
    if value is None:
        return None
    plain = _plain(value.text if isinstance(value, Content) else value)
    try:
        return _plain(schema.validate(plain))
    except SchemaFault as fault:
        if not isinstance(plain, str) or schema.takes_text or not plain.strip():
            raise
        try:
            return _plain(schema.validate(_decoded(plain)))
        except SchemaFault:
            raise fault from None


def check_tool_output(schema: Schema, value: Any) -> Any:
    """A tool's output: as it is, or what it has under ``result`` (NODE-5). Raises SchemaFault of the direct check."""
    try:
        return check_output(schema, value)
    except SchemaFault as fault:
        if not isinstance(value, Mapping) or list(value) != ["result"]:
            raise
        try:
            return check_output(schema, value["result"])
        except SchemaFault:
            raise fault from None


def _plain(value: Any) -> Any:
    try:
        return to_json(value)
    except ValidationError as error:
        raise SchemaFault(str(error)) from error


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise SchemaFault("expected JSON text") from error
