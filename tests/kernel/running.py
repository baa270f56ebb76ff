"""Small agents, their runners, and a plugin that writes down every hook."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from hookwork import (
    Agent,
    CallbackContext,
    Content,
    Event,
    InvocationContext,
    Plugin,
    Runner,
    RunOutcome,
    Settings,
    Stage,
    text_content,
)

Body = Callable[[InvocationContext], AsyncIterator[Event]]


def said(text: str, **fields: Any) -> Event:
    return Event(content=text_content(text), **fields)


def talking(*texts: str) -> Body:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        for text in texts:
            yield said(text)

    return body


def runner_of(body: Body | Agent, *plugins: Any, **options: Any) -> Runner:
    agent = body if isinstance(body, Agent) else Agent(name="root", body=body)
    return Runner.in_memory(agent, plugins=list(plugins), settings=Settings(), **options)


async def stored(runner: Runner) -> list[Event]:
    session = await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")
    return list(session.events)


async def run_of(runner: Runner, message: Any = "hi", **arguments: Any) -> list[Event]:
    return [event async for event in runner.run(user_id="u", session_id="s", message=message, **arguments)]


class Log(Plugin):
    """Writes down every hook of a run and an agent."""

    def __init__(self, log: list[str], name: str = "log") -> None:
        self.log = log
        self.name = name

    def _note(self, text: str) -> None:
        self.log.append(f"{self.name}: {text}")

    @asynccontextmanager
    async def around_run(self, ctx: InvocationContext, stage: Stage) -> AsyncIterator[None]:
        self._note("(run")
        try:
            yield
        finally:
            assert stage.outcome is not None
            self._note(f"run) {stage.outcome.value.kind}")

    @asynccontextmanager
    async def around_agent(self, ctx: CallbackContext, agent: Agent, stage: Stage) -> AsyncIterator[None]:
        self._note("(agent")
        yield
        self._note(f"agent) {stage.outcome.value.status if stage.outcome else '?'}")

    def on_user_message(self, message: Content) -> None:
        self._note("on_user_message")

    def before_run(self) -> None:
        self._note("before_run")

    def before_agent(self) -> None:
        self._note("before_agent")

    def after_agent(self) -> None:
        self._note("after_agent")

    def on_event(self, event: Event) -> None:
        self._note(f"on_event {event.text}")

    def on_agent_error(self, error: Exception) -> None:
        self._note(f"on_agent_error {error}")

    def on_run_error(self, error: Exception) -> None:
        self._note(f"on_run_error {error}")

    def after_run(self, outcome: RunOutcome) -> None:
        self._note(f"after_run {outcome.kind}")
