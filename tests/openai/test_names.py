"""Function names that the service would refuse: there and back, on both APIs (models Beyond, OAI-20).

The rule is that of OpenAI's reference: letters, digits, underscores and dashes, at most 64 characters.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.openai.asking import (
    answer,
    ask,
    asked,
    body,
    body_for_chat,
    call,
    chat_model_on,
    declared,
    model_on,
    said,
    user,
)
from tests.openai.server import Json, Service, Sse
from tests.openai.wire import chat_stream, completion, function_call, message, response, stream, tool_call

from hookwork import Runner, Settings
from hookwork_llm import LlmAgent, tool
from hookwork_openai.names import FunctionNames

LEGAL = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
ODD = ["weather.today", "github/create issue", "wetter_für_münchen", "天気", "x" * 65, "a b", "a.b", "a_b"]


@given(st.lists(st.text(min_size=1, max_size=90), max_size=8, unique=True))
def test_every_set_of_names_goes_out_legal_and_unique_and_comes_back(names: list[str]) -> None:
    mapping = FunctionNames()
    mapping.reserve(names)
    wires = [mapping.wire(name) for name in names]
    assert all(LEGAL.match(wire) for wire in wires)
    assert len(set(wires)) == len(wires)
    assert [mapping.own(wire) for wire in wires] == names


def test_a_made_name_gives_way_to_a_function_that_has_it_already() -> None:
    taken = FunctionNames().wire("a.b")
    mapping = FunctionNames()
    mapping.reserve(["a.b", taken])
    assert mapping.wire(taken) == taken
    assert mapping.wire("a.b") != taken
    assert mapping.own(mapping.wire("a.b")) == "a.b"


def test_a_name_is_the_same_in_each_request_and_legal_ones_stay() -> None:
    assert FunctionNames().wire("a.b") == FunctionNames().wire("a.b")
    assert FunctionNames().wire("get_weather-2") == "get_weather-2"


def of_both(names: list[str]) -> list[tuple[list[str], dict[str, Any]]]:
    """For each API: the names as they were declared on the wire, and the body."""
    request = asked(
        "hi",
        said(call(names[0], {"at": 1}, id="c1")),
        user(answer(names[0], {"ok": True}, id="c1")),
        tools=declared(*names),
        tool_config={"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": names[:1]}},
    )
    one, other = body(request), body_for_chat(request, official=True)
    return [
        ([entry["name"] for entry in one["tools"]], one),
        ([entry["function"]["name"] for entry in other["tools"]], other),
    ]


def test_declarations_calls_of_the_history_and_the_choice_agree() -> None:
    (wires, one), (chat_wires, other) = of_both(ODD)
    assert wires == chat_wires
    assert all(LEGAL.match(wire) for wire in wires)
    assert len(set(wires)) == len(ODD)
    assert wires[-1] == "a_b"
    assert next(item for item in one["input"] if item["type"] == "function_call")["name"] == wires[0]
    assert one["tool_choice"]["tools"] == [{"type": "function", "name": wires[0]}]
    (spoken,) = [entry for entry in other["messages"] if entry.get("tool_calls")]
    assert spoken["tool_calls"][0]["function"]["name"] == wires[0]
    assert other["tool_choice"] == {"type": "function", "function": {"name": wires[0]}}


def test_the_response_of_a_call_has_no_name_on_the_wire() -> None:
    for _, sent in of_both(ODD):
        assert ODD[0] not in json.dumps(sent)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("chat", [False, True])
async def test_an_answer_and_its_partials_carry_the_agents_own_names(
    service: Service, chat: bool, streamed: bool
) -> None:
    wire = FunctionNames().wire("weather.today")
    if chat:
        calls = (tool_call(wire, '{"a": 1}'), tool_call("plain", "{}", id="call_2"))
        reply: Any = (
            Sse(chat_stream("", *calls), named=False, done=True) if streamed else Json(completion(None, *calls))
        )
    else:
        items = (function_call(wire, '{"a": 1}'), function_call("plain", "{}", "call_2", "fc_2"))
        reply = Sse(stream(*items)) if streamed else Json(response(*items))
    model = chat_model_on(service.answers(reply)) if chat else model_on(service.answers(reply))
    responses = await ask(model, asked("hi", tools=declared("weather.today", "plain")), stream=streamed)
    await model.close()
    seen = [
        [part.function_call.name for part in one.content.parts if part.function_call is not None]
        for one in responses
        if one.content is not None
    ]
    assert seen[-1] == ["weather.today", "plain"]
    assert {name for names in seen for name in names} == {"weather.today", "plain"}
    assert len(seen) > 2 if streamed else len(seen) == 1


async def test_a_call_that_was_written_as_text_may_have_either_name(service: Service) -> None:
    wire = FunctionNames().wire("weather.today")
    for name in (wire, "weather.today"):
        service.answers(Json(completion(json.dumps({"name": name, "arguments": {}}))))
        model = chat_model_on(service, parse_text_calls=True)
        (found,) = await ask(model, asked("hi", tools=declared("weather.today")))
        await model.close()
        assert found.content is not None
        assert [one.name for one in found.content.function_calls] == ["weather.today"]


async def test_a_tool_of_such_a_name_runs_in_a_turn(service: Service) -> None:
    @tool(name="weather.today")
    def today(city: str) -> dict[str, Any]:
        """The weather."""
        return {"sky": "clear", "city": city}

    service.answers(
        Json(response(function_call(FunctionNames().wire("weather.today"), '{"city": "Rome"}'))),
        Json(response(message("Clear."))),
    )
    agent = LlmAgent(name="weather", model=model_on(service), tools=[today])
    async with Runner.in_memory(agent, settings=Settings(tables={})) as runner:
        assert await runner.ask("Rome?") == "Clear."
    assert all(LEGAL.match(entry["name"]) for sent in service.sent for entry in sent.body["tools"])
    (output,) = [item for item in service.body["input"] if item["type"] == "function_call_output"]
    assert json.loads(output["output"]) == {"sky": "clear", "city": "Rome"}
