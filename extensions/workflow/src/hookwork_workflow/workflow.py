"""Workflows: a graph as a node, and as an agent (workflow §1.3)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from attrs import define, field

from hookwork.agent import Agent
from hookwork.errors import ConfigurationError, GraphError
from hookwork.inside import invocation_of
from hookwork.node import NodeConfig, Standing
from hookwork.records.content import Content
from hookwork_workflow.composed import WHILE_WAITING, ended_by_hook
from hookwork_workflow.edges import flatten
from hookwork_workflow.graph import Graph, compile_graph
from hookwork_workflow.nodes.base import GraphNode

if TYPE_CHECKING:
    from hookwork.context import InvocationContext
    from hookwork.node_context import NodeContext
    from hookwork.records.event import Event
    from hookwork.records.history import Call
    from hookwork.view import View

#: How many workflows may lie in each other, this one counted; each takes some of Python's stack (1,000 frames).
MAX_DEPTH = 64

#: Activations of one graph run after which it has run away (SCH-10).
MAX_ACTIVATIONS = 1000


class Workflow(GraphNode[Any, Any]):
    """Nodes and the edges between them; itself a node, and an agent by `as_agent`.

    Args:
        name: an identifier; the first segment of its paths.
        edges: edges, lists of edges, and what ``>>`` gives.
        max_concurrency: nodes that run at once; None, 0 or less: no cap. Children of `run_node` are not counted.
        state_schema: declared state keys, a mapping of names to types or a class with annotations: unprefixed keys
            that nodes write are checked against it.
        on_message_while_waiting: as a root, what a message that answers nothing does while a node waits: ``hold`` or
            ``restart`` (ANS-7).
        max_activations: activations of one run after which it raises `RunawayGraph`.
        allow_changed_graph: go on with a paused run although the graph has changed since (RPL-8): a boolean, or a
            function of the two fingerprints, stored and current, that says so (WB-20).
        renamed: names that nodes had in runs that were begun before → the name now, or None for a node that is left
            out (WB-20); for such runs to go on, with ``allow_changed_graph``. Agents keep their names.
        input_schema, output_schema, retry, timeout: as of any node.

    Raises:
        GraphError: the graph breaks rules; ``errors`` lists all faults. More than `MAX_DEPTH` lie in each other.
    """

    kind = "workflow"
    reruns = True
    derives_end = True

    def __init__(
        self,
        name: str,
        *edges: Any,
        description: str = "",
        max_concurrency: int | None = None,
        state_schema: Any = None,
        on_message_while_waiting: str = "hold",
        max_activations: int = MAX_ACTIVATIONS,
        allow_changed_graph: bool | Callable[[str, str], bool] = False,
        renamed: Mapping[str, str | None] | None = None,
        input_schema: Any = None,
        output_schema: Any = None,
        retry: Any = None,
        timeout: float | None = None,
        config: NodeConfig | None = None,
    ) -> None:
        if not isinstance(name, str):
            kind = type(name).__name__
            raise GraphError(f"the first argument of a Workflow is its name, not {kind}", code="bad_name")
        where = f"workflow {name!r}"
        if on_message_while_waiting not in WHILE_WAITING:
            raise GraphError(
                f"{where}: on_message_while_waiting is 'hold' or 'restart', not {on_message_while_waiting!r}",
                code="bad_setting",
            )
        for option, value in (("max_concurrency", max_concurrency), ("max_activations", max_activations)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise GraphError(f"{where}: {option} is a whole number, not {value!r}", code="bad_setting")
        if max_activations < 1:
            raise GraphError(
                f"{where}: max_activations is a whole number from 1, not {max_activations}", code="bad_setting"
            )
        self.name = name
        self.description = description
        self.edges = flatten(*edges)
        self.graph: Graph = compile_graph(name, self.edges, state_schema=state_schema, renamed=renamed)
        #: how many workflows lie in each other, this one counted.
        self.depth = 1 + max(getattr(node, "depth", 0) for node in self.graph.nodes.values())
        if self.depth > MAX_DEPTH:
            raise GraphError(
                f"{where}: {self.depth} workflows lie in each other, and {MAX_DEPTH} may; let a loop of the graph do "
                "what is done again and again, or put the nodes of some into one",
                code="too_deep",
            )
        self.max_concurrency = max_concurrency
        self.state_schema = state_schema
        self.on_message_while_waiting = on_message_while_waiting
        self.max_activations = max_activations
        self.allow_changed_graph = allow_changed_graph
        self.input_schema = input_schema
        self.output_schema = output_schema
        self.config = config if config is not None else NodeConfig(retry=retry, timeout=timeout)
        self.state_check: Callable[[str, Any], None] | None = None
        if state_schema is not None:
            from hookwork_workflow.state_schema import state_check

            self.state_check = state_check(state_schema, name)

    @property
    def agent_nodes(self) -> tuple[Any, ...]:
        """The nodes that are agents, those of inner workflows included."""
        return tuple(found for node in self.graph.nodes.values() for found in getattr(node, "agent_nodes", ()))

    def as_agent(self, *, description: str | None = None, **options: Any) -> WorkflowAgent:
        """This workflow as an agent; ``options``: those of `WorkflowAgent` apart from the workflow's own."""
        text = self.description if description is None else description
        return WorkflowAgent(name=self.name, description=text, workflow=self, **options)

    # --- as a node ----------------------------------------------------------------------------------------------------

    def validate_input(self, value: Any) -> Any:
        from hookwork_workflow.checks import checked_input

        return checked_input(self, value)

    def validate_output(self, value: Any) -> Any:
        from hookwork_workflow.checks import checked_output

        return checked_output(self, value)

    def run(self, ctx: NodeContext, input: Any) -> AsyncIterator[Event]:
        from hookwork_workflow.scheduler import run_graph

        if ctx.resuming and ctx.view.events:
            from hookwork_workflow.undoing import is_undoing, undo_rest

            if is_undoing(ctx.view):
                return undo_rest(ctx, self)
        return run_graph(ctx, self, input)

    def standing(self, view: View) -> Standing:
        from hookwork_workflow.advance import standing_of

        return standing_of(self.graph, self.max_activations, view)[0]

    def output(self, view: View) -> Any:
        from hookwork_workflow.advance import standing_of

        return self.validate_output(standing_of(self.graph, self.max_activations, view)[1])


