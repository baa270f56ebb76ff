"""ExampleTool: few-shot examples in the system instruction (tools-plugins BT-25)."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from hookwork.errors import ConfigurationError
from hookwork.records.content import Content, FunctionCall, FunctionResponse
from hookwork.records.frozen import thaw
from hookwork.tool import Tool

if TYPE_CHECKING:
    from hookwork.context import ToolContext
    from hookwork.model import ModelRequest

_TAG = re.compile(r"<(/?)\s*EXAMPLES\s*>", re.IGNORECASE)
#: Model names with this in them were trained on fences with these names (BT-25).
_NAMED_FENCES = "gemini-2"


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """What a user might say, and what a good answer looks like: texts, calls, their responses, in order."""

    input: Content
    output: Sequence[Content]


ExampleProvider = Callable[[str], "Iterable[Example] | Awaitable[Iterable[Example]]"]


class ExampleTool(Tool):
    """Appends examples to the system instruction of every request; the model sees no tool.

    Args:
        examples: `Example` objects, or a function that gives them for the text of the user's message (async or not).

    Raises:
        ConfigurationError: neither of the two.
    """

    name = "example_tool"
    description = "Shows the model examples."

    def __init__(self, examples: Iterable[Example] | ExampleProvider) -> None:
        if callable(examples):
            self._provider: ExampleProvider | None = examples
            self._examples: tuple[Example, ...] = ()
            return
        self._provider = None
        self._examples = tuple(examples) if isinstance(examples, Iterable) else ()
        if not self._examples or not all(isinstance(example, Example) for example in self._examples):
            raise ConfigurationError(
                "ExampleTool takes a list of Example(input=…, output=[…]) or a function of the user's text that gives "
                f"one, not {examples!r}"
            )

    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        message = ctx.user_content
        query = message.parts[0].text if message is not None and message.parts else None
        if not query:
            return
        examples: Any = self._examples
        if self._provider is not None:
            examples = self._provider(query)
            if inspect.isawaitable(examples):
                examples = await examples
        request.append_instruction(examples_text(examples, request.model))


def examples_text(examples: Iterable[Example], model: str = "") -> str:
    """The examples as a model sees them, ``""`` for none."""
    named = _NAMED_FENCES in model
    blocks = [_block(number, example, named) for number, example in enumerate(examples, 1)]
    if not blocks:
        return ""
    lead = "Examples of what users say and of how to answer, with the calls that were made:"
    return "\n".join(["<EXAMPLES>", lead, *blocks, "</EXAMPLES>"])


def _block(number: int, example: Example, named_fences: bool) -> str:
    lines = [f"EXAMPLE {number}:"]
    speaker = ""
    turns = [(example.input, "user"), *((content, content.role or "model") for content in example.output)]
    for content, role in turns:
        if role != speaker:
            speaker = role
            lines.append(f"[{role}]")
        for part in content.parts:
            if part.function_call is not None:
                lines += _fenced("tool_code" if named_fences else "", _call(part.function_call))
            elif part.function_response is not None:
                lines += _fenced("tool_outputs" if named_fences else "", _response(part.function_response))
            elif part.text:
                lines.append(_inert(part.text))
    return "\n".join([*lines, f"END OF EXAMPLE {number}"])


def _fenced(kind: str, text: str) -> list[str]:
    return [f"```{kind}", _inert(text), "```"]


def _call(call: FunctionCall) -> str:
    """``name(k='v', n=1)``, in the order in which the arguments were given."""
    arguments = ", ".join(f"{key}={value!r}" for key, value in thaw(call.args or {}).items())
    return f"{call.name}({arguments})"


def _response(response: FunctionResponse) -> str:
    return json.dumps(thaw(response.response), ensure_ascii=False)


def _inert(text: str) -> str:
    """Text of an example cannot open or close the block it stands in."""
    return _TAG.sub(r"&lt;\1EXAMPLES&gt;", text)
