"""Histories of every valid shape: several turns, relays of other agents, repeated answers, open calls."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork.records.content import Blob, Content, FunctionCall, FunctionResponse, Part, text_content, user_content
from hookwork.records.request import FunctionDeclaration, GenerateContentConfig, ToolDeclaration
from hookwork_offline.model import respond

TEXT = {"type": "string"}


def tool(
    name: str, description: str, properties: dict[str, Any], result: dict[str, Any] | None = None
) -> FunctionDeclaration:
    return FunctionDeclaration(
        name=name,
        description=description,
        parameters_json_schema={"type": "object", "properties": properties, "required": list(properties)},
        response_json_schema=result,
    )


WEATHER = tool("get_weather", "Current weather of a city.", {"city": TEXT})
CUSTOMER = tool("find_customer", "Find a customer by name.", {"name": TEXT})
ORDERS = tool("list_orders", "List the orders of a customer.", {"customer_id": {"type": "integer"}})
SHIP = tool("ship_order", "Ship an order.", {"order_id": {"type": "integer"}})
TABLE = tool(
    "book_table",
    "Reserve a table at a restaurant.",
    {"restaurant": TEXT, "guests": {"type": "integer"}, "date": {"type": "string", "format": "date"}},
)
WHEREABOUTS = tool(
    "whereabouts",
    "Find out where the person is.",
    {},
    {"type": "object", "properties": {"city": TEXT, "country": TEXT}},
)
TRANSFER = tool(
    "transfer_to_agent", "Hand over.", {"agent_name": {"type": "string", "enum": ["billing", "front_desk"]}}
)
TARGETS = "- billing: Handles invoices and refunds.\n- front_desk: Welcomes people."


def act(*contents: Content | str, tools: list[FunctionDeclaration], instruction: str = "") -> Content:
    return respond(
        [user_content(c) if isinstance(c, str) else c for c in contents],
        GenerateContentConfig(
            system_instruction=text_content(instruction, "user") if instruction else None,
            tools=(ToolDeclaration(function_declarations=tuple(tools)),),
        ),
    )


def calls(content: Content) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name or "", dict(call.args or {})) for call in content.function_calls]


def results(*responses: tuple[str, dict[str, Any]]) -> Content:
    return Content(
        role="user", parts=[Part(function_response=FunctionResponse(name=n, response=r)) for n, r in responses]
    )


def relay(*lines: str) -> Content:
    """Another agent's event as core CON-4 shows it."""
    return Content(role="user", parts=[Part(text="For context:"), *(Part(text=line) for line in lines)])


# --- questions over several turns ------------------------------------------------------------------------------------


def test_a_question_is_remembered_until_everything_is_there() -> None:
    said: list[Content | str] = ["Book a table at Luigi's"]
    first = act(*said, tools=[TABLE])
    assert first.text.splitlines() == ["For `book_table` I need some more:", "- guests: a whole number", "- date"]
    said += [first, "we are 4"]
    second = act(*said, tools=[TABLE])
    assert "date" in second.text
    assert "guests" not in second.text
    said += [second, "2026-05-02"]
    assert calls(act(*said, tools=[TABLE])) == [
        ("book_table", {"restaurant": "Luigi's", "guests": 4, "date": "2026-05-02"})
    ]


@pytest.mark.parametrize(
    ("answer", "cities"),
    [
        ("Paris", ["Paris"]),
        ("paris", ["paris"]),
        ("It's for paris, please.", ["paris"]),
        ('"New York"', ["New York"]),
        ("new york city", ["new york city"]),
        ("Paris, France", ["Paris, France"]),
        ("Paris and Rome", ["Paris", "Rome"]),
        ("the weather in Oslo", ["Oslo"]),
    ],
)
def test_an_answer_is_taken_as_it_is_meant(answer: str, cities: list[str]) -> None:
    question = act("What is the weather?", tools=[WEATHER])
    content = act("What is the weather?", question, answer, tools=[WEATHER])
    assert calls(content) == [("get_weather", {"city": city}) for city in cities]


def test_a_new_wish_instead_of_an_answer_is_a_new_wish() -> None:
    question = act("What is the weather?", tools=[WEATHER, CUSTOMER])
    content = act("What is the weather?", question, "Find the customer Bob", tools=[WEATHER, CUSTOMER])
    assert calls(content) == [("find_customer", {"name": "Bob"})]