#: What a WorkflowAgent hands on to the workflow that it makes of its edges.
_OPTIONS = (
    "max_concurrency",
    "state_schema",
    "max_activations",
    "allow_changed_graph",
    "renamed",
    "input_schema",
    "output_schema",
    "retry",
    "timeout",
)


def _edges_given(value: Any) -> tuple[Any, ...]:
    return flatten(value)


@define(eq=False, kw_only=True, frozen=True)
class WorkflowAgent(Agent):
    """A graph that runs as an agent.

    Its input is the text of the user's message; a first node that takes a `Content`, and an agent, gets the message
    itself (WF-3). Agents among the nodes are known to the runner without being listed in ``sub_agents``.

    Args:
        edges, or workflow: the graph, see `Workflow`; the other options are those of `Workflow`.
        replay_safe: its own part does no I/O, so a durable engine may run it again (durable DUR-10).

    Raises:
        GraphError: the graph breaks rules. ConfigurationError: a body, or both edges and a workflow.
    """

    edges: tuple[Any, ...] = field(default=(), converter=_edges_given)
    workflow: Any = None
    replay_safe: bool = True
    on_message_while_waiting: str = ""
    max_concurrency: int | None = None
    state_schema: Any = None
    max_activations: int = MAX_ACTIVATIONS
    allow_changed_graph: bool | Callable[[str, str], bool] = False
    renamed: Mapping[str, str | None] | None = None
    input_schema: Any = None
    output_schema: Any = None
    retry: Any = None
    timeout: float | None = None

    def __attrs_post_init__(self) -> None:
        if self._body is not None:
            raise ConfigurationError(f"agent {self.name!r}: a WorkflowAgent runs its graph and takes no body")
        workflow = self.workflow
        if workflow is None:
            options = {name: getattr(self, name) for name in _OPTIONS}
            workflow = Workflow(
                self.name,
                *self.edges,
                on_message_while_waiting=self.on_message_while_waiting or "hold",
                **options,
            )
        elif self.edges and self.edges != workflow.edges:
            raise ConfigurationError(f"agent {self.name!r}: give edges or a workflow, not both")
        put = object.__setattr__
        put(self, "workflow", workflow)
        put(self, "on_message_while_waiting", self.on_message_while_waiting or workflow.on_message_while_waiting)
        Agent.__attrs_post_init__(self)
        put(self, "sub_agents", _registered(self.sub_agents, workflow.agent_nodes))

    def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        from hookwork_workflow.scheduler import run_graph

        workflow: Workflow = self.workflow
        if ctx.resuming and ctx.view.events:
            from hookwork_workflow.undoing import is_undoing, undo_rest

            if is_undoing(ctx.view):
                return undo_rest(ctx, workflow)
        if workflow.config.retry is not None or workflow.config.timeout:
            return _as_node(ctx, workflow, self._input(ctx))
        events = run_graph(ctx, workflow, self._input(ctx))
        return events if workflow.output_schema is None else _checked(ctx, events, workflow)

    def _input(self, ctx: InvocationContext) -> Any:
        if ctx.input is not None:
            return ctx.input
        message = _first_message(ctx)
        if message is None:
            return None
        workflow: Workflow = self.workflow
        nodes = [workflow.graph.nodes[name] for name in workflow.graph.start]
        if len(nodes) == 1 and _takes_content(nodes[0]) and workflow.input_schema is None:
            return message
        text = "".join(part.text for part in message.parts if part.text is not None and not part.thought)
        return workflow.validate_input(text)

    @property
    def derives_end(self) -> bool:
        return True

    def standing(self, view: View) -> Standing:
        """Done when a before hook answered, else as the graph stands (activations ACT-23)."""
        record = view.record
        if record is not None and record.end in record.own[-2:] and ended_by_hook(view):
            return Standing.DONE
        if record is not None and record.own:
            from hookwork_workflow.undoing import is_undoing, is_undone

            if is_undone(view):
                return Standing.DONE
            if is_undoing(view):
                return Standing.PENDING  # whatever is open: nobody answers an undo
        standing: Standing = self.workflow.standing(view)
        return standing

    def output(self, view: View) -> Any:
        return self.workflow.output(view)

    def read_answer(self, call: Call, payload: Any) -> Any:
        from hookwork_workflow.asking import checked_answer

        return checked_answer(call, payload)

    def check_unchanged(self, question: Event, path: str) -> None:
        from hookwork_workflow.changes import check_unchanged

        check_unchanged(self.workflow, question, path)

    async def carry_out(self, ctx: InvocationContext, kind: str, call: Mapping[str, Any]) -> dict[str, Any]:
        from hookwork_workflow.carrying_out import carry_out

        return await carry_out(self.workflow, ctx, kind, call)

    def span(self) -> tuple[str, dict[str, Any]]:
        return f"invoke_workflow {self.name}", {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": self.name,
        }

    def closables(self) -> Iterable[Any]:
        for node in self.workflow.graph.nodes.values():
            yield from getattr(node, "closables", lambda: ())()


