"""The wire form of a person's answer to `adk_request_confirmation` (tools-plugins §3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hookwork.errors import InvalidResumeResponse
from hookwork.records.content import FunctionCall
from hookwork.records.event import ToolConfirmation

REQUEST_CONFIRMATION = "adk_request_confirmation"


def read_confirmation(response: Any, *, call_id: str = "") -> ToolConfirmation:
    """The decision in a confirmation's function response (HITL-07).

    The response is the object itself, or ``{"response": "<JSON text>"}``. Anything but a ``confirmed`` of true is a
    rejection; unknown keys are ignored.

    Raises:
        InvalidResumeResponse: the text is no JSON object.
    """
    where = f"answer to confirmation {call_id!r}" if call_id else "answer to a confirmation"
    if response is None:
        return ToolConfirmation(confirmed=False)
    if not isinstance(response, Mapping):
        raise InvalidResumeResponse(f"{where} is not an object; send {{'confirmed': true}} or {{'confirmed': false}}")
    if len(response) == 1 and "response" in response:
        text = response["response"]
        if not isinstance(text, str):
            raise InvalidResumeResponse(f"{where}: 'response' must hold JSON text")
        try:
            response = msgspec.json.decode(text.encode("utf-8", "surrogatepass"))
        except (msgspec.DecodeError, UnicodeError) as error:
            raise InvalidResumeResponse(f"{where}: 'response' does not hold JSON; nothing was stored") from error
        if not isinstance(response, dict):
            raise InvalidResumeResponse(f"{where}: the JSON in 'response' is not an object; nothing was stored")
    hint = response.get("hint")
    return ToolConfirmation(
        hint=hint if isinstance(hint, str) else "",
        confirmed=response.get("confirmed") is True,
        payload=response.get("payload"),
    )


def original_call(request: FunctionCall) -> FunctionCall:
    """The call that a confirmation request is about (HITL-17).

    Raises:
        ValueError: the request carries none; the text names the request's id.
    """
    original = (request.args or {}).get("originalFunctionCall")
    if not isinstance(original, Mapping) or not isinstance(original.get("name"), str) or not original.get("id"):
        raise ValueError(f"confirmation request {request.id!r} holds no readable originalFunctionCall")
    args = original.get("args")
    return FunctionCall(
        id=str(original["id"]), name=original["name"], args=dict(args) if isinstance(args, Mapping) else {}
    )
