"""A request as the engine takes it: what was asked, which tools ran, what they gave, turn by turn."""

from __future__ import annotations

import json
from typing import Any

from hookwork.model import ModelRequest
from hookwork.records.content import FunctionCall, FunctionResponse, Part
from hookwork.records.frozen import thaw
from hookwork.records.request import FunctionDeclaration, GenerateContentConfig
from hookwork_modelkit.schemas import to_json_schema

#: Characters of a result that the engine hears.
LONGEST_RESULT = 300


class Turn:
    """One question and the calls it led to."""

    __slots__ = ("calls", "results", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: list[FunctionCall] = []
        self.results: list[FunctionResponse] = []

    @property
    def question(self) -> str:
        """What was asked."""
        return "\n".join(self.texts)

    @property
    def messages(self) -> list[str]:
        """The turn as the engine hears it: the question, then the results as a JSON array in call order.

        A long result is cut: reading it costs the engine more than deciding does, and the answer is not made from it.
        """
        if not self.results:
            return [self.question]
        return [self.question, f"[{', '.join(_shortened(result) for result in self.results)}]"]

    def repeats(self, call: FunctionCall) -> bool:
        """Whether the turn made this very call before."""
        return any((made.name, made.args) == (call.name, call.args) for made in self.calls)


def _shortened(result: FunctionResponse) -> str:
    text = json.dumps(thaw(result.response), ensure_ascii=False)
    return text if len(text) <= LONGEST_RESULT else json.dumps(f"{text[:LONGEST_RESULT]} …", ensure_ascii=False)


def turns_of(request: ModelRequest) -> list[Turn]:
    """The turns of a request, oldest first; text of the model is left out, since the engine writes none."""
    turns: list[Turn] = []
    for content in request.contents:
        for part in content.parts:
            if content.role == "model":
                if part.function_call is not None and turns:
                    turns[-1].calls.append(part.function_call)
            elif part.function_response is not None:
                if turns:
                    turns[-1].results.append(part.function_response)
            elif _is_text(part):
                if not turns or turns[-1].calls or turns[-1].results or _answered(turns, request, content):
                    turns.append(Turn())
                turns[-1].texts.append(part.text or "")
    return turns


def _is_text(part: Part) -> bool:
    return bool(part.text and part.text.strip()) and not part.thought


def _answered(turns: list[Turn], request: ModelRequest, content: Any) -> bool:
    """Whether the model spoke between the turn's question and this content."""
    position = next(i for i, other in enumerate(request.contents) if other is content)
    return position > 0 and request.contents[position - 1].role == "model"


def has_media(request: ModelRequest) -> bool:
    """Whether a part is something that no text can stand for."""
    return any(
        part.inline_data is not None or part.file_data is not None
        for content in request.contents
        for part in content.parts
    )


def tools_of(config: GenerateContentConfig) -> list[FunctionDeclaration]:
    """The functions that may be called: none in mode NONE, else the allowed ones."""
    calling: Any = (config.tool_config or {}).get("functionCallingConfig") or {}
    if str(calling.get("mode") or "").upper() == "NONE":
        return []
    allowed = calling.get("allowedFunctionNames")
    return [tool for tool in config.function_declarations() if not allowed or tool.name in allowed]


def described(tools: list[FunctionDeclaration]) -> list[dict[str, Any]]:
    """Declarations in the engine's form: name, description, parameters as JSON schema."""
    return [
        {
            "name": tool.name,
            "description": tool.description or "",
            "parameters": to_json_schema(tool.parameters_json_schema or tool.parameters or {"type": "object"}),
        }
        for tool in tools
    ]
