"""Everything a call of a function needs, worked out once: schemas, conversion, the way to pass the arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any, get_args

from hookwork.errors import InvalidToolError
from hookwork.records.base import Record
from hookwork.tool import Finished, WithMedia
from hookwork_llm.functions.annotations import (
    UnresolvedName,
    description_in,
    is_context,
    looks_like_context,
    resolve,
    strip_annotated,
)
from hookwork_llm.functions.callables import CallableInfo
from hookwork_llm.functions.faults import argument_error
from hookwork_llm.functions.json_schema import JsonSchema, SchemaError
from hookwork_llm.functions.plain import PlainArguments, PlainType, plain_result_schema, plain_type
from hookwork_llm.functions.results import NotJson, to_json
from hookwork_llm.functions.schema import describe_properties

_POSITIONAL = Parameter.POSITIONAL_ONLY
_EMPTY = Parameter.empty

Converter = Callable[[Mapping[str, Any]], Any]


class Argument:
    """One parameter that the model may fill."""

    __slots__ = ("annotation", "default", "kind", "name", "text")

    def __init__(self, name: str, annotation: Any, default: Any, kind: Any, text: str | None) -> None:
        self.name = name
        self.annotation = annotation
        self.default = default
        self.kind = kind
        self.text = text


class Signature:
    """A function's parameters, sorted: what the model fills, what is injected, whether more may come."""

    __slots__ = ("arguments", "contexts", "extras", "returns", "struct")

    def __init__(self, info: CallableInfo, tool: str, *, lenient: bool = False) -> None:
        """Read and resolve the annotations.

        Args:
            lenient: take an annotation that cannot be resolved for Any (an override schema replaces derivation).

        Raises:
            UnresolvedName: an annotation names something unknown; ``parameter`` says where.
            InvalidToolError: ``*args``, or an annotation that is none.
        """
        self.arguments: dict[str, Argument] = {}
        self.contexts: dict[str, Any] = {}
        self.extras = False
        for name, parameter in info.parameters.items():
            if parameter.kind is Parameter.VAR_POSITIONAL:
                raise InvalidToolError(f"tool {tool!r}: *{name} has no place in a JSON object; name the parameters")
            if parameter.kind is Parameter.VAR_KEYWORD:
                self.extras = True
                continue
            annotation = _resolved(parameter.annotation, info, tool, name, lenient)
            if is_context(annotation, tool, name):
                self.contexts[name] = parameter.kind
                continue
            annotation, text = _described(annotation)
            default = parameter.default
            if type(default).__name__ == "FieldInfo":  # f(x: int = Field(ge=0)): constraints in the default's place
                annotation, default = _with_field(annotation, default)
            self.arguments[name] = Argument(name, annotation, default, parameter.kind, text)
        self.returns = _resolved(info.returns, info, tool, "return", lenient)
        self.struct = not self.extras and list(self.arguments) == ["args"] and _is_struct(self.arguments["args"])

    @property
    def required(self) -> frozenset[str]:
        """Names without a default."""
        return frozenset(name for name, one in self.arguments.items() if one.default is _EMPTY)


def _resolved(annotation: Any, info: CallableInfo, tool: str, parameter: str, lenient: bool) -> Any:
    if annotation is _EMPTY:
        return annotation
    try:
        return resolve(annotation, info.where)
    except UnresolvedName as error:
        if looks_like_context(annotation):
            from hookwork.context import ToolContext

            return ToolContext
        if lenient:
            return Any
        error.parameter = parameter
        raise
    except (TypeError, SyntaxError, AttributeError) as error:
        if lenient:
            return Any
        raise InvalidToolError(f"tool {tool!r}: the annotation of {parameter!r} is no type ({error})") from error


def _described(annotation: Any) -> tuple[Any, str | None]:
    """The annotation without its description text, and the text."""
    inner, metadata = strip_annotated(annotation)
    text = description_in(metadata)
    rest = tuple(item for item in metadata if not isinstance(item, str) and type(item).__name__ != "Doc")
    if not metadata:
        return annotation, None
    if not rest:
        return inner, text
    from typing import Annotated

    return Annotated[(inner, *rest)], text


def _with_field(annotation: Any, field: Any) -> tuple[Any, Any]:
    from typing import Annotated

    base = Any if annotation is _EMPTY else annotation
    default = _EMPTY if field.is_required() else field.get_default(call_default_factory=True)
    return Annotated[base, field], default


