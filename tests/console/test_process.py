"""Commands as processes: a blocking tool that does not end, closed standard streams, files that end the program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BLOCKING = """
import atexit, sys, threading
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call


def wait() -> dict:
    \"\"\"Wait for ever.\"\"\"
    threading.Event().wait()
    return {}


atexit.register(lambda: print("exit handlers ran", file=sys.stderr))
root_agent = LlmAgent(name="helper", model=ScriptedModel(lambda request: call("wait")), tools=[wait])
"""

QUIET = """
from hookwork import Agent, Event, text_content


async def body(ctx):
    yield Event(content=text_content("hello"))


root_agent = Agent(name="helper", body=body)
"""


def started(folder: Path, *arguments: str, closed: str = "", typed: str = "") -> subprocess.CompletedProcess[str]:
    """A command line, with standard streams that the shell closes: ``closed`` is e.g. ``<&- >&-``."""
    command = [sys.executable, "-c", "import sys; from hookwork.cli import main; sys.exit(main())", *arguments]
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *command],
        cwd=folder,
        input=typed,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )


@pytest.mark.parametrize(
    ("arguments", "typed", "code"),
    [
        (["run", "agents.py", "go", "--timeout", "200ms"], "", 1),
        (["chat", "agents.py", "--timeout", "200ms"], "go\n", 0),
    ],
    ids=["run", "chat"],
)
def test_con_7_a_blocking_tool_does_not_outlive_its_time_limit(
    tmp_path: Path, arguments: list[str], typed: str, code: int
) -> None:
    (tmp_path / "agents.py").write_text(BLOCKING)
    done = started(tmp_path, *arguments, typed=typed)
    assert done.returncode == code
    told = done.stderr.splitlines()
    assert any("stopped" in line for line in told)
    assert told[-2:] == [
        "a blocking tool is still busy and ends with this process; an async tool could be stopped",
        "exit handlers ran",
    ]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", [["run", "agents.py", "go"], ["run", "agents.py", "go", "--json"], ["plugins"]])
def test_cli_7_closed_standard_streams_are_no_fault(tmp_path: Path, command: list[str], closed: str) -> None:
    (tmp_path / "agents.py").write_text(QUIET)
    done = started(tmp_path, *command, "--config", "none", closed=closed)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (">&-" not in closed.replace("2>&-", ""))


def test_cli_4_an_agent_file_that_ends_the_program_gives_one_line(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\nsys.exit(3)\n")
    done = started(tmp_path, "run", "script.py", "go")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: agent 'script.py': ")
    assert f"{tmp_path / 'script.py'}, line 2" in done.stderr
    assert done.stderr.count("\n") == 1