def test_never_mind_drops_the_question() -> None:
    question = act("What is the weather?", tools=[WEATHER])
    assert (
        act("What is the weather?", question, "Never mind!", tools=[WEATHER]).text == "All right, I leave it at that."
    )


def test_an_answer_that_does_not_fit_is_asked_for_again() -> None:
    question = act("Ship the order", tools=[SHIP])
    again = act("Ship the order", question, "I do not know", tools=[SHIP])
    assert again == question
    assert calls(act("Ship the order", question, "I do not know", again, "12", tools=[SHIP])) == [
        ("ship_order", {"order_id": 12})
    ]


def test_the_same_wish_in_a_later_turn_is_carried_out_again() -> None:
    call = act("What is the weather in Paris?", tools=[WEATHER])
    done: list[Content | str] = ["What is the weather in Paris?", call, results(("get_weather", {"sky": "clear"}))]
    answer = act(*done, tools=[WEATHER])
    assert answer.text == "Sky is clear."
    assert act(*done, answer, "What is the weather in Paris?", tools=[WEATHER]) == call


def test_a_word_that_refers_back_takes_the_value_from_earlier_results() -> None:
    done: list[Content | str] = [
        "Find the customer Ada",
        act("Find the customer Ada", tools=[CUSTOMER, ORDERS]),
        results(("find_customer", {"customer_id": 7})),
        text_content("Customer id is 7."),
    ]
    assert calls(act(*done, "Now list her orders", tools=[CUSTOMER, ORDERS])) == [("list_orders", {"customer_id": 7})]
    assert calls(act(*done, "Now list orders", tools=[CUSTOMER, ORDERS])) == []


# --- results of this turn --------------------------------------------------------------------------------------------


def test_parallel_results_without_ids_are_paired_by_order() -> None:
    call = act("weather in Paris and in Rome", tools=[WEATHER])
    answers = results(("get_weather", {"sky": "clear"}), ("get_weather", {"error": "no data"}))
    text = act("weather in Paris and in Rome", call, answers, tools=[WEATHER]).text
    assert text == "Paris: Sky is clear.\n\n`get_weather` failed: no data."


def test_results_are_paired_by_id_where_ids_are_there() -> None:
    call = Content(
        role="model",
        parts=[
            Part(function_call=FunctionCall(id=key, name="get_weather", args={"city": city}))
            for key, city in (("a", "Paris"), ("b", "Rome"))
        ],
    )
    answers = Content(
        role="user",
        parts=[
            Part(function_response=FunctionResponse(id=key, name="get_weather", response={"sky": sky}))
            for key, sky in (("b", "grey"), ("a", "clear"))
        ],
    )
    text = act("weather in Paris and in Rome", call, answers, tools=[WEATHER]).text
    assert text == "Paris: Sky is clear.\n\nRome: Sky is grey."


def test_several_candidates_for_a_missing_argument_are_offered() -> None:
    message = "Find the customer Ada and list the orders"
    call = act(message, tools=[CUSTOMER, ORDERS])
    found = results(("find_customer", {"result": [{"customer_id": 7}, {"customer_id": 8}]}))
    content = act(message, call, found, tools=[CUSTOMER, ORDERS])
    assert calls(content) == []
    assert "one of: 7, 8" in content.text


def test_a_failed_first_tool_leads_to_a_question_not_to_a_loop() -> None:
    message = "Find the customer Ada and list the orders"
    call = act(message, tools=[CUSTOMER, ORDERS])
    content = act(message, call, results(("find_customer", {"error": "no such customer"})), tools=[CUSTOMER, ORDERS])
    assert calls(content) == []
    assert "`find_customer` failed: no such customer." in content.text
    assert "Which customer id?" in content.text


def test_a_tool_that_declares_the_missing_field_is_asked_first() -> None:
    call = act("What is the weather?", tools=[WEATHER, WHEREABOUTS])
    assert calls(call) == [("whereabouts", {})]
    found = results(("whereabouts", {"city": "Ghent", "country": "Belgium"}))
    second = act("What is the weather?", call, found, tools=[WEATHER, WHEREABOUTS])
    assert calls(second) == [("get_weather", {"city": "Ghent"})]


