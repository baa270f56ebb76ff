"""Effect hooks in real runs: writes, models, tools (tools-plugins §7.2, EFF-1 … EFF-9)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookwork import (
    Agent,
    Event,
    EventActions,
    FunctionPlugin,
    InvocationContext,
    Part,
    Plugin,
    Runner,
    Settings,
    ToolContext,
    text_content,
)
from hookwork.effects import EffectCall, ToolResult, WriteResult
from hookwork.errors import PluginError, RemoteEffectError
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call


async def talk(ctx: InvocationContext) -> AsyncIterator[Event]:
    yield Event(content=text_content("hello"), actions=EventActions(state_delta={"k": 1, "temp:t": 2}))


def runner_of(*plugins: Any, agent: Agent | None = None) -> Runner:
    root = agent or Agent(name="root", body=talk)
    return Runner.in_memory(root, plugins=list(plugins), settings=Settings())


async def stored(runner: Runner) -> list[Event]:
    session = await runner.sessions.get_session(app_name="root", user_id="u", session_id="s")
    return list(session.events)


async def run_of(runner: Runner, **arguments: Any) -> list[Event]:
    return [event async for event in runner.run(user_id="u", session_id="s", message="hi", **arguments)]


async def test_eff_9_a_write_that_gives_something_else_names_its_plugin() -> None:
    async def perform_write(call: EffectCall) -> Any:
        return 3

    with pytest.raises(PluginError, match="plugin 'odd': 'perform_write' returned int; return a WriteResult"):
        await run_of(runner_of(FunctionPlugin("odd", perform_write=perform_write)))


async def test_eff_9_a_save_without_its_version_names_its_plugin() -> None:
    async def perform_write(call: EffectCall) -> Any:
        return WriteResult(payload="new") if call.op == "save_artifact" else await call.default()

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        await ctx.artifacts.save("a.txt", Part(text="x"))
        yield Event(content=text_content("saved"))

    plugin = FunctionPlugin("odd", perform_write=perform_write)
    with pytest.raises(PluginError, match="plugin 'odd': 'perform_write' gave 'new' as the version"):
        await run_of(runner_of(plugin, agent=Agent(name="root", body=body)))


class Recorder(Plugin):
    """Keeps every effect as JSON text, and carries it out."""

    name = "recorder"

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def _keep(self, call: EffectCall) -> None:
        self.calls.append(json.loads(json.dumps(call.to_json())))

    async def perform_write(self, call: EffectCall) -> WriteResult:
        self._keep(call)
        result: WriteResult = await call.default()
        return result

    async def perform_model(self, call: EffectCall) -> Any:
        self._keep(call)
        return await call.default()

    async def perform_tool(self, call: EffectCall) -> ToolResult:
        self._keep(call)
        result: ToolResult = await call.default()
        return result

    def keys(self, kind: str) -> list[str]:
        return [call["key"] for call in self.calls if call["kind"] == kind]


async def test_eff_9_every_append_of_a_run_passes_perform_write_in_wire_form_without_temp_keys() -> None:
    recorder = Recorder()
    runner = runner_of(recorder)
    events = await run_of(runner)
    assert [call["op"] for call in recorder.calls] == ["append_event"] * 3  # the user's, the agent's, the marker
    payload = recorder.calls[1]["payload"]
    assert payload["actions"]["stateDelta"] == {"k": 1}
    assert recorder.keys("write") == [
        f"{event.invocation_id}/append_event/{event.id}" for event in await stored(runner)
    ]
    assert events == (await stored(runner))[1:]


async def test_eff_2_no_ephemeral_value_is_in_a_call() -> None:
    recorder = Recorder()

    async def look(ctx: ToolContext) -> str:
        return "seen" if ctx.ephemeral["token"] == "s3cret" else "missing"

    agent = LlmAgent(name="root", model=ScriptedModel([call("look"), "done"]), tools=[look])
    runner = runner_of(recorder, agent=agent)
    await run_of(runner, ephemeral={"token": "s3cret"})
    assert "s3cret" not in json.dumps(recorder.calls)
    assert {entry["kind"] for entry in recorder.calls} == {"write", "model", "tool"}
    responses = [response.response for event in await stored(runner) for response in event.function_responses]
    assert responses == [{"result": "seen"}]


async def test_eff_2_keys_of_models_and_tools_count_turns_and_calls() -> None:
    recorder = Recorder()

    async def add(a: int) -> int:
        return a

    model = ScriptedModel([[call("add", a=1), call("add", a=2)], call("add", a=3), "done"])
    runner = runner_of(recorder, agent=LlmAgent(name="root", model=model, tools=[add]))
    events = await run_of(runner)
    base = f"{events[0].invocation_id}/root@1"
    assert recorder.keys("model") == [f"{base}/model/{turn}" for turn in (1, 2, 3)]
    assert recorder.keys("tool") == [f"{base}/tool/1.1", f"{base}/tool/1.2", f"{base}/tool/2.1"]
    assert [call["args"] for call in recorder.calls if call["kind"] == "tool"] == [{"a": 1}, {"a": 2}, {"a": 3}]


async def test_eff_6_parallel_tools_enter_their_effect_in_the_models_order_and_overlap() -> None:
    log: list[str] = []
    both = asyncio.Barrier(2)

    async def meet(name: str) -> str:
        async with asyncio.timeout(5):
            await both.wait()  # passes only when both run at once
        return name

    async def perform_tool(call: EffectCall) -> Any:
        log.append(call.args["name"])
        return await call.default()

    model = ScriptedModel([[call("meet", name="a"), call("meet", name="b")], "done"])
    plugin = FunctionPlugin("p", perform_tool=perform_tool)
    events = await run_of(runner_of(plugin, agent=LlmAgent(name="root", model=model, tools=[meet])))
    assert log == ["a", "b"]
    assert [r.response for event in events for r in event.function_responses] == [{"result": "a"}, {"result": "b"}]


async def test_eff_9_default_may_be_called_again_and_stores_once() -> None:
    async def twice(call: EffectCall) -> WriteResult:
        await call.default()
        result: WriteResult = await call.default()
        return result

    runner = runner_of(FunctionPlugin("twice", perform_write=twice))
    events = await run_of(runner)
    session = await stored(runner)
    assert [event.text for event in session] == ["hi", "hello", ""]
    assert events == session[1:]


async def test_eff_9_a_stored_event_of_an_earlier_attempt_is_neither_stored_nor_shown_twice() -> None:
    """A durable engine answers a write from its journal: the store holds the event already."""
    journal: dict[str, Any] = {}

    async def journalled(call: EffectCall) -> WriteResult:
        if call.payload["author"] == "root" and "content" in call.payload:
            held = await runner.sessions.get_session(app_name="root", user_id="u", session_id="s")
            from hookwork.records.codec import dump, load

            event = load(Event, call.payload)
            journal["event"] = dump(await runner.sessions.append_event(held, event))
            return WriteResult(payload=journal["event"])
        result: WriteResult = await call.default()
        return result

    runner = runner_of(FunctionPlugin("engine", perform_write=journalled))
    run = runner.run(user_id="u", session_id="s", message="hi")
    texts = [event.text async for event in run]
    assert texts == ["hello", ""]
    assert [event.text for event in await stored(runner)] == ["hi", "hello", ""]
    assert run.session is not None
    assert [event.text for event in run.session.events] == ["hi", "hello", ""]
    assert run.session.state["k"] == 1


async def test_eff_7_a_failed_write_ends_the_run_and_the_event_is_not_yielded() -> None:
    async def refuse(call: EffectCall) -> WriteResult:
        if "content" in call.payload and call.payload["author"] == "root":
            raise OSError("queue is full")
        result: WriteResult = await call.default()
        return result

    runner = runner_of(FunctionPlugin("engine", perform_write=refuse))
    with pytest.raises(OSError, match="queue is full") as raised:
        await run_of(runner)
    assert raised.value.__notes__ == ["raised by plugin 'engine' in 'perform_write'"]
    assert [event.text for event in await stored(runner)] == ["hi"]


async def test_eff_1_none_is_no_result() -> None:
    async def nothing(call: EffectCall) -> Any:
        return None

    with pytest.raises(PluginError, match="'perform_write' returned None"):
        await run_of(runner_of(FunctionPlugin("engine", perform_write=nothing)))


async def test_eff_7_a_remote_error_of_a_tool_goes_to_on_tool_error() -> None:
    seen: list[Exception] = []

    async def remote(call: EffectCall) -> ToolResult:
        return ToolResult(error={"type": "Timeout", "message": "worker is gone", "retryable": True})

    async def add(a: int) -> int:
        raise AssertionError("it runs elsewhere")

    plugin = FunctionPlugin("engine", perform_tool=remote, on_tool_error=lambda error: seen.append(error))
    model = ScriptedModel([call("add", a=1), "done"])
    events = await run_of(runner_of(plugin, agent=LlmAgent(name="root", model=model, tools=[add])))
    assert isinstance(seen[0], RemoteEffectError)
    assert (seen[0].error_type, seen[0].retryable) == ("Timeout", True)
    (response,) = [r.response for event in events for r in event.function_responses]
    assert list(response or {}) == ["error"]
    assert "worker is gone" in (response or {})["error"]


async def test_eff_5_state_of_a_remote_tool_comes_back_as_a_delta() -> None:
    async def remote(call: EffectCall) -> ToolResult:
        assert call.state["n"] == 1
        return ToolResult(result={"ok": True}, actions=EventActions(state_delta={"n": call.state["n"] + 1}))

    async def bump() -> dict[str, bool]:
        raise AssertionError("it runs elsewhere")

    plugin = FunctionPlugin("engine", perform_tool=remote)
    model = ScriptedModel([call("bump"), "done"])
    runner = runner_of(plugin, agent=LlmAgent(name="root", model=model, tools=[bump]))
    run = runner.run(user_id="u", session_id="s", message="hi", state_delta={"n": 1})
    await run.wait()
    assert run.session is not None
    assert run.session.state["n"] == 2


async def test_eff_9_artifacts_pass_too_with_their_key_as_save_id() -> None:
    recorder = Recorder()

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        await ctx.artifacts.save("a.txt", Part(text="one"))
        yield Event(content=text_content("saved"))

    runner = runner_of(recorder, agent=Agent(name="root", body=body))
    events = await run_of(runner)
    saves = [entry for entry in recorder.calls if entry["op"] == "save_artifact"]
    assert [entry["payload"]["filename"] for entry in saves] == ["a.txt"]
    assert saves[0]["key"] == f"{events[0].invocation_id}/root@1/agent/1/save_artifact/1"
    assert dict(events[0].actions.artifact_delta) == {"a.txt": 1}


async def test_hnd_5_seal_passes_perform_write() -> None:
    from hookwork_llm import tool

    recorder = Recorder()
    entered = asyncio.Event()

    @tool(long_running=True)
    async def slow() -> None:
        """Takes long."""
        entered.set()
        await asyncio.Event().wait()

    model = ScriptedModel([call("slow", id="c1")])
    runner = runner_of(recorder, agent=LlmAgent(name="root", model=model, tools=[slow]))
    run = runner.run(user_id="u", session_id="s", message="hi")
    task = asyncio.create_task(run.wait())
    await entered.wait()
    await run.stop()
    await task
    last = [entry for entry in recorder.calls if entry["kind"] == "write"][-1]
    assert last["payload"]["content"]["parts"][0]["functionResponse"]["id"] == "c1"
