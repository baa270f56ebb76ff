"""The logging plugin in real runs (tools-plugins §8)."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from hookwork import Content, FunctionPlugin, Part, Runner, text_content
from hookwork.errors import ConfigurationError, PluginError
from hookwork.hookspecs.table import LIFECYCLE_HOOKS, Rule
from hookwork.platform import use_replaying
from hookwork.records.content import Blob
from hookwork.resolve import resolve_plugins
from hookwork.settings import Settings
from hookwork_llm import LlmAgent
from hookwork_logging import LoggingPlugin
from hookwork_logging.lines import shown
from hookwork_testkit import ScriptedModel, call

RunnerFactory = Callable[..., Runner]


def get_weather(city: str) -> dict[str, Any]:
    """Current weather of a city."""
    if city == "Atlantis":
        raise ValueError("no such city")
    return {"temperature_c": 22}


def weather(*script: Any) -> LlmAgent:
    return LlmAgent(name="weather", model=ScriptedModel(script), tools=[get_weather], instruction="Be brief.")


async def lines_of(runner_factory: RunnerFactory, agent: LlmAgent, *plugins: Any) -> list[str]:
    printed = io.StringIO()
    async with runner_factory(agent, plugins=[LoggingPlugin(stream=printed), *plugins]) as runner:
        with suppress(RuntimeError):
            await runner.run(user_id="u1", session_id="s1", message="Weather?").wait()
    return printed.getvalue().splitlines()


def hooks_in(lines: list[str]) -> list[str]:
    return [line.split()[1] for line in lines]


async def test_s8_every_hook_of_a_turn_is_told_in_order(runner_factory: RunnerFactory) -> None:
    lines = await lines_of(runner_factory, weather(call("get_weather", city="Tokyo"), "It is 22 °C."))
    assert hooks_in(lines) == [
        "on_user_message",
        "before_run",
        "before_agent",
        "before_model",
        "after_model",
        "on_event",
        "before_tool",
        "after_tool",
        "on_event",
        "before_model",
        "after_model",
        "on_event",
        "after_agent",
        "after_run",
        "close",
    ]
    assert all(line.startswith("[logging_plugin] ") for line in lines)
    told = dict(zip(hooks_in(lines), lines, strict=True))
    assert 'message=text: "Weather?"' in told["on_user_message"]
    assert 'tool=get_weather call="adk-' in told["before_tool"]
    assert told["before_tool"].endswith('args={"city": "Tokyo"}')
    assert told["after_tool"].endswith('result={"temperature_c": 22}')
    assert 'instruction="Be brief.' in lines[3]
    assert 'content=text: "It is 22 °C."' in told["after_model"]
    assert told["after_run"].endswith("outcome=completed")


async def test_s8_errors_are_told_where_they_happen(runner_factory: RunnerFactory) -> None:
    agent = weather(call("get_weather", city="Atlantis"), RuntimeError("model is down"))
    lines = await lines_of(runner_factory, agent)
    told = dict(zip(hooks_in(lines), lines, strict=True))
    assert told["on_tool_error"].endswith('error="ValueError: no such city"')
    for hook in ("on_model_error", "on_agent_error", "on_run_error"):
        assert told[hook].endswith('error="RuntimeError: model is down"')
    assert "outcome=failed" in told["after_run"]


async def test_tt_11_it_decides_nothing(runner_factory: RunnerFactory) -> None:
    seen: list[str] = []
    watched = {
        hook: _noting(hook, seen)
        for hook, (rule, _) in LIFECYCLE_HOOKS.items()
        if rule in (Rule.FIRST, Rule.NOTIFY) and "node" not in hook
    }
    agent = weather(call("get_weather", city="Tokyo"), "Fine.")
    lines = await lines_of(runner_factory, agent, FunctionPlugin("later", **watched))
    assert hooks_in(lines) == seen


def _noting(hook: str, seen: list[str]) -> Callable[[], None]:
    def note() -> None:
        seen.append(hook)

    return note


def test_s8_it_implements_every_hook_that_does_not_change_how_a_run_is_driven() -> None:
    own = {name for name in vars(LoggingPlugin) if name in LIFECYCLE_HOOKS}
    assert own == {name for name, (rule, _) in LIFECYCLE_HOOKS.items() if rule in (Rule.FIRST, Rule.NOTIFY)}


async def test_s8_the_lines_go_to_the_logger(runner_factory: RunnerFactory, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "my.log")
    plugin = LoggingPlugin("mine", logger="my.log", level="debug")
    async with runner_factory(weather("Hello."), plugins=[plugin]) as runner:
        await runner.ask("Hi")
    records = [record for record in caplog.records if record.name == "my.log"]
    assert records[0].message.startswith("[mine] on_user_message agent=weather ")
    assert {record.levelno for record in records} == {logging.DEBUG}


def test_s8_a_stream_gets_grey_text_when_that_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    LoggingPlugin(stream="stdout", color=True).close()
    assert capsys.readouterr().out == "\033[90m[logging_plugin] close\033[0m\n"
    LoggingPlugin(stream="stderr").close()  # no terminal, so no colour
    assert capsys.readouterr().err == "[logging_plugin] close\n"


def test_nothing_is_written_in_a_replay(capsys: pytest.CaptureFixture[str]) -> None:
    with use_replaying(True):
        LoggingPlugin(stream="stdout").close()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (text_content("x" * 300), ('text: "' + "x" * 300)[:200] + "..."),
        ({"k": "y" * 400}, ('{"k": "' + "y" * 400)[:300] + "..."),
        (
            Content(parts=[Part(inline_data=Blob(data=b"123", mime_type="image/png"))]),
            "inline_data: image/png, 3 bytes",
        ),
        ("two\nlines", '"two\\nlines"'),
        ({"when": object}, '{"when": "<class \'object\'>"}'),
    ],
)
def test_s8_values_are_short_and_on_one_line(value: Any, text: str) -> None:
    assert shown(value) == text


def test_ext_8_it_is_found_by_name_and_configured_by_its_table() -> None:
    settings = Settings(tables={"logging": {"name": "lines", "stream": "stderr"}})
    [plugin] = resolve_plugins(["logging"], settings)
    assert isinstance(plugin, LoggingPlugin)
    assert plugin.name == "lines"
    with pytest.raises(PluginError, match="streams"):
        resolve_plugins(["logging"], Settings(tables={"logging": {"streams": "stderr"}}))


@pytest.mark.parametrize("options", [{"level": "LOUD"}, {"stream": "nowhere"}])
def test_wrong_options_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options.values()))):
        LoggingPlugin(**options)
