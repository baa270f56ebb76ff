"""Tools as nodes (workflow §1.4, tools-plugins TL-27)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from hookwork.errors import ConfirmationRejected, ConsentRejectedError, InputValidationError, OutputValidationError
from hookwork.records.content import Blob, Content, FunctionCall, FunctionResponse, FunctionResponsePart, Part
from hookwork.records.event import Event, EventActions, RequestInput, ToolConfirmation
from hookwork_workflow.gates import (
    CONFIRMATION,
    Gate,
    approval_of,
    is_rejection,
    refusal,
    rejection_event,
    request_event,
)
from hookwork_workflow.json_form import to_json
from hookwork_workflow.nodes.base import GraphNode
from hookwork_workflow.results import output_event
from hookwork_workflow.schemas import SchemaFault, check_tool_output, schema_of

if TYPE_CHECKING:
    from hookwork.node import NodeConfig
    from hookwork.tool import Tool
    from hookwork_workflow.tool_chain import ToolRun

_CALL = "wf_tool"
_MISSING: Any = object()


class ToolNode(GraphNode[Any, Any]):
    """A tool as a node: its input is the arguments, its result the output.

    The plugins' tool hooks, the confirmation gate and `perform_tool` hold as for a model's call. A call that needs an
    approval or a consent makes the node wait; rejected, it gives ``{"error": …}`` and the route ``rejected``, and the
    body does not run. A long-running tool makes it wait for its result. A result that stands alone under ``result`` is
    the output as it is.

    Args:
        tool: its name becomes the node's, unless ``name`` is given.
        output_schema: what the result has to be; a type or JSON schema (NODE-5).
        require_confirmation, auth: as of `node`; a tool that asks by itself asks all the same.
    """

    kind = "tool"
    reruns = True

    def __init__(
        self,
        tool: Tool,
        *,
        name: str | None = None,
        description: str | None = None,
        output_schema: Any = None,
        config: NodeConfig | None = None,
        require_confirmation: Gate = False,
        auth: Any = None,
    ) -> None:
        resolve = getattr(tool, "resolve", None)
        if callable(resolve):
            resolve()
        self.tool = tool
        self.name = tool.name if name is None else name
        self.description = tool.description if description is None else description
        self.output_schema = output_schema
        self.require_confirmation = require_confirmation
        self.auth = auth
        if config is not None:
            self.config = config

    def validate_input(self, value: Any) -> Any:
        """The arguments as an object; text that holds a JSON object is read. The tool checks them further."""
        plain = to_json(value)
        if isinstance(plain, str):
            try:
                plain = msgspec.json.decode(plain)
            except msgspec.DecodeError as error:
                raise InputValidationError(self.name, "expected the tool's arguments as a JSON object") from error
        if plain is None:
            return {}
        if not isinstance(plain, Mapping):
            kind = "a list" if isinstance(plain, list) else type(plain).__name__
            raise InputValidationError(self.name, f"expected the tool's arguments as an object, got {kind}")
        return plain

    def validate_output(self, value: Any) -> Any:
        schema = schema_of(self.output_schema)
        if schema is None or isinstance(value, Event | RequestInput) or is_rejection(value):
            return value
        try:
            return check_tool_output(schema, value)
        except SchemaFault as fault:
            raise OutputValidationError(self.name, str(fault)) from fault

    async def run(self, ctx: Any, input: Any) -> AsyncIterator[Event]:
        from hookwork.records.frozen import thaw
        from hookwork_workflow.tool_chain import ToolRun

        call_id = ctx.interrupt_id(_CALL)
        result = ctx.resume_inputs.get(call_id, _MISSING)
        if result is not _MISSING:  # a long-running tool has answered
            if (event := _final(result)) is not None:
                yield event
            return
        if self.auth is not None and (refused := await refusal(self.auth, ctx)) is not None:
            yield refused
            return
        approval = approval_of(ctx)
        args = thaw(input) if input else {}
        run = ToolRun(self.name, ctx, self.tool, args, call_id, approval, self.require_confirmation)
        try:
            result = await run.execute()
        except (ConfirmationRejected, ConsentRejectedError):
            yield rejection_event(approval or ToolConfirmation())
            return
        for event in self._events(run, result, ctx.interrupt_id(CONFIRMATION)):
            yield event

    def _events(self, run: ToolRun, result: dict[str, Any] | None, question: str) -> list[Event]:
        call = FunctionCall(id=run.ctx.function_call_id, name=self.tool.name, args=run.args)
        if run.asked is not None:
            return [request_event(question, call, run.asked)]
        if self.tool.is_long_running and not run.finished:
            asked = Event(
                content=Content(role="model", parts=[Part(function_call=call)]), long_running_tool_ids=(call.id or "",)
            )
            if result is None:
                return [asked]
            status = FunctionResponse(id=call.id, name=call.name, response=result)
            return [asked, Event(content=Content(role="user", parts=[Part(function_response=status)]))]
        event = _with_media(_final(result), run.media)
        actions = run.ctx.actions
        if actions.escalate or actions.transfer_to_agent:
            flags = EventActions(escalate=actions.escalate, transfer_to_agent=actions.transfer_to_agent)
            event = (event or Event()).replace(actions=flags)
        return [event] if event is not None else []


def _final(result: Any) -> Event | None:
    """The output event: what stands alone under ``result`` is what the tool's function returned."""
    alone = isinstance(result, Mapping) and list(result) == ["result"]
    return output_event(result["result"] if alone else result, text_as_content=True)


def _with_media(event: Event | None, media: Sequence[FunctionResponsePart]) -> Event | None:
    """The event with what the tool gave to look at and listen to; it is shown, and no part of the output."""
    if not media:
        return event
    parts = []
    for one in media:
        data = one.inline_data
        blob = (
            Blob(data=data.data, mime_type=data.mime_type, display_name=data.display_name) if data is not None else None
        )
        parts.append(Part(inline_data=blob, file_data=one.file_data))
    event = event or Event()
    shown = event.content.parts if event.content is not None else ()
    return event.replace(content=Content(role="model", parts=[*shown, *parts]))
