"""What records offer besides their wire form (services §1, core §7)."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from hookwork import platform
from hookwork.errors import StateMutationError, ValidationError
from hookwork.records.content import (
    Blob,
    CodeExecutionResult,
    Content,
    FunctionCall,
    FunctionResponse,
    Part,
    text_content,
    user_content,
)
from hookwork.records.event import (
    NO_ACTIONS,
    Event,
    EventActions,
    EventCompaction,
    NodeInfo,
    RequestInput,
    ToolConfirmation,
    frozen_delta,
    is_compaction,
    is_human_input,
    is_rewind,
    is_task_result,
    new_event,
)
from hookwork.records.frozen import FrozenDict, FrozenList
from hookwork.records.metadata import ModelResponse, Transcription
from hookwork.records.request import FunctionDeclaration, GenerateContentConfig, ToolDeclaration

CALL = Part(function_call=FunctionCall(id="c", name="f", args={"a": [1]}))
RESPONSE = Part(function_response=FunctionResponse(id="c", name="f", response={"r": 1}))
TEXT = Part(text="hello")


def event(*parts: Part, **fields: Any) -> Event:
    return Event(content=Content(role="model", parts=list(parts)) if parts else None, **fields)


# --- COD-8 ------------------------------------------------------------------------------------------------------------


def test_cod_8_fields_cannot_be_assigned() -> None:
    with pytest.raises(AttributeError):
        TEXT.text = "other"  # type: ignore[misc]
    assert TEXT.replace(text="other") == Part(text="other")
    assert TEXT.text == "hello"


def test_cod_8_records_compare_by_value_with_their_extra() -> None:
    assert Part(text="a") == Part(text="a")
    assert Part(text="a") != Part(text="a", extra={"x": 1})
    assert copy.copy(TEXT) is TEXT
    assert copy.deepcopy(TEXT) is TEXT


def payloads(args: Any) -> list[Any]:
    return [
        FunctionCall(args=args).args,
        FunctionResponse(response=args).response,
        Part(part_metadata=args).part_metadata,
        Part(media_resolution=args).media_resolution,
        EventActions(state_delta={"k": args}).state_delta["k"],
        ToolConfirmation(payload=args).payload,
        RequestInput(payload=args).payload,
        RequestInput(response_schema=args).response_schema,
        Event(output=args).output,
        Event(custom_metadata=args).custom_metadata,
        FunctionDeclaration(parameters_json_schema=args).parameters_json_schema,
    ]


@pytest.mark.parametrize("index", range(11))
def test_cod_8_payloads_are_frozen_copies_to_the_leaves(index: int) -> None:
    mine: dict[str, Any] = {"a": [{"b": 1}]}
    payload = payloads(mine)[index]
    mine["a"].append(2)
    assert payload == {"a": [{"b": 1}]}
    with pytest.raises(StateMutationError):
        payload["a"][0]["b"] = 2


@pytest.mark.parametrize("index", range(11))
def test_cod_8_a_frozen_payload_is_taken_as_it_is_and_replace_keeps_it(index: int) -> None:
    frozen = FunctionCall(args={"a": [1]}).args
    assert payloads(frozen)[index] == frozen
    call = FunctionCall(args=frozen)
    assert call.args is frozen
    assert call.replace(id="x").args is frozen


def test_cod_8_parts_are_a_frozen_list_whatever_they_came_as() -> None:
    for parts in ([TEXT], (TEXT,), iter([TEXT])):
        content = Content(role="user", parts=list(parts))
        assert type(content.parts) is FrozenList
        assert content.parts == [TEXT]
    mine = [TEXT]
    content = Content(parts=mine)
    mine.append(CALL)
    assert content.parts == [TEXT]
    with pytest.raises(StateMutationError):
        content.parts.append(CALL)


def test_deltas_are_never_none_and_artifact_deltas_frozen() -> None:
    assert (EventActions().state_delta, EventActions().artifact_delta) == ({}, {})
    actions = EventActions(artifact_delta={"a": 1}, requested_tool_confirmations={"c": ToolConfirmation()})
    assert type(actions.artifact_delta) is FrozenDict
    assert type(actions.requested_tool_confirmations) is FrozenDict
    assert EventActions(state_delta=None).state_delta == {}  # type: ignore[arg-type]
    assert NO_ACTIONS.is_empty
    assert not EventActions(escalate=True).is_empty


@pytest.mark.parametrize("key", ["", "app:", "user:", "temp:", 1])
def test_sta_8_delta_keys_are_names(key: Any) -> None:
    with pytest.raises(ValidationError, match="state key"):
        EventActions(state_delta={key: 1})
    with pytest.raises(ValidationError, match="state key"):
        frozen_delta({key: 1})


def test_sta_2_an_empty_remainder_behind_two_prefixes_is_a_name() -> None:
    assert frozen_delta({"app:temp:": 1, "app:temp:x": 2}) == {"app:temp:": 1, "app:temp:x": 2}


# --- contents ---------------------------------------------------------------------------------------------------------


def test_user_content_takes_text_content_and_parts() -> None:
    expected = Content(role="user", parts=[TEXT])
    for message in ("hello", expected, Content(parts=[TEXT]), Content(role="model", parts=[TEXT]), [TEXT], (TEXT,)):
        assert user_content(message) == expected
    assert user_content(expected) is expected
    assert text_content("hello") == Content(role="model", parts=[TEXT])


def test_content_text_leaves_thoughts_out() -> None:
    thought = Part(text="hm ", thought=True)
    assert Content(parts=[thought, TEXT, CALL, Part(text="!")]).text == "hello!"
    assert Content(parts=[thought]).text == ""
    assert Content(parts=[TEXT]).text == "hello"
    assert Content().text == ""
    assert Content(parts=[CALL]).text == ""


def test_calls_and_responses_in_order() -> None:
    second = Part(function_call=FunctionCall(id="d"))
    content = Content(parts=[CALL, TEXT, second, RESPONSE])
    assert [call.id for call in content.function_calls] == ["c", "d"]
    assert [response.id for response in content.function_responses] == ["c"]
    assert event(CALL).function_calls == [CALL.function_call]
    assert Event().function_calls == []
    assert Event().function_responses == []


@pytest.mark.parametrize(
    ("part", "empty"),
    [
        (Part(), True),
        (Part(text=""), True),
        (TEXT, False),
        (Part(thought=True), False),
        (Part(inline_data=Blob()), False),
    ],
)
def test_empty_parts(part: Part, empty: bool) -> None:
    assert part.is_empty() is empty


# --- events -----------------------------------------------------------------------------------------------------------


def test_evt_4_a_new_event_takes_id_and_time_from_the_platform() -> None:
    moment = datetime(2026, 1, 1, 0, 0, 0, 5, tzinfo=UTC)
    with platform.use_clock(lambda: moment), platform.use_uuids(lambda: "id-1"):
        made = new_event("e-1", author="a")
    assert made == Event(id="id-1", timestamp=1767225600.000005, invocation_id="e-1", author="a")
    assert made.time == moment
    bare = Event()
    assert (bare.id, bare.invocation_id, bare.author, bare.timestamp) == ("", "", "", 0.0)
    assert bare.actions.state_delta == {}


def test_evt_8_an_empty_node_info_is_none() -> None:
    for info in (NodeInfo(), NodeInfo(message_as_output=False), NodeInfo(output_for=(), status="")):
        assert Event(node_info=info).node_info is None
    assert Event(node_info=NodeInfo(path="a@1")).path == "a@1"
    assert Event().path == ""


def test_id_lists_become_tuples() -> None:
    made = Event(long_running_tool_ids=["a"], routes=["x"])  # type: ignore[arg-type]
    assert (made.long_running_tool_ids, made.routes) == (("a",), ("x",))


CODE = Part(code_execution_result=CodeExecutionResult(outcome="OUTCOME_OK"))
COMPACTION = EventActions(compaction=EventCompaction(start_timestamp=1.0, end_timestamp=2.0))
REWIND = EventActions(rewind_before_invocation_id="e-1")
SPOKEN = Transcription(text="hi", finished=True)


@pytest.mark.parametrize(
    ("made", "final"),
    [
        (event(TEXT), True),
        (event(TEXT, partial=True), False),
        (event(TEXT, actions=COMPACTION), False),
        (event(TEXT, actions=REWIND), False),
        (event(TEXT, partial=True, long_running_tool_ids=("c",)), False),
        (event(CALL, long_running_tool_ids=("c",)), True),
        (event(RESPONSE, actions=EventActions(skip_summarization=True)), True),
        (event(error_code="X"), True),
        (event(CALL, error_code="X"), True),
        (event(CALL), False),
        (event(RESPONSE), False),
        (event(TEXT, CALL), False),
        (event(), False),
        (event(actions=EventActions(state_delta={"n": 1})), False),
        (event(actions=EventActions(artifact_delta={"f": 1})), False),
        (event(input_transcription=SPOKEN), True),
        (event(output_transcription=SPOKEN), True),
        (event(output=0), True),
        (event(CODE), False),
        (event(CODE, TEXT), True),
        (event(TEXT, CODE), False),
        (event(Part(text="")), True),
    ],
)
def test_evt_20_final_responses(made: Event, final: bool) -> None:
    assert made.is_final_response() is final


def test_kinds_of_user_authored_events() -> None:
    person = event(TEXT, author="user")
    answer = event(RESPONSE, author="user")
    compaction, rewind = Event(author="user", actions=COMPACTION), Event(author="user", actions=REWIND)
    result = event(RESPONSE, author="user", node_info=NodeInfo(path="a@1"))
    assert [is_human_input(e) for e in (person, answer, compaction, rewind, result)] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert is_compaction(compaction)
    assert is_rewind(rewind)
    assert is_task_result(result)
    assert not is_task_result(answer)
    assert not is_human_input(event(TEXT, author="agent"))


def test_model_response_text() -> None:
    assert ModelResponse(content=text_content("a")).text == "a"
    assert ModelResponse().text == ""


def test_config_lists_its_declarations() -> None:
    one, two = FunctionDeclaration(name="one"), FunctionDeclaration(name="two")
    config = GenerateContentConfig(
        tools=(
            ToolDeclaration(function_declarations=(one,)),
            ToolDeclaration(google_search={}),
            ToolDeclaration(function_declarations=(two,)),
        )
    )
    assert config.function_declarations() == [one, two]
    assert GenerateContentConfig().function_declarations() == []
