"""Agents for the console's tests, served under a module name of their own."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
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


DEADLINE = 15.0

AGENTS = """
from hookwork.agent import Agent
from hookwork.app import App
from hookwork.platform import sleep
from hookwork.records.content import Content, FunctionCall, Part, text_content
from hookwork.records.event import Event, RequestInput


def ask(id, name, **args):
    content = Content(role="model", parts=[Part(function_call=FunctionCall(id=id, name=name, args=args))])
    asked = RequestInput(interrupt_id=id, message="Which city?") if name == "adk_request_input" else None
    return Event(content=content, long_running_tool_ids=(id,), requested_input=asked)


async def body(ctx):
    said = ctx.user_content.text
    if said == "stream":
        for piece in ("It is ", "5."):
            yield Event(content=text_content(piece), partial=True)
        yield Event(content=text_content("It is 5."))
    elif said == "sleep":
        yield Event(content=text_content("sleeping"))
        await sleep(60)
    elif not ctx.view.calls:
        original = {"id": "c1", "name": "delete", "args": {"path": "/tmp/x"}}
        yield ask("q1", "adk_request_confirmation", originalFunctionCall=original, toolConfirmation={"hint": ""})
        yield ask("q2", "adk_request_input", message="Which city?")
    elif not ctx.view.open_calls:
        yield Event(content=text_content(str([dict(call.answer.payload) for call in ctx.view.calls])))


app = App("tests", Agent(name="helper", body=body))
"""


LLM_AGENTS = """
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent, tool
from hookwork import App
from hookwork.platform import sleep
from hookwork_testkit import ScriptedModel, block, call, stream


@tool
async def look(city: str) -> dict:
    \"\"\"Look at the sky.\"\"\"
    await sleep(0.2)
    return {"sky": "clear"}


@tool(require_confirmation=True)
def delete(path: str) -> dict:
    \"\"\"Delete a file.\"\"\"
    return {"deleted": path}


expert = LlmAgent(name="expert", description="Knows.", model=ScriptedModel([stream("I am ", "the expert.")]))
steps = {
    "look": [call("look", city="Tokyo")],
    "move on": [call("transfer_to_agent", agent_name="expert")],
    "clean": [call("delete", path="/tmp/x")],
    "wait": [*stream("waiting"), *block()],
}


def answer(request):
    last = request.contents[-1]
    if last.function_responses:
        return stream("It is ", "done: ", str(dict(last.function_responses[0].response)))
    return steps.get(last.text) or stream("You said ", repr(last.text))


root = LlmAgent(
    name="helper",
    description="Helps.",
    model=ScriptedModel(answer),
    tools=[look, delete],
    sub_agents=[expert],
)
app = App("tests", root, sessions=InMemorySessionService())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where `start` starts: ``agents.py`` has a plain agent, ``llm.py`` one with tools and a scripted model."""
    (tmp_path / "agents.py").write_text(AGENTS)
    (tmp_path / "llm.py").write_text(LLM_AGENTS)
    return tmp_path


class Console:
    """A command whose stdin and stderr (and stdout, unless piped) are one terminal."""

    def __init__(self, folder: Path, *arguments: str, pipe: bool) -> None:
        self.master, slave = os.openpty()
        command = [sys.executable, "-c", "import sys; from hookwork.cli import main; sys.exit(main())", *arguments]
        stdout = subprocess.PIPE if pipe else slave
        environment = {**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
        # A session of its own: the terminal is then its controlling one, and ^C reaches it as from a keyboard.
        self.process = subprocess.Popen(
            ["setsid", "-c", *command], stdin=slave, stdout=stdout, stderr=slave, cwd=folder, env=environment
        )
        os.close(slave)
        self.shown = ""
        self._from = 0

    def expect(self, text: str) -> None:
        """Wait until the terminal shows a text behind the last expected one."""
        end = time.monotonic() + DEADLINE
        while (found := self.shown.find(text, self._from)) < 0:
            if not self._read(end - time.monotonic()):
                raise AssertionError(f"{text!r} was not shown; the terminal shows:\n{self.shown}")
        self._from = found + len(text)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def finish(self) -> tuple[int, str]:
        """(exit code, what stdout got when it was piped)."""
        while self._read(DEADLINE):
            pass
        out = self.process.stdout.read().decode() if self.process.stdout else ""
        return self.process.wait(DEADLINE), out

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        os.close(self.master)

    def _read(self, seconds: float) -> bool:
        if not select.select([self.master], [], [], max(seconds, 0))[0]:
            return False
        try:
            chunk = os.read(self.master, 65536)
        except OSError:  # the other side is closed: Linux says EIO
            return False
        self.shown += chunk.decode(errors="replace")
        return bool(chunk)


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Console]]:
    """``start("run", "agents.py", "hello", pipe=False)``: a command on a terminal of its own, in ``folder``.

    ``pipe``: stdout is a pipe instead of the terminal.
    """
    if shutil.which("setsid") is None:
        pytest.skip("needs the setsid command")
    started: list[Console] = []

    def run(*arguments: str, pipe: bool = True) -> Console:
        started.append(Console(folder, *arguments, pipe=pipe))
        return started[-1]

    yield run
    for console in started:
        console.close()
