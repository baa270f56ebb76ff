"""The wire form, example by example (services §1)."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from hookwork.records.codec import dump, dump_json, load
from hookwork.records.content import (
    Blob,
    CodeExecutionResult,
    Content,
    ExecutableCode,
    FileData,
    FunctionCall,
    FunctionResponse,
    Part,
)
from hookwork.records.event import (
    Event,
    EventActions,
    EventCompaction,
    ExcludedEvent,
    NodeInfo,
    RequestInput,
    ToolConfirmation,
)
from hookwork.records.metadata import ModelResponse, Transcription, UsageMetadata
from hookwork.records.request import FunctionDeclaration, GenerateContentConfig
from hookwork.services import ArtifactVersion, MemoryEntry

CALL = Event(
    id="e1",
    timestamp=1767225600.25,
    invocation_id="e-7",
    author="weather",
    content=Content(
        role="model",
        parts=[Part(function_call=FunctionCall(id="adk-1", name="get_weather", args={"cityName": "Oslo"}))],
    ),
    long_running_tool_ids=("adk-1",),
    actions=EventActions(state_delta={"user:last_city": "Oslo"}, artifact_delta={"a.txt": 2}),
)


def test_cod_1_camel_and_epoch_is_the_form_of_rest() -> None:
    assert dump(CALL) == {
        "id": "e1",
        "timestamp": 1767225600.25,
        "invocationId": "e-7",
        "author": "weather",
        "content": {
            "role": "model",
            "parts": [{"functionCall": {"id": "adk-1", "name": "get_weather", "args": {"cityName": "Oslo"}}}],
        },
        "longRunningToolIds": ["adk-1"],
        "actions": {"stateDelta": {"user:last_city": "Oslo"}, "artifactDelta": {"a.txt": 2}},
    }


def test_cod_1_snake_and_rfc3339() -> None:
    assert dump(CALL, keys="snake", times="rfc3339") == {
        "id": "e1",
        "timestamp": "2026-01-01T00:00:00.250000Z",
        "invocation_id": "e-7",
        "author": "weather",
        "content": {
            "role": "model",
            "parts": [{"function_call": {"id": "adk-1", "name": "get_weather", "args": {"cityName": "Oslo"}}}],
        },
        "long_running_tool_ids": ["adk-1"],
        "actions": {"state_delta": {"user:last_city": "Oslo"}, "artifact_delta": {"a.txt": 2}},
    }


def test_cod_1_other_switches_are_refused() -> None:
    with pytest.raises(ValueError, match="'camel' or 'snake'"):
        dump(CALL, keys="pascal")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="records"):
        load(dict, "{}")  # type: ignore[type-var]


def test_evt_4_and_5_the_bare_event_writes_its_five_fields_and_empty_deltas() -> None:
    bare = b'{"id":"","timestamp":0.0,"invocationId":"","author":"","actions":{"stateDelta":{},"artifactDelta":{}}}'
    assert dump_json(Event()) == bare
    assert load(Event, b"{}") == Event()
    assert load(Event, '{"actions": {"stateDelta": null, "artifactDelta": null}}') == Event()


def test_act_1_3_a_confirmation_always_writes_its_three_keys() -> None:
    actions = EventActions(requested_tool_confirmations={"adk-1": ToolConfirmation(hint="Sure?")})
    document = dump(actions)
    assert document["requestedToolConfirmations"] == {"adk-1": {"hint": "Sure?", "confirmed": False, "payload": None}}
    assert load(EventActions, document) == actions
    assert dump(Event(actions=actions), keys="snake")["actions"]["requested_tool_confirmations"] == {
        "adk-1": {"hint": "Sure?", "confirmed": False, "payload": None}
    }


def test_evt_2_requested_input_always_writes_its_id() -> None:
    assert dump(Event(requested_input=RequestInput()))["requestedInput"] == {"interruptId": ""}


def test_cod_5_defaults_are_left_out_and_a_reported_zero_is_not() -> None:
    assert dump(Content(role="user")) == {"role": "user"}
    assert dump_json(Content(role="user", parts=[])) == b'{"role":"user"}'
    assert dump(UsageMetadata(prompt_token_count=0)) == {"promptTokenCount": 0}
    assert dump(Part(thought=False, text="")) == {"text": "", "thought": False}


def test_cod_2_camel_wins_over_snake_and_snake_over_pascal() -> None:
    assert load(Event, {"InvocationId": "p", "invocation_id": "s", "invocationId": "c"}).invocation_id == "c"
    assert load(Event, {"InvocationId": "p", "invocation_id": "s"}).invocation_id == "s"
    assert load(Event, {"invocation_id": "s", "invocationId": None}).invocation_id == "s"
    assert load(Event, {"invocation_id": 7, "invocationId": "c"}).invocation_id == "c"
    assert load(Event, {"InvocationId": "p"}).extra is None


def test_evt_7_go_names_without_tags_are_read() -> None:
    event = load(
        Event,
        {
            "ID": "e1",
            "InvocationID": "e-7",
            "Author": "a",
            "LongRunningToolIDs": ["c"],
            "Content": {"Parts": [{"FileData": {"FileURI": "gs://b/o", "MIMEType": "x"}}]},
        },
    )
    assert (event.id, event.invocation_id, event.author, event.long_running_tool_ids) == ("e1", "e-7", "a", ("c",))
    assert event.content is not None
    assert event.content.parts[0].file_data == FileData(file_uri="gs://b/o", mime_type="x")


def test_cod_3_unknown_keys_are_kept_at_every_depth_in_order_and_spelling() -> None:
    text = (
        '{"content":{"parts":[{"text":"a","newKind":{"b":1}},{"some_kind":null}],"z_z":[]},"id":"1","timestamp":5.0,'
        '"invocationId":"","author":"","actions":{"stateDelta":{},"artifactDelta":{},"endOfAgent":true,"agent_state":{}},'
        '"Zeta":1,"alpha":null}'
    )
    event = load(Event, text)
    assert event.extra == {"Zeta": 1, "alpha": None}
    assert event.actions.extra == {"endOfAgent": True, "agent_state": {}}
    assert event.content is not None
    assert event.content.parts[1] == Part(extra={"some_kind": None})
    assert dump_json(event).decode() == text
    snake = dump(event, keys="snake")
    assert list(snake)[-2:] == ["Zeta", "alpha"]
    assert snake["content"]["parts"] == [{"text": "a", "newKind": {"b": 1}}, {"some_kind": None}]


@pytest.mark.parametrize("key", ["~extra", "\\u007eextra", "~\\u0065xtra"])
def test_cod_3_the_inner_name_of_extra_is_an_unknown_key_like_others(key: str) -> None:
    text = f'{{"role":"user","{key}":{{"a":1}}}}'
    content = load(Content, text)
    assert content == load(Content, text.encode())
    assert content.extra == {"~extra": {"a": 1}}
    assert dump_json(content) == b'{"role":"user","~extra":{"a":1}}'


def test_cod_3_a_known_field_is_not_overwritten_by_an_unknown_key_of_its_name() -> None:
    assert dump(Content(role="user", extra={"role": "model", "x": 1})) == {"role": "user", "x": 1}


def test_cod_4_free_form_content_is_never_touched() -> None:
    odd: dict[str, Any] = {
        "state_delta": None,
        "stateDelta": False,
        "Args": 0,
        "e": "",
        "l": [],
        "o": {},
        "args": {"id": None},
    }
    event = Event(
        content=Content(
            parts=[
                Part(function_call=FunctionCall(args=odd), part_metadata=odd),
                Part(function_response=FunctionResponse(response=odd)),
            ]
        ),
        actions=EventActions(state_delta=odd, artifact_delta={"my_file": 1, "myFile": 2}),
        output=[odd],
        custom_metadata=odd,
        requested_input=RequestInput(payload=odd, response_schema={"max_length": 3}),
    )
    for keys in ("camel", "snake"):
        document = dump(event, keys=keys)
        actions = document["actions"]
        assert (actions.get("stateDelta") or actions.get("state_delta")) == odd
        assert list((actions.get("artifactDelta") or actions.get("artifact_delta")).items()) == [
            ("my_file", 1),
            ("myFile", 2),
        ]
        assert document["output"] == [odd]
        assert list(document["output"][0]) == list(odd)
        assert load(Event, document) == event


def test_cod_4_schemas_keep_their_case() -> None:
    schema = {"type": "object", "properties": {"maxItems": {"max_items": 1}}}
    declaration = FunctionDeclaration(name="f", parameters_json_schema=schema)
    assert dump(declaration, keys="snake") == {"name": "f", "parameters_json_schema": schema}
    config = GenerateContentConfig(labels={"myLabel": "a"}, safety_settings=({"blockThis": 1},))
    assert dump(config, keys="snake") == {"labels": {"myLabel": "a"}, "safety_settings": [{"blockThis": 1}]}


# RFC 4648 §10, and its URL alphabet (§5).
@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("Zm8=", b"fo"),
        ("Zm8", b"fo"),
        ("Zg==", b"f"),
        ("Zg", b"f"),
        ("", b""),
        ("+/+/", b"\xfb\xff\xbf"),
        ("-_-_", b"\xfb\xff\xbf"),
    ],
)
def test_evt_9_both_base64_alphabets_padded_or_not_are_read(text: str, data: bytes) -> None:
    assert load(Blob, {"data": text}) == load(Blob, json.dumps({"data": text})) == Blob(data=data)


def test_evt_9_the_standard_alphabet_with_padding_is_written() -> None:
    assert dump_json(Blob(data=b"\xfb\xff\xbf\x00")) == b'{"data":"+/+/AA=="}'
    assert dump(Blob(data=b"\xfb\xff\xbf\x00"), keys="snake") == {"data": "+/+/AA=="}


@pytest.mark.parametrize("text", ["Z", "Zg=", "Z===", "Zg==Zg==", "Zm8=\n", "Zm 8", "Zé=="])
def test_evt_9_other_text_is_not_base64(text: str) -> None:
    with pytest.raises(ValueError, match="base64"):
        load(Blob, {"data": text})


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (1767225600, 1767225600.0),
        (1767225600.1234567, 1767225600.123457),
        ("2026-01-01T00:00:00Z", 1767225600.0),
        ("2026-01-01T01:30:00.5+01:30", 1767225600.5),
        ("2026-01-01t00:00:00.123456789z", 1767225600.123457),
        ("1969-12-31T23:59:59.999999Z", -0.000001),
        ("0001-01-01T00:00:00Z", -62135596800.0),
        ("9999-12-31T23:59:59Z", 253402300799.0),
        (None, 0.0),
    ],
)
def test_evt_6_times_are_read_in_both_forms_and_rounded(given: Any, seconds: float) -> None:
    assert load(Event, {"timestamp": given}).timestamp == seconds
    assert load(Event, json.dumps({"timestamp": given})).timestamp == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00Z"),
        (1767225600.000001, "2026-01-01T00:00:00.000001Z"),
        (-62135596800.0, "0001-01-01T00:00:00Z"),
        (253402300799.0, "9999-12-31T23:59:59Z"),
    ],
)
def test_cod_6_rfc3339_has_a_fraction_of_none_or_six_digits(seconds: float, text: str) -> None:
    assert dump(Event(timestamp=seconds), times="rfc3339")["timestamp"] == text


def test_cod_6_datetimes_follow_the_same_switch() -> None:
    moment = datetime(2026, 1, 1, 0, 0, 0, 250000, tzinfo=UTC)
    entry, version = MemoryEntry(id="m", timestamp=moment), ArtifactVersion(version=3, create_time=moment)
    assert dump(entry) == {"id": "m", "timestamp": 1767225600.25}
    assert dump_json(version, times="rfc3339") == b'{"version":3,"createTime":"2026-01-01T00:00:00.250000Z"}'
    assert load(MemoryEntry, dump(entry)) == entry
    assert load(ArtifactVersion, dump(version, times="rfc3339")) == version


def test_evt_8_an_empty_node_info_reads_as_none() -> None:
    empty = ["{}", '{"path":""}', '{"path":null,"outputFor":[]}', '{"messageAsOutput":false,"status":""}']
    for text in empty:
        assert load(Event, f'{{"nodeInfo":{text}}}').node_info is None
        assert load(Event, f'{{"node_info":{text}}}').node_info is None
    assert load(Event, '{"nodeInfo":{"path":"a@1"}}').node_info == NodeInfo(path="a@1")
    assert load(Event, '{"nodeInfo":{"x":1}}').node_info == NodeInfo(extra={"x": 1})


def test_evt_10_integers_stay_integers_and_integral_doubles_fit_integer_fields() -> None:
    event = load(Event, '{"output":{"i":1,"f":1.0,"big":9007199254740993}}')
    assert [type(value) for value in event.output.values()] == [int, float, int]
    assert event.output["big"] == 9007199254740993
    assert dump_json(event).endswith(b'"output":{"i":1,"f":1.0,"big":9007199254740993}}')
    usage = load(UsageMetadata, '{"promptTokenCount": 12.0}')
    assert (usage.prompt_token_count, type(usage.prompt_token_count)) == (12, int)


COMPACTED = Event(
    id="c",
    author="user",
    actions=EventActions(
        compaction=EventCompaction(
            start_timestamp=1.5,
            end_timestamp=2.5,
            compacted_content=Content(role="model", parts=[Part(text="so far")]),
            excluded_events=(ExcludedEvent(invocation_id="e-1", timestamp=2.0),),
        )
    ),
)


def test_act_3_excluded_events_stand_at_event_level() -> None:
    document = dump(COMPACTED)
    assert document["compactionExcludedEvents"] == [{"invocationId": "e-1", "timestamp": 2.0}]
    assert set(document["actions"]["compaction"]) == {"startTimestamp", "endTimestamp", "compactedContent"}
    snake = dump(COMPACTED, keys="snake", times="rfc3339")
    assert snake["compaction_excluded_events"] == [{"invocation_id": "e-1", "timestamp": "1970-01-01T00:00:02Z"}]
    assert "excluded_events" not in snake["actions"]["compaction"]
    assert load(Event, document) == load(Event, snake) == load(Event, dump_json(COMPACTED)) == COMPACTED


def test_act_3_the_nested_form_is_read_too_and_written_for_actions_alone() -> None:
    document = dump(COMPACTED)
    document["actions"] = nested = dump(COMPACTED.actions)
    del document["compactionExcludedEvents"]
    assert nested["compaction"]["excludedEvents"] == [{"invocationId": "e-1", "timestamp": 2.0}]
    assert load(Event, document) == COMPACTED
    assert load(EventActions, nested) == COMPACTED.actions


def test_act_3_excluded_events_without_a_compaction_are_an_unknown_key() -> None:
    event = load(Event, '{"compactionExcludedEvents":[]}')
    assert event.extra == {"compactionExcludedEvents": []}


@pytest.mark.parametrize(("routes", "form"), [(("left",), "left"), (("left", "right"), ["left", "right"])])
def test_act_3_routes_are_written_at_both_places(routes: tuple[str, ...], form: Any) -> None:
    event = Event(routes=routes)
    for keys in ("camel", "snake"):
        document = dump(event, keys=keys)
        assert document["routes"] == list(routes)
        assert document["actions"]["route"] == form
        assert load(Event, document) == event
    assert json.loads(dump_json(event))["actions"]["route"] == form
    assert "route" not in dump(Event())["actions"]


def test_act_4_a_route_of_google_adk_is_kept_as_it_was() -> None:
    document = dump(Event()) | {"actions": {"stateDelta": {}, "artifactDelta": {}, "route": ["a"], "endOfAgent": True}}
    event = load(Event, document)
    assert event.actions.extra == {"route": ["a"], "endOfAgent": True}
    assert dump(event) == document


def test_evt_3_model_response_fields_are_inlined() -> None:
    event = load(Event, {"errorCode": "X", "usageMetadata": {"promptTokenCount": 3}, "partial": True})
    assert (event.error_code, event.partial) == ("X", True)
    assert event.usage_metadata == UsageMetadata(prompt_token_count=3)
    assert load(ModelResponse, {"error_code": "X"}) == ModelResponse(error_code="X")


def test_cod_5_unknown_enum_members_are_kept() -> None:
    assert load(Event, {"finishReason": "BRAND_NEW"}).finish_reason == "BRAND_NEW"


def test_cod_8_payloads_are_frozen_however_a_record_was_read() -> None:
    for event in (load(Event, dump_json(CALL)), load(Event, dump(CALL)), load(Event, dump(CALL, "snake"))):
        with pytest.raises(TypeError, match="frozen"):
            event.actions.state_delta["a"] = 1
        assert event.content is not None
        with pytest.raises(TypeError, match="frozen"):
            event.content.parts.append(Part())
    extra = load(Event, {"zzz": {"a": []}}).extra
    assert extra is not None
    with pytest.raises(TypeError, match="frozen"):
        extra["zzz"]["a"].append(1)


DIRTY = '{"errorMessage":"a\\u0000b","content":{"parts":[{"text":"\\ud800"}]},"output":{"k\\u0000":"\\udfff"}}'


@pytest.mark.parametrize("form", ["text", "bytes", "mapping"])
def test_evt_12_text_no_database_can_hold_is_replaced_with_one_warning(
    form: str, caplog: pytest.LogCaptureFixture
) -> None:
    source: Any = {"text": DIRTY, "bytes": DIRTY.encode(), "mapping": json.loads(DIRTY)}[form]
    with caplog.at_level(logging.WARNING, logger="hookwork.records"):
        event = load(Event, source)
    assert event.error_message == "a\ufffdb"
    assert event.content == Content(parts=[Part(text="\ufffd")])
    assert event.output == {"k\ufffd": "\ufffd"}
    assert len(caplog.records) == 1
    assert "errorMessage" in caplog.text
    assert load(Event, dump_json(event)) == event


def test_evt_12_emoji_and_cjk_are_untouched(caplog: pytest.LogCaptureFixture) -> None:
    text = '{"output":"\\ud83d\\ude00 東京"}'
    assert load(Event, text).output == load(Event, json.loads(text)).output == "😀 東京"
    assert dump_json(Event(output="😀 東京")).endswith('"output":"😀 東京"}'.encode())
    assert caplog.records == []


def test_evt_12_text_of_providers_is_replaced_when_it_enters_a_record(caplog: pytest.LogCaptureFixture) -> None:
    assert Event(error_message="a\x00", error_code="b\ud800").error_message == "a\ufffd"
    assert ModelResponse(error_message="a\x00").error_message == "a\ufffd"
    assert ExecutableCode(code="a\x00").code == "a\ufffd"
    assert CodeExecutionResult(output="a\ud800").output == "a\ufffd"
    assert Transcription(text="a\x00").text == "a\ufffd"
    assert FunctionCall(name="f\x00").name == "f\ufffd"
    assert Blob(display_name="f\x00").display_name == "f\ufffd"
    assert len(caplog.records) == 7  # one for each record, whatever its fields


def test_evt_12_typed_text_is_replaced_when_it_is_written(caplog: pytest.LogCaptureFixture) -> None:
    for dirty in ("a\x00", "a\ud800"):
        event = Event(model_version=dirty)
        assert json.loads(dump_json(event))["modelVersion"] == "a\ufffd"
        assert dump(event)["modelVersion"] == dump(event, "snake")["model_version"] == "a\ufffd"
    assert len(caplog.records) == 6
