"""Gates of nodes: a person approves, or consents, before the body runs (workflow WB-3)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from hookwork.confirmation import REQUEST_CONFIRMATION, read_confirmation
from hookwork.errors import ConsentRejectedError
from hookwork.records.content import Content, FunctionCall, Part
from hookwork.records.event import Event, ToolConfirmation

#: True: always; or a function of the node's input that says so.
Gate = bool | Callable[[Any], bool | Awaitable[bool]]

#: What a node whose call was rejected gives.
REJECTED = "This tool call is rejected."

#: Where a node goes on whose call was rejected.
REJECTED_ROUTE = "rejected"

CONFIRMATION = "wf_tool_confirmation"
_MISSING: Any = object()


def approval_of(ctx: Any) -> ToolConfirmation | None:
    """What a person decided about this activation; None: nobody was asked, or has answered."""
    question = ctx.interrupt_id(CONFIRMATION)
    answer = ctx.resume_inputs.get(question, _MISSING)
    return None if answer is _MISSING else read_confirmation(answer, call_id=question)


def request_event(question: str, call: FunctionCall, asked: ToolConfirmation) -> Event:
    """The event that asks a person to approve a call, as an LLM agent asks (tools-plugins HITL-05)."""
    from hookwork.records.codec import dump
    from hookwork_workflow.json_form import to_json

    request = FunctionCall(
        id=question,
        name=REQUEST_CONFIRMATION,
        args={
            "originalFunctionCall": {"id": call.id or "", "name": call.name or "", "args": to_json(call.args or {})},
            "toolConfirmation": dump(asked),
        },
    )
    return Event(content=Content(role="model", parts=[Part(function_call=request)]), long_running_tool_ids=(question,))


def rejection_event(decision: ToolConfirmation) -> Event:
    """The output of a node that may not run, and the route `REJECTED_ROUTE` for edges that care."""
    output: dict[str, Any] = {"error": REJECTED}
    if decision.payload is not None:
        output["payload"] = decision.payload
    return Event(output=output, routes=(REJECTED_ROUTE,))


def is_rejection(value: Any) -> bool:
    """Whether a value is what a gate gives in a node's place; no schema of the node holds for it."""
    return isinstance(value, Mapping) and value.get("error") == REJECTED and value.keys() <= {"error", "payload"}


async def asks(gate: Gate, input: Any) -> bool:
    """Whether a person has to approve this input."""
    if not callable(gate):
        return gate
    needed = gate(input)
    return bool(await needed if inspect.isawaitable(needed) else needed)


async def refusal(provider: Any, ctx: Any) -> Event | None:
    """What a node gives instead of running when a person refused the consent that it needs; None: the body may run.

    Raises:
        ConsentRequiredError: nobody was asked yet; the node waits. AuthError: there is no credential.
    """
    ask = getattr(provider, "credential", provider)
    try:
        given = ask(ctx)
        if inspect.isawaitable(given):
            await given
    except ConsentRejectedError:
        return rejection_event(ToolConfirmation())
    return None


async def gate_event(gate: Gate, node: str, ctx: Any, input: Any) -> Event | None:
    """What a gated node gives instead of running: its question, or that it was rejected; None: the body may run."""
    decision = approval_of(ctx)
    if decision is not None:
        return None if decision.confirmed else rejection_event(decision)
    if not await asks(gate, input):
        return None
    from hookwork_workflow.json_form import to_json

    plain = to_json(input)
    args = dict(plain) if isinstance(plain, Mapping) else {"input": plain}
    call = FunctionCall(id=ctx.interrupt_id("wf_node"), name=node, args=args)
    asked = ToolConfirmation(hint=f"Please approve the node {node!r}.")
    return request_event(ctx.interrupt_id(CONFIRMATION), call, asked)
