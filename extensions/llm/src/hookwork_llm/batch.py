"""The calls of one model turn as a batch: responses, confirmation requests, and what the loop does next (FLOW-20)."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from hookwork.confirmation import REQUEST_CONFIRMATION, original_call
from hookwork.credentials import REQUEST_CREDENTIAL, REQUESTED, auth_config
from hookwork.platform import new_uuid, timestamp
from hookwork.records.codec import dump
from hookwork.records.content import Content, FunctionCall, Part
from hookwork.records.event import NO_ACTIONS, Event, EventActions, ToolConfirmation
from hookwork.records.frozen import thaw
from hookwork.records.history import CLOSED_CALLS, Call
from hookwork.records.metadata import ModelResponse
from hookwork.tool import SkipSummarizationDisplayer, capability
from hookwork_llm.agent_calls import TASK_COMPLETED, TaskTool
from hookwork_llm.delegation import delegate, stored_call
from hookwork_llm.replies import Reply, accepted
from hookwork_llm.standing import Pending, sort_calls
from hookwork_llm.structured_output import SetModelResponseTool, object_text
from hookwork_llm.tool_calls import ToolCall, is_runnable, run_calls

if TYPE_CHECKING:
    from hookwork.errors import ConsentRequiredError
    from hookwork_llm.flow import Flow

logger = logging.getLogger("hookwork.flow")


class Batch:
    """Runs calls, then yields: response events, confirmation request event. Tells the flow whether it is over.

    A call that has its response already (a refused approval) is answered with it and not run.
    """

    def __init__(self, flow: Flow, calls: Sequence[ToolCall], *, before_tasks: bool = False) -> None:
        self.flow = flow
        #: a call stays without response, or a person is asked to approve one.
        self.waits = False
        #: calls that hand a task over: carried out one by one after the others (MODE-11).
        self.tasks = [call.call for call in calls if isinstance(call.tool, TaskTool)]
        self.calls = [call for call in calls if not isinstance(call.tool, TaskTool)] if self.tasks else calls
        #: behind a task the model goes on with its result, whatever the calls beside it asked for (MODE-9).
        self.may_end = not self.tasks and not before_tasks
        in_flight = flow.inv.in_flight
        for call in calls:
            if call.tool.is_long_running and call.response is None:
                # From here until it is answered, being closed would leave it looking like one that waits (HND-5).
                in_flight[call.ctx.path] = (call.made_by, call.call)

    @classmethod
    def of_turn(cls, flow: Flow, made_by: Event, calls: Sequence[FunctionCall]) -> Batch:
        """The calls of a model turn that was just made."""
        turn = flow.turn
        return cls(flow, [ToolCall(flow, made_by, call, turn, number) for number, call in enumerate(calls, 1)])

    async def run(self) -> AsyncGenerator[Event, None]:
        flow, calls = self.flow, self.calls
        to_run = [call for call in calls if call.response is None]
        if to_run:
            children = self._traced(to_run) if flow.inv.tracer is not None else run_calls(flow, to_run)
            try:  # aclosing() would cost more than the generator itself
                async for child in children:
                    yield child
            finally:
                await children.aclose()
        if any(call.response is None for call in calls):
            self.waits = flow.over = True  # no model call before it has one (RES-3)
        asked = any(call.ctx.actions.requested_tool_confirmations or call.consent is not None for call in calls)
        skips = self.may_end and any(call.ctx.actions.skip_summarization for call in calls)
        transfer = ""
        groups = _groups(calls)
        for group in groups:
            ends = skips and not asked and not flow.over and group is groups[-1]
            event = self._response_event(group, ends=ends)
            if event is not None:
                transfer = event.actions.transfer_to_agent or transfer
                try:
                    yield event
                finally:  # left at this event too: the consumer has it because it was stored
                    self._answered(group, event)
        consents = [call for call in calls if call.consent is not None]
        if consents:
            self.waits = flow.over = True
            yield consent_event(flow, consents)
        request = request_event(flow, [call for call in calls if call.call.id in _requests(call)]) if asked else None
        if request is not None:
            self.waits = flow.over = True
            yield request
        elif self.may_end and (final := self._structured_answer()) is not None:
            flow.over = True
            yield final
        if self.tasks and not self.waits and not flow.over and not flow.ctx.ended:
            async with aclosing(run_tasks(flow, [stored_call(flow, call) for call in self.tasks])) as events:
                async for event in events:
                    yield event
        if transfer:
            flow.transfer_to(transfer)
        elif skips:
            flow.over = True

    def _traced(self, to_run: Sequence[ToolCall]) -> AsyncGenerator[Event, None]:
        """`run_calls` for somebody who traces: several calls of a turn are one span more (TL-26)."""
        from hookwork_llm.tool_spans import merged, name_response_events

        name_response_events(_groups(to_run))
        work = run_calls(self.flow, to_run)
        return merged(self.flow, to_run, work) if len(to_run) > 1 else work

    def _structured_answer(self) -> Event | None:
        """The object that `set_model_response` took, as the agent's final answer (OUT-3)."""
        for call in self.calls:
            if isinstance(call.tool, SetModelResponseTool) and call.error is None and call.response is not None:
                flow, value = self.flow, call.response.response
                reply = accepted(flow, Reply(ModelResponse(), flow.stamp_info), value)
                return Event(
                    id=new_uuid(),
                    timestamp=timestamp(),
                    invocation_id=flow.inv.invocation_id,
                    author=flow.agent.name,
                    actions=reply.actions,
                    content=Content(role="model", parts=[Part(text=object_text(value))]),
                    branch=flow.ctx.branch,
                    isolation_scope=flow.ctx.isolation_scope,
                    node_info=reply.info,
                    output=reply.output,
                )
        return None

    def _task_result(self, calls: Sequence[ToolCall]) -> tuple[bool, Any]:
        """Whether the task was finished by one of the calls, and its result (MODE-5)."""
        finish = self.flow.prepared.finish_tool
        for call in calls if finish is not None else ():
            done = call.tool is finish and call.error is None and call.response is not None
            if finish is not None and done and call.response is not None and call.response.response == TASK_COMPLETED:
                return True, finish.output(call.args)
        return False, None

    def _answered(self, calls: Sequence[ToolCall], event: Event) -> None:
        """Calls whose responses are stored need no closing response any more (HND-5)."""
        in_flight = self.flow.inv.in_flight
        if in_flight and any(stored.id == event.id for stored in reversed(self.flow.inv.session.events)):
            for call in calls:
                in_flight.pop(call.ctx.path, None)

    def _response_event(self, calls: Sequence[ToolCall], *, ends: bool) -> Event | None:
        """One event with the responses in call order and the merged actions (TL-20, core TOOL-8, TOOL-9)."""
        flow = self.flow
        parts = [Part(function_response=call.response) for call in calls if call.response is not None]
        buffers = [call.buffer for call in calls if call.buffer]
        actions = _merged_actions(calls)
        shown = _displayed(calls)
        if shown and flow.agent.output_key is not None:
            actions = actions.replace(state_delta={flow.agent.output_key: "".join(part.text or "" for part in shown)})
        finished, output = self._task_result(calls)
        if finished:
            flow.over = ends = True
            if flow.agent.output_key is not None:
                actions = actions.replace(state_delta={flow.agent.output_key: output})
        if not parts and not buffers and actions is NO_ACTIONS:
            return None
        closed = [
            call.call.id or ""
            for call in calls
            if call.finished and call.tool.is_long_running and call.call.id not in _requests(call)
        ]
        event = Event(
            id=next((call.event_id for call in calls if call.event_id), "") or new_uuid(),
            timestamp=timestamp(),
            invocation_id=flow.inv.invocation_id,
            author=flow.agent.name,
            actions=actions,
            content=Content(role="user", parts=[*parts, *shown]) if parts else None,
            branch=flow.ctx.branch,
            isolation_scope=flow.ctx.isolation_scope,
            node_info=flow.stamp_info if ends and not actions.transfer_to_agent else flow.path_info,
            custom_metadata={CLOSED_CALLS: closed} if closed else None,
            output=output,
        )
        return flow.inv.attach(event, *buffers)


