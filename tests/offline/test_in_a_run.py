"""The offline model inside the real flow: a tool turn, a question over two turns, a transfer."""

from __future__ import annotations

from typing import Any

from hookwork import App, Runner
from hookwork_llm import LlmAgent, tool


@tool
def get_weather(city: str) -> dict[str, Any]:
    """Current weather of a city.

    Args:
        city: Name of the city.
    """
    return {"city": city, "temperature_c": 22}


@tool
def open_invoices() -> list[dict[str, Any]]:
    """Lists the invoices that are not paid."""
    return [{"invoice": "A-1", "total_eur": 9.5}]


def app() -> App:
    billing = LlmAgent(
        name="billing",
        description="Answers questions about invoices and payments.",
        model="offline",
        tools=[open_invoices],
    )
    return App(name="desk", root=LlmAgent(name="desk", model="offline", tools=[get_weather], sub_agents=[billing]))


async def test_a_tool_turn() -> None:
    async with Runner(app()) as runner:
        text = await runner.ask(user_id="u", session_id="s", message="What is the weather in Paris and in Rome?")
    assert text == "Paris: City is Paris and temperature is 22 °C.\n\nRome: City is Rome and temperature is 22 °C."


async def test_a_question_is_answered_in_the_next_turn() -> None:
    async with Runner(app()) as runner:
        question = await runner.ask(user_id="u", session_id="s", message="What is the weather?")
        assert question == "Which city? I need it for `get_weather` (Name of the city)."
        text = await runner.ask(user_id="u", session_id="s", message="Lisbon")
    assert text == "City is Lisbon and temperature is 22 °C."


async def test_a_transfer_reaches_the_other_agent() -> None:
    async with Runner(app()) as runner:
        text = await runner.ask(user_id="u", session_id="s", message="Which invoices are open?")
    assert text.splitlines()[0] == "| invoice | total eur |"
