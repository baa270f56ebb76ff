"""One span for each call of a service, by a wrapper that a run is given when a tracer is on (services BEY-18).

A span tells which backend was asked for what, of which app and session, how it ended and how often the backend tried
again. It never holds content: no arguments, no results, and of an error its type alone, since texts of errors name
files and keys. The user's id stands on no span (crosscutting TEL-40).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager, nullcontext
from contextvars import Context
from functools import partial
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import TYPE_CHECKING, Any

from hookwork.errors import ArtifactNotFoundError, SessionNotFoundError
from hookwork.platform import replaying
from hookwork.records.session import Session
from hookwork.stages import InContext, driven
from hookwork.telemetry import count_retries, error_type, span_context, start_span

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer


class TracedService:
    """A service whose calls have spans; everything else of it is reached as it is.

    Args:
        service: a session, artifact or memory service.
        kind: ``sessions``, ``artifacts`` or ``memory``; the name of a span is ``<kind> <operation>``.
    """

    __slots__ = ("_kind", "_service", "_tracer")

    def __init__(self, service: Any, kind: str, tracer: Tracer) -> None:
        self._service = service
        self._kind = kind
        self._tracer = tracer

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._service, name)
        if name.startswith("_") or name == "close":
            return found
        if isasyncgenfunction(found):
            return partial(self._stream, name, found)
        return partial(self._call, name, found) if iscoroutinefunction(found) else found

    async def _call(self, operation: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        with self._span(operation, arguments, named) as context:
            carried_out = call(*arguments, **named)
            return await (carried_out if context is None else InContext(context, carried_out))

    async def _stream(
        self, operation: str, call: Callable[..., Any], *arguments: Any, **named: Any
    ) -> AsyncGenerator[Any, None]:
        """A span from the first item that is asked for to the last, or to where the consumer leaves."""
        with self._span(operation, arguments, named) as context:
            async with aclosing(driven(context, call(*arguments, **named))) as items:
                async for item in items:
                    yield item

    def _span(
        self, operation: str, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> AbstractContextManager[Context | None]:
        """The span of a call, around it; no context, and no span, while a run is replayed (TEL-12)."""
        if replaying():
            return nullcontext()
        attributes = self._described(operation, arguments, named)
        return _ended(start_span(self._tracer, f"{self._kind} {operation}", attributes))

    def _described(self, operation: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        session = arguments[0] if arguments and isinstance(arguments[0], Session) else named.get("session")
        known = session if isinstance(session, Session) else None
        return {
            "hookwork.service.kind": self._kind,
            "hookwork.service.operation": operation,
            "hookwork.service.backend": type(self._service).__name__,
            "hookwork.app.name": known.app_name if known is not None else _text(named.get("app_name")),
            "gen_ai.conversation.id": known.id if known is not None else _text(named.get("session_id")),
        }


@contextmanager
def _ended(span: Span) -> Iterator[Context]:
    """Ends a span with what became of the call; gives the context in which the call runs."""
    context = span_context(span)
    retries = count_retries(context)
    outcome = "cancelled"
    try:
        yield context
        outcome = "ok"
    except (SessionNotFoundError, ArtifactNotFoundError):
        outcome = "not_found"  # an answer like any other: a first run asks for its session before it makes it
        raise
    except Exception as error:
        outcome = "error"
        _fail(span, error)
        raise
    finally:
        span.set_attribute("hookwork.service.outcome", outcome)
        span.set_attribute("hookwork.service.retries", retries[0])
        span.end()


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _fail(span: Span, error: Exception) -> None:
    from opentelemetry.trace import Status, StatusCode

    kind = error_type(error)
    span.set_status(Status(StatusCode.ERROR, kind))
    span.set_attribute("error.type", kind)
