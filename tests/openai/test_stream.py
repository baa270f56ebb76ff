"""Streams of the Responses API (models §8 Streaming, OAI-30…36; AGG where it shows)."""

from __future__ import annotations

import json
import typing
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.openai.asking import a_call, ask, model_on, texts, whole
from tests.openai.server import Json, Service, Sse, pieces_of
from tests.openai.wire import (
    Event,
    added,
    arguments_delta,
    arguments_done,
    completed,
    created,
    done,
    function_call,
    incomplete,
    item_events,
    message,
    reasoning,
    response,
    stream,
    text_delta,
    usage,
)

from hookwork import ModelResponse
from hookwork.errors import ModelError
from hookwork_openai.responses.output import whole_response
from hookwork_openai.responses.stream import ResponseStream


def fold(events: Sequence[Any], **options: Any) -> tuple[list[ModelResponse], ModelResponse]:
    """The partials and the whole of a stream."""
    folded = ResponseStream(a_call(**options))
    partials = [shown for event in events if (shown := folded.take(event)) is not None]
    return partials, folded.finish()


def broken(events: Sequence[Any], **options: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        fold(events, **options)
    return caught.value


def calls(whole: ModelResponse) -> list[tuple[str | None, str | None, Any]]:
    assert whole.content is not None
    return [(call.id, call.name, call.args) for call in whole.content.function_calls]


# --- event by event --------------------------------------------------------------------------------------------------


def test_oai_30_text_deltas() -> None:
    partials, found = fold(
        [created(), text_delta("Hel"), text_delta(""), text_delta("lo"), completed(message("Hello"))]
    )
    assert (texts(partials), found.text) == (["Hel", "lo"], "Hello")
    assert all(partial.partial and not partial.turn_complete for partial in partials)
    assert [partial.model_version for partial in partials] == ["gpt-5.2-2026-01-01"] * 2


@pytest.mark.parametrize(
    ("kind", "index"),
    [("response.reasoning_text.delta", "content_index"), ("response.reasoning_summary_text.delta", "summary_index")],
)
def test_oai_30_thought_deltas(kind: str, index: str) -> None:
    events = [{"type": kind, "item_id": "rs_1", "output_index": 0, index: 0, "delta": text} for text in ("h", "", "m")]
    partials, found = fold([created(), *events, text_delta("a", index=1), completed()])
    assert texts(partials) == ["[h]", "[m]", "a"]
    assert texts([found]) == ["[hm]", "a"]


def test_oai_30_what_says_nothing_new_is_ignored() -> None:
    quiet = [
        {"type": "response.in_progress", "response": response(status="in_progress")},
        {"type": "response.queued", "response": response(status="queued")},
        {"type": "response.content_part.added", "item_id": "msg_1", "part": {"type": "output_text", "text": ""}},
        {"type": "response.output_text.done", "item_id": "msg_1", "text": "other"},
        {"type": "response.content_part.done", "item_id": "msg_1", "part": {"type": "output_text", "text": "other"}},
        {"type": "response.reasoning_text.done", "item_id": "rs_1", "text": "other"},
        {"type": "response.reasoning_summary_part.added", "item_id": "rs_1"},
        {"type": "response.reasoning_summary_part.done", "item_id": "rs_1"},
        {"type": "response.reasoning_summary_text.done", "item_id": "rs_1", "text": "other"},
        {"type": "response.refusal.done", "item_id": "msg_1", "refusal": "other"},
        {"type": "response.web_search_call.in_progress", "item_id": "ws_1"},
        {"type": "response.image_generation_call.partial_image", "item_id": "ig_1"},
        {"type": "response.mcp_call_arguments.delta", "item_id": "mcp_1", "delta": "{"},
        {"type": "response.custom_tool_call_input.delta", "item_id": "ct_1", "delta": "x"},
        {"type": "keepalive"},
        {"no": "type"},
        "not an object",
        None,
    ]
    partials, found = fold([created(), text_delta("a"), *quiet, completed()])
    assert (texts(partials), texts([found])) == (["a"], ["a"])


def test_sdk_10_every_event_type_the_sdk_knows_is_handled_or_ignored() -> None:
    """No event type of the installed SDK makes a stream fail."""
    from openai.types.responses import ResponseStreamEvent

    union = typing.get_args(typing.get_args(ResponseStreamEvent)[0])
    kinds = {typing.get_args(event.model_fields["type"].annotation)[0] for event in union}
    ends = {"error", "response.failed", "response.completed", "response.incomplete"}
    assert len(kinds) > 50
    bare = [{"type": kind} for kind in sorted(kinds - ends)]
    assert fold([created(), *bare, text_delta("a"), completed()])[1].text == "a"


def test_oai_30_a_call_streams() -> None:
    item = function_call("f", '{"a": 1}', "call_7")
    partials, found = fold(stream(item, size=4))
    assert calls(found) == [("call_7", "f", {"a": 1})]
    shown = [part.function_call for partial in partials for part in (partial.content.parts if partial.content else ())]
    assert {(call.id, call.name) for call in shown if call} == {("call_7", "f")}
    assert [call.will_continue for call in shown if call] == [True, True, True, None]
    assert shown[-1] is not None
    assert shown[-1].args == {"a": 1}


def test_oai_33_argument_deltas_are_shown_as_they_come() -> None:
    partials, _ = fold(stream(function_call("f", '{"a": 1}'), size=4))
    deltas = [
        (part.part_metadata or {}).get("openai", {}).get("arguments_delta")
        for partial in partials
        for part in (partial.content.parts if partial.content else ())
    ]
    assert deltas == [None, '{"a"', ": 1}", None]


def test_oai_30_arguments_of_the_event_come_before_the_buffer_and_none_are_an_empty_object() -> None:
    start = added(function_call("f", ""))
    assert calls(fold([start, arguments_delta('{"a": 1}'), arguments_done('{"a": 2}'), completed()])[1])[0][2] == {
        "a": 2
    }
    assert calls(fold([start, arguments_delta('{"a": 1}'), arguments_done(""), completed()])[1])[0][2] == {"a": 1}
    assert calls(fold([start, arguments_done(""), completed()])[1])[0][2] == {}


def test_oai_30_name_and_id_come_from_the_event_or_from_the_start_of_the_item() -> None:
    named = arguments_done("{}", name="g")
    assert calls(fold([added(function_call("f", "", "c1")), named, completed()])[1]) == [("c1", "g", {})]
    assert calls(fold([named, completed()])[1]) == [("fc_1", "g", {})], "the item's id where there is no call id"


def test_oai_33_a_call_that_was_only_said_to_be_done() -> None:
    partials, found = fold([created(), done(function_call("f", '{"a": 1}', "c1")), completed()])
    assert calls(found) == [("c1", "f", {"a": 1})]
    assert texts(partials) == ["f()"]


def test_oai_33_refusals_are_text() -> None:
    item = {**message(), "content": [{"type": "refusal", "refusal": "I will not"}]}
    partials, found = fold(stream(item, size=6))
    assert (texts(partials), found.text) == (["I will", " not"], "I will not")


def test_oai_33_url_citations() -> None:
    cited = {"type": "url_citation", "start_index": 0, "end_index": 1, "title": "T", "url": "https://h"}
    kind = "response.output_text.annotation.added"
    event = {"type": kind, "item_id": "msg_1", "output_index": 0, "content_index": 0, "annotation": cited}
    found = fold([text_delta("a"), event, completed()])[1].citation_metadata
    assert found is not None
    assert [citation.uri for citation in found.citations or ()] == ["https://h"]


def test_oai_33_what_never_streamed_is_appended() -> None:
    item, call = message("a"), function_call("f", "{}", "c1")
    found = fold([created(), *item_events(item), completed(item, call, message("b", id="msg_2"))])[1]
    assert texts([found]) == ["a", "f()", "b"]


def test_oai_33_an_end_that_holds_less_takes_nothing_away() -> None:
    events = [created(), *item_events(message("ab")), *item_events(function_call("f", '{"n": 1}'), 1)]
    for end in (completed(), completed(message("")), completed(function_call("f", "", "call_1"))):
        assert texts([fold([*events, end])[1]]) == ["ab", "f()"]


def test_oai_33_what_the_end_repeats_under_another_id_is_not_said_twice() -> None:
    """Told by its place, or, for a call in an output that lacks what came before it, by its call id."""
    said, call = message("ab"), function_call("f", '{"n": 1}')
    events = [created(), *item_events(said), *item_events(call, 1)]
    renamed = completed({**said, "id": "other"}, {**call, "id": "else"})
    assert texts([fold([*events, renamed])[1]]) == ["ab", "f()"]
    alone = completed({**call, "id": "else"})
    assert texts([fold([*events, alone])[1]]) == ["ab", "f()"]


def test_agg_29_two_equal_calls_are_two_calls() -> None:
    first, second = function_call("f", "{}", "c1", "fc_1"), function_call("f", "{}", "c2", "fc_2")
    assert calls(fold(stream(first, second))[1]) == [("c1", "f", {}), ("c2", "f", {})]


def test_oai_34_encrypted_reasoning_comes_from_the_finished_item() -> None:
    item = reasoning("hm", encrypted="ENC")
    found = fold([created(), *item_events(item), text_delta("a", index=1), completed()])[1]
    assert found.content is not None
    assert (found.content.parts[0].part_metadata or {})["openai"]["reasoning"]["encrypted_content"] == "ENC"


# --- ends ------------------------------------------------------------------------------------------------------------


def test_oai_30_without_deltas_the_end_is_read_as_an_unstreamed_answer() -> None:
    output = [reasoning("hm"), message("a"), function_call("f", '{"n": 1}')]
    partials, found = fold([created(), completed(*output)])
    assert partials == []
    assert found == whole_response(a_call(), response(*output))
    assert broken([created(), completed()]).code == "no_output_items"


def test_oai_31_the_end_says_usage_reason_and_logprobs() -> None:
    item = message("a")
    item["content"][0]["logprobs"] = [{"token": "a", "logprob": -0.1, "top_logprobs": []}]
    events = [created(), text_delta("a"), completed(item, usage=usage(7, 0, 3, 0))]
    found = fold(events)[1]
    assert found.usage_metadata is not None
    assert (found.usage_metadata.prompt_token_count, found.usage_metadata.candidates_token_count) == (7, 3)
    assert (found.turn_complete, found.finish_reason, found.partial) == (True, "STOP", None)
    assert found.logprobs_result is not None
    assert found.custom_metadata == {"openai_response_id": "resp_1", "openai_model": "gpt-5.2-2026-01-01"}


def test_oai_30_the_first_end_counts() -> None:
    late = [completed(message("late", id="m9")), created(model="other"), {"type": "error", "message": "late"}]
    found = fold([created(), text_delta("a"), incomplete("max_output_tokens"), *late])[1]
    assert (found.text, found.finish_reason, found.model_version) == ("a", "MAX_TOKENS", "gpt-5.2-2026-01-01")


def test_oai_30_a_failed_response_is_raised() -> None:
    failed = response(status="failed", error={"code": "rate_limit_exceeded", "message": "Slow down."})
    error = broken([created(), text_delta("a"), {"type": "response.failed", "response": failed}])
    assert (error.code, error.retryable, error.after_first_chunk) == ("rate_limit_exceeded", True, True)
    assert "Slow down." in str(error)


def test_oai_30_an_error_event_is_raised() -> None:
    error = broken([{"type": "error", "code": "server_error", "message": "It broke.", "param": None}])
    assert (error.kind, error.code, error.after_first_chunk) == ("unavailable", "server_error", False)
    assert "It broke." in str(error)


def test_oai_32_a_stream_without_an_end_is_no_answer() -> None:
    for events in ([], [created()], [created(), text_delta("half")]):
        error = broken(events)
        assert (error.kind, error.retryable) == ("stream", True), "AGG-31: no event at all is none either"
    assert error.after_first_chunk


def test_oai_32_unless_the_server_is_known_never_to_send_one() -> None:
    found = fold([created(), text_delta("a")], accept_unterminated=True)[1]
    assert (found.text, found.finish_reason, found.usage_metadata) == ("a", "FINISH_REASON_UNSPECIFIED", None)
    torso = [added(function_call("f", "")), arguments_delta('{"a":')]
    assert broken([created(), *torso], accept_unterminated=True).code == "bad_call_arguments"


def test_case_model_2_a_call_cut_by_the_limit_is_not_run() -> None:
    """AGG-32."""
    begun = added(function_call("write", "", "call_7"))
    events = [created(), text_delta("so "), added(function_call("write", "", "call_7"), 1)]
    events += [arguments_delta('{"path": "/a", "te', index=1), incomplete("max_output_tokens")]
    found = fold(events)[1]
    assert (found.finish_reason, found.error_code) == ("MAX_TOKENS", "MAX_TOKENS")
    assert "'write'" in (found.error_message or "")
    assert (found.text, calls(found)) == ("so ", [])
    alone = fold([created(), begun, incomplete("max_output_tokens")])[1]
    assert (alone.content, alone.error_code) == (None, "MAX_TOKENS"), "never completed with {}"


def test_case_model_2_a_call_that_was_whole_before_the_limit_is_kept_beside_the_error() -> None:
    whole_call, torso = function_call("f", "{}", "c1", "fc_1"), added(function_call("g", "", "c2", "fc_2"), 1)
    end = [torso, arguments_delta('{"x', "fc_2", 1), incomplete("max_output_tokens")]
    found = fold([created(), *item_events(whole_call), *end])[1]
    assert (calls(found), found.error_code) == ([("c1", "f", {})], "MAX_TOKENS")


# --- which item a fragment belongs to --------------------------------------------------------------------------------


def test_case_stream_2_interleaved_arguments() -> None:
    events = [
        created(),
        added(function_call("f", "", "c1", "i1"), 0),
        added(function_call("g", "", "c2", "i2"), 1),
        arguments_delta('{"a":', "i1", 0),
        arguments_delta('{"b":', "i2", 1),
        arguments_delta("1}", "i1", 0),
        arguments_delta("2}", "i2", 1),
        arguments_done("", "i2", 1),
        arguments_done("", "i1", 0),
        completed(),
    ]
    partials, found = fold(events)
    assert calls(found) == [("c1", "f", {"a": 1}), ("c2", "g", {"b": 2})]
    shown = {part.function_call.id for p in partials if p.content for part in p.content.parts if part.function_call}
    assert shown == {"c1", "c2"}


def without(event: Event, *names: str) -> Event:
    kept = {name: value for name, value in event.items() if name not in names}
    if isinstance(kept.get("item"), dict) and "item_id" in names:
        kept["item"] = {name: value for name, value in kept["item"].items() if name != "id"}
    return kept


def test_oai_35_without_item_ids_the_place_tells() -> None:
    first, second = function_call("f", '{"a": 1}', "c1", "i1"), function_call("g", '{"b": 2}', "c2", "i2")
    one, two = item_events(first, 0), item_events(second, 1)
    mixed = [event for pair in zip(one, two, strict=True) for event in pair]
    found = fold([created(), *(without(event, "item_id") for event in mixed), completed()])[1]
    assert calls(found) == [("c1", "f", {"a": 1}), ("c2", "g", {"b": 2})]


def test_oai_35_without_ids_and_places_the_newest_item_of_the_kind_is_meant() -> None:
    items = [message("ab"), function_call("f", '{"a": 1}', "c1"), function_call("g", '{"b": 2}', "c2")]
    events = [without(event, "item_id", "output_index") for item in items for event in item_events(item)]
    found = fold([created(), *events, completed()])[1]
    assert found.text == "ab"
    assert calls(found) == [("c1", "f", {"a": 1}), ("c2", "g", {"b": 2})]
    deltas = [{"type": "response.output_text.delta", "delta": text} for text in ("a", "b")]
    assert fold([*deltas, completed()])[1].text == "ab"


def test_oai_35_ids_that_change_from_event_to_event_are_seen_through() -> None:
    """Some gateways give each event an id of its own; the place stays."""
    item = function_call("f", '{"a": 1}', "c1")
    events = [
        {**event, "item_id": f"x{n}"} if "item_id" in event else event for n, event in enumerate(item_events(item))
    ]
    assert calls(fold([created(), *events, completed({**item, "id": "other"})])[1]) == [("c1", "f", {"a": 1})]


def test_agg_23_a_call_without_any_id_keeps_the_one_it_is_given() -> None:
    item = function_call("f", '{"a": 1}')
    item = without(item, "id", "call_id")
    events = [without(event, "item_id") for event in item_events({**item, "id": ""})]
    partials, found = fold([created(), *events, completed()])
    shown = {part.function_call.id for p in partials if p.content for part in p.content.parts if part.function_call}
    assert shown == {calls(found)[0][0]}
    assert str(calls(found)[0][0]).startswith("adk-")


def test_mod_14_one_id_for_two_calls_is_told_apart_from_the_first_fragment_on() -> None:
    """CASE-HIST-3."""
    items = [function_call("w", json.dumps({"n": n}), "w", f"fc_{n}") for n in range(2)]
    partials, found = fold(stream(*items))
    made = [(name, args) for _, name, args in calls(found)]
    assert made == [("w", {"n": 0}), ("w", {"n": 1})]
    ids = [call_id for call_id, _, _ in calls(found)]
    shown = [part.function_call.id for p in partials if p.content for part in p.content.parts if part.function_call]
    assert (ids[0], len(set(ids)), set(shown)) == ("w", 2, set(ids))


# --- laws ------------------------------------------------------------------------------------------------------------

words = st.text("abc é€\n", min_size=1, max_size=8)
arguments = st.dictionaries(st.sampled_from(["a", "b"]), st.integers() | words, max_size=2)


@st.composite
def outputs(draw: st.DrawFn) -> list[Event]:
    items: list[Event] = []
    for n in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["message", "call", "reasoning"]))
        if kind == "message":
            items.append(message(*draw(st.lists(words, min_size=1, max_size=2)), id=f"msg_{n}"))
        elif kind == "call":
            items.append(function_call(f"f{n}", json.dumps(draw(arguments)), f"call_{n}", f"fc_{n}"))
        else:
            encrypted = draw(st.sampled_from([None, f"ENC{n}"]))
            items.append(reasoning(*draw(st.lists(words, min_size=1, max_size=2)), id=f"rs_{n}", encrypted=encrypted))
    return items


