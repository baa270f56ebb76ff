"""One node run for a test: `await city.test("tokyo")` (workflow API-2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hookwork.records.content import Content, FunctionResponse, Part
from hookwork_workflow.edges import START
from hookwork_workflow.nodes.function import FunctionNode

if TYPE_CHECKING:
    from hookwork.node import Node
    from hookwork.records.event import Event
    from hookwork.records.history import Call
    from hookwork.run import RunOutcome
    from hookwork.runner import Runner

#: Messages after which a node that asks again and again is left waiting.
_ROUNDS = 100


class Trial:
    """What a node did.

    Attributes:
        output: what it gave, None for nothing. routes: where it said to go on.
        events: its events and those below it, in order.
        interrupts: calls that still wait for an answer.
        state: the session's state afterwards.
    """

    __slots__ = ("events", "interrupts", "output", "routes", "state")

    def __init__(self, events: Sequence[Event], path: str, interrupts: Sequence[Call], state: dict[str, Any]) -> None:
        self.events = tuple(events)
        self.interrupts = tuple(interrupts)
        self.state = state
        own = [event for event in events if event.path == path or path in _output_for(event)]
        self.output = next((event.output for event in reversed(own) if event.output is not None), None)
        if self.output is None and not interrupts:
            texts = [e.text for e in own if e.node_info is not None and e.node_info.message_as_output]
            self.output = texts[-1] if texts else None
        self.routes: tuple[str, ...] = next((event.routes for event in reversed(own) if event.routes), ())

    def __repr__(self) -> str:
        waits = f", waits for {[call.id for call in self.interrupts]}" if self.interrupts else ""
        return f"Trial(output={self.output!r}, routes={self.routes!r}, {len(self.events)} events{waits})"


def _output_for(event: Event) -> tuple[str, ...]:
    info = event.node_info
    return (info.output_for or ()) if info is not None else ()


async def try_node(
    node: Node,
    input: Any = None,
    *,
    state: Mapping[str, Any] | None = None,
    answers: Mapping[str, Any] | None = None,
    plugins: Iterable[Any] = (),
) -> Trial:
    """Run one activation of a node in a graph of its own, in memory, and answer what it asks.

    Args:
        input: what a node before it would have given.
        state: the session's state to begin with.
        answers: interrupt id, or key of `request_input` (``wf_auth`` for a consent), or name of the tool to approve →
            answer; for an approval true or false, for a consent a filled AuthConfig or the text of an API key.
        plugins: lifecycle plugins.

    Raises:
        Exception: what the node raised.
    """
    from hookwork.runner import Runner
    from hookwork.settings import Settings
    from hookwork_workflow.workflow import Workflow

    name = "trial" if node.name != "trial" else "trial_of_trial"
    given: FunctionNode[Any, [], Any] = FunctionNode(lambda: input, name=f"input_of_{node.name}", inline=True)
    agent = Workflow(name, START >> given >> (node,)).as_agent()
    path = f"{name}@1/{node.name}@1"
    events: list[Event] = []
    async with Runner(agent, sessions="memory:", settings=Settings(), plugins=list(plugins)) as runner:
        session = await runner.sessions.create_session(app_name=name, user_id="user-1", state=dict(state or {}))
        message: Any = "go"
        for _ in range(_ROUNDS):
            outcome = await _round(runner, session.id, message, events)
            parts = _answers(outcome.open_calls, dict(answers or {}))
            if not parts:
                break
            message = Content(role="user", parts=parts)
        stored = await runner.sessions.get_session(app_name=name, user_id="user-1", session_id=session.id)
        below = [event for event in events if event.path == path or event.path.startswith(f"{path}/")]
        return Trial(below, path, outcome.open_calls, dict(stored.state))


async def _round(runner: Runner, session_id: str, message: Any, events: list[Event]) -> RunOutcome:
    async with runner.run(user_id="user-1", session_id=session_id, message=message) as run:
        async for event in run:
            events.append(event)
        assert run.outcome is not None
        return run.outcome


def _answers(calls: Sequence[Call], answers: dict[str, Any]) -> list[Part]:
    parts = []
    for call in calls:
        original = call.args.get("originalFunctionCall")
        tool = original.get("name") if isinstance(original, Mapping) else None
        for key in (call.id, call.id.partition(":")[0], tool, call.name):
            if key in answers:
                response = _response(call, answers[key])
                parts.append(Part(function_response=FunctionResponse(id=call.id, name=call.name, response=response)))
                break
    return parts


def _response(call: Call, answer: Any) -> dict[str, Any]:
    if call.kind == "credential":
        return dict(answer) if isinstance(answer, Mapping) else {"response": answer}
    if call.kind == "confirmation":
        return dict(answer) if isinstance(answer, Mapping) else {"confirmed": answer is True}
    return {"payload" if call.kind == "input" else "result": answer}
