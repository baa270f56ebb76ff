"""One call of a tool, wherever it is made: its hooks, arguments, gate and body (core TOOL-2; tools-plugins TL-27).

``before_tool`` → check of the arguments → gate → body, by ``perform_tool`` where somebody implements it →
``on_tool_error`` → ``after_tool``. Who makes calls subclasses `HookedCall` and says what becomes of the result, so a
policy that denies a tool, or asks a person first, holds wherever the tool is called from.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from hookwork.effects import ToolResult, perform
from hookwork.errors import ConfirmationRejected, ConfirmationRequired, ConsentRequiredError, PluginError
from hookwork.node import Pause
from hookwork.plugins.dispatch import Hooks, first, first_callback
from hookwork.records.content import FunctionResponsePart
from hookwork.records.deleted import delta_of
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

if TYPE_CHECKING:
    from hookwork.context import ToolContext
    from hookwork.state import DeltaBuffer

#: What a call meets that is no failure: a person has to decide first, or has said no (HITL-03, AUTH-5).
GATED = (ConfirmationRequired, ConfirmationRejected, ConsentRequiredError)

Result = dict[str, Any] | None


async def run_body(
    tool: Tool, ctx: ToolContext, args: dict[str, Any], validator: ArgumentValidator | None, converted: Any
) -> Any:
    """What a runnable tool gives, a stream as one text (FN-26). ``converted``: what ``validator`` made of ``args``."""
    function: Any = capability(tool, FunctionLike)
    streaming: Any = capability(tool, StreamingLike) if function is None else None
    # A wrapper with a body of its own must not be passed by: its inner tool only checked the arguments.
    if validator is not None and (validator is function or validator is streaming):
        return await validator.run_validated(ctx, converted)
    if function is not None:
        result = function.run(ctx, args)
        return await result if inspect.isawaitable(result) else result
    async with aclosing(streaming.run_stream(ctx, args)) as stream:
        return "".join([chunk async for chunk in stream])


class HookedCall:
    """One call on its way.

    Attributes:
        tool, ctx: what is called, at which place. args: one mutable copy for hooks and tool (TL-18).
        buffer: takes what the call writes.
        error: what it failed with, or met (`GATED`); None: it has a result.
        finished: nothing more comes for this call, even if its tool is a long-running one (core RES-2).
        media: parts of the response beside the result.
        source: who decided it: ``default``, ``agent``, or a plugin's name.
    """

    __slots__ = ("args", "buffer", "ctx", "error", "finished", "hooks", "media", "source", "tool")

    def __init__(self, hooks: Hooks, tool: Tool, ctx: ToolContext, args: dict[str, Any], buffer: DeltaBuffer) -> None:
        self.hooks = hooks
        self.tool = tool
        self.ctx = ctx
        self.args = args
        self.buffer = buffer
        self.error: Exception | None = None
        self.finished = False
        self.media: tuple[Any, ...] = ()
        self.source = "default"

    # --- what those who make calls may say otherwise ------------------------------------------------------------------

    def callbacks(self, hook: str) -> Sequence[Any]:
        """Callbacks that are asked when no plugin decides."""
        return ()

    def failure(self, raised: BaseException) -> Exception:
        """What was raised, as the call's error; what is not the call's own is raised again."""
        if not isinstance(raised, Exception):
            raise raised
        return raised

    def converted(self, validator: ArgumentValidator | None) -> Any:
        """The checked arguments. Raises ToolArgumentError."""
        return validator.validate_args(self.args) if validator is not None else None

    async def needs_approval(self, converted: Any) -> bool:
        """Whether a person has to approve the call."""
        gate = capability(self.tool, ConfirmationGate)
        return gate is not None and await gate.needs_confirmation(self.ctx, self.args, converted)

    def effect_begins(self) -> None:
        """The body is about to be carried out through ``perform_tool``."""

    # --- the chain ----------------------------------------------------------------------------------------------------

    async def in_hooks(self, *, own_task: bool) -> Result:
        """The stages, inside ``around_tool``. ``own_task``: the call is the only work of its task (ARD-14)."""
        chain = self.hooks.around_tool
        if not chain:
            return await self.staged()
        stage = Stage("tool")

        async def body() -> Result:
            result = await self.staged()
            stage.outcome = StageOutcome(result, self.error, self.source)
            return result

        return await around_call(chain, (self.ctx, self.tool, self.args), stage, body, own_task=own_task)

    async def staged(self) -> Result:
        """``before_tool`` to ``after_tool``; afterwards `error` says whether the result counts."""
        result: Result = None
        try:
            given = None
            if self.has_hook("before_tool"):
                given = await self.hook("before_tool", self.ctx, self.tool, self.args)
            if given is None:
                result = await self.run()
            else:
                self.finished = True  # nothing runs that could answer later
                result = given
        except Pause:
            raise
        except GATED as error:
            self.error = error
        except BaseException as raised:  # noqa: BLE001 - what is not the call's own leaves `failure` again
            self.error = self.failure(raised)
            if self.has_hook("on_tool_error"):
                result = await self._recovered()
        return await self._after(result) if self.has_hook("after_tool") else result

    async def _recovered(self) -> Result:
        try:
            value = await self.hook("on_tool_error", self.ctx, self.tool, self.args, self.error)
        except Exception as replaced:  # noqa: BLE001 - a raise replaces the error
            self.error = replaced
            return None
        if value is not None:
            self.error = None
            self.finished = True
        return value

    async def _after(self, result: Result) -> Result:
        try:
            value = await self.hook("after_tool", self.ctx, self.tool, self.args, result, self.error)
        except Exception as replaced:  # noqa: BLE001 - a raise replaces result and error
            self.error = replaced
            return None
        if value is None:
            return result
        self.finished = self.finished or self.error is not None
        self.error = None
        self.media = ()
        return value

    def has_hook(self, hook: str) -> bool:
        """Whether anybody is to be asked."""
        return bool(getattr(self.hooks, hook) or self.callbacks(hook))

    async def hook(self, hook: str, *values: Any) -> Result:
        """What the first plugin that has an opinion decides, else the first of the `callbacks`."""
        chain = getattr(self.hooks, hook)
        decided = await first(chain, hook, *values) if chain else None
        if decided is not None:
            value, self.source = decided
        else:
            value = await first_callback(self.callbacks(hook), *values)
            if value is None:
                return None
            self.source = "agent"
        if not isinstance(value, dict):
            raise PluginError(f"{hook} of {self.source!r} returned {type(value).__name__}; return a dict or None")
        return value

    # --- the body -----------------------------------------------------------------------------------------------------

    async def run(self) -> Result:
        """Check the arguments, ask whether a person has to approve, and carry the tool out."""
        validator = capability(self.tool, ArgumentValidator)
        converted = self.converted(validator)
        await self._gate(converted)
        if self.hooks.perform_tool:
            return await self._performed(validator, converted)
        return self.as_object(await run_body(self.tool, self.ctx, self.args, validator, converted))

    async def _gate(self, converted: Any) -> None:
        """A call that needs a person's approval does not run without it (HITL-02, HITL-03)."""
        decision, name = self.ctx.tool_confirmation, self.tool.name
        if decision is not None:
            if not decision.confirmed:
                raise ConfirmationRejected(f"the call of {name!r} was rejected by the user and was not run")
            return
        if await self.needs_approval(converted):
            self.ctx.request_confirmation(f"Please approve the call of the tool {name!r}.")
            raise ConfirmationRequired(f"the call of {name!r} needs the user's approval and has not run yet")

    def as_object(self, value: Any) -> Result:
        """The result as an object; `Finished` closes a long-running call, `WithMedia` is taken apart (RES-2, FN-20)."""
        if isinstance(value, Finished):
            self.finished = True
            value = value.value
        if isinstance(value, WithMedia):
            self.media = value.media
            value = value.value
        return value if value is None or isinstance(value, dict) else {"result": value}

    async def _performed(self, validator: ArgumentValidator | None, converted: Any) -> Result:
        """The body through the effect hook (EFF-3, EFF-5)."""
        from hookwork.records.codec import dump, load

        ctx = self.ctx

        async def default() -> ToolResult:
            value = self.as_object(await run_body(self.tool, ctx, self.args, validator, converted))
            return ToolResult(result=value, finished=self.finished, actions=ctx.actions.snapshot(), media=self.media)

        data = {
            "tool": self.tool.name,
            "call_id": ctx.function_call_id,
            "args": thaw(self.args),
            "confirmation": dump(ctx.tool_confirmation) if ctx.tool_confirmation is not None else None,
        }

        def describe(then: Any) -> Any:
            self.effect_begins()
            return ctx._effect("tool", ctx.idempotency_key, data, then)

        result, owner = await perform(self.hooks.perform_tool, "perform_tool", describe, default)
        if not isinstance(result, ToolResult):
            raise PluginError(f"plugin {owner!r}: perform_tool returned {type(result).__name__}; return a ToolResult")
        self.source = owner
        self.finished = result.finished
        self._take_over(result)
        value = self.as_object(result.result)
        self.media = tuple(
            one if isinstance(one, FunctionResponsePart) else load(FunctionResponsePart, one) for one in result.media
        )
        return value

    def _take_over(self, result: ToolResult) -> None:
        """Actions that a remote or replayed effect brought (EFF-5); local ones are there already."""
        actions, came = self.ctx.actions, result.actions
        for key, value in delta_of(came).items():
            if key not in actions.state_delta or actions.state_delta[key] != value:
                actions.state_delta[key] = value
        for name, version in came.artifact_delta.items():
            self.buffer.note_artifact(name, version)
        actions.requested_tool_confirmations.update(came.requested_tool_confirmations or {})
        actions.skip_summarization = actions.skip_summarization or came.skip_summarization
        actions.transfer_to_agent = came.transfer_to_agent or actions.transfer_to_agent
        actions.escalate = actions.escalate or came.escalate
