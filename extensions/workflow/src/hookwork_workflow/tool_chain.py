"""One tool call of a tool node: the same hooks, validation, gate and effect as a model's call (tools-plugins TL-27)."""

from __future__ import annotations

from typing import Any

from hookwork.context import ToolContext
from hookwork.effects import ToolResult
from hookwork.errors import InputValidationError, ToolArgumentError
from hookwork.inside import buffer_of, invocation_of, owner_of
from hookwork.records.event import ToolConfirmation
from hookwork.tool import ArgumentValidator, Tool, capability
from hookwork.tool_call import HookedCall, run_body
from hookwork_workflow.gates import Gate, asks


class ToolRun(HookedCall):
    """One call on its way. `execute` gives its result, or raises what the tool raised. ``gate``: the node's own.

    Attributes:
        asked: what a person has to approve first, else None; there is no result then.
    """

    __slots__ = ("_inv", "_own_gate", "asked", "node")

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
        inv, buffer = invocation_of(node_ctx), buffer_of(node_ctx)
        assert buffer is not None  # the body of a node may write
        ctx = ToolContext(
            inv,
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
        ctx.emit_event = node_ctx.emit
        super().__init__(inv.hooks, tool, ctx, args, buffer)
        self.node = node
        self._inv = inv
        self._own_gate = gate
        self.asked: ToolConfirmation | None = None

    async def execute(self) -> dict[str, Any] | None:
        """The result: an object, or None.

        Raises:
            InputValidationError: the arguments do not fit the tool.
            ConfirmationRejected: a person rejected the call; the body was not run.
            ConsentRequiredError: a person has to consent first; it was not run.
            Exception: what the tool or a hook raised.
        """
        if self._inv.tracer is None:
            return await self._settled()
        from hookwork.stages import InContext
        from hookwork.telemetry import record_error, span_context, start_span

        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": self.tool.name,
            "gen_ai.tool.description": self.tool.description or None,
            "gen_ai.tool.call.id": self.ctx.function_call_id,
            "gen_ai.conversation.id": self._inv.session_id,
        }
        span = start_span(self._inv.tracer, f"execute_tool {self.tool.name}", attributes)
        try:
            return await InContext(span_context(span), self._settled())
        except Exception as error:
            record_error(span, error)
            raise
        finally:
            span.end()

    async def _settled(self) -> dict[str, Any] | None:
        result = await self.in_hooks(own_task=False)
        self.asked = self.ctx.actions.requested_tool_confirmations.get(self.ctx.function_call_id)
        if self.asked is not None:
            return None
        if self.error is not None:
            raise self.error
        return result

    def converted(self, validator: ArgumentValidator | None) -> Any:
        try:
            return super().converted(validator)
        except ToolArgumentError as error:
            raise InputValidationError(self.node, str(error)) from error

    async def needs_approval(self, converted: Any) -> bool:
        return await super().needs_approval(converted) or await asks(self._own_gate, self.args)

    async def carry_out(self) -> ToolResult:
        """The body alone, without hooks and gate: what an effect that was described elsewhere asks for (EFF-10)."""
        validator = capability(self.tool, ArgumentValidator)
        converted = validator.validate_args(self.args) if validator is not None else None
        value = self.as_object(await run_body(self.tool, self.ctx, self.args, validator, converted))
        return ToolResult(result=value, finished=self.finished, actions=self.ctx.actions.snapshot(), media=self.media)