def test_a_tool_that_changes_things_is_never_called_on_the_models_own_initiative() -> None:
    drop = tool("delete_customer", "Delete a customer.", {"name": TEXT})
    content = act("List orders of customer Ada", tools=[drop, ORDERS])
    assert calls(content) == []
    assert "Which customer id?" in content.text


def test_con_11_a_call_that_was_interrupted_is_said_to_have_no_result() -> None:
    call = act("What is the weather in Paris?", tools=[WEATHER])
    cut = results(("get_weather", {"status": "interrupted", "error": "it was not run again"}))
    text = act("What is the weather in Paris?", call, cut, tools=[WEATHER]).text
    assert text == "`get_weather` was interrupted and has no result: it was not run again."


def test_con_10_a_history_that_ends_with_the_answer_is_answered_again() -> None:
    call = act("What is the weather in Paris?", tools=[WEATHER])
    done: list[Content | str] = ["What is the weather in Paris?", call, results(("get_weather", {"sky": "clear"}))]
    answer = act(*done, tools=[WEATHER])
    assert act(*done, answer, tools=[WEATHER]) == answer


def test_material_that_load_artifacts_adds_is_no_new_message() -> None:
    load = tool("load_artifacts", "Load artifacts.", {})
    message = "Load the artifacts"
    call = act(message, tools=[load])
    added = Content(
        role="user", parts=[Part(text="Artifact a.png is:"), Part(inline_data=Blob(data=b"x", mime_type="image/png"))]
    )
    content = act(message, call, results(("load_artifacts", {"artifact_names": ["a.png"]})), added, tools=[load])
    assert calls(content) == []
    assert "a.png" in content.text


def test_bt_20_remembered_conversations_are_no_message() -> None:
    memory = user_content("<PAST_CONVERSATIONS>\nuser: what is the weather?\n</PAST_CONVERSATIONS>")
    assert calls(act(memory, "What is the weather in Bern?", tools=[WEATHER])) == [("get_weather", {"city": "Bern"})]


# --- other agents ----------------------------------------------------------------------------------------------------


def test_trf_1_a_message_does_not_travel_in_a_circle() -> None:
    """The agent that handed over in this turn is no target, however well it fits."""
    handed = relay("[billing] called tool `transfer_to_agent` with parameters: {}")
    back = act("I want a refund", handed, tools=[WEATHER, TRANSFER], instruction=TARGETS)
    assert calls(back) == []
    assert calls(act("I want a refund", tools=[WEATHER, TRANSFER], instruction=TARGETS)) == [
        ("transfer_to_agent", {"agent_name": "billing"})
    ]


def test_trf_2_an_agent_asked_for_by_name_is_handed_to() -> None:
    content = act("Please connect me to the front desk", tools=[WEATHER, TRANSFER], instruction="")
    assert calls(content) == [("transfer_to_agent", {"agent_name": "front_desk"})]


def test_the_person_is_told_whom_else_to_ask() -> None:
    assert (
        "hand over to billing: Handles invoices and refunds"
        in act("Sing", tools=[WEATHER, TRANSFER], instruction=TARGETS).text
    )


def test_con_4_a_relay_is_not_the_persons_message() -> None:
    said = relay("[writer] said: Rome is lovely.")
    assert calls(act("What is the weather in Paris?", said, tools=[WEATHER])) == [("get_weather", {"city": "Paris"})]


def test_con_30_without_a_person_the_relayed_words_are_the_task() -> None:
    said = relay("[planner] said: Get the weather in Paris.")
    assert calls(act(said, tools=[WEATHER])) == [("get_weather", {"city": "Paris"})]


def test_con_9_a_delegated_task_is_read_from_its_json() -> None:
    task = Content(
        role="user",
        parts=[Part(text='{"request": "weather in Oslo"}'), Part(text="No user will reply to you. Finish the work.")],
    )
    assert calls(act(task, tools=[WEATHER])) == [("get_weather", {"city": "Oslo"})]


def test_tl_13_reserved_tools_are_not_called() -> None:
    reserved = tool("finish_task", "Finish the song.", {"result": TEXT})
    assert calls(act("Finish the song", tools=[reserved])) == []


def test_an_agent_without_tools_says_so() -> None:
    assert "no tools" in act("Hello", tools=[]).text
