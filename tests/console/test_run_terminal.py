"""`hookwork run` on a real pseudo-terminal: it asks, answers and goes on in one command (servers CON-5, CON-7)."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pty = pytest.importorskip("pty", reason="pseudo-terminals are a Unix thing")

pytestmark = pytest.mark.skipif(shutil.which("setsid") is None, reason="needs the setsid command")

DEADLINE = 30.0

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


class Console:
    """A command whose stdin and stderr (and stdout, unless piped) are one terminal."""

    def __init__(self, folder: Path, *arguments: str, pipe: bool) -> None:
        self.master, slave = pty.openpty()
        command = [sys.executable, "-c", "import sys; from hookwork.cli import main; sys.exit(main())", *arguments]
        stdout = subprocess.PIPE if pipe else slave
        # A session of its own: the terminal is then its controlling one, and ^C reaches it as from a keyboard.
        self.process = subprocess.Popen(
            ["setsid", "-c", *command], stdin=slave, stdout=stdout, stderr=slave, cwd=folder
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
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agents.py").write_text(AGENTS)
    return tmp_path


@pytest.fixture
def consoles() -> Iterator[list[Console]]:
    started: list[Console] = []
    yield started
    for console in started:
        console.close()


def start(consoles: list[Console], folder: Path, *arguments: str, pipe: bool = True) -> Console:
    console = Console(folder, "run", "agents.py", *arguments, pipe=pipe)
    consoles.append(console)
    return console


def test_con_5_on_a_terminal_open_calls_are_asked_in_place(consoles: list[Console], folder: Path) -> None:
    console = start(consoles, folder, "clean up")
    console.expect("Confirm delete?")
    console.expect('"path": "/tmp/x"')
    console.expect("User -> ")
    console.type("yes\n")
    console.expect("Which city?")
    console.expect("User -> ")
    console.type("Tokyo\n")
    assert console.finish() == (0, "[{'confirmed': True}, {'payload': 'Tokyo'}]\n")


def test_con_5_lines_typed_ahead_answer_in_turn(consoles: list[Console], folder: Path) -> None:
    console = start(consoles, folder, "clean up")
    console.type("no\nKyoto\n")
    assert console.finish() == (0, "[{'confirmed': False}, {'payload': 'Kyoto'}]\n")


def test_con_5_end_of_input_leaves_the_run_paused(consoles: list[Console], folder: Path) -> None:
    console = start(consoles, folder, "clean up")
    console.expect("User -> ")
    console.type("\x04")
    code, out = console.finish()
    assert (code, out) == (2, "")
    assert "paused: session" in console.shown


def test_con_7_json_never_asks(consoles: list[Console], folder: Path) -> None:
    code, out = start(consoles, folder, "--json", "clean up").finish()
    assert code == 2
    assert '"kind": "paused"' in out.splitlines()[-1]


def test_con_3_a_terminal_gets_the_streamed_text_once(consoles: list[Console], folder: Path) -> None:
    console = start(consoles, folder, "stream", pipe=False)
    assert console.finish()[0] == 0
    assert console.shown.replace("\r\n", "\n") == "It is 5.\n"


@pytest.mark.parametrize("during", ["the run", "the question"])
def test_cli_6_ctrl_c_at_the_keyboard_exits_130(during: str, consoles: list[Console], folder: Path) -> None:
    console = start(consoles, folder, "sleep" if during == "the run" else "clean up", pipe=False)
    console.expect("sleeping" if during == "the run" else "User -> ")
    console.type("\x03")
    assert console.finish()[0] == 130
    console.expect("interrupted")
