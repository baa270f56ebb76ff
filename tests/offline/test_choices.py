"""Which tool wins when one lacks a choice, and words that ask for a tool and are no values (extensions/offline)."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from hookwork.model import ModelRequest
from hookwork.records.content import Content, user_content
from hookwork.records.request import FunctionDeclaration
from hookwork_offline.model import respond

TEXT = {"type": "string"}


def declared(name: str, description: str, *optional: str, **properties: Any) -> FunctionDeclaration:
    """A declaration whose parameters are all required, but for those named in `optional`."""
    return FunctionDeclaration(
        name=name,
        description=description,
        parameters_json_schema={
            "type": "object",
            "properties": properties,
            "required": [parameter for parameter in properties if parameter not in optional],
        },
    )


WEATHER = declared("get_weather", "Current weather of a city.", city=TEXT)
CITY_OR_LAST = declared("get_weather", "Current weather of a city: its temperature and rain.", "city", city=TEXT)
UNIT = declared(
    "set_temperature_unit",
    "Sets the temperature unit of all later answers.",
    unit={"type": "string", "enum": ["celsius", "fahrenheit"]},
)
REPORT = declared("buy_report", "Buys the full weather report of a city.", city=TEXT)
TASK = declared("add_task", "Add a task.", title=TEXT)
FLIGHT = declared("book_flight", "Book a flight.", destination=TEXT)


def said(message: str, *tools: FunctionDeclaration) -> Content:
    """The model's turn."""
    request = ModelRequest(contents=[user_content(message)])
    request.add_declarations(tools)
    return respond(request.contents, request.config)


def calls(message: str, *tools: FunctionDeclaration) -> list[tuple[str, dict[str, Any]]]:
    """Name and arguments of each call."""
    return [(call.name or "", dict(call.args or {})) for call in said(message, *tools).function_calls]


@pytest.mark.parametrize("weather", [WEATHER, CITY_OR_LAST])
@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize(
    ("message", "city"), [("What's the temperature in Paris?", "Paris"), ("the temperature in oslo please", "oslo")]
)
def test_a_tool_whose_choice_is_not_in_the_text_loses_to_one_that_can_be_filled(
    message: str, city: str, order: tuple[int, ...], weather: FunctionDeclaration
) -> None:
    tools = [(weather, UNIT, REPORT)[i] for i in order]
    assert calls(message, *tools) == [("get_weather", {"city": city})]


@pytest.mark.parametrize("message", ["Change temperatures to fahrenheit", "temperature in fahrenheit please"])
def test_a_tool_whose_choice_is_in_the_text_wins(message: str) -> None:
    assert calls(message, WEATHER, UNIT) == [("set_temperature_unit", {"unit": "fahrenheit"})]


@pytest.mark.parametrize(
    "message", ["Set the temperature unit", "Which temperature unit do you use?", "Set the temperature in Paris"]
)
def test_a_tool_that_was_named_is_asked_about(message: str) -> None:
    content = said(message, CITY_OR_LAST, UNIT)
    assert content.function_calls == []
    assert content.text.startswith("Which unit?")


def test_a_tool_that_needs_nothing_wins_when_the_words_speak_of_it() -> None:
    assert calls("What's the temperature?", CITY_OR_LAST, UNIT) == [("get_weather", {})]


def test_a_tool_that_changes_something_never_wins_this_way() -> None:
    assert calls("What's the temperature in Paris?", UNIT, REPORT) == []


@pytest.mark.parametrize(
    ("message", "tool", "parameter"),
    [
        ("I want to buy a report", REPORT, "city"),
        ("I'd like to buy a report", REPORT, "city"),
        ("How to get a weather report?", REPORT, "city"),
        ("I Want To Buy A Report", REPORT, "city"),
        ("Please buy the Report", REPORT, "city"),
        ("I need to book a flight", FLIGHT, "destination"),
        ("I want to add a task", TASK, "title"),
    ],
)
def test_words_that_chose_the_tool_are_no_values(message: str, tool: FunctionDeclaration, parameter: str) -> None:
    content = said(message, tool)
    assert content.function_calls == []
    assert content.text.startswith(f"Which {parameter}?")


@pytest.mark.parametrize(
    ("message", "tool", "args"),
    [
        ("I want to buy a report for oslo", REPORT, {"city": "oslo"}),
        ("I want to get weather for oslo", WEATHER, {"city": "oslo"}),
        ("Buy a report for the city oslo", REPORT, {"city": "oslo"}),
        ("buy a report for new york city", REPORT, {"city": "new york"}),
        ("I want to book a flight to rome", FLIGHT, {"destination": "rome"}),
        ("Book me a flight to Rome", FLIGHT, {"destination": "Rome"}),
        ("add a task: call mom", TASK, {"title": "call mom"}),
    ],
)
def test_a_preposition_still_leads_to_its_value(message: str, tool: FunctionDeclaration, args: dict[str, Any]) -> None:
    assert calls(message, tool) == [(tool.name, args)]
