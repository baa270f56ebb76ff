"""Stream aggregation: models AGG-1 … AGG-32."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork.errors import ModelError
from hookwork.platform import use_uuids
from hookwork.records.content import (
    Blob,
    Content,
    ExecutableCode,
    FunctionCall,
    Part,
    PartialArg,
)
from hookwork.records.metadata import (
    Citation,
    CitationMetadata,
    GroundingMetadata,
    LogprobsResult,
    ModelResponse,
    UsageMetadata,
)
from hookwork_modelkit import StreamAggregator, whole_response


def chunk(*parts: Part, **fields: Any) -> ModelResponse:
    return ModelResponse(content=Content(role="model", parts=list(parts)), **fields)


def text(value: str, **fields: Any) -> Part:
    return Part(text=value, **fields)


def thought(value: str, **fields: Any) -> Part:
    return Part(text=value, thought=True, **fields)


def call(name: str | None = None, signature: bytes | None = None, **fields: Any) -> Part:
    return Part(function_call=FunctionCall(name=name, **fields), thought_signature=signature)


def arg(path: str | None, **value: Any) -> PartialArg:
    return PartialArg(json_path=path, **value)


def fragment(name: str | None, *pieces: PartialArg, more: bool | None = True, **fields: Any) -> Part:
    signature = fields.pop("signature", None)
    return call(name, signature, partial_args=pieces or None, will_continue=more, **fields)


def aggregated(*chunks: ModelResponse) -> ModelResponse:
    aggregator = StreamAggregator(provider="test", model="m")
    for item in chunks:
        aggregator.add(item)
    return aggregator.finish()


def parts_of(*chunks: ModelResponse) -> list[Part]:
    content = aggregated(*chunks).content
    assert content is not None
    return list(content.parts)


# --- chunks and what is kept ------------------------------------------------------------------------------------------


def test_agg_1_every_chunk_is_given_back_as_a_partial_metadata_only_ones_too() -> None:
    aggregator = StreamAggregator()
    shown = [
        aggregator.add(chunk(text("a"))),
        aggregator.add(ModelResponse(usage_metadata=UsageMetadata(prompt_token_count=3))),
    ]
    assert [item.partial for item in shown] == [True, True]
    assert shown[0].text == "a"
    assert shown[1].usage_metadata == UsageMetadata(prompt_token_count=3)


def test_agg_2_the_last_value_that_is_set_is_kept() -> None:
    first, last = UsageMetadata(prompt_token_count=3), UsageMetadata(prompt_token_count=3, candidates_token_count=2)
    grounding, citations = (
        GroundingMetadata(web_search_queries=("q",)),
        CitationMetadata(citations=(Citation(uri="u"),)),
    )
    whole = aggregated(
        chunk(text("a"), usage_metadata=first, grounding_metadata=grounding, citation_metadata=citations),
        chunk(text("b"), usage_metadata=last, finish_reason="STOP"),
        ModelResponse(finish_reason=""),
    )
    assert whole.usage_metadata == last
    assert whole.grounding_metadata == grounding
    assert whole.citation_metadata == citations
    assert whole.finish_reason == "STOP"


def test_agg_3_empty_parts_are_dropped() -> None:
    assert parts_of(chunk(Part()), chunk(text("a")), chunk(text("")), chunk(Part())) == [text("a")]


def test_agg_4_neighbouring_texts_of_one_kind_become_one_part() -> None:
    assert parts_of(chunk(thought("h")), chunk(thought("m"), text("It ")), chunk(text("is"))) == [
        thought("hm"),
        text("It is"),
    ]


def test_agg_5_other_parts_end_a_text_and_keep_their_place() -> None:
    code = Part(executable_code=ExecutableCode(code="1"))
    assert parts_of(chunk(text("a"), code), chunk(text("b")), chunk(text("c"))) == [text("a"), code, text("bc")]


def test_agg_6_five_runs_are_five_parts() -> None:
    given = [thought("t"), text("x"), call("f"), thought("u"), call("g")]
    pieces = [thought("t"), thought(""), text("x"), call("f"), thought("u"), call("g")]
    assert parts_of(*[chunk(piece) for piece in pieces]) == given


def test_agg_7_bytes_files_and_signatures_are_never_merged() -> None:
    blob = Part(inline_data=Blob(data=b"1", mime_type="image/png"))
    sign = Part(thought_signature=b"s")
    assert parts_of(chunk(blob), chunk(blob), chunk(sign), chunk(sign)) == [blob, blob, sign, sign]


# --- signatures -------------------------------------------------------------------------------------------------------


def test_agg_8_a_loose_signature_goes_to_the_next_call_and_to_no_other() -> None:
    """CASE-STREAM-1: nothing is invented for the second and third call."""
    given = parts_of(
        chunk(thought("t")), chunk(Part(text="", thought_signature=b"\x01\xff"), call("a")), chunk(call("b"), call("c"))
    )
    assert [(p.function_call.name, p.thought_signature) for p in given if p.function_call] == [
        ("a", b"\x01\xff"),
        ("b", None),
        ("c", None),
    ]


def test_agg_8_a_call_with_a_signature_of_its_own_uses_the_loose_one_up() -> None:
    given = parts_of(chunk(Part(thought_signature=b"loose"), call("a", b"own"), call("b")))
    assert [p.thought_signature for p in given] == [b"loose", b"own", None]


def test_agg_8_a_signature_on_another_part_is_given_on() -> None:
    code = Part(executable_code=ExecutableCode(code="1"), thought_signature=b"s")
    assert parts_of(chunk(code, call("a")))[1].thought_signature == b"s"


def test_agg_9_a_part_that_is_only_a_signature_stays_and_gives_it_on() -> None:
    sign = Part(thought_signature=b"s")
    assert parts_of(chunk(sign), chunk(call("a"))) == [sign, call("a", b"s")]


def test_agg_10_a_signature_on_text_stays_with_the_text() -> None:
    given = parts_of(
        chunk(text("a")), chunk(text("b", thought_signature=b"1")), chunk(text("", thought_signature=b"2"), call("f"))
    )
    assert given == [text("ab", thought_signature=b"1"), call("f")]


def test_agg_11_signatures_are_bytes_and_untouched() -> None:
    raw = bytes(range(256))
    assert parts_of(chunk(call("f", raw)))[0].thought_signature == raw


# --- calls ------------------------------------------------------------------------------------------------------------


def test_agg_12_a_call_that_goes_on_is_a_fragment_and_any_other_is_complete() -> None:
    given = parts_of(
        chunk(call("a", args={"x": 1})), chunk(fragment("b", arg("$.y", number_value=2), more=None)), chunk(call("c"))
    )
    assert [(p.function_call.name, p.function_call.args) for p in given if p.function_call] == [
        ("a", {"x": 1}),
        ("b", {"y": 2}),
        ("c", None),
    ]


def test_agg_13_a_complete_call_is_appended_unchanged_and_one_without_a_name_ignored() -> None:
    whole = call("f", id="c1", args={"a": [1, {"b": None}]})
    assert parts_of(chunk(text("t"), whole, call(None))) == [text("t"), whole]


def test_agg_14_name_id_and_first_signature_come_from_the_fragments() -> None:
    given = parts_of(
        chunk(fragment("f", id="c1")),
        chunk(fragment(None, arg("$.a", string_value="x"), signature=b"1")),
        chunk(fragment(None, arg("$.a", string_value="y"), signature=b"2", more=False)),
    )
    assert given == [call("f", b"1", id="c1", args={"a": "xy"})]


def test_agg_15_strings_append_and_other_values_replace() -> None:
    given = parts_of(
        chunk(fragment("f", arg("$.s", string_value="a"), arg("$.n", number_value=1.5), arg("$.b", bool_value=False))),
        chunk(fragment(None, arg("$.s", string_value="b"), arg("$.n", number_value=3.0), arg("$.b", bool_value=True))),
        chunk(fragment(None, arg("$.z", null_value="NULL_VALUE"), arg(None, string_value="?"), arg("$.v"), id=None)),
        chunk(call(None)),
    )
    args = given[0].function_call.args if given[0].function_call else None
    assert args == {"s": "ab", "n": 3, "b": True, "z": None}
    assert type(args["n"]) is int  # as in a call that comes in one piece


def test_agg_16_objects_are_made_on_the_way_and_replace_what_is_none() -> None:
    given = parts_of(
        chunk(fragment("f", arg("$.a", string_value="plain"), arg("$.a.b.c", number_value=1))),
        chunk(fragment(None, arg("$.a.b.d", bool_value=True))),
    )
    assert given[0].function_call == FunctionCall(
        id=given[0].function_call.id, name="f", args={"a": {"b": {"c": 1, "d": True}}}
    )


def test_agg_17_a_fragment_that_does_not_go_on_closes_its_call() -> None:
    given = parts_of(
        chunk(text("t"), fragment("f", arg("$.a", number_value=1), more=False, id="1")),
        chunk(fragment("f", arg("$.a", number_value=2), more=False, id="2")),
    )
    assert given == [text("t"), call("f", id="1", args={"a": 1}), call("f", id="2", args={"a": 2})]


def test_agg_18_a_call_that_is_open_at_a_good_end_is_complete() -> None:
    given = aggregated(
        chunk(fragment("f", arg("$.a", number_value=1), id="1")), chunk(call(None), finish_reason="STOP")
    )
    assert given.content == Content(role="model", parts=[call("f", id="1", args={"a": 1})])
    still_open = parts_of(chunk(fragment("f", arg("$.a", number_value=1), id="1")), chunk(Part(), finish_reason="STOP"))
    assert still_open == [call("f", id="1", args={"a": 1})]


def test_agg_19_a_call_that_never_got_a_name_is_dropped() -> None:
    assert parts_of(chunk(text("t"), fragment(None, arg("$.a", number_value=1)))) == [text("t")]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("$.items[0].name", {"items": [{"name": "v"}]}),
        ("$.a['b.c']", {"a": {"b.c": "v"}}),
        ('$["a"]["b\\"c"]', {"a": {'b"c': "v"}}),
        ("$.a[2]", {"a": [None, None, "v"]}),
        ("$.m[0][1]", {"m": [[None, "v"]]}),
        ("a.b", {"a": {"b": "v"}}),
        ("$.a[10001]", {}),
        ("$.a[99999999999]", {}),
        ("$[0]", {}),
        ("$", {}),
        ("$.a[", {}),
        ("$" + ".a" * 65, {}),
    ],
)
def test_agg_20_paths_may_have_array_steps_and_quoted_keys(path: str, wanted: dict[str, Any]) -> None:
    given = parts_of(chunk(fragment("f", arg(path, string_value="v"), more=False)))
    assert given[0].function_call is not None
    assert given[0].function_call.args == wanted


def test_agg_20_the_largest_index_is_ten_thousand() -> None:
    given = parts_of(chunk(fragment("f", arg("$.a[10000]", string_value="v"), more=False)))
    assert given[0].function_call is not None
    assert given[0].function_call.args is not None
    assert len(given[0].function_call.args["a"]) == 10_001


def test_agg_21_another_name_closes_the_open_call_and_a_call_stands_where_it_began() -> None:
    given = parts_of(
        chunk(fragment("f", arg("$.a", string_value="1"), id="1")),
        chunk(text("between")),
        chunk(fragment("g", arg("$.a", string_value="2"), id="2")),
        chunk(call("h", id="3", args={})),
    )
    assert given == [
        call("f", id="1", args={"a": "1"}),
        text("between"),
        call("g", id="2", args={"a": "2"}),
        call("h", id="3", args={}),
    ]


def test_agg_21_fragments_that_carry_ids_may_alternate() -> None:
    """CASE-STREAM-2: arguments of parallel calls are not glued together."""
    given = parts_of(
        chunk(fragment("f", arg("$.s", string_value="a"), id="1")),
        chunk(fragment("f", arg("$.s", string_value="x"), id="2")),
        chunk(fragment(None, arg("$.s", string_value="b"), id="1", more=False)),
        chunk(fragment(None, arg("$.s", string_value="y"), id="2", more=False)),
    )
    assert given == [call("f", id="1", args={"s": "ab"}), call("f", id="2", args={"s": "xy"})]


def test_agg_22_an_empty_string_makes_the_key() -> None:
    given = parts_of(chunk(fragment("f", arg("$.a", string_value=""), more=False, id="1")))
    assert given == [call("f", id="1", args={"a": ""})]


def test_agg_23_an_open_call_has_one_id_from_its_first_fragment_on() -> None:
    aggregator = StreamAggregator()
    with use_uuids(lambda: "u1"):
        shown = [
            aggregator.add(chunk(fragment("f"))),
            aggregator.add(chunk(fragment(None, arg("$.a", string_value="x")))),
            aggregator.add(chunk(call(None))),
        ]
        whole = aggregator.finish()
    ids = [part.function_call.id for item in shown[:2] for part in item.content.parts]
    assert ids == ["adk-u1", "adk-u1"]
    assert whole.content == Content(role="model", parts=[call("f", id="adk-u1", args={"a": "x"})])


def test_agg_23_an_announced_call_that_comes_whole_keeps_its_place() -> None:
    given = parts_of(
        chunk(fragment("f", id="1"), fragment("g", id="2")),
        chunk(call("g", id="2", args={"b": 2})),
        chunk(call("f", id="1", args={"a": 1})),
    )
    assert given == [call("f", id="1", args={"a": 1}), call("g", id="2", args={"b": 2})]


# --- the whole --------------------------------------------------------------------------------------------------------


def test_agg_24_the_whole_has_the_models_role_and_all_that_was_kept() -> None:
    usage = UsageMetadata(total_token_count=4)
    whole = aggregated(chunk(text("a"), usage_metadata=usage), ModelResponse(finish_reason="STOP"))
    assert whole.content == Content(role="model", parts=[text("a")])
    assert not whole.partial
    assert (whole.finish_reason, whole.usage_metadata) == ("STOP", usage)


def test_agg_25_the_last_error_that_was_said_counts() -> None:
    """A chunk of metadata at the end erases nothing, nor does text in front."""
    whole = aggregated(
        chunk(text("a")),
        ModelResponse(finish_reason="SAFETY", error_code="SAFETY", error_message="no"),
        ModelResponse(usage_metadata=UsageMetadata(total_token_count=1)),
    )
    assert (whole.error_code, whole.error_message) == ("SAFETY", "no")


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "UNEXPECTED_TOOL_CALL"])
def test_agg_25_a_text_that_was_cut_is_a_success(reason: str) -> None:
    """CONV-2: no error code, whatever the finish reason; MOD-2: streamed as unstreamed."""
    unstreamed = {"content": {"parts": [{"text": "ab"}]}, "finishReason": reason, "finishMessage": "no"}
    assert whole_response({"candidates": [unstreamed]}).error_code is None
    for end in (chunk(text("b"), finish_reason=reason), ModelResponse(finish_reason=reason, error_code=reason)):
        whole = aggregated(chunk(text("a")), end)
        assert whole.error_code is None
        assert whole.finish_reason == reason


def test_agg_26_the_turn_is_complete_with_the_whole_and_not_before() -> None:
    aggregator = StreamAggregator()
    partial = aggregator.add(chunk(text("a"), finish_reason="STOP", turn_complete=True))
    assert not partial.turn_complete
    assert partial.finish_reason is None
    whole = aggregator.finish()
    assert whole.turn_complete is True
    assert whole.finish_reason == "STOP"


def test_agg_27_version_logprobs_and_labels_reach_the_whole() -> None:
    logprobs = LogprobsResult(chosen_candidates=())
    whole = aggregated(
        chunk(text("a"), model_version="v", avg_logprobs=-0.5, logprobs_result=logprobs, custom_metadata={"a": 1}),
        chunk(text("b"), custom_metadata={"b": 2}),
    )
    assert (whole.model_version, whole.avg_logprobs, whole.logprobs_result) == ("v", -0.5, logprobs)
    assert whole.custom_metadata == {"a": 1, "b": 2}


def test_agg_28_no_content_is_none_with_an_error_and_empty_with_a_reason() -> None:
    refused = aggregated(ModelResponse(error_code="SAFETY", finish_reason="SAFETY"))
    assert refused.content is None
    assert refused.error_code == "SAFETY"
    assert aggregated(ModelResponse(finish_reason="STOP")).content == Content(role="model", parts=[])


def test_agg_29_equal_calls_are_two_calls() -> None:
    """CASE-HIST-3: a server that gives every call the same id still means two calls."""
    twice = call("w", id="w", args={"city": "A"})
    assert parts_of(chunk(twice, twice)) == [twice, twice]
    streamed = fragment("w", arg("$.city", string_value="A"), id="w", more=False)
    assert parts_of(chunk(streamed), chunk(streamed)) == [twice, twice]


def test_agg_31_a_stream_without_a_chunk_is_an_error() -> None:
    with pytest.raises(ModelError) as caught:
        StreamAggregator(provider="gcp.gemini", model="m").finish()
    error = caught.value
    assert (error.kind, error.retryable, error.provider, error.model) == ("stream", True, "gcp.gemini", "m")


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "SAFETY"])
def test_agg_32_a_call_that_was_cut_off_is_not_called(reason: str) -> None:
    """CASE-MODEL-2."""
    whole = aggregated(
        chunk(text("I write.")),
        chunk(fragment("write", arg("$.path", string_value="/a"))),
        chunk(fragment(None, arg("$.text", string_value="te"))),
        ModelResponse(finish_reason=reason),
    )
    assert whole.content == Content(role="model", parts=[text("I write.")])
    assert (whole.finish_reason, whole.error_code) == (reason, reason)
    assert "'write'" in (whole.error_message or "")


def test_agg_32_calls_that_were_closed_before_the_cut_stay() -> None:
    whole = aggregated(
        chunk(fragment("a", arg("$.x", number_value=1), more=False, id="1")),
        chunk(fragment("b", arg("$.x", number_value=1), id="2")),
        chunk(fragment("c", arg("$.x", number_value=1), id="3"), finish_reason="MAX_TOKENS"),
    )
    assert [part.function_call.name for part in whole.content.parts] == ["a", "b"]
    assert "'c'" in whole.error_message


def test_agg_32_an_adapter_tells_of_a_call_whose_text_does_not_parse() -> None:
    aggregator = StreamAggregator()
    aggregator.add(chunk(fragment("write", id="1")))
    aggregator.cut_call("write", "1")
    aggregator.finish_reason = "MAX_TOKENS"
    whole = aggregator.finish()
    assert whole.content is None
    assert whole.error_code == "MAX_TOKENS"
    assert "'write'" in (whole.error_message or "")
