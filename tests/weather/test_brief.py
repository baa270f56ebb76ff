"""The briefing as a graph: the scenes of the founding documents (city → weather → text; tips at once; templates by the
weather; a person before it is sent)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookwork import Event, FunctionResponse, Part, Runner
from hookwork.errors import InvalidResumeResponse
from hookwork_weather.brief import Brief, app, city, flow, template, tips, warning, weather
from hookwork_weather.cities import CITIES

RunnerFactory = Callable[..., Runner]
WHO: dict[str, Any] = {"user_id": "u1", "session_id": "s1"}
README = Path(__file__).resolve().parents[2] / "contrib" / "weather" / "README.md"


def answered(call: Any, value: Any) -> list[Part]:
    return [Part(function_response=FunctionResponse(id=call.id, name=call.name, response={"result": value}))]


async def events_of(runner: Runner, message: Any) -> tuple[list[Event], Any]:
    async with runner.run(message=message, **WHO) as run:
        events = [event async for event in run]
    return events, run.outcome


def ran(events: list[Event]) -> list[str]:
    """Names of the nodes that gave something, in order, each once."""
    names = [event.path.split("/")[-1].partition("@")[0] for event in events if event.path]
    return list(dict.fromkeys(names))


async def test_each_node_by_itself() -> None:
    assert (await city.test("Weather in 东京, please")).output == "Tokyo"
    assert (await city.test("Atlantis")).routes == ("unknown",)
    assert (await weather.test("Oslo")).output == {"city": "Oslo", "celsius": 3, "sky": "snowy"}
    assert await tips("Oslo") == ["a warm coat", "boots"]
    both = {"weather": {"city": "Oslo", "celsius": 3, "sky": "snowy"}, "tips": ["boots"]}
    assert (await template.test(both)).routes == ("wet",)
    assert await warning(both) == Brief("Oslo", "Oslo: snowy, 3 °C. Do not leave without boots.")


async def test_city_weather_text_and_the_tips_at_once(runner_factory: RunnerFactory) -> None:
    async with runner_factory(app) as runner:
        events, outcome = await events_of(runner, "东京")
    assert ran(events) == ["city", "weather", "tips", "both", "template", "plain", "approve"]
    given = {event.path.split("/")[-1]: event.output for event in events}
    assert given["city@1"] == "Tokyo"
    assert given["weather@1"] == {"city": "Tokyo", "celsius": 22, "sky": "clear"}
    assert given["both@1"] == {"weather": given["weather@1"], "tips": given["tips@1"]}
    assert outcome.kind == "paused"
    [question] = outcome.open_calls
    assert (question.message, question.payload) == ("Send this briefing?", "Tokyo: clear, 22 °C. Take a light jacket.")


@pytest.mark.parametrize("known", CITIES, ids=lambda found: found.name)
async def test_the_text_depends_on_the_weather(known: Any) -> None:
    trial = await flow.test(known.name)
    [question] = trial.interrupts
    wet = known.sky in ("rainy", "stormy", "snowy")
    assert ("Do not leave without" in question.payload) is wet
    assert question.payload.startswith(f"{known.name}: {known.sky}, {known.celsius} °C.")


@pytest.mark.parametrize(("answer", "node", "sent"), [("yes", "send", True), ("no", "keep", False)])
async def test_nothing_is_sent_before_a_person_agrees(
    runner_factory: RunnerFactory, answer: str, node: str, sent: bool
) -> None:
    async with runner_factory(app) as runner:
        _, outcome = await events_of(runner, "London")
        session = await runner.sessions.get_session(app_name="weather_brief", **WHO)
        assert "sent" not in session.state
        events, outcome = await events_of(runner, answered(outcome.open_calls[0], answer))
        session = await runner.sessions.get_session(app_name="weather_brief", **WHO)
    assert ran(events) == ["approve", node]  # nothing before it again
    assert outcome.kind == "completed"
    text = "London: rainy, 14 °C. Do not leave without a light jacket and an umbrella."
    assert session.state.get("sent", []) == ([text] if sent else [])


async def test_another_answer_is_refused_and_the_question_stays(runner_factory: RunnerFactory) -> None:
    async with runner_factory(app) as runner:
        _, outcome = await events_of(runner, "London")
        [question] = outcome.open_calls
        with pytest.raises(InvalidResumeResponse, match=re.escape(question.id)):
            await events_of(runner, answered(question, "perhaps"))
        events, _ = await events_of(runner, answered(question, "yes"))
    assert ran(events) == ["approve", "send"]


async def test_an_unknown_city_is_asked_for_until_it_is_known(runner_factory: RunnerFactory) -> None:
    async with runner_factory(app) as runner:
        _, outcome = await events_of(runner, "Atlantis")
        assert outcome.open_calls[0].message.startswith("No known city in 'Atlantis'. Which one is it?")
        events, outcome = await events_of(runner, answered(outcome.open_calls[0], "El Dorado"))
        assert [event.path.split("/")[-1] for event in events if event.path] == ["city@2", "which_city@2"]
        events, outcome = await events_of(runner, answered(outcome.open_calls[0], "Oslo"))
    assert outcome.open_calls[0].payload == "Oslo: snowy, 3 °C. Do not leave without a warm coat and boots."
    assert "city@3" in [event.path.split("/")[-1] for event in events]


async def test_a_plain_message_does_not_start_it_anew(runner_factory: RunnerFactory) -> None:
    """Workflow ANS-7, WT-36."""
    async with runner_factory(app) as runner:
        _, first = await events_of(runner, "London")
        events, outcome = await events_of(runner, "and Oslo?")
    assert ran(events) == []
    assert [call.id for call in outcome.open_calls] == [call.id for call in first.open_calls]


def test_the_readme_shows_the_graph() -> None:
    [picture] = re.findall(r"^```mermaid\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert picture == flow.to_mermaid(direction="LR")


SCRIPTS = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(SCRIPTS)))
def test_a_script_of_the_readme_runs(number: int, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(SCRIPTS[number], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "example.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
