"""The one door between kernel records and objects of google-genai (models GEM-14).

Both sides share one JSON form, so a record crosses as JSON text. Keys that the installed SDK does not know are left
out of contents, with one warning each; in settings they are refused.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from types import SimpleNamespace
from typing import Any, TypeVar

import msgspec

from hookwork.errors import ConfigurationError, ValidationError
from hookwork.records.base import Record
from hookwork.records.codec import dump_json, load
from hookwork.records.request import GenerateContentConfig

logger = logging.getLogger("hookwork.gemini")

R = TypeVar("R", bound=Record)

#: What an SDK response says about its own HTTP traffic and what it made of the text: nothing a record keeps.
_OWN_FIELDS = {"sdk_http_response", "parsed", "automatic_function_calling_history"}
_warned: set[str] = set()

Refused = Callable[[str], None]


def warn_once(key: str, text: str, *values: Any) -> None:
    """Log a warning, once per process for a key."""
    if key not in _warned:
        _warned.add(key)
        logger.warning(text, *values)


def to_genai(record: Record, kind: type[Any] | None = None, *, refused: Refused | None = None) -> Any:
    """The google-genai object of a record.

    Args:
        record: a Content, Part, Blob …; the class of the same name is built.
        kind: another class to build.
        refused: called with each key that the SDK does not know; may raise. Default: warn and leave it out.
    """
    from google.genai import types

    kind = kind if kind is not None else getattr(types, type(record).__name__)
    return parsed(kind, dump_json(record), refused=refused)


def parsed(kind: Any, data: bytes, *, refused: Refused | None = None) -> Any:
    """An SDK object from its JSON text, without the keys it does not know.

    Raises:
        pydantic.ValidationError: a known key has a value of a wrong form.
    """
    from pydantic import ValidationError

    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        unknown = [fault["loc"] for fault in faults if fault["type"] == "extra_forbidden"]
        if not unknown:
            raise
        tree = msgspec.json.decode(data)
        for place in unknown:
            name = str(place[-1])
            if refused is not None:
                refused(name)
            else:
                warn_once(
                    f"{kind.__name__}.{name}", "left %r out of a %s: the installed google-genai does not know it",
                    name, kind.__name__,
                )  # fmt: skip
            _remove(tree, place)
        return kind.model_validate_json(msgspec.json.encode(tree))


def _remove(tree: Any, place: tuple[Any, ...]) -> None:
    for step in place[:-1]:
        tree = tree[step]
    del tree[place[-1]]


def as_text(obj: Any) -> str:
    """An SDK object as JSON text of the API, unset fields left out.

    Raises:
        hookwork.errors.ValidationError: a function call has a number that JSON does not know (NaN, Infinity).
    """
    from pydantic_core import PydanticSerializationError

    _check_numbers(obj)
    how: dict[str, Any] = {
        "by_alias": True,
        "exclude_none": True,
        "exclude": _OWN_FIELDS & type(obj).model_fields.keys(),
    }
    try:
        return obj.model_dump_json(**how)  # type: ignore[no-any-return]
    except PydanticSerializationError:  # half a surrogate pair, which JSON can escape and UTF-8 cannot say
        warn_once("surrogates", "text of a model held half a character; it became U+FFFD")
        text = json.dumps(obj.model_dump(mode="json", **how), ensure_ascii=False)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _check_numbers(obj: Any) -> None:
    """Arguments are refused before the SDK makes null of what is no number: a tool would run with something else."""
    for part in _parts_of(obj):
        call = getattr(part, "function_call", None)
        if call is not None and not _is_finite((call.args, [piece.number_value for piece in call.partial_args or ()])):
            raise ValidationError(f"function call {call.name!r}: an argument is no finite number", path="args")


def _parts_of(obj: Any) -> Iterator[Any]:
    for candidate in getattr(obj, "candidates", None) or ():
        if candidate is not None and candidate.content is not None:
            yield from candidate.content.parts or ()
    tool_call = getattr(obj, "tool_call", None)  # of a live message; that of a part has other fields
    for call in getattr(tool_call, "function_calls", None) or ():
        yield SimpleNamespace(function_call=call)


def _is_finite(value: Any) -> bool:
    waiting = [value]  # not by recursion: the value comes from a remote service
    while waiting:
        item = waiting.pop()
        if isinstance(item, float):
            if not isfinite(item):
                return False
        elif isinstance(item, Mapping):
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)
    return True


def as_json(obj: Any) -> dict[str, Any]:
    """An SDK object as the plain JSON object of the API, unset fields left out."""
    return msgspec.json.decode(as_text(obj))  # type: ignore[no-any-return]


def from_genai(obj: Any, kind: type[R]) -> R:
    """The record of type ``kind`` of a google-genai object.

    Raises:
        hookwork.errors.ValidationError: the object does not have that form.
    """
    return load(kind, as_json(obj))


def config_from_genai(config: Any) -> GenerateContentConfig:
    """Settings of google-genai (a GenerateContentConfig, or a dict of its fields) as the kernel's record.

    The system instruction may be a text, a Part or a Content, a response schema a class, as the SDK takes them. Tools
    that are Python callables are refused: give those to the agent.

    Raises:
        ConfigurationError: a dict that is no config, or a tool that is a callable or a session, which no record can
            hold.
    """
    from google.genai import types

    try:
        given = types.GenerateContentConfig(**config) if isinstance(config, Mapping) else config
    except ValueError as error:
        raise ConfigurationError("not the fields of a google-genai GenerateContentConfig; see the cause") from error
    tools = list(given.tools or ())
    for tool in tools:
        if not isinstance(tool, types.Tool):
            raise ConfigurationError(
                f"tools of a config are declarations; give {tool!r} to the agent as one of its tools"
            )
    data = as_json(given.model_copy(update={"tools": None, "system_instruction": None, "response_schema": None}))
    data.pop("automaticFunctionCalling", None)
    if tools:
        data["tools"] = [as_json(tool) for tool in tools]
    if given.system_instruction is not None:
        data["systemInstruction"] = _instruction(given.system_instruction)
    if given.response_schema is not None:
        data["responseSchema"] = _schema(given.response_schema)
    return load(GenerateContentConfig, data)


def _instruction(value: Any) -> dict[str, Any]:
    """An instruction as the SDK takes it: a Content, a text, a Part, or a list of texts and Parts."""
    from google.genai import types

    if isinstance(value, types.Content):
        return as_json(value)
    pieces = value if isinstance(value, list) else [value]
    parts = [{"text": piece} if isinstance(piece, str) else as_json(piece) for piece in pieces]
    return {"role": "user", "parts": parts}


def _schema(value: Any) -> dict[str, Any]:
    from google.genai import types

    if isinstance(value, types.Schema):
        return as_json(value)
    if isinstance(value, Mapping):
        return dict(value)
    from pydantic import TypeAdapter

    from hookwork_modelkit import to_genai_schema

    return to_genai_schema(TypeAdapter(value).json_schema(), is_root=False)
