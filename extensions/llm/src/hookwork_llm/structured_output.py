"""Structured replies: by the model's own schema support, or by the tool `set_model_response` (core §2.4)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hookwork.errors import ToolArgumentError
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool
from hookwork_llm.object_schema import InvalidObject, ObjectSchema, read_object

if TYPE_CHECKING:
    from hookwork.context import ToolContext
    from hookwork.model import ModelRequest

SET_MODEL_RESPONSE = "set_model_response"
INVALID_OUTPUT = "INVALID_OUTPUT"

INSTRUCTION = (
    f"Give your final answer by calling `{SET_MODEL_RESPONSE}` with all its fields; do not write it as text. Use the "
    "other tools first if you need them."
)


class SetModelResponseTool(Tool):
    """Takes the final answer of an agent with tools whose model cannot combine them with a schema (OUT-2)."""

    name = SET_MODEL_RESPONSE
    description = "Gives the final answer in its required form."

    def __init__(self, schema: ObjectSchema) -> None:
        self._schema = schema
        self._declaration = FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=schema.json_schema
        )

    def declaration(self) -> FunctionDeclaration:
        return self._declaration

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        try:
            value: dict[str, Any] = self._schema.validate(args)
        except InvalidObject as error:
            raise ToolArgumentError(f"{SET_MODEL_RESPONSE}: {error}") from error
        return value


def ask_for_object(request: ModelRequest, schema: ObjectSchema) -> None:
    """Ask the model itself for an object of the schema (OUT-1)."""
    request.update_config(response_json_schema=schema.json_schema, response_mime_type="application/json")


def parsed_reply(text: str, schema: ObjectSchema) -> Any:
    """The object a model wrote, checked. Raises InvalidObject with a text for the model (OUT-5, OUT-6)."""
    return schema.validate(read_object(text))


def object_text(value: Any) -> str:
    """The validated object as the text of the final event (OUT-3)."""
    return json.dumps(value, ensure_ascii=False)


def correction(error: InvalidObject, *, by_tool: bool) -> str:
    """What the model is told after an invalid reply. ``by_tool``: the answer is due through the tool (OUT-2)."""
    how = f"by calling `{SET_MODEL_RESPONSE}`" if by_tool else "with one JSON object of that form and nothing else"
    return f"Your last answer does not have the required form: {error}. Answer again {how}."
