"""Every model call of a run is recorded, whoever makes it: agents as tools, transfers, summaries (SP-30, EFF-1)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookwork import App, Event, RunConfig, Runner, ToolContext
from hookwork_llm import AgentTool, EventsCompaction, LlmAgent, LlmSummarizer, tool
from hookwork_record_replay import RecordReplay
from hookwork_testkit import ScriptedModel, call
from hookwork_workflow import SequentialAgent

STREAMS = pytest.mark.parametrize("mode", ["none", "sse"])


async def both(
    factory: Callable[..., Runner],
    file: Path,
    build: Callable[[bool], Any],
    *messages: str,
    mode: str = "none",
    tools: bool = False,
) -> tuple[list[list[str]], list[list[str]]]:
    """What users see of each run, recorded and then replayed with models whose scripts are empty."""

    async def play(root: Any, plugin: RecordReplay) -> list[list[str]]:
        runs = []
        async with factory(root, plugins=[plugin]) as runner:
            for message in messages:
                config = RunConfig(streaming_mode=mode)
                run = runner.run(user_id="u", session_id="s", message=message, config=config)
                async with run:
                    runs.append([seen(event) async for event in run])
        return runs

    recorded = await play(build(True), RecordReplay(file, mode="record", tools=tools))
    replay = RecordReplay(file, tools=tools)
    replayed = await play(build(False), replay)
    replay.assert_all_used()
    return recorded, replayed


def seen(event: Event) -> str:
    calls = [part.function_call.name for part in (event.content.parts if event.content else ()) if part.function_call]
    return f"{event.author}{'…' if event.partial else ''}: {event.text}{calls or ''}"


@STREAMS
async def test_an_agent_as_a_tool_and_its_own_model(
    runner_factory: Callable[..., Runner], tmp_path: Path, mode: str
) -> None:
    def build(real: bool) -> LlmAgent:
        inner = LlmAgent(name="inner", model=ScriptedModel(["deep answer"] if real else []), description="Knows.")
        outer = ScriptedModel([call("inner", request="why"), "It is so."] if real else [])
        return LlmAgent(name="outer", model=outer, tools=[AgentTool(inner)])

    recorded, replayed = await both(runner_factory, tmp_path / "tape.jsonl", build, "why?", mode=mode)
    assert recorded == replayed
    assert replayed[0][-1] == "outer: It is so."


@STREAMS
async def test_a_transfer_and_a_sequence(runner_factory: Callable[..., Runner], tmp_path: Path, mode: str) -> None:
    def build(real: bool) -> SequentialAgent:
        clerk = LlmAgent(name="clerk", model=ScriptedModel(["Here you are."] if real else []), description="Serves.")
        desk = LlmAgent(
            name="desk",
            model=ScriptedModel([call("transfer_to_agent", agent_name="clerk")] if real else []),
            sub_agents=[clerk],
        )
        last = LlmAgent(name="last", model=ScriptedModel(["Good-bye."] if real else []))
        return SequentialAgent(name="house", sub_agents=[desk, last])

    recorded, replayed = await both(runner_factory, tmp_path / "tape.jsonl", build, "a stamp", mode=mode)
    assert recorded == replayed
    assert [line for line in replayed[0] if line.startswith(("clerk:", "last:"))] == [
        "clerk: Here you are.",
        "last: Good-bye.",
    ]


async def test_the_summarizers_call_of_a_compaction(runner_factory: Callable[..., Runner], tmp_path: Path) -> None:
    def build(real: bool) -> App:
        answers = ScriptedModel(["one", "two", "three"] if real else [], name="m")
        summaries = ScriptedModel(["summary 1", "summary 2", "summary 3"] if real else [], name="s")
        agent = LlmAgent(name="talker", model=answers)
        compaction = EventsCompaction(1, summarizer=LlmSummarizer(summaries))
        return App(name="talk", root=agent, events_compaction=compaction)

    recorded, replayed = await both(runner_factory, tmp_path / "tape.jsonl", build, "a", "b", "c")
    assert recorded == replayed
    written = (tmp_path / "tape.jsonl").read_text()
    assert "summary 1" in written
    assert written.count('"kind": "model"') == 6


async def test_parallel_tools_of_one_turn_with_state(runner_factory: Callable[..., Runner], tmp_path: Path) -> None:
    ran: list[str] = []

    @tool
    def note(ctx: ToolContext, key: str) -> dict[str, Any]:
        """Note."""
        ran.append(key)
        ctx.state[key] = len(key)
        return {"noted": key}

    def build(real: bool) -> LlmAgent:
        script = [[call("note", key="a"), call("note", key="bb"), call("note", key="a")], "Done."] if real else []
        return LlmAgent(name="noter", model=ScriptedModel(script), tools=[note], instruction="Note. {bb?}")

    recorded, replayed = await both(runner_factory, tmp_path / "tape.jsonl", build, "go", tools=True)
    assert recorded == replayed
    assert ran == ["a", "bb", "a"]


async def test_a_plugin_that_shortens_the_prompt_is_seen_behind(
    runner_factory: Callable[..., Runner], tmp_path: Path
) -> None:
    """List it first or last: what is compared is what the model would get."""
    from hookwork import FunctionPlugin, ModelRequest

    def shorten(request: ModelRequest) -> None:
        request.contents = list(request.contents)[-1:]

    file = tmp_path / "tape.jsonl"
    for plugin in (RecordReplay(file, mode="record"), None):
        replaying = plugin if plugin is not None else RecordReplay(file)
        agent = LlmAgent(name="short", model=ScriptedModel(["one", "two"] if plugin is not None else []))
        async with runner_factory(
            agent, plugins=[replaying, FunctionPlugin("shorten", before_model=shorten)]
        ) as runner:
            assert await runner.ask("a", session_id="s") == "one"
            assert await runner.ask("b", session_id="s") == "two"
    assert len(file.read_text().splitlines()[2]) < 600, "the second request holds one content"
