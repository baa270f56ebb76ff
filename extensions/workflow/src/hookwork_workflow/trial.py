"""One node run for a test: `await city.test("tokyo")` (workflow API-2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from hookwork.errors import GraphError
from hookwork.records.content import Content, FunctionResponse, Part
from hookwork_workflow.edges import START
from hookwork_workflow.nodes.function import FunctionNode

if TYPE_CHECKING:
    from hookwork.node import Node
    from hookwork.records.event import Event
    from hookwork.records.history import Call
    from hookwork.run import RunOutcome
    from hookwork.runner import Runner
    from hookwork_workflow.conducting import Conductor, Order

#: Messages after which a node that asks again and again is left waiting.
_ROUNDS = 100


class Trial:
    """What a node did.

    Attributes:
        output: what it gave, None for nothing. routes: where it said to go on.
        events: its events and those below it, in order.
        interrupts: calls that still wait for an answer.
        state: the session's state afterwards.
        order: the nodes inside in the order in which they began, when that was decided: ``("a@1", "inner@1/b@1")``.
    """

    __slots__ = ("events", "interrupts", "order", "output", "routes", "state")

    def __init__(
        self,
        events: Sequence[Event],
        path: str,
        interrupts: Sequence[Call],
        state: dict[str, Any],
        chosen: Sequence[str] = (),
    ) -> None:
        self.order = tuple(found.removeprefix(f"{path}/") for found in chosen if found.startswith(f"{path}/"))
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
    order: Order | None = None,
) -> Trial:
    """Run one activation of a node in a graph of its own, in memory, and answer what it asks.

    Args:
        input: what a node before it would have given.
        state: the session's state to begin with.
        answers: interrupt id, or key of `request_input` (``wf_auth`` for a consent), or name of the tool to approve →
            answer; for an approval true or false, for a consent a filled AuthConfig or the text of an API key.
        plugins: lifecycle plugins.
        order: which of concurrent nodes comes next: names (or paths below it) in order, a seed, or a function that is
            given the paths that could begin, sorted, and gives an index. None: as they come.

    Raises:
        Exception: what the node raised.
        AssertionError: a finished run does not come out of its stored events as it was (WB-26).
    """
    from hookwork_workflow.conducting import Conductor, chooser

    return await _tried(node, input, state, answers, plugins, None if order is None else Conductor(chooser(order)))


async def try_orders(
    node: Node,
    input: Any = None,
    *,
    state: Mapping[str, Any] | None = None,
    answers: Mapping[str, Any] | None = None,
    plugins: Iterable[Any] = (),
    limit: int = 1000,
) -> list[Trial]:
    """Run a node once for each order in which its concurrent nodes can come; arguments as for `try_node`.

    Raises:
        GraphError: there are more than ``limit`` orders (code ``too_many_orders``); try some by seeds.
    """
    from hookwork_workflow.conducting import Conductor, Prefix, next_prefix

    trials: list[Trial] = []
    prefix: list[int] | None = []
    while prefix is not None:
        if len(trials) >= limit:
            raise GraphError(
                f'node "{node.name}" has more than {limit} orders; raise the limit, or try some: test(…, order=seed)',
                code="too_many_orders",
            )
        conductor = Conductor(Prefix(prefix))
        trials.append(await _tried(node, input, state, answers, plugins, conductor))
        prefix = next_prefix(conductor.choices)
    return trials


async def _tried(
    node: Node,
    input: Any,
    state: Mapping[str, Any] | None,
    answers: Mapping[str, Any] | None,
    plugins: Iterable[Any],
    conductor: Conductor | None,
) -> Trial:
    from hookwork.runner import Runner
    from hookwork.settings import Settings
    from hookwork_workflow.replay_check import check_replay
    from hookwork_workflow.workflow import Workflow

    name = "trial" if node.name != "trial" else "trial_of_trial"
    given: FunctionNode[Any, [], Any] = FunctionNode(lambda: input, name=f"input_of_{node.name}", inline=True)
    agent = Workflow(name, START >> given >> (node,)).as_agent()
    path = f"{name}@1/{node.name}@1"
    events: list[Event] = []
    given_plugins = [*plugins, *([conductor] if conductor is not None else [])]
    async with (
        conductor.conducting() if conductor is not None else nullcontext(),
        Runner(agent, sessions="memory:", settings=Settings(), plugins=given_plugins) as runner,
    ):
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
        if outcome.kind == "completed":
            check_replay(runner, stored, outcome.invocation_id, agent.workflow.graph, f"{name}@1", "go")
        chosen = conductor.chosen if conductor is not None else ()
        return Trial(below, path, outcome.open_calls, dict(stored.state), chosen)


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
