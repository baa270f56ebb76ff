"""Tools that use the memory service: on the model's wish, and before every turn (tools-plugins §4, BT-20)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hookwork.inside import invocation_of
from hookwork.records.codec import dump
from hookwork.records.content import Content, text_content
from hookwork.records.request import FunctionDeclaration
from hookwork.records.times import rfc3339
from hookwork.tool import Tool, pack_tool
from hookwork_llm.tools.arguments import required_text

if TYPE_CHECKING:
    from hookwork.context import ToolContext
    from hookwork.model import ModelRequest
    from hookwork.services import MemoryEntry

logger = logging.getLogger("hookwork.tools")

_OPENING = "<PAST_CONVERSATIONS>"
_CLOSING = "</PAST_CONVERSATIONS>"


class LoadMemoryTool(Tool):
    """`load_memory`: the model asks the memory service. Result: ``{"memories": [entry, …]}``, best first."""

    name = "load_memory"
    description = "Searches what is remembered of earlier conversations with this user."
    idempotent = True
    instruction = (
        "You have a memory of earlier conversations with the user. When the answer may depend on something that was "
        "said before and is not in this conversation, call `load_memory` with a query first."
    )

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema={
                "type": "object",
                "properties": {"query": {"type": "string", "description": "What to look for."}},
                "required": ["query"],
            },
        )

    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        pack_tool(request, self)
        request.append_instruction(self.instruction)

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        query = required_text(self.name, args, "query")
        return {"memories": [_readable(entry) for entry in await ctx.search_memory(query)]}


class PreloadMemoryTool(Tool):
    """Shows the model, before each of its turns, what is remembered about the user's message.

    The memories stand in a content of their own before the newest user turn; it is never stored, and what comes before
    it stays the same, so a provider's prompt cache goes on working. Searched once per run and message. A search that
    fails is logged, and the turn goes on without memories.
    """

    name = "preload_memory"
    description = "Shows the model what is remembered of earlier conversations."

    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        message = ctx.user_content
        query = message.parts[0].text if message is not None and message.parts else None
        if message is None or not query or not query.strip():
            return
        text = await self._remembered(ctx, query)
        if text:
            contents = list(request.contents)
            contents.insert(_newest_user_turn(contents, message), text_content(text, role="user"))
            request.contents = contents

    async def _remembered(self, ctx: ToolContext, query: str) -> str:
        """The text for a query, searched for once per run."""
        kept = invocation_of(ctx).prepared
        found = kept.get(id(self))
        if found is None or found[0] is not self:
            found = kept[id(self)] = (self, {})
        texts: dict[str, str] = found[1]
        if query not in texts:
            try:
                entries = await ctx.search_memory(query)
            except Exception:
                # Memory is a help, not a condition: without it the user still gets an answer (TT-16).
                logger.warning("the memory search of agent %r failed", ctx.agent_name, exc_info=True)
                entries = []
            texts[query] = memories_text(entries)
        return texts[query]


def _readable(entry: MemoryEntry) -> dict[str, Any]:
    """An entry as JSON, its time in a form that a model can read."""
    record = dump(entry)
    if entry.timestamp is not None:
        record["timestamp"] = rfc3339(entry.timestamp)
    return record


def memories_text(entries: Iterable[MemoryEntry]) -> str:
    """Entries as the model sees them, ``""`` when none has text."""
    lines: list[str] = []
    for entry in entries:
        parts = entry.content.parts if entry.content is not None else ()
        text = " ".join(part.text for part in parts if part.text and not part.thought)
        if not text:
            continue
        if entry.timestamp is not None:
            lines.append(f"Time: {rfc3339(entry.timestamp)}")
        lines.append(f"{entry.author}: {_inert(text)}" if entry.author else _inert(text))
    if not lines:
        return ""
    return "\n".join(["What follows is remembered of earlier conversations; it may help.", _OPENING, *lines, _CLOSING])


def _inert(text: str) -> str:
    """A remembered text cannot end the block it stands in."""
    return text.replace(_CLOSING, "<\\/PAST_CONVERSATIONS>")


def _newest_user_turn(contents: list[Content], message: Content) -> int:
    """Where the newest user turn stands: the message itself, else the newest content that a user may have said."""
    for position in range(len(contents) - 1, -1, -1):
        if contents[position].role == "user" and contents[position].parts == message.parts:
            return position
    for position in range(len(contents) - 1, -1, -1):
        if contents[position].role == "user" and not contents[position].function_responses:
            return position
    return 0
