"""Declarations with further arguments (tools-plugins SP-10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookwork import FunctionDeclaration


def with_arguments(declaration: FunctionDeclaration, args: Mapping[str, Any]) -> FunctionDeclaration:
    """A declaration whose schema has these properties too, none of them required.

    Whichever of ``parameters`` and ``parameters_json_schema`` is in use is changed: an API rejects both at once.
    """
    if declaration.parameters is not None:
        return declaration.replace(parameters=_merged(declaration.parameters, _in_genai_form(args)))
    schema = declaration.parameters_json_schema or {"type": "object"}
    return declaration.replace(parameters_json_schema=_merged(schema, args))


def _merged(schema: Mapping[str, Any], args: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**schema, "properties": {**schema.get("properties", {}), **args}}
    required = [name for name in schema.get("required", ()) if name not in args]
    if required:
        merged["required"] = required
    else:
        merged.pop("required", None)
    return merged


def _in_genai_form(value: Any) -> Any:
    """A JSON schema with its types in capitals, as the genai Schema spells them."""
    if isinstance(value, Mapping):
        return {
            key: item.upper() if key == "type" and isinstance(item, str) else _in_genai_form(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_in_genai_form(item) for item in value]
    return value
