"""Answers and streams of the Interactions API (models Beyond, AGG, MOD-16)."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from contextlib import aclosing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.gemini.interacting import asked, model_on, parts_of
from tests.gemini.interactions_service import (
    Answer,
    InteractionsService,
    call,
    events_of,
    output,
    thought,
    user_step,
)
from tests.gemini.making import responses_of, whole_of

from hookwork import (
    Blob,
    FunctionCall,
    ModelResponse,
    Part,
)
from hookwork.errors import ModelError

STREAMS = pytest.mark.parametrize("streamed", [False, True])
SIGNATURE = b64encode(b"\x01\xff").decode()


# --- answers ---------------------------------------------------------------------------------------------------------


@STREAMS
async def test_an_answer_of_every_kind_of_step(kept: InteractionsService, streamed: bool) -> None:
    annotation = {"type": "url_citation", "start_index": 0, "end_index": 5, "title": "T", "url": "https://t"}
    spoken = output("It is clear.")
    spoken["content"][0]["annotations"] = [annotation]
    spoken["content"].append({"type": "image", "mime_type": "image/png", "data": "AQI="})
    search = {"type": "google_search_call", "id": "s1", "arguments": {"queries": ["sky"]}}
    steps = [thought("I look.", SIGNATURE), search, spoken, call("f", {"city": "Rome", "n": 1.5}, "c7")]
    kept.script = [Answer(steps, status="requires_action", fields={"service_tier": "flex"})]
    *partials, whole = await responses_of(model_on(kept), asked("hi"), stream=streamed)
    assert parts_of(whole) == [
        Part(text="I look.", thought=True, thought_signature=b"\x01\xff"),
        Part(text="It is clear."),
        Part(inline_data=Blob(data=b"\x01\x02", mime_type="image/png")),
        Part(function_call=FunctionCall(id="c7", name="f", args={"city": "Rome", "n": 1.5})),
    ]
    assert (whole.finish_reason, whole.turn_complete, whole.model_version) == ("STOP", True, "gemini-2.5-flash")
    assert whole.citation_metadata is not None
    (citation,) = whole.citation_metadata.citations or ()
    assert (citation.start_index, citation.end_index, citation.title, citation.uri) == (0, 5, "T", "https://t")
    assert whole.grounding_metadata is not None
    assert whole.grounding_metadata.web_search_queries == ("sky",)
    assert whole.custom_metadata is not None
    assert whole.custom_metadata["gemini_service_tier"] == "flex"
    shown = [part for one in partials for part in parts_of(one)]
    assert "".join(part.text or "" for part in shown if part.thought) == ("I look." if streamed else "")
    assert "".join(part.text or "" for part in shown if not part.thought) == ("It is clear." if streamed else "")
    pieces = [(part.part_metadata or {}).get("gemini", {}).get("arguments_delta", "") for part in shown]
    assert "".join(pieces) == ('{"city": "Rome", "n": 1.5}' if streamed else "")
    assert {part.function_call.id for part in shown if part.function_call is not None} <= {"c7"}


@STREAMS
async def test_usage_counts_as_everywhere(kept: InteractionsService, streamed: bool) -> None:
    usage = (await whole_of(model_on(kept), asked("hi"), stream=streamed)).usage_metadata
    assert usage is not None
    assert (usage.prompt_token_count, usage.cached_content_token_count) == (100, 60)
    assert (usage.candidates_token_count, usage.thoughts_token_count) == (30, 20)
    assert (usage.tool_use_prompt_token_count, usage.total_token_count) == (5, 155)
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details[0].modality == "TEXT"


@STREAMS
async def test_mod_17_counts_that_are_none_or_negative_are_not_reported(
    kept: InteractionsService, streamed: bool
) -> None:
    kept.script = [
        Answer([output("a")], fields={"usage": {"total_input_tokens": -5, "total_output_tokens": 0}}),
        Answer([output("a")], fields={"usage": None}),
    ]
    usage = (await whole_of(model_on(kept), asked("hi"), stream=streamed)).usage_metadata
    assert usage is not None
    assert (usage.prompt_token_count, usage.candidates_token_count) == (None, 0)
    assert (await whole_of(model_on(kept), asked("hi"), stream=streamed)).usage_metadata is None


@STREAMS
@pytest.mark.parametrize("status", ["incomplete", "budget_exceeded"])
async def test_a_limit_ends_an_answer_with_max_tokens(kept: InteractionsService, streamed: bool, status: str) -> None:
    kept.script = [Answer([output("half")], status=status)]
    whole = await whole_of(model_on(kept), asked("hi"), stream=streamed)
    assert (whole.text, whole.finish_reason, whole.error_code) == ("half", "MAX_TOKENS", None)


async def test_agg_32_a_call_that_was_cut_off_is_left_out_and_named(kept: InteractionsService) -> None:
    interaction = {"id": "v1_1", "model": "m", "steps": [call("write", {"path": "/a", "text": "long"})]}
    events = events_of({**interaction, "status": "incomplete"})
    torso = [one for one in events if one.get("delta", {}).get("arguments") not in ('"}', 'ng"}')]
    kept.script = [Answer(events=torso)]
    whole = await whole_of(model_on(kept), asked("hi"), stream=True)
    assert (whole.error_code, whole.finish_reason) == ("MAX_TOKENS", "MAX_TOKENS")
    assert "'write'" in (whole.error_message or "")
    assert whole.content is None


async def test_arguments_that_are_no_object_are_an_error(kept: InteractionsService) -> None:
    interaction = {"id": "v1_1", "model": "m", "steps": [call("f", {"a": 1})], "status": "requires_action"}
    events = events_of(interaction, size=100)
    for one in events:
        if "arguments" in one.get("delta", {}):
            one["delta"]["arguments"] = '{"a":'
    kept.script = [Answer(events=events)]
    with pytest.raises(ModelError) as caught:
        await whole_of(model_on(kept), asked("hi"), stream=True)
    assert caught.value.kind == "invalid_response"


async def test_t_17_null_arguments_are_an_empty_object(kept: InteractionsService) -> None:
    interaction = {"id": "v1_1", "model": "m", "steps": [call("f", {"a": 1})], "status": "requires_action"}
    for text in ("null", "", "{}"):
        events = events_of(interaction, size=100)
        for one in events:
            if "arguments" in one.get("delta", {}):
                one["delta"]["arguments"] = text
        kept.script = [Answer(events=events)]
        whole = await whole_of(model_on(kept), asked("hi"), stream=True)
        (part,) = parts_of(whole)
        assert part.function_call is not None
        assert part.function_call.args == {}


@STREAMS
async def test_an_output_step_with_an_error_is_a_result_and_no_exception(
    kept: InteractionsService, streamed: bool
) -> None:
    kept.script = [Answer([{"type": "model_output", "error": {"code": 3, "message": "blocked"}}])]
    whole = await whole_of(model_on(kept), asked("hi"), stream=streamed)
    assert (whole.error_code, whole.error_message) == ("OTHER", "blocked")


async def test_the_answer_is_what_stands_behind_the_input(kept: InteractionsService) -> None:
    repeated = [user_step({"type": "text", "text": "hi"}), output("old"), user_step({"type": "text", "text": "b"})]
    kept.script = [Answer([*repeated, output("new")])]
    assert (await whole_of(model_on(kept), asked("hi"))).text == "new"


# --- streams ---------------------------------------------------------------------------------------------------------


@given(cuts=st.lists(st.integers(1, 40), min_size=1, max_size=8), size=st.integers(1, 9))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_agg_30_bytes_may_be_cut_anywhere(kept: InteractionsService, cuts: list[int], size: int) -> None:
    def pieces(data: bytes) -> list[bytes]:
        found, at, turn = [], 0, 0
        while at < len(data):
            found.append(data[at : at + cuts[turn % len(cuts)]])
            at, turn = at + cuts[turn % len(cuts)], turn + 1
        return found

    steps = [thought("Überlegt 🙂", SIGNATURE), output("Es ist 5 °C — né"), call("f", {"ä": "ö"})]
    interaction = {"id": "v1_1", "model": "m", "steps": steps, "status": "requires_action"}
    kept.reset()
    kept.script = [Answer(steps, "requires_action"), Answer(events=events_of(interaction, size), pieces=pieces)]

    async def both() -> tuple[ModelResponse, ModelResponse]:
        whole = await whole_of(model_on(kept), asked("hi"))
        return whole, await whole_of(model_on(kept), asked("hi"), stream=True)

    whole, streamed = asyncio.run(both())
    assert streamed.content == whole.content


async def test_the_service_may_go_on_in_a_further_interaction(kept: InteractionsService) -> None:
    first = {
        "id": "v1_1",
        "model": "m",
        "status": "requires_continuation",
        "continuation_token": "dG9r",
        "usage": {"total_output_tokens": 20, "total_tokens": 20},
    }
    kept.script = [
        Answer(events=events_of({**first, "steps": [output("Part 1 ")]})),
        Answer([output("Part 2")], fields={"usage": {"total_output_tokens": 5, "total_tokens": 5}}),
    ]
    whole = await whole_of(model_on(kept), asked("hi"), stream=True)
    assert whole.text == "Part 1 Part 2"
    assert whole.finish_reason == "STOP"
    assert whole.usage_metadata is not None
    assert whole.usage_metadata.candidates_token_count == 25
    assert kept.sent[1].body["continuation_token"] == "dG9r"


@pytest.mark.parametrize("breaks", [False, True])
async def test_case_model_3_a_stream_that_ends_early_is_an_error(kept: InteractionsService, breaks: bool) -> None:
    events = events_of({"id": "v1_1", "model": "m", "status": "completed", "steps": [output("half a word")]})
    kept.script = [Answer(events=events[:4], breaks=breaks)]
    seen: list[ModelResponse] = []
    model = model_on(kept, retry=True)

    async def listen() -> None:
        async with aclosing(model.generate(asked("hi"), stream=True)) as responses:
            async for response in responses:
                seen.append(response)

    with pytest.raises(ModelError) as caught:
        await listen()
    await model.close()
    assert all(one.partial for one in seen)
    assert seen
    assert (caught.value.kind, caught.value.retryable, caught.value.after_first_chunk) == ("stream", True, True)
    assert len(kept.sent) == 1, "nothing is tried again once a response came"


async def test_mod_4_a_stream_that_is_left_early_is_closed(kept: InteractionsService) -> None:
    events = events_of({"id": "v1_1", "model": "m", "status": "completed", "steps": [output("a long answer")]})
    kept.script = [Answer(events=events[:4], hangs=True)]
    model = model_on(kept)
    async with aclosing(model.generate(asked("hi"), stream=True)) as responses:
        async for response in responses:
            assert response.partial
            break
    await model.close()
    assert await asyncio.to_thread(kept.left.wait, 10)


async def test_an_error_inside_a_stream_behind_a_200(kept: InteractionsService) -> None:
    error = {"event_type": "error", "error": {"code": "https://errors/RESOURCE_EXHAUSTED", "message": "k-secret"}}
    events = events_of({"id": "v1_1", "model": "m", "status": "completed", "steps": [output("half a word")]})
    kept.script = [Answer(events=[*events[:4], error])]
    with pytest.raises(ModelError) as caught:
        await whole_of(model_on(kept), asked("hi"), stream=True)
    assert (caught.value.kind, caught.value.code) == ("rate_limit", "RESOURCE_EXHAUSTED")
    assert caught.value.after_first_chunk
    assert "k-secret" not in str(caught.value)


@STREAMS
async def test_a_failed_interaction_is_an_error(kept: InteractionsService, streamed: bool) -> None:
    errors = [{"code": "UNAVAILABLE", "message": "the prompt was: k-secret"}]
    kept.script = [Answer(status="failed", fields={"errors": errors})]
    with pytest.raises(ModelError) as caught:
        await whole_of(model_on(kept), asked("hi"), stream=streamed)
    assert (caught.value.kind, caught.value.retryable) == ("unavailable", True)
    assert "k-secret" not in str(caught.value)
