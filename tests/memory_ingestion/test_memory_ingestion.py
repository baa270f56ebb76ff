"""Memory ingestion (services BEY-6; core CTX-3)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from hookwork import FunctionResponse, MemoryEntry, MemoryService, Part, Runner, Session, ToolContext
from hookwork.errors import BackendError, ConfigurationError
from hookwork.resolve import resolve_plugins
from hookwork.settings import Settings
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent, tool
from hookwork_memory_ingestion import MemoryIngestion
from hookwork_testkit import ScriptedModel, call

RunnerFactory = Callable[..., Runner]
HERE: dict[str, Any] = {"user_id": "u", "session_id": "s"}


class Recorder(MemoryService):
    """A memory service that notes how many events each session had that it was given."""

    def __init__(self, fails: bool = False) -> None:
        self.given: list[int] = []
        self.fails = fails

    async def add_session_to_memory(self, session: Session) -> None:
        if self.fails:
            raise BackendError("memory is down")
        self.given.append(len(session.events))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> list[MemoryEntry]:
        return []


class Stream(Recorder):
    """One that takes events as they come; notes their texts and whether it was flushed."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[list[str], bool]] = []

    async def add_events_to_memory(self, **key: Any) -> None:
        assert {name: key[name] for name in (*HERE, "app_name")} == {**HERE, "app_name": "listener"}
        self.events.append(([event.text for event in key["events"]], key["flush"]))


def agent(*script: Any) -> LlmAgent:
    return LlmAgent(name="listener", model=ScriptedModel(script or (lambda _: "I see.")))


async def test_bey_6_after_each_run(runner_factory: RunnerFactory) -> None:
    memory = Recorder()
    async with runner_factory(agent(), plugins=[MemoryIngestion()], memory=memory) as runner:
        for _ in range(2):
            await runner.ask("I live in Oslo", **HERE)
    assert memory.given == [2, 4]


async def test_bey_6_what_was_said_is_found_later(runner_factory: RunnerFactory) -> None:
    async with runner_factory(agent(), plugins=[MemoryIngestion()]) as runner:
        await runner.ask("I live in Oslo", **HERE)
        assert runner.memory is not None
        found = await runner.memory.search_memory(app_name="listener", user_id="u", query="Oslo")
    assert "I live in Oslo" in [entry.content.text for entry in found if entry.content is not None]


async def test_bey_6_every_n_turns_of_a_session(runner_factory: RunnerFactory) -> None:
    memory, sessions = Recorder(), InMemorySessionService()
    for number in range(5):  # a new runner and plugin each time: the count is read off the session
        plugins = [MemoryIngestion(every=2)]
        async with runner_factory(agent(), plugins=plugins, memory=memory, sessions=sessions) as runner:
            await runner.ask(f"turn {number}", **HERE)
            await runner.ask("another session", user_id="u", session_id=f"s{number}")
    assert memory.given == [4, 8]


async def test_bey_6_an_answer_to_a_call_is_no_turn(runner_factory: RunnerFactory) -> None:
    @tool(require_confirmation=True)
    def pay() -> dict[str, Any]:
        """Pay."""
        return {}

    memory = Recorder()
    root = LlmAgent(name="listener", model=ScriptedModel([call("pay"), "Paid.", "Bye."]), tools=[pay])
    async with runner_factory(root, plugins=[MemoryIngestion(every=2)], memory=memory) as runner:
        paused = await runner.run(message="Pay", **HERE).wait()
        [asked] = paused.open_calls
        answer = FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": True})
        await runner.run(message=[Part(function_response=answer)], **HERE).wait()
        assert memory.given == []
        await runner.ask("Bye", **HERE)
    assert len(memory.given) == 1


async def test_bey_6_only_runs_that_ended_so(runner_factory: RunnerFactory) -> None:
    memory = Recorder()
    model = agent(RuntimeError("down"), "I see.")
    plugin = MemoryIngestion(outcomes=["failed"])
    async with runner_factory(model, plugins=[plugin], memory=memory) as runner:
        with pytest.raises(RuntimeError, match="down"):
            await runner.ask("one", **HERE)
        await runner.ask("two", **HERE)
    assert memory.given == [1]


async def test_plug_12_a_memory_that_fails_does_not_fail_the_run(
    runner_factory: RunnerFactory, caplog: pytest.LogCaptureFixture
) -> None:
    async with runner_factory(agent(), plugins=[MemoryIngestion()], memory=Recorder(fails=True)) as runner:
        outcome = await runner.run(message="Hi", **HERE).wait()
    assert outcome.kind == "completed"
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "memory is down"


@pytest.mark.parametrize("options", [{"every": 0}, {"every": True}, {"outcomes": ["done"]}], ids=str)
def test_wrong_options_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        MemoryIngestion(**options)


def test_ext_8_options_come_from_its_table() -> None:
    table = {"every": 3, "outcomes": ["completed", "paused"]}
    [plugin] = resolve_plugins(["memory_ingestion"], Settings(tables={"memory_ingestion": table}))
    assert isinstance(plugin, MemoryIngestion)


async def test_bey_6_the_events_of_each_run_with_a_flush_after_every_n_turns(runner_factory: RunnerFactory) -> None:
    memory = Stream()
    plugin = MemoryIngestion(take="events", every=2)
    async with runner_factory(agent(), plugins=[plugin], memory=memory) as runner:
        for text in ("one", "two", "three"):
            await runner.ask(text, **HERE)
    assert memory.events == [
        (["one", "I see."], False),
        (["two", "I see."], True),
        (["three", "I see."], False),
    ]
    assert memory.given == []


async def test_bey_6_on_demand_by_the_caller_and_by_a_tool(runner_factory: RunnerFactory) -> None:
    """What asked is never stored, so the next run has to ask again."""

    async def remember(ctx: ToolContext) -> str:
        """Keep this."""
        ctx.state["temp:remember"] = True
        return "Kept."

    memory = Recorder()
    root = LlmAgent(
        name="listener", model=ScriptedModel(["no", "yes", "no", call("remember"), "Done."]), tools=[remember]
    )
    async with runner_factory(root, plugins=[MemoryIngestion(on_demand=True)], memory=memory) as runner:
        await runner.ask("one", **HERE)
        await runner.ask("two", **HERE, state_delta={"temp:remember": True})
        await runner.ask("three", **HERE)
        await runner.ask("Remember this", **HERE)
    assert memory.given == [4, 10]
    stream = Stream()
    plugin = MemoryIngestion(on_demand=True, take="events")
    async with runner_factory(agent(), plugins=[plugin], memory=stream) as runner:
        await runner.ask("one", **HERE)
        await runner.ask("two", **HERE, state_delta={"temp:remember": True})
    assert stream.events == [(["two", "I see."], True)]


@pytest.mark.parametrize("options", [{"take": "turns"}, {"on_demand": "yes"}])
def test_wrong_words_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        MemoryIngestion(**options)
