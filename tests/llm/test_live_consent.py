"""Consent and questions in live sessions: where the secrets go, what runs again (crosscutting AUTH-30 …, HITL-16)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.llm.live_talks import Talk, brief, shown

from hookwork import Content, Event, Part, Plugin, ToolContext
from hookwork.credentials import consent_answer
from hookwork.errors import ConsentRequiredError, InvalidResumeResponse, NothingToResume
from hookwork.records.codec import dump
from hookwork.records.content import FunctionResponse
from hookwork_llm import tool
from hookwork_testkit import Hear, call
from hookwork_testkit.live import turn_complete

SECRET = "s3cr3t-code"
used: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    used.clear()


@tool
async def meetings(ctx: ToolContext) -> dict[str, Any]:
    """Lists meetings."""
    answer = consent_answer(ctx, "calendar")
    if answer is None:
        raise ConsentRequiredError("https://login.example/consent", "n-1", "calendar", {})
    used.append(answer["oauth2"]["authCode"])
    return {"meetings": 2}


class Watch(Plugin):
    """Sees what hooks see."""

    name = "watch"

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_user_message(self, message: Content) -> None:
        self.seen.append(dump(message))

    def on_event(self, event: Event) -> None:
        self.seen.append(dump(event))


def consent(event: Event, **changes: Any) -> list[Part]:
    asked = event.function_calls[0]
    config = json.loads(json.dumps(asked.args["authConfig"]))  # type: ignore[index]
    config["exchangedAuthCredential"]["oauth2"] |= {"authCode": SECRET} | changes
    return [Part(function_response=FunctionResponse(id=asked.id, name=asked.name, response=config))]


async def test_auth_32_a_consent_lets_the_call_run_and_its_secret_goes_nowhere_else() -> None:
    watch = Watch()
    talk = Talk([Hear(1), call("meetings", "c1"), Hear(2), "two", turn_complete()], tools=[meetings], plugins=[watch])
    await talk.run.send("meetings?")
    async with asyncio.timeout(20):
        async for event in talk.run:
            talk.events.append(event)
            if brief(event) == "adk_request_credential?":
                await talk.run.send(consent(event))
    assert used == [SECRET]
    assert [response.id for response in talk.line.responses] == ["c1", "c1"], "no model asked for the credential"
    assert talk.line.responses[-1].response == {"meetings": 2}
    stored = await talk.stored()
    assert shown(stored)[:6] == [
        "user: meetings?",
        "voice: meetings?",
        "voice: meetings!",
        "voice: adk_request_credential?",
        "user: adk_request_credential!",
        "voice: meetings!",
    ]
    for place in ([dump(event) for event in stored], watch.seen, [dump(content) for content in talk.line.contents]):
        assert SECRET not in json.dumps(place)


async def test_auth_32_an_answer_of_another_state_is_refused_at_send_and_the_request_stays_open() -> None:
    talk = Talk([Hear(1), call("meetings", "c1"), Hear(1)], close=False, tools=[meetings])
    await talk.hold_until("adk_request_credential?", "meetings?")
    with pytest.raises(NothingToResume, match="another state"):
        await talk.run.send(consent(talk.events[-1], state="forged"))
    nothing = [Part(function_response=FunctionResponse(id=talk.events[-1].function_calls[0].id, response={}))]
    with pytest.raises(InvalidResumeResponse, match="no credential"):
        await talk.run.send(nothing)
    await talk.finish()
    assert used == []
    assert talk.run.outcome is not None
    assert [call.kind for call in talk.run.outcome.open_calls] == ["credential"]


async def test_auth_32_a_secret_that_a_hook_puts_back_is_taken_out_again() -> None:
    class Meddler(Plugin):
        name = "meddler"

        def on_user_message(self, message: Content) -> Any:
            return given if message.function_responses else None

    talk = Talk([Hear(1), call("meetings", "c1"), Hear(2), turn_complete()], tools=[meetings], plugins=[Meddler()])
    given: Any = None
    await talk.run.send("meetings?")
    async with asyncio.timeout(20):
        async for event in talk.run:
            if brief(event) == "adk_request_credential?":
                given = Content(role="user", parts=consent(event))
                await talk.run.send(given)
    assert used == [SECRET]
    assert SECRET not in json.dumps([dump(event) for event in await talk.stored()])


async def test_auth_34_an_answer_sent_before_the_session_is_known_is_judged_when_it_is_taken(caplog: Any) -> None:
    """Sent by a client that resumes: the request is of an earlier invocation, so it is no answer of this run."""
    talk = Talk([Hear(1), call("meetings", "c1"), Hear(1)], close=False, tools=[meetings])
    await talk.hold_until("adk_request_credential?", "meetings?")
    await talk.finish()
    again = Talk([Hear(1), "hello", turn_complete()], tools=[meetings], options={"sessions": talk.runner.sessions})
    await again.hold(consent(talk.events[-1]) if talk.events[-1].function_calls else _request(talk), "hi")
    assert "was dropped" in caplog.text
    assert again.line.texts == ["hi"]
    assert SECRET not in json.dumps([dump(event) for event in await again.stored()])
    assert SECRET not in caplog.text


def _request(talk: Talk) -> list[Part]:
    return consent(next(event for event in talk.events if brief(event) == "adk_request_credential?"))


async def test_ask_7_a_tool_whose_child_asks_runs_again_from_its_top_with_the_answer() -> None:
    """workflow ASK-7, core PND-2 kind `input`: the question is no content for the model, its answer neither."""
    from hookwork_workflow import node

    tops: list[str] = []

    @node(name="size")
    async def size(ctx: Any) -> Any:
        return await ctx.request_input("how_many", "For how many?")

    @tool
    async def book(ctx: ToolContext) -> dict[str, Any]:
        """Books a table."""
        tops.append("book")
        return {"for": await ctx.run_node(size)}

    def reply(event: Event) -> list[Part]:
        asked = event.function_calls[0]
        return [Part(function_response=FunctionResponse(id=asked.id, name=asked.name, response={"result": 2}))]

    talk = Talk([Hear(1), call("book", "c1"), Hear(1), "booked", turn_complete()], tools=[book])
    await talk.run.send("a table")
    async with asyncio.timeout(20):
        async for event in talk.run:
            talk.events.append(event)
            if brief(event) == "adk_request_input?":
                await talk.run.send(reply(event))
    assert tops == ["book", "book"]
    assert [(response.id, response.response) for response in talk.line.responses] == [("c1", {"for": 2})]
    assert talk.line.texts == ["a table", ""]
