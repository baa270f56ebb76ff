"""Questions with a schema: what is asked for, and whether an answer fits (workflow §5.1, §5.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hookwork.asking import REQUEST_INPUT, fitting_answer, plain_answer, request_input_event
from hookwork.records.frozen import thaw
from hookwork_workflow.schemas import schema_of

if TYPE_CHECKING:
    from hookwork.records.history import Call

__all__ = ["REQUEST_INPUT", "answer_schema", "checked_answer", "request_input_event"]


def answer_schema(schema: Any) -> tuple[dict[str, Any] | None, Callable[[Any], Any]]:
    """The JSON schema of a question, and what makes a checked answer a value of the type that was asked for.

    ``schema``: a JSON schema or a type. Raises ConfigurationError for a type that JSON cannot hold.
    """
    if schema is None:
        return None, lambda value: value
    checker = schema_of(schema)
    given = dict(schema) if isinstance(schema, Mapping) else None
    if checker is None or checker.raw is None:
        return given, lambda value: value
    return given or checker.raw, lambda value: checker.validate(thaw(value))


def checked_answer(call: Call, payload: Any) -> Any:
    """The value of an answer, as the schema of its question wants it (ANS-2, ANS-3).

    Text is read as JSON when the schema does not take it as it is.

    Raises:
        InvalidResumeResponse: it does not fit; the text names the question and never quotes the answer.
    """
    if call.response_schema is None:
        return plain_answer(payload)
    schema = schema_of(thaw(call.response_schema))
    return plain_answer(payload) if schema is None else fitting_answer(call, payload, schema.validate)
