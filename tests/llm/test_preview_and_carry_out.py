"""Requests shown without being sent (core B-26), and effects carried out from their descriptions (EFF-10)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hookwork import Agent, Part, Plugin, Runner, ToolContext, user_content
from hookwork.cli import main
from hookwork.effects import EffectCall, ToolResult, WriteResult
from hookwork.errors import ConfigurationError, UnsupportedInContext, UnsupportedOperationError
from hookwork.records.codec import load
from hookwork.records.metadata import ModelResponse
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call

WHO: dict[str, Any] = {"user_id": "u", "session_id": "s"}


@tool(inline=True)
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


async def test_b_26_a_preview_is_the_request_that_the_turn_then_sends() -> None:
    model = ScriptedModel(["one", "two"])
    agent = LlmAgent(name="a", model=model, tools=[add], instruction="You serve {user:name?}.")
    async with Runner(agent, sessions="memory:") as runner:
        await runner.run(message="first", state_delta={"user:name": "Ada"}, **WHO).wait()
        before = (await runner.sessions.get_session(app_name="a", **WHO)).events
        shown = await runner.preview("second", **WHO)
        assert len(model.requests) == 1
        assert (await runner.sessions.get_session(app_name="a", **WHO)).events == before
        await runner.run(message="second", **WHO).wait()
    sent = model.requests[1]
    assert list(shown.contents) == list(sent.contents)
    assert shown.config == sent.config
    assert "You serve Ada." in shown.config.system_instruction.text  # type: ignore[union-attr]


async def test_b_26_a_session_that_does_not_exist_is_an_empty_history_and_is_not_created() -> None:
    async with Runner(LlmAgent(name="a", model=ScriptedModel([])), sessions="memory:") as runner:
        shown = await runner.preview("hi", user_id="u", session_id="new")
        assert list(shown.contents) == [user_content("hi")]
        assert await runner.sessions.list_sessions(app_name="a") == []


async def test_b_26_an_agent_without_a_model_says_so() -> None:
    async def body(ctx: Any) -> Any:
        return
        yield

    async with Runner(Agent(name="plain", body=body), sessions="memory:") as runner:
        with pytest.raises(UnsupportedOperationError, match="plain"):
            await runner.preview("hi")


def test_hookwork_prompt_prints_the_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompt", "weather", "What is the weather in Rome?", "--json"]) == 0
    request = json.loads(capsys.readouterr().out)
    assert request["contents"] == [{"role": "user", "parts": [{"text": "What is the weather in Rome?"}]}]
    names = [d["name"] for entry in request["config"]["tools"] for d in entry["functionDeclarations"]]
    assert "get_weather" in names
    assert main(["prompt", "weather", "hello"]) == 0
    out = capsys.readouterr().out
    assert "- get_weather:" in out
    assert "user: hello" in out


class Elsewhere(Plugin):
    """Sends every model, tool and write effect as JSON text to another runner."""

    def __init__(self, worker: Runner) -> None:
        self.name = "elsewhere"
        self.worker = worker
        self.sent: list[dict[str, Any]] = []

    async def _ask(self, call: EffectCall) -> dict[str, Any]:
        order = json.loads(json.dumps(call.to_json()))
        self.sent.append(order)
        return json.loads(json.dumps(await self.worker.carry_out(order, ephemeral={"token": "t"})))  # type: ignore[no-any-return]

    async def perform_model(self, call: EffectCall) -> ModelResponse:
        return load(ModelResponse, await self._ask(call))

    async def perform_tool(self, call: EffectCall) -> ToolResult:
        result = await self._ask(call)
        actions = load(type(ToolResult().actions), result["actions"])
        return ToolResult(result=result["result"], finished=result["finished"], error=result["error"], actions=actions)

    async def perform_write(self, call: EffectCall) -> WriteResult:
        return WriteResult(payload=(await self._ask(call))["payload"])


@tool(inline=True)
def note(ctx: ToolContext, text: str) -> dict[str, Any]:
    """Notes a text."""
    ctx.state["note"] = f"{ctx.state.get('note', '')}{text}"
    return {"token": ctx.ephemeral["token"], "seen": ctx.state["note"]}


def pair(script: list[Any], **more: Any) -> tuple[Runner, Runner, ScriptedModel]:
    model = ScriptedModel(script)
    agent = LlmAgent(name="a", model=model, tools=[add, note], **more)
    worker = Runner(agent, sessions="memory:", artifacts="memory:")
    return Runner(agent, sessions=worker.sessions, plugins=[Elsewhere(worker)]), worker, model


async def test_eff_10_a_whole_turn_with_every_effect_carried_out_elsewhere() -> None:
    front, worker, model = pair([[call("add", a=1, b=2), call("note", text="x")], "done"])
    async with worker, front:
        outcome = await front.run(message="go", **WHO).wait()
        session = await worker.sessions.get_session(app_name="a", **WHO)
    assert outcome.kind == "completed"
    answers = [r.response for event in session.events for r in event.function_responses]
    assert answers == [{"result": 3}, {"token": "t", "seen": "x"}]
    assert session.state["note"] == "x"
    assert [event.text for event in session.events if event.text] == ["go", "done"]
    assert len(model.requests) == 2
    plugin = front.plugins[0]
    kinds = [order["kind"] for order in plugin.sent]
    assert (kinds.count("model"), kinds.count("tool"), kinds.count("write")) == (2, 2, 4)
    assert len({order["key"] for order in plugin.sent}) == len(plugin.sent)
    assert not any("token" in json.dumps(order) for order in plugin.sent[:3])  # EPH-2


async def test_eff_10_a_tool_error_elsewhere_goes_to_the_model() -> None:
    _, worker, _ = pair([])
    async with worker:
        order = {"kind": "tool", "key": "k", "app_name": "a", "user_id": "u", "session_id": "s", "invocation_id": "e"}
        result = await worker.carry_out({**order, "agent": "a", "tool": "add", "args": {"a": "x"}})
        assert result["error"]["type"] == "ToolArgumentError"
        assert "/a" in result["error"]["message"]


@pytest.mark.parametrize(
    ("change", "named"),
    [({"agent": "nobody"}, "nobody"), ({"tool": "nothing"}, "nothing"), ({"kind": "dream"}, "dream")],
)
async def test_eff_10_what_this_runner_does_not_know_is_named(change: dict[str, str], named: str) -> None:
    _, worker, _ = pair([])
    order = {"kind": "tool", "key": "k", "app_name": "a", "user_id": "u", "session_id": "s", "invocation_id": "e"}
    async with worker:
        with pytest.raises(ConfigurationError, match=named):
            await worker.carry_out({**order, "agent": "a", "tool": "add", "args": {}, **change})


async def test_eff_10_the_code_has_no_history() -> None:
    @tool(inline=True)
    def peek(ctx: ToolContext) -> int:
        """Peeks."""
        return len(ctx.session.events)

    agent = LlmAgent(name="a", model=ScriptedModel([]), tools=[peek])
    order = {"kind": "tool", "key": "k", "app_name": "a", "user_id": "u", "session_id": "s", "invocation_id": "e"}
    async with Runner(agent, sessions="memory:") as worker:
        result = await worker.carry_out({**order, "agent": "a", "tool": "peek", "args": {}})
    assert result["error"]["type"] == UnsupportedInContext.__name__


async def test_eff_10_artifacts_and_memory_are_written_where_the_services_are() -> None:
    from hookwork.records.codec import dump

    async with Runner(LlmAgent(name="a", model=ScriptedModel([])), sessions="memory:", artifacts="memory:") as worker:
        order = {"kind": "write", "key": "k1", "app_name": "a", "user_id": "u", "session_id": "s", "invocation_id": "e"}
        payload = {"filename": "f.txt", "artifact": dump(Part(text="hi"))}
        first = await worker.carry_out({**order, "op": "save_artifact", "payload": payload})
        again = await worker.carry_out({**order, "op": "save_artifact", "payload": payload})
        assert first == again == {"payload": 1}  # the effect's key makes a repeat harmless (ART-15)
        with pytest.raises(ConfigurationError, match="add_to_memory"):
            await worker.carry_out({**order, "op": "add_to_memory", "payload": {}})
