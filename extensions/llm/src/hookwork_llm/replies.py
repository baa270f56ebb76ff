"""How an answer ends an agent call: plain text, a checked object, a called agent's output (core §2.4, LLM-10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.records.event import NO_ACTIONS, EventActions, NodeInfo
from hookwork.records.metadata import ModelResponse
from hookwork_llm.object_schema import InvalidObject
from hookwork_llm.structured_output import INVALID_OUTPUT, correction, parsed_reply

if TYPE_CHECKING:
    from hookwork.view import View
    from hookwork_llm.agent import LlmAgent
    from hookwork_llm.flow import Flow


class Reply:
    """A model turn without calls, judged. ``again``: it was not valid and the model gets another try."""

    __slots__ = ("actions", "again", "info", "output", "response")

    def __init__(self, response: ModelResponse, info: NodeInfo) -> None:
        self.response = response
        self.info = info
        self.actions = NO_ACTIONS
        self.output: Any = None
        self.again = False


def judged(flow: Flow, response: ModelResponse) -> Reply:
    """What a turn that ends the loop means for its event."""
    reply = Reply(response, flow.stamp_info)
    text = response.text
    if response.error_code or not text.strip():
        if flow.agent.delegate and not response.error_code:
            reply.info = flow.path_info  # a task that says something without words asks as well
        return reply
    schema = flow.prepared.schema
    value: Any = text
    if schema is not None:  # also where a tool takes the answer: a model may write it as text all the same
        try:
            value = parsed_reply(text, schema)
        except InvalidObject as error:
            return _invalid(flow, reply, error)
    return accepted(flow, reply, value)


def accepted(flow: Flow, reply: Reply, value: Any) -> Reply:
    """A good answer: its value goes to ``output_key``, and is the output of a called agent (MODE-6)."""
    agent = flow.agent
    if agent.output_key is not None and not agent.delegate:
        reply.actions = EventActions(state_delta={agent.output_key: value})
    if agent.delegate:
        reply.info = flow.path_info  # a task that speaks asks: it ends by finish_task alone (ACT-14)
    elif agent.effective_mode == "single_turn":
        reply.info = NodeInfo(path=flow.ctx.path, status="completed", message_as_output=True)
        reply.output = value
    return reply


def _invalid(flow: Flow, reply: Reply, error: InvalidObject) -> Reply:
    """An answer without the required form: another try while there are any, else an error event (OUT-6)."""
    reply.response = reply.response.replace(error_code=INVALID_OUTPUT, error_message=str(error))
    if flow.output_tries > 0:
        flow.output_tries -= 1
        flow.correct(correction(error, by_tool=flow.prepared.reply_tool is not None))
        reply.again = True
        reply.info = flow.path_info
    return reply


def recorded_output(agent: LlmAgent, view: View) -> Any:
    """The output of a finished call, from its stored events (activations §5)."""
    record = view.record
    if record is None:
        return None
    if record.output is None and agent.effective_mode == "single_turn" and record.end in record.own:
        end = view.events[record.own.index(record.end)]
        return end.text or None  # what `before_agent` gave in the agent's place
    if not isinstance(record.output, str) or agent.output_schema is None or agent.delegate:
        return record.output
    from hookwork_llm.object_schema import ObjectSchema

    schema = ObjectSchema(agent.output_schema, f"agent {agent.name!r}: output_schema")
    try:
        return parsed_reply(record.output, schema)
    except InvalidObject:
        return record.output
