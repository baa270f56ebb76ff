"""The plugin: a row for every step of a run (tools-plugins SP-20 … SP-23)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hookwork import ModelResponse, Plugin, hookimpl
from hookwork.errors import ConfigurationError
from hookwork.platform import replaying, timestamp
from hookwork.records.codec import dump
from hookwork_analytics.bigquery import CLUSTERING, BigQuerySink
from hookwork_analytics.content import as_json
from hookwork_analytics.queue import Pace, RowQueue
from hookwork_analytics.rows import Row, make_row
from hookwork_analytics.sinks import JsonLinesSink, ParquetSink, Sink

if TYPE_CHECKING:
    from hookwork import (
        Agent,
        CallbackContext,
        Content,
        Event,
        InvocationContext,
        ModelRequest,
        RunOutcome,
        Stage,
        Tool,
        ToolContext,
    )

NAME = "bigquery_agent_analytics"
FORMATS = ("jsonl", "parquet", "bigquery")

#: Characters after which a text is cut (SP-20).
MAX_CONTENT_LENGTH = 500 * 1024


class Analytics(Plugin):
    """Writes a row for each message, event, agent call, model call and tool call, and for the run itself.

    Args:
        enabled: False: the object made is a plugin without hooks, which costs nothing.
        path: file (JSON Lines) or folder (Parquet).
        format: ``jsonl``, ``parquet`` or ``bigquery``.
        project, dataset, table, clustering: where rows go in BigQuery, see `BigQuerySink`.
        sink: an object of your own with ``write(rows)`` and ``close()``, in the place of all these.
        max_content_length: characters after which a text is cut; the row then says ``is_truncated``.
        custom_tags: put into ``attributes`` of every row.
        redact: gets each row before it is queued and gives the row to write, or None for none. From code only.
        batch_size, flush_interval, flush_timeout, queue_size, shutdown_timeout, max_retries, retry_delay: see `Pace`.
        name: the plugin's name.

    Raises:
        ConfigurationError: an unknown format, a bound that is not positive, or a library that is not installed.
    """

    def __new__(cls, *, enabled: bool = True, name: str = NAME, **options: Any) -> Any:
        if enabled:
            return super().__new__(cls)
        nothing = Plugin()
        nothing.name = name
        return nothing

    def __init__(
        self,
        *,
        enabled: bool = True,
        path: str | os.PathLike[str] | None = None,
        format: str = "jsonl",
        project: str | None = None,
        dataset: str = "agent_analytics",
        table: str = "events",
        clustering: Sequence[str] = CLUSTERING,
        sink: Sink | None = None,
        max_content_length: int = MAX_CONTENT_LENGTH,
        custom_tags: Mapping[str, Any] | None = None,
        redact: Callable[[Row], Row | None] | None = None,
        name: str = NAME,
        **pace: float,
    ) -> None:
        self.name = name
        self._limit = _positive(name, "max_content_length", max_content_length)
        self._tags = {"custom_tags": dict(custom_tags)} if custom_tags else {}
        self._redact = redact
        if format not in FORMATS:
            raise ConfigurationError(f"plugin {name!r}: format is one of {', '.join(FORMATS)}, not {format!r}")
        if sink is None and format == "bigquery":
            sink = BigQuerySink(project, dataset, table, clustering=clustering)
        self._queue = RowQueue(sink if sink is not None else _file_sink(format, path), _pace(name, pace))

    def _write(self, event_type: str, ctx: Any, *, attributes: Mapping[str, Any] | None = None, **fields: Any) -> None:
        if replaying():
            return  # a durable engine repeats what was written the first time
        shown = {key: value for key, value in (attributes or {}).items() if value is not None}
        row: Row | None = make_row(event_type, ctx, limit=self._limit, attributes={**shown, **self._tags}, **fields)
        if self._redact is not None and row is not None:
            row = self._redact(row)
        if row is not None:
            self._queue.put(row)

    # --- run ----------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def around_run(self, ctx: InvocationContext, stage: Stage) -> AsyncIterator[None]:
        started = timestamp()
        self._write("INVOCATION_START", ctx)
        try:
            yield
        finally:
            outcome = stage.outcome
            value = outcome.value if outcome is not None else None
            self._write(
                "INVOCATION_END",
                ctx,
                attributes=_run_attributes(value) if value is not None else None,
                latency=_since(started),
                error=outcome.error if outcome is not None else None,
            )

    def on_user_message(self, ctx: InvocationContext, message: Content) -> None:
        self._write("USER_MESSAGE", ctx, content=as_json(message), parts=message)

    def on_event(self, ctx: InvocationContext, event: Event) -> None:
        """Whole events; the pieces of a streamed answer are left out."""
        if not event.partial:
            attributes = {
                "event_id": event.id,
                "author": event.author,
                "branch": event.branch or None,
                "final": event.is_final_response(),
                "state_keys": list(event.actions.state_delta) or None,
            }
            self._write("EVENT", ctx, content=as_json(event.content), parts=event.content, attributes=attributes)

    async def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
        await self._queue.flush()

    # --- agents, models, tools ----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def around_agent(self, ctx: CallbackContext, agent: Agent, stage: Stage) -> AsyncIterator[None]:
        started = timestamp()
        place = {"path": ctx.path, "branch": ctx.branch or None}
        self._write("AGENT_START", ctx, attributes=place)
        try:
            yield
        finally:
            outcome = stage.outcome
            status = getattr(outcome.value, "status", None) if outcome is not None else None
            self._write(
                "AGENT_END",
                ctx,
                attributes={**place, "status": status},
                latency=_since(started),
                error=outcome.error if outcome is not None else None,
            )

    @asynccontextmanager
    async def around_model(self, ctx: CallbackContext, request: ModelRequest, stage: Stage) -> AsyncIterator[None]:
        started = timestamp()
        last = request.contents[-1] if request.contents else None
        instruction = request.config.system_instruction
        attributes = {
            "model": request.model or None,
            "contents": len(request.contents),
            "system_instruction": instruction.text if instruction is not None else None,
            "tools": sorted(request.tools) or None,
        }
        self._write("MODEL_REQUEST", ctx, content=as_json(last), parts=last, attributes=attributes)
        yield  # an error has a row of its own
        outcome = stage.outcome
        response = outcome.value if outcome is not None else None
        if outcome is not None and isinstance(response, ModelResponse):
            self._write(
                "MODEL_RESPONSE",
                ctx,
                content=as_json(response.content),
                parts=response.content,
                attributes=_response_attributes(request, response, outcome.source),
                latency=_since(started),
                error=_error_text(response),
            )

    @hookimpl(tryfirst=True)
    def on_model_error(self, ctx: CallbackContext, request: ModelRequest, error: Exception) -> None:
        """Before another plugin answers it."""
        self._write("MODEL_ERROR", ctx, attributes={"model": request.model or None}, error=error)

    @asynccontextmanager
    async def around_tool(
        self, ctx: ToolContext, tool: Tool, args: dict[str, Any], stage: Stage
    ) -> AsyncIterator[None]:
        started = timestamp()
        called = {"call_id": ctx.function_call_id}
        self._write("TOOL_START", ctx, content={"tool": tool.name, "args": args}, attributes=called)
        try:
            yield
        finally:
            outcome = stage.outcome
            self._write(
                "TOOL_END",
                ctx,
                content={"tool": tool.name, "result": outcome.value if outcome is not None else None},
                attributes={**called, "source": outcome.source if outcome is not None else None},
                latency=_since(started),
                error=outcome.error if outcome is not None else None,
            )

    @hookimpl(tryfirst=True)
    def on_tool_error(self, ctx: ToolContext, tool: Tool, args: dict[str, Any], error: Exception) -> None:
        """Before another plugin answers it."""
        content = {"tool": tool.name, "args": args}
        self._write("TOOL_ERROR", ctx, content=content, attributes={"call_id": ctx.function_call_id}, error=error)

    async def close(self) -> None:
        await self._queue.close()


# --- attributes -------------------------------------------------------------------------------------------------------


def _since(started: float) -> dict[str, float]:
    return {"total_ms": round((timestamp() - started) * 1000, 3)}


def _run_attributes(outcome: RunOutcome) -> dict[str, Any]:
    usage = outcome.usage.total
    return {
        "outcome": outcome.kind,
        "reason": outcome.reason or None,
        "model_calls": usage.calls,
        "total_tokens": usage.total_token_count,
    }


def _response_attributes(request: ModelRequest, response: ModelResponse, source: str) -> dict[str, Any]:
    usage = response.usage_metadata
    return {
        "model": request.model or None,
        "model_version": response.model_version,
        "finish_reason": response.finish_reason,
        "usage": dump(usage) if usage is not None else None,
        "source": source,
    }


def _error_text(response: ModelResponse) -> str | None:
    if not response.error_code:
        return None
    return f"{response.error_code}: {response.error_message}" if response.error_message else response.error_code


# --- options ----------------------------------------------------------------------------------------------------------


def _file_sink(format: str, path: str | os.PathLike[str] | None) -> Sink:
    if format == "parquet":
        return ParquetSink(path if path is not None else "analytics")
    return JsonLinesSink(path if path is not None else "analytics.jsonl")


def _pace(name: str, given: Mapping[str, Any]) -> Pace:
    for option, value in given.items():
        if option in Pace.__dataclass_fields__:
            _positive(name, option, value, least=0 if option in ("max_retries", "retry_delay") else None)
    return Pace(**given)  # an unknown option is a TypeError that names it


def _positive(name: str, option: str, value: Any, least: float | None = None) -> Any:
    number = not isinstance(value, bool) and isinstance(value, int | float)
    if not number or (value <= 0 if least is None else value < least):
        wanted = "above 0" if least is None else f"from {least}"
        raise ConfigurationError(f"plugin {name!r}: {option} is a number {wanted}, not {value!r}")
    return value
