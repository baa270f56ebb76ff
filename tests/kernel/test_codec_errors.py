"""Bad data: where it is, what was expected, never the value itself (services COD-7, EVT-6, EVT-9)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork.errors import ValidationError
from hookwork.records.codec import dump, load
from hookwork.records.content import Content, FunctionCall, Part
from hookwork.records.event import Event, EventActions
from hookwork.records.metadata import LogprobsCandidate

SECRET = "s3cret"
CASES: list[tuple[Any, str, str]] = [
    ([], "", "expected an object, found a list"),
    (None, "", "expected an object, found null"),
    (SECRET, "", "expected an object, found text"),
    ({"author": 7}, "author", "expected text, found a number"),
    ({"author": True}, "author", "expected text, found a boolean"),
    ({"partial": SECRET}, "partial", "expected true or false, found text"),
    ({"partial": 1}, "partial", "expected true or false, found a number"),
    ({"content": []}, "content", "expected an object, found a list"),
    ({"content": {"parts": {}}}, "content.parts", "expected a list, found an object"),
    ({"content": {"parts": [{}, None]}}, "content.parts[1]", "expected an object, found null"),
    ({"content": {"parts": [{"text": {"a": SECRET}}]}}, "content.parts[0].text", "expected text, found an object"),
    (
        {"content": {"Parts": [{"function_call": {"args": [SECRET]}}]}},
        "content.Parts[0].function_call.args",
        "expected an object, found a list",
    ),
    ({"longRunningToolIds": ["a", 2]}, "longRunningToolIds[1]", "expected text, found a number"),
    ({"actions": {"artifactDelta": {"f.txt": 1.5}}}, "actions.artifactDelta.f.txt", "expected a whole number"),
    ({"actions": {"artifactDelta": {"f.txt": True}}}, "actions.artifactDelta.f.txt", "expected a whole number"),
    ({"actions": {"stateDelta": {"": SECRET}}}, "actions.stateDelta", "non-empty text"),
    ({"actions": {"stateDelta": {"user:": SECRET}}}, "actions.stateDelta", "no name"),
    (
        {"actions": {"requestedToolConfirmations": {"c1": {"confirmed": SECRET}}}},
        "actions.requestedToolConfirmations.c1.confirmed",
        "expected true or false",
    ),
    ({"avgLogprobs": SECRET}, "avgLogprobs", "expected a number, found text"),
    ({"avgLogprobs": False}, "avgLogprobs", "expected a number, found a boolean"),
    ({"avgLogprobs": 10**400}, "avgLogprobs", "a number that a double can hold"),
    ({"content": {"parts": [{"thoughtSignature": "s3cret!"}]}}, "content.parts[0].thoughtSignature", "base64"),
    ({"timestamp": True}, "timestamp", "found a boolean"),
    ({"timestamp": {}}, "timestamp", "found an object"),
    ({"timestamp": SECRET}, "timestamp", "RFC 3339"),
    ({"timestamp": "2026-01-01"}, "timestamp", "RFC 3339"),
    ({"timestamp": "2026-01-01T00:00:00"}, "timestamp", "RFC 3339"),
    ({"timestamp": "2026-02-30T00:00:00Z"}, "timestamp", "does not exist"),
    ({"timestamp": "0001-01-01T00:00:00+01:00"}, "timestamp", "years 1 to 9999"),
    ({"timestamp": 1767225600000}, "timestamp", "milliseconds"),
    ({"timestamp": 10**400}, "timestamp", "years 1 to 9999"),
    ({"timestamp": -62135596801}, "timestamp", "years 1 to 9999"),
    (
        {"actions": {"compaction": {"startTimestamp": SECRET}}},
        "actions.compaction.startTimestamp",
        "RFC 3339",
    ),
    (
        {"actions": {"compaction": {}}, "compactionExcludedEvents": [{"timestamp": SECRET}]},
        "compactionExcludedEvents[0].timestamp",
        "RFC 3339",
    ),
]


@pytest.mark.parametrize(
    ("document", "path", "problem"), CASES, ids=[f"{path or 'root'}-{i}" for i, (_, path, _) in enumerate(CASES)]
)
def test_cod_7_the_fault_is_named_by_path_and_kind(document: Any, path: str, problem: str) -> None:
    sources: list[Any] = [json.dumps(document), json.dumps(document).encode()]
    if isinstance(document, dict):
        sources.append(document)
    for source in sources:
        with pytest.raises(ValidationError) as caught:
            load(Event, source)
        assert caught.value.path == path
        assert problem in str(caught.value)
        assert (path or "Event") in str(caught.value)
        assert SECRET not in str(caught.value)
        assert caught.value.__cause__ is None


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"output":{"a":[1,%s]}}', "output.a[1]"),
        ('{"avgLogprobs":%s}', "avgLogprobs"),
        ('{"new":%s}', "new"),
        ('{"actions":{"stateDelta":{"k":%s}}}', "actions.stateDelta.k"),
    ],
)
def test_evt_9_json_has_no_nan_and_no_infinity(text: str, path: str, number: str) -> None:
    source = text % number
    for data in (source, source.encode(), json.loads(source)):
        with pytest.raises(ValidationError, match="no NaN and no infinity") as caught:
            load(Event, data)
        assert caught.value.path == path


def test_evt_9_values_json_cannot_hold_are_named() -> None:
    with pytest.raises(ValidationError, match=r"cannot hold a builtins\.set") as caught:
        load(Event, {"output": {"a": {1}}})
    assert caught.value.path == "output.a"
    with pytest.raises(ValidationError, match="keys are text, not int") as caught:
        load(Event, {"output": [{1: "x"}]})
    assert caught.value.path == "output[0]"


def test_evt_12_keys_that_become_equal_are_refused() -> None:
    with pytest.raises(ValidationError, match="become equal") as caught:
        load(Event, '{"output":{"a\\u0000":1,"a\\ud800":2}}')
    assert caught.value.path == "output"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("", "line 1, column 1"),
        ("{", "line 1, column 2"),
        ('{"a": s3cret}', "line 1, column 7"),
        ("{}\n{}", "line 2, column 1"),
        (b'{"author":"\xff"}', "byte 11 is not UTF-8"),
        ('{"output":' + "9" * 5000 + ".x}", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"output":' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_cod_7_text_that_is_no_json(data: str | bytes, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem) as caught:
        load(Event, data)
    assert "s3cret" not in str(caught.value)


def test_cod_7_a_document_that_contains_itself() -> None:
    loop: dict[str, Any] = {}
    loop["output"] = loop
    with pytest.raises(ValidationError, match="nested too deeply"):
        load(Event, loop)


def test_cod_6_a_time_that_no_text_can_hold_is_not_written() -> None:
    with pytest.raises(ValidationError, match="years 1 to 9999") as caught:
        dump(Event(timestamp=1767225600000.0), times="rfc3339")
    assert caught.value.path == "timestamp"


def test_cod_7_what_json_cannot_hold_is_not_written() -> None:
    with pytest.raises(ValidationError, match="LogprobsCandidate cannot be written as JSON"):
        dump(LogprobsCandidate(extra={"a": object()}))


@given(st.binary(max_size=30) | st.text(max_size=30))
def test_cod_7_any_text_gives_a_record_or_a_validation_error(data: str | bytes) -> None:
    try:
        result: Any = load(Event, data)
    except ValidationError as error:
        result = error
    assert isinstance(result, Event) or str(result).startswith("Event")


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: FunctionCall(args={"a": [float("nan")]}), "args.a[0]"),
        (lambda: EventActions(state_delta={"k": {"x": float("inf")}}), "k.x"),
        (lambda: Event(output={"o": object()}), "output.o"),
        (lambda: Content(parts=[Part(function_call=FunctionCall(args={"b": b"x"}))]), "args.b"),
    ],
)
def test_evt_9_a_record_refuses_what_json_cannot_hold_at_its_door(make: Any, path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        make()
    assert caught.value.path == path
