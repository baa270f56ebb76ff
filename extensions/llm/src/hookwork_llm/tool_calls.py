"""Carrying out the calls of one model event: hooks, validation, gate, body, and the batch's one response event.

core §4.4, tools-plugins §1 (TL-15 … TL-28) and §3 (the confirmation gate).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Any

from hookwork.context import ToolContext
from hookwork.errors import (
    ConfirmationRejected,
    ConsentRequiredError,
    ToolError,
    ToolNotFoundError,
    ToolResultError,
    ValidationError,
)
from hookwork.merge import MergePoint
from hookwork.node import Pause
from hookwork.records.content import FunctionCall, FunctionResponse
from hookwork.records.event import Event, ToolConfirmation
from hookwork.records.frozen import thaw
from hookwork.state import DeltaBuffer
from hookwork.tool import ArgumentValidator, FunctionLike, ResponseDeferrer, StreamingLike, Tool, capability
from hookwork.tool_call import HookedCall
from hookwork_llm.tool_errors import error_text, told

if TYPE_CHECKING:
    from hookwork_llm.flow import Flow

logger = logging.getLogger("hookwork.tools")


class UnknownTool(Tool):
    """Stands in for a name that the model made up, so that hooks can see the call (TL-19)."""

    def __init__(self, name: str) -> None:
        self.name = name


def is_runnable(tool: Tool) -> bool:
    """Whether a tool can be carried out here; model-side tools cannot (TL-01)."""
    return capability(tool, FunctionLike) is not None or capability(tool, StreamingLike) is not None


class ToolCall(HookedCall):
    """One call on its way. After `execute`: ``response`` (or None: the call stays open) and its context's actions."""

    __slots__ = (
        "_logged",
        "call",
        "ended",
        "entered",
        "event_id",
        "flow",
        "group",
        "made_by",
        "paused",
        "response",
        "task",
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
        own, buffer = flow.ctx, DeltaBuffer()
        ctx = ToolContext(
            flow.inv,
            flow.agent,
            own.branch,
            own.isolation_scope,
            f"{own.path}/{call.name}@{turn}-{number}",
            parent_path=own.path,
            buffer=buffer,
            place=f"tool/{turn}.{number}",
            function_call_id=call.id or "",
            tool_name=call.name or "",
            tool_confirmation=confirmation,
            resuming=own.resuming,
        )
        #: a name that is not there, or that cannot be run here, is one and the same to hooks (TL-19).
        tool: Tool = found if found is not None and runs else UnknownTool(call.name or "")
        # The stored event is never touched (TL-18).
        super().__init__(flow.inv.hooks, tool, ctx, thaw(call.args) if call.args else {}, buffer)
        self.response: FunctionResponse | None = None
        #: a hook's error that is in the log already.
        self._logged: Exception | None = None
        self.paused = False
        #: of the event that will hold the response, where somebody has to know it before.
        self.event_id = ""
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
            result = await self._around() if inv.hooks.around_tool or inv.tracer is not None else await self.staged()
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
            return await self.in_hooks(own_task=True)
        from hookwork_llm.tool_spans import traced_call

        return await traced_call(self, lambda: self.in_hooks(own_task=True))

    # --- the chain ----------------------------------------------------------------------------------------------------

    async def staged(self) -> dict[str, Any] | None:
        """What the model is told: the result, or what went wrong (core TOOL-2)."""
        try:
            result = await super().staged()
        except Pause:
            self.paused = True
            return None
        return result if self.error is None else self._error_response()

    def callbacks(self, hook: str) -> Sequence[Any]:
        return getattr(self.flow.agent, hook)  # type: ignore[no-any-return]

    def has_hook(self, hook: str) -> bool:
        """A name that the model made up meets no ``after_tool`` (TL-19)."""
        if not (getattr(self.hooks, hook) or getattr(self.flow.agent, hook)):
            return False
        return hook != "after_tool" or not isinstance(self.tool, UnknownTool)

    def failure(self, raised: BaseException) -> Exception:
        error = told(raised, self.call.name or "", self.task, ended=self.ended)
        if not isinstance(error, ToolError) and error is not self._logged:
            logger.info("tool %r raised; the model is told", self.call.name, exc_info=True)
        return error

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

    async def hook(self, hook: str, *values: Any) -> dict[str, Any] | None:
        """What a hook decides. A plugin's own fault is logged here: the model is told, its author must be too."""
        try:
            return await super().hook(hook, *values)
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

    # --- the body -----------------------------------------------------------------------------------------------------

    def converted(self, validator: ArgumentValidator | None) -> Any:
        if isinstance(self.tool, UnknownTool):
            raise ToolNotFoundError(self._not_found())
        return validator.validate_args(self.args) if validator is not None else None

    def effect_begins(self) -> None:
        if self.entered is not None:
            self.entered.set()  # the next call may enter its effect (EFF-6)

    def _not_found(self) -> str:
        runnable = (name for name, tool in self.flow.table.items() if name and is_runnable(tool))
        known = ", ".join(sorted(runnable)) or "none"
        called = f"there is no tool {self.call.name!r}" if self.call.name else "the call names no tool"
        return f"{called}; the tools are: {known}"

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
