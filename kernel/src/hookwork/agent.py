"""The Agent contract and the tree of agents (core §1)."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from attrs import define, evolve, field

from hookwork.errors import ConfigurationError, UnsupportedOperationError

if TYPE_CHECKING:
    from hookwork.activation import Activation
    from hookwork.context import InvocationContext
    from hookwork.invocation import Setup
    from hookwork.model import ModelRequest
    from hookwork.node import Standing
    from hookwork.records.event import Event
    from hookwork.records.history import Call
    from hookwork.view import View

AgentCallback = Callable[..., Any]
AgentBody = Callable[["InvocationContext"], AsyncIterator["Event"]]


def as_callbacks(value: Any) -> tuple[AgentCallback, ...]:
    """One callable, several, or None, as a tuple; what is in it is checked by `check_callbacks`."""
    if value is None:
        return ()
    if callable(value) or isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        return (value,)
    return tuple(value)


def check_callbacks(agent: Agent, *names: str) -> None:
    """Raise ConfigurationError unless all that these fields of an agent hold can be called."""
    for name in names:
        for callback in getattr(agent, name):
            if not callable(callback):
                raise ConfigurationError(
                    f"agent {agent.name!r}: {name} is a function (ctx, …) or a list of such, not {callback!r}"
                )


def _as_given(value: Any) -> tuple[Agent, ...]:
    """For the type checker: any iterable may be given. `Agent.__attrs_post_init__` reads it; it knows the name."""
    return value  # type: ignore[no-any-return]


def _as_agents(value: Any, where: str) -> tuple[Agent, ...]:
    if isinstance(value, (Agent, str, Mapping)) or not isinstance(value, Iterable):
        raise ConfigurationError(
            f"{where}: sub_agents is a list of agents, not {type(value).__name__}; write sub_agents=[…]"
        )
    return tuple(value)


def check_name(name: Any, what: str) -> None:
    """Raise unless ``name`` is an identifier and not ``user`` (core AGT-1)."""
    if not isinstance(name, str) or not name.isidentifier():
        raise ConfigurationError(
            f"{what} name {name!r} is not an identifier; use letters, digits and underscores, e.g. 'weather_agent'"
        )
    if name == "user":
        raise ConfigurationError(f"{what} name 'user' is reserved for the person who talks to the agents")


@define(eq=False, kw_only=True, frozen=True)
class Agent:
    """An agent: a name, sub-agents, callbacks and a body that yields events.

    Give a body function, or subclass and override `body`::

        async def greet(ctx):
            yield Event(content=text_content("hello"))

        agent = Agent(name="greeter", body=greet)

    Agents are immutable and know neither parent nor session, so one object serves many runs, runners and trees at
    once. ``before_agent`` and ``after_agent`` take ``(ctx)`` and run after the plugins' hooks of that name.

    Raises:
        ConfigurationError: a bad name, the same object twice in ``sub_agents``, or no body.
    """

    name: str
    description: str = ""
    sub_agents: tuple[Agent, ...] = field(default=(), converter=_as_given)
    before_agent: tuple[AgentCallback, ...] = field(default=(), converter=as_callbacks)
    after_agent: tuple[AgentCallback, ...] = field(default=(), converter=as_callbacks)
    replay_safe: bool = False
    _body: AgentBody | None = field(default=None, alias="body", repr=False)

    def __attrs_post_init__(self) -> None:
        check_name(self.name, "agent")
        if not isinstance(self.description, str):
            raise ConfigurationError(f"agent {self.name!r}: description is text, not {self.description!r}")
        if self._body is not None and not callable(self._body):
            raise ConfigurationError(f"agent {self.name!r}: body is an async generator function, not {self._body!r}")
        check_callbacks(self, "before_agent", "after_agent")
        object.__setattr__(self, "sub_agents", _as_agents(self.sub_agents, f"agent {self.name!r}"))
        seen: set[int] = set()
        for child in self.sub_agents:
            if not isinstance(child, Agent):
                hint = as_agent_hint(child)
                raise ConfigurationError(f"agent {self.name!r}: {child!r} in sub_agents is not an agent{hint}")
            if id(child) in seen:
                raise ConfigurationError(f"agent {self.name!r} lists the sub-agent object {child.name!r} twice")
            seen.add(id(child))
        if self._body is None and type(self).body is Agent.body:
            raise ConfigurationError(
                f"agent {self.name!r} has no body; pass body=<async generator function> or override `body`"
            )
        if inspect.iscoroutinefunction(self._body) or inspect.iscoroutinefunction(type(self).body):
            raise ConfigurationError(
                f"the body of agent {self.name!r} is a coroutine function; it must be an async generator function, "
                "that is, `yield` its events"
            )

    def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        """The agent's own work: an async generator of events."""
        assert self._body is not None
        return self._body(ctx)

    @property
    def live(self) -> bool:
        """Whether the agent can hold a live session: it has a `live_body` (core LIVE-2)."""
        return False

    def check_live(self) -> None:
        """Refuse a live run that the agent cannot hold, before anything of it begins (core LIVE-2).

        Raises:
            UnsupportedOperationError: names the agent, and what of it has no place in a live run.
        """
        if not self.live:
            raise UnsupportedOperationError(
                f"agent {self.name!r} ({type(self).__name__}) does not support live; use runner.run(), or an LlmAgent "
                "or SequentialAgent as root"
            )

    def live_body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        """The agent's work in a live run; `hookwork.live_run.channel_of` gives what is sent to it.

        Raises:
            UnsupportedOperationError: the agent does not support live.
        """
        raise UnsupportedOperationError(
            f"agent {self.name!r} ({type(self).__name__}) does not support live; only LLM and sequential agents do"
        )

    def run(self, ctx: InvocationContext) -> Activation:
        """One agent call as an activation of its own: hooks, callbacks and completion included (core AGT-10)."""
        from hookwork.starting import activate

        return activate(ctx, self)

    def find_agent(self, name: str) -> Agent | None:
        """This agent or the first below it, depth first, with that name."""
        return self if self.name == name else self.find_sub_agent(name)

    def find_sub_agent(self, name: str) -> Agent | None:
        """`find_agent` without this agent itself."""
        for child in self.sub_agents:
            found = child.find_agent(name)
            if found is not None:
                return found
        return None

    def clone(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return evolve(self, **changes)

    # --- what the kernel asks (activations §5) ------------------------------------------------------------------------

    @property
    def conversational(self) -> bool:
        """Takes plain messages while something waits; roots that are may be re-entered at a helper (core RUN-30)."""
        return False

    @property
    def sticky(self) -> bool:
        """The next message may start here (core RUN-33)."""
        return self.conversational

    @property
    def on_message_while_waiting(self) -> str:
        """What a root does with a message that answers nothing while a run waits: ``hold``, ``restart`` (RES-11)."""
        return "hold"

    @property
    def delegate(self) -> bool:
        """Runs under a delegation with a scope of its own (core RUN-31)."""
        return False

    def check_root(self) -> None:
        """Raise `ConfigurationError` when this agent cannot be a root (core MODE-2)."""

    def standing(self, view: View) -> Standing:
        """Where this agent's activation stands, from stored events alone (activations ACT-13)."""
        from hookwork.view import default_standing

        return default_standing(view)

    def output(self, view: View) -> Any:
        """What a finished activation gave (activations §5)."""
        return view.record.output if view.record is not None else None

    @property
    def derives_end(self) -> bool:
        """The end is read off the agent's own stamps or its children; else the kernel writes a marker (ACT-14)."""
        return False

    def closables(self) -> Iterable[Any]:
        """What the runner closes with this agent: objects with an async ``close``."""
        return ()

    def as_node(self) -> Agent:
        """This agent as it runs as a node of a graph (core MODE-1)."""
        return self

    def read_answer(self, call: Call, payload: Any) -> Any:
        """What a person's answer to a question below this agent means; asked before it is stored, and when it is read.

        Raises:
            InvalidResumeResponse: it does not fit the schema that was asked for (workflow ANS-3).
        """
        from hookwork.asking import plain_answer

        return plain_answer(payload)

    def check_unchanged(self, question: Event, path: str) -> None:
        """Raise when this agent is not any more what it was at ``path`` when a question was raised there or below.

        Asked of every agent on the way to the question, before an answer to it is stored (workflow RPL-8).
        """

    def span(self) -> tuple[str, dict[str, Any]]:
        """Name and attributes of the span around an entered call of this agent."""
        return f"invoke_agent {self.name}", {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": self.name,
            "gen_ai.agent.description": self.description,
        }

    async def preview(self, ctx: InvocationContext) -> ModelRequest:
        """The request this agent would send first (`Runner.preview`)."""
        raise UnsupportedOperationError(f"agent {self.name!r} sends no model request of its own; preview one that does")

    async def carry_out(self, ctx: InvocationContext, kind: str, call: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out an effect of this agent that was described elsewhere (`Runner.carry_out`)."""
        raise ConfigurationError(f"agent {self.name!r} carries out no effects of kind {kind!r}")

    def prepare(self, setup: Setup) -> Any:
        """Called once per runner for each agent of its tree, before any run: check and derive what does not change.

        The result is kept by the runner; `Invocation.prepared_for` gives it back. Raise `ConfigurationError` here.
        """
        return None


class AgentTree:
    """The agents under one root, by name, with their parents. Built per runner; nothing is written on the agents.

    Raises:
        ConfigurationError: one object is reachable twice, or two agents share a name.
    """

    def __init__(self, root: Agent) -> None:
        self.root = root
        self._by_name: dict[str, Agent] = {}
        self._parents: dict[int, Agent | None] = {}
        self._paths: dict[int, str] = {}
        self._add(root, None)

    def _add(self, agent: Agent, parent: Agent | None) -> None:
        if id(agent) in self._parents:
            first = self._parents[id(agent)]
            raise ConfigurationError(
                f"agent {agent.name!r} has more than one parent: {first.name if first else 'the root'!r} and "
                f"{parent.name if parent else 'the root'!r}; use agent.clone(name=…) for a second place"
            )
        if agent.name in self._by_name:
            raise ConfigurationError(f"two agents in the tree are named {agent.name!r}; names must be unique")
        self._parents[id(agent)] = parent
        self._by_name[agent.name] = agent
        for child in agent.sub_agents:
            self._add(child, agent)

    def __contains__(self, agent: Agent) -> bool:
        return id(agent) in self._parents

    def __iter__(self) -> Iterator[Agent]:
        return iter(self._by_name.values())

    def find(self, name: str) -> Agent | None:
        """The agent of that name."""
        return self._by_name.get(name)

    def at(self, path: str) -> Agent | None:
        """The innermost agent that a path names."""
        for segment in reversed(path.split("/")):
            if (agent := self._by_name.get(segment.partition("@")[0])) is not None:
                return agent
        return None

    def parent(self, agent: Agent) -> Agent | None:
        """The parent, None for the root and for strangers."""
        return self._parents.get(id(agent))

    def entry_path(self, agent: Agent) -> str:
        """``root@1/…/agent@1``, where a run that enters at the agent begins (activations §4)."""
        path = self._paths.get(id(agent))
        if path is None:
            names = [agent.name, *(ancestor.name for ancestor in self.ancestors(agent))]
            path = self._paths[id(agent)] = "/".join(f"{name}@1" for name in reversed(names))
        return path

    def ancestors(self, agent: Agent) -> Iterator[Agent]:
        """Parents, nearest first, up to the root."""
        parent = self.parent(agent)
        while parent is not None:
            yield parent
            parent = self.parent(parent)


def as_agent_hint(value: Any) -> str:
    """What to do with something that is no agent but can be made one; the end of an error text."""
    return "; give what its as_agent() returns" if callable(getattr(value, "as_agent", None)) else ""