async def _as_node(ctx: InvocationContext, workflow: Workflow, input: Any) -> AsyncGenerator[Event, None]:
    """A root graph that may be tried again or has a limit: it runs as the node that it is, at the agent's own place."""
    from hookwork.node import Pause
    from hookwork.node_activation import NodeActivation

    activation = NodeActivation(
        invocation_of(ctx),
        workflow,
        ctx.path,
        owner=ctx.agent,
        input=input,
        branch=ctx.branch,
        scope=ctx.isolation_scope,
    )
    try:
        async with aclosing(activation) as events:
            async for event in events:
                yield event
    except BaseException as error:
        from hookwork_workflow.undoing import undo_failed

        async with aclosing(undo_failed(ctx, workflow, error)) as undone:
            async for event in undone:
                yield event
        raise
    if activation.status == "paused":
        raise Pause


async def _checked(
    ctx: InvocationContext, events: AsyncGenerator[Event, None], workflow: Workflow
) -> AsyncGenerator[Event, None]:
    """The events of a root graph, its output checked before it is emitted (NODE-3, NODE-4)."""
    async with aclosing(events):
        async for event in events:
            info = event.node_info
            if not event.partial and info is not None and info.output_for and ctx.path in info.output_for:
                try:
                    event = event.replace(output=workflow.validate_output(event.output))
                except Exception as error:
                    from hookwork_workflow.undoing import undo_failed

                    await events.aclose()
                    async with aclosing(undo_failed(ctx, workflow, error)) as undone:
                        async for event in undone:
                            yield event
                    raise
            yield event


def _takes_content(node: Any) -> bool:
    return bool(getattr(node, "takes_content", False)) or node.input_schema is Content


def _first_message(ctx: InvocationContext) -> Content | None:
    """What the user said at the start of the invocation; answers are no input (RPL-1)."""
    message = ctx.user_content
    if not ctx.resuming and message is not None and not message.function_responses:
        return message
    session = ctx.session
    start = session.history().invocations.get(ctx.invocation_id, 0)
    for event in session.events[start:]:
        if event.invocation_id == ctx.invocation_id and event.author == "user" and event.content is not None:
            if not event.function_responses:
                return event.content
            break
    return None


def _registered(given: tuple[Agent, ...], nodes: Iterable[Any]) -> tuple[Agent, ...]:
    """The given sub-agents and the agents of nodes, each once, in the form in which nodes run them (WF-2)."""
    as_nodes = {id(node.given): node.agent for node in reversed(list(nodes))}
    found = {id(agent): agent for agent in (as_nodes.get(id(agent), agent) for agent in given)}
    found.update({id(agent): agent for agent in reversed(list(as_nodes.values()))})
    return tuple(found.values())
