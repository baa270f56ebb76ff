"""The normal form of what is written down: snake_case, and nothing that says nothing (crosscutting CONF-5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hookwork import Content, GenerateContentConfig, ModelResponse
from hookwork.records.codec import dump, load

Json = dict[str, Any]

#: Below these keys everything is a user's own and stays as it is, keys and emptiness included.
_FREE = frozenset({"args", "response", "tool_call", "tool_response"})
#: Never written.
_DROPPED = frozenset({"http_options", "tools_dict", "property_order", "property_ordering", "response_json_schema"})
#: Say something by being there.
_MARKS = frozenset({"google_search", "code_execution", "retrieval"})
#: Below these the keys are names that a user chose.
_NAMED = frozenset({"properties", "$defs", "definitions"})

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def request_form(model: str, request: Mapping[str, Any]) -> Json:
    """``{model, contents, config}`` of a model effect's request."""
    contents = [dump(load(Content, content), keys="snake") for content in request.get("contents", ())]
    config = dump(load(GenerateContentConfig, request.get("config", {})), keys="snake")
    instruction = config.get("system_instruction")
    if isinstance(instruction, Mapping):
        texts = [str(part.get("text", "")) for part in instruction.get("parts", ())]
        config["system_instruction"] = "\n\n".join(texts)
    for tool in config.get("tools", ()):
        for declaration in tool.get("function_declarations", ()):
            _title(declaration)
    form = {"model": request.get("model") or model, "contents": contents, "config": config}
    normal: Json = normal_form(form)
    return normal


def response_form(response: ModelResponse) -> Json:
    """A response of a model, partial or whole."""
    form: Json = normal_form(dump(response, keys="snake"))
    return form


def normal_form(value: Any) -> Any:
    """A value without null, false, zero, empty texts and empty containers, with keys in snake_case."""
    if isinstance(value, Mapping):
        return _object(value)
    if isinstance(value, list | tuple):
        return [normal_form(item) for item in value]
    return value


def _object(value: Mapping[str, Any]) -> Json:
    found: Json = {}
    for key, item in value.items():
        name = _snake(str(key))
        if name in _FREE:
            found[name] = item
            continue
        if name in _DROPPED:
            continue
        if name in _NAMED and isinstance(item, Mapping):
            item = {own: normal_form(inner) for own, inner in item.items()}
        else:
            item = normal_form(item)
        if name in _MARKS or not _says_nothing(item):
            found[name] = item
    return found


def _says_nothing(value: Any) -> bool:
    return value is None or value is False or value in (0, "") or (isinstance(value, dict | list) and not value)


def _snake(key: str) -> str:
    return key if key.startswith("$") else _HUMP.sub("_", key).lower()


def _title(declaration: Json) -> None:
    """The titles that pydantic gives to a schema of a function's parameters: ``<tool>Params``, ``City Name``."""
    for name in ("parameters_json_schema", "parameters"):
        schema = declaration.get(name)
        if not isinstance(schema, Mapping):
            continue
        properties = {
            own: {"title": own.replace("_", " ").title(), **inner} if isinstance(inner, Mapping) else inner
            for own, inner in (schema.get("properties") or {}).items()
        }
        declaration[name] = {"title": f"{declaration.get('name')}Params", **schema, "properties": properties}
