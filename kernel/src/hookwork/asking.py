"""Questions to people from nodes: the event that asks, and what an answer means (workflow §5.1, §5.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hookwork.errors import InvalidResumeResponse
from hookwork.platform import new_uuid
from hookwork.records.content import Content, FunctionCall, Part
from hookwork.records.event import Event, NodeInfo, RequestInput
from hookwork.records.frozen import thaw

if TYPE_CHECKING:
    from hookwork.records.history import Call, HistoryIndex

#: The function name of a request for input.
REQUEST_INPUT = "adk_request_input"
#: Key in `NodeInfo.extra` of a request whose answer lets the body run again; without it the answer is the output.
RERUN = "hookworkRerun"

_WRAPPERS = ("result", "response", "payload")


def request_input_event(request: RequestInput, *, rerun: bool = False) -> Event:
    """The event that asks a person (ASK-2). Without an interrupt id it gets a fresh one (ASK-1).

    Args:
        rerun: the asking body runs again once it is answered (ASK-6).
    """
    if not request.interrupt_id:
        request = request.replace(interrupt_id=new_uuid())
    args: dict[str, Any] = {
        "interruptId": request.interrupt_id,
        "message": request.message or "",
        "payload": request.payload,
    }
    if request.response_schema is not None:
        args["responseSchema"] = request.response_schema
    call = FunctionCall(id=request.interrupt_id, name=REQUEST_INPUT, args=args)
    return waiting_event(call, rerun=rerun).replace(requested_input=request)


def waiting_event(call: FunctionCall, *, rerun: bool) -> Event:
    """The event of a call that a person answers; ``rerun`` as in `request_input_event`."""
    return Event(
        content=Content(role="model", parts=[Part(function_call=call)]),
        long_running_tool_ids=(call.id or "",),
        node_info=NodeInfo(extra={RERUN: True}) if rerun else None,
    )


def unwrapped_answer(payload: Any) -> Any:
    """An answer without the object of one key that clients put around it (ANS-2)."""
    if isinstance(payload, Mapping) and len(payload) == 1:
        (key,) = payload
        if key in _WRAPPERS:
            return payload[key]
    return payload


def plain_answer(payload: Any) -> Any:
    """The value of an answer to a question without a schema: text is read as JSON only if it is an object or a list."""
    value = unwrapped_answer(payload)
    if isinstance(value, str):
        try:
            decoded = msgspec.json.decode(value.encode("utf-8", "surrogatepass"))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return value
        if isinstance(decoded, dict | list):
            return decoded
    return value


def fitting_answer(call: Call, payload: Any, check: Callable[[Any], Any]) -> Any:
    """The value of an answer to a question with a schema: the first reading of it that ``check`` takes (ANS-2, ANS-3).

    It is taken without the object that clients put around it, then, when it is text, as JSON, then as it came.

    Args:
        check: gives the checked value; raises ValueError with a text that quotes nothing of the answer.

    Raises:
        InvalidResumeResponse: no reading fits; the text names the question.
    """
    value = unwrapped_answer(payload)
    readings = [value]
    if isinstance(value, str):
        try:
            readings.append(msgspec.json.decode(value.encode("utf-8", "surrogatepass")))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass
    if value is not payload:
        readings.append(payload)  # the schema may ask for such an object itself
    fault: ValueError | None = None
    for reading in readings:
        try:
            return check(thaw(reading))
        except ValueError as error:
            fault = fault or error
    raise InvalidResumeResponse(
        f"the answer to {call.id!r} does not fit what was asked for: {fault}; nothing was stored, it still waits"
    ) from fault


def answers_below(message: Content, index: HistoryIndex, path: str) -> Content | None:
    """A message without the answers to calls of other places than this one and what lies under it (core RES-4).

    None when nothing is left of it.
    """
    below = f"{path}/"
    parts = []
    for part in message.parts:
        response = part.function_response
        if response is not None:
            call = index.newest_call(response.id or "")
            if call is None or not (call.path == path or call.path.startswith(below)):
                continue
        parts.append(part)
    return message.replace(parts=parts) if parts else None
