"""What Gemini's endpoint for OpenAI's clients puts beside a tool call goes back with it (models CHAT-1, CHAT-3).

https://ai.google.dev/gemini-api/docs/thought-signatures: without it Gemini 3 answers 400. On Vertex AI the key under
``extra_content`` is ``vertex``.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.openai.asking import chat_model_on
from tests.openai.server import Json, Service, Sse
from tests.openai.wire import chat_stream, completion, tool_call

from hookwork import RunConfig, Runner
from hookwork_llm import LlmAgent, RouterModel, tool

SIGNED: dict[str, Any] = {"google": {"thought_signature": "EjQKMgEMOdbH"}}


@tool
def weather(city: str) -> dict[str, Any]:
    """Weather."""
    return {"sky": "clear"}


def signed_call(extra: dict[str, Any] = SIGNED) -> dict[str, Any]:
    return {**tool_call("weather", '{"city": "Oslo"}', "c1"), "extra_content": extra}


def sent_calls(service: Service, number: int) -> list[dict[str, Any]]:
    messages = service.sent[number].body["messages"]
    return [one for message in messages for one in message.get("tool_calls", ())]


@pytest.mark.parametrize("extra", [SIGNED, {"vertex": {"thought_signature": "AY89"}}])
async def test_it_goes_back_in_every_later_request(service: Service, extra: dict[str, Any]) -> None:
    service.answers(Json(completion("", signed_call(extra))), Json(completion("Clear.")), Json(completion("Bye.")))
    async with Runner.in_memory(LlmAgent(name="a", model=chat_model_on(service), tools=[weather])) as runner:
        for text in ("Oslo?", "thanks"):
            await runner.ask(text, user_id="u", session_id="s")
    for number in (1, 2):
        assert [one["extra_content"] for one in sent_calls(service, number)] == [extra]


async def test_it_is_taken_from_a_stream_too(service: Service) -> None:
    service.answers(Sse(chat_stream("", signed_call()), done=True), Sse(chat_stream("Clear."), done=True))
    async with Runner.in_memory(LlmAgent(name="a", model=chat_model_on(service), tools=[weather])) as runner:
        await runner.run(user_id="u", message="Oslo?", config=RunConfig(streaming_mode="sse")).wait()
    assert [one["extra_content"] for one in sent_calls(service, 1)] == [SIGNED]


async def test_another_model_does_not_get_it(service: Service) -> None:
    models = [chat_model_on(service, "gemini-3-flash"), chat_model_on(service, "llama3")]
    router = RouterModel(lambda request: models[len(service.sent)].name, models)
    service.answers(Json(completion("", signed_call())), Json(completion("Clear.")))
    async with Runner.in_memory(LlmAgent(name="a", model=router, tools=[weather])) as runner:
        await runner.ask("Oslo?")
    [call] = sent_calls(service, 1)
    assert "extra_content" not in call
