"""Tasks handed to a ``task`` sub-agent: started by the flow, ended by `finish_task` (core MODE-8 … MODE-11)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from hookwork.activation import Activation
from hookwork.errors import ToolArgumentError
from hookwork.platform import new_uuid, timestamp
from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part
from hookwork.records.event import Event
from hookwork.records.history import Call
from hookwork.view import segment_name
from hookwork_llm.agent_calls import TaskTool, response_payload
from hookwork_llm.task_places import TaskEnd, task_end, task_segment

if TYPE_CHECKING:
    from hookwork.agent import Agent
    from hookwork_llm.flow import Flow


def stored_call(flow: Flow, call: FunctionCall) -> Call:
    """The index's entry of a task call that this activation just made; siblings may use the same id."""
    return next(stored for stored in reversed(flow.ctx.view.calls) if stored.id == (call.id or ""))


async def delegate(flow: Flow, call: Call) -> AsyncGenerator[Event, None]:
    """Run a task to its end or its next question; then answer the call, or leave the delegation open.

    A result that was recorded and not delivered (a crash between the two) is delivered without running anything.
    """
    inv, ctx = flow.inv, flow.ctx
    tool = flow.table[call.name]
    assert isinstance(tool, TaskTool)
    try:
        tool.checked(call.args)
    except ToolArgumentError as error:
        yield _response(flow, call, {"error": str(error)}, author=flow.agent.name)
        return
    result = _result(flow, call)
    if result is None:
        agent, path = _works_on(flow, call, tool)
        task = Activation(inv, agent, path, branch=ctx.branch, scope=call.scope)
        async with aclosing(task) as events:
            async for event in events:
                yield event
        result = _result(flow, call)
        if result is None:
            flow.over = True  # it waits, or asked in plain text: the delegation stays open (MODE-9)
            return
    yield _response(flow, call, response_payload(result.output), author="user")


def _works_on(flow: Flow, call: Call, tool: TaskTool) -> tuple[Agent, str]:
    """Who works on a task, and where: whom it was handed over to last, whatever invocation that was in (ACT-26, TRF-5).

    Inside the invocation that handed it over the way leads through the task's own place, as everywhere.
    """
    inv, ctx = flow.inv, flow.ctx
    own = f"{ctx.path}/{task_segment(tool.name, call.id, call.occurrence)}"
    record, tree = ctx.view.scope_record(call.scope), inv.setup.tree
    begun = inv.history().record(inv.invocation_id, own)
    if record is None or tree is None or (begun is not None and begun.own):
        return tool.agent, own
    if record.invocation_id == inv.invocation_id and record.path.startswith(f"{ctx.path}/"):
        path = record.path  # entered behind the hand-over already
    else:
        path = ctx.path + ctx.view.at(record).follow().path[len(call.path) :]
    agent = tree.find(segment_name(path))
    if agent is None or (agent is tool.agent and begun is None):
        return tool.agent, own
    return agent, path


def _result(flow: Flow, call: Call) -> TaskEnd | None:
    """What the task recorded as its result, None before; calls of it that wait still are closed with it (ACT-26)."""
    view = flow.ctx.view
    record = view.scope_record(call.scope)
    return task_end(view, record, call.name) if record is not None else None


def _response(flow: Flow, call: Call, payload: dict[str, Any], *, author: str) -> Event:
    response = FunctionResponse(id=call.id, name=call.name, response=payload)
    return Event(
        id=new_uuid(),
        timestamp=timestamp(),
        invocation_id=flow.inv.invocation_id,
        author=author,
        content=Content(role="user", parts=[Part(function_response=response)]),
        branch=flow.ctx.branch,
        isolation_scope=flow.ctx.isolation_scope,
        node_info=flow.path_info,
    )
