"""Plan, act, reason, answer: a planner that works with any model that can follow tags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hookwork.records.content import Content, Part

if TYPE_CHECKING:
    from hookwork.context import CallbackContext
    from hookwork.model import ModelRequest
    from hookwork.records.metadata import ModelResponse

PLANNING = "/*PLANNING*/"
REPLANNING = "/*REPLANNING*/"
REASONING = "/*REASONING*/"
ACTION = "/*ACTION*/"
FINAL_ANSWER = "/*FINAL_ANSWER*/"

_INNER = (PLANNING, REPLANNING, REASONING, ACTION)

INSTRUCTION = f"""\
Work in these sections, each begun by its tag on a line of its own:
{PLANNING} first of all: the steps, numbered, that lead to the answer, each one something that the tools at hand or your
own knowledge can do.
{ACTION} whatever you need to say beside calling tools for a step.
{REASONING} between actions: what the results mean for the plan and what comes next.
{REPLANNING} a new plan, only when the results show that the old one does not lead there.
{FINAL_ANSWER} last of all and once: the answer, complete in itself. The user sees only this section. Ask here for
what only the user knows.\
"""


class PlanReActPlanner:
    """Has the model write plan, reasoning and answer under tags; everything but the answer becomes a thought.

    An answer without a single tag is left as it is. One that stops before the final answer and calls no tool is
    thought-only, so the model is asked to go on (core FLOW-2).
    """

    def build_instruction(self, ctx: CallbackContext, request: ModelRequest) -> str:
        """The instruction. Earlier thoughts are shown to the model as text: its plan is among them."""
        if any(part.thought and part.text for content in request.contents for part in content.parts):
            request.contents = [_with_thoughts_shown(content) for content in request.contents]
        return INSTRUCTION

    def process_response(self, ctx: CallbackContext, response: ModelResponse) -> ModelResponse | None:
        """The response with everything but the final answer marked as thought; None when it has no tag."""
        content = response.content
        if content is None or not any(_is_tagged(part) for part in content.parts):
            return None
        parts: list[Part] = []
        inside = False  # of a section that is not the answer; it goes on in the next part
        for part in content.parts:
            if part.text is None or part.thought:
                parts.append(part)
                continue
            for text, thought in _sections(part.text, inside):
                inside = thought
                if text.strip():
                    parts.append(part.replace(text=text, thought=True) if thought else part.replace(text=text))
        return response.replace(content=content.replace(parts=parts))


def _is_tagged(part: Part) -> bool:
    return part.text is not None and not part.thought and any(tag in part.text for tag in (*_INNER, FINAL_ANSWER))


def _sections(text: str, inside: bool) -> Iterator[tuple[str, bool]]:
    """(text, whether it is a thought) in order; the tag of the answer is left out."""
    head, tag, answer = text.rpartition(FINAL_ANSWER)
    if not tag:
        yield text, inside or any(inner in text for inner in _INNER)
        return
    if head.strip():
        yield head, True
    yield answer.strip(), False


def _with_thoughts_shown(content: Content) -> Content:
    if not any(part.thought and part.text for part in content.parts):
        return content
    return content.replace(parts=[part.replace(thought=None) if part.text else part for part in content.parts])