def _is_struct(argument: Argument) -> bool:
    kind = strip_annotated(argument.annotation)[0]
    if not isinstance(kind, type) or argument.default is not _EMPTY:
        return False
    names = ("__attrs_attrs__", "__dataclass_fields__", "model_fields", "__required_keys__")
    return any(hasattr(kind, name) for name in names)


class Binding:
    """A function made ready for calls.

    Attributes:
        parameters_schema: JSON schema of the arguments, as declared.
        response_schema: JSON schema of the result, or None.
        convert: JSON arguments → converted ones (keyword arguments, or ``{"args": instance}`` for the struct form).
        result_faults: a JSON result → what is wrong with it; None when nothing is promised.
        signature: the sorted parameters.
    """

    __slots__ = (
        "_names",
        "_positional",
        "convert",
        "parameters_schema",
        "response_schema",
        "result_faults",
        "signature",
    )

    def __init__(
        self,
        info: CallableInfo,
        tool: str,
        texts: Mapping[str, str],
        input_schema: Any = None,
        output_schema: Any = None,
        *,
        with_result: bool = True,
    ) -> None:
        lenient = input_schema is not None
        self.signature = signature = Signature(info, tool, lenient=lenient)
        self.convert, derived = _arguments(signature, tool, texts, lenient)
        self.parameters_schema: dict[str, Any] = derived
        if input_schema is not None:
            self.parameters_schema, self.convert = _override(input_schema, tool, self.convert)
        self.response_schema: dict[str, Any] | None = None
        if with_result:
            self.response_schema = _response_schema(signature.returns, output_schema, tool)
        self.result_faults = None
        if self.response_schema is not None:
            self.result_faults = compiled(self.response_schema, tool, "output_schema").faults
        self._names = tuple(signature.contexts)
        self._positional = tuple(name for name, p in info.parameters.items() if p.kind is _POSITIONAL)

    def place(self, converted: dict[str, Any], ctx: Any) -> tuple[list[Any], dict[str, Any]]:
        """(positional, keyword) arguments of one call."""
        keywords = converted
        if self._names:
            keywords = {**converted, **dict.fromkeys(self._names, ctx)}
        if not self._positional:
            return [], keywords
        keywords = dict(keywords)
        values = []
        for name in self._positional:
            if name in keywords:
                values.append(keywords.pop(name))
            else:  # a later one may be given, so the default has to be passed by hand
                values.append(self.signature.arguments[name].default)
        return values, keywords


# --- arguments -------------------------------------------------------------------------------------------------------


def _arguments(
    signature: Signature, tool: str, texts: Mapping[str, str], lenient: bool
) -> tuple[Converter, dict[str, Any]]:
    if signature.struct:
        return _struct_arguments(signature.arguments["args"], tool, texts)
    plain = {name: plain_type(one.annotation) for name, one in signature.arguments.items()}
    own_texts = {name: one.text for name, one in signature.arguments.items() if one.text is not None}
    reserved = frozenset(signature.contexts)
    if all(one is not None for one in plain.values()):
        types: dict[str, PlainType] = {name: one for name, one in plain.items() if one is not None}
        convert: Converter = PlainArguments(tool, types, signature.required, signature.extras, reserved).convert
        schema = plain_schema(types, signature)
        describe_properties(schema, own_texts, override=True)
        describe_properties(schema, texts)
    else:
        convert, schema = typed_arguments(signature, tool, {**own_texts}, texts, lenient)
    _record_defaults(schema, signature)
    return convert, schema


