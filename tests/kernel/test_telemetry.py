"""Spans of a run that is left in any way (crosscutting TEL-35 … TEL-37, core HND-3; CASE-TEL-1)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hookwork import Agent, Event, InvocationContext, Plugin, Runner, Settings, text_content
from hookwork.errors import ModelError
from hookwork.telemetry import error_type
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call


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


def current() -> int:
    """The id of the current span, 0 for none."""
    return trace.get_current_span().get_span_context().span_id


def agents() -> Agent:
    async def add(a: int) -> int:
        return a

    model = ScriptedModel([call("add", a=1), "done"])
    helper = LlmAgent(name="helper", model=model, tools=[add])

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        async with aclosing(ctx.activate(helper)) as events:
            async for event in events:
                yield event
        yield Event(content=text_content("over"))

    return Agent(name="root", body=body, sub_agents=[helper])


def runner() -> Runner:
    return Runner.in_memory(agents(), settings=Settings())


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def assert_well_nested(exporter: InMemorySpanExporter) -> None:
    """Every span ended, each inside its parent's time, and `helper` below `root`."""
    spans = {span.context.span_id: span for span in exporter.get_finished_spans() if span.context is not None}
    named = by_name(exporter)
    helper, root = named["invoke_agent helper"], named["invoke_agent root"]
    assert helper.parent is not None
    assert root.context is not None
    assert helper.parent.span_id == root.context.span_id
    for span in spans.values():
        parent = spans.get(span.parent.span_id) if span.parent is not None else None
        if parent is not None:
            assert parent.start_time is not None
            assert parent.end_time is not None
            assert span.start_time is not None
            assert span.end_time is not None
            assert parent.start_time <= span.start_time
            assert span.end_time <= parent.end_time


@pytest.mark.parametrize("outer", [False, True])
async def test_tel_35_the_callers_span_is_the_same_before_between_and_after_events(
    exporter: InMemorySpanExporter, outer: bool
) -> None:
    tracer = trace.get_tracer("test")
    if outer:
        with tracer.start_as_current_span("outer"):
            before = current()
            seen = {current() async for _ in runner().run(user_id="u", message="hi")}
            assert seen == {before}
            assert current() == before
        parent = by_name(exporter)["invoke_agent root"].parent
        assert parent is not None
        assert parent.span_id == before
    else:
        before = current()
        seen = {current() async for _ in runner().run(user_id="u", message="hi")}
        assert seen == {before}
        assert current() == before
        assert by_name(exporter)["invoke_agent root"].parent is None
    assert_well_nested(exporter)


async def test_tel_13_ard_2_what_runs_inside_around_agent_is_a_child_of_its_agent_span(
    exporter: InMemorySpanExporter,
) -> None:
    class Around(Plugin):
        @asynccontextmanager
        async def around_agent(self, ctx: object, agent: Agent, stage: object) -> AsyncIterator[None]:
            with trace.get_tracer("test").start_as_current_span(f"around {agent.name}"):
                yield

    await Runner.in_memory(agents(), settings=Settings(), plugins=[Around()]).run(user_id="u", message="hi").wait()
    spans = by_name(exporter)
    names = {span.context.span_id: name for name, span in spans.items() if span.context is not None}
    parents = {name: names.get(span.parent.span_id) if span.parent else None for name, span in spans.items()}
    assert parents["around root"] == "invoke_agent root"
    assert parents["invoke_agent helper"] == "around root"
    assert parents["around helper"] == "invoke_agent helper"
    assert parents["execute_tool add"] == "around helper"


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("way", ["break", "return", "raise", "cancel", "stop", "drop"])
async def test_tel_37_case_tel_1_however_the_consumer_leaves(
    exporter: InMemorySpanExporter, caplog: pytest.LogCaptureFixture, way: str, number: int
) -> None:
    tracer = trace.get_tracer("test")
    after: list[Any] = []

    async def consume() -> None:
        seen = 0
        if way == "drop":
            async for _ in runner().run(user_id="u", message="hi"):
                seen += 1
                if seen == number:
                    break
            return
        async with runner().run(user_id="u", message="hi") as run:
            async for _ in run:
                seen += 1
                if seen < number:
                    continue
                if way == "return":
                    return
                if way == "raise":
                    raise LookupError("the consumer's own")
                if way == "cancel":
                    task = asyncio.current_task()
                    assert task is not None
                    task.cancel()
                    await asyncio.sleep(0)
                if way == "stop":
                    await run.stop()
                break

    async def enclosed() -> None:
        with tracer.start_as_current_span("outer"):
            before = current()
            try:
                await consume()
            except (LookupError, asyncio.CancelledError):
                pass
            after.append(current() == before)
            if way == "drop":
                assert "invoke_agent root" in by_name(exporter)  # ended at once, the rest a turn later

    await asyncio.create_task(enclosed())
    await settle()
    assert after == [True]
    named = by_name(exporter)
    assert {"outer", "invoke_agent root", "invoke_agent helper"} <= set(named)
    assert_well_nested(exporter)
    assert named["outer"].end_time is not None
    assert named["invoke_agent root"].end_time is not None
    assert named["invoke_agent root"].end_time <= named["outer"].end_time
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_tel_11_a_failing_agent_marks_its_span(exporter: InMemorySpanExporter) -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=text_content("x"))
        raise LookupError("broken")

    failing = Runner.in_memory(Agent(name="root", body=body), settings=Settings())
    with pytest.raises(LookupError):
        await failing.run(user_id="u", message="hi").wait()
    span = by_name(exporter)["invoke_agent root"]
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == "LookupError"
    assert span.events[0].name == "exception"


async def test_tel_an_agent_span_names_agent_and_conversation(exporter: InMemorySpanExporter) -> None:
    await runner().run(user_id="u", session_id="s", message="hi").wait()
    attributes = by_name(exporter)["invoke_agent root"].attributes
    assert attributes is not None
    assert attributes["gen_ai.operation.name"] == "invoke_agent"
    assert attributes["gen_ai.agent.name"] == "root"
    assert attributes["gen_ai.conversation.id"] == "s"


async def test_without_a_provider_nothing_is_recorded() -> None:
    run = runner().run(user_id="u", message="hi")
    await run.wait()
    assert run._core.inv is not None
    assert run._core.inv.tracer is None


@pytest.mark.parametrize(
    ("error", "expected"),
    [(LookupError("x"), "LookupError"), (type("E", (Exception,), {"status_code": 429})("x"), "429")],
)
def test_tel_31_error_type(error: Exception, expected: str) -> None:
    assert error_type(error) == expected


async def test_tel_11_models_err_1_a_span_shows_where_an_error_came_from_but_not_what_its_causes_say(
    exporter: InMemorySpanExporter,
) -> None:
    """The cause of a ModelError is the SDK's exception, whose text repeats what the service answered."""

    async def failing(ctx: InvocationContext) -> AsyncIterator[Event]:
        try:
            raise ValueError("500: the key k3y and the whole prompt")
        except ValueError as error:
            raise ModelError("acme 'm': unavailable", kind="unavailable") from error
        yield

    async with Runner.in_memory(Agent(name="root", body=failing), settings=Settings()) as runner:
        with pytest.raises(ModelError):
            await runner.run(user_id="u", message="hi").wait()
    recorded = [event for span in exporter.get_finished_spans() for event in span.events if event.name == "exception"]
    assert recorded
    for event in recorded:
        stack = str((event.attributes or {})["exception.stacktrace"])
        assert "acme 'm': unavailable" in stack
        assert "in failing" in stack
        assert "k3y" not in stack
