"""Answers of Chat Completions, streamed and not (models CHAT-3…6)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.openai.asking import a_call, ask, asked, chat_model_on, declared, model_on, texts, whole
from tests.openai.server import Json, Service, Sse
from tests.openai.wire import Event, chat_stream, chat_usage, chunk, completion, message, response, tool_call

from hookwork import ModelResponse
from hookwork.errors import ModelError
from hookwork_openai.chat.reply import whole_response
from hookwork_openai.chat.stream import ChatStream


def read(completed: Any, **options: Any) -> ModelResponse:
    return whole_response(a_call("local-model", chat=True, official=False, **options), completed)


def fold(chunks: Sequence[Any], *, done: bool = True, **options: Any) -> tuple[list[ModelResponse], ModelResponse]:
    folded = ChatStream(a_call("local-model", chat=True, official=False, **options))
    partials = [shown for chunk in chunks for shown in folded.take(chunk)]
    return partials, folded.finish(done=done)


def calls(whole: ModelResponse) -> list[tuple[str | None, Any]]:
    assert whole.content is not None
    return [(call.name, call.args) for call in whole.content.function_calls]


def ids(responses: Sequence[ModelResponse]) -> list[str | None]:
    contents = [response.content for response in responses if response.content is not None]
    return [call.id for content in contents for call in content.function_calls]


# --- whole answers ---------------------------------------------------------------------------------------------------


def test_chat_3_a_message_in_parts() -> None:
    found = read(completion("text", tool_call("f", '{"n": 1}', "c1"), reasoning_content="hm", refusal="no"))
    assert texts([found]) == ["[hm]", "textno", "f()"]
    assert (calls(found), ids([found])) == ([("f", {"n": 1})], ["c1"])
    assert (found.finish_reason, found.turn_complete, found.model_version) == ("STOP", True, "local-model")
    assert found.custom_metadata == {"openai_response_id": "chatcmpl-1", "openai_model": "local-model"}


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_chat_3_reasoning_of_compatible_servers(name: str) -> None:
    assert texts([read(completion("a", **{name: "hm"}))]) == ["[hm]", "a"]


def test_chat_3_content_in_parts() -> None:
    assert read(completion([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])).text == "ab"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "finish"),
    [("stop", "STOP"), ("tool_calls", "STOP"), ("function_call", "STOP"), ("length", "MAX_TOKENS"),
     ("content_filter", "SAFETY"), ("eos", "OTHER"), (None, "STOP")],
)  # fmt: skip
def test_chat_3_finish_reasons(said: str | None, finish: str) -> None:
    completed = completion("a")
    completed["choices"][0]["finish_reason"] = said
    assert read(completed).finish_reason == finish


def test_chat_3_usage() -> None:
    """CASE-USAGE-1, MOD-16."""
    found = read(completion("a", usage=chat_usage(100, 60, 50, 20))).usage_metadata
    assert found is not None
    assert (found.prompt_token_count, found.cached_content_token_count) == (100, 60)
    assert (found.candidates_token_count, found.thoughts_token_count, found.total_token_count) == (30, 20, 150)


def test_chat_5_no_usage_is_none() -> None:
    assert read(completion("a", usage=None)).usage_metadata is None
    assert fold(chat_stream("a", usage=None))[1].usage_metadata is None


def test_chat_3_logprobs_and_citations() -> None:
    cited = {
        "type": "url_citation",
        "url_citation": {"start_index": 0, "end_index": 1, "title": "T", "url": "https://h"},
    }
    completed = completion("a", annotations=[cited])
    completed["choices"][0]["logprobs"] = {"content": [{"token": "a", "logprob": -0.5, "top_logprobs": []}]}
    found = read(completed)
    assert found.citation_metadata is not None
    assert [citation.uri for citation in found.citation_metadata.citations or ()] == ["https://h"]
    assert found.logprobs_result is not None
    assert [token.log_probability for token in found.logprobs_result.chosen_candidates or ()] == [-0.5]


def test_chat_3_a_filtered_or_cut_answer_without_content_is_a_result() -> None:
    assert read(completion(None, finish="content_filter")).error_code == "SAFETY"
    assert read(completion("", finish="length")).error_code == "MAX_TOKENS"


@pytest.mark.parametrize(
    ("completed", "code"),
    [
        (None, "empty_response"),
        ({"choices": []}, "no_output_items"),
        ({"choices": [{"message": {}}]}, "no_usable_output"),
        (completion(None, finish="tool_calls"), "no_usable_output"),
    ],
)
def test_oai_48_answers_that_cannot_be_used(completed: Any, code: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(completed)
    assert (caught.value.kind, caught.value.code) == ("invalid_response", code)


def test_chat_5_an_error_in_place_of_an_answer() -> None:
    """Some gateways answer 200 with an error, its code an HTTP status."""
    failure = {"code": 502, "message": "upstream"}
    in_a_choice = completion("a")
    in_a_choice["choices"][0]["error"] = failure
    for wrong in ({"error": failure}, in_a_choice):
        with pytest.raises(ModelError) as caught:
            read(wrong)
        assert (caught.value.kind, caught.value.status_code, caught.value.retryable) == ("unavailable", 502, True)


def test_mod_13_an_empty_stop_is_passed_on() -> None:
    """CASE-MODEL-1: the flow makes an error event of it, with its usage, and the session goes on."""
    for found in (read(completion("")), fold(chat_stream(""))[1]):
        assert (found.finish_reason, found.error_code) == ("STOP", None)
        assert found.content is not None
        assert found.content.parts == []
        assert found.usage_metadata is not None


# --- quirks ----------------------------------------------------------------------------------------------------------


def test_chat_5_arguments_as_an_object() -> None:
    assert calls(read(completion(None, tool_call("f", {"n": 1})))) == [("f", {"n": 1})]
    piece = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": {"n": 1}}}]}
    assert calls(fold([chunk(piece), chunk({}, "stop")])[1]) == [("f", {"n": 1})]


def test_chat_5_stop_beside_calls() -> None:
    found = read(completion(None, tool_call("f", "{}"), finish="stop"))
    assert (calls(found), found.finish_reason) == ([("f", {})], "STOP")


def test_chat_5_three_whole_calls_in_one_chunk() -> None:
    """CASE-STREAM-2."""
    three = [{"index": n, **tool_call("f", json.dumps({"n": n}), f"c{n}")} for n in range(3)]
    found = fold([chunk({"tool_calls": three}, "tool_calls")])[1]
    assert (calls(found), ids([found])) == ([("f", {"n": n}) for n in range(3)], ["c0", "c1", "c2"])


def test_chat_5_three_whole_calls_under_one_index() -> None:
    three = [{"index": 0, **tool_call("f", json.dumps({"n": n}), f"c{n}")} for n in range(3)]
    assert calls(fold([chunk({"tool_calls": three}, "stop")])[1]) == [("f", {"n": n}) for n in range(3)]


def test_chat_5_three_whole_calls_without_index_and_id() -> None:
    three = [tool_call("f", json.dumps({"n": n}), None) for n in range(3)]
    found = fold([chunk({"tool_calls": three}), chunk({}, "stop")])[1]
    assert calls(found) == [("f", {"n": n}) for n in range(3)]
    assert len(set(ids([found]))) == 3


def test_chat_5_the_role_may_be_absent() -> None:
    assert fold([chunk({"content": "a"}), chunk({}, "stop")])[1].text == "a"
    completed = completion("a")
    del completed["choices"][0]["message"]["role"]
    assert read(completed).text == "a"


def test_chat_5_one_id_for_two_calls_of_a_turn() -> None:
    """CASE-HIST-3: both are calls; ids are told apart in the model effect (MOD-14)."""
    found = read(completion(None, tool_call("w", '{"n": 1}', "w"), tool_call("w", '{"n": 2}', "w")))
    assert calls(found) == [("w", {"n": 1}), ("w", {"n": 2})]


def test_chat_5_error_objects_inside_the_stream() -> None:
    wrong = chunk({"content": ""}, "error")
    wrong["choices"][0]["error"] = {"code": 429, "message": "busy"}
    for event in ({"error": {"code": 429, "message": "busy"}}, wrong):
        with pytest.raises(ModelError) as caught:
            fold([chunk({"content": "a"}), event])
        error = caught.value
        assert (error.kind, error.status_code, error.retryable, error.after_first_chunk) == (
            "rate_limit",
            429,
            True,
            True,
        )


def test_chat_5_a_message_in_place_of_deltas() -> None:
    whole_message = chunk({}, "stop")
    whole_message["choices"][0]["message"] = {"role": "assistant", "content": "a"}
    assert fold([whole_message])[1].text == "a"


def test_chat_3_the_old_form_of_a_call() -> None:
    completed = completion(None, function_call={"name": "f", "arguments": '{"n": 1}'}, finish="function_call")
    assert calls(read(completed)) == [("f", {"n": 1})]
    deltas = [{"function_call": {"name": "f", "arguments": ""}}, {"function_call": {"arguments": '{"n": 1}'}}]
    assert calls(fold([*(chunk(delta) for delta in deltas), chunk({}, "function_call")])[1]) == [("f", {"n": 1})]


# --- streams ---------------------------------------------------------------------------------------------------------


def test_chat_4_a_stream() -> None:
    partials, found = fold(chat_stream("Hello", tool_call("f", '{"n": 1}', "c1"), reasoning_content="hmm"))
    assert texts(partials) == ["[hmm]", "Hel", "lo", *["f()"] * 4]
    assert found == read(completion("Hello", tool_call("f", '{"n": 1}', "c1"), reasoning_content="hmm"))
    assert set(ids(partials)) == {"c1"}
    shown = [call for part in partials if part.content for call in part.content.function_calls]
    assert all(call.will_continue for call in shown), "a partial call is for display"


def test_chat_4_usage_comes_in_a_last_chunk_without_choices() -> None:
    found = fold([chunk({"content": "a"}, "stop"), chunk(usage=chat_usage(7, 0, 3, 0))])[1]
    assert found.usage_metadata is not None
    assert found.usage_metadata.total_token_count == 10


def test_chat_4_arguments_go_by_index() -> None:
    pieces = [(0, '{"a":', "c0", "f"), (1, '{"b":', "c1", "g"), (0, "1}", None, None), (1, "2}", None, None)]
    chunks = []
    for index, arguments, id, name in pieces:
        piece: Event = {"index": index, "function": {"arguments": arguments, **({"name": name} if name else {})}}
        chunks.append(chunk({"tool_calls": [{**piece, "id": id} if id else piece]}))
    assert calls(fold([*chunks, chunk({}, "tool_calls")])[1]) == [("f", {"a": 1}), ("g", {"b": 2})]


def test_chat_4_without_an_index_the_last_call_goes_on_until_another_begins() -> None:
    deltas = [("c0", "f", '{"a"'), (None, None, ":1}"), ("c1", "f", '{"a"'), (None, None, ":2}"), (None, "g", "{}")]
    chunks = []
    for id, name, arguments in deltas:
        function = {"arguments": arguments, **({"name": name} if name else {})}
        chunks.append(chunk({"tool_calls": [{"function": function, **({"id": id} if id else {})}]}))
    assert calls(fold([*chunks, chunk({}, "stop")])[1]) == [("f", {"a": 1}), ("f", {"a": 2}), ("g", {})]


@pytest.mark.parametrize(
    "repeated", [{"id": "c0"}, {"function": {"name": "f"}}, {"id": "c0", "function": {"name": "f"}}]
)
def test_chat_4_servers_that_repeat_id_or_name_in_every_chunk(repeated: Event) -> None:
    chunks = []
    for arguments in ('{"a"', ": 1", "}"):
        piece = {"index": 0, **repeated, "function": {**repeated.get("function", {}), "arguments": arguments}}
        chunks.append(chunk({"tool_calls": [piece]}))
    first = chunk({"tool_calls": [{"index": 0, "id": "c0", "function": {"name": "f", "arguments": ""}}]})
    assert calls(fold([first, *chunks, chunk({}, "stop")])[1]) == [("f", {"a": 1})]


@pytest.mark.parametrize("done", [True, False])
def test_chat_4_a_finish_reason_or_done_ends_a_stream(done: bool) -> None:
    assert fold([chunk({"content": "a"}), chunk({}, "stop")], done=done)[1].finish_reason == "STOP"
    if done:
        assert fold([chunk({"content": "a"})], done=True)[1].finish_reason == "STOP"


def test_oai_32_neither_is_no_answer() -> None:
    for chunks in ([], [chunk({"content": "half"})]):
        with pytest.raises(ModelError) as caught:
            fold(chunks, done=False)
        assert (caught.value.kind, caught.value.retryable) == ("stream", True)
    found = fold([chunk({"content": "a"})], done=False, accept_unterminated=True)[1]
    assert (found.text, found.finish_reason) == ("a", "FINISH_REASON_UNSPECIFIED")


def test_case_model_2_a_call_cut_by_the_limit_is_not_run() -> None:
    piece = {"index": 0, "id": "c", "function": {"name": "write", "arguments": '{"path": "/a", "te'}}
    for found in (
        fold([chunk({"content": "so "}), chunk({"tool_calls": [piece]}), chunk({}, "length")])[1],
        read(completion("so ", tool_call("write", '{"path": "/a", "te', "c"), finish="length")),
    ):
        assert (found.text, calls(found)) == ("so ", [])
        assert (found.finish_reason, found.error_code) == ("MAX_TOKENS", "MAX_TOKENS")
        assert "'write'" in (found.error_message or "")


def test_agg_23_a_call_without_an_id_keeps_the_one_it_is_given() -> None:
    partials, found = fold(chat_stream("", tool_call("f", '{"n": 1}', None)))
    assert set(ids(partials)) == set(ids([found]))
    assert str(ids([found])[0]).startswith("adk-")


def test_agg_23_an_id_that_comes_late_changes_nothing_that_was_shown() -> None:
    pieces: list[Event] = [
        {"function": {"name": "f", "arguments": '{"n"'}},
        {"id": "late", "function": {"arguments": ": 1}"}},
    ]
    partials, found = fold([*(chunk({"tool_calls": [{"index": 0, **piece}]}) for piece in pieces), chunk({}, "stop")])
    assert calls(found) == [("f", {"n": 1})]
    assert set(ids(partials)) == set(ids([found]))


words = st.text("ab é€", min_size=1, max_size=9)


@given(words, words, st.lists(st.dictionaries(words, words, max_size=2), max_size=3), st.integers(1, 5), st.data())
def test_mod_2_every_interleaving_gives_what_the_unstreamed_answer_gives(
    thought: str, text: str, args: list[dict[str, str]], size: int, data: st.DataObject
) -> None:
    made = [tool_call(f"f{n}", json.dumps(each), f"c{n}") for n, each in enumerate(args)]
    lanes = [
        chat_stream("", reasoning_content=thought, size=size, usage=None)[1:-1],
        chat_stream(text, size=size, usage=None)[1:-1],
    ]
    for n in range(len(made)):
        pieces = chat_stream("", *made[: n + 1], size=size, usage=None)
        lanes.append(
            [p for p in pieces if any(c["index"] == n for c in p["choices"][0]["delta"].get("tool_calls", ()))]
        )
    mixed: list[Event] = []
    begun = [lanes[n + 2].pop(0) for n in range(len(made))]  # a server begins calls in the order of their indexes
    while any(lanes):
        mixed.append(data.draw(st.sampled_from([lane for lane in lanes if lane])).pop(0))
    found = fold([*begun, *mixed, chunk({}, "stop"), chunk(usage=chat_usage())])[1]
    assert found == read(completion(text, *made, finish="stop", reasoning_content=thought))


# --- calls written as text -------------------------------------------------------------------------------------------

WRITTEN = '{"name": "f", "arguments": {"n": 1}}'


@pytest.mark.parametrize("text", [WRITTEN, f" {WRITTEN}\n", f"```json\n{WRITTEN}\n```", f"```\r\n{WRITTEN}\r\n```"])
async def test_chat_6_a_call_written_as_text(service: Service, text: str) -> None:
    """Parts ECO-LLM-2b."""
    service.answers(Json(completion(text)), Sse(chat_stream(text), named=False, done=True), Json(completion(text)))
    request, model = asked("hi", tools=declared("f")), chat_model_on(service, parse_text_calls=True)
    for stream in (False, True):
        found = await whole(model, request, stream=stream)
        assert calls(found) == [("f", {"n": 1})]
        assert found.text == ""
    assert (await whole(chat_model_on(service), request)).text == text, "off unless asked for"


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "g", "arguments": {}}',
        '{"name": "f", "arguments": {}, "why": "x"}',
        '{"name": "f", "arguments": [1]}',
        f"I call {WRITTEN}",
        f"{WRITTEN}{WRITTEN}",
        f"```json\n{WRITTEN}\n```\nthere",
        "plain text",
    ],
)
async def test_chat_6_any_other_text_stays_text(service: Service, text: str) -> None:
    service.answers(Json(completion(text)))
    found = await whole(chat_model_on(service, parse_text_calls=True), asked("hi", tools=declared("f")))
    assert (found.text, calls(found)) == (text, [])


async def test_chat_6_a_reply_with_calls_is_left_alone(service: Service) -> None:
    service.answers(Json(completion(WRITTEN, tool_call("f", "{}"))))
    found = await whole(chat_model_on(service, parse_text_calls=True), asked("hi", tools=declared("f")))
    assert (found.text, calls(found)) == (WRITTEN, [("f", {})])


# --- over the wire ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 422])
async def test_chat_4_usage_is_asked_for_until_the_server_refuses(service: Service, status: int) -> None:
    refusal = Json({"error": {"message": "Unknown field: stream_options", "type": "invalid_request_error"}}, status)
    good = Sse(chat_stream("a"), named=False, done=True)
    service.answers(good, refusal, good, good)
    model = chat_model_on(service)
    for _ in range(3):
        assert (await whole(model, stream=True)).text == "a"
    wanted = {"include_usage": True}
    assert [sent.body.get("stream_options") for sent in service.sent] == [wanted, wanted, None, None]
    assert {sent.path for sent in service.sent} == {"/chat/completions"}


async def test_chat_4_any_other_refusal_is_an_error_at_once(service: Service) -> None:
    service.answers(Json({"error": {"message": "no such model"}}, 400))
    with pytest.raises(ModelError) as caught:
        await ask(chat_model_on(service), stream=True)
    assert (caught.value.kind, len(service.sent)) == ("invalid_request", 1)


@pytest.mark.parametrize(("done", "ok"), [(True, True), (False, False)])
async def test_chat_4_done_alone_ends_a_stream(service: Service, done: bool, ok: bool) -> None:
    service.answers(Sse([chunk({"content": "a"})], named=False, done=done))
    if ok:
        assert (await whole(chat_model_on(service), stream=True)).text == "a"
    else:
        with pytest.raises(ModelError, match="without a finish reason"):
            await ask(chat_model_on(service), stream=True)


async def test_chat_streams_may_be_split_anywhere(service: Service) -> None:
    model = chat_model_on(service)
    for length in (1, 2, 5, 100):
        service.answers(
            Sse(chat_stream("Grüße", tool_call("f", '{"n": "€"}')), named=False, done=True, pieces=[length])
        )
        found = await whole(model, stream=True)
        assert found == read(completion("Grüße", tool_call("f", '{"n": "€"}')))


async def test_a_server_that_is_asked_to_stream_and_answers_whole(service: Service) -> None:
    """Some do beside tools."""
    service.answers(Json(completion("a", tool_call("f", "{}"))), Json(response(message("b"))), Json(completion("c")))
    model = chat_model_on(service)
    (found,) = await ask(model, stream=True)
    assert (found.text, calls(found), found.partial) == ("a", [("f", {})], None)
    assert [answer.text for answer in await ask(model_on(service), stream=True)] == ["b"]
    assert (await whole(model)).text == "c"
    assert len(service.clients) == 1, "the connection went back to its pool"


async def test_chat_4_a_server_that_keeps_the_line_open_after_its_finish_reason(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookwork_openai.sdk._PATIENCE_AFTER_END", 0.05)
    service.answers(Sse([chunk({"content": "a"}), chunk({}, "stop")], named=False, hangs=True))
    model = chat_model_on(service)
    assert (await whole(model, stream=True)).text == "a"
    await model.close()
