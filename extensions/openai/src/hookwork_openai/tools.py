"""Declarations and tool choice, before they take the form of one of the APIs (models OAI-19…23)."""

from __future__ import annotations

from typing import Any

import msgspec

from hookwork.model import ModelRequest
from hookwork.records.request import FunctionDeclaration, GenerateContentConfig, ToolDeclaration
from hookwork_modelkit.schema_merging import Inexpressible
from hookwork_modelkit.schemas import to_json_schema
from hookwork_openai.call import Call, lookup
from hookwork_openai.parameters import function_parameters


class Function(msgspec.Struct, frozen=True):
    """A function as both APIs see it; ``parameters`` is a JSON schema."""

    name: str
    description: str | None
    parameters: dict[str, Any]


def reserve_names(call: Call, request: ModelRequest) -> None:
    """Look at all names of a request before one of them is sent under another (`hookwork_openai.names`)."""
    call.names.reserve([item.name for item in request.config.function_declarations() if item.name])
    for content in request.contents:
        for function_call in content.function_calls:
            if function_call.name:
                call.names.reserve((function_call.name,))


class Choice(msgspec.Struct, frozen=True):
    """Which tools the model may call. ``mode``: ``auto``, ``none`` or ``required``; no ``names``: all of them."""

    mode: str
    names: tuple[str, ...] = ()


def functions(call: Call, config: GenerateContentConfig) -> list[Function]:
    """The functions of a request, in order.

    Raises:
        ModelError: a tool that is no function, an entry without any, or a function without a name.
    """
    found: list[Function] = []
    for index, tool in enumerate(config.tools):
        for name in _model_side(tool):
            call.unsupported(
                "unsupported_tool", f"tools[{index}] is the built-in tool {name!r}, which only its own provider runs"
            )
        declarations = tool.function_declarations
        if not declarations:
            if not _model_side(tool):
                raise call.refused("tool_without_declarations", f"tools[{index}] declares no function")
            continue
        for declaration in declarations:
            function = _function(call, declaration, index)
            if function is not None:
                found.append(function)
    return found


def _model_side(tool: ToolDeclaration) -> list[str]:
    named = [name for name in tool.__struct_fields__ if name not in ("function_declarations", "extra")]
    return [name for name in named if getattr(tool, name) is not None] + [
        name for name, value in (tool.extra or {}).items() if value is not None
    ]


def _function(call: Call, declaration: FunctionDeclaration, index: int) -> Function | None:
    """A function; None, with one warning, for one whose parameters no declaration can hold (CASE-MCP-4)."""
    if not declaration.name:
        raise call.refused("function_declaration_missing_name", f"tools[{index}] declares a function without a name")
    try:
        parameters = function_parameters(_schema(declaration))
    except Inexpressible as error:
        call.warn(f"function {declaration.name}", f"function {declaration.name!r} is left out: {error}")
        return None
    return Function(declaration.name, declaration.description or None, parameters)


def _schema(declaration: FunctionDeclaration) -> Any:
    if declaration.parameters is not None:
        return to_json_schema(declaration.parameters)
    return declaration.parameters_json_schema


def choice(call: Call, config: GenerateContentConfig) -> Choice | None:
    """What ``tool_config.function_calling_config`` asks for; None: nothing is sent.

    Raises:
        ModelError: a mode that this service lacks.
    """
    calling = lookup(config.tool_config, "function_calling_config")
    if not isinstance(calling, dict):
        return None
    mode = str(lookup(calling, "mode") or "MODE_UNSPECIFIED").upper()
    listed = lookup(calling, "allowed_function_names")
    names = tuple(str(name) for name in listed or () if name)
    if mode in ("MODE_UNSPECIFIED", "AUTO"):
        return Choice("auto", names) if names else None
    if mode == "NONE":
        return Choice("none")
    if mode == "ANY":
        return Choice("required", names)
    call.unsupported("unsupported_tool_choice", f"function calling mode {mode!r} has no counterpart")
    return None
