"""`hookwork chat` through pipes: the plain form of the console (servers CON-1 … CON-7)."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hookwork.context import InvocationContext
from hookwork.records.codec import load
from hookwork.records.content import FileData, Part, text_content
from hookwork.records.event import Event
from hookwork_inmemory import InMemorySessionService

Say = Callable[..., Any]


@contextmanager
def stdin_of(text: str) -> Iterator[None]:
    """The process's own stdin gives this text and ends."""
    read, write = os.pipe()
    os.write(write, text.encode())
    os.close(write)
    kept = os.dup(0)
    os.dup2(read, 0)
    os.close(read)
    try:
        yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@pytest.fixture
def say(hookwork: Any) -> Say:
    """``say(agent, "line", "line", options=[…])`` types lines into a chat."""

    def run(agent: str, *lines: str, options: tuple[str, ...] = (), end: str = "\n") -> Any:
        with stdin_of("".join(f"{line}{end}" for line in lines)):
            return hookwork("chat", agent, *options)

    return run


async def echo(ctx: InvocationContext) -> AsyncIterator[Event]:
    said = ctx.user_content.text if ctx.user_content is not None else ""
    if said == "fail":
        raise LookupError("the map is gone")
    if said == "save":
        await ctx.artifacts.save("note.txt", Part(text="kept"))
    if said == "link":
        await ctx.artifacts.save("far.pdf", Part(file_data=FileData(file_uri="https://example.com/far.pdf")))
    yield Event(content=text_content(f"[{said}]"))


def test_con_1_plain_form(serve: Any, say: Say) -> None:
    result = say(serve(echo), "hello", "again")
    assert result.code == 0
    assert result.out == (
        "\nUser -> \nAgent -> [hello]\n\nUser -> \nAgent -> [again]\n\nUser -> \nEOF detected, exiting...\n"
    )


def test_con_2_line_ends_are_cut_blanks_kept_and_empty_lines_ignored(serve: Any, say: Say) -> None:
    result = say(serve(echo), " hello ", "", "   ", end="\r\n")
    assert [line for line in result.out.splitlines() if "[" in line] == ["Agent -> [ hello ]"]


def test_con_4_a_failing_turn_is_told_and_the_chat_goes_on(serve: Any, say: Say) -> None:
    result = say(serve(echo), "fail", "hello")
    assert result.code == 0
    assert "AGENT_ERROR: the map is gone" in result.err
    assert "[hello]" in result.out


def test_con_4_a_turn_without_text_shows_its_output(serve: Any, say: Say) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event(output={"n": 1})

    assert 'Agent -> {"n": 1}\n' in say(serve(body), "go").out


def test_con_5_questions_are_asked_in_turn_and_answered_together(serve: Any, say: Say, bodies: SimpleNamespace) -> None:
    agent = serve(bodies.asks(bodies.confirmation("q1"), bodies.request_input("q2", "Which city?")))
    result = say(agent, "go", "yes", "Tokyo", "/quit")
    assert "Agent -> Confirm delete?" in result.out
    assert "  Type 'yes' to confirm, anything else to reject.\n\nUser -> " in result.out
    assert "Agent -> Which city?\n\nUser -> " in result.out
    assert "q1={'confirmed': True}; q2={'payload': 'Tokyo'}" in result.out


def test_con_6_an_empty_line_leaves_a_long_running_call_open(serve: Any, say: Say, bodies: SimpleNamespace) -> None:
    agent = serve(bodies.asks(bodies.long_running("q3")), sessions=InMemorySessionService())
    result = say(agent, "go", "", "/quit", options=("--session", "s1"))
    assert "1 question(s) open" in result.err
    later = say(agent, '{"shipped": true}', options=("--session", "s1"))
    assert "waiting for response (kind: ship)" in later.out
    assert "q3={'shipped': True}" in later.out


def test_open_questions_can_be_answered_later_in_the_chat(serve: Any, say: Say, bodies: SimpleNamespace) -> None:
    result = say(serve(bodies.asks(bodies.long_running("q3"))), "go", "", "/open", "done", "/open", "/quit")
    assert "q3={'result': 'done'}" in result.out
    assert "nothing is open" in result.err