def plain_schema(types: Mapping[str, PlainType], signature: Signature) -> dict[str, Any]:
    """The schema of plain arguments, as pydantic would have it."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: one.schema() for name, one in types.items()},
        "additionalProperties": signature.extras,
    }
    if signature.required:
        schema["required"] = [name for name in types if name in signature.required]
    return schema


def typed_arguments(
    signature: Signature, tool: str, own_texts: Mapping[str, str], texts: Mapping[str, str], lenient: bool = False
) -> tuple[Converter, dict[str, Any]]:
    """Converter and schema by pydantic; a ``lenient`` one takes what cannot be derived for Any."""
    from hookwork_llm.functions.typed import TypedArguments, adapter_of, keyword_adapter

    annotations = {n: Any if a.annotation is _EMPTY else a.annotation for n, a in signature.arguments.items()}
    if lenient:
        for name, annotation in annotations.items():
            try:
                adapter_of(annotation, tool, name)
            except InvalidToolError:  # the override schema stands for it
                annotations[name] = Any
    adapter = keyword_adapter(tool, annotations, signature.required, extras=signature.extras)
    arguments = TypedArguments(tool, adapter, reserved=frozenset(signature.contexts))
    schema: dict[str, Any] = {} if lenient else arguments.schema(texts, own_texts)
    schema.setdefault("properties", {})
    return arguments.convert, schema


def _struct_arguments(argument: Argument, tool: str, texts: Mapping[str, str]) -> tuple[Converter, dict[str, Any]]:
    from hookwork_llm.functions.docstrings import read_docstring
    from hookwork_llm.functions.typed import TypedArguments, adapter_of

    kind = strip_annotated(argument.annotation)[0]
    try:
        arguments = TypedArguments(tool, adapter_of(argument.annotation, tool, "parameter 'args'"))
    except UnresolvedName as error:
        error.parameter = "args"
        raise
    fields = read_docstring(kind.__doc__ or "")[1]
    own = {}
    for name, hint in _hints(kind).items():
        text = description_in(strip_annotated(hint)[1])
        if text is not None:
            own[name] = text
    schema = arguments.schema({**fields, **texts}, own)
    return lambda args: {"args": arguments.convert(args)}, schema


def _hints(kind: Any) -> Mapping[str, Any]:
    import typing

    try:
        return typing.get_type_hints(kind, include_extras=True)
    except NameError:  # pydantic has resolved what it needed; only description texts are looked for here
        return {}


def _record_defaults(schema: dict[str, Any], signature: Signature) -> None:
    for name, node in schema["properties"].items():
        default = signature.arguments[name].default
        if default is _EMPTY or "default" in node or not isinstance(node, dict):
            continue
        try:
            value = to_json(default)
        except NotJson:  # a default that only Python can hold; the argument is optional all the same
            continue
        if value is None and not _allows_null(node):
            continue  # `x: int = None`: the model may leave it out, but null is refused (FN-14)
        node["default"] = value


def _allows_null(node: Mapping[str, Any]) -> bool:
    kind = node.get("type")
    options = node.get("anyOf", ())
    return (kind is None and not options) or "null" in (kind or ()) or any(o.get("type") == "null" for o in options)


def _override(schema: Any, tool: str, convert: Converter) -> tuple[dict[str, Any], Converter]:
    """An override schema: declared and enforced, before the function's own conversion (FN-04)."""
    document = json_schema_of(schema, tool, "input_schema", mode="validation")
    check = compiled(document, tool, "input_schema")

    def checked(args: Mapping[str, Any]) -> Any:
        faults = check.faults(args)
        if faults:
            raise argument_error(tool, faults)
        return convert(args)

    return document, checked


# --- results ---------------------------------------------------------------------------------------------------------


def _response_schema(returns: Any, output_schema: Any, tool: str) -> dict[str, Any] | None:
    if output_schema is not None:
        return json_schema_of(output_schema, tool, "output_schema", mode="serialization")
    returns = strip_annotated(returns)[0]
    if returns in (_EMPTY, Any, None, type(None)) or _promises_nothing(returns):
        return None
    plain = plain_result_schema(returns)
    if plain is not None:
        return plain
    from hookwork_llm.functions.typed import result_schema

    return result_schema(returns, tool)


def _promises_nothing(annotation: Any) -> bool:
    """`Finished` and `WithMedia` do not say what they hold, and records of the kit have a wire form, not a schema."""
    if isinstance(annotation, type) and issubclass(annotation, Finished | WithMedia | Record):
        return True
    return any(_promises_nothing(member) for member in get_args(annotation))


def json_schema_of(schema: Any, tool: str, what: str, *, mode: Any) -> dict[str, Any]:
    """A JSON schema from what a user may give as one: a mapping as it is, a type derived.

    Raises:
        InvalidToolError: it is neither, or no schema can be derived from the type.
    """
    if isinstance(schema, Mapping):
        return dict(schema)
    if schema is True or schema is False or isinstance(schema, str | list):
        raise InvalidToolError(f"tool {tool!r}: {what} is a {type(schema).__name__}; give a JSON schema or a type")
    from hookwork_llm.functions.schema import tidy
    from hookwork_llm.functions.typed import adapter_of, schema_of

    return tidy(schema_of(adapter_of(schema, tool, what), tool, what, mode=mode), closed=mode == "validation")


def compiled(schema: Mapping[str, Any], tool: str, what: str) -> JsonSchema:
    """The schema, ready to check values. Raises InvalidToolError if it is no valid one."""
    try:
        return JsonSchema(schema)
    except SchemaError as error:
        raise InvalidToolError(f"tool {tool!r}: {what} is not a valid JSON schema: {error}") from error
