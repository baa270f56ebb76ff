"""Spans of tool calls: arguments, results, errors, the span around several calls (TL-26; TEL-11, TEL-14, TEL-15)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hookwork import ToolContext
from hookwork.records.codec import dump
from hookwork.telemetry import CAPTURE_VARIABLE, as_attribute
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call

ARGUMENTS = "gcp.vertex.agent.tool_call_args"
RESPONSE = "gcp.vertex.agent.tool_response"
EVENT_ID = "gcp.vertex.agent.event_id"


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """An SDK provider installed for one test only."""
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(trace, "get_tracer", lambda *names, **more: provider.get_tracer(*names, **more))
    yield memory
    provider.shutdown()


@tool
async def look(city: str) -> dict[str, str]:
    """Looks at a city."""
    if city == "Atlantis":
        raise LookupError("not on the map")
    return {"error": "fog"} if city == "London" else {"sky": f"clear over {city}"}


def tools_of(exporter: InMemorySpanExporter) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name.startswith("execute_tool")]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def agent_of(*steps: Any, **fields: Any) -> LlmAgent:
    return LlmAgent(name="a", model=ScriptedModel([*steps, "done"]), tools=[look], **fields)


@pytest.mark.parametrize("setting", ["1", " True ", "false", None])
async def test_tel_14_tl_26_arguments_and_result_obey_the_content_setting(
    runner_factory: Any, play: Any, exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch, setting: str | None
) -> None:
    if setting is None:
        monkeypatch.delenv(CAPTURE_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(CAPTURE_VARIABLE, setting)
    async with runner_factory(agent_of(call("look", "c1", city="Rome"))) as runner:
        turn = await play(runner)
    [span] = tools_of(exporter)
    captured = setting in ("1", " True ")
    assert attributes(span) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.description": "Looks at a city.",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.conversation.id": "s",
        ARGUMENTS: '{"city": "Rome"}' if captured else "<elided>",
        RESPONSE: '{"sky": "clear over Rome"}' if captured else "<elided>",
        EVENT_ID: turn.events[1].id,
    }


@pytest.mark.parametrize(("city", "text"), [("Atlantis", "not on the map"), ("London", "fog")])
async def test_tl_26_an_error_told_to_the_model_is_an_error_of_the_span(
    runner_factory: Any, play: Any, exporter: InMemorySpanExporter, city: str, text: str
) -> None:
    async with runner_factory(agent_of(call("look", "c1", city=city))) as runner:
        await play(runner)
    [span] = tools_of(exporter)
    assert span.status.status_code is trace.StatusCode.ERROR
    assert text in (span.status.description or "")


async def test_tl_26_several_calls_of_a_turn_are_enclosed_by_one_span(
    runner_factory: Any, play: Any, exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CAPTURE_VARIABLE, "1")
    calls = [call("look", "c1", city="Rome"), call("look", "c2", city="London")]
    async with runner_factory(agent_of(calls)) as runner:
        turn = await play(runner)
    *single, merged = tools_of(exporter)
    assert [span.name for span in single] == ["execute_tool look"] * 2
    assert merged.name == "execute_tool (merged)"
    assert merged.context is not None
    assert {span.parent.span_id for span in single if span.parent is not None} == {merged.context.span_id}
    answer = turn.events[1]
    found = attributes(merged)
    assert [found[key] for key in ("gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.description")] == [
        "execute_tool", "(merged tools)", "(merged tools)",
    ]  # fmt: skip
    assert (found[ARGUMENTS], found[EVENT_ID]) == ("N/A", answer.id)
    assert {attributes(span)[EVENT_ID] for span in single} == {answer.id}
    told = json.loads(found[RESPONSE])
    assert (told["id"], told["author"], told["content"]) == (answer.id, "a", dump(answer)["content"])


async def test_tel_11_a_call_that_stays_open_has_no_response(
    runner_factory: Any, play: Any, exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CAPTURE_VARIABLE, "1")

    @tool(long_running=True)
    async def wait() -> None:
        """Waits."""

    model = ScriptedModel([[call("wait", "c1"), call("wait", "c2")]])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[wait])) as runner:
        await play(runner)
    assert [attributes(span)[RESPONSE] for span in tools_of(exporter)] == ["<not specified>"] * 3


async def test_tel_37_spans_of_calls_that_are_cut_end_inside_their_parents(
    runner_factory: Any, exporter: InMemorySpanExporter
) -> None:
    started = asyncio.Event()

    @tool
    async def wait(ctx: ToolContext) -> dict[str, Any]:
        """Waits."""
        started.set()
        await asyncio.Event().wait()
        return {}

    model = ScriptedModel([[call("wait", "c1"), call("wait", "c2")]])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[wait])) as runner:
        task = asyncio.create_task(runner.run(user_id="u", session_id="s", message="go").wait())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    names = [span.name for span in exporter.get_finished_spans()]
    assert names[-2:] == ["execute_tool (merged)", "invoke_agent a"]
    assert names.count("execute_tool wait") == 2


@pytest.mark.parametrize("value", [{"x": object()}, {1: 2, "k": {3}}])
def test_tel_15_what_json_cannot_hold_is_a_marker(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    monkeypatch.setenv(CAPTURE_VARIABLE, "1")
    assert as_attribute(value) == "<not serializable>"
