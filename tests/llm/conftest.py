"""Running turns and writing down what came out, in short."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from hookwork.context import ToolContext
from hookwork.records.content import Content, FunctionResponse, Part
from hookwork.records.event import Event
from hookwork.run import RunOutcome
from hookwork.runner import Runner
from hookwork_llm import FunctionTool


class Turn:
    """One run that was iterated to its end.

    Attributes:
        events: what was yielded, in order.
        outcome: how the run ended.
        error: what the iterator raised, if it did.
    """

    def __init__(self, events: list[Event], outcome: RunOutcome, error: Exception | None) -> None:
        self.events = events
        self.outcome = outcome
        self.error = error

    @property
    def scene(self) -> list[str]:
        """Every event in short: see `described`."""
        return [described(event) for event in self.events]

    @property
    def open_ids(self) -> list[str]:
        return [call.id for call in self.outcome.open_calls]


def described(event: Event) -> str:
    """``author: +name`` for a call, ``-name`` for a response, the text, ``!CODE``, ``δkeys``; ``~`` marks a partial."""
    words = []
    for part in event.content.parts if event.content is not None else ():
        if part.function_call is not None:
            words.append(f"+{part.function_call.name}")
        elif part.function_response is not None:
            words.append(f"-{part.function_response.name}")
        elif part.text is not None:
            words.append(f"({part.text})" if part.thought else part.text)
    if event.error_code:
        words.append(f"!{event.error_code}")
    if event.actions.state_delta:
        words.append("δ" + ",".join(event.actions.state_delta))
    return f"{event.author}:{'~' if event.partial else ' '}{' '.join(words)}"


Play = Callable[..., Awaitable[Turn]]


async def _play(runner: Runner, message: Any = "hi", *, session_id: str = "s", **arguments: Any) -> Turn:
    events: list[Event] = []
    error: Exception | None = None
    async with runner.run(user_id="u", session_id=session_id, message=message, **arguments) as run:
        try:
            async for event in run:
                events.append(event)
        except Exception as raised:
            error = raised
    assert run.outcome is not None
    return Turn(events, run.outcome, error)


class Gated:
    """A tool that needs approval and notes what it was run with: ``tool``, and ``runs`` as (argument, payload)."""

    def __init__(self, name: str = "go", **options: Any) -> None:
        self.runs: list[Any] = []

        async def body(ctx: ToolContext, x: int = 0) -> dict[str, Any]:
            """Do it."""
            self.runs.append((x, ctx.tool_confirmation.payload if ctx.tool_confirmation else None))
            return {"done": x}

        self.tool = FunctionTool(body, name=name, require_confirmation=True, **options)


@pytest.fixture
def gated() -> type[Gated]:
    """The class of a tool that needs approval."""
    return Gated


@pytest.fixture
def play() -> Play:
    """``await play(runner, "message", **arguments_of_run)`` gives a `Turn`."""
    return _play


@pytest.fixture
def stored() -> Callable[..., Awaitable[Any]]:
    """``await stored(runner)`` gives the session as the service has it."""

    async def read(runner: Runner, session_id: str = "s") -> Any:
        return await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id=session_id)

    return read


@pytest.fixture
def short() -> Callable[[Iterable[Event]], list[str]]:
    """Events in short."""
    return lambda events: [described(event) for event in events]


@pytest.fixture
def answer() -> Callable[..., Content]:
    """``answer("id", {"confirmed": True})``, or several pairs, as the user's message."""

    def message(*pairs: Any, name: str = "adk_request_confirmation") -> Content:
        given = [pairs] if isinstance(pairs[0], str) else pairs
        return Content(
            role="user",
            parts=[
                Part(function_response=FunctionResponse(id=call_id, name=name, response=payload))
                for call_id, payload in given
            ],
        )

    return message