def interleaved(draw: st.DrawFn, streams: list[list[Event]]) -> list[Event]:
    """One of the orders in which the events of several items may arrive."""
    left = [list(events) for events in streams]
    mixed: list[Event] = []
    while any(left):
        chosen = draw(st.sampled_from([events for events in left if events]))
        mixed.append(chosen.pop(0))
    return mixed


@given(st.data())
def test_mod_2_every_interleaving_of_the_items_gives_what_the_unstreamed_answer_gives(data: st.DataObject) -> None:
    """Whatever the order, the size of the deltas, and however much of its output the end repeats."""
    items = data.draw(outputs())
    size = data.draw(st.integers(1, 5))
    streams = [item_events(item, index, size) for index, item in enumerate(items)]
    events = data.draw(st.composite(lambda draw: interleaved(draw, streams))())
    repeated = data.draw(st.sampled_from([items, [], items[:1], items[1:]]))
    partials, found = fold([created(), *events, completed(*repeated)])
    assert found == whole_response(a_call(), response(*items))
    shown = "".join(text for text in texts(partials) if not text.endswith(("]", "()")))
    if events == [event for stream in streams for event in stream]:
        assert shown == found.text


@given(outputs(), st.integers(1, 5), st.booleans())
def test_mod_3_partials_make_up_the_whole(items: list[Event], size: int, thought: bool) -> None:
    partials, found = fold(stream(*items, size=size))

    def said(responses: Sequence[ModelResponse]) -> str:
        parts = [part for response in responses if response.content for part in response.content.parts]
        return "".join(part.text for part in parts if part.text and bool(part.thought) == thought)

    assert said(partials) == said([found])


