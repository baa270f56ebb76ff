"""One tool call of a tool node: the same hooks, validation, gate and effect as a model's call (tools-plugins TL-27).

A policy that denies a tool, or asks a person first, holds wherever the tool is called from.
"""

from __future__ import annotations

import inspect
from contextlib import aclosing
from typing import Any

from hookwork.context import ToolContext
from hookwork.effects import ToolResult, perform
from hookwork.errors import (
    ConfirmationRejected,
    ConfirmationRequired,
    ConsentRequiredError,
    InputValidationError,
    PluginError,
    ToolArgumentError,
)
from hookwork.inside import buffer_of, effect_call, invocation_of, owner_of
from hookwork.plugins.dispatch import first
from hookwork.records.content import FunctionResponsePart
from hookwork.records.deleted import delta_of
from hookwork.records.event import ToolConfirmation
from hookwork.records.frozen import thaw
from hookwork.stages import Stage, StageOutcome, around_call
from hookwork.tool import (
    ArgumentValidator,
    ConfirmationGate,
    Finished,
    FunctionLike,
    StreamingLike,
    Tool,
    WithMedia,
    capability,
)
from hookwork_workflow.gates import Gate, asks


class ToolRun:
    """One call on its way. `execute` gives its result, or raises what the tool raised. ``gate``: the node's own.

    Attributes:
        asked: what a person has to approve first, else None; there is no result then.
        media: images, sound and files beside the result.
        finished: nothing more comes, even if the tool is a long-running one.
    """

    __slots__ = (
        "_buffer",
        "_inv",
        "_own_gate",
        "_source",
        "args",
        "asked",
        "ctx",
        "error",
        "finished",
        "media",
        "node",
        "tool",
    )

    def __init__(
        self,
        node: str,
        node_ctx: Any,
        tool: Tool,
        args: dict[str, Any],
        call_id: str,
        approval: ToolConfirmation | None,
        gate: Gate = False,
    ) -> None:
        self.node = node
        self.tool = tool
        self.args = args
        self._inv = invocation_of(node_ctx)
        buffer = buffer_of(node_ctx)
        assert buffer is not None  # the body of a node may write
        self._buffer = buffer
        self.ctx = ToolContext(
            self._inv,
            owner_of(node_ctx),
            node_ctx.branch,
            node_ctx.isolation_scope,
            f"{node_ctx.path}/{tool.name}@1-1",
            parent_path=node_ctx.path,
            buffer=buffer,
            place="tool/1.1",
            function_call_id=call_id,
            tool_name=tool.name,
            tool_confirmation=approval,
            resuming=node_ctx.resuming,
            attempt=node_ctx.attempt,
        )
        self.ctx.emit_event = node_ctx.emit
        self._own_gate = gate
        self.asked: ToolConfirmation | None = None
        self.error: Exception | None = None
        self.finished = False
        self.media: tuple[FunctionResponsePart, ...] = ()
        self._source = "default"

    async def execute(self) -> dict[str, Any] | None:
        """The result: an object, or None.

        Raises:
            InputValidationError: the arguments do not fit the tool.
            ConfirmationRejected: a person rejected the call; the body was not run.
            Exception: what the tool or a hook raised.
        """
        inv = self._inv
        if inv.tracer is None:
            return await self._in_hooks()
        from hookwork.stages import InContext
        from hookwork.telemetry import record_error, span_context, start_span

        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": self.tool.name,
            "gen_ai.tool.description": self.tool.description or None,
            "gen_ai.tool.call.id": self.ctx.function_call_id,
            "gen_ai.conversation.id": inv.session_id,
        }
        span = start_span(inv.tracer, f"execute_tool {self.tool.name}", attributes)
        try:
            return await InContext(span_context(span), self._in_hooks())
        except Exception as error:
            record_error(span, error)
            raise
        finally:
            span.end()

    async def _in_hooks(self) -> dict[str, Any] | None:
        chain = self._inv.hooks.around_tool
        stage = Stage("tool")

        async def body() -> dict[str, Any] | None:
            result = await self._staged()
            stage.outcome = StageOutcome(result, self.error, self._source)
            return result

        result = await around_call(chain, (self.ctx, self.tool, self.args), stage, body, own_task=False)
        if self.error is not None and self.asked is None:
            raise self.error
        return None if self.asked is not None else result

    async def _staged(self) -> dict[str, Any] | None:
        """``before_tool`` → validate → gate → run → ``on_tool_error`` → ``after_tool``."""
        result: dict[str, Any] | None = None
        try:
            given = await self._hook("before_tool", self.ctx, self.tool, self.args)
            if given is not None:
                self.finished = True
                result = given
            else:
                result = await self._run()
        except (ConfirmationRequired, ConfirmationRejected, ConsentRequiredError) as error:
            self.error = error
        except Exception as error:  # noqa: BLE001 - raised by `_in_hooks`, unless a hook answers it
            self.error = error
            result = await self._recovered(error)
        result = await self._after(result)
        self.asked = self.ctx.actions.requested_tool_confirmations.get(self.ctx.function_call_id)
        return result

    async def _recovered(self, error: Exception) -> dict[str, Any] | None:
        value = await self._hook("on_tool_error", self.ctx, self.tool, self.args, error)
        if value is not None:
            self.error = None
            self.finished = True
        return value

    async def _after(self, result: dict[str, Any] | None) -> dict[str, Any] | None:
        value = await self._hook("after_tool", self.ctx, self.tool, self.args, result, self.error)
        if value is None:
            return result
        self.error = None
        self.media = ()
        return value

    async def _hook(self, hook: str, *values: Any) -> dict[str, Any] | None:
        chain = getattr(self._inv.hooks, hook)
        decided = await first(chain, hook, *values) if chain else None
        if decided is None:
            return None
        value, self._source = decided
        if not isinstance(value, dict):
            raise PluginError(f"{hook} of {self._source!r} returned {type(value).__name__}; return a dict or None")
        return value

    # --- the body -----------------------------------------------------------------------------------------------------

    async def _run(self) -> dict[str, Any] | None:
        validator = capability(self.tool, ArgumentValidator)
        try:
            converted = validator.validate_args(self.args) if validator is not None else None
        except ToolArgumentError as error:
            raise InputValidationError(self.node, str(error)) from error
        await self._gate(converted)
        if self._inv.hooks.perform_tool:
            return await self._performed(validator, converted)
        return self._wrapped(await self._body(validator, converted))

    async def _gate(self, converted: Any) -> None:
        """A call that needs a person's approval does not run without it (HITL-02, HITL-03)."""
        decision = self.ctx.tool_confirmation
        if decision is not None:
            if not decision.confirmed:
                raise ConfirmationRejected(f"the call of {self.tool.name!r} was rejected by the user and was not run")
            return
        gate = capability(self.tool, ConfirmationGate)
        asked = gate is not None and await gate.needs_confirmation(self.ctx, self.args, converted)
        if not asked and not await asks(self._own_gate, self.args):
            return
        self.ctx.request_confirmation(f"Please approve the call of the tool {self.tool.name!r}.")
        raise ConfirmationRequired(f"the call of {self.tool.name!r} needs the user's approval and has not run yet")

    async def carry_out(self) -> ToolResult:
        """The body alone, without hooks and gate: what an effect that was described elsewhere asks for (EFF-10)."""
        validator = capability(self.tool, ArgumentValidator)
        converted = validator.validate_args(self.args) if validator is not None else None
        value = self._wrapped(await self._body(validator, converted))
        return ToolResult(result=value, finished=self.finished, actions=self.ctx.actions.snapshot(), media=self.media)

    async def _body(self, validator: ArgumentValidator | None, converted: Any) -> Any:
        function: Any = capability(self.tool, FunctionLike)
        streaming: Any = capability(self.tool, StreamingLike) if function is None else None
        if validator is not None and (validator is function or validator is streaming):
            return await validator.run_validated(self.ctx, converted)
        if function is not None:
            result = function.run(self.ctx, self.args)
            return await result if inspect.isawaitable(result) else result
        async with aclosing(streaming.run_stream(self.ctx, self.args)) as chunks:
            return "".join([chunk async for chunk in chunks])

    def _wrapped(self, value: Any) -> dict[str, Any] | None:
        if isinstance(value, Finished):
            self.finished = True
            value = value.value
        if isinstance(value, WithMedia):
            self.media = value.media
            value = value.value
        return value if value is None or isinstance(value, dict) else {"result": value}

    async def _performed(self, validator: ArgumentValidator | None, converted: Any) -> dict[str, Any] | None:
        """The body through the effect hook (EFF-3, EFF-5)."""
        from hookwork.records.codec import dump, load

        ctx = self.ctx

        async def default() -> ToolResult:
            value = self._wrapped(await self._body(validator, converted))
            return ToolResult(result=value, finished=self.finished, actions=ctx.actions.snapshot(), media=self.media)

        data = {
            "tool": self.tool.name,
            "call_id": ctx.function_call_id,
            "args": thaw(self.args),
            "confirmation": dump(ctx.tool_confirmation) if ctx.tool_confirmation is not None else None,
        }
        result, self._source = await perform(
            self._inv.hooks.perform_tool,
            "perform_tool",
            lambda then: effect_call(ctx, "tool", ctx.idempotency_key, data, then),
            default,
        )
        if not isinstance(result, ToolResult):
            kind = type(result).__name__
            raise PluginError(f"plugin {self._source!r}: perform_tool returned {kind}; return a ToolResult")
        self.finished = result.finished
        self.media = tuple(
            one if isinstance(one, FunctionResponsePart) else load(FunctionResponsePart, one) for one in result.media
        )
        self._apply(result)
        return self._wrapped(result.result)

    def _apply(self, result: ToolResult) -> None:
        """Take over what a remote or replayed effect changed; local changes are there already."""
        actions, came = self.ctx.actions, result.actions
        for key, value in delta_of(came).items():
            if key not in actions.state_delta or actions.state_delta[key] != value:
                actions.state_delta[key] = value
        for name, version in came.artifact_delta.items():
            self._buffer.note_artifact(name, version)
        actions.requested_tool_confirmations.update(came.requested_tool_confirmations or {})
        actions.escalate = actions.escalate or came.escalate
        actions.transfer_to_agent = came.transfer_to_agent or actions.transfer_to_agent
