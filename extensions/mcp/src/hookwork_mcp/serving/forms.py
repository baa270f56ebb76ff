"""What a paused run waits for, as forms for the person at the client, and the answers on their way back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import mcp_types as types

from hookwork.records.content import Content, FunctionResponse, Part
from hookwork.records.frozen import thaw
from hookwork.records.history import Call

_PLAIN = frozenset({"string", "number", "integer", "boolean"})


def form_of(call: Call) -> types.ElicitRequestFormParams | None:
    """The form that asks for an answer; None for a call that only a program can answer."""
    if call.kind == "confirmation":
        asked = call.args.get("originalFunctionCall") or {}
        args = json.dumps(thaw(asked.get("args") or {}), ensure_ascii=False)
        message = f"{call.message or 'Please approve this call.'} {asked.get('name', '')}({args})"
        approve = {"type": "boolean", "title": "Approve", "default": False}
        return _form(message, {"type": "object", "properties": {"approve": approve}, "required": ["approve"]})
    if call.kind != "input":
        return None
    message = call.message or "Input requested"
    if _is_flat(call.response_schema):
        return _form(message, thaw(call.response_schema))
    answer = {"type": "string", "title": "Answer"}
    return _form(message, {"type": "object", "properties": {"answer": answer}, "required": ["answer"]})


def _form(message: str, schema: dict[str, Any]) -> types.ElicitRequestFormParams:
    return types.ElicitRequestFormParams(message=message, requested_schema=schema)


def _is_flat(schema: Any) -> bool:
    """Whether a form can show it: an object of plain values and choices."""
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        return False
    fields = schema.get("properties") or {}
    return bool(fields) and all(isinstance(field, Mapping) and _is_field(field) for field in fields.values())


def _is_field(field: Mapping[str, Any]) -> bool:
    """A plain value, or a choice of several of a list (SEP-1330)."""
    items = field.get("items")
    choices = isinstance(items, Mapping) and ("enum" in items or "anyOf" in items)
    return field.get("type") in _PLAIN or (field.get("type") == "array" and choices)


def answer_of(call: Call, result: types.ElicitResult) -> dict[str, Any] | None:
    """The response that a filled form stands for; None leaves the call open. Who declines to approve, rejects."""
    content = result.content or {}
    accepted = result.action == "accept"
    if call.kind == "confirmation":
        return {"confirmed": accepted and content.get("approve") is True}
    if not accepted:
        return None
    return dict(content) if _is_flat(call.response_schema) else {"payload": content.get("answer", "")}


def message_of(answers: Iterable[tuple[Call, dict[str, Any]]]) -> Content:
    """A user message with all answers."""
    parts = [
        Part(function_response=FunctionResponse(id=call.id, name=call.name, response=response))
        for call, response in answers
    ]
    return Content(role="user", parts=parts)


def told(call: Call) -> dict[str, Any]:
    """An open call for a client that cannot show forms."""
    shown: dict[str, Any] = {"id": call.id, "kind": call.kind, "name": call.name}
    if call.message:
        shown["message"] = call.message
    return shown
