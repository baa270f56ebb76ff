"""Model and tool effects of an LLM agent, carried out from their descriptions (tools-plugins EFF-10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hookwork.context import ToolContext
from hookwork.credentials import auth_config
from hookwork.errors import ConfigurationError, ConsentRequiredError, HookworkError
from hookwork.model import ModelRequest
from hookwork.model_streams import answer_of
from hookwork.records.codec import dump, load
from hookwork.records.content import Content
from hookwork.records.event import EventActions, ToolConfirmation
from hookwork.records.frozen import thaw
from hookwork.records.request import GenerateContentConfig
from hookwork.state import DeltaBuffer
from hookwork.tool import ArgumentValidator, Finished, WithMedia, capability
from hookwork.tool_call import run_body
from hookwork_llm.flow import Flow
from hookwork_llm.model_stage import CallIds
from hookwork_llm.tool_calls import is_runnable

if TYPE_CHECKING:
    from hookwork.context import InvocationContext
    from hookwork_llm.agent import LlmAgent


async def carry_out(agent: LlmAgent, ctx: InvocationContext, kind: str, call: Mapping[str, Any]) -> dict[str, Any]:
    """The effect's result as JSON: a ModelResponse, or the fields of a ToolResult."""
    if kind == "model":
        return await _model(agent, ctx, call)
    if kind == "tool":
        return msgspec.to_builtins(await _tool(agent, ctx, call))  # type: ignore[no-any-return]
    raise ConfigurationError(f"agent {agent.name!r} carries out model and tool effects, not {kind!r}")


async def _model(agent: LlmAgent, ctx: InvocationContext, call: Mapping[str, Any]) -> dict[str, Any]:
    model = Flow(agent, ctx).prepared.require_model()
    wire = call["request"]
    request = ModelRequest(
        model=wire.get("model", ""),
        contents=[load(Content, content) for content in wire.get("contents", ())],
        config=load(GenerateContentConfig, wire.get("config") or {}),
    )
    return dump(CallIds().apply(await answer_of(model, request)))


async def _tool(agent: LlmAgent, ctx: InvocationContext, call: Mapping[str, Any]) -> dict[str, Any]:
    flow = Flow(agent, ctx)
    tool = (await flow.known_tools()).get(call["tool"])
    if tool is None or not is_runnable(tool):
        raise ConfigurationError(f"agent {agent.name!r} has no tool {call['tool']!r} that can be run")
    confirmation = call.get("confirmation")
    tool_ctx = ToolContext(
        flow.inv,
        agent,
        ctx.branch,
        ctx.isolation_scope,
        ctx.path,
        parent_path=ctx.path,
        buffer=DeltaBuffer(),
        place="tool",
        function_call_id=call.get("call_id", ""),
        tool_name=tool.name,
        tool_confirmation=load(ToolConfirmation, confirmation) if confirmation is not None else None,
    )
    args = thaw(call.get("args") or {})
    try:
        validator = capability(tool, ArgumentValidator)
        converted = validator.validate_args(args) if validator is not None else None
        value = await run_body(tool, tool_ctx, args, validator, converted)
    except HookworkError as error:
        return {"result": None, "finished": False, "error": _described(error), "actions": dump(EventActions())}
    finished = isinstance(value, Finished)
    result = value.value if isinstance(value, Finished) else value
    media = result.media if isinstance(result, WithMedia) else ()
    result = result.value if isinstance(result, WithMedia) else result
    if result is not None and not isinstance(result, dict):
        result = {"result": result}
    actions = dump(tool_ctx.actions.snapshot())
    shown = {"media": [dump(part) for part in media]} if media else {}
    return {"result": result, "finished": finished, "error": None, "actions": actions, **shown}


def _described(error: Exception) -> dict[str, Any]:
    told = {"type": type(error).__name__, "message": str(error), "retryable": bool(getattr(error, "retryable", False))}
    if isinstance(error, ConsentRequiredError):  # the call waits for a person; it did not fail
        told["consent"] = auth_config(error.key, error.auth_uri, error.nonce, error.config)
    return told