def _groups(calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
    """The calls by the event that answers them, in order."""
    groups: dict[int, list[ToolCall]] = {}
    for call in calls:
        groups.setdefault(call.group, []).append(call)
    return list(groups.values())


def _requests(call: ToolCall) -> dict[str, ToolConfirmation]:
    return call.ctx.actions.requested_tool_confirmations


def _displayed(calls: Sequence[ToolCall]) -> list[Part]:
    """Result texts of tools that show them when they end the loop (TL-28)."""
    texts = []
    for call in calls:
        if not call.ctx.actions.skip_summarization or call.response is None or call.error is not None:
            continue
        displayer = capability(call.tool, SkipSummarizationDisplayer)
        result = (call.response.response or {}).get("result")
        if displayer is not None and displayer.display_result_on_skip_summarization() and isinstance(result, str):
            texts.append(Part(text=result))
    return texts


def _merged_actions(calls: Sequence[ToolCall]) -> EventActions:
    if not any(_acts(call) for call in calls):
        return NO_ACTIONS
    confirmations: dict[str, ToolConfirmation] = {}
    transfer = None
    skip = escalate = None
    for call in calls:
        actions = call.ctx.actions
        confirmations.update(actions.requested_tool_confirmations)
        transfer = actions.transfer_to_agent or transfer
        skip = skip or actions.skip_summarization or None
        escalate = escalate or actions.escalate or None
    consents = {call.call.id or "": consent_config(call.consent) for call in calls if call.consent is not None}
    return EventActions(
        requested_tool_confirmations=confirmations or None,
        skip_summarization=skip or (True if consents else None),
        transfer_to_agent=transfer,
        escalate=escalate,
        extra={REQUESTED: consents} if consents else None,
    )


def _acts(call: ToolCall) -> bool:
    actions = call.ctx.actions
    return bool(
        actions.requested_tool_confirmations
        or actions.transfer_to_agent
        or actions.skip_summarization
        or actions.escalate
        or call.consent is not None
    )


def request_event(flow: Flow, calls: Sequence[ToolCall]) -> Event | None:
    """The event that asks a person to approve calls, one part each (HITL-05)."""
    parts = [_request_part(call.call, _requests(call)[call.call.id or ""], call.made_by) for call in calls]
    return _event_of_requests(flow, parts) if parts else None


def _request_part(call: FunctionCall, asked: ToolConfirmation, made_by: Event) -> Part:
    request = FunctionCall(
        id=f"adk-{new_uuid()}",
        name=REQUEST_CONFIRMATION,
        args={
            "originalFunctionCall": {"id": call.id or "", "name": call.name or "", "args": thaw(call.args or {})},
            "toolConfirmation": dump(asked),
        },
    )
    signature = None
    for part in made_by.content.parts if made_by.content is not None else ():
        if part.function_call is not None and part.function_call.id == call.id:
            signature = part.thought_signature
    return Part(function_call=request, thought_signature=signature)


def consent_config(required: ConsentRequiredError) -> dict[str, Any]:
    """The AuthConfig that a client is shown."""
    return auth_config(required.key, required.auth_uri, required.nonce, required.config)


def consent_event(flow: Flow, calls: Sequence[ToolCall]) -> Event:
    """The event that asks for consent, one part for each call that waits for one (AUTH-30)."""
    asked = [(call.call.id or "", consent_config(call.consent)) for call in calls if call.consent is not None]
    return _event_of_requests(flow, [_consent_part(call_id, config) for call_id, config in asked])


def _consent_part(call_id: str, config: Any) -> Part:
    args = {"functionCallId": call_id, "authConfig": thaw(config)}
    return Part(function_call=FunctionCall(id=f"adk-{new_uuid()}", name=REQUEST_CREDENTIAL, args=args))


def _event_of_requests(flow: Flow, parts: Sequence[Part]) -> Event:
    return Event(
        id=new_uuid(),
        timestamp=timestamp(),
        invocation_id=flow.inv.invocation_id,
        author=flow.agent.name,
        content=Content(role="model", parts=list(parts)),
        branch=flow.ctx.branch,
        isolation_scope=flow.ctx.isolation_scope,
        node_info=flow.path_info,
        long_running_tool_ids=tuple(part.function_call.id or "" for part in parts if part.function_call is not None),
    )


async def run_tasks(flow: Flow, calls: Sequence[Call]) -> AsyncGenerator[Event, None]:
    """Hand tasks over one by one; the first that waits ends the step (MODE-8, MODE-9)."""
    for call in calls:
        async with aclosing(delegate(flow, call)) as events:
            async for event in events:
                yield event
        if flow.over or flow.ctx.ended:
            return


async def resume_batch(flow: Flow) -> AsyncGenerator[Event, None]:
    """What an entry of a known activation runs first: answered approvals, unasked requests, unrun calls (ACT-20)."""
    view = flow.ctx.view
    pending = sort_calls(view, flow.agent, flow.ctx)
    if pending.on_child:
        flow.over = True  # no model call before these calls have a response (ACT-22)
    if not pending.executable:
        return
    flow.table = await flow.known_tools()
    asked_again = [part for call in pending.unasked if (part := _asked_again(flow, call)) is not None]
    if asked_again:
        flow.over = True
        yield _event_of_requests(flow, asked_again)
    waits = bool(asked_again)
    calls: list[ToolCall] = []
    for request, call, decision in pending.answered:
        approved = _tool_call(flow, call, request.position, decision)
        fault = approval_fault(flow, request, call)
        if fault:
            logger.warning("an approval was refused: %s (call %s)", fault, call.id)
            approved.answer({"error": f"refused: {fault}"})
        calls.append(approved)
    for call in pending.unrun:
        again = _tool_call(flow, call, call.position)
        if again.tool.idempotent is False and call.id not in view.rerun and not _has_children(flow, again):
            again.answer(
                {"error": "interrupted: whether this call had an effect is not known, so it was not run again"}
            )
        calls.append(again)
    if calls:
        batch = Batch(flow, calls, before_tasks=bool(pending.tasks))
        async with aclosing(batch.run()) as events:
            async for event in events:
                yield event
        waits = waits or batch.waits
        if not pending.answered and _stopped_at(pending):
            flow.over = True
    held = flow.over
    # A task that was begun goes on, whatever else waits; a new one is not begun beside a call that waits (RES-3).
    tasks = [call for call in pending.tasks if not waits or view.scope_record(call.scope) is not None]
    if tasks:
        flow.over = False
        async with aclosing(run_tasks(flow, tasks)) as events:
            async for event in events:
                yield event
    flow.over = flow.over or held


def _stopped_at(pending: Pending) -> bool:
    """Whether a turn that was cut off goes no further: one of its calls stays without response (RES-3)."""
    turns = {call.turn for call in pending.unrun}
    return any(call.turn in turns and call.kind == "tool" and not call.responses for call in pending.waiting)


def _tool_call(flow: Flow, call: Call, group: int, decision: ToolConfirmation | None = None) -> ToolCall:
    """A stored call on its way again, at the place it had."""
    made_by = flow.inv.session.events[call.position]
    function_call = FunctionCall(id=call.id, name=call.name, args=call.args)
    return ToolCall(flow, made_by, function_call, call.turn, call.number, decision, group)


def _has_children(flow: Flow, call: ToolCall) -> bool:
    """Whether the call started something under its place; going on there repeats nothing (ACT-20)."""
    return flow.inv.history().record(flow.inv.invocation_id, call.ctx.path) is not None


def _asked_again(flow: Flow, call: Call) -> Part | None:
    """A request that a crash kept from being stored, rebuilt from the response event's actions (CNF-2)."""
    events = flow.inv.session.events
    actions = events[call.responses[-1].position].actions
    consents = actions.extra.get(REQUESTED) if actions.extra else None
    if isinstance(consents, dict) and call.id in consents:
        return _consent_part(call.id, consents[call.id])
    asked = (actions.requested_tool_confirmations or {}).get(call.id)
    if asked is None:
        return None
    return _request_part(FunctionCall(id=call.id, name=call.name, args=call.args), asked, events[call.position])


def approval_fault(flow: Flow, request: Call, call: Call) -> str:
    """Why an approval may not be used, ``""`` when it may (HITL-10, HITL-11)."""
    if request.kind == "credential":
        return ""  # it allows nothing: the call runs under what was decided about it before
    try:
        shown = original_call(FunctionCall(id=request.id, name=request.name, args=request.args))
    except ValueError as error:
        return str(error)
    for other in flow.ctx.view.calls:
        if other.kind == "confirmation" and other.id == request.id and not _same_json(other.args, request.args):
            return "one request id stands for different calls"
    if (request.branch, request.isolation_scope) != (call.branch, call.isolation_scope):
        return "the request stands in another branch or scope than the call"
    if shown.name != call.name or not _same_json(shown.args, call.args):
        return "what was approved is not what was called"
    tool = flow.table.get(call.name)
    if tool is None or not is_runnable(tool):
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
