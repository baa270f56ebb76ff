"""Thoughts of thinking models on compatible servers go back in the field they came in (models CHAT-1, CHAT-3, OAI-4).

https://api-docs.deepseek.com/guides/thinking_mode: without them the next request of a turn with tool calls is a 400.
They never become text of the assistant.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.openai.asking import chat_model_on
from tests.openai.server import Json, Service, Sse
from tests.openai.wire import chat_stream, completion, tool_call

from hookwork import RunConfig, Runner
from hookwork_llm import LlmAgent, RouterModel, tool

CALL = tool_call("weather", '{"city": "Oslo"}', "c1")


@tool
def weather(city: str) -> dict[str, Any]:
    """Weather."""
    return {"sky": "clear"}


def assistants(service: Service, number: int) -> list[dict[str, Any]]:
    return [message for message in service.sent[number].body["messages"] if message["role"] == "assistant"]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("stream", [False, True])
async def test_they_go_back_with_calls_and_answers(service: Service, field: str, stream: bool) -> None:
    for content, calls, thought in (("", [CALL], "look first"), ("Clear.", [], "now say"), ("Bye.", [], "end")):
        whole = completion(content, *calls, **{field: thought})
        parts = chat_stream(content, *calls, **{field: thought})
        service.answers(Sse(parts, done=True) if stream else Json(whole))
    config = RunConfig(streaming_mode="sse") if stream else None
    async with Runner.in_memory(LlmAgent(name="a", model=chat_model_on(service), tools=[weather])) as runner:
        for text in ("Oslo?", "thanks"):
            await runner.run(user_id="u", session_id="s", message=text, config=config).wait()
    assert [message[field] for message in assistants(service, 1)] == ["look first"]
    assert [message[field] for message in assistants(service, 2)] == ["look first", "now say"]
    assert [message["content"] for message in assistants(service, 2)] == [None, "Clear."]


async def test_another_model_never_gets_them(service: Service) -> None:
    models = [chat_model_on(service, "deepseek-v4"), chat_model_on(service, "llama3")]
    router = RouterModel(lambda request: models[len(service.sent)].name, models)
    service.answers(Json(completion("", CALL, reasoning_content="hm")), Json(completion("Clear.")))
    async with Runner.in_memory(LlmAgent(name="a", model=router, tools=[weather])) as runner:
        await runner.ask("Oslo?")
    assert "hm" not in str(service.sent[1].body)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_server_that_refuses_them_by_name_is_asked_without(service: Service, stream: bool) -> None:
    refusal = Json({"error": {"message": "Unknown field: messages[1].reasoning_content"}}, status=400)
    last = Sse(chat_stream("Clear."), done=True) if stream else Json(completion("Clear."))
    bye = Sse(chat_stream("Bye."), done=True) if stream else Json(completion("Bye."))
    service.answers(Json(completion("", CALL, reasoning_content="hm")), refusal, last, bye)
    config = RunConfig(streaming_mode="sse") if stream else None
    async with Runner.in_memory(LlmAgent(name="a", model=chat_model_on(service), tools=[weather])) as runner:
        for text in ("Oslo?", "thanks"):
            outcome = await runner.run(user_id="u", session_id="s", message=text, config=config).wait()
    assert outcome.final_event is not None
    assert outcome.final_event.text == "Bye."
    assert ["reasoning_content" in str(sent.body) for sent in service.sent] == [False, True, False, False]
