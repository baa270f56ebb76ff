"""Tool choice by schema: the engine can only write a call of an offered tool, or a reply (models LOC-2)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hookwork.records.request import FunctionDeclaration, GenerateContentConfig
from hookwork_modelkit.schemas import to_json_schema

_REPLY = re.compile(r'\s*\{\s*"reply"\s*:\s*"')
#: A JSON string as far as it is complete: whole characters and whole escapes, surrogate pairs together.
_WHOLE = re.compile(
    r'(?:[^"\\]|\\["\\/bfnrt]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}'
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4})*"
)


class Choice:
    """What the engine may write, and how to read it.

    Attributes:
        tools: the declarations offered, by name.
        may_reply: whether prose is allowed (function calling mode ANY forbids it).
        answer_schema: what a reply must be; None: text.
    """

    def __init__(
        self, tools: Mapping[str, FunctionDeclaration], may_reply: bool, answer_schema: dict[str, Any] | None
    ) -> None:
        self.tools = tools
        self.may_reply = may_reply
        self.answer_schema = answer_schema

    @classmethod
    def of(cls, config: GenerateContentConfig) -> Choice:
        """What a request's config allows: its functions, calling mode, allowed names and response schema."""
        calling = _calling(config.tool_config)
        mode = str(calling.get("mode") or "AUTO").upper()
        allowed = set(calling.get("allowedFunctionNames") or calling.get("allowed_function_names") or ())
        tools = {} if mode == "NONE" else {tool.name or "": tool for tool in config.function_declarations()}
        if allowed:
            tools = {name: tool for name, tool in tools.items() if name in allowed}
        return cls(tools, mode != "ANY" or not tools, _answer_schema(config))

    @property
    def schema(self) -> dict[str, Any] | None:
        """The schema of the whole output; None: any text."""
        if not self.tools:
            return self.answer_schema
        branches = [_call_branch(name, tool) for name, tool in self.tools.items()]
        if self.may_reply:
            branches.append(_object({"reply": self.answer_schema or {"type": "string"}}))
        return {"oneOf": branches} if len(branches) > 1 else branches[0]

    def read(self, text: str) -> tuple[str | None, dict[str, Any] | None, str]:
        """(tool, arguments, reply) of a complete output. Raises ValueError: it is none."""
        if not self.tools:
            return None, None, text
        value = json.loads(text)
        if not isinstance(value, dict):
            raise ValueError("no object")
        if "reply" in value:
            reply = value["reply"]
            return None, None, reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
        name, arguments = value.get("tool"), value.get("arguments")
        if not isinstance(name, str) or name not in self.tools or not isinstance(arguments, dict):
            raise ValueError("no call of an offered tool")
        return name, arguments, ""


class ReplyReader:
    """The prose of an output while it is being written; nothing as long as it may become a call."""

    def __init__(self, choice: Choice) -> None:
        self._plain = not choice.tools
        self._begun = self._plain
        self._ended = bool(choice.tools) and choice.answer_schema is not None
        self._rest = ""

    def feed(self, piece: str) -> str:
        """The further prose that a further piece of output brings."""
        if self._plain:
            return piece
        if self._ended:
            return ""
        self._rest += piece
        if not self._begun:
            start = _REPLY.match(self._rest)
            if start is None:
                self._ended = '"tool"' in self._rest
                return ""
            self._begun, self._rest = True, self._rest[start.end() :]
        whole = _WHOLE.match(self._rest)
        end = whole.end() if whole is not None else 0
        written, self._rest = self._rest[:end], self._rest[end:]
        self._ended = self._rest.startswith('"')
        return str(json.loads(f'"{written}"', strict=False))


def parameters_of(tool: FunctionDeclaration) -> dict[str, Any]:
    """A declaration's arguments as a plain JSON schema."""
    schema = tool.parameters_json_schema or tool.parameters
    return to_json_schema(schema) if schema else {"type": "object", "properties": {}}


def _call_branch(name: str, tool: FunctionDeclaration) -> dict[str, Any]:
    return _object({"tool": {"const": name}, "arguments": parameters_of(tool)})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _calling(tool_config: Mapping[str, Any] | None) -> Mapping[str, Any]:
    config = tool_config or {}
    calling = config.get("functionCallingConfig") or config.get("function_calling_config") or {}
    return calling if isinstance(calling, Mapping) else {}


def _answer_schema(config: GenerateContentConfig) -> dict[str, Any] | None:
    schema = config.response_json_schema or config.response_schema
    if schema:
        return to_json_schema(schema)
    return {"type": "object"} if config.response_mime_type == "application/json" else None


def described(tools: Sequence[FunctionDeclaration]) -> str:
    """The offered tools as the model reads them, one JSON object a line."""
    return "\n".join(
        json.dumps(
            {"tool": tool.name, "description": tool.description or "", "arguments": parameters_of(tool)},
            ensure_ascii=False,
        )
        for tool in tools
    )
