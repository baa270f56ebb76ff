"""Spans of tool calls: one for each, and one around the calls of a turn with several (crosscutting TEL-9, TL-26)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from hookwork.platform import new_uuid
from hookwork.records.codec import dump
from hookwork.records.content import Content, Part
from hookwork.records.event import Event
from hookwork.telemetry import as_attribute, record_error, span_context, start_span, traced_stream

if TYPE_CHECKING:
    from hookwork_llm.flow import Flow
    from hookwork_llm.tool_calls import ToolCall

OPERATION = "execute_tool"
ARGUMENTS = "gcp.vertex.agent.tool_call_args"
RESPONSE = "gcp.vertex.agent.tool_response"
EVENT_ID = "gcp.vertex.agent.event_id"
_ABSENT = "<not specified>"


async def traced_call(call: ToolCall, work: Callable[[], Awaitable[dict[str, Any] | None]]) -> dict[str, Any] | None:
    """Carry out a call, hooks included, under its span; the span has the arguments and what the model is told (TEL-14).

    An error on it is the call's, or one told as data: a result with ``error`` (TL-26).
    """
    from hookwork.stages import InContext

    inv, called = call.flow.inv, call.call
    span = start_span(
        inv.tracer,
        f"{OPERATION} {called.name}",
        {
            "gen_ai.operation.name": OPERATION,
            "gen_ai.tool.name": called.name or "",
            "gen_ai.tool.description": call.tool.description or None,
            "gen_ai.tool.call.id": called.id or _ABSENT,
            "gen_ai.conversation.id": inv.session_id,
            ARGUMENTS: as_attribute(dict(called.args or {})),
            EVENT_ID: call.event_id or None,
        },
    )
    try:
        result = await InContext(span_context(span), work())
        span.set_attribute(RESPONSE, _ABSENT if result is None else as_attribute(result))
        if call.error is not None:
            record_error(span, call.error)
        elif result is not None and result.get("error"):
            from opentelemetry.trace import Status, StatusCode

            span.set_status(Status(StatusCode.ERROR, str(result["error"])))
        return result
    except Exception as error:
        record_error(span, error)
        raise
    finally:
        span.end()


def name_response_events(groups: Sequence[Sequence[ToolCall]]) -> None:
    """Give the events that will answer the calls their ids now: the spans of the calls name them."""
    for group in groups:
        event_id = new_uuid()
        for call in group:
            call.event_id = event_id


def merged(flow: Flow, calls: Sequence[ToolCall], events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
    """The calls of one turn under one span, which holds the event with all their responses; ``events``: their work."""
    inv = flow.inv
    span = start_span(
        inv.tracer,
        f"{OPERATION} (merged)",
        {
            "gen_ai.operation.name": OPERATION,
            "gen_ai.tool.name": "(merged tools)",
            "gen_ai.tool.description": "(merged tools)",
            ARGUMENTS: "N/A",
            EVENT_ID: calls[0].event_id or None,
        },
    )

    async def work() -> AsyncGenerator[Event, None]:
        async with aclosing(events):
            async for event in events:
                yield event
        parts = [Part(function_response=call.response) for call in calls if call.response is not None]
        answer = Event(
            id=calls[0].event_id,
            invocation_id=inv.invocation_id,
            author=flow.agent.name,
            branch=flow.ctx.branch,
            content=Content(role="user", parts=parts),
        )
        span.set_attribute(RESPONSE, as_attribute(dump(answer)) if parts else _ABSENT)

    return traced_stream(span, work(), inv)
