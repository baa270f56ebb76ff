"""Carrying out the calls of one model event: hooks, validation, gate, body, and the batch's one response event.

core §4.4, tools-plugins §1 (TL-15 … TL-28) and §3 (the confirmation gate).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from hookwork.context import ToolContext
from hookwork.effects import ToolResult, perform
from hookwork.errors import (
    ConfirmationRejected,
    ConfirmationRequired,
    ConsentRequiredError,
    PluginError,
    ToolError,
    ToolNotFoundError,
    ToolResultError,
    ValidationError,
)
from hookwork.inside import effect_call
from hookwork.merge import MergePoint
from hookwork.node import Pause
from hookwork.plugins.dispatch import first, first_callback
from hookwork.records.content import FunctionCall, FunctionResponse, FunctionResponsePart
from hookwork.records.deleted import delta_of
from hookwork.records.event import Event, ToolConfirmation
from hookwork.records.frozen import thaw
from hookwork.stages import Stage, StageOutcome, around_call
from hookwork.state import DeltaBuffer
from hookwork.tool import (
    ArgumentValidator,
    ConfirmationGate,
    Finished,
    FunctionLike,
    ResponseDeferrer,
    StreamingLike,
    Tool,
    WithMedia,
    capability,
)
from hookwork_llm.tool_errors import error_text, told

if TYPE_CHECKING:
    from hookwork_llm.flow import Flow

logger = logging.getLogger("hookwork.tools")

_GATED = (ConfirmationRequired, ConfirmationRejected, ConsentRequiredError)


class UnknownTool(Tool):
    """Stands in for a name that the model made up, so that hooks can see the call (TL-19)."""

    def __init__(self, name: str) -> None:
        self.name = name


def is_runnable(tool: Tool) -> bool:
    """Whether a tool can be carried out here; model-side tools cannot (TL-01)."""
    return capability(tool, FunctionLike) is not None or capability(tool, StreamingLike) is not None


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
    chunks: list[str] = []
    async with aclosing(streaming.run_stream(ctx, args)) as stream:
        async for chunk in stream:
            chunks.append(chunk)
    return "".join(chunks)


class ToolCall:
    """One call on its way. After `execute`: ``response`` (or None: the call stays open) and its context's actions."""

    __slots__ = (
        "_logged",
        "args",
        "buffer",
        "call",
        "ctx",
        "ended",
        "entered",
        "error",
        "event_id",
        "finished",
        "flow",
        "group",
        "made_by",
        "media",
        "paused",
        "response",
        "source",
        "task",
        "tool",
    )

    def __init__(
        self,
        flow: Flow,
        made_by: Event,
        call: FunctionCall,
        turn: int,
        number: int,
        confirmation: ToolConfirmation | None = None,
        group: int = 0,
    ) -> None:
        self.flow = flow
        self.made_by = made_by
        self.call = call
        #: calls of one group are answered by one response event.
        self.group = group
        found = flow.table.get(call.name or "")
        runs = found is not None and is_runnable(found)
        #: a name that is not there, or that cannot be run here, is one and the same to hooks (TL-19).
        self.tool: Tool = found if found is not None and runs else UnknownTool(call.name or "")
        self.buffer = DeltaBuffer()
        own = flow.ctx
        self.ctx = ToolContext(
            flow.inv,
            flow.agent,
            own.branch,
            own.isolation_scope,
            f"{own.path}/{call.name}@{turn}-{number}",
            parent_path=own.path,
            buffer=self.buffer,
            place=f"tool/{turn}.{number}",
            function_call_id=call.id or "",
            tool_name=call.name or "",
            tool_confirmation=confirmation,
            resuming=own.resuming,
        )
        #: One mutable copy for hooks and tool; the stored event is never touched (TL-18).
        self.args: dict[str, Any] = thaw(call.args) if call.args else {}
        self.response: FunctionResponse | None = None
        self.error: Exception | None = None
        #: parts of the response beside the result.
        self.media: tuple[Any, ...] = ()
        #: a hook's error that is in the log already.
        self._logged: Exception | None = None
        #: nothing more comes for this call, even if its tool is long-running (core RES-2).
        self.finished = False
        self.paused = False
        #: of the event that will hold the response, where somebody has to know it before.
        self.event_id = ""
        self.source = "default"
        self.entered: asyncio.Event | None = None
        #: whether the call is being ended from outside; None: nobody says.
        self.ended: Callable[[], bool] | None = None
        #: the task that carries the call out.
        self.task: asyncio.Task[Any] | None = None

    async def execute(self) -> None:
        """Run the call to its response; errors become ``{"error": …}``, only our own cancellation leaves (TL-21)."""
        inv = self.flow.inv
        self.task = asyncio.current_task()
        try:
            result = await self._around() if inv.hooks.around_tool or inv.tracer is not None else await self._staged()
            if not self.paused:
                self._respond(result)
        except Pause:  # by an around hook
            self.paused = True
        except BaseException as raised:  # noqa: BLE001 - an around hook's own error becomes the call's (ARD-13)
            error = told(raised, self.call.name or "", self.task, ended=self.ended)
            self._log_hook("around_tool", error)
            self._fail(error)
        finally:
            if self.entered is not None:
                self.entered.set()
            self.buffer.closed = True

    def answer(self, response: dict[str, Any]) -> None:
        """Give the call its response without running it."""
        self.response = FunctionResponse(id=self.call.id, name=self.call.name, response=response)

    def _fail(self, error: BaseException) -> None:
        self.answer({"error": error_text(error)})

    async def _around(self) -> dict[str, Any] | None:
        if self.flow.inv.tracer is None:
            return await self._in_hooks()
        from hookwork_llm.tool_spans import traced_call

        return await traced_call(self, self._in_hooks)

    async def _in_hooks(self) -> dict[str, Any] | None:
        chain = self.flow.inv.hooks.around_tool
        if not chain:
            return await self._staged()
        stage = Stage("tool")

        async def body() -> dict[str, Any] | None:
            result = await self._staged()
            stage.outcome = StageOutcome(result, self.error, self.source)
            return result

        return await around_call(chain, (self.ctx, self.tool, self.args), stage, body, own_task=True)

    # --- the chain ----------------------------------------------------------------------------------------------------

    async def _staged(self) -> dict[str, Any] | None:
        """``before_tool`` → validate → gate → run → ``on_tool_error`` → ``after_tool`` (core TOOL-2)."""
        unknown = isinstance(self.tool, UnknownTool)
        result: dict[str, Any] | None = None
        try:
            given = None
            if self.flow.inv.hooks.before_tool or self.flow.agent.before_tool:
                given = await self._value("before_tool", self.ctx, self.tool, self.args)
            if given is not None:
                self.finished = True  # nothing runs that could answer later
                result = given
            else:
                result = await self._run()
        except Pause:
            self.paused = True
            return None
        except _GATED as error:
            self.error = error
        except BaseException as raised:
            self.error = told(raised, self.call.name or "", self.task, ended=self.ended)
            if not isinstance(self.error, ToolError) and self.error is not self._logged:
                logger.info("tool %r raised; the model is told", self.call.name, exc_info=True)
            result = await self._recover()
        if unknown:
            return result if self.error is None else {"error": error_text(self.error)}
        if self.error is None and not self._has_after():
            return result
        return await self._after(result)

    def _has_after(self) -> bool:
        return bool(self.flow.inv.hooks.after_tool or self.flow.agent.after_tool)

    async def _recover(self) -> dict[str, Any] | None:
        try:
            value = await self._value("on_tool_error", self.ctx, self.tool, self.args, self.error)
        except Exception as replaced:  # noqa: BLE001 - a raise replaces the error
            self.error = replaced
            return None
        if value is not None:
            self.error = None
            self.finished = True
        return value

    async def _after(self, result: dict[str, Any] | None) -> dict[str, Any] | None:
        if self._has_after():
            try:
                value = await self._value("after_tool", self.ctx, self.tool, self.args, result, self.error)
            except Exception as replaced:  # noqa: BLE001 - a raise replaces result and error
                self.error = replaced
                value = None
            else:
                if value is not None:
                    self.finished = self.finished or self.error is not None
                    self.error = None
                    self.media = ()
                    return value
        return self._error_response() if self.error is not None else result

    @property
    def consent(self) -> ConsentRequiredError | None:
        """What a person has to consent to before the call can run (crosscutting AUTH-30)."""
        return self.error if isinstance(self.error, ConsentRequiredError) else None

    def _error_response(self) -> dict[str, Any]:
        assert self.error is not None
        if isinstance(self.error, ConsentRequiredError):
            return {"error": f"the call of {self.call.name!r} needs the user's consent and has not run yet"}
        response: dict[str, Any] = {"error": error_text(self.error)}
        decision = self.ctx.tool_confirmation
        if isinstance(self.error, ConfirmationRejected) and decision is not None and decision.payload is not None:
            response["payload"] = decision.payload
        return response

    async def _value(self, hook: str, *values: Any) -> dict[str, Any] | None:
        """What a hook decides. A plugin's own fault is logged here: the model is told, its author must be too."""
        try:
            return await self._decided(hook, *values)
        except Exception as error:
            self._log_hook(hook, error)
            raise

    def _log_hook(self, hook: str, error: Exception) -> None:
        if isinstance(error, ToolError | Pause):  # what a hook says on purpose
            return
        self._logged = error
        logger.error(
            "%s of tool %r raised; the model is told that the call failed", hook, self.call.name, exc_info=error
        )

    async def _decided(self, hook: str, *values: Any) -> dict[str, Any] | None:
        """The first plugin's value, else the first of the agent's own callbacks."""
        chain = getattr(self.flow.inv.hooks, hook)
        decided = await first(chain, hook, *values) if chain else None
        if decided is not None:
            self.source = decided[1]
            value = decided[0]
        else:
            value = await first_callback(getattr(self.flow.agent, hook), *values)
            if value is not None:
                self.source = "agent"
        if value is not None and not isinstance(value, dict):
            raise PluginError(f"{hook} of {self.source!r} returned {type(value).__name__}; return a dict or None")
        return value

    # --- the body -----------------------------------------------------------------------------------------------------

    async def _run(self) -> dict[str, Any] | None:
        if isinstance(self.tool, UnknownTool):
            raise ToolNotFoundError(self._not_found())
        validator = capability(self.tool, ArgumentValidator)
        converted = validator.validate_args(self.args) if validator is not None else None
        await self._gate(converted)
        if self.flow.inv.hooks.perform_tool:
            return await self._performed(validator, converted)
        return self._wrapped(await run_body(self.tool, self.ctx, self.args, validator, converted))

    def _not_found(self) -> str:
        runnable = (name for name, tool in self.flow.table.items() if name and is_runnable(tool))
        known = ", ".join(sorted(runnable)) or "none"
        called = f"there is no tool {self.call.name!r}" if self.call.name else "the call names no tool"
        return f"{called}; the tools are: {known}"

    async def _gate(self, converted: Any) -> None:
        """A call that needs a person's approval does not run without it (HITL-02, HITL-03)."""
        ctx, decision = self.ctx, self.ctx.tool_confirmation
        if decision is not None:
            if not decision.confirmed:
                raise ConfirmationRejected(f"the call of {self.call.name!r} was rejected by the user and was not run")
            return
        gate = capability(self.tool, ConfirmationGate)
        if gate is None or not await gate.needs_confirmation(ctx, self.args, converted):
            return
        ctx.request_confirmation(f"Please approve the call of the tool {self.call.name!r}.")
        raise ConfirmationRequired(f"the call of {self.call.name!r} needs the user's approval and has not run yet")

    def _wrapped(self, value: Any) -> dict[str, Any] | None:
        """The result as an object; `Finished` closes a long-running call (core RES-2, FN-20)."""
        if isinstance(value, Finished):
            self.finished = True
            value = value.value
        if isinstance(value, WithMedia):
            self.media = value.media
            value = value.value
        if value is None or isinstance(value, dict):
            return value
        return {"result": value}

    async def _performed(self, validator: ArgumentValidator | None, converted: Any) -> dict[str, Any] | None:
        """The body through the effect hook (EFF-3, EFF-5)."""
        from hookwork.records.codec import dump, load

        ctx = self.ctx

        async def default() -> ToolResult:
            value = self._wrapped(await run_body(self.tool, ctx, self.args, validator, converted))
            actions = ctx.actions.snapshot()
            return ToolResult(result=value, finished=self.finished, actions=actions, media=self.media)

        def describe(then: Any) -> Any:
            if self.entered is not None:
                self.entered.set()  # the next call may enter its effect (EFF-6)
            return effect_call(ctx, "tool", ctx.idempotency_key, data, then)

        confirmation = dump(ctx.tool_confirmation) if ctx.tool_confirmation is not None else None
        data = {
            "tool": self.call.name or "",
            "call_id": self.call.id or "",
            "args": thaw(self.args),
            "confirmation": confirmation,
        }
        result, owner = await perform(
            self.flow.inv.hooks.perform_tool,
            "perform_tool",
            describe,
            default,
        )
        if not isinstance(result, ToolResult):
            raise PluginError(f"plugin {owner!r}: perform_tool returned {type(result).__name__}; return a ToolResult")
        self.source = owner
        self.finished = result.finished
        self._apply(result)
        value: dict[str, Any] | None = self._wrapped(result.result)
        self.media = tuple(
            one if isinstance(one, FunctionResponsePart) else load(FunctionResponsePart, one) for one in result.media
        )
        return value

    def _apply(self, result: ToolResult) -> None:
        """Take over the actions that a remote or replayed effect brought (EFF-5); local ones are there already."""
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

    def _respond(self, result: dict[str, Any] | None) -> None:
        """The response part; none when the call stays open (TL-25)."""
        if result is None and self.error is None and not self.ctx.actions.requested_tool_confirmations:
            deferrer = capability(self.tool, ResponseDeferrer)
            if self.tool.is_long_running or (deferrer is not None and deferrer.defers_response()):
                return
        try:
            media = self.media if self.error is None and self.media else None
            self.response = FunctionResponse(id=self.call.id, name=self.call.name, response=result, parts=media)
        except ValidationError as error:
            self.error = ToolResultError(f"the result of {self.call.name!r} is not JSON: {error}")
            self._fail(self.error)


def run_calls(flow: Flow, calls: Sequence[ToolCall]) -> AsyncGenerator[Event, None]:
    """Runs calls concurrently, one task each, started in order; yields what their children yield (TL-15, TL-16)."""
    inv = flow.inv
    merge = MergePoint()

    async def run(call: ToolCall, previous: ToolCall | None) -> None:
        if previous is not None and previous.entered is not None:
            await previous.entered.wait()  # calls enter their effects strictly in the model's order (EFF-6)
        await call.execute()
        if call.response is None:
            inv.in_flight.pop(call.ctx.path, None)  # it waits now, and rightly

    in_order = bool(inv.hooks.perform_tool)
    producers = []
    previous: ToolCall | None = None
    for call in calls:
        call.ctx.emit_event = merge.put
        call.ended = lambda: merge.closed
        if in_order:
            call.entered = asyncio.Event()
        producers.append(lambda call=call, before=previous: run(call, before))
        previous = call if in_order else None
    return merge.stream(producers)
