"""Record and replay: what is written and how it is played back (tools-plugins SP-30, crosscutting CONF-3…10)."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hookwork import (
    Agent,
    Blob,
    Event,
    FunctionPlugin,
    Model,
    ModelResponse,
    Part,
    RunConfig,
    Runner,
    ToolContext,
    UsageMetadata,
    text_content,
)
from hookwork.errors import ConfigurationError, ModelError
from hookwork.resolve import resolve_plugins
from hookwork.settings import Settings
from hookwork_llm import LlmAgent
from hookwork_record_replay import RecordReplay, ReplayMismatchError
from hookwork_testkit import ScriptedModel, call, stream
from hookwork_testkit.suites import PluginSuite
from hookwork_workflow import ParallelAgent

RunnerFactory = Callable[..., Runner]
STREAMED = RunConfig(streaming_mode="sse")


class Scene:
    """One agent with one tool; `play` makes a turn of it and keeps the events."""

    def __init__(self, factory: RunnerFactory, file: Path) -> None:
        self.factory = factory
        self.file = file
        self.ran: list[str] = []

    def agent(self, *script: Any, instruction: str = "Look things up.") -> LlmAgent:
        model = ScriptedModel(script, usage=UsageMetadata(prompt_token_count=7, candidates_token_count=3))
        return LlmAgent(name="seeker", model=model, instruction=instruction, tools=[self.look])

    def look(self, ctx: ToolContext, at: str) -> dict[str, Any]:
        """Look something up."""
        self.ran.append(at)
        ctx.state["seen"] = at
        if at == "nowhere":
            raise ValueError("there is no nowhere")
        return {"seen": at}

    async def play(
        self, agent: Any, *plugins: Any, message: str = "Look", config: RunConfig | None = None
    ) -> tuple[list[Event], dict[str, Any]]:
        async with self.factory(agent, plugins=plugins) as runner:
            run = runner.run(user_id="u", session_id="s", message=message, config=config)
            async with run:
                events = [event async for event in run]
            state = dict(
                (await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")).state
            )
        return events, state

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()]


@pytest.fixture
def scene(runner_factory: RunnerFactory, tmp_path: Path) -> Scene:
    return Scene(runner_factory, tmp_path / "deep" / "tape.jsonl")


def shape(events: Sequence[Event]) -> list[Any]:
    """What users see of events; calls without their ids."""
    seen = []
    for event in events:
        parts = [
            (part.text, part.function_call and (part.function_call.name, dict(part.function_call.args or {})),
             part.function_response and dict(part.function_response.response or {}))
            for part in (event.content.parts if event.content else ())
        ]  # fmt: skip
        seen.append((event.author, bool(event.partial), parts, event.usage_metadata))
    return seen


def silent() -> ScriptedModel:
    """A model that no replay may call: its script is empty, and a call of it raises ScriptExhausted."""
    return ScriptedModel()


async def test_sp_30_a_turn_with_a_tool_is_replayed_without_model_and_tool(scene: Scene) -> None:
    first, state = await scene.play(
        scene.agent(call("look", at="a"), "It is a."), RecordReplay(scene.file, mode="record", tools=True)
    )
    replay = RecordReplay(scene.file, tools=True)
    second, again = await scene.play(scene.agent(), replay)
    assert shape(second) == shape(first)
    assert again == state == {"seen": "a"}
    assert scene.ran == ["a"], "the tool ran once, while it was recorded"
    replay.assert_all_used()


async def test_sp_30_the_file_is_json_lines_in_the_wire_form_of_genai(scene: Scene) -> None:
    await scene.play(scene.agent(call("look", at="a"), "It is a."), RecordReplay(scene.file, mode="record", tools=True))
    heading, asked, looked, answered = scene.lines()
    assert heading == {"hookworkRecordings": 1}
    assert [line["n"] for line in (asked, looked, answered)] == [1, 2, 3]
    assert [line["kind"] for line in (asked, looked, answered)] == ["model", "tool", "model"]
    assert asked["request"]["contents"] == [{"role": "user", "parts": [{"text": "Look"}]}]
    (part,) = asked["response"]["content"]["parts"]
    assert (part["functionCall"]["name"], part["functionCall"]["args"]) == ("look", {"at": "a"})
    assert looked["request"] == {"tool": "look", "args": {"at": "a"}}
    assert looked["result"]["value"] == {"seen": "a"}
    assert looked["result"]["actions"]["stateDelta"] == {"seen": "a"}
    assert answered["response"]["usageMetadata"] == {"promptTokenCount": 7, "candidatesTokenCount": 3}
    if os.name == "posix":
        assert stat.S_IMODE(scene.file.stat().st_mode) == 0o600


async def test_sp_30_without_tools_the_real_tool_runs_in_a_replay(scene: Scene) -> None:
    await scene.play(scene.agent(call("look", at="a"), "It is a."), RecordReplay(scene.file, mode="record"))
    await scene.play(scene.agent(), RecordReplay(scene.file))
    assert scene.ran == ["a", "a"]
    assert [line.get("kind") for line in scene.lines()] == [None, "model", "model"]


async def test_conf_8_streaming_replays_as_streamed(scene: Scene) -> None:
    script = (stream("It ", "is ", "so."),)
    first, _ = await scene.play(scene.agent(*script), RecordReplay(scene.file, mode="record"), config=STREAMED)
    second, _ = await scene.play(scene.agent(), RecordReplay(scene.file), config=STREAMED)
    assert [event.text for event in second if event.partial] == ["It ", "is ", "so."]
    assert shape(second) == shape(first)
    assert scene.lines()[1]["stream"] is True
    assert len(scene.lines()[1]["chunks"]) == 3


async def test_conf_8_a_recording_serves_a_run_of_the_other_mode(scene: Scene, tmp_path: Path) -> None:
    await scene.play(scene.agent(stream("It ", "is.")), RecordReplay(scene.file, mode="record"), config=STREAMED)
    whole, _ = await scene.play(scene.agent(), RecordReplay(scene.file))
    assert [(event.text, bool(event.partial)) for event in whole] == [("It is.", False)]
    await scene.play(scene.agent("It is."), RecordReplay(tmp_path / "whole.jsonl", mode="record"))
    streamed, _ = await scene.play(scene.agent(), RecordReplay(tmp_path / "whole.jsonl"), config=STREAMED)
    assert [(event.text, bool(event.partial)) for event in streamed] == [("It is.", False)]


async def test_sp_30_calls_that_are_alike_are_answered_in_recorded_order(scene: Scene) -> None:
    record = RecordReplay(scene.file, mode="record")
    for answer in ("one", "two", "three"):
        await scene.play(scene.agent(answer), record)
    replay = RecordReplay(scene.file)
    texts = [(await scene.play(scene.agent(), replay))[0][-1].text for _ in range(3)]
    assert texts == ["one", "two", "three"]
    with pytest.raises(ReplayMismatchError, match="was used already"):
        await scene.play(scene.agent(), replay)


async def test_conf_6_parallel_agents_get_what_each_had(scene: Scene) -> None:
    def both(left: Any, right: Any) -> Agent:
        agents = [
            LlmAgent(name=name, model=model, instruction="Guess.", disallow_transfer_to_parent=True)
            for name, model in (("left", left), ("right", right))
        ]
        return ParallelAgent(name="both", sub_agents=agents)

    await scene.play(both(ScriptedModel(["heads"]), ScriptedModel(["tails"])), RecordReplay(scene.file, mode="record"))
    events, _ = await scene.play(both(silent(), silent()), RecordReplay(scene.file))
    assert {event.author: event.text for event in events} == {"left": "heads", "right": "tails"}


async def test_conf_8_a_mismatch_names_the_nearest_recording_and_the_difference(scene: Scene) -> None:
    record = RecordReplay(scene.file, mode="record")
    await scene.play(scene.agent("Far.", instruction="Speak of the sea and nothing else."), record)
    await scene.play(scene.agent("Near."), record)
    with pytest.raises(ReplayMismatchError) as caught:
        await scene.play(scene.agent(), RecordReplay(scene.file), message="Look again")
    text = str(caught.value)
    assert caught.value.nearest == 2
    assert (caught.value.kind, caught.value.agent) == ("model", "seeker")
    assert '-     "text": "Look"' in text
    assert '+     "text": "Look again"' in text
    assert "mode='record'" in text


async def test_sp_30_a_mismatch_fails_its_run_although_a_hook_answered_it(scene: Scene) -> None:
    await scene.play(scene.agent("Fine."), RecordReplay(scene.file, mode="record"))
    soothing = FunctionPlugin("soothing", on_model_error=lambda: ModelResponse(content=text_content("All is well.")))
    with pytest.raises(ReplayMismatchError):
        await scene.play(scene.agent(), RecordReplay(scene.file), soothing, message="Something else")


async def test_sp_30_a_tool_call_without_a_recording_fails_the_run(scene: Scene) -> None:
    script = (call("look", at="a"), "It is a.")
    await scene.play(scene.agent(*script), RecordReplay(scene.file, mode="record"))
    with pytest.raises(ReplayMismatchError) as caught:
        await scene.play(scene.agent(), RecordReplay(scene.file, tools=True))
    assert caught.value.kind == "tool"
    assert scene.ran == ["a"], "a call without a recording is not made"


async def test_sp_30_the_error_of_a_tool_is_told_as_it_was(scene: Scene) -> None:
    script = (call("look", at="nowhere"), "There is no such place.")
    first, _ = await scene.play(scene.agent(*script), RecordReplay(scene.file, mode="record", tools=True))
    second, _ = await scene.play(scene.agent(), RecordReplay(scene.file, tools=True))
    assert shape(second) == shape(first)
    assert scene.ran == ["nowhere"]


@pytest.mark.parametrize("streaming", [False, True])
async def test_err_1_the_error_of_a_model_is_raised_as_it_was(scene: Scene, streaming: bool) -> None:
    error = ModelError("busy", provider="p", model="m", kind="rate_limit", status_code=429, retryable=True,
                       retry_after=2.5, code="SLOW_DOWN", request_id="r-1", after_first_chunk=streaming)  # fmt: skip
    script = [*stream("Half ", "a word")[:1], error] if streaming else error
    config = STREAMED if streaming else None
    for agent, options in (
        (scene.agent(script), {"mode": "record"}),
        (scene.agent(), {}),
    ):
        with pytest.raises(ModelError) as caught:
            await scene.play(agent, RecordReplay(scene.file, **options), config=config)
        raised = caught.value
        assert (raised.provider, raised.model, raised.kind, raised.status_code) == ("p", "m", "rate_limit", 429)
        assert (raised.retryable, raised.retry_after, raised.code, raised.request_id) == (True, 2.5, "SLOW_DOWN", "r-1")
        assert raised.after_first_chunk is streaming
        assert "busy" in str(raised)


async def test_conf_10_secrets_are_in_no_recording_and_no_error(scene: Scene) -> None:
    def login(api_key: str) -> dict[str, Any]:
        """Log in."""
        return {"accessToken": "t-0ther", "note": "the code is hunter2"}

    def agent(*script: Any) -> LlmAgent:
        return LlmAgent(name="seeker", model=ScriptedModel(script), instruction="Know hunter2.", tools=[login])

    options: dict[str, Any] = {"tools": True, "secrets": ["hunter2"]}
    await scene.play(agent(call("login", api_key="k-1234"), "In."), RecordReplay(scene.file, mode="record", **options))
    written = scene.file.read_text()
    for secret in ("hunter2", "k-1234", "t-0ther"):
        assert secret not in written
    assert '"api_key": "[redacted]"' in written
    assert '"properties": {"api_key": {' in written, "a schema that describes a key holds none"
    await scene.play(agent(), RecordReplay(scene.file, **options))
    with pytest.raises(ReplayMismatchError) as caught:
        await scene.play(agent(), RecordReplay(scene.file, **options), message="Say hunter2")
    assert "hunter2" not in str(caught.value)


async def test_conf_10_log_probabilities_are_told_by_tokens_and_are_no_secrets(scene: Scene) -> None:
    answer = ModelResponse(
        content=text_content("ok"),
        finish_reason="STOP",
        logprobs_result={"chosenCandidates": [{"token": "ok", "logProbability": -0.5}]},  # type: ignore[arg-type]
    )
    await scene.play(scene.agent(answer), RecordReplay(scene.file, mode="record"))
    assert scene.lines()[1]["response"]["logprobsResult"]["chosenCandidates"][0]["token"] == "ok"


async def test_conf_10_scrub_changes_what_is_written(scene: Scene) -> None:
    def scrub(value: Any) -> Any:
        return json.loads(json.dumps(value).replace("Berlin", "Somewhere"))

    await scene.play(scene.agent("In Berlin."), RecordReplay(scene.file, mode="record", scrub=scrub), message="Berlin?")
    assert "Berlin" not in scene.file.read_text()
    events, _ = await scene.play(scene.agent(), RecordReplay(scene.file, scrub=scrub), message="Berlin?")
    assert events[-1].text == "In Somewhere."


async def test_eph_2_the_ephemeral_scope_is_in_no_recording(scene: Scene) -> None:
    agent = scene.agent("Hello.")
    async with scene.factory(agent, plugins=[RecordReplay(scene.file, mode="record")]) as runner:
        await runner.run(user_id="u", session_id="s", message="Hi", ephemeral={"tenant": "acme-7"}).wait()
    assert "acme-7" not in scene.file.read_text()


async def test_sp_30_auto_replays_what_there_is_and_adds_what_is_missing(scene: Scene) -> None:
    await scene.play(scene.agent("First."), RecordReplay(scene.file, mode="auto"), message="1")
    model = scene.agent("Second.")
    auto = RecordReplay(scene.file, mode="auto")
    assert (await scene.play(model, auto, message="1"))[0][-1].text == "First."
    assert (await scene.play(model, auto, message="2"))[0][-1].text == "Second."
    assert [line.get("n") for line in scene.lines()] == [None, 1, 2]
    replay = RecordReplay(scene.file)
    assert (await scene.play(scene.agent(), replay, message="2"))[0][-1].text == "Second."
    assert replay.unused == [1]
    with pytest.raises(AssertionError, match="recordings 1"):
        replay.assert_all_used()


async def test_sp_30_not_strict_makes_the_call_and_writes_nothing(scene: Scene) -> None:
    await scene.play(scene.agent("Known."), RecordReplay(scene.file, mode="record"))
    before = scene.file.read_bytes()
    events, _ = await scene.play(scene.agent("New."), RecordReplay(scene.file, strict=False), message="Else")
    assert events[-1].text == "New."
    assert scene.file.read_bytes() == before


async def test_sp_30_record_replaces_the_file_with_its_first_recording(scene: Scene) -> None:
    await scene.play(scene.agent("Old."), RecordReplay(scene.file, mode="record"))
    fresh = RecordReplay(scene.file, mode="record")
    assert "Old." in scene.file.read_text()
    await scene.play(scene.agent("New."), fresh)
    assert "Old." not in scene.file.read_text()


async def test_sp_30_normalize_and_match_say_what_counts(scene: Scene) -> None:
    def without_date(request: dict[str, Any]) -> dict[str, Any]:
        request["config"].pop("systemInstruction", None)
        return request

    record = RecordReplay(scene.file, mode="record", normalize=without_date)
    await scene.play(scene.agent("Hello.", instruction="Today is Monday."), record)
    replay = RecordReplay(scene.file, normalize=without_date)
    assert (await scene.play(scene.agent(instruction="Today is Friday."), replay))[0][-1].text == "Hello."
    loose = RecordReplay(scene.file, match=["contents"])
    assert (await scene.play(scene.agent(instruction="Today is Sunday."), loose))[0][-1].text == "Hello."
    with pytest.raises(ReplayMismatchError):
        await scene.play(scene.agent(instruction="Today is Sunday."), RecordReplay(scene.file))


async def test_mod_4_a_run_left_early_writes_only_what_is_whole(scene: Scene) -> None:
    record = RecordReplay(scene.file, mode="record")
    async with (
        scene.factory(scene.agent(stream("a ", "b ", "c")), plugins=[record]) as runner,
        runner.run(user_id="u", session_id="s", message="Look", config=STREAMED) as run,
    ):
        async for event in run:
            assert event.partial
            break
    for line in scene.lines()[1:] if scene.file.exists() else ():
        assert line["response"]["content"]["parts"] == [{"text": "a b c"}]
        assert "chunks" not in line


async def test_sp_30_a_hundred_runs_at_once_are_recorded_and_replayed(scene: Scene) -> None:
    async def hundred(agent: LlmAgent, plugin: RecordReplay) -> list[str]:
        async with scene.factory(agent, plugins=[plugin]) as runner:
            return await asyncio.gather(
                *(runner.ask(f"Question {n}", user_id="u", session_id=f"s{n}") for n in range(100))
            )

    echo = LlmAgent(
        name="seeker", model=ScriptedModel(lambda request: f"Re: {request.contents[-1].text}"), instruction="Echo."
    )
    first = await hundred(echo, RecordReplay(scene.file, mode="record"))
    assert first == [f"Re: Question {n}" for n in range(100)]
    replay = RecordReplay(scene.file)
    second = await hundred(LlmAgent(name="seeker", model=silent(), instruction="Echo."), replay)
    assert second == first
    replay.assert_all_used()


async def test_sp_30_hooks_run_as_always_and_a_call_that_one_answers_is_not_recorded(scene: Scene) -> None:
    asked: list[str] = []
    watch = FunctionPlugin("watch", before_model=lambda request: asked.append(request.contents[-1].text))
    refuse = FunctionPlugin("refuse", before_tool=lambda tool: {"error": "no"})
    script = (call("look", at="a"), "No.")
    await scene.play(scene.agent(*script), RecordReplay(scene.file, mode="record", tools=True), watch, refuse)
    assert [line.get("kind") for line in scene.lines()] == [None, "model", "model"]
    await scene.play(scene.agent(), RecordReplay(scene.file, tools=True), watch, refuse)
    assert len(asked) == 4
    assert scene.ran == []


async def test_sp_30_parts_of_every_kind_survive(scene: Scene) -> None:
    answer = ModelResponse(
        content=text_content("x").replace(
            role="model",
            parts=[
                Part(text="hm", thought=True, thought_signature=b"\x01\xff"),
                Part(inline_data=Blob(data=b"\x01\x02", mime_type="image/png")),
                Part(text="done"),
            ],
        ),
        finish_reason="STOP",
        model_version="m-1",
        custom_metadata={"k": [1, None, {"a": True}]},
    )
    first, _ = await scene.play(scene.agent(answer), RecordReplay(scene.file, mode="record"))
    second, _ = await scene.play(scene.agent(), RecordReplay(scene.file))
    (one,), (two,) = first, second
    assert two.content == one.content
    assert two.content is not None
    assert two.content.parts[0].thought_signature == b"\x01\xff"
    assert (two.model_version, two.custom_metadata, two.finish_reason) == ("m-1", one.custom_metadata, "STOP")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "play"}, "mode is one of replay, record, auto"),
        ({"match": ["user"]}, "match takes model, config, contents"),
        ({"secrets": "abc"}, "secrets is a list"),
        ({"file": "absent.jsonl"}, "make one with mode='record' first"),
    ],
)
def test_sp_30_wrong_options_are_refused_at_once(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        RecordReplay(**{"mode": "record" if "file" not in options else "replay", **options})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        '{"hookworkRecordings": 9}\n',
        '{"hookworkRecordings": 1}\n{"n": "x"}\n',
        '{"hookworkRecordings": 1}\n{',
    ],
)
def test_sp_30_a_file_that_holds_no_recordings_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tape.jsonl"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"tape\.jsonl"):
        RecordReplay(file)


def test_sp_30_the_settings_name_it(tmp_path: Path) -> None:
    settings = Settings(tables={"record_replay": {"file": str(tmp_path / "x.jsonl"), "mode": "record"}})
    (plugin,) = resolve_plugins(["record_replay"], settings)
    assert isinstance(plugin, RecordReplay)
    assert plugin.mode == "record"


class TestRecordingPlugin(PluginSuite):
    """The plugin suite, with a new file for each plugin."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.made = 0

    def make_agent(self, name: str, model: Model, tools: Sequence[Any]) -> Agent:
        return LlmAgent(name=name, model=model, tools=tools)

    def make_plugin(self) -> Any:
        self.made += 1
        return RecordReplay(self.folder / f"{self.made}.jsonl", mode="record", tools=True)
