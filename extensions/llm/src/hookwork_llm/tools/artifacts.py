"""LoadArtifactsTool: the model sees which files there are and asks for their content (tools-plugins BT-10, BT-11)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hookwork.inside import invocation_of
from hookwork.records.content import Content, Part
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool, pack_tool
from hookwork_llm.tools.arguments import names_list

if TYPE_CHECKING:
    from hookwork.context import ToolContext
    from hookwork.model import ModelRequest

logger = logging.getLogger("hookwork.tools")

_ARGUMENT = "artifact_names"


class LoadArtifactsTool(Tool):
    """`load_artifacts`: tells the model the names of the user's files, and shows it the ones it asks for.

    The call itself only repeats the names; the files go into the next request, after the response, and are never
    stored. A file that cannot be loaded is reported as text in its place. Without an artifact service the tool does
    nothing.
    """

    name = "load_artifacts"
    description = "Loads files of this conversation, so that you can read them."
    idempotent = True

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema={
                "type": "object",
                "properties": {
                    _ARGUMENT: {"type": "array", "items": {"type": "string"}, "description": "Names of the files."}
                },
            },
        )

    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        if invocation_of(ctx).artifacts is None:
            return
        pack_tool(request, self)
        names = await ctx.artifacts.list()
        if names:
            request.append_instruction(
                f"There are files: {json.dumps(names, ensure_ascii=False)}. You have only their names. Before you "
                f"answer a question about a file, call `{self.name}` with its name; do not guess what is in it."
            )
        asked = _asked_for(request.contents)
        if asked:
            async with asyncio.TaskGroup() as group:
                loaded = [group.create_task(_loaded(ctx, name)) for name in asked]
            request.contents = [*request.contents, *(task.result() for task in loaded)]

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        return {_ARGUMENT: names_list(self.name, args, _ARGUMENT)}


def _asked_for(contents: Sequence[Content]) -> list[str]:
    """The names in our responses of the last content, in order, each once."""
    names: dict[str, None] = {}
    for response in contents[-1].function_responses if contents else ():
        asked = (response.response or {}).get(_ARGUMENT) if response.name == LoadArtifactsTool.name else None
        if isinstance(asked, list | tuple):
            names.update((name, None) for name in asked if isinstance(name, str))
    return list(names)


async def _loaded(ctx: ToolContext, name: str) -> Content:
    """A file as the model sees it: a text that names it, then its part."""
    try:
        part = await ctx.artifacts.load(name)
    except Exception as error:
        # The model asked for it and can ask for another one; the turn is not lost over it (BT-11).
        logger.warning("artifact %r could not be loaded", name, exc_info=True)
        text = f"The file {name!r} could not be loaded: {type(error).__name__}: {error}"
        return Content(role="user", parts=[Part(text=text)])
    return Content(role="user", parts=[Part(text=f"The file {name!r} is:"), part])
