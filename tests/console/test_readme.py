"""What the console's README shows is what the commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hookwork_console.chat import command as chat
from hookwork_console.commands import COMMANDS
from hookwork_console.run import command as run
from hookwork_inmemory import InMemorySessionService

README = Path(__file__).resolve().parents[2] / "extensions" / "console" / "README.md"
SESSIONS = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shown(number: int) -> list[tuple[str, list[str]]]:
    """The commands of one console block, each with the lines printed below it."""
    found: list[tuple[str, list[str]]] = []
    for line in SESSIONS.findall(README.read_text())[number].splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def test_the_first_example(hookwork: Any) -> None:
    """The weather agent of this repository, with the model that needs no network."""
    [(command, lines)] = shown(0)
    result = hookwork(*shlex.split(command)[1:], "--config", "none")
    assert result.out.splitlines() == lines[-1:]
    without_time = [re.sub(r"\d\.\d\d s$", "", line) for line in (*result.err.splitlines(), *lines[:-1])]
    assert without_time[: len(lines) - 1] == without_time[len(lines) - 1 :]


def test_the_example_of_a_pause(serve: Any, hookwork: Any, bodies: SimpleNamespace) -> None:
    (first, lines), (second, _) = shown(1)
    store = InMemorySessionService()
    agent = serve(bodies.asks(bodies.confirmation("q1")), sessions=store)

    def words(command: str) -> list[str]:
        given = [agent if word == "cleaner" else word for word in shlex.split(command)[1:]]
        place = given.index("--sessions")
        return given[:place] + given[place + 2 :]  # the app brings its own store

    paused = hookwork(*words(first))
    assert paused.code == 2
    assert paused.err.splitlines()[:3] == lines[:3]
    assert hookwork(*words(second)).code == 0


def test_every_option_and_command_is_in_the_readme() -> None:
    text = README.read_text()
    for parameter in (*run.params, *chat.params):
        if parameter.param_type_name == "option" and parameter.name != "help":
            assert parameter.opts[0] in text, parameter.name
    for name in COMMANDS:
        assert f"`/{name}" in text, name
