"""The acceptance of the offline model: ten utterances with the calls they must lead to (issue extensions/offline)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork.model import ModelRequest
from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part, text_content, user_content
from hookwork.records.request import FunctionDeclaration, GenerateContentConfig, ToolDeclaration
from hookwork_offline import OfflineModel

TEXT = {"type": "string"}


def declared(
    name: str, description: str, required: list[str] | None = None, /, **properties: Any
) -> FunctionDeclaration:
    """A declaration as function tools make it; every parameter is required unless `required` says otherwise."""
    return FunctionDeclaration(
        name=name,
        description=description,
        parameters_json_schema={
            "type": "object",
            "properties": properties,
            "required": list(properties) if required is None else required,
        },
    )


WEATHER = declared("get_weather", "Current weather of a city.", city={**TEXT, "description": "Name of the city."})
CLOCK = declared("get_time", "Local time in a city.", city=TEXT)
DISK = declared("storage_report", "How much free disk space this computer has left.")
CATALOGUE = declared("lookup", "Look something up in the catalogue.", isbn=TEXT)
THERMOSTAT = declared(
    "set_thermostat",
    "Set the heating of the house.",
    temperature={"type": "integer", "minimum": 5, "maximum": 30},
    mode={"type": "string", "enum": ["heat", "cool", "auto"]},
)
CUSTOMER = declared("find_customer", "Find a customer by name.", name=TEXT)
ORDERS = declared("list_orders", "List the orders of a customer.", customer_id={"type": "integer"})
DELETE = declared("delete_file", "Delete a file.", path=TEXT)
TRANSFER = declared(
    "transfer_to_agent", "Hand over to another agent.", agent_name={"type": "string", "enum": ["billing", "support"]}
)
TOOLS = [WEATHER, CLOCK, DISK, CATALOGUE, THERMOSTAT, CUSTOMER, ORDERS, DELETE]


def request(*contents: Content | str, tools: list[FunctionDeclaration] = TOOLS, instruction: str = "") -> ModelRequest:
    """A request as the flow would make it."""
    system = text_content(instruction, "user") if instruction else None
    entries = (ToolDeclaration(function_declarations=tuple(tools)),) if tools else ()
    return ModelRequest(
        contents=[user_content(c) if isinstance(c, str) else c for c in contents],
        config=GenerateContentConfig(system_instruction=system, tools=entries),
    )


async def ask(*contents: Content | str, **options: Any) -> Content:
    """The one unstreamed response's content."""
    responses = [response async for response in OfflineModel().generate(request(*contents, **options))]
    assert len(responses) == 1
    content = responses[0].content
    assert content is not None
    return content


def calls(content: Content) -> list[tuple[str, dict[str, Any]]]:
    """Name and arguments of each call."""
    return [(call.name or "", dict(call.args or {})) for call in content.function_calls]


def called(name: str, /, **args: Any) -> Content:
    """A model turn that made one call."""
    return Content(role="model", parts=[Part(function_call=FunctionCall(name=name, args=args))])


def results(*responses: tuple[str, dict[str, Any]]) -> Content:
    """The content that answers calls."""
    return Content(
        role="user",
        parts=[Part(function_response=FunctionResponse(name=name, response=response)) for name, response in responses],
    )


async def test_1_one_tool_by_description() -> None:
    content = await ask("How much disk space is free?")
    assert calls(content) == [("storage_report", {})]
    assert content.role == "model"


async def test_2_one_tool_by_parameter_name() -> None:
    assert calls(await ask("Do you have ISBN 978-0-13-468599-1?")) == [("lookup", {"isbn": "978-0-13-468599-1"})]


async def test_3_two_calls_for_weather_in_paris_and_in_rome() -> None:
    assert calls(await ask("What is the weather in Paris and in Rome?")) == [
        ("get_weather", {"city": "Paris"}),
        ("get_weather", {"city": "Rome"}),
    ]


async def test_4_a_number_and_an_enum_from_text() -> None:
    assert calls(await ask("Set the heating to 21 degrees, mode auto please")) == [
        ("set_thermostat", {"temperature": 21, "mode": "auto"})
    ]


async def test_5_a_missing_required_argument_is_asked_for_and_then_supplied() -> None:
    question = await ask("What's the weather like?")
    assert calls(question) == []
    assert "city" in question.text
    assert "get_weather" in question.text
    assert "Name of the city" in question.text
    assert calls(await ask("What's the weather like?", question, "Lisbon")) == [("get_weather", {"city": "Lisbon"})]


async def test_6_no_fitting_tool_says_what_it_can_do() -> None:
    content = await ask("Sing me a song", tools=[WEATHER, DELETE])
    assert calls(content) == []
    assert "get weather: Current weather of a city." in content.text
    assert "delete file: Delete a file." in content.text


async def test_7_a_transfer_to_the_agent_whose_description_fits_better() -> None:
    instruction = (
        "You run the front desk.\n\nOther agents can take over:\n"
        "- billing: Answers questions about invoices, refunds and payments.\n"
        "- support: Helps with crashes and technical problems."
    )
    content = await ask("I want a refund of my invoice", tools=[WEATHER, TRANSFER], instruction=instruction)
    assert calls(content) == [("transfer_to_agent", {"agent_name": "billing"})]
    own = await ask("What is the weather in Oslo?", tools=[WEATHER, TRANSFER], instruction=instruction)
    assert calls(own) == [("get_weather", {"city": "Oslo"})]


async def test_8_a_confirmation() -> None:
    """The flow gates the call; the model calls, then words what came of it: pending, approved or rejected."""
    message = "Please delete the file /tmp/notes.txt"
    call = await ask(message)
    assert calls(call) == [("delete_file", {"path": "/tmp/notes.txt"})]
    pending = {"status": "pending", "message": "The call waits for approval."}
    waiting = await ask(message, call, results(("delete_file", pending)))
    assert calls(waiting) == []
    assert "waiting" in waiting.text
    approved = await ask(message, call, results(("delete_file", {"deleted": True})))
    assert approved.text == "Deleted is yes."
    rejected = await ask(message, call, results(("delete_file", {"error": "The call was rejected."})))
    assert rejected.text == "`delete_file` was not run: The call was rejected."


async def test_9_a_tool_error_is_reported_and_the_call_not_repeated() -> None:
    content = await ask(
        "What is the weather in Paris?",
        called("get_weather", city="Paris"),
        results(("get_weather", {"error": "the weather service is down"})),
    )
    assert calls(content) == []
    assert content.text == "`get_weather` failed: the weather service is down."


@pytest.mark.parametrize(
    "message", ["Find the customer Ada Lovelace and list the orders", "List orders of customer Ada"]
)
async def test_10_a_second_tool_takes_a_field_of_the_first_ones_result(message: str) -> None:
    first = await ask(message)
    assert [name for name, _ in calls(first)] == ["find_customer"]
    found = results(("find_customer", {"id": 7, "name": "Ada Lovelace", "city": "London"}))
    second = await ask(message, first, found)
    assert calls(second) == [("list_orders", {"customer_id": 7})]
    orders = results(("list_orders", {"result": [{"order": 1, "total": 9.5}, {"order": 2, "total": 3}]}))
    last = await ask(message, first, found, second, orders)
    assert calls(last) == []
    assert "| order | total |" in last.text
    assert "| 1     | 9.5   |" in last.text
