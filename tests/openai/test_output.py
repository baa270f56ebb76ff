"""Unstreamed answers of the Responses API (models OAI-26…29, 36, 37; CONV-1…3)."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.openai.asking import a_call, model_on, texts, whole
from tests.openai.server import Json, Raw, Service
from tests.openai.wire import Event, function_call, message, reasoning, response, usage

from hookwork import ModelResponse, Part
from hookwork.errors import ModelError
from hookwork_openai.responses.output import whole_response


def read(*output: Event, **fields: Any) -> ModelResponse:
    return whole_response(a_call(), response(*output, **fields))


def broken(*output: Event, **fields: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        read(*output, **fields)
    return caught.value


def incomplete(reason: str, *output: Event) -> ModelResponse:
    return read(*output, status="incomplete", incomplete_details={"reason": reason})


# --- items -----------------------------------------------------------------------------------------------------------


def test_oai_26_items_in_order() -> None:
    refusal = {"type": "refusal", "refusal": "no"}
    found = read(
        reasoning("s1", "s2", content=("c1",)),
        message("a", ""),
        function_call("f", '{"n": 1}', "call_7"),
        {**message(), "content": [refusal]},
    )
    assert found.content is not None
    assert texts([found]) == ["[c1s1s2]", "a", "f()", "no"], "content texts come before summaries"
    call = found.content.parts[2].function_call
    assert call is not None
    assert (call.id, call.name, call.args) == ("call_7", "f", {"n": 1})
    assert (found.content.role, found.partial, found.turn_complete) == ("model", None, True)


def test_oai_26_neighbouring_texts_are_one_part_as_they_are_when_streamed() -> None:
    found = read(message("a", "b", id="m1"), message("c", id="m2"))
    assert found.content is not None
    assert found.content.parts == [Part(text="abc")]


@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("no_output_items", []),
        ("no_usable_output", [message("")]),
        ("no_usable_output", [{"type": "reasoning", "id": "r", "summary": []}]),
        ("unsupported_content_type", [{**message(), "content": [{"type": "output_audio", "data": ""}]}]),
        ("unsupported_output_item", [{"type": "web_search_call", "id": "ws_1", "status": "completed"}]),
    ],
)
def test_oai_26_answers_without_anything_usable(code: str, output: list[Event]) -> None:
    """Codes: OAI-48."""
    error = broken(*output)
    assert (error.kind, error.code, error.retryable) == ("invalid_response", code, False)


def test_oai_27_a_failed_response_is_an_error_whatever_it_holds() -> None:
    """T-16."""
    failure = {"code": "server_error", "message": "It broke."}
    error = broken(message("half"), status="failed", error=failure)
    assert (error.kind, error.code, error.retryable) == ("invalid_response", "server_error", True)
    assert "It broke." in str(error)
    assert broken(message("half"), error={"code": "invalid_prompt", "message": "x"}).retryable is False
    assert broken(status="failed").code == ""


@pytest.mark.parametrize("status", ["in_progress", "queued", "cancelled"])
def test_oai_27_an_answer_that_is_not_whole_is_an_error(status: str) -> None:
    assert broken(message("half"), status=status).code == status


def test_oai_27_a_filtered_answer_without_content_is_a_result() -> None:
    found = incomplete("content_filter")
    assert (found.error_code, found.finish_reason, found.content) == ("SAFETY", "SAFETY", None)
    kept = incomplete("content_filter", message("so far"))
    assert (kept.error_code, kept.finish_reason, kept.text) == (None, "SAFETY", "so far")


def test_oai_27_unknown_items_are_kept_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hookwork.openai")
    searched = {"type": "web_search_call", "id": "ws_1", "action": {"query": "x"}}
    found = read(searched, message("a"))
    assert found.text == "a"
    assert (found.custom_metadata or {})["openai_unmapped"] == [searched]
    assert any("web_search_call" in record.getMessage() for record in caplog.records)


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "args"),
    [
        ('{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
        ({"a": 1}, {"a": 1}),
        (None, {}),
        ("", {}),
        ("null", {}),
        (" {} ", {}),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('{"n": 12345678901234567890}', {"n": 12345678901234567890}),
    ],
)
def test_oai_28_arguments(raw: Any, args: dict[str, Any]) -> None:
    """T-17: nothing at all is ``{}``, never None."""
    found = read(function_call("f", raw))
    assert found.content is not None
    assert [call.args for call in found.content.function_calls] == [args]


def test_oai_28_absent_arguments_are_none_at_all() -> None:
    item = function_call("f", "")
    del item["arguments"]
    found = read(item)
    assert found.content is not None
    assert found.content.function_calls[0].args == {}


@pytest.mark.parametrize(
    "raw", ["[1]", "3", "true", '"text"', "{broken", '{"a": 1}{"b": 2}', '{"n": 1e400}', '{"n": NaN}',
            '{"n": -Infinity}', [1], 7, {"n": float("inf")}]
)  # fmt: skip
def test_oai_28_arguments_that_are_no_object_lose_the_whole_answer(raw: Any) -> None:
    error = broken(message("before"), function_call("write_file", raw, "call_9"))
    assert (error.kind, error.code) == ("invalid_response", "bad_call_arguments")
    assert "'write_file'" in str(error)
    assert "'call_9'" in str(error)


def test_oai_28_the_error_does_not_quote_the_arguments() -> None:
    error = broken(function_call("f", '{"password": "hunter2'))
    assert "hunter2" not in f"{error} {error.__cause__}"


def test_case_model_2_a_cut_call_is_dropped_and_named() -> None:
    """AGG-32, unstreamed."""
    torso = function_call("write", '{"path": "/a", "te', status="incomplete")
    found = incomplete("max_output_tokens", message("so far"), torso)
    assert (found.finish_reason, found.error_code) == ("MAX_TOKENS", "MAX_TOKENS")
    assert "'write'" in (found.error_message or "")
    assert found.text == "so far"
    assert found.content is not None
    assert found.content.function_calls == []


def test_case_model_2_no_arguments_in_an_answer_that_was_cut_are_not_completed() -> None:
    found = incomplete("max_output_tokens", function_call("write", ""))
    assert (found.content, found.error_code) == (None, "MAX_TOKENS")


# --- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("max_output_tokens", "MAX_TOKENS"),
        ("content_filter", "SAFETY"),
        ("max_messages", "OTHER"),
        ("steered", "OTHER"),
    ],
)
def test_oai_29_finish_reasons(reason: str, finish: str) -> None:
    """Reasons: SDK-12. CONV-2: what was said is a success."""
    found = incomplete(reason, message("a"))
    assert (found.finish_reason, found.error_code, found.text) == (finish, None, "a")
    empty = incomplete(reason)
    assert (empty.error_code, empty.content) == (finish, None), "CONV-3"


def test_oai_29_names_of_what_answered() -> None:
    found = read(message("a"))
    assert (found.finish_reason, found.model_version) == ("STOP", "gpt-5.2-2026-01-01")
    assert found.custom_metadata == {"openai_response_id": "resp_1", "openai_model": "gpt-5.2-2026-01-01"}


def test_oai_36_usage_without_counting_reasoning_twice() -> None:
    """CASE-USAGE-1, T-14, MOD-16."""
    found = read(message("a"), usage=usage(prompt=100, cached=60, output=50, thinking=20)).usage_metadata
    assert found is not None
    assert (found.prompt_token_count, found.cached_content_token_count) == (100, 60)
    assert (found.candidates_token_count, found.thoughts_token_count, found.total_token_count) == (30, 20, 150)
    details = found.prompt_tokens_details
    assert details is not None
    assert [(entry.modality, entry.token_count) for entry in details] == [("TEXT", 100)]


@pytest.mark.parametrize("raw", [None, {}, {"input_tokens_details": None}])
def test_mod_17_no_usage_is_none(raw: Any) -> None:
    assert read(message("a"), usage=raw).usage_metadata is None


def test_mod_17_zero_is_zero_and_absent_is_none() -> None:
    found = read(message("a"), usage={"input_tokens": 0, "output_tokens": 5}).usage_metadata
    assert found is not None
    assert (found.prompt_token_count, found.candidates_token_count) == (0, 5)
    assert (found.thoughts_token_count, found.total_token_count) == (None, None)


def test_oai_37_logprobs() -> None:
    top = [{"token": "a", "logprob": -0.1, "bytes": [97]}, {"token": "b", "logprob": -2.5, "bytes": [98]}]
    item = message("a")
    item["content"][0]["logprobs"] = [{"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": top}]
    found = read(item).logprobs_result
    assert found is not None
    assert found.chosen_candidates is not None
    assert found.top_candidates is not None
    assert [(token.token, token.log_probability) for token in found.chosen_candidates] == [("a", -0.1)]
    candidates = found.top_candidates[0].candidates
    assert candidates is not None
    assert [(token.token, token.log_probability) for token in candidates] == [("a", -0.1), ("b", -2.5)]
    assert read(message("a")).logprobs_result is None


def test_oai_33_url_citations() -> None:
    cited = {"type": "url_citation", "start_index": 0, "end_index": 1, "title": "T", "url": "https://h"}
    item = message("a")
    item["content"][0]["annotations"] = [cited, {"type": "file_citation", "file_id": "file-1"}]
    found = read(item).citation_metadata
    assert found is not None
    assert found.citations is not None
    (citation,) = found.citations
    assert (citation.start_index, citation.end_index, citation.title, citation.uri) == (0, 1, "T", "https://h")


def test_oai_34_reasoning_is_kept_for_the_next_request() -> None:
    found = read(reasoning("hm", id="rs_1", encrypted="ENC"), function_call("f", "{}"))
    assert found.content is not None
    part = found.content.parts[0]
    assert (part.text, part.thought) == ("hm", True)
    summary = [{"type": "summary_text", "text": "hm"}]
    kept = {"id": "rs_1", "encrypted_content": "ENC", "summary": summary, "provider": "openai"}
    assert part.part_metadata == {"openai": {"reasoning": kept}}


def test_oai_34_reasoning_without_a_text_is_kept_too() -> None:
    found = read(reasoning(id="rs_1", encrypted="ENC"), message("a"))
    assert found.content is not None
    assert [bool(part.part_metadata) for part in found.content.parts] == [True, False]
    assert found.text == "a"


def test_sdk_12_the_phase_of_a_message_is_kept() -> None:
    found = read(message("looking", id="m1", phase="commentary"), message("found", id="m2", phase="final_answer"))
    assert found.content is not None
    phases = [(part.text, (part.part_metadata or {})["openai"]["phase"]) for part in found.content.parts]
    assert phases == [("looking", "commentary"), ("found", "final_answer")]


# --- over the wire ---------------------------------------------------------------------------------------------------


async def test_mod_2_an_unstreamed_call_gives_one_response(service: Service) -> None:
    service.answers(Json(response(message("a"))))
    found = await whole(model_on(service))
    assert (found.text, found.partial, service.sent[0].path) == ("a", None, "/responses")
    assert "stream" not in service.body


@pytest.mark.parametrize("raw", [Raw("<html>", kind="text/html"), Json([1]), Json("text")])
async def test_oai_48_a_body_that_is_no_response_object(service: Service, raw: Any) -> None:
    service.answers(raw)
    with pytest.raises(ModelError) as caught:
        await whole(model_on(service))
    assert (caught.value.kind, caught.value.code) == ("invalid_response", "empty_response")


async def test_a_body_that_is_no_json(service: Service) -> None:
    service.answers(Raw("{broken", kind="application/json"))
    with pytest.raises(ModelError) as caught:
        await whole(model_on(service))
    assert caught.value.kind == "invalid_response"
    assert caught.value.__cause__ is not None
