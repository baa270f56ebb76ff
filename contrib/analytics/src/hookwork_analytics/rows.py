"""Rows: the columns, and how one is filled (tools-plugins SP-22)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from hookwork import Content
from hookwork.platform import now
from hookwork_analytics.content import Shortener, part_rows

Row = dict[str, Any]

COLUMNS = (
    *("timestamp", "event_type", "agent", "session_id", "invocation_id", "user_id"),
    *("trace_id", "span_id", "parent_span_id", "content", "content_parts", "attributes"),
    *("latency_ms", "status", "error_message", "is_truncated"),
)
EVENT_TYPES = (
    *("USER_MESSAGE", "INVOCATION_START", "INVOCATION_END", "EVENT", "AGENT_START", "AGENT_END"),
    *("MODEL_REQUEST", "MODEL_RESPONSE", "MODEL_ERROR", "TOOL_START", "TOOL_END", "TOOL_ERROR"),
)
OK, ERROR = "OK", "ERROR"


def make_row(
    event_type: str,
    ctx: Any,
    *,
    limit: int,
    content: Any = None,
    parts: Content | None = None,
    attributes: Mapping[str, Any] | None = None,
    latency: Mapping[str, float] | None = None,
    error: BaseException | str | None = None,
) -> Row:
    """One row. Texts are cut after ``limit`` characters; ``error`` sets status and message.

    The ephemeral scope and credentials are never in it: nothing of a context is read but its ids.
    """
    short = Shortener(limit)
    if isinstance(error, BaseException):
        error = f"{type(error).__name__}: {error}"
    return {
        "timestamp": now().isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "event_type": event_type,
        "agent": ctx.agent_name,
        "session_id": ctx.session_id,
        "invocation_id": ctx.invocation_id,
        "user_id": ctx.user_id,
        **span_ids(),
        "content": short.plain(content),
        "content_parts": short.plain(part_rows(parts)),
        "attributes": short.plain(attributes or {}),
        "latency_ms": dict(latency) if latency is not None else None,
        "status": OK if error is None else ERROR,
        "error_message": short.text(error) if error is not None else None,
        "is_truncated": short.cut,
    }


def span_ids() -> dict[str, str | None]:
    """Ids of the current span in hex; None when nobody traces. Without the API module nobody can."""
    ids: dict[str, str | None] = dict.fromkeys(("trace_id", "span_id", "parent_span_id"))
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return ids
    span = trace.get_current_span()
    here = span.get_span_context()
    if here.is_valid:
        ids["trace_id"] = f"{here.trace_id:032x}"
        ids["span_id"] = f"{here.span_id:016x}"
        parent = getattr(span, "parent", None)  # only recording spans of an SDK have it
        ids["parent_span_id"] = f"{parent.span_id:016x}" if parent is not None else None
    return ids
