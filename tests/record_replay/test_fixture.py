"""The pytest fixture `recordings`: files beside the tests, the mode from the command line (models Beyond, SP-30)."""

from __future__ import annotations

import json

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import pytest
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel


@pytest.mark.parametrize("topic", ["a/b"])
async def test_answer(recordings, runner_factory, topic):
    agent = LlmAgent(name="helper", model=ScriptedModel(SCRIPT), instruction="Help.")
    async with runner_factory(agent, plugins=[recordings()]) as runner:
        for question in QUESTIONS:
            assert await runner.ask(question) == "re: " + question
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function")
    return pytester


def run(project: pytest.Pytester, script: list[str], questions: list[str], *options: str) -> pytest.RunResult:
    head = f"SCRIPT = {script!r}\nQUESTIONS = {questions!r}\n"
    project.makepyfile(test_it=head + TESTS)
    return project.runpytest_subprocess("-p", "no:cacheprovider", *options)


def test_sp_30_recorded_once_then_replayed_without_a_model(project: pytest.Pytester) -> None:
    run(project, ["re: x", "re: y"], ["x", "y"], "--hookwork-record=record").assert_outcomes(passed=1)
    (file,) = project.path.glob("recordings/test_it/*.jsonl")
    assert file.name == "test_answer-a-b.jsonl"
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 3
    run(project, [], ["x", "y"]).assert_outcomes(passed=1)


def test_sp_30_without_a_recording_the_test_fails_and_says_how_to_make_one(project: pytest.Pytester) -> None:
    result = run(project, ["re: x"], ["x"])
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*make one with mode='record' first*"])


def test_conf_8_recordings_left_over_fail_the_test(project: pytest.Pytester) -> None:
    run(project, ["re: x", "re: y"], ["x", "y"], "--hookwork-record=record").assert_outcomes(passed=1)
    result = run(project, [], ["x"])
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*no call asked for the recordings 2*"])


def test_sp_30_auto_adds_what_is_missing(project: pytest.Pytester) -> None:
    run(project, ["re: x"], ["x"], "--hookwork-record=auto").assert_outcomes(passed=1)
    run(project, ["re: y"], ["x", "y"], "--hookwork-record=auto").assert_outcomes(passed=1)
    run(project, [], ["x", "y"]).assert_outcomes(passed=1)
