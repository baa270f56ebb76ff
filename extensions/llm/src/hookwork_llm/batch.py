"""The calls of one model turn as a batch: responses, confirmation requests, and what the loop does next (FLOW-20)."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from hookwork.confirmation import REQUEST_CONFIRMATION, original_call
from hookwork.platform import new_uuid, timestamp
from hookwork.records.codec import dump
from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part
from hookwork.records.event import NO_ACTIONS, Event, EventActions, ToolConfirmation
from hookwork.records.frozen import thaw
from hookwork.records.history import CLOSED_CALLS, Call
from hookwork.tool import SkipSummarizationDisplayer, capability
from hookwork_llm.standing import sort_calls
from hookwork_llm.tool_calls import ToolCall, run_calls

if TYPE_CHECKING:
    from hookwork_llm.flow import Flow

logger = logging.getLogger("hookwork.flow")


class Batch:
    """Runs calls, then yields: response event, confirmation request event. Tells the flow whether it is over."""

    def __init__(
        self,
        flow: Flow,
        made_by: Event,
        calls: Sequence[FunctionCall],
        *,
        places: Sequence[tuple[int, int]] | None = None,
        confirmations: Sequence[ToolConfirmation | None] | None = None,
        refused: Sequence[FunctionResponse] = (),
    ) -> None:
        self.flow = flow
        self.made_by = made_by
        at = places or [(flow.turn, number) for number in range(1, len(calls) + 1)]
        decisions = confirmations or [None] * len(calls)
        self.calls = [
            ToolCall(flow, call, turn, number, decision)
            for call, (turn, number), decision in zip(calls, at, decisions, strict=True)
        ]
        self.refused = refused

    async def run(self) -> AsyncGenerator[Event, None]:
        flow = self.flow
        if self.calls:
            async with aclosing(run_calls(flow, self.made_by, self.calls)) as children:
                async for child in children:
                    yield child
        if any(call.paused or call.response is None for call in self.calls):
            flow.over = True  # a call stays without response: no model call before it has one (RES-3)
        event = self._response_event()
        if event is not None:
            yield event
            request = self._request_event(event)
            if request is not None:
                flow.over = True
                yield request
            if event.actions.transfer_to_agent:
                flow.transfer_to(event.actions.transfer_to_agent)
            elif event.actions.skip_summarization:
                flow.over = True

    def _response_event(self) -> Event | None:
        """One event with all responses in call order and the merged actions (TL-20, core TOOL-8, TOOL-9)."""
        flow = self.flow
        parts = [Part(function_response=response) for response in self.refused]
        parts += [Part(function_response=call.response) for call in self.calls if call.response is not None]
        shown = self._displayed()
        buffers = [call.buffer for call in self.calls if call.buffer]
        if not parts and not buffers:
            return None
        actions = self._merged_actions()
        ends = bool(actions.skip_summarization) and not actions.requested_tool_confirmations and not flow.over
        closed = [call.call.id or "" for call in self.calls if call.finished]
        event = Event(
            id=new_uuid(),
            timestamp=timestamp(),
            invocation_id=flow.inv.invocation_id,
            author=flow.agent.name,
            actions=actions,
            content=Content(role="user", parts=[*parts, *shown]) if parts else None,
            branch=flow.ctx.branch,
            isolation_scope=flow.ctx.isolation_scope,
            node_info=flow.stamp_info if ends and not actions.transfer_to_agent else flow.path_info,
            custom_metadata={CLOSED_CALLS: closed} if closed else None,
        )
        return flow.inv.attach(event, *buffers)

    def _displayed(self) -> list[Part]:
        """Result texts of tools that show them when they end the loop (TL-28)."""
        texts = []
        for call in self.calls:
            if not call.ctx.actions.skip_summarization or call.response is None or call.error is not None:
                continue
            displayer = capability(call.tool, SkipSummarizationDisplayer)
            result = (call.response.response or {}).get("result")
            if displayer is not None and displayer.display_result_on_skip_summarization() and isinstance(result, str):
                texts.append(Part(text=result))
        return texts

    def _merged_actions(self) -> EventActions:
        if not any(_acts(call) for call in self.calls):
            return NO_ACTIONS
        confirmations: dict[str, ToolConfirmation] = {}
        transfer = None
        skip = escalate = None
        for call in self.calls:
            actions = call.ctx.actions
            confirmations.update(actions.requested_tool_confirmations)
            transfer = actions.transfer_to_agent or transfer
            skip = skip or actions.skip_summarization or None
            escalate = escalate or actions.escalate or None
        return EventActions(
            requested_tool_confirmations=confirmations or None,
            skip_summarization=skip,
            transfer_to_agent=transfer,
            escalate=escalate,
        )

    def _request_event(self, responses: Event) -> Event | None:
        asked = responses.actions.requested_tool_confirmations
        if not asked:
            return None
        signatures = {
            part.function_call.id: part.thought_signature
            for part in (self.made_by.content.parts if self.made_by.content is not None else ())
            if part.function_call is not None
        }
        calls = [(call.call, asked[call.call.id or ""]) for call in self.calls if call.call.id in asked]
        return request_event(self.flow, calls, signatures)


def _acts(call: ToolCall) -> bool:
    actions = call.ctx.actions
    return bool(
        actions.requested_tool_confirmations
        or actions.transfer_to_agent
        or actions.skip_summarization
        or actions.escalate
    )


def request_event(
    flow: Flow,
    asked: Sequence[tuple[FunctionCall, ToolConfirmation]],
    signatures: dict[str | None, bytes | None] | None = None,
) -> Event | None:
    """The event that asks a person to approve calls, one part each (HITL-05)."""
    parts = []
    for call, confirmation in asked:
        request = FunctionCall(
            id=f"adk-{new_uuid()}",
            name=REQUEST_CONFIRMATION,
            args={
                "originalFunctionCall": {"id": call.id or "", "name": call.name or "", "args": thaw(call.args or {})},
                "toolConfirmation": dump(confirmation),
            },
        )
        parts.append(Part(function_call=request, thought_signature=(signatures or {}).get(call.id)))
    if not parts:
        return None
    return Event(
        id=new_uuid(),
        timestamp=timestamp(),
        invocation_id=flow.inv.invocation_id,
        author=flow.agent.name,
        content=Content(role="model", parts=parts),
        branch=flow.ctx.branch,
        isolation_scope=flow.ctx.isolation_scope,
        node_info=flow.path_info,
        long_running_tool_ids=tuple(part.function_call.id or "" for part in parts if part.function_call is not None),
    )


async def resume_batch(flow: Flow) -> AsyncGenerator[Event, None]:
    """What an entry of a known activation runs first: answered approvals, unasked requests, unrun calls (ACT-20)."""
    view = flow.ctx.view
    pending = sort_calls(view)
    if not pending.executable:
        return
    flow.table = (await flow.build_request()).tools
    if pending.unasked:
        event = _ask_again(flow, pending.unasked)
        if event is not None:
            yield event
            flow.over = True
    calls: list[FunctionCall] = []
    places: list[tuple[int, int]] = []
    decisions: list[ToolConfirmation | None] = []
    refused: list[FunctionResponse] = []
    for request, call, decision in pending.answered:
        fault = _fault(flow, request, call)
        if fault:
            logger.warning("an approval was refused: %s (call %s)", fault, call.id)
            refused.append(FunctionResponse(id=call.id, name=call.name, response={"error": f"refused: {fault}"}))
        elif not any(
            call.id == other.id and place == (call.turn, call.number)
            for other, place in zip(calls, places, strict=True)
        ):
            calls.append(_as_call(call))
            places.append((call.turn, call.number))
            decisions.append(decision)
    for call in pending.unrun:
        tool = flow.table.get(call.name)
        if tool is not None and tool.idempotent is False:
            text = "interrupted: it is not known whether this call had an effect, and it must not be repeated blindly"
            refused.append(FunctionResponse(id=call.id, name=call.name, response={"error": text}))
            continue
        calls.append(_as_call(call))
        places.append((call.turn, call.number))
        decisions.append(None)
    if not calls and not refused:
        return
    made_by = _event_of(flow, calls)
    batch = Batch(flow, made_by, calls, places=places, confirmations=decisions, refused=refused)
    async with aclosing(batch.run()) as events:
        async for event in events:
            yield event


def _as_call(call: Call) -> FunctionCall:
    return FunctionCall(id=call.id, name=call.name, args=call.args)


def _event_of(flow: Flow, calls: Sequence[FunctionCall]) -> Event:
    """The model event that made the first of the calls (for signatures and seals)."""
    wanted = {call.id for call in calls}
    for event in reversed(flow.ctx.view.events):
        if any(call.id in wanted for call in event.function_calls):
            return event
    return Event(author=flow.agent.name, invocation_id=flow.inv.invocation_id, node_info=flow.path_info)


def _ask_again(flow: Flow, calls: Sequence[Call]) -> Event | None:
    """A request event that a crash kept from being stored, rebuilt from the response event's actions (CNF-2)."""
    asked: list[tuple[FunctionCall, ToolConfirmation]] = []
    for call in calls:
        placeholder = call.responses[-1]
        event = flow.inv.session.events[placeholder.position]
        confirmation = (event.actions.requested_tool_confirmations or {}).get(call.id)
        if confirmation is not None:
            asked.append((_as_call(call), confirmation))
    return request_event(flow, asked)


def _fault(flow: Flow, request: Call, call: Call) -> str:
    """Why an approval may not be used, ``""`` when it may (HITL-10, HITL-11)."""
    try:
        shown = original_call(FunctionCall(id=request.id, name=request.name, args=request.args))
    except ValueError as error:
        return str(error)
    if request.author != flow.agent.name or call.author != flow.agent.name:
        return "the request was not made by this agent"
    if (request.branch, request.isolation_scope) != (call.branch, call.isolation_scope):
        return "the request stands in another branch or scope than the call"
    if shown.name != call.name or not _same_json(shown.args, call.args):
        return "what was approved is not what was called"
    if call.name not in flow.table:
        return f"the tool {call.name!r} is not available any more"
    return ""


def _same_json(one: Any, other: Any) -> bool:
    """Equal JSON; 1 equals 1.0, but true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same_json(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_same_json(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)
