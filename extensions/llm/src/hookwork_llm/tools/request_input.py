"""RequestInputTool: lets the model ask the person something and wait for the answer (core HITL, RES)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.errors import ToolArgumentError
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool

if TYPE_CHECKING:
    from hookwork.context import ToolContext

_PARAMETERS = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "description": "What the person is asked, in their language."},
        "choices": {
            "type": "array",
            "items": {"type": "string"},
            "description": "The answers to choose from, if there are only these.",
        },
    },
    "required": ["question"],
}


class RequestInputTool(Tool):
    """`request_input`: the run pauses with an open call whose arguments hold ``question`` and ``choices``.

    The person's answer is a function response to that call, in any form, e.g. ``{"answer": "the blue one"}``; the model
    reads it as the call's result and goes on.
    """

    name = "request_input"
    description = "Asks the person a question and waits for the answer. Use it when you cannot go on without it."
    is_long_running = True

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=_PARAMETERS)

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> None:
        """Nothing to do: the call stays open. Raises ToolArgumentError for a question that says nothing."""
        question, choices = args.get("question"), args.get("choices")
        if not isinstance(question, str) or not question.strip():
            raise ToolArgumentError("request_input: /question: a text is required")
        if choices is not None and not (isinstance(choices, list) and all(isinstance(c, str) for c in choices)):
            raise ToolArgumentError("request_input: /choices: a list of texts")
