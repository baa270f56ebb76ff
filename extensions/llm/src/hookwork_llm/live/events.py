"""Pieces of a live conversation as events, counted and stamped (core LIVE-5, models USE-2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookwork.live import GO_AWAY, INTERACTION_STATUS, TURN_COMPLETE_REASON, VOICE_ACTIVITY
from hookwork.platform import new_uuid, timestamp
from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part
from hookwork.records.event import NO_ACTIONS, Event, EventActions
from hookwork.records.history import Call, is_model_turn
from hookwork.records.metadata import ModelResponse
from hookwork_llm.flow import event_of
from hookwork_llm.live.assembler import Piece
from hookwork_llm.live.held import is_kept
from hookwork_llm.live.request import LiveFlow


class EventMaker:
    """Makes the events of one agent's live call."""

    def __init__(self, flow: LiveFlow) -> None:
        self._flow = flow
        self._in_turn = False
        #: what the service calls the session that speaks.
        self.session_id = ""

    def count(self, message: ModelResponse, model: str) -> None:
        """Count a model turn when it begins, and tokens when they are reported.

        Raises:
            LlmCallLimitError: more turns than ``max_llm_calls``.
        """
        inv, agent = self._flow.inv, self._flow.agent.name
        speaks = message.content is not None or message.output_transcription is not None
        if speaks and not self._in_turn:
            self._in_turn = True
            inv.count_llm_call()
            inv.usage.add(agent, model, None)
        if message.usage_metadata is not None:
            inv.usage.add(agent, model, message.usage_metadata, calls=0)
        if message.turn_complete or message.interrupted:
            self._in_turn = False

    def calls_answered(self) -> None:
        """Answers to calls go to the model: what it says next comes of another model call (core FLOW-4)."""
        self._in_turn = False

    def turn_is_cut(self) -> None:
        """The line broke: what comes next is another turn."""
        self._in_turn = False

    def event(self, piece: Piece, *, at_rest: bool) -> Event:
        """A piece as an event. ``at_rest``: no tool runs, so the end of a turn may be the end of all (ACT-14)."""
        flow, response = self._flow, piece.response
        ctx = flow.ctx
        ends = bool(response.turn_complete) and at_rest
        event = event_of(
            response,
            piece.event_id,
            flow.inv.invocation_id,
            flow.agent.name,
            ctx.branch,
            ctx.isolation_scope,
            flow.stamp_info if ends else flow.path_info,
            actions=self._actions(response),
            long_running=flow.long_running(calls_of(response)),
        )
        told = wire_fields(response, self.session_id)
        if told:
            event = event.replace(extra={**(event.extra or {}), **told})
        if not is_kept(event):
            return event
        if is_model_turn(event):
            flow.turn += 1
        return flow.inv.attach(event, flow.request_buffer)

    def _actions(self, response: ModelResponse) -> EventActions:
        """``output_key`` gets each whole text the agent says (LLM-10).

        With ``output_schema`` it gets the object that the tool takes, on an event of its own.
        """
        agent = self._flow.agent
        if (
            agent.output_key is None
            or self._flow.prepared.schema is not None
            or response.partial
            or response.interrupted
            or calls_of(response)
        ):
            return NO_ACTIONS
        return self._flow.output_actions(response)

    def interrupted_calls(self, calls: Sequence[FunctionCall]) -> Event:
        """The response to long-running calls that the end of the session cut: they wait for nobody (core HND-5)."""
        return self._closing(calls, "interrupted: the session ended before this call had a result")

    def withdrawn_calls(self, calls: Sequence[Call]) -> Event:
        """The response to calls that the model withdrew before they had a result (models LIVE-7)."""
        return self._closing(calls, "cancelled: the model withdrew this call before it had a result")

    def _closing(self, calls: Sequence[Call | FunctionCall], text: str) -> Event:
        error = {"error": text}
        parts = [Part(function_response=FunctionResponse(id=call.id, name=call.name, response=error)) for call in calls]
        return self._own(content=Content(role="user", parts=parts), node_info=self._flow.path_info)

    def end(self) -> Event:
        """A marker: the call is over."""
        return self._own(node_info=self._flow.stamp_info)

    def _own(self, **fields: Any) -> Event:
        flow = self._flow
        return Event(
            id=new_uuid(),
            timestamp=timestamp(),
            invocation_id=flow.inv.invocation_id,
            author=flow.agent.name,
            branch=flow.ctx.branch,
            isolation_scope=flow.ctx.isolation_scope,
            **fields,
        )


def wire_fields(response: ModelResponse, session_id: str = "") -> dict[str, Any]:
    """What a live server tells beside its content, under the names and in the form of google-adk's events, so that
    front ends made for it see it (services BEY-8; forms of ``google.genai.types``).
    """
    fields: dict[str, Any] = {"liveSessionId": session_id} if session_id else {}
    if response.session_resumption_handle:
        update = {"newHandle": response.session_resumption_handle, "resumable": True}
        fields["liveSessionResumptionUpdate"] = update
    told = response.custom_metadata
    if told:
        fields |= {name: told[label] for label, name in _WIRE_NAMES.items() if label in told}
        if GO_AWAY in told:
            fields["goAway"] = {"timeLeft": f"{told[GO_AWAY]:g}s"}
    return fields


_WIRE_NAMES = {
    TURN_COMPLETE_REASON: "turnCompleteReason",
    INTERACTION_STATUS: "interactionStatus",
    VOICE_ACTIVITY: "voiceActivity",
}


def calls_of(response: ModelResponse) -> Sequence[FunctionCall]:
    """The calls to carry out: none of a response that carries an error (core FLOW-14)."""
    content = response.content
    return content.function_calls if content is not None and not response.error_code else ()
