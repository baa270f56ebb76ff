"""One span for each call of a service (services BEY-18; crosscutting TEL-5, TEL-12, TEL-31)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from tests.kernel.test_telemetry import exporter as exporter

from hookwork import Agent, Event, InvocationContext, RunConfig, Runner, Settings, ToolContext, text_content
from hookwork.errors import ArtifactNotFoundError, BackendError, SessionNotFoundError, ValidationError
from hookwork.platform import use_replaying
from hookwork.records.content import Part
from hookwork.service_spans import TracedService
from hookwork.telemetry import active_tracer, count_retry, watched
from hookwork_inmemory import InMemoryArtifactService, InMemoryMemoryService, InMemorySessionService
from hookwork_llm import AgentTool, LlmAgent
from hookwork_testkit import ScriptedModel, call
from hookwork_testkit.suites.base import say

SECRET = "the user's secret"
SCOPE = {"app_name": "root", "user_id": "ann@example.com", "session_id": "s-1"}


async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
    await ctx.artifacts.save("secret name.txt", Part(text=SECRET))
    await ctx.add_session_to_memory()
    await ctx.search_memory(SECRET)
    yield Event(content=text_content(SECRET))


def runner(**services: Any) -> Runner:
    return Runner.in_memory(
        Agent(name="root", body=body), settings=Settings(), config=RunConfig(trace_services=True), **services
    )


def of_services(exporter: InMemorySpanExporter) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if "hookwork.service.kind" in (span.attributes or {})]


async def test_bey_18_a_run_has_a_span_for_each_call(exporter: InMemorySpanExporter) -> None:
    made = runner()
    await made.run(user_id=SCOPE["user_id"], session_id="s-1", message=SECRET).wait()
    spans = of_services(exporter)
    session = await made.sessions.get_session(**SCOPE)
    assert [span.name for span in spans] == [
        "sessions get_session",
        "sessions create_session",
        "sessions append_event",
        "artifacts save_artifact",
        "memory add_session_to_memory",
        "memory search_memory",
        *["sessions append_event"] * (len(session.events) - 1),
    ]
    outcomes = [(span.attributes or {})["hookwork.service.outcome"] for span in spans]
    assert outcomes == ["not_found", *["ok"] * (len(spans) - 1)]
    assert dict(spans[3].attributes or {}) == {
        "hookwork.service.kind": "artifacts",
        "hookwork.service.operation": "save_artifact",
        "hookwork.service.backend": "InMemoryArtifactService",
        "hookwork.app.name": "root",
        "gen_ai.conversation.id": "s-1",
        "hookwork.service.outcome": "ok",
        "hookwork.service.retries": 0,
    }
    for span in spans:
        conversation = (span.attributes or {}).get("gen_ai.conversation.id")
        assert conversation == (None if span.name == "memory search_memory" else "s-1"), span.name
        assert (span.attributes or {})["hookwork.app.name"] == "root"
    (agent,) = [span for span in exporter.get_finished_spans() if span.name == "invoke_agent root"]
    saved, agent_context = spans[3], agent.context
    assert saved.parent is not None
    assert agent_context is not None
    assert saved.parent.span_id == agent_context.span_id


async def test_bey_18_no_span_holds_content_file_names_or_the_user(exporter: InMemorySpanExporter) -> None:
    made = runner()
    await made.run(user_id=SCOPE["user_id"], session_id="s-1", message=SECRET).wait()
    service = watched(made.artifacts, "artifacts", active_tracer())
    with pytest.raises(ArtifactNotFoundError):
        await service.load_artifact(**SCOPE, filename="secret name 2.txt")
    text = "".join(span.to_json() for span in of_services(exporter))
    assert text
    for secret in (SECRET, "secret name", "ann@example.com"):
        assert secret not in text


async def test_bey_18_outcomes(exporter: InMemorySpanExporter) -> None:
    """TEL-31: an error is its type, a BackendError's own status; a cancelled call is no error."""

    class Failing(InMemoryArtifactService):
        async def load_artifact(self, **key: Any) -> Part:
            if key["filename"] == "slow":
                await asyncio.Event().wait()
            if key["filename"] == "absent":
                raise ArtifactNotFoundError("absent")
            if key["filename"] == "wrong":
                raise ValidationError("secret.txt is no name")
            raise BackendError("at gs://bucket/secret", status=503)

    service = watched(Failing(), "artifacts", active_tracer())
    for name, error in (("absent", ArtifactNotFoundError), ("broken", BackendError), ("wrong", ValidationError)):
        with pytest.raises(error):
            await service.load_artifact(**SCOPE, filename=name)
    task = asyncio.create_task(service.load_artifact(**SCOPE, filename="slow"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    absent, broken, wrong, slow = spans = of_services(exporter)
    for span, outcome, kind in (
        (absent, "not_found", None),
        (broken, "error", "503"),
        (wrong, "error", "ValidationError"),
        (slow, "cancelled", None),
    ):
        attributes = span.attributes or {}
        assert (attributes["hookwork.service.outcome"], attributes.get("error.type")) == (outcome, kind)
        assert span.status.status_code == (StatusCode.UNSET if kind is None else StatusCode.ERROR)
        assert span.status.description == kind
    assert [span.events for span in spans] == [()] * 4, "an exception's text is no span's"


async def test_bey_18_retries_are_counted_in_whatever_task_the_backend_makes_them(
    exporter: InMemorySpanExporter,
) -> None:
    class Retrying(InMemorySessionService):
        async def list_sessions(self, **scope: Any) -> list[Any]:
            count_retry()
            await asyncio.create_task(self._again())
            return []

        async def _again(self) -> None:
            count_retry()

    service = watched(Retrying(), "sessions", active_tracer())
    await asyncio.gather(*(service.list_sessions(app_name="root") for _ in range(3)))
    count_retry()  # outside of every call: nobody counts
    assert [(span.attributes or {})["hookwork.service.retries"] for span in of_services(exporter)] == [2, 2, 2]


async def test_bey_18_the_callers_span_stays_current_and_what_the_backend_traces_is_below(
    exporter: InMemorySpanExporter,
) -> None:
    tracer = active_tracer()
    assert tracer is not None

    class Tracing(InMemoryMemoryService):
        async def search_memory(self, **scope: Any) -> list[Any]:
            tracer.start_span("sql").end()
            return []

    before = trace.get_current_span()
    await watched(Tracing(), "memory", tracer).search_memory(app_name="root", user_id="u", query="q")
    assert trace.get_current_span() is before
    sql, search = exporter.get_finished_spans()
    assert sql.parent is not None
    assert search.context is not None
    assert sql.parent.span_id == search.context.span_id


async def test_bey_18_tel_35_a_stream_has_one_span_and_the_consumer_none(exporter: InMemorySpanExporter) -> None:
    """To its end, left early, failing, and of a session that is not there."""
    sessions = InMemorySessionService()
    session = await sessions.create_session(**SCOPE)
    for text in ("one", "two"):
        await sessions.append_event(session, say(text))
    service = watched(sessions, "sessions", active_tracer())
    before = trace.get_current_span()
    async for _ in service.stream_events(**SCOPE):
        assert trace.get_current_span() is before
    async with aclosing(service.stream_events(**SCOPE)) as events:
        assert (await anext(events)).text == "one"
    with pytest.raises(SessionNotFoundError):
        await anext(service.stream_events(**{**SCOPE, "session_id": "absent"}))
    with pytest.raises(ValidationError):
        await anext(service.stream_events(**SCOPE, page_size=0))
    spans = of_services(exporter)
    assert {span.name for span in spans} == {"sessions stream_events"}
    outcomes = [(span.attributes or {})["hookwork.service.outcome"] for span in spans]
    assert outcomes == ["ok", "cancelled", "not_found", "error"]


async def test_tel_12_nothing_is_emitted_while_replaying(exporter: InMemorySpanExporter) -> None:
    service = watched(InMemoryMemoryService(), "memory", active_tracer())
    with use_replaying(True):
        assert await service.search_memory(app_name="root", user_id="u", query="q") == []
        with pytest.raises(SessionNotFoundError):
            await anext(watched(InMemorySessionService(), "sessions", active_tracer()).stream_events(**SCOPE))
    assert exporter.get_finished_spans() == ()


async def test_bey_18_without_a_tracer_the_service_is_the_service() -> None:
    service = InMemorySessionService()
    assert active_tracer() is None
    assert watched(service, "sessions", active_tracer()) is service
    assert watched(None, "memory", None) is None


async def test_bey_18_the_rest_of_a_service_is_reached_as_it_is(exporter: InMemorySpanExporter) -> None:
    inner = InMemoryArtifactService(first_version=0)
    service = watched(inner, "artifacts", active_tracer())
    assert isinstance(service, TracedService)
    assert (service.first_version, service.streaming, service.references) == (0, False, True)
    with pytest.raises(AttributeError, match="no_such"):
        _ = service.no_such
    await service.close()
    assert exporter.get_finished_spans() == ()


async def test_bey_18_a_runner_keeps_showing_the_service_it_was_given(exporter: InMemorySpanExporter) -> None:
    sessions = InMemorySessionService()
    made = runner(sessions=sessions)
    await made.run(user_id="u", message="hi").wait()
    assert made.sessions is sessions


async def test_bey_18_a_rewind_has_its_spans_too(exporter: InMemorySpanExporter) -> None:
    made = runner()
    run = made.run(user_id="u", session_id="s-1", message="hi")
    await run.wait()
    exporter.clear()
    session = await made.sessions.get_session(app_name="root", user_id="u", session_id="s-1")
    first = session.events[0].invocation_id
    await made.rewind(user_id="u", session_id="s-1", before_invocation_id=first)
    assert [span.name for span in of_services(exporter)] == [
        "sessions get_session",
        "artifacts save_artifact",
        "sessions append_event",
    ]


async def test_bey_18_an_agent_tools_own_run_has_one_span_for_a_call(exporter: InMemorySpanExporter) -> None:
    """Its files are its parent's: what only passes a call on has no span of its own."""
    helper = LlmAgent(name="helper", description="Helps.", model=ScriptedModel([call("keep"), "kept"]), tools=[keep])
    model = ScriptedModel([call("helper", request="Keep it."), "done"])
    root = LlmAgent(name="root", model=model, tools=[AgentTool(helper)])
    async with Runner.in_memory(root, settings=Settings(), config=RunConfig(trace_services=True)) as made:
        await made.run(user_id="u", session_id="s-1", message="hi").wait()
    saves = [span for span in of_services(exporter) if span.name == "artifacts save_artifact"]
    (attributes,) = [dict(span.attributes or {}) for span in saves]
    assert attributes["hookwork.service.backend"] == "InMemoryArtifactService"
    assert (attributes["hookwork.app.name"], attributes["gen_ai.conversation.id"]) == ("root", "s-1")
    opened = [span for span in of_services(exporter) if span.name == "sessions create_session"]
    assert {(span.attributes or {})["hookwork.app.name"] for span in opened} == {"root", "helper"}


async def keep(ctx: ToolContext) -> str:
    """Keep something."""
    await ctx.artifacts.save("kept.txt", Part(text="kept"))
    return "Kept."
