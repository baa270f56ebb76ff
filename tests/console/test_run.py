"""`hookwork run` without a terminal (servers CON-4, CON-7, CLI-5, CLI-6, CLI-7)."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from hookwork.context import InvocationContext
from hookwork.platform import sleep
from hookwork.records.codec import load
from hookwork.records.content import Content, text_content
from hookwork.records.event import Event, EventActions
from hookwork_inmemory import InMemorySessionService
from hookwork_testkit import call

Hookwork = Callable[..., Any]


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_con_7_the_final_text_alone_is_on_stdout(serve: Any, hookwork: Hookwork, bodies: SimpleNamespace) -> None:
    result = hookwork("run", serve(bodies.says("I will look.", "It is 5.")), "What time is it?")
    assert (result.code, result.out) == (0, "It is 5.\n")
    assert "I will look." in result.err


def test_con_7_calls_are_told_on_stderr_with_their_time(serve: Any, hookwork: Hookwork) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        from hookwork.records.content import FunctionResponse, Part

        yield Event(content=Content(role="model", parts=[call("look", "c1", city="Tokyo")]))
        answer = FunctionResponse(id="c1", name="look", response={"sky": "clear"})
        yield Event(content=Content(role="user", parts=[Part(function_response=answer)]))
        yield Event(content=text_content("Clear."))

    result = hookwork("run", serve(body), "Weather?")
    assert result.out == "Clear.\n"
    assert 'look(city="Tokyo")' in result.err
    assert 'look → {"sky": "clear"}  0.' in result.err


@pytest.mark.parametrize(
    ("output", "shown"), [("plain", "plain\n"), ({"n": 1, "é": [True]}, '{"n": 1, "é": [true]}\n')]
)
def test_con_4_without_text_the_output_is_printed(output: Any, shown: str, serve: Any, hookwork: Hookwork) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event(output=output)

    result = hookwork("run", serve(body), "go")
    assert (result.code, result.out) == (0, shown)


def test_con_7_json_is_one_event_a_line_and_the_outcome_last(
    serve: Any, hookwork: Hookwork, bodies: SimpleNamespace
) -> None:
    result = hookwork("run", "--json", "--session", "s1", "--user", "u1", serve(bodies.says("one", "two")), "go")
    *events, last = lines(result.out)
    assert (result.code, result.err) == (0, "")
    # A body that ran to its end leaves one content-less event that says so (activations ACT-14).
    assert [load(Event, event).text for event in events] == ["one", "two", ""]
    assert {"id", "invocationId", "author", "timestamp", "actions", "content"} <= set(events[0])
    outcome = last["outcome"]
    assert outcome["kind"] == "completed"
    assert outcome["finalEvent"] == events[1]
    assert outcome["invocationId"] == events[0]["invocationId"]
    assert (outcome["openCalls"], outcome["openDelegations"]) == ([], [])
    assert (outcome["sessionId"], outcome["userId"]) == ("s1", "u1")
    assert outcome["usage"]["total"] == {"calls": 0}


def test_con_7_json_ends_with_the_outcome_after_a_failure_too(serve: Any, hookwork: Hookwork) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=text_content("so far"))
        raise LookupError("the map is gone")

    result = hookwork("run", "--json", serve(body), "go")
    first, last = lines(result.out)
    assert result.code == 1
    assert first["content"]["parts"] == [{"text": "so far"}]
    assert last["outcome"]["kind"] == "failed"
    assert last["outcome"]["error"] == {"type": "LookupError", "message": "the map is gone"}
    assert result.err.splitlines()[-1].startswith("error: LookupError: the map is gone")


def test_con_7_json_has_an_outcome_even_when_no_run_began(hookwork: Hookwork) -> None:
    result = hookwork("run", "--json", "no_such_agent_anywhere", "go")
    [last] = lines(result.out)
    assert result.code == 1
    assert last["outcome"]["kind"] == "failed"
    assert "no_such_agent_anywhere" in last["outcome"]["error"]["message"]


def test_cli_6_a_failed_run_is_one_line_and_exit_1(serve: Any, hookwork: Hookwork) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=text_content("half an"))
        raise LookupError("the map\nis gone")

    result = hookwork("run", serve(body), "go")
    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines() == ["half an", "error: LookupError: the map is gone (--debug shows where)"]
    assert "Traceback" in hookwork("run", "--debug", serve(body), "go").err


def test_cli_6_an_answer_that_is_an_error_exits_1(serve: Any, hookwork: Hookwork) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event(error_code="SAFETY", error_message="blocked")

    result = hookwork("run", serve(body), "go")
    assert (result.code, result.out) == (1, "")
    assert "SAFETY: blocked" in result.err


def test_cli_6_an_ended_run_exits_0(serve: Any, hookwork: Hookwork) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=text_content("enough"))
        ctx.end_invocation("done")

    assert hookwork("run", serve(body), "go")[:2] == (0, "enough\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["x"], "no message is given"),
        ([], "no message is given"),
        (["x", "hi", "--state", "novalue"], "key=value"),
        (["x", "hi", "--timeout", "soon"], "no duration"),
        (["x", "hi", "--answer", "yes"], "ID=JSON"),
        (["x", "--answer", "q1=yes"], "--session"),
        (["x", "hi", "--nonsense"], "No such option"),
    ],
)
def test_cli_6_wrong_usage_exits_64(arguments: list[str], complaint: str, hookwork: Hookwork) -> None:
    result = hookwork("run", *arguments)
    assert (result.code, result.out) == (64, "")
    assert complaint in result.err


def test_cli_4_the_agent_defaults_to_the_settings(
    serve: Any, hookwork: Hookwork, bodies: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKWORK_APP", serve(bodies.says("default")))
    assert hookwork("run", "hello")[:2] == (0, "default\n")


def test_cli_5_state_values_are_json_or_text(serve: Any, hookwork: Hookwork) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=text_content(repr([ctx.state["n"], ctx.state["name"], dict(ctx.state["d"])])))

    result = hookwork("run", serve(body), "go", "--state", "n=3", "--state", "name=Ada=1", "--state", 'd={"x": null}')
    assert result.out == "[3, 'Ada=1', {'x': None}]\n"


def test_cli_5_user_session_and_message_reach_the_run(serve: Any, hookwork: Hookwork) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        said = ctx.user_content.text if ctx.user_content is not None else ""
        yield Event(content=text_content(f"{ctx.app_name} {ctx.user_id} {ctx.session_id} {said}"))

    agent = serve(body)
    assert hookwork("run", agent, "hi", "--user", "ada", "--session", "s9").out == "tests ada s9 hi\n"
    assert hookwork("run", agent, "hi").out.startswith("tests console_user ")


def test_what_nobody_configured_is_in_memory(serve: Any, hookwork: Hookwork) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=text_content(f"{await ctx.artifacts.list()} {await ctx.search_memory('x')}"))

    assert hookwork("run", serve(body), "go").out == "[] []\n"


def test_con_7_a_paused_run_exits_2_and_says_what_is_open(
    serve: Any, hookwork: Hookwork, bodies: SimpleNamespace
) -> None:
    agent = serve(bodies.asks(bodies.confirmation("q1")), sessions=InMemorySessionService())
    result = hookwork("run", agent, "go", "--session", "s 1", "--user", "ada")
    assert (result.code, result.out) == (2, "")
    assert "paused: session s 1 waits for 1 answer(s)" in result.err
    assert "Confirm delete?" in result.err
    assert '"path": "/tmp/x"' in result.err
    assert f"hookwork run {agent} --user ada --session 's 1' --answer q1=yes" in result.err


def test_con_7_a_node_that_talks_waits_for_a_message(serve: Any, hookwork: Hookwork) -> None:
    """Workflow WB-6: there is no call to answer; what is said next goes to the node."""
    from hookwork_llm import LlmAgent
    from hookwork_testkit import ScriptedModel
    from hookwork_workflow import START, Workflow

    model = ScriptedModel(["Which day?", call("finish_task", result="Monday")])
    flow = Workflow("trip", START >> LlmAgent(name="book", mode="task", model=model))
    agent = serve(flow.as_agent(), sessions=InMemorySessionService())
    result = hookwork("run", agent, "go", "--session", "s1")
    assert (result.code, result.out) == (2, "")  # stdout is for what a run has come to
    assert "Which day?" in result.err
    assert "paused: session s1 waits for 1 answer(s)" in result.err
    assert "task book waits for a message" in result.err
    assert f"hookwork run {agent} --session s1 'your message'" in result.err
    assert hookwork("run", agent, "Monday", "--session", "s1").code == 0


def test_con_7_a_paused_run_in_memory_says_that_it_is_gone(
    serve: Any, hookwork: Hookwork, bodies: SimpleNamespace
) -> None:
    result = hookwork("run", serve(bodies.asks(bodies.confirmation())), "go")
    assert result.code == 2
    assert "in memory and is gone" in result.err
    assert "--answer" not in result.err


def test_con_7_json_lists_the_open_calls(serve: Any, hookwork: Hookwork, bodies: SimpleNamespace) -> None:
    schema = {"type": "string"}
    result = hookwork("run", "--json", serve(bodies.asks(bodies.request_input("q2", "Where?", schema))), "go")
    outcome = lines(result.out)[-1]["outcome"]
    assert (result.code, outcome["kind"]) == (2, "paused")
    [call] = outcome["openCalls"]
    assert (call["id"], call["name"], call["kind"], call["message"]) == ("q2", "adk_request_input", "input", "Where?")
    assert call["responseSchema"] == schema


def test_con_7_answers_go_on_with_the_session(serve: Any, hookwork: Hookwork, bodies: SimpleNamespace) -> None:
    questions = [bodies.confirmation("q1"), bodies.request_input("q2"), bodies.long_running("q3")]
    agent = serve(bodies.asks(*questions), sessions=InMemorySessionService())
    assert hookwork("run", agent, "go", "--session", "s1").code == 2
    answers = ["--answer", "q1=yes", "--answer", "q2=Tokyo", "--answer", 'q3={"shipped": 7}']
    result = hookwork("run", agent, "--session", "s1", *answers)
    assert result.code == 0
    assert result.out == "q1={'confirmed': True}; q2={'payload': 'Tokyo'}; q3={'shipped': 7}\n"


def test_con_7_an_answer_nobody_waits_for_is_refused(serve: Any, hookwork: Hookwork, bodies: SimpleNamespace) -> None:
    agent = serve(bodies.asks(bodies.confirmation("q1")), sessions=InMemorySessionService())
    hookwork("run", agent, "go", "--session", "s1")
    result = hookwork("run", agent, "--session", "s1", "--answer", "q9=yes")
    assert result.code == 1
    assert "waits for no call 'q9'; it waits for: q1" in result.err


def test_answers_need_a_store(serve: Any, hookwork: Hookwork, bodies: SimpleNamespace) -> None:
    result = hookwork("run", serve(bodies.says("x")), "--session", "s1", "--answer", "q1=yes")
    assert result.code == 1
    assert "--sessions URL" in result.err


def test_a_stored_session_is_named_so_that_it_can_go_on(
    serve: Any, hookwork: Hookwork, bodies: SimpleNamespace
) -> None:
    agent = serve(bodies.says("hi"), sessions=InMemorySessionService())
    assert hookwork("run", agent, "go").err.startswith("session ")


def test_core_hnd_4_a_timeout_stops_the_run(serve: Any, hookwork: Hookwork) -> None:
    left: list[str] = []

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        try:
            yield Event(content=text_content("wait"))
            await sleep(60)
        finally:
            left.append("closed")

    result = hookwork("run", serve(body), "go", "--timeout", "100ms")
    assert (result.code, result.out, left) == (1, "", ["closed"])
    assert "stopped after 0.1 s" in result.err


def test_cli_6_ctrl_c_ends_the_run_and_exits_130(serve: Any, hookwork: Hookwork) -> None:
    left: list[str] = []

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        try:
            yield Event(content=text_content("wait"))
            os.kill(os.getpid(), signal.SIGINT)
            await sleep(60)
        finally:
            left.append("closed")

    result = hookwork("run", "--json", serve(body), "go")
    assert (result.code, left) == (130, ["closed"])
    assert lines(result.out)[-1]["outcome"]["kind"] == "closed"


def test_con_7_stream_adds_partial_events_to_json_only(serve: Any, hookwork: Hookwork) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        if ctx.run_config.streaming_mode == "sse":
            yield Event(content=text_content("It is "), partial=True)
            yield Event(content=text_content("5."), partial=True)
        yield Event(content=text_content("It is 5."))

    agent = serve(body)
    streamed = lines(hookwork("run", "--json", "--stream", agent, "go").out)[:-1]
    assert [event["content"]["parts"][0]["text"] for event in streamed if event.get("partial")] == ["It is ", "5."]
    assert hookwork("run", "--stream", agent, "go").out == "It is 5.\n"
    assert "partial" not in hookwork("run", "--json", agent, "go").out


def test_cli_7_stdin_can_be_the_message(serve: Any, hookwork: Hookwork, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=ctx.user_content, author="helper")

    monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe\n"))
    agent = serve(body)
    assert "from a pipe" in hookwork("run", "--json", agent, "-").out


def test_a_transfer_is_told(serve: Any, hookwork: Hookwork) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event(actions=EventActions(transfer_to_agent="other"), content=text_content("over"))
        yield Event(content=text_content("done"))

    assert "→ other" in hookwork("run", serve(body), "go").err
