"""Errors and chains of the Interactions API (models Beyond, ERR-1, services BEY-8)."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from contextlib import aclosing
from typing import Any

import pytest
from tests.gemini.interacting import asked, model_on
from tests.gemini.interactions_service import (
    Answer,
    InteractionsService,
    call,
    output,
    thought,
)
from tests.gemini.making import whole_of
from tests.gemini.service import KEY, Failure, error_body

from hookwork import (
    Content,
    ModelRequest,
    Runner,
    Settings,
    user_content,
)
from hookwork.errors import ModelError
from hookwork.records.codec import dump
from hookwork_gemini.interactions.calls import PREVIOUS
from hookwork_llm import LlmAgent, tool

STREAMS = pytest.mark.parametrize("streamed", [False, True])
SIGNATURE = b64encode(b"\x01\xff").decode()


# --- errors ----------------------------------------------------------------------------------------------------------


@STREAMS
@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, "invalid_request", False),
        (401, "auth", False),
        (403, "auth", False),
        (404, "invalid_request", False),
        (429, "rate_limit", True),
        (500, "unavailable", True),
        (503, "unavailable", True),
        (504, "unavailable", True),
    ],
)
async def test_err_1_statuses(
    kept: InteractionsService, status: int, kind: str, retryable: bool, streamed: bool
) -> None:
    kept.script = [Failure(status, error_body(status, "SOME_CODE", "the prompt was: k-secret"))]
    with pytest.raises(ModelError) as caught:
        await whole_of(model_on(kept), asked("hi"), stream=streamed)
    error = caught.value
    assert (error.kind, error.retryable, error.status_code, error.code) == (kind, retryable, status, "SOME_CODE")
    assert error.__cause__ is not None
    assert "k-secret" not in str(error)
    assert KEY not in str(error)
    assert len(kept.sent) == 1, "the SDK tries nothing again (ERR-2)"


async def test_err_2_retries_are_ours_and_wait_as_long_as_the_service_says(kept: InteractionsService) -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.02s"}
    kept.script = [Failure(429, error_body(429, "RESOURCE_EXHAUSTED", "slow", info)), Failure(503)]
    retry = {"attempts": 3, "base": 0.001, "jitter": False}
    assert (await whole_of(model_on(kept, retry=retry), asked("hi"))).text == "heard 1"
    assert len(kept.sent) == 3


@pytest.mark.parametrize("text", [b"<html>gateway</html>", b'{"hello": 1}', b"[]"])
async def test_what_does_not_speak_this_api_is_an_invalid_response(kept: InteractionsService, text: bytes) -> None:
    kind = "application/json" if text[:1] != b"<" else "text/html"
    kept.script = [Failure(200, text, content_type=kind)]
    with pytest.raises(ModelError) as caught:
        await whole_of(model_on(kept), asked("hi"))
    assert caught.value.kind == "invalid_response"


async def test_a_place_where_nobody_is_is_a_connection_error() -> None:
    class Nowhere:
        url = "http://127.0.0.1:1"

    with pytest.raises(ModelError) as caught:
        await whole_of(model_on(Nowhere()), asked("hi"))
    assert (caught.value.kind, caught.value.retryable) == ("connection", True)


# --- chains ----------------------------------------------------------------------------------------------------------


@STREAMS
async def test_a_conversation_sends_only_what_is_new(kept: InteractionsService, streamed: bool) -> None:
    model = model_on(kept)
    contents: list[Content] = []
    for turn in range(3):
        contents.append(user_content(f"question {turn}"))
        async with aclosing(model.generate(ModelRequest(contents=list(contents)), stream=streamed)) as responses:
            answer = [response async for response in responses][-1]
        assert answer.content is not None
        contents.append(answer.content)
    await model.close()
    assert kept.chained() == [(None, 1), ("v1_1", 1), ("v1_2", 1)]
    assert answer.text == "heard 5"
    assert answer.custom_metadata == {PREVIOUS: "v1_2"}
    assert answer.extra == {"interactionId": "v1_3"}


async def test_bey_8_the_event_carries_the_interaction_and_turns_with_tools_are_chained(
    kept: InteractionsService,
) -> None:
    @tool
    def look(at: str) -> dict[str, Any]:
        """Look."""
        return {"seen": at}

    steps = [thought("Look there.", SIGNATURE), call("look", {"at": "a"})]
    kept.script = [Answer(steps, status="requires_action"), Answer([output("It is a.")])]
    agent = LlmAgent(name="seeker", model=model_on(kept), instruction="Look.", tools=[look])
    async with Runner.in_memory(agent, settings=Settings(tables={})) as runner:
        async with runner.run(user_id="u", session_id="s", message="What is there?") as run:
            events = [event async for event in run]
        assert await runner.ask("And now?", user_id="u", session_id="s") == "heard 6"
    ids = [dump(event).get("interactionId") for event in events]
    assert ids == ["v1_1", None, "v1_2"]
    assert kept.chained() == [(None, 1), ("v1_1", 1), ("v1_2", 1)]
    assert [sent.body["input"][0]["type"] for sent in kept.sent] == ["user_input", "function_result", "user_input"]
    assert kept.sent[1].body["input"][0] == {
        "type": "function_result",
        "call_id": "c1",
        "name": "look",
        "result": {"seen": "a"},
    }
    assert all(sent.body["system_instruction"] and sent.body["tools"] for sent in kept.sent)


async def test_a_changed_history_goes_out_in_full(kept: InteractionsService) -> None:
    model = model_on(kept)

    async def say(*contents: Content | str) -> Content:
        async with aclosing(model.generate(asked(*contents))) as responses:
            answer = [response async for response in responses][-1]
        assert answer.content is not None
        return answer.content

    first = await say("a")
    second = await say("a", first, "b")
    await say("A", first, "b")  # edited
    await say("a summary of it", "c")  # compacted
    await say("a", first, "c")  # rewound to behind the first answer
    await say("a", first, "b", second, "d")
    await model.close()
    assert kept.chained() == [(None, 1), ("v1_1", 1), (None, 3), (None, 2), ("v1_1", 1), ("v1_2", 1)]


@STREAMS
async def test_an_interaction_that_the_service_lost_is_sent_in_full_once(
    kept: InteractionsService, streamed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    model = model_on(kept)
    async with aclosing(model.generate(asked("a"))) as responses:
        first = [response async for response in responses][-1]
    assert first.content is not None
    kept.kept.clear()
    async with aclosing(model.generate(asked("a", first.content, "b"), stream=streamed)) as responses:
        found = [response async for response in responses][-1]
    await model.close()
    assert found.text == "heard 3"
    assert kept.chained() == [(None, 1), ("v1_1", 1), (None, 3)]
    assert len([record for record in caplog.records if "has lost an interaction" in record.message]) == 1


async def test_without_storing_or_chaining_everything_is_sent(kept: InteractionsService) -> None:
    for options in ({"store": False}, {"chain": False}):
        model = model_on(kept, interactions=options)
        async with aclosing(model.generate(asked("a"))) as responses:
            first = [response async for response in responses][-1]
        assert first.content is not None
        async with aclosing(model.generate(asked("a", first.content, "b"))) as responses:
            assert [response async for response in responses]
        await model.close()
        assert kept.chained()[-1] == (None, 3)
        assert kept.body.get("store") is (False if "store" in options else None)


async def test_a_hundred_calls_at_once_keep_to_their_own(kept: InteractionsService) -> None:
    agent = LlmAgent(name="many", model=model_on(kept))
    async with Runner.in_memory(agent, settings=Settings(tables={})) as runner:

        async def talk(number: int) -> None:
            for turn in range(2):
                await runner.ask(f"{number}: {turn}", user_id="u", session_id=f"s{number}")

        await asyncio.gather(*(talk(number) for number in range(50)))
    for steps in kept.kept.values():
        questions = [step["content"][0]["text"] for step in steps if step["type"] == "user_input"]
        assert len({question.partition(":")[0] for question in questions}) == 1
    assert [length for _, length in kept.chained()] == [1] * 100
