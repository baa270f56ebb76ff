"""Agents that ask and wait, on one store, each run in a new process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from tests.kernel.running import Body, said

from hookwork import (
    Agent,
    Content,
    Event,
    FunctionCall,
    FunctionResponse,
    InvocationContext,
    Part,
    Pause,
    Runner,
    RunOutcome,
    Settings,
)
from hookwork_inmemory import InMemorySessionService


def asks(call_id: str, name: str = "approve") -> Event:
    """A long-running call without response: what an agent waits for."""
    part = Part(function_call=FunctionCall(id=call_id, name=name, args={}))
    return Event(content=Content(role="model", parts=[part]), long_running_tool_ids=(call_id,))


def answer(*call_ids: str, name: str = "approve", **response: Any) -> Content:
    parts = [
        Part(function_response=FunctionResponse(id=i, name=name, response=response or {"ok": True})) for i in call_ids
    ]
    return Content(role="user", parts=parts)


class Lab:
    """Agents that note what they do, on one session store; each `runner()` is a new process."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.sessions = InMemorySessionService()
        self.root: Agent = Agent(name="root", body=self.asking("c1"))
        self.plugins: list[Any] = []

    def asking(self, call_id: str, after: str = "answered") -> Body:
        """Asks at first, says the answer when entered again."""

        async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
            self.log.append(f"{ctx.agent_name} {'again' if ctx.resuming else 'enters'}")
            call = next((call for call in ctx.view.calls if call.id == call_id), None)
            if call is None or call.answer is None:
                if call is None:
                    yield asks(call_id)
                raise Pause
            yield said(f"{ctx.agent_name} {after} {dict(call.answer.payload or {})}")

        return body

    def talking(self, text: str) -> Body:
        async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
            self.log.append(f"{ctx.agent_name} {'again' if ctx.resuming else 'enters'}")
            yield said(text)

        return body

    def sequence(self, *children: Agent, name: str = "root") -> Agent:
        """Children one after another, stopping at a pause; a composed agent as anybody may write one."""

        async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
            self.log.append(f"{name} {'again' if ctx.resuming else 'enters'}")
            for child in children:
                activation = ctx.activate(child, run_id="1")
                async with aclosing(activation) as events:
                    async for event in events:
                        yield event
                if activation.status == "paused":
                    raise Pause

        return Agent(name=name, body=body, sub_agents=children)

    def runner(self) -> Runner:
        return Runner(self.root, sessions=self.sessions, plugins=self.plugins, settings=Settings())

    async def run(self, message: Any = "hi", **arguments: Any) -> RunOutcome:
        return await self.runner().run(user_id="u", session_id="s", message=message, **arguments).wait()

    async def session(self) -> Any:
        return await self.sessions.get_session(app_name="root", user_id="u", session_id="s")

    async def story(self) -> list[str]:
        """Path and text (or call, or marker) of every stored event."""
        lines = []
        for event in (await self.session()).events:
            what = event.text or ",".join(
                [f"call {call.id}" for call in event.function_calls]
                + [f"answer {response.id}" for response in event.function_responses]
            )
            done = "✓" if event.node_info is not None and event.node_info.status == "completed" else ""
            lines.append(f"{event.path or 'user'}: {what}{done}".strip())
        return lines
