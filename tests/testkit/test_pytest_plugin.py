"""The pytest plugin as a stranger's project meets it (tools-plugins EXT-7: tests are isolated from settings)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from hookwork.agent import Agent
from hookwork.context import InvocationContext
from hookwork.platform import new_uuid, now, timestamp
from hookwork.plugins.plugin import Plugin
from hookwork.records.content import Part, text_content
from hookwork.records.event import Event
from hookwork_testkit import ScriptedModel
from hookwork_testkit.pytest_plugin import CountedIds, FixedTime

pytest_plugins = ["pytester"]

SHOW_ENVIRONMENT = """
import os

def hookwork_variables():
    return {name: value for name, value in os.environ.items() if name.startswith("HOOKWORK_")}
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("HOOKWORK_MODEL", "the-developers-own")
    monkeypatch.setenv("HOOKWORK_CONFIG", "the-developers-own.toml")
    monkeypatch.setenv("OTHER_VARIABLE", "kept")
    pytester.makepyfile(shown=SHOW_ENVIRONMENT)
    return pytester


def test_ext_7_a_test_session_sees_no_settings_of_the_developer(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import os
        from shown import hookwork_variables

        def test_environment():
            assert hookwork_variables() == {"HOOKWORK_CONFIG": "none"}
            assert os.environ["OTHER_VARIABLE"] == "kept"
    """)
    project.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_ext_7_what_a_conftest_sets_on_purpose_stays(project: pytest.Pytester) -> None:
    project.makeconftest("import os; os.environ['HOOKWORK_MODEL'] = 'offline'")
    project.makepyfile("""
        from shown import hookwork_variables

        def test_environment():
            assert hookwork_variables() == {"HOOKWORK_CONFIG": "none", "HOOKWORK_MODEL": "offline"}
    """)
    project.runpytest_subprocess().assert_outcomes(passed=1)


def test_isolation_can_be_switched_off_and_asked_for_by_one_test(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nhookwork_isolation = false")
    project.makepyfile("""
        from shown import hookwork_variables

        def test_open():
            assert hookwork_variables()["HOOKWORK_MODEL"] == "the-developers-own"

        def test_isolated(hookwork_isolated):
            assert hookwork_variables() == {"HOOKWORK_CONFIG": "none"}

        def test_open_again():
            assert hookwork_variables()["HOOKWORK_CONFIG"] == "the-developers-own.toml"
    """)
    project.runpytest_subprocess().assert_outcomes(passed=3)


def test_the_plugin_imports_nothing_of_the_kit_by_itself(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import sys

        def test_modules():
            assert [name for name in sys.modules if name == "hookwork" or name.startswith("hookwork.")] == []
    """)
    project.runpytest_subprocess("-p", "no:asyncio").assert_outcomes(passed=1)


def test_plat_the_clock_stands_and_can_be_moved(fixed_time: FixedTime) -> None:
    assert now() == datetime(2026, 1, 1, tzinfo=UTC)
    assert timestamp() == 1767225600.0
    fixed_time.advance(1.5)
    assert timestamp() == 1767225601.5


async def test_plat_fixtures_reach_async_tests(fixed_time: FixedTime, counted_ids: CountedIds) -> None:
    assert now() == fixed_time.now
    assert [new_uuid(), new_uuid()] == [CountedIds.of(1), CountedIds.of(2)]
    assert counted_ids.count == 2


def test_plat_nothing_of_a_fixture_is_left_over() -> None:
    assert now() != datetime(2026, 1, 1, tzinfo=UTC)
    assert not new_uuid().startswith("00000000-0000-4000-8000-")


def test_the_scripted_model_fixture_has_an_empty_script(scripted_model: ScriptedModel) -> None:
    assert isinstance(scripted_model, ScriptedModel)
    assert scripted_model.requests == []


async def test_ext_7_runner_factory_runs_in_memory_and_without_settings(
    runner_factory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        await ctx.artifacts.save("note.txt", Part(text="kept"))
        yield Event(content=text_content(f"{await ctx.artifacts.list()} {await ctx.search_memory('x')}"))

    monkeypatch.setenv("HOOKWORK_SESSIONS", "nobody-takes-this://x")
    async with runner_factory(Agent(name="helper", body=body)) as runner:
        assert await runner.ask("go") == "['note.txt'] []"
        assert runner.plugins == ()


def test_runner_factory_takes_every_option_of_a_runner(runner_factory: Any) -> None:
    class Mute(Plugin):
        pass

    async def silent(ctx: InvocationContext) -> AsyncIterator[Event]:
        return
        yield

    plugin = Mute()
    runner = runner_factory(Agent(name="helper", body=silent), plugins=[plugin], app_name="other")
    assert (runner.plugins, runner.app_name) == ((plugin,), "other")
