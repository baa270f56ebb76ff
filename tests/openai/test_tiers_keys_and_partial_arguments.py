"""What google-adk has beyond ADK-Go: key function, effort tiers, partial arguments, what a response says (Beyond)."""

from __future__ import annotations

import pytest
from tests.openai.asking import ask, asked, body, body_for_chat, chat_model_on, declared, model_on, whole
from tests.openai.server import Json, Service, Sse
from tests.openai.wire import chat_stream, completion, function_call, message, response, stream, tool_call

#: ``reasoning.effort`` of the API (models SDK-12).
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
BOTH = pytest.mark.parametrize("chat", [False, True])
STREAMS = pytest.mark.parametrize("streamed", [False, True])


@pytest.mark.parametrize("effort", EFFORTS)
def test_every_effort_tier_goes_out_on_both_apis(effort: str) -> None:
    assert body(asked(), "gpt-5.2", reasoning={"effort": effort})["reasoning"] == {"effort": effort}
    assert body_for_chat(asked(), "gpt-5.2", reasoning={"effort": effort})["reasoning_effort"] == effort


@BOTH
@STREAMS
async def test_the_service_tier_that_was_given_is_reported(service: Service, chat: bool, streamed: bool) -> None:
    if chat:
        chunks = [{**one, "service_tier": "flex"} for one in chat_stream("Hi.")]
        reply = Sse(chunks, named=False, done=True) if streamed else Json({**completion("Hi."), "service_tier": "flex"})
    else:
        reply = (
            Sse(stream(message("Hi."), service_tier="flex"))
            if streamed
            else Json(response(message("Hi."), service_tier="flex"))
        )
    model = (chat_model_on if chat else model_on)(service.answers(reply), service_tier="auto")
    found = await whole(model, stream=streamed)
    await model.close()
    assert service.body["service_tier"] == "auto"
    assert found.custom_metadata is not None
    assert found.custom_metadata["openai_service_tier"] == "flex"
    assert found.custom_metadata["openai_response_id"] == ("chatcmpl-1" if chat else "resp_1")


@BOTH
async def test_arguments_are_shown_while_they_are_written(service: Service, chat: bool) -> None:
    text = '{"city": "Rome"}'
    if chat:
        service.answers(Sse(chat_stream("", tool_call("f", text), size=5), named=False, done=True))
    else:
        service.answers(Sse(stream(function_call("f", text), size=5)))
    model = (chat_model_on if chat else model_on)(service)
    *partials, final = await ask(model, asked("hi", tools=declared("f")), stream=True)
    await model.close()
    pieces = [
        (part.part_metadata or {}).get("openai", {}).get("arguments_delta", "")
        for one in partials
        for part in (one.content.parts if one.content is not None else ())
    ]
    assert "".join(pieces) == text
    assert final.content is not None
    (made,) = final.content.function_calls
    assert made.args == {"city": "Rome"}
    ids = {
        part.function_call.id
        for one in partials
        for part in (one.content.parts if one.content is not None else ())
        if part.function_call is not None
    }
    assert ids == {made.id}, "one id from the first fragment on (AGG-23)"


@BOTH
async def test_a_key_function_is_asked_for_each_request(service: Service, chat: bool) -> None:
    given: list[str] = []

    async def key() -> str:
        given.append(f"key-{len(given) + 1}")
        return given[-1]

    reply = Json(completion("ok") if chat else response(message("ok")))
    service.answers(reply, reply)
    model = (chat_model_on if chat else model_on)(service, api_key=key)
    await whole(model)
    await whole(model)
    await model.close()
    assert [sent.headers["authorization"] for sent in service.sent] == ["Bearer key-1", "Bearer key-2"]
