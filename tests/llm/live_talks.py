"""Live sessions of an LLM agent over scripted connections: started, fed, closed by the script, and looked at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from hookwork import Event, LiveRun, LiveRunConfig, Plugin, Runner, Settings
from hookwork_llm import LlmAgent
from hookwork_testkit.live import LiveStep, ScriptedConnection, ScriptedLiveModel

#: Seconds after which a talk that waits for something that never comes fails instead of hanging.
GUARD = 20.0


class Talk:
    """A model with scripts, a runner of one agent (or tree) with it, and one live run.

    The last script ends by closing the run; ``close=False`` leaves that to the test.
    """

    def __init__(
        self,
        *scripts: Sequence[LiveStep] | Exception,
        plugins: Iterable[Any] = (),
        config: LiveRunConfig | None = None,
        close: bool = True,
        responses: Any = (),
        capabilities: Any = None,
        root: Any = None,
        options: Mapping[str, Any] | None = None,
        **agent: Any,
    ) -> None:
        played: list[Any] = [script if isinstance(script, Exception) else list(script) for script in scripts]
        if close:
            played[-1].append(self._close)
        more = {"capabilities": capabilities} if capabilities is not None else {}
        self.model = ScriptedLiveModel(*played, responses=responses, **more)
        root = root(self.model) if root is not None else LlmAgent(name="voice", model=self.model, **agent)
        self.runner = Runner.in_memory(root, plugins=list(plugins), settings=Settings(), **(options or {}))
        self.run: LiveRun = self.runner.run_live(user_id="u", session_id="s", config=config or LiveRunConfig())
        self.events: list[Event] = []

    async def _close(self, _: ScriptedConnection) -> None:
        await self.run.close()

    async def hold(self, *requests: Any) -> Talk:
        """Send requests, then read the events to the end."""
        async with asyncio.timeout(GUARD):
            for request in requests:
                await self.run.send(request)
            async for event in self.run:
                self.events.append(event)
        return self

    async def hold_until(self, what: str, *requests: Any) -> Talk:
        """Send requests, and read until an event that reads like ``what``."""
        async with asyncio.timeout(GUARD):
            for request in requests:
                await self.run.send(request)
            async for event in self.run:
                self.events.append(event)
                if brief(event) == what:
                    break
        return self

    async def finish(self, *requests: Any) -> Talk:
        """Go on after `hold_until`: send more, close, read the rest."""
        for request in requests:
            await self.run.send(request)
        await self.run.close()
        self.events += [event async for event in _rest(self.run)]
        return self

    async def stored(self) -> list[Event]:
        """What the session holds, read anew."""
        session = await self.runner.sessions.get_session(app_name=self.runner.app_name, user_id="u", session_id="s")
        return list(session.events)

    @property
    def connections(self) -> list[ScriptedConnection]:
        return self.model.connections

    @property
    def line(self) -> ScriptedConnection:
        """The newest connection."""
        return self.model.connections[-1]


def shown(events: Iterable[Event]) -> list[str]:
    """Events in short, one word each: who, what."""
    return [f"{event.author}: {brief(event)}" for event in events]


def brief(event: Event) -> str:
    """One event in short; ``~`` in front of a partial one."""
    found: list[str] = []
    for part in event.content.parts if event.content is not None else ():
        if part.text is not None:
            found.append(f"({part.text})" if part.thought else part.text)
        elif part.inline_data is not None:
            found.append("sound")
        elif part.file_data is not None:
            found.append("file")
        elif part.function_call is not None:
            found.append(f"{part.function_call.name}?")
        elif part.function_response is not None:
            found.append(f"{part.function_response.name}!")
    if event.input_transcription is not None:
        found.append(f"heard {event.input_transcription.text}")
    if event.output_transcription is not None:
        found.append(f"spoke {event.output_transcription.text}")
    for name in ("turn_complete", "interrupted"):
        if getattr(event, name):
            found.append(name)
    if event.session_resumption_handle:
        found.append(f"handle {event.session_resumption_handle}")
    if event.error_code:
        found.append(event.error_code)
    if not found and event.node_info is not None and event.node_info.status == "completed":
        found.append("(end)")
    return ("~" if event.partial else "") + " ".join(found)


class Hooks(Plugin):
    """Writes down the hooks of models and tools."""

    name = "hooks"

    def __init__(self) -> None:
        self.log: list[str] = []

    def before_tool(self, tool: Any) -> None:
        self.log.append(f"before_tool {tool.name}")

    def after_tool(self, tool: Any, result: Any) -> None:
        self.log.append(f"after_tool {tool.name}")


async def _rest(run: LiveRun) -> AsyncIterator[Event]:
    while True:
        try:
            yield await run.__anext__()
        except StopAsyncIteration:
            return
