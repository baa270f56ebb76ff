"""The small parts of the console: durations, answers, outcome lines, the transcript, the keyboard."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork.credentials import REQUEST_CREDENTIAL, auth_config, read_answer
from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part, text_content
from hookwork.records.event import Event
from hookwork.records.history import Call
from hookwork.records.session import EventLog
from hookwork.run import RunOutcome
from hookwork_console.answers import answer_from_line, answers_content, question
from hookwork_console.durations import parse_duration
from hookwork_console.keyboard import Keyboard
from hookwork_console.outcomes import exit_code, final_text
from hookwork_console.terminal import printable
from hookwork_console.transcript import Transcript
from hookwork_testkit import call


def open_call(event: Event) -> Call:
    return next(iter(EventLog([event]).index().open_calls().values()))


# --- durations (LCH-6) ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("300ms", 0.3), ("10s", 10), ("2m", 120), ("1h30m", 5400), ("30", 30), ("1.5", 1.5), ("1m0.5s", 60.5)],
)
def test_lch_6_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "10 s x", "-3", "1d", "0", "0s", "s", "10s!"])
def test_lch_6_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|no time"):
        parse_duration(text)


# --- questions and answers (CON-5) -----------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["y", "yes", "YES", " true ", "Confirm"])
def test_con_5_words_that_confirm(line: str, bodies: Any) -> None:
    assert answer_from_line(open_call(bodies.confirmation()), line) == {"confirmed": True}


@given(st.text().filter(lambda text: text.strip().lower() not in {"y", "yes", "true", "confirm"}))
def test_con_5_anything_else_rejects(line: str) -> None:
    asked = call("adk_request_confirmation", "q1", toolConfirmation={"hint": "", "confirmed": False})
    event = Event(content=Content(role="model", parts=[asked]), long_running_tool_ids=("q1",))
    answer = answer_from_line(open_call(event), line)
    assert answer is not None
    assert answer.get("confirmed") is not True or line.strip().startswith("{")


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ('{"city": "Tokyo"}', {"city": "Tokyo"}),
        ("Tokyo", {"payload": "Tokyo"}),
        ("5", {"payload": 5}),
        ("[1]", {"payload": [1]}),
        ("", {"payload": ""}),
    ],
)
def test_con_5_inputs(line: str, answer: dict[str, Any], bodies: Any) -> None:
    assert answer_from_line(open_call(bodies.request_input()), line) == answer


@pytest.mark.parametrize(
    ("line", "answer"), [('{"ok": true}', {"ok": True}), ("done", {"result": "done"}), ("", None), ("  ", None)]
)
def test_con_6_a_long_running_tool_may_stay_open(line: str, answer: Any, bodies: Any) -> None:
    assert answer_from_line(open_call(bodies.long_running()), line) == answer


def consent(kind: str = "oauth2") -> Event:
    config = auth_config("cal", "https://login.example/?x=1", "n-1", {"exchangedAuthCredential": {"authType": kind}})
    asked = FunctionCall(id="r1", name=REQUEST_CREDENTIAL, args={"functionCallId": "c1", "authConfig": config})
    return Event(content=Content(role="model", parts=[Part(function_call=asked)]), long_running_tool_ids=("r1",))


@pytest.mark.parametrize(
    ("kind", "line", "answer"),
    [
        ("oauth2", "abc", {"authType": "oauth2", "oauth2": {"authCode": "abc"}}),
        (
            "oauth2",
            "https://app.example/cb?code=abc&state=n-1",
            {
                "authType": "oauth2",
                "oauth2": {
                    "authResponseUri": "https://app.example/cb?code=abc&state=n-1",
                    "authCode": "abc",
                    "state": "n-1",
                },
            },
        ),
        ("oauth2", '{"authType": "http"}', {"authType": "http"}),
        ("apiKey", "k-1", {"response": "k-1"}),
        ("oauth2", "  ", None),
    ],
    ids=["code", "address", "json", "key", "nothing"],
)
def test_auth_32_a_consent_is_answered_with_a_code_an_address_or_a_key(kind: str, line: str, answer: Any) -> None:
    asked = open_call(consent(kind))
    assert answer_from_line(asked, line) == answer
    if answer is not None:
        read = read_answer(asked, answer)
        assert read is not None
        assert read[0] == "cal"


def test_auth_30_a_consent_says_where_to_go() -> None:
    first, second = question(open_call(consent()))
    assert "https://login.example/?x=1" in first
    assert "nothing of it is stored" in second


def test_con_5_questions(bodies: Any) -> None:
    assert question(open_call(bodies.confirmation(hint="Really?"))) == [
        "Really?",
        '  Arguments: {\n    "path": "/tmp/x"\n  }',
        "  Type 'yes' to confirm, anything else to reject.",
    ]
    assert question(open_call(bodies.request_input(message="Where?", schema={"type": "string"}))) == [
        "Where?",
        '  Expected response schema: {"type": "string"}',
    ]
    assert question(open_call(bodies.long_running())) == ["waiting for response (kind: ship)", '  Args: {"order": 7}']


def test_con_5_one_content_carries_all_answers(bodies: Any) -> None:
    first, second = open_call(bodies.confirmation("q1")), open_call(bodies.long_running("q3"))
    content = answers_content({"q1": (first, {"confirmed": True}), "q3": (second, {"n": 1})}, "and hurry")
    assert content.role == "user"
    assert [(r.id, r.name, r.response) for r in content.function_responses] == [
        ("q1", "adk_request_confirmation", {"confirmed": True}),
        ("q3", "ship", {"n": 1}),
    ]
    assert content.text == "and hurry"


# --- outcome ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "code"), [("completed", 0), ("ended", 0), ("paused", 2), ("failed", 1), ("limit", 1), ("closed", 1)]
)
def test_cli_6_exit_codes(kind: str, code: int) -> None:
    assert exit_code(RunOutcome(kind)) == code
    assert exit_code(None) == 1


def test_con_4_text_wins_over_output() -> None:
    assert final_text(RunOutcome("completed", final_event=Event(content=text_content("a")), output={"n": 1})) == "a"
    assert final_text(RunOutcome("completed", output=0)) == "0"
    assert final_text(RunOutcome("completed")) is None


# --- transcript ------------------------------------------------------------------------------------------------------


class Screen:
    """Stands where the terminal stands and keeps what was written, in order."""

    def __init__(self) -> None:
        self.out = ""
        self.err: list[str] = []

    def result(self, text: str, *, newline: bool = True) -> None:
        self.out += text + ("\n" if newline else "")

    def note(self, text: str = "", *, style: str | None = None) -> None:
        self.err.append(text)


def told(*events: Event, live: bool) -> Screen:
    screen = Screen()
    transcript = Transcript(screen, "root", live=live)  # type: ignore[arg-type]
    for event in events:
        transcript.show(event.replace(author=event.author or "root"))
    transcript.finish(RunOutcome("completed"))
    return screen


def partial(text: str, **fields: Any) -> Event:
    return Event(content=text_content(text), partial=True, **fields)


def test_case_stream_3_a_streamed_turn_shows_every_character_once() -> None:
    call_event = Event(content=Content(role="model", parts=[Part(text="Let me look."), call("f", "c1")]))
    response = FunctionResponse(id="c1", name="f", response={"n": 5})
    screen = told(
        partial("Let me "),
        partial("look."),
        call_event,
        Event(content=Content(role="user", parts=[Part(function_response=response)])),
        Event(content=Content(role="model", parts=[Part(text="hm", thought=True)]), partial=True),
        partial("It is "),
        partial("5."),
        Event(content=Content(role="model", parts=[Part(text="hm", thought=True), Part(text="It is 5.")])),
        live=True,
    )
    assert screen.out == "Let me look.\nIt is 5.\n"


def test_core_hnd_6_a_final_event_adds_only_what_its_partials_did_not_show() -> None:
    assert told(partial("It is "), Event(content=text_content("It is 5.")), live=True).out == "It is 5.\n"


def test_core_hnd_6_texts_are_kept_apart_by_author() -> None:
    a: dict[str, Any] = {"author": "a"}
    b: dict[str, Any] = {"author": "b"}
    screen = told(
        partial("one ", **a),
        partial("uno ", **b),
        partial("two", **a),
        Event(content=text_content("one two"), **a),
        Event(content=text_content("uno dos"), **b),
        live=True,
    )
    assert screen.out.replace("\n", "") == "one uno twodos"
    assert screen.err == ["[a]", "[b]", "[a]", "[b]"]


def test_without_a_terminal_only_the_last_final_text_is_left_for_stdout() -> None:
    screen = told(Event(content=text_content("first")), Event(content=text_content("last")), live=False)
    assert (screen.out, screen.err) == ("", ["first"])


def test_what_a_model_says_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[2Jb\r\nc\td\x9b") == "a\\x1b[2Jb\nc\td\\x9b"


# --- keyboard --------------------------------------------------------------------------------------------------------


async def test_con_2_lines_lose_their_end_and_end_of_input_is_none() -> None:
    read, write = os.pipe()
    keyboard = Keyboard(read)
    try:
        os.write(write, "one \r\ntwo\n\nhé".encode())
        os.close(write)
        assert [await keyboard.line() for _ in range(5)] == ["one ", "two", "", "hé", None]
    finally:
        os.close(read)
