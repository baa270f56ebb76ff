"""`hookwork chat` on a real pseudo-terminal, with an LLM agent, its tools and a scripted model."""

from __future__ import annotations

import re
from typing import Any

ENTER, CTRL_C, CTRL_D, ALT_ENTER, UP = "\r", "\x03", "\x04", "\x1b\r", "\x1b[A"


def chat(start: Any, *options: str) -> Any:
    console = start("chat", "llm.py", *options, pipe=False)
    console.expect("helper: Helps.")
    console.expect("User ->")
    return console


def test_con_3_a_turn_streams_and_shows_calls_with_their_time(start: Any) -> None:
    console = chat(start)
    console.type("look" + ENTER)
    console.expect('look(city="Tokyo")')
    console.expect('look → {"sky": "clear"}')
    console.expect("It is done: {'sky': 'clear'}")
    took = re.search(r"clear\"}\s+(\d\.\d\d) s", console.shown)
    assert took is not None
    assert float(took[1]) >= 0.2  # the tool sleeps that long
    console.expect("User ->")
    console.type("/quit" + ENTER)
    assert console.finish()[0] == 0
    assert console.shown.count("It is done") == 1


def test_agents_and_transfers_are_visible(start: Any) -> None:
    console = chat(start)
    console.type("move on" + ENTER)
    console.expect("→ expert")
    console.expect("[expert]")
    console.expect("I am the expert.")
    console.expect("User ->")
    console.type(CTRL_D)
    console.expect("EOF detected, exiting...")
    assert console.finish()[0] == 0


def test_con_5_an_approval_is_asked_in_place(start: Any) -> None:
    console = chat(start)
    console.type("clean" + ENTER)
    console.expect('"path": "/tmp/x"')
    console.expect("Type 'yes' to confirm")
    console.expect("User ->")
    console.type("yes" + ENTER)
    console.expect("It is done: {'deleted': '/tmp/x'}")
    console.expect("User ->")
    console.type("/quit" + ENTER)
    assert console.finish()[0] == 0


def test_con_2_ctrl_c_stops_the_turn_and_keeps_the_session(start: Any) -> None:
    console = chat(start)
    console.type("wait" + ENTER)
    console.expect("waiting")
    console.type(CTRL_C)
    console.expect("stopped (interrupted); the session is kept")
    console.expect("User ->")
    console.type("still there?" + ENTER)
    console.expect("You said 'still there?'")
    console.expect("User ->")
    console.type("/events" + ENTER)
    console.expect("wait")
    console.expect("still there?")
    console.expect("User ->")
    console.type(CTRL_C)
    assert console.finish()[0] == 130


def test_messages_of_several_lines(start: Any) -> None:
    console = chat(start)
    console.type("one\\" + ENTER + "two" + ALT_ENTER + "three" + ENTER)
    console.expect("You said 'one\\ntwo\\nthree'")
    console.expect("User ->")
    console.type("/quit" + ENTER)
    assert console.finish()[0] == 0


def test_history_brings_an_earlier_message_back(start: Any) -> None:
    console = chat(start)
    console.type("first" + ENTER)
    console.expect("You said 'first'")
    console.expect("User ->")
    console.type(UP + " again" + ENTER)
    console.expect("You said 'first again'")
    console.expect("User ->")
    console.type("/quit" + ENTER)
    assert console.finish()[0] == 0


def test_cli_6_ctrl_c_at_a_question_leaves_with_130(start: Any) -> None:
    console = chat(start)
    console.type("clean" + ENTER)
    console.expect("Type 'yes' to confirm")
    console.expect("User ->")
    console.type(CTRL_C)
    assert console.finish()[0] == 130
