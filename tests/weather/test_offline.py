"""The app as it is installed, with the offline model: no key, no network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from hookwork import FunctionResponse, Part, Runner
from hookwork.resolve import load_agent
from hookwork.run import RunOutcome
from hookwork.settings import NO_SETTINGS
from hookwork_weather.agent import app

USER: dict[str, Any] = {"user_id": "u1"}


@pytest.fixture
async def runner(runner_factory: Callable[..., Runner]) -> AsyncIterator[Runner]:
    async with runner_factory(app) as made:
        yield made


async def called(runner: Runner, session_id: str, user_id: str = "u1") -> list[tuple[str, str, dict[str, Any]]]:
    """(author, tool, arguments) of every call a session holds."""
    session = await runner.sessions.get_session(app_name="weather", user_id=user_id, session_id=session_id)
    return [
        (event.author, call.name or "", dict(call.args or {}))
        for event in session.events
        for call in event.function_calls
        if call.name != "adk_request_confirmation"
    ]


async def answer(runner: Runner, outcome: RunOutcome, **response: Any) -> RunOutcome:
    """The outcome of the run that answers the one open call."""
    [asked] = outcome.open_calls
    part = Part(function_response=FunctionResponse(id=asked.id, name=asked.name, response=response))
    return await runner.run(message=[part], session_id="s1", **USER).wait()


def test_cli_4_the_app_is_found_by_its_name() -> None:
    assert load_agent("weather", NO_SETTINGS) is app


async def test_the_question_of_the_design_is_answered(runner: Runner) -> None:
    said = await runner.ask("What is the weather in Tokyo?", session_id="s1", **USER)
    assert "Tokyo" in said
    assert "22 °C" in said
    assert await called(runner, "s1") == [("weather_agent", "get_weather", {"city": "Tokyo"})]


async def test_an_unknown_city_is_answered_with_the_known_ones(runner: Runner) -> None:
    said = await runner.ask("What is the weather in Atlantis?", **USER)
    assert "Atlantis" in said
    assert "Cairo, Hangzhou, London" in said


async def test_trf_4_a_trip_question_is_handed_to_the_travel_advisor(runner: Runner) -> None:
    said = await runner.ask("What should I pack for a trip to Oslo?", session_id="s1", **USER)
    assert "a warm coat" in said
    assert await called(runner, "s1") == [
        ("weather_agent", "transfer_to_agent", {"agent_name": "travel_advisor"}),
        ("travel_advisor", "packing_list", {"city": "Oslo"}),
    ]


async def test_run_33_the_conversation_stays_with_the_advisor_and_comes_back(runner: Runner) -> None:
    await runner.ask("What should I pack for a trip to Oslo?", session_id="s1", **USER)
    await runner.ask("And for a trip to Cairo?", session_id="s1", **USER)
    assert "14 °C" in await runner.ask("What is the weather in London?", session_id="s1", **USER)
    assert [entry[:2] for entry in await called(runner, "s1")] == [
        ("weather_agent", "transfer_to_agent"),
        ("travel_advisor", "packing_list"),
        ("travel_advisor", "packing_list"),
        ("travel_advisor", "transfer_to_agent"),
        ("weather_agent", "get_weather"),
    ]


async def test_a_session_remembers_the_city_and_another_one_does_not(runner: Runner) -> None:
    await runner.ask("What is the weather in Hangzhou?", session_id="s1", **USER)
    assert "Hangzhou" in await runner.ask("What is the weather there now?", session_id="s1", **USER)
    assert (await called(runner, "s1"))[-1] == ("weather_agent", "get_weather", {})
    assert "no city was named" in await runner.ask("What is the weather there now?", session_id="s2", **USER)


async def test_dlt_1_the_unit_holds_in_the_users_other_session_and_for_nobody_else(runner: Runner) -> None:
    await runner.ask("Use Fahrenheit from now on", session_id="s1", **USER)
    assert "72 °F" in await runner.ask("What is the weather in Tokyo?", session_id="s2", **USER)
    assert "22 °C" in await runner.ask("What is the weather in Tokyo?", session_id="s2", user_id="u2")


async def test_hitl_2_an_approved_report_is_bought_once(runner: Runner) -> None:
    paused = await runner.run(message="Buy the weather report for Cairo", session_id="s1", **USER).wait()
    assert paused.kind == "paused"
    assert paused.open_calls[0].kind == "confirmation"
    bought = await answer(runner, paused, confirmed=True)
    assert bought.kind == "completed"
    assert bought.final_event is not None
    assert "Cairo is sunny at 34 °C" in bought.final_event.text
    assert await called(runner, "s1") == [("weather_agent", "buy_report", {"city": "Cairo"})]


async def test_hitl_2_a_rejected_report_is_not_bought(runner: Runner) -> None:
    paused = await runner.run(message="Buy the weather report for Cairo", session_id="s1", **USER).wait()
    rejected = await answer(runner, paused, confirmed=False)
    assert rejected.final_event is not None
    assert "sunny" not in rejected.final_event.text
    session = await runner.sessions.get_session(app_name="weather", session_id="s1", **USER)
    assert "last_city" not in session.state  # the body, which writes it, never ran
    responses = [one.response or {} for event in session.events for one in event.function_responses]
    assert not any("price_usd" in response for response in responses)
