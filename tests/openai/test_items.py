"""Contents as input items (models OAI-1…14)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.openai.asking import answer, asked, body, call, said, user

from hookwork import Blob, Content, FileData, Part
from hookwork.errors import ModelError
from hookwork.records.content import (
    CodeExecutionResult,
    ExecutableCode,
    FunctionResponseBlob,
    FunctionResponsePart,
)


def items(*contents: Content | str, **options: Any) -> list[dict[str, Any]]:
    found = body(asked(*contents), **options)["input"]
    assert isinstance(found, list)
    return found


def refusal(*contents: Content | str, **options: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        items(*contents, **options)
    assert caught.value.kind == "invalid_request"
    return caught.value


def message(role: str, *texts: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text} for text in texts]}


# --- roles and texts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "wire"), [(None, "user"), ("", "user"), ("user", "user"), ("system", "system"), ("developer", "developer")]
)
def test_oai_1_roles(role: str | None, wire: str) -> None:
    assert items(Content(role=role, parts=[Part(text="a")])) == [message(wire, "a")]


def test_oai_1_a_model_speaks_as_the_assistant_and_other_roles_are_refused() -> None:
    assert items("q", said("a"))[1] == {"type": "message", "role": "assistant", "content": "a"}
    error = refusal(Content(role="tool", parts=[Part(text="a")]))
    assert (error.code, "'tool'" in str(error)) == ("unsupported_role", True)


def test_oai_2_neighbouring_texts_are_one_message_with_an_item_each() -> None:
    assert items(user(Part(text="a"), Part(text="b")), user(Part(text="c"))) == [
        message("user", "a", "b"),
        message("user", "c"),
    ]


def test_oai_2_a_call_or_response_ends_the_message_before_it() -> None:
    found = items("q", said("before", call("f", id="c1"), "after"), user(answer("f", {}, "c1"), Part(text="more")))
    assert [item.get("content") or item["type"] for item in found[1:]] == [
        "before",
        "function_call",
        "after",
        "function_call_output",
        [{"type": "input_text", "text": "more"}],
    ]


def test_oai_2_blank_texts_and_empty_contents_are_left_out() -> None:
    blank = user(Part(text=" \n\t"), Part(text=""))
    assert items(blank, Content(role="user"), "q", said("  ")) == [message("user", "q")]


def test_oai_3_an_assistant_is_never_sent_input_texts() -> None:
    """T-11: the service refuses them, local servers do not."""
    one, several = items("q", said("a"))[1], items("q", said("a", "b"))[1]
    assert one["content"] == "a"
    assert several["content"] == [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}]


def test_oai_3_what_is_sent_fits_the_published_types() -> None:
    from openai.types.responses import ResponseInputItemParam
    from pydantic import TypeAdapter

    history: list[Content | str] = [
        user(Part(text="q"), Part(inline_data=Blob(data=b"x", mime_type="image/png"))),
        said("a", call("f", {"n": 1}, "c1")),
        user(answer("f", {"ok": True}, "c1")),
        said("b"),
        "next",
    ]
    check = TypeAdapter(ResponseInputItemParam)
    found = items(*history)
    assert [item["type"] for item in found].count("message") == 4
    for item in found:
        check.validate_python(item)


def test_oai_4_thoughts_are_not_replayed_as_prose() -> None:
    assert items("q", said(Part(text="hm", thought=True), "a"))[1:] == [
        {"type": "message", "role": "assistant", "content": "a"}
    ]


def reasoned(id: str, *texts: str) -> Part:
    summary = [{"type": "summary_text", "text": text} for text in texts]
    kept = {"id": id, "encrypted_content": "ENC", "summary": summary}
    return Part(text="".join(texts), thought=True, part_metadata={"openai": {"reasoning": kept}})


def test_oai_4_reasoning_that_can_be_handed_back_stands_before_what_it_led_to() -> None:
    found = items("q", said(reasoned("rs_1", "hm"), call("f", id="c1")), user(answer("f", {}, "c1")))
    assert found[1] == {
        "type": "reasoning",
        "id": "rs_1",
        "encrypted_content": "ENC",
        "summary": [{"type": "summary_text", "text": "hm"}],
    }
    assert found[2]["type"] == "function_call"


def test_oai_4_reasoning_goes_back_once_and_never_without_what_follows() -> None:
    found = items("q", said(reasoned("rs_1"), reasoned("rs_1"), "a"), said(reasoned("rs_2")), "next")
    assert [item["type"] for item in found] == ["message", "reasoning", "message", "message"]


def test_oai_4_reasoning_of_one_service_is_not_handed_to_another() -> None:
    """As under a fallback model: what one account encrypted, another refuses."""
    metadata = {"id": "rs_1", "encrypted_content": "ENC", "summary": [], "provider": "azure.ai.openai"}
    part = Part(text="hm", thought=True, part_metadata={"openai": {"reasoning": metadata}})
    assert [item["type"] for item in items("q", said(part, "a"))] == ["message", "message"]


# --- calls and responses ---------------------------------------------------------------------------------------------


def test_oai_5_a_call_carries_its_arguments_as_text() -> None:
    found = items("q", said(call("f", {"b": [1, "é"], "a": None}, "c1"), call("g", id="c2")))
    assert found[1:] == [
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"b":[1,"é"],"a":null}'},
        {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
    ]
    assert refusal("q", said(call("", id="c1"))).code == "function_call_missing_name"


def test_oai_6_calls_without_ids_are_numbered() -> None:
    found = items("q", said(call("f"), call("g", id="own"), call("h")))
    assert [item["call_id"] for item in found[1:]] == ["adk-openai-call-0", "own", "adk-openai-call-1"]


def test_oai_7_a_response_is_json_text() -> None:
    found = items(
        "q", said(call("f", id="a"), call("g", id="b")), user(answer("f", {"n": 1}, "a"), answer("g", None, "b"))
    )
    assert [item for item in found if item["type"] == "function_call_output"] == [
        {"type": "function_call_output", "call_id": "a", "output": '{"n":1}'},
        {"type": "function_call_output", "call_id": "b", "output": "null"},
    ]


def test_oai_8_a_response_without_id_belongs_to_the_oldest_call_that_waits() -> None:
    history: list[Content | str] = [
        "q",
        said(call("f", id="a"), call("g")),
        user(answer("f", {"n": 1}), answer("g", {"n": 2})),
    ]
    found = [item for item in items(*history) if item["type"] == "function_call_output"]
    assert [item["call_id"] for item in found] == ["a", "adk-openai-call-0"]


def test_oai_8_a_response_that_no_call_waits_for_is_refused() -> None:
    assert "without an id" in str(refusal("q", user(answer("f", {}))))
    error = refusal("q", said(call("f", id="a")), user(answer("f", {}, "zzz")))
    assert (error.code, "'zzz'" in str(error)) == ("function_response_without_call", True)


def test_oai_9_ids_the_service_would_refuse_are_replaced_on_both_sides() -> None:
    bad = "call:1/ü"
    found = items(
        "q", said(call("f", id=bad), call("g", id="x" * 65)), user(answer("g", {}, "x" * 65), answer("f", {}, bad))
    )
    assert [item["call_id"] for item in found[1:]] == [
        "adk-openai-call-0",
        "adk-openai-call-1",
        "adk-openai-call-1",
        "adk-openai-call-0",
    ]
    again = items("q", said(call("f", id=bad)), user(answer("f", {}, bad)), "more")
    assert again[1]["call_id"] == "adk-openai-call-0", "the same for the same history"


def test_oai_9_a_made_id_is_never_one_that_is_there() -> None:
    found = items("q", said(call("f", id="adk-openai-call-0"), call("g")))
    assert [item["call_id"] for item in found[1:]] == ["adk-openai-call-0", "adk-openai-call-1"]


def test_oai_10_a_later_response_takes_the_place_of_the_earlier_one() -> None:
    history: list[Content | str] = [
        "q",
        said(call("slow", id="a")),
        user(answer("slow", {"s": "pending"}, "a")),
        said("wait"),
    ]
    found = items(*history, user(answer("slow", {"s": "done"}, "a")))
    assert [item["type"] for item in found] == ["message", "function_call", "function_call_output", "message"]
    assert found[2]["output"] == '{"s":"done"}'


def test_oai_10_a_response_whose_call_was_compacted_away_is_refused_by_id() -> None:
    assert "'gone'" in str(refusal("summary", user(answer("f", {}, "gone"))))


def test_case_hist_3_one_id_in_two_turns() -> None:
    history: list[Content | str] = [
        "q",
        said(call("w", {"city": "A"}, "call_0")),
        user(answer("w", {"t": 1}, "call_0")),
        said(call("w", {"city": "B"}, "call_0")),
        user(answer("w", {"t": 2}, "call_0")),
    ]
    first, one, second, two = items(*history)[1:]
    assert (first["arguments"], one["output"]) == ('{"city":"A"}', '{"t":1}')
    assert (second["arguments"], two["output"]) == ('{"city":"B"}', '{"t":2}')
    assert first["call_id"] == one["call_id"] != second["call_id"] == two["call_id"]


def test_case_hist_3_one_id_twice_in_one_turn() -> None:
    history: list[Content | str] = ["q", said(call("w", {"n": 1}, "w"), call("w", {"n": 2}, "w"))]
    found = items(*history, user(answer("w", {"r": 1}, "w"), answer("w", {"r": 2}, "w")))
    outputs = {item["call_id"]: item["output"] for item in found if item["type"] == "function_call_output"}
    assert [outputs[item["call_id"]] for item in found if item["type"] == "function_call"] == ['{"r":1}', '{"r":2}']


# --- media and the rest ----------------------------------------------------------------------------------------------


def part_item(part: Part) -> dict[str, Any]:
    (found,) = items(user(part))[0]["content"]
    assert isinstance(found, dict)
    return found


def test_oai_11_images() -> None:
    image = Part(inline_data=Blob(data=b"\x00\xff", mime_type="image/png"))
    assert part_item(image) == {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AP8="}
    linked = Part(file_data=FileData(file_uri="https://h/x", mime_type="image/jpeg"))
    assert part_item(linked) == {"type": "input_image", "detail": "auto", "image_url": "https://h/x"}
    stored = Part(file_data=FileData(file_uri="file-1", mime_type="image/jpeg"))
    assert part_item(stored) == {"type": "input_image", "detail": "auto", "file_id": "file-1"}


def test_oai_11_files() -> None:
    pdf = Part(inline_data=Blob(data=b"%PDF", mime_type="application/pdf", display_name="a.pdf"))
    assert part_item(pdf) == {
        "type": "input_file",
        "filename": "a.pdf",
        "file_data": "data:application/pdf;base64,JVBERg==",
    }
    nameless = part_item(Part(inline_data=Blob(data=b"x", mime_type="application/pdf")))
    assert nameless["filename"] == "file.pdf"
    by_id = Part(file_data=FileData(file_uri="file-abc", mime_type="application/pdf"))
    assert part_item(by_id) == {"type": "input_file", "file_id": "file-abc"}
    by_url = Part(file_data=FileData(file_uri="https://h/a.pdf", mime_type="application/pdf"))
    assert part_item(by_url) == {"type": "input_file", "file_url": "https://h/a.pdf"}


@pytest.mark.parametrize("mime", ["audio/wav", "video/mp4", "Audio/PCM"])
def test_oai_11_sound_and_film_are_refused(mime: str) -> None:
    assert mime.lower() in str(refusal(user(Part(inline_data=Blob(data=b"x", mime_type=mime)))))
    assert refusal(user(Part(file_data=FileData(file_uri="https://h/x", mime_type=mime)))).code == "unsupported_part"


def test_oai_11_media_of_a_model_and_unnamed_parts_are_refused() -> None:
    refusal("q", said(Part(inline_data=Blob(data=b"x", mime_type="image/png"))))
    refusal(user(Part(inline_data=Blob(data=b"x"))))
    refusal(user(Part(file_data=FileData(mime_type="image/png"))))
    assert "'toolCall'" in str(refusal(user(Part(extra={"toolCall": {}}))))


def test_oai_12_media_in_a_response_makes_its_output_a_list() -> None:
    image = FunctionResponsePart(inline_data=FunctionResponseBlob(data=b"x", mime_type="image/png"))
    pdf = FunctionResponsePart(file_data=FileData(file_uri="https://h/a.pdf", mime_type="application/pdf"))
    history: list[Content | str] = ["q", said(call("f", id="a")), user(answer("f", {"n": 1}, "a", parts=(image, pdf)))]
    assert items(*history)[-1]["output"] == [
        {"type": "input_text", "text": '{"n":1}'},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,eA=="},
        {"type": "input_file", "file_url": "https://h/a.pdf"},
    ]


def test_oai_13_code_becomes_text() -> None:
    code = Part(executable_code=ExecutableCode(code="print(1)", language="PYTHON"))
    result = Part(code_execution_result=CodeExecutionResult(outcome="OUTCOME_OK", output="1"))
    content = items("q", said(code, result))[1]["content"]
    assert [piece["text"] for piece in content] == ["```python\nprint(1)\n```", "```\nOUTCOME_OK\n1\n```"]


def test_oai_13_signatures_and_empty_parts_are_skipped() -> None:
    """T-15: the reference fails on them."""
    assert items("q", said(Part(thought_signature=b"s"), Part(), "a"))[1]["content"] == "a"


def test_oai_14_a_history_that_ends_with_the_model_is_sent_as_it_is() -> None:
    assert [item["role"] for item in items("q", said("a"))] == ["user", "assistant"]


def test_sdk_12_the_phase_of_a_message_is_replayed() -> None:
    note = Part(text="looking", part_metadata={"openai": {"phase": "commentary"}})
    final = Part(text="found", part_metadata={"openai": {"phase": "final_answer"}})
    assert items("q", said(note, final))[1:] == [
        {"type": "message", "role": "assistant", "content": "looking", "phase": "commentary"},
        {"type": "message", "role": "assistant", "content": "found", "phase": "final_answer"},
    ]


def test_oai_48_nothing_to_send_is_refused() -> None:
    assert refusal(Content(role="user")).code == "no_contents"
    assert refusal(said(Part(text="hm", thought=True))).code == "no_contents"