def test_one_session_for_the_whole_chat_and_state_once(serve: Any, say: Say) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=text_content(f"{ctx.session_id} {ctx.state['n']} {len(ctx.session.events)}"))

    result = say(serve(body), "one", "two", options=("--session", "s1", "--state", "n=3"))
    assert [line.removeprefix("Agent -> ") for line in result.out.splitlines() if "s1" in line] == ["s1 3 1", "s1 3 4"]


def test_commands_show_state_events_and_artifacts(serve: Any, say: Say) -> None:
    result = say(
        serve(echo),
        "save",
        "/state",
        "/state n",
        "/events 5",
        "/artifacts",
        "/artifacts note.txt",
        options=("--state", "n=3"),
    )
    assert '{\n  "n": 3\n}\n' in result.out
    assert "User -> 3\n" in result.out
    assert "saved note.txt" in result.out
    assert "note.txt  (version 0)" in result.out or "note.txt  (version 1)" in result.out
    assert "User -> kept\n" in result.out


def test_bey_7_a_file_elsewhere_is_shown_by_its_uri(serve: Any, say: Say) -> None:
    result = say(serve(echo), "link", "/artifacts far.pdf")
    assert "a file elsewhere: https://example.com/far.pdf\n" in result.out


def test_commands_before_the_first_message(serve: Any, say: Say) -> None:
    result = say(serve(echo), "/state", "/events", "/artifacts", "/open", "/undo", "/session")
    assert "{}\n" in result.out
    for text in ("no events yet", "no artifacts yet", "nothing is open", "there is nothing to undo"):
        assert text in result.err
    assert "(starts with your first message)" in result.out


def test_an_unknown_command_is_no_message(serve: Any, say: Say) -> None:
    result = say(serve(echo), "/stat", "//stat", "/artifacts none.txt", "/quit", "unheard")
    assert "there is no command /stat; did you mean /state?" in result.err
    assert "[/stat]" in result.out
    assert "unheard" not in result.out
    assert result.code == 0


def test_help_lists_every_command(serve: Any, say: Say) -> None:
    shown = say(serve(echo), "/help").err
    for name in ("/help", "/state [KEY]", "/events [N]", "/artifacts [NAME]", "/open", "/undo", "/quit"):
        assert name in shown


def test_rew_1_undo_takes_the_last_turn_back(serve: Any, say: Say) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        seen = [event.text for event in ctx.session.live_events if event.author == "user"]
        yield Event(content=text_content(repr(seen)))

    result = say(serve(body), "one", "two", "/undo", "three")
    assert "['one', 'three']" in result.out


@pytest.mark.parametrize(("name", "problem"), [("", "is a folder"), ("no/such/file.json", "there is no folder")])
def test_con_7_a_file_that_cannot_be_written_is_refused_before_anything_is_said(
    serve: Any, hookwork: Any, tmp_path: Path, name: str, problem: str
) -> None:
    replay = tmp_path / "replay.json"
    replay.write_text('{"queries": ["hello"]}')
    result = hookwork("chat", serve(echo), "--replay", str(replay), "--save-session", str(tmp_path / name))
    assert (result.code, result.out) == (1, "")
    assert f"--save-session {tmp_path / name}" in result.err
    assert problem in result.err


def test_con_7_a_replay_file_is_said_and_the_session_saved(serve: Any, hookwork: Any, tmp_path: Path) -> None:
    replay, saved = tmp_path / "replay.json", tmp_path / "session.json"
    replay.write_text(json.dumps({"state": {"n": 3}, "queries": ["one", "two"]}))
    result = hookwork("chat", serve(echo), "--replay", str(replay), "--save-session", str(saved), "--user", "ada")
    assert result.code == 0
    assert "User -> one\n" in result.out
    assert "[two]" in result.out
    document = json.loads(saved.read_text())
    assert (document["appName"], document["userId"], document["state"]) == ("tests", "ada", {"n": 3})
    texts = [load(Event, event).text for event in document["events"]]
    assert [text for text in texts if text] == ["one", "[one]", "two", "[two]"]


@pytest.mark.parametrize("content", ["{", '{"queries": "one"}', "[]", '{"queries": [], "state": 3}'])
def test_a_bad_replay_file_is_refused(content: str, serve: Any, hookwork: Any, tmp_path: Path) -> None:
    (tmp_path / "replay.json").write_text(content)
    result = hookwork("chat", serve(echo), "--replay", str(tmp_path / "replay.json"))
    assert (result.code, result.out) == (1, "")
    assert "--replay" in result.err
