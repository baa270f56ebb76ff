"""Recordings in google-adk's form (crosscutting CONF-1…10, tools-plugins SP-30)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hookwork import (
    Agent,
    Event,
    FunctionPlugin,
    ModelResponse,
    RunConfig,
    Runner,
    ToolContext,
    UsageMetadata,
    text_content,
)
from hookwork.errors import ConfigurationError, ModelError, ValidationError
from hookwork.resolve import resolve_plugins
from hookwork_llm import LlmAgent
from hookwork_record_replay import AdkRecorder, AdkReplayer, ReplayMismatchError
from hookwork_record_replay.adk.comparing import difference
from hookwork_record_replay.adk.forms import normal_form, request_form
from hookwork_testkit import ScriptedModel, call, stream
from hookwork_workflow import ParallelAgent

RECORD, REPLAY = "_adk_recordings_config", "_adk_replay_config"
SSE = RunConfig(streaming_mode="sse")


class Case:
    """A test case: one folder of recordings, and runs of its messages in one session."""

    def __init__(self, factory: Callable[..., Runner], base: Path) -> None:
        self.factory = factory
        self.base = base
        self.looked: list[str] = []

    def agent(self, *script: Any) -> LlmAgent:
        model = ScriptedModel(script, name="m", usage=UsageMetadata(prompt_token_count=7, candidates_token_count=0))
        return LlmAgent(name="weather", model=model, instruction="Say what\nthe sky is like.", tools=[self.look_up])

    def look_up(self, ctx: ToolContext, city_name: str) -> dict[str, Any]:
        """Look a city up."""
        self.looked.append(city_name)
        if city_name == "nowhere":
            raise ValueError("no such city")
        return {"sky": "clear", "rain": 0, "notes": []}

    def runner(self, agent: Any, *plugins: Any) -> Runner:
        given = plugins or (AdkRecorder(self.base), AdkReplayer(self.base))
        return self.factory(agent, plugins=list(given))

    async def play(
        self, runner: Runner, key: str, index: Any = 0, *, text: str = "The sky?", config: RunConfig | None = None,
        **more: Any,
    ) -> list[Event]:  # fmt: skip
        delta = {key: {"dir": "case", "user_message_index": index, **more}}
        run = runner.run(user_id="u", session_id="s", message=text, state_delta=delta, config=config)
        async with run:
            return [event async for event in run]

    def recordings(self, name: str = "generated-recordings.yaml") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = yaml.safe_load((self.base / "case" / name).read_text())["recordings"]
        return found


@pytest.fixture
def case(runner_factory: Callable[..., Runner], tmp_path: Path) -> Case:
    return Case(runner_factory, tmp_path)


def texts(events: list[Event]) -> list[str]:
    return [event.text for event in events if event.text]


TURN = (call("look_up", id="c1", city_name="Rome"), "It is clear.")


async def test_conf_2_the_file_is_the_shared_one(case: Case) -> None:
    async with case.runner(case.agent(*TURN)) as runner:
        await case.play(runner, RECORD)
    asked, looked, answered = case.recordings()
    assert (asked["user_message_index"], asked["agent_name"]) == (0, "weather")
    request = asked["llm_recording"]["llm_request"]
    assert request["model"] == "m"
    assert request["contents"] == [{"role": "user", "parts": [{"text": "The sky?"}]}]
    assert request["config"]["system_instruction"].startswith("Say what\nthe sky is like.")
    (tool,) = request["config"]["tools"]
    (declaration,) = tool["function_declarations"]
    schema = declaration["parameters_json_schema"]
    assert (declaration["name"], schema["title"]) == ("look_up", "look_upParams")
    assert schema["properties"]["city_name"]["title"] == "City Name"
    (response,) = asked["llm_recording"]["llm_responses"]
    assert response["content"]["parts"] == [
        {"function_call": {"id": "c1", "name": "look_up", "args": {"city_name": "Rome"}}}
    ]
    assert response["usage_metadata"] == {"prompt_token_count": 7}, "a zero is left out (CONF-5)"
    assert looked["tool_recording"] == {
        "tool_call": {"id": "c1", "name": "look_up", "args": {"city_name": "Rome"}},
        "tool_response": {"id": "c1", "name": "look_up", "response": {"sky": "clear", "rain": 0, "notes": []}},
    }
    assert answered["llm_recording"]["llm_responses"][0]["content"]["parts"] == [{"text": "It is clear."}]


async def test_conf_8_a_case_is_replayed_without_model_and_tool(case: Case) -> None:
    async with case.runner(case.agent(*TURN)) as runner:
        recorded = await case.play(runner, RECORD)
    async with case.runner(case.agent()) as runner:
        replayed = await case.play(runner, REPLAY)
    assert texts(replayed) == texts(recorded) == ["It is clear."]
    assert case.looked == ["Rome"]


async def test_conf_7_side_effects_run_the_real_tool_and_use_the_recorded_answer(case: Case) -> None:
    async with case.runner(case.agent(*TURN)) as runner:
        await case.play(runner, RECORD)
    file = case.base / "case" / "generated-recordings.yaml"
    file.write_text(file.read_text().replace("sky: clear", "sky: cloudy"))
    async with case.runner(case.agent(), AdkReplayer(case.base, side_effects=True)) as runner:
        events = await case.play(runner, REPLAY)
    (answered,) = [part.function_response for event in events if event.content for part in event.content.parts
                   if part.function_response is not None]  # fmt: skip
    assert answered.response == {"sky": "cloudy", "rain": 0, "notes": []}
    assert case.looked == ["Rome", "Rome"]


async def test_conf_3_conf_8_streams_are_recorded_and_replayed_as_such(case: Case) -> None:
    script = (stream("It ", "is ", "clear."),)
    async with case.runner(case.agent(*script)) as runner:
        await case.play(runner, RECORD, config=SSE, streaming_mode="sse")
    (entry,) = case.recordings("generated-recordings-sse.yaml")
    told = entry["llm_recording"]["llm_responses"]
    assert [(one["content"]["parts"][0]["text"], one.get("partial")) for one in told] == [
        ("It ", True),
        ("is ", True),
        ("clear.", True),
        ("It is clear.", None),
    ]
    async with case.runner(case.agent()) as runner:
        assert texts(await case.play(runner, REPLAY, config=SSE)) == ["It ", "is ", "clear.", "It is clear."]
    async with case.runner(case.agent()) as runner:
        assert texts(await case.play(runner, REPLAY)) == ["It is clear."], "the file of the other mode serves too"


async def test_conf_4_entries_of_other_messages_stay(case: Case) -> None:
    async with case.runner(case.agent("one", "two")) as runner:
        await case.play(runner, RECORD, 0, text="a")
        await case.play(runner, RECORD, 1, text="b")
    async with case.runner(case.agent("uno")) as runner:
        await case.play(runner, RECORD, 0, text="a")
    found = [(entry["user_message_index"], entry["llm_recording"]["llm_responses"][0]["content"]["parts"][0]["text"])
             for entry in case.recordings()]  # fmt: skip
    assert found == [(0, "uno"), (1, "two")]


async def test_conf_4_an_error_leaves_no_entry_and_a_file_that_cannot_be_written_is_no_fault_of_the_run(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    async with case.runner(case.agent(ModelError("busy"))) as runner:
        with pytest.raises(ModelError):
            await case.play(runner, RECORD)
    assert case.recordings() == []
    (case.base / "case" / "generated-recordings.yaml").write_text("nothing of that kind")
    async with case.runner(case.agent("fine")) as runner:
        assert texts(await case.play(runner, RECORD)) == ["fine"]
    assert "was not written" in caplog.text


@pytest.mark.parametrize("config", [None, "text", {}, {"dir": "", "user_message_index": 0}, {"dir": "case"}])
@pytest.mark.parametrize("key", [RECORD, REPLAY])
async def test_conf_1_a_run_that_is_none_of_theirs_is_left_alone(case: Case, key: str, config: Any) -> None:
    async with case.runner(case.agent("fine")) as runner:
        run = runner.run(user_id="u", session_id="s", message="hi", state_delta={key: config})
        async with run:
            assert texts([event async for event in run]) == ["fine"]
    assert list(case.base.iterdir()) == []


@pytest.mark.parametrize("key", [RECORD, REPLAY])
async def test_conf_1_a_wrong_configuration_fails_the_run(case: Case, key: str) -> None:
    outside = case.base.parent / "outside"
    outside.mkdir(exist_ok=True)
    (case.base / "link").symlink_to(outside)
    for more, kind in (
        ({"user_message_index": "x"}, ValidationError),
        ({"user_message_index": 1.5}, ValidationError),
        ({"streaming_mode": "both"}, ValidationError),
        ({"dir": "../outside"}, ConfigurationError),
        ({"dir": str(outside)}, ConfigurationError),
        ({"dir": "link"}, ConfigurationError),
    ):
        async with case.runner(case.agent("never")) as runner:
            with pytest.raises(kind):
                await case.play(runner, key, **more)


async def test_conf_1_conf_9_no_file_or_both_keys_fail_the_run(case: Case) -> None:
    async with case.runner(case.agent("never")) as runner:
        with pytest.raises(ConfigurationError, match="record the case first"):
            await case.play(runner, REPLAY)
    one = {"dir": "case", "user_message_index": 0}
    async with case.runner(case.agent("never")) as runner:
        run = runner.run(user_id="u", session_id="s2", message="hi", state_delta={RECORD: one, REPLAY: one})
        with pytest.raises(ConfigurationError, match="not both"):
            await run.wait()


async def test_conf_6_another_request_is_an_error_that_shows_the_difference(case: Case) -> None:
    async with case.runner(case.agent("It is clear.")) as runner:
        await case.play(runner, RECORD)
    async with case.runner(case.agent()) as runner:
        with pytest.raises(ReplayMismatchError, match=r"(?s)-.*The sky\?.*\+.*The sea\?"):
            await case.play(runner, REPLAY, text="The sea?")


async def test_conf_6_more_calls_than_entries_and_conf_8_fewer_are_errors(case: Case) -> None:
    async with case.runner(case.agent(*TURN)) as runner:
        await case.play(runner, RECORD)
    file = case.base / "case" / "generated-recordings.yaml"
    whole = case.recordings()
    file.write_text(yaml.safe_dump({"recordings": whole[:2]}))
    async with case.runner(case.agent()) as runner:
        with pytest.raises(ReplayMismatchError, match="no further model call"):
            await case.play(runner, REPLAY)
    file.write_text(yaml.safe_dump({"recordings": [whole[0], whole[2]]}))
    async with case.runner(case.agent()) as runner:
        with pytest.raises(ReplayMismatchError, match="no unused call of 'look_up'"):
            await case.play(runner, REPLAY)
    file.write_text(yaml.safe_dump({"recordings": [*whole, whole[2]]}))
    async with case.runner(case.agent()) as runner:
        with pytest.raises(ReplayMismatchError, match="1 recorded calls were not made"):
            await case.play(runner, REPLAY)


async def test_conf_6_parallel_agents_replay_in_recorded_order(case: Case) -> None:
    """The order of the file is that of the recorded starts, here turned round by hand."""
    asked: list[str] = []

    def both(*scripts: Any) -> Agent:
        agents = [
            LlmAgent(name=name, model=ScriptedModel(script, name="m"), instruction="Guess.")
            for name, script in zip(("left", "right"), scripts, strict=True)
        ]
        return ParallelAgent(name="both", sub_agents=agents)

    async with case.runner(both(["heads"], ["tails"])) as runner:
        await case.play(runner, RECORD)
    file = case.base / "case" / "generated-recordings.yaml"
    file.write_text(yaml.safe_dump({"recordings": case.recordings()[::-1]}))
    last = [entry["agent_name"] for entry in case.recordings()]
    note = FunctionPlugin("note", after_model=lambda ctx, response: asked.append(ctx.agent_name))
    async with case.runner(both([], []), AdkReplayer(case.base), note) as runner:
        events = await case.play(runner, REPLAY)
    assert {event.author: event.text for event in events} == {"left": "heads", "right": "tails"}
    assert asked == last


async def test_conf_6_a_slow_real_tool_does_not_use_up_the_patience_of_others(case: Case) -> None:
    """In the replay the tool takes more than twice as long as the other agent is ready to wait without progress."""
    seconds = 0.0

    async def slow() -> dict[str, str]:
        await asyncio.sleep(seconds)
        return {"done": "yes"}

    def both(left: Any, right: Any) -> Agent:
        scripts = {"left": (left, [slow]), "right": (right, [])}
        agents = [
            LlmAgent(name=name, model=ScriptedModel(script, name="m"), instruction="Do it.", tools=tools)
            for name, (script, tools) in scripts.items()
        ]
        return ParallelAgent(name="both", sub_agents=agents)

    async with case.runner(both([call("slow", id="c1"), "left"], ["right"])) as runner:
        await case.play(runner, RECORD)
    file = case.base / "case" / "generated-recordings.yaml"
    lefts_first = sorted(case.recordings(), key=lambda entry: entry["agent_name"])
    file.write_text(yaml.safe_dump({"recordings": lefts_first}))
    seconds = 1.2
    replayer = AdkReplayer(case.base, side_effects=True, patience=0.5)
    async with case.runner(both([], []), replayer) as runner:
        events = await case.play(runner, REPLAY)
    assert {event.author: event.text for event in events if event.text} == {"left": "left", "right": "right"}


async def test_conf_8_a_call_that_nothing_can_come_before_is_an_error_and_no_wait_for_ever(case: Case) -> None:
    async with case.runner(case.agent("It is clear.")) as runner:
        await case.play(runner, RECORD)
    (entry,) = case.recordings()
    file = case.base / "case" / "generated-recordings.yaml"
    file.write_text(yaml.safe_dump({"recordings": [{**entry, "agent_name": "somebody"}, entry]}))
    async with case.runner(case.agent(), AdkReplayer(case.base, patience=0.01)) as runner:
        with pytest.raises(ReplayMismatchError, match="'somebody' was recorded before it"):
            await asyncio.wait_for(case.play(runner, REPLAY), 10)


async def test_conf_10_redact_runs_before_writing(case: Case) -> None:
    def redact(entry: dict[str, Any]) -> dict[str, Any]:
        return yaml.safe_load(yaml.safe_dump(entry).replace("clear", "#"))  # type: ignore[no-any-return]

    async with case.runner(case.agent(*TURN), AdkRecorder(case.base, redact=redact)) as runner:
        await case.play(runner, RECORD)
    assert "clear" not in (case.base / "case" / "generated-recordings.yaml").read_text()


async def test_conf_2_a_file_of_an_older_form_is_read(case: Case) -> None:
    async with case.runner(case.agent("It is clear.")) as runner:
        await case.play(runner, RECORD)
    (entry,) = case.recordings()
    (response,) = entry["llm_recording"].pop("llm_responses")
    entry["llm_recording"]["llm_response"] = response
    (case.base / "case" / "generated-recordings.yaml").write_text(yaml.safe_dump({"recordings": [entry]}))
    async with case.runner(case.agent()) as runner:
        assert texts(await case.play(runner, REPLAY)) == ["It is clear."]


def test_conf_5_normal_form() -> None:
    value = {
        "a": None, "b": False, "c": 0, "d": "", "e": [], "f": {}, "camelCase": {"x": None, "y": 1},
        "google_search": {}, "code_execution": {}, "retrieval": {}, "http_options": {"headers": {"k": "v"}},
        "args": {"zero": 0, "camelKey": ""}, "response": {"none": None}, "property_order": ["a"],
        "response_json_schema": {"type": "object"}, "parts": [{"thought": False, "text": "t"}],
    }  # fmt: skip
    assert normal_form(value) == {
        "camel_case": {"y": 1},
        "google_search": {},
        "code_execution": {},
        "retrieval": {},
        "args": {"zero": 0, "camelKey": ""},
        "response": {"none": None},
        "parts": [{"text": "t"}],
    }


def test_conf_5_bytes_are_base64_and_the_tool_table_is_not_written() -> None:
    content = {"role": "model", "parts": [{"text": "t", "thoughtSignature": "Af8="}, {"inlineData": {"data": "AQI="}}]}
    form = request_form("m", {"model": "", "contents": [content], "config": {"httpOptions": {"headers": {"k": "v"}}}})
    assert form == {
        "model": "m",
        "contents": [
            {"role": "model", "parts": [{"text": "t", "thought_signature": "Af8="}, {"inline_data": {"data": "AQI="}}]}
        ],
        "config": {},
    } or form == {key: value for key, value in form.items() if key != "config"}


def declaring(**fields: Any) -> dict[str, Any]:
    return {"function_declarations": [{"name": "x", **fields}]}


@pytest.mark.parametrize(
    ("recorded", "made"),
    [
        ({"config": {"labels": {"a": "b"}}}, {}),
        ({"text": '{"a": 1, "b": null}'}, {"text": "{'b': None, 'a': 1}"}),
        (
            declaring(description="a  b\n c", parameters={"type": "X"}),
            declaring(description="a b c", parameters_json_schema={"type": "y"}),
        ),
        (
            declaring(name="transfer_to_agent", description="one"),
            declaring(name="transfer_to_agent", description="other"),
        ),
        ({"a": [], "b": "x"}, {"b": "x"}),
        ({"function_call": {"id": "1", "name": "f"}}, {"function_call": {"id": "2", "name": "f"}}),
    ],
)
def test_conf_6_what_is_not_compared(recorded: Any, made: Any) -> None:
    assert difference(recorded, made) == ""
    assert difference({**recorded, "model": "m"}, {**made, "model": "n"})


def test_sp_30_both_are_plugins_by_name() -> None:
    record, replay = resolve_plugins(["record_plugin", "replay_plugin"])
    assert isinstance(record, AdkRecorder)
    assert isinstance(replay, AdkReplayer)


async def test_conf_9_hooks_see_the_run_as_always_and_a_hooks_answer_is_not_recorded(case: Case) -> None:
    given = FunctionPlugin("given", before_model=lambda: ModelResponse(content=text_content("by a hook")))
    async with case.runner(case.agent(), AdkRecorder(case.base), given) as runner:
        assert texts(await case.play(runner, RECORD)) == ["by a hook"]
    assert case.recordings() == []
