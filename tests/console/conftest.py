"""Agents for the console's tests, served under a module name of their own."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest

from hookwork.agent import Agent, AgentBody
from hookwork.app import App
from hookwork.cli import main
from hookwork.context import InvocationContext
from hookwork.records.content import Content, text_content
from hookwork.records.event import Event, RequestInput
from hookwork_testkit import call

Serve = Callable[..., str]


class Result(NamedTuple):
    code: int
    out: str
    err: str


def says(*texts: str, **fields: Any) -> AgentBody:
    """A body that says these texts, one event each."""

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        for text in texts:
            yield Event(content=text_content(text), **fields)

    return body


def asks(*questions: Event) -> AgentBody:
    """A body that asks, and when all is answered says what the answers were."""

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        calls = ctx.view.calls
        if not calls:
            for question in questions:
                yield question
            return
        if not any(one.is_open for one in calls):
            answers = {one.id: one.answer.payload for one in calls if one.answer is not None}
            yield Event(content=text_content("; ".join(f"{id}={dict(value)}" for id, value in answers.items())))

    return body


def confirmation(id: str = "q1", hint: str = "") -> Event:
    """An event that asks for approval of ``delete(path="/tmp/x")``."""
    original = {"id": "c1", "name": "delete", "args": {"path": "/tmp/x"}}
    asked = call(
        "adk_request_confirmation",
        id,
        originalFunctionCall=original,
        toolConfirmation={"hint": hint, "confirmed": False},
    )
    return Event(content=Content(role="model", parts=[asked]), long_running_tool_ids=(id,))


def request_input(id: str = "q2", message: str = "Which city?", schema: dict[str, Any] | None = None) -> Event:
    """An event that asks for an input."""
    return Event(
        content=Content(role="model", parts=[call("adk_request_input", id, message=message)]),
        long_running_tool_ids=(id,),
        requested_input=RequestInput(interrupt_id=id, message=message, response_schema=schema),
    )


def long_running(id: str = "q3") -> Event:
    """An event with a long-running tool call."""
    return Event(content=Content(role="model", parts=[call("ship", id, order=7)]), long_running_tool_ids=(id,))


@pytest.fixture
def bodies() -> SimpleNamespace:
    """The bodies and events above."""
    return SimpleNamespace(
        says=says, asks=asks, confirmation=confirmation, request_input=request_input, long_running=long_running
    )


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """``serve(body_or_agent, **app_fields)`` gives the reference under which the command line finds the app."""
    count = 0

    def put(root: Any, **fields: Any) -> str:
        nonlocal count
        count += 1
        name = f"console_test_agents_{count}"
        module = ModuleType(name)
        agent = root if isinstance(root, Agent) else Agent(name="helper", body=root)
        module.app = App("tests", agent, **fields)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
        return f"{name}:app"

    return put


@pytest.fixture
def hookwork(capfd: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run a command line in this process: ``hookwork("run", agent, "hello")``."""

    def run(*arguments: str) -> Result:
        code = main(arguments)
        captured = capfd.readouterr()
        return Result(code, captured.out, captured.err)

    return run
