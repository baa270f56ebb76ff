"""A real MCP server with one of everything; run as a script it speaks on its standard streams."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Any

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve, Sample
from mcp.server.mcpserver.utilities.types import Audio, Image
from mcp_types import CreateMessageResult, SamplingMessage, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

#: Path of this file, to be run as a script.
SCRIPT = __file__
PNG = b"\x89PNG\r\n\x1a\n-not-really"


class Person(BaseModel):
    """A form with defaults."""

    name: str = Field(default="Ada")
    age: int = Field(default=36)


async def who() -> Elicit[Person]:
    """The question of `ask`."""
    return Elicit("Who are you?", Person)


async def thought() -> Sample:
    """The question of `muse`."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text="Think."))
    return Sample([message], max_tokens=9, system_prompt="Be brief.")


def make_server() -> MCPServer:
    """A fresh server."""
    server = MCPServer("everything", instructions="Use the tools.", log_level="ERROR")
    started = asyncio.Event()

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool(structured_output=False)
    def greet(name: str) -> list[TextContent]:
        """Two texts."""
        return [TextContent(type="text", text="Hello, "), TextContent(type="text", text=name)]

    @server.tool(structured_output=False)
    def picture() -> list[Any]:
        """A text and an image."""
        return ["here:", Image(data=PNG, format="png")]

    @server.tool(structured_output=False)
    def sound() -> Audio:
        """An audio clip."""
        return Audio(data=b"RIFF", format="wav")

    @server.tool()
    def fail(reason: str) -> str:
        """Fails."""
        raise ToolError(reason)

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def pid() -> int:
        """The process."""
        return os.getpid()

    @server.tool()
    async def count(ctx: Context[Any], steps: int) -> str:
        """Reports progress."""
        for step in range(steps):
            await ctx.report_progress(step + 1, steps, f"step {step + 1}")
        return "done"

    @server.tool()
    async def forever() -> str:
        """Never ends by itself."""
        started.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            server.cancelled = True  # type: ignore[attr-defined]
            raise
        return "unreachable"

    @server.tool()
    async def ask(answer: Annotated[ElicitationResult[Person], Resolve(who)]) -> str:
        """Asks the user."""
        return f"accept: {answer.data.name}, {answer.data.age}" if answer.action == "accept" else answer.action

    @server.tool()
    async def muse(answer: Annotated[CreateMessageResult, Resolve(thought)]) -> str:
        """Asks a model."""
        return f"{answer.model} said {answer.content.text}"  # type: ignore[union-attr]

    @server.tool()
    def die() -> str:
        """Ends the process in the middle of a call."""
        os._exit(3)

    @server.resource("text://readme", mime_type="text/plain")
    def readme() -> str:
        """A text."""
        return "read me"

    @server.resource("bytes://logo", mime_type="image/png")
    def logo() -> bytes:
        """Bytes."""
        return PNG

    @server.resource("text://note/{name}")
    def note(name: str) -> str:
        """A note by name."""
        return f"note {name}"

    @server.prompt()
    def review(code: str) -> str:
        """Ask for a review."""
        return f"Review: {code}"

    server.started = started  # type: ignore[attr-defined]
    server.cancelled = False  # type: ignore[attr-defined]
    return server


if __name__ == "__main__":
    make_server().run("stdio")
