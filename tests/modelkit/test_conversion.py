"""Response conversion: models CONV-1 … CONV-6."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork.errors import ValidationError
from hookwork.records.content import Content, Part
from hookwork.records.metadata import UsageMetadata
from hookwork_modelkit import convert_response

USAGE = {"promptTokenCount": 5, "candidatesTokenCount": 2, "thoughtsTokenCount": 0, "totalTokenCount": 7}


def candidate(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"content": {"role": "model", "parts": list(parts)}, **fields}


def test_conv_1_only_the_first_candidate_counts() -> None:
    response = convert_response({"candidates": [candidate({"text": "a"}), candidate({"text": "b"})]})
    assert response.text == "a"


def test_conv_2_a_candidate_with_parts_is_a_success_whatever_its_reason() -> None:
    response = convert_response(
        {
            "candidates": [
                candidate(
                    {"text": "a", "thoughtSignature": "Af8="},
                    finishReason="MAX_TOKENS",
                    finishMessage="too long",
                    avgLogprobs=-0.25,
                    logprobsResult={"chosenCandidates": [{"token": "a", "logProbability": -0.25}]},
                    groundingMetadata={"webSearchQueries": ["q"]},
                    citationMetadata={"citations": [{"uri": "u", "startIndex": 1}]},
                )
            ],
            "usageMetadata": USAGE,
            "modelVersion": "gemini-x",
        }
    )
    assert response.content == Content(role="model", parts=[Part(text="a", thought_signature=b"\x01\xff")])
    assert (response.error_code, response.finish_reason) == (None, "MAX_TOKENS")
    assert response.avg_logprobs == -0.25
    assert response.logprobs_result is not None
    assert response.grounding_metadata is not None
    assert response.grounding_metadata.web_search_queries == ("q",)
    assert response.citation_metadata is not None
    assert response.usage_metadata == UsageMetadata(
        prompt_token_count=5, candidates_token_count=2, thoughts_token_count=0, total_token_count=7
    )
    assert response.model_version == "gemini-x"


@pytest.mark.parametrize("content", [{}, {"content": {"role": "model"}}, {"content": {"parts": []}}])
def test_conv_2_stop_is_a_success_without_a_part_too(content: dict[str, Any]) -> None:
    response = convert_response({"candidates": [{**content, "finishReason": "STOP"}]})
    assert response.error_code is None
    assert response.finish_reason == "STOP"
    assert response.content is None or response.content.parts == []


def test_conv_3_a_candidate_without_parts_is_an_error_by_its_reason() -> None:
    response = convert_response(
        {"candidates": [{"finishReason": "SAFETY", "finishMessage": "no"}], "usageMetadata": USAGE, "modelVersion": "v"}
    )
    assert (response.content, response.error_code, response.error_message) == (None, "SAFETY", "no")
    assert (response.finish_reason, response.model_version) == ("SAFETY", "v")
    assert response.usage_metadata is not None


def test_conv_4_a_blocked_prompt_is_an_error_by_its_block_reason() -> None:
    response = convert_response(
        {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "no"}, "usageMetadata": USAGE}
    )
    assert (response.content, response.error_code, response.error_message) == (None, "PROHIBITED_CONTENT", "no")
    assert response.usage_metadata is not None


def test_conv_5_metadata_alone_are_a_success_without_content() -> None:
    response = convert_response({"usageMetadata": {"trafficType": "ON_DEMAND"}, "modelVersion": "v"})
    assert response.content == Content(role="model", parts=[])
    assert response.error_code is None
    assert response.usage_metadata == UsageMetadata(traffic_type="ON_DEMAND")


def test_conv_6_it_does_not_matter_whether_the_call_streams() -> None:
    """One function serves both; what it gives says neither."""
    response = convert_response({"candidates": [candidate({"text": "a"}, finishReason="STOP")]})
    assert (response.partial, response.turn_complete) == (None, None)


def test_mod_17_what_is_not_reported_is_none() -> None:
    response = convert_response({"candidates": [candidate({"text": "a"})], "usageMetadata": {"promptTokenCount": 0}})
    assert response.usage_metadata == UsageMetadata(prompt_token_count=0)
    assert convert_response({"candidates": [candidate({"text": "a"})]}).usage_metadata is None


def test_unknown_keys_travel_and_snake_case_is_read() -> None:
    """GEM-14: keys that this version does not know are kept."""
    response = convert_response(
        {"candidates": [{"content": {"parts": [{"text": "a", "speech_metadata": {"x": 1}}]}, "finish_reason": "STOP"}]}
    )
    assert response.content is not None
    assert response.content.role == "model"
    assert response.content.parts[0].extra == {"speech_metadata": {"x": 1}}
    assert response.finish_reason == "STOP"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("a~extr_B", max_size=6), inner, max_size=2),
    max_leaves=4,
)
json_objects = st.dictionaries(st.text(max_size=3), json_values, max_size=2)
wire_parts = st.fixed_dictionaries(
    {},
    optional={
        "text": st.text(max_size=4) | st.none(),
        "thought": st.booleans(),
        "thoughtSignature": st.sampled_from(["Af8=", "_w==", "+/8="]),
        "functionCall": st.fixed_dictionaries(
            {"name": st.just("f")}, optional={"args": st.dictionaries(st.text(max_size=3), json_values, max_size=2)}
        ),
        "zork": json_values,
        "~extra": json_values,
    },
)
wire_contents = st.fixed_dictionaries(
    {}, optional={"role": st.just("model"), "parts": st.lists(wire_parts, max_size=3)}
)
wire_usages = st.fixed_dictionaries({}, optional={"promptTokenCount": st.integers(0, 5), "zork": json_values})
wire_responses = st.fixed_dictionaries(
    {},
    optional={
        "candidates": st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "content": wire_contents,
                    "finishReason": st.sampled_from(["STOP", "SAFETY", "", None]),
                    "finishMessage": st.text(max_size=3),
                    "safetyRatings": json_values,
                },
            ),
            max_size=2,
        ),
        "promptFeedback": st.fixed_dictionaries({}, optional={"blockReason": st.just("OTHER")}),
        "usageMetadata": wire_usages,
        "responseId": json_values,
    },
)  # fmt: skip


@given(wire_responses)
def test_conv_6_text_and_object_give_the_same_response(data: dict[str, Any]) -> None:
    """The quick way and the careful one agree, unknown keys included."""
    whole = convert_response(data)
    assert convert_response(json.dumps(data)) == whole
    assert convert_response(json.dumps(data).encode()) == whole


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"candidates": [{"content": {"parts": [{"text": {"a": "xyzzy"}}]}}]}']
)
def test_text_of_another_form_is_refused_without_its_values(text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        convert_response(text)
    assert "xyzzy" not in str(caught.value)


def test_a_document_of_another_form_is_refused_without_its_values() -> None:
    with pytest.raises(ValidationError) as caught:
        convert_response({"candidates": [{"content": {"parts": [{"text": {"secret": "xyzzy"}}]}}]})
    assert "xyzzy" not in str(caught.value)
