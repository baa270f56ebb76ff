"""Spans through the OpenTelemetry API (crosscutting §2), at no cost when nobody records.

A span is never attached across a ``yield``: a traced stage is driven in a context copy of its own (`stages`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from hookwork.errors import BackendError
from hookwork.stages import driven

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

    from hookwork.invocation import Invocation

T = TypeVar("T")

#: Instrumentation scope; dashboards of other ADKs key on it (TEL-5).
SCOPE_NAME = "gcp.vertex.agent"
SCHEMA_URL = "https://opentelemetry.io/schemas/1.36.0"


#: Whether messages, arguments and results may stand on spans (TEL-14, TEL-21).
CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
ELIDED = "<elided>"


def captures_content() -> bool:
    """Whether the content of a conversation may be recorded; not unless the variable says ``1`` or ``true``."""
    return os.environ.get(CAPTURE_VARIABLE, "").strip().lower() in ("1", "true")


def as_attribute(value: Any) -> str:
    """Content as the JSON text of a span attribute: elided unless captured, a marker where JSON fails (TEL-15)."""
    if not captures_content():
        return ELIDED
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return "<not serializable>"


def active_tracer() -> Tracer | None:
    """A tracer when a provider is installed, else None.

    Nobody can have installed one before the API module was imported, so nothing is imported to find out.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    from hookwork.version import VERSION

    return trace.get_tracer(SCOPE_NAME, VERSION, schema_url=SCHEMA_URL)  # type: ignore[no-any-return]


def watched(service: Any, kind: str, tracer: Tracer | None) -> Any:
    """A service as it is; with a tracer, in a wrapper that makes a span of each call (services BEY-18).

    ``kind``: ``sessions``, ``artifacts`` or ``memory``. One that only ``passes_on`` to another service, which has its
    own spans, says so by an attribute of that name.
    """
    if tracer is None or service is None or getattr(service, "passes_on", False):
        return service
    from hookwork.service_spans import TracedService

    return TracedService(service, kind, tracer)


_retries: ContextVar[list[int] | None] = ContextVar("hookwork_retries", default=None)


def count_retry() -> None:
    """For services: what is under way was not carried out and is tried again now."""
    counter = _retries.get()
    if counter is not None:
        counter[0] += 1


def count_retries(context: Context) -> list[int]:
    """How often `count_retry` is called by what runs in a context; the number is the only item of the list."""
    counter = [0]
    context.run(_retries.set, counter)
    return counter


def start_span(tracer: Tracer, name: str, attributes: Mapping[str, Any]) -> Span:
    """A span below the current one."""
    return tracer.start_span(name, attributes={k: v for k, v in attributes.items() if v is not None})


def span_context(span: Span) -> Context:
    """A copy of the current context variables in which ``span`` is the current span."""
    from opentelemetry import context as otel_context
    from opentelemetry import trace

    copy = copy_context()
    copy.run(lambda: otel_context.attach(trace.set_span_in_context(span)))
    return copy


async def traced_stream(span: Span, stream: AsyncGenerator[T, None], inv: Invocation) -> AsyncGenerator[T, None]:
    """The items of a stream whose every step runs under ``span``; ends the span however it is left (TEL-35).

    The span is known to the run meanwhile, so that a handle that is dropped can end it at once (core HND-3).
    """
    spans: list[Any] = inv.run.spans if inv.run is not None else []
    spans.append(span)
    try:
        inner = driven(span_context(span), stream)
        try:
            async for item in inner:
                yield item
        finally:
            await inner.aclose()
    except Exception as error:
        record_error(span, error)
        raise
    finally:
        if span in spans:
            spans.remove(span)
        if span.is_recording():
            span.end()


def record_error(span: Span, error: BaseException) -> None:
    """A failure on a span: recorded exception and status ERROR (TEL-11)."""
    from opentelemetry.trace import Status, StatusCode

    if span.is_recording():
        with suppress(Exception):  # an error that has no text must not be lost to the one about its text
            span.record_exception(error, {"exception.stacktrace": _stack_of(error)})
        span.set_status(Status(StatusCode.ERROR, error_text(error)))
        span.set_attribute("error.type", error_type(error))


def _stack_of(error: BaseException) -> str:
    """Where an error came from, without its causes: those of a model's SDK quote prompts, answers and headers."""
    from traceback import format_exception

    return "".join(format_exception(error, chain=False))


def error_text(error: BaseException) -> str:
    """``str(error)``; of an error whose own code for that fails, a text that says so."""
    try:
        return str(error)
    except Exception as fault:  # noqa: BLE001 - whatever it is, the error itself matters more
        return f"(its text cannot be had: {type(fault).__name__})"


def error_type(error: BaseException) -> str:
    """``error.type``: the exception's own ``error_type``, its HTTP status, else its class (TEL-31)."""
    own = getattr(error, "error_type", None) or getattr(error, "status_code", None)
    if not own and isinstance(error, BackendError):
        own = error.status
    return str(own) if own else type(error).__name__
