"""The plugin: one sealed record for each run, agent, model and tool stage (tools-plugins SP-42)."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hookwork import Plugin
from hookwork.errors import BackendError, ConfigurationError
from hookwork.platform import now, replaying, timestamp
from hookwork.records.base import Record
from hookwork.records.codec import dump
from hookwork_audit.chain import AuditFile, digest
from hookwork_audit.redaction import DEFAULT_PATTERNS, Redactor

if TYPE_CHECKING:
    from hookwork import Agent, CallbackContext, InvocationContext, ModelRequest, Stage, Tool, ToolContext

logger = logging.getLogger("hookwork.audit")

Describe = Callable[[Any], Any]

CONTENT = ("full", "hash", "none")


class Audit(Plugin):
    """Appends a record to a file for each run, agent, model and tool stage, however it ended.

    It implements around hooks only, so it sees a call that a cache answered and one that a policy refused, wherever it
    stands in the list.

    Args:
        path: the file, JSON Lines, made when it is absent, with its folders.
        content: ``full`` records arguments and results, ``hash`` their SHA-256 (after redaction), ``none`` neither.
            With the last two an error is recorded by its type alone.
        redact: globs over keys; values of keys that match read ``[redacted]``. Keys are compared in snake_case.
        required: a record that cannot be written is an error of its stage; without it is logged.
        name: the plugin's name.

    Raises:
        ConfigurationError: an unknown ``content``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = "audit.jsonl",
        *,
        content: str = "full",
        redact: Iterable[str] = DEFAULT_PATTERNS,
        required: bool = False,
        name: str = "audit",
    ) -> None:
        if content not in CONTENT:
            raise ConfigurationError(f"plugin {name!r}: content is one of {', '.join(CONTENT)}, not {content!r}")
        if isinstance(redact, str):
            raise ConfigurationError(f"plugin {name!r}: redact is a list of globs, not one text; write [{redact!r}]")
        self.name = name
        self._content = content
        self._redactor = Redactor(redact)
        self._required = required
        self._file = AuditFile(path)

    # --- stages -------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def around_run(self, ctx: InvocationContext, stage: Stage) -> AsyncIterator[None]:
        started = timestamp()
        message = ctx.user_content
        try:
            yield
        finally:
            self._record(ctx, stage, started, ctx.app_name, message, _run_result)

    @asynccontextmanager
    async def around_agent(self, ctx: CallbackContext, agent: Agent, stage: Stage) -> AsyncIterator[None]:
        started = timestamp()
        try:
            yield
        finally:
            self._record(ctx, stage, started, agent.name, None, _agent_result)

    @asynccontextmanager
    async def around_model(self, ctx: CallbackContext, request: ModelRequest, stage: Stage) -> AsyncIterator[None]:
        started = timestamp()
        try:
            yield
        finally:
            self._record(ctx, stage, started, request.model, _request(request), _unchanged)

    @asynccontextmanager
    async def around_tool(
        self, ctx: ToolContext, tool: Tool, args: dict[str, Any], stage: Stage
    ) -> AsyncIterator[None]:
        started = timestamp()
        try:
            yield
        finally:
            self._record(ctx, stage, started, tool.name, args, _unchanged)

    # --- records ------------------------------------------------------------------------------------------------------

    def _record(
        self, ctx: Any, stage: Stage, started: float, name: str, args: Any, describe: Callable[[Any], Any]
    ) -> None:
        if replaying():
            return  # a durable engine repeats what was recorded the first time
        outcome = stage.outcome
        value = outcome.value if outcome is not None else None
        record = {
            "ts": now().isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "invocation_id": ctx.invocation_id,
            "session_id": ctx.session_id,
            "user_id": ctx.user_id,
            "agent": ctx.agent_name,
            "path": ctx.path,
            "stage": stage.kind,
            "name": name,
            "args": self._shown(args),
            "result": self._shown(describe(value) if value is not None else None),
            "source": outcome.source if outcome is not None else "default",
            "error": self._error(outcome.error if outcome is not None else None),
            "duration_ms": round((timestamp() - started) * 1000, 3),
        }
        self._write({key: item for key, item in record.items() if item is not None and item != ""})

    def _write(self, record: dict[str, Any]) -> None:
        try:
            self._file.append(record)
        except (OSError, ConfigurationError) as error:
            text = f"the audit record of stage {record['stage']!r} could not be written to {self._file.path}: {error}"
            if self._required:
                raise BackendError(f"{text}; make room or rights, or set required = false") from error
            logger.error("%s", text)

    def _shown(self, value: Any) -> Any:
        if value is None or self._content == "none":
            return None
        plain = self._redactor.plain(dump(value) if isinstance(value, Record) else value)
        return {"sha256": digest(plain)} if self._content == "hash" else plain

    def _error(self, error: BaseException | None) -> dict[str, Any] | None:
        if error is None:
            return None
        # A run that its reader left early was cancelled, whichever way it was told so (ARD-14).
        kind = "CancelledError" if isinstance(error, GeneratorExit) else type(error).__name__
        # A message may quote the arguments, so it goes where they go.
        return (
            {"type": kind, "message": self._redactor.plain(str(error))} if self._content == "full" else {"type": kind}
        )


def _run_result(outcome: Any) -> dict[str, Any]:
    usage = outcome.usage.total
    return {
        "kind": outcome.kind,
        "reason": outcome.reason,
        "text": outcome.final_event.text if outcome.final_event is not None else None,
        "open_calls": [{"id": call.id, "name": call.name} for call in outcome.open_calls],
        "model_calls": usage.calls,
        "total_tokens": usage.total_token_count,
    }


def _agent_result(outcome: Any) -> dict[str, Any]:
    return {"status": outcome.status, "open_calls": [{"id": call.id, "name": call.name} for call in outcome.open_calls]}


def _request(request: ModelRequest) -> dict[str, Any]:
    """What is new in a request: the contents before the last one are in earlier records."""
    return {
        "contents": len(request.contents),
        "last": dump(request.contents[-1]) if request.contents else None,
        "tools": sorted(request.tools),
    }


def _unchanged(value: Any) -> Any:
    return value
