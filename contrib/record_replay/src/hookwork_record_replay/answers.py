"""Results and errors of effects as JSON, and back."""

from __future__ import annotations

from typing import Any

from hookwork.effects import ToolResult
from hookwork.errors import HookworkError, ModelError, ToolError
from hookwork.records.codec import dump, load
from hookwork.records.content import FunctionResponse
from hookwork.records.event import EventActions

#: Attributes of a `ModelError` beside its text (models ERR-1).
_ATTRIBUTES = (
    *("provider", "model", "kind", "status_code", "code", "retryable", "retry_after"),
    *("after_first_chunk", "request_id"),
)


def failure_of(error: Exception) -> dict[str, Any]:
    """An error as JSON: type, text, and what a model error has besides."""
    failure: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, ToolError):
        failure["told"] = failure["message"] or failure["type"]
    if isinstance(error, ModelError):
        failure.update({name: getattr(error, name) for name in _ATTRIBUTES})
    return failure


def model_error(failure: dict[str, Any]) -> HookworkError:
    """The error of a model call: a `ModelError` is one again; another becomes one that names its type."""
    message = str(failure.get("message", ""))
    attributes = {name: failure[name] for name in _ATTRIBUTES if name in failure}
    if "kind" not in attributes:
        return ModelError(f"{failure.get('type')}: {message}", kind="invalid_response")
    return ModelError(message, **attributes)


def tool_error(failure: dict[str, Any]) -> ToolError:
    """The error of a tool call. Its text is what the model was told, so that the next request is the recorded one."""
    kind, message = str(failure.get("type", "")), str(failure.get("message", ""))
    return ToolError(str(failure.get("told") or (f"{kind}: {message}" if message else kind)))


def tool_result(made: ToolResult) -> dict[str, Any]:
    """The result of a tool as JSON: what the model gets, and what it did to state and flow.

    Raises:
        ValidationError: a value that JSON cannot hold, as without recording.
    """
    data: dict[str, Any] = {}
    if made.result is not None:
        value = made.result if isinstance(made.result, dict) else {"result": made.result}
        data["value"] = dump(FunctionResponse(name="", response=value)).get("response", {})
    if made.finished:
        data["finished"] = True
    actions = dump(made.actions)
    if actions:
        data["actions"] = actions
    if made.media:
        data["media"] = [part if isinstance(part, dict) else dump(part) for part in made.media]
    return data


def load_tool_result(data: dict[str, Any]) -> ToolResult:
    """What `tool_result` wrote."""
    return ToolResult(
        result=data.get("value"),
        finished=bool(data.get("finished", False)),
        actions=load(EventActions, data.get("actions", {})),
        media=tuple(data.get("media", ())),
    )
