"""Results worded so that a person can read them: tables for lists, sentences for flat results, errors as errors."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork.records.content import Content, FunctionCall, FunctionResponse, FunctionResponsePart, Part, user_content
from hookwork.records.request import GenerateContentConfig
from hookwork_offline.model import respond


def worded(response: dict[str, Any] | None, name: str = "read_disk", attachments: int = 0) -> str:
    parts = tuple(FunctionResponsePart() for _ in range(attachments)) or None
    return respond(
        [
            user_content("please"),
            Content(role="model", parts=[Part(function_call=FunctionCall(name=name, args={}))]),
            Content(
                role="user",
                parts=[Part(function_response=FunctionResponse(name=name, response=response, parts=parts))],
            ),
        ],
        GenerateContentConfig(),
    ).text


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"free_gb": 12.5, "mounted": True, "label": None}, "Free is 12.5 GB, mounted is yes and label is unknown."),
        ({"result": "All is well."}, "All is well."),
        ({"result": 42}, "Read disk: 42."),
        ({"result": ["a", "b"]}, "- a\n- b"),
        ({"result": []}, "Nothing was found (`read_disk`)."),
        ({"result": None}, "Done (`read_disk`)."),
        ({}, "Done (`read_disk`)."),
        (None, "Done (`read_disk`)."),
        ({"summary": "Two disks.", "count": 2}, "Two disks.\n\nCount is 2."),
        ({"disk": {"name": "sda", "size_gb": 10}}, "Disk: name is sda and size is 10 GB."),
        ({"tags": ["x", "y"]}, "Tags:\n- x\n- y"),
        ({"tags": []}, "Tags: none."),
        ({"result": '{"a": 1}'}, "A is 1."),
        ({"result": "{broken"}, "{broken"),
    ],
)
def test_results_are_sentences_and_lists(response: dict[str, Any] | None, text: str) -> None:
    assert worded(response) == text


def test_rows_become_a_table() -> None:
    rows = [{"name": "sda", "size_gb": 10}, {"name": "a|b", "free": True}]
    assert worded({"result": rows}).splitlines() == [
        "| name | size gb | free |",
        "|------|---------|------|",
        "| sda  | 10      |      |",
        "| a\\|b | &       | yes  |".replace("&", " "),
    ]


def test_a_long_table_says_how_much_was_left_off() -> None:
    lines = worded({"result": [{"n": n} for n in range(53)]}).splitlines()
    assert len(lines) == 2 + 50 + 1
    assert lines[-1] == "… and 3 more"


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"error": "disk is on fire"}, "`read_disk` failed: disk is on fire."),
        (
            {"error": "The call was rejected.", "payload": {"why": "no"}},
            "`read_disk` was not run: The call was rejected.",
        ),
        ({"error": {"code": 5}}, '`read_disk` failed: {"code": 5}.'),
        ({"status": "pending"}, "`read_disk` has no result yet, it is waiting."),
        ({"status": "interrupted", "error": "cut"}, "`read_disk` was interrupted and has no result: cut."),
    ],
)
def test_errors_and_open_calls_are_said_as_such(response: dict[str, Any], text: str) -> None:
    assert worded(response).split("\n\n")[0] == text


def test_a_field_called_error_that_holds_nothing_is_no_error() -> None:
    assert worded({"ok": True, "error": None}) == "Ok is yes and error is unknown."


def test_a_status_field_beside_data_is_data() -> None:
    assert worded({"status": "pending", "order": 7}) == "Status is pending and order is 7."


def test_a_hand_over_is_said() -> None:
    assert worded({}, name="transfer_to_agent") == "Handed over to another agent."


def test_attachments_are_mentioned() -> None:
    assert worded({"result": "Two scans."}, attachments=2) == "Two scans.\n\n(It came with 2 attachments.)"