# --- over the wire ---------------------------------------------------------------------------------------------------


async def test_mod_2_streamed_and_unstreamed_calls_agree(service: Service) -> None:
    output = [reasoning("hm", encrypted="ENC"), message("Hello"), function_call("f", '{"a": 1}')]
    service.answers(Json(response(*output)), Sse(stream(*output)))
    model = model_on(service)
    unstreamed, streamed = await whole(model), await whole(model, stream=True)
    assert streamed == unstreamed
    assert service.body["stream"] is True


async def test_case_stream_2_three_calls_and_the_end_at_once(service: Service) -> None:
    items = [function_call("f", "{}", f"c{n}", f"fc_{n}") for n in range(3)]
    service.answers(
        Sse([created(), *(done(item, n) for n, item in enumerate(items)), completed(*items)], pieces=[10**6])
    )
    found = await whole(model_on(service), stream=True)
    assert calls(found) == [("c0", "f", {}), ("c1", "f", {}), ("c2", "f", {})]


async def test_sse_may_be_split_anywhere(service: Service) -> None:
    """Every piece length, so that lines, UTF-8 sequences and blank lines are all cut."""
    output = [message("Grüße €"), function_call("f", '{"stadt": "Köln"}')]
    events, wanted = stream(*output), whole_response(a_call(), response(*output))
    model = model_on(service)
    for length in (1, 2, 3, 7, 64):
        service.answers(Sse(events, pieces=[length]), Sse(events, pieces=[length], named=False))
        for _ in range(2):
            assert await whole(model, stream=True) == wanted


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_sse_may_be_split_at_any_boundaries(pieces: list[int]) -> None:
    """The SDK's own decoder, fed piece by piece."""
    from openai._streaming import SSEDecoder

    output = [message("Grüße €"), function_call("f", '{"stadt": "Köln"}')]
    data = b"".join(Sse(stream(*output)).frames())
    events = [event.json() for event in SSEDecoder().iter_bytes(pieces_of(data, pieces))]
    assert fold(events)[1] == whole_response(a_call(), response(*output))


async def test_oai_30_the_error_object_some_servers_send(service: Service) -> None:
    service.answers(
        Sse([created(), text_delta("a"), {"type": "error", "error": {"code": "server_error", "message": "x"}}])
    )
    with pytest.raises(ModelError) as caught:
        await ask(model_on(service), stream=True)
    assert (caught.value.code, caught.value.after_first_chunk) == ("server_error", True)
