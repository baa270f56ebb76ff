"""Tools of the runner scenes, made of the kernel's tool contract alone so that any flow plugin can run them."""

from __future__ import annotations

import asyncio
from typing import Any

from hookwork.context import ToolContext
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool


class Recorder(Tool):
    """Answers ``{"n": <calls so far>}`` and keeps what it was called with, and each call's idempotency key.

    ``confirm``: every call needs an approval. ``long_running`` with ``answer=None``: the call stays open.
    """

    def __init__(
        self, name: str, *, confirm: bool = False, long_running: bool = False, answer: Any = ..., error: str = ""
    ) -> None:
        self.name = name
        self.description = f"The scene's tool {name}."
        self.is_long_running = long_running
        self.calls: list[dict[str, Any]] = []
        self.keys: list[str] = []
        #: names of the calls that the tool saw in its session, one list for each time it ran.
        self.seen: list[list[str]] = []
        self._confirm = confirm
        self._answer = answer
        self._error = error

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name=self.name, description=self.description)

    async def needs_confirmation(self, ctx: ToolContext, args: dict[str, Any], converted: Any) -> bool:
        return self._confirm

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> Any:
        self.calls.append(dict(args))
        self.keys.append(ctx.idempotency_key)
        self.seen.append([call.name or "" for event in ctx.session.events for call in event.function_calls])
        if self._error:
            raise RuntimeError(self._error)
        return {"n": len(self.calls)} if self._answer is ... else self._answer


class Appender(Tool):
    """Reads a list in state, waits as often as its argument says, and writes the list back with one more item."""

    name = "add"
    description = "Adds an item."

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name=self.name, description=self.description)

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> Any:
        for _ in range(args["turns"]):
            await asyncio.sleep(0)
        ctx.state["items"] = [*ctx.state.get("items", []), args["item"]]
        ctx.state[f"has_{args['item']}"] = True
        return {"items": list(ctx.state["items"])}


class Waiter(Tool):
    """Waits for ever; ``started`` is set when it does, ``left`` counts how often its cleanup ran."""

    name = "wait"
    description = "Waits."

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.left = 0

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name=self.name, description=self.description)

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> Any:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.left += 1
