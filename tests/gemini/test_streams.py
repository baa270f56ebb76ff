"""Streamed calls over a real line: models GEM-9, AGG through the SDK, MOD-4, MOD-5, MOD-16, SDK-4, SDK-15."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.gemini.making import api_model, asking, responses_of, vertex_model, whole_of
from tests.gemini.service import Received, Reply, Service, chunk

from hookwork import Content, FunctionCall, Part, UsageMetadata
from hookwork_gemini.client import CLIENTS
from hookwork_testkit.suites.leftovers import no_tasks_left

USAGE = {
    "promptTokenCount": 100,
    "cachedContentTokenCount": 60,
    "candidatesTokenCount": 30,
    "thoughtsTokenCount": 20,
    "totalTokenCount": 150,
}


def parts(response: Any) -> list[Part]:
    assert response.content is not None
    return list(response.content.parts)


async def test_gem_9_a_stream_of_thoughts_text_and_calls(service: Service) -> None:
    service.always = Reply(
        {"usageMetadata": {"trafficType": "ON_DEMAND"}, "modelVersion": "gemini-served"},  # CONV-5
        chunk({"text": "h", "thought": True}),
        chunk({"text": "m", "thought": True}),
        chunk({"text": "I look."}),
        chunk({"functionCall": {"name": "f", "args": {"a": 1, "none": None}}, "thoughtSignature": "Af8="},
              {"functionCall": {"id": "c2", "name": "g", "args": {}}}),
        chunk({}, finish="STOP", usageMetadata=USAGE),
    )  # fmt: skip
    *partials, whole = await responses_of(vertex_model(service), stream=True)
    assert len(partials) == 6
    assert all(partial.partial and not partial.turn_complete for partial in partials)
    assert parts(whole) == [
        Part(text="hm", thought=True),
        Part(text="I look."),
        Part(function_call=FunctionCall(name="f", args={"a": 1, "none": None}), thought_signature=b"\x01\xff"),
        Part(function_call=FunctionCall(id="c2", name="g", args={})),
    ]
    assert (whole.finish_reason, whole.turn_complete, whole.model_version) == ("STOP", True, "gemini-served")


@pytest.mark.parametrize("stream", [False, True])
async def test_mod_16_usage_is_what_the_service_reports(service: Service, stream: bool) -> None:
    """CASE-USAGE-1: thoughts apart from the answer, cached tokens part of the prompt, the same either way."""
    service.always = Reply(chunk({"text": "a"}), chunk({"text": "b"}, finish="STOP", usageMetadata=USAGE))
    whole = await whole_of(api_model(service), stream=stream)
    assert whole.usage_metadata == UsageMetadata(
        prompt_token_count=100,
        cached_content_token_count=60,
        candidates_token_count=30,
        thoughts_token_count=20,
        total_token_count=150,
    )


def fragment(name: str | None = None, path: str = "", more: bool = True, **value: Any) -> dict[str, Any]:
    call: dict[str, Any] = {"name": name} if name else {}
    if path:
        call["partialArgs"] = [{"jsonPath": path, **value}]
    if more:
        call["willContinue"] = True
    return {"functionCall": call}


async def test_gem_12_arguments_arrive_in_pieces(service: Service) -> None:
    """AGG-15, AGG-20, AGG-23 with the frames of Vertex AI."""
    service.always = Reply(
        chunk({**fragment("book"), "thoughtSignature": "c2ln"}),
        chunk(fragment(path="$.city", stringValue="Par")),
        chunk(fragment(path="$.city", stringValue="is")),
        chunk(fragment(path="$.rooms[0].beds", numberValue=2)),
        chunk(fragment(path="$.rooms[0].view", boolValue=True)),
        chunk(fragment(path="$.until", nullValue="NULL_VALUE")),
        chunk(fragment(more=False)),
        chunk({}, finish="STOP"),
    )
    *partials, whole = await responses_of(vertex_model(service), stream=True)
    (part,) = parts(whole)
    assert part.function_call is not None
    assert part.function_call.args == {"city": "Paris", "rooms": [{"beds": 2, "view": True}], "until": None}
    assert (part.function_call.name, part.thought_signature) == ("book", b"sig")
    shown = [p.function_call for partial in partials[:6] for p in parts(partial)]
    assert {call.id for call in shown if call} == {part.function_call.id}


async def test_agg_32_a_length_stop_inside_arguments(service: Service) -> None:
    """CASE-MODEL-2."""
    service.always = Reply(
        chunk({"text": "I write."}),
        chunk(fragment("write", "$.path", stringValue="/a")),
        chunk({}, finish="MAX_TOKENS"),
    )
    whole = await whole_of(vertex_model(service), stream=True)
    assert parts(whole) == [Part(text="I write.")]
    assert (whole.finish_reason, whole.error_code) == ("MAX_TOKENS", "MAX_TOKENS")


@pytest.mark.parametrize("stream", [False, True])
async def test_conv_2_grounding_citations_and_logprobs_arrive(service: Service, stream: bool) -> None:
    service.always = Reply(
        chunk({"text": "a"}, groundingMetadata={"webSearchQueries": ["q"], "groundingChunks": [{"web": {"uri": "u"}}]}),
        chunk(
            {"text": "b"},
            finish="STOP",
            avgLogprobs=-0.5,
            logprobsResult={"chosenCandidates": [{"token": "b", "logProbability": -0.5}]},
            citationMetadata={"citations": [{"uri": "c", "startIndex": 0}]},
        ),
    )
    whole = await whole_of(vertex_model(service), stream=stream)
    assert whole.grounding_metadata is not None
    assert whole.grounding_metadata.web_search_queries == ("q",)
    assert whole.citation_metadata is not None
    assert whole.citation_metadata.citations[0].uri == "c"  # type: ignore[index]
    assert whole.avg_logprobs == -0.5
    assert whole.logprobs_result is not None


@pytest.mark.parametrize("stream", [False, True])
async def test_sdk_6_parts_of_the_models_own_tools_are_kept(service: Service, stream: bool) -> None:
    code = [
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"inlineData": {"mimeType": "image/png", "data": "+/8="}},
        {"toolCall": {"id": "t1"}, "thoughtSignature": "c2ln"},
    ]
    service.always = Reply(chunk({"text": "see"}), chunk(*code), chunk({"text": "done"}, finish="STOP"))
    whole = await whole_of(api_model(service), stream=stream)
    found = parts(whole)
    assert [bool(part.text) for part in found] == [True, False, False, False, False, True]
    assert found[1].executable_code is not None
    assert found[2].code_execution_result is not None
    assert found[3].inline_data is not None
    assert found[3].inline_data.data == b"\xfb\xff"
    assert found[4].extra == {"toolCall": {"id": "t1"}}
    assert found[4].thought_signature == b"sig"


# --- bytes ------------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(1, 900), max_size=30), every=st.sampled_from([0, 1, 7]))
def test_gem_9_the_stream_may_be_cut_at_any_byte(running_service: Service, cuts: list[int], every: int) -> None:
    """Inside a line end, a JSON text, a character of four bytes: the same responses come out."""
    service = running_service
    service.reset()

    def pieces(data: bytes) -> list[bytes]:
        at = sorted({0, len(data), *(cut for cut in cuts if cut < len(data)), *(range(0, 120, every) if every else ())})
        return [data[a:b] for a, b in pairwise(at)]

    chunks = [
        chunk({"text": "grün 🌊 "}),
        chunk({"text": "\r\n\r\ndata: x"}, {"functionCall": {"name": "f", "args": {"k": "日本 🌊"}}}),
        chunk({}, finish="STOP", usageMetadata=USAGE),
    ]
    service.always = Reply(*chunks, pieces=pieces)
    *partials, whole = asyncio.run(responses_of(api_model(service), stream=True))
    assert len(partials) == 3
    assert parts(whole) == [
        Part(text="grün 🌊 \r\n\r\ndata: x"),
        Part(function_call=FunctionCall(name="f", args={"k": "日本 🌊"})),
    ]
    assert whole.finish_reason == "STOP"


# --- leaving, cancelling, many at once --------------------------------------------------------------------------------


async def test_mod_4_leaving_early_frees_the_connection(service: Service) -> None:
    service.always = Reply(chunk({"text": "a"}), chunk({"text": "b"}), hangs=True)
    model = api_model(service)
    async with no_tasks_left("a stream left early"):
        async with aclosing(model.generate(asking(), stream=True)) as responses:
            assert (await anext(responses)).text == "a"
        assert await asyncio.to_thread(service.left.wait, 10), "the server still sees an open connection"
    service.always = Reply(chunk({"text": "again"}, finish="STOP"))
    assert (await whole_of(model)).text == "again"


async def test_mod_4_cancelling_frees_the_connection(service: Service) -> None:
    service.always = Reply(chunk({"text": "a"}), hangs=True)
    model = api_model(service)
    got = asyncio.Event()

    async def consume() -> None:
        async with aclosing(model.generate(asking(), stream=True)) as responses:
            async for _ in responses:
                got.set()

    async with no_tasks_left("a cancelled stream"):
        task = asyncio.create_task(consume())
        await got.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(service.left.wait, 10)
    await model.close()


async def test_mod_4_leaving_with_a_client_of_the_callers_own(service: Service) -> None:
    import httpx2

    service.always = Reply(chunk({"text": "a"}), hangs=True)
    async with httpx2.AsyncClient() as client:
        model = api_model(service, http_client=client)
        async with aclosing(model.generate(asking(), stream=True)) as responses:
            await anext(responses)
        assert await asyncio.to_thread(service.left.wait, 10)
        await model.close()


def echo(received: Received) -> Reply:
    said = received.body["contents"][-1]["parts"][0]["text"]
    return Reply(chunk({"text": said[:4]}), chunk({"text": said[4:]}, finish="STOP"))


@pytest.mark.slow
async def test_mod_5_five_hundred_calls_at_once_on_one_client(service: Service) -> None:
    """SDK-15: one client for all of them."""
    service.always = echo
    model = api_model(service)

    async def ask(n: int) -> str:
        async with aclosing(model.generate(asking(f"call {n}"), stream=n % 2 == 0)) as responses:
            return [response async for response in responses][-1].text

    before = CLIENTS.count()
    answers = await asyncio.gather(*[ask(n) for n in range(500)])
    assert answers == [f"call {n}" for n in range(500)]
    assert CLIENTS.count() == before + 1
    await model.close()
    assert CLIENTS.count() == before


async def test_sdk_15_models_of_one_configuration_share_a_client(service: Service) -> None:
    """GEM-13: no public name gives the client away."""
    first, second, other = api_model(service), api_model(service, "gemini-3-pro"), api_model(service, timeout=9.0)
    clients = [await model._client() for model in (first, second, other)]
    assert clients[0] is clients[1]
    assert clients[0] is not clients[2]
    assert not [name for name in vars(first) if not name.startswith("_") and getattr(first, name) is clients[0]]
    await first.close()
    assert (await whole_of(second)).text == "Hello."
    await other.close()


def test_sdk_15_a_model_works_in_several_loops(service: Service) -> None:
    model = api_model(service)
    clients = []

    async def ask() -> str:
        clients.append(await model._client())
        try:
            async with aclosing(model.generate(asking())) as responses:
                return (await anext(responses)).text
        finally:
            await model.close()

    assert [asyncio.run(ask()) for _ in range(3)] == ["Hello."] * 3
    assert len({id(client) for client in clients}) == 3


async def test_content_of_another_role_is_the_models(service: Service) -> None:
    service.always = Reply({"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]})
    assert (await whole_of(api_model(service))).content == Content(role="model", parts=[Part(text="a")])
