"""`hookwork run` on a real pseudo-terminal: it asks, answers and goes on in one command (servers CON-5, CON-7)."""

from __future__ import annotations

from typing import Any

import pytest


def test_con_5_on_a_terminal_open_calls_are_asked_in_place(start: Any) -> None:
    console = start("run", "agents.py", "clean up")
    console.expect("Confirm delete?")
    console.expect('"path": "/tmp/x"')
    console.expect("User -> ")
    console.type("yes\n")
    console.expect("Which city?")
    console.expect("User -> ")
    console.type("Tokyo\n")
    assert console.finish() == (0, "[{'confirmed': True}, {'payload': 'Tokyo'}]\n")


def test_con_5_lines_typed_ahead_answer_in_turn(start: Any) -> None:
    console = start("run", "agents.py", "clean up")
    console.type("no\nKyoto\n")
    assert console.finish() == (0, "[{'confirmed': False}, {'payload': 'Kyoto'}]\n")


def test_con_5_end_of_input_leaves_the_run_paused(start: Any) -> None:
    console = start("run", "agents.py", "clean up")
    console.expect("User -> ")
    console.type("\x04")
    code, out = console.finish()
    assert (code, out) == (2, "")
    assert "paused: session" in console.shown


def test_con_7_json_never_asks(start: Any) -> None:
    code, out = start("run", "agents.py", "--json", "clean up").finish()
    assert code == 2
    assert '"kind": "paused"' in out.splitlines()[-1]


def test_con_3_a_terminal_gets_the_streamed_text_once(start: Any) -> None:
    console = start("run", "agents.py", "stream", pipe=False)
    assert console.finish()[0] == 0
    assert console.shown.replace("\r\n", "\n") == "It is 5.\n"


@pytest.mark.parametrize("during", ["the run", "the question"])
def test_cli_6_ctrl_c_at_the_keyboard_exits_130(during: str, start: Any) -> None:
    console = start("run", "agents.py", "sleep" if during == "the run" else "clean up", pipe=False)
    console.expect("sleeping" if during == "the run" else "User -> ")
    console.type("\x03")
    assert console.finish()[0] == 130
    console.expect("interrupted")
