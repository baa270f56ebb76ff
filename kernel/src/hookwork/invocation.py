"""What all contexts of one run share: identity, services, hooks, live state, counters. Internal to the kit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hookwork.ephemeral import EphemeralScope
from hookwork.errors import ConfigurationError, LlmCallLimitError
from hookwork.plugins.dispatch import NO_HOOKS, Hooks
from hookwork.records.event import Event
from hookwork.records.metadata import UsageMetadata
from hookwork.state import DeltaBuffer, LiveState, Rule

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from hookwork.agent import Agent, AgentTree
    from hookwork.model import Model
    from hookwork.node import Node
    from hookwork.records.content import Content
    from hookwork.records.history import HistoryIndex
    from hookwork.records.session import Session
    from hookwork.services import ArtifactService, MemoryService, SessionService

STREAMING_MODES = ("none", "sse")


class RunConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings of one run (core §6).

    Attributes:
        streaming_mode: ``"none"`` or ``"sse"`` (partial events as the model streams).
        save_input_blobs_as_artifacts: inline data of the message becomes artifacts.
        max_llm_calls: model calls of the invocation, all agents together; 0 or less: unlimited.
        custom_metadata: merged into every event of the run; keys starting ``hookwork_`` or ``adk_`` are refused.
        trace_services: a span for each call of a session, artifact or memory service too, where a tracer is on; without
            it a run has the spans of its agents, models, tools and nodes (crosscutting TEL-13).
    """

    streaming_mode: str = "none"
    save_input_blobs_as_artifacts: bool = False
    max_llm_calls: int = 500
    custom_metadata: dict[str, Any] | None = None
    trace_services: bool = False

    def __post_init__(self) -> None:
        if self.streaming_mode not in STREAMING_MODES:
            raise ConfigurationError(f"streaming_mode is 'none' or 'sse', not {self.streaming_mode!r}")
        if type(self.max_llm_calls) is not int:
            raise ConfigurationError(f"max_llm_calls is a whole number, not {self.max_llm_calls!r}")
        if self.custom_metadata is not None and not isinstance(self.custom_metadata, Mapping):
            raise ConfigurationError(f"custom_metadata is a mapping, not {type(self.custom_metadata).__name__}")
        for key in self.custom_metadata or ():
            if not isinstance(key, str):
                raise ConfigurationError(f"custom_metadata keys are text, not {key!r}")
            if key.startswith(("hookwork_", "adk_")):
                raise ConfigurationError(f"custom_metadata key {key!r} is reserved; use another prefix")


def check_config(config: Any) -> RunConfig:
    """``config`` if it is a RunConfig. Raises ConfigurationError."""
    if not isinstance(config, RunConfig):
        raise ConfigurationError(f"config is a RunConfig, e.g. RunConfig(max_llm_calls=20), not {config!r}")
    return config


class UsageCount(msgspec.Struct, kw_only=True):
    """Summed token counts; None where nothing was reported (models USE-2). ``calls``: model calls."""

    calls: int = 0
    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    total_token_count: int | None = None

    def add(self, usage: UsageMetadata | None, calls: int = 1) -> None:
        """Count one model call, or what is reported of one apart from it (``calls`` 0)."""
        self.calls += calls
        if usage is None:
            return
        for name in _COUNTS:
            value = getattr(usage, name)
            if value is not None:
                setattr(self, name, (getattr(self, name) or 0) + value)


_COUNTS = tuple(name for name in UsageCount.__struct_fields__ if name != "calls")


class Usage:
    """Token usage of a run: ``total``, ``by_agent[name]``, ``by_model[name]``. Summed when it is asked for."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[str, str, UsageMetadata | None, int]] = []

    def add(self, agent: str, model: str, usage: UsageMetadata | None, calls: int = 1) -> None:
        """Count one model call of an agent; ``calls`` 0: tokens of a turn that was counted before (live)."""
        self._entries.append((agent, model, usage, calls))

    @property
    def total(self) -> UsageCount:
        """All model calls of the run."""
        total = UsageCount()
        for _, _, usage, calls in self._entries:
            total.add(usage, calls)
        return total

    @property
    def by_agent(self) -> dict[str, UsageCount]:
        """Agent name → its model calls."""
        return self._by(0)

    @property
    def by_model(self) -> dict[str, UsageCount]:
        """Model name → the calls it answered."""
        return self._by(1)

    def _by(self, position: int) -> dict[str, UsageCount]:
        counts: dict[str, UsageCount] = {}
        for entry in self._entries:
            counts.setdefault(str(entry[position]), UsageCount()).add(entry[2], entry[3])
        return counts

    def __repr__(self) -> str:
        return f"Usage(total={self.total!r})"


class Invocation:
    """One run's shared part. Contexts hold it; nothing of it is copied when a context is derived (core CTX-5)."""

    __slots__ = (
        "app_name",
        "artifacts",
        "briefs",
        "checked",
        "compaction",
        "config",
        "cut_failures",
        "end_reason",
        "ended",
        "entered",
        "ephemeral",
        "hooks",
        "in_flight",
        "invocation_id",
        "kept",
        "kept_at",
        "known",
        "live",
        "llm_calls",
        "memory",
        "nodes",
        "prepared",
        "rerun",
        "run",
        "session",
        "session_id",
        "sessions",
        "setup",
        "tracer",
        "undoable",
        "unsettled",
        "usage",
        "user_content",
        "user_id",
        "user_messages",
    )

    def __init__(
        self,
        *,
        app_name: str,
        user_id: str,
        session: Session,
        invocation_id: str,
        sessions: SessionService | None = None,
        artifacts: ArtifactService | None = None,
        memory: MemoryService | None = None,
        hooks: Hooks = NO_HOOKS,
        config: RunConfig | None = None,
        ephemeral: EphemeralScope | Mapping[str, Any] | None = None,
        user_content: Content | None = None,
        setup: Setup | None = None,
        known: bool = False,
        rerun: frozenset[str] = frozenset(),
        tracer: Any = None,
        run: Any = None,
    ) -> None:
        self.app_name = app_name
        self.user_id = user_id
        self.session = session
        self.session_id = session.id
        self.invocation_id = invocation_id
        self.sessions = sessions
        self.artifacts = artifacts
        self.memory = memory
        self.hooks = hooks
        self.config = config if config is not None else RunConfig()
        self.ephemeral = ephemeral if isinstance(ephemeral, EphemeralScope) else EphemeralScope(ephemeral)
        self.user_content = user_content
        self.setup = setup if setup is not None else Setup()
        self.live = LiveState(session, self.setup.state_check, self.setup.state_rules)
        #: whether the invocation had events before this run; without, no place can have a record.
        self.known = known
        self.rerun = rerun
        self.tracer = tracer
        self.run = run
        self.ended = False
        self.end_reason = ""
        self.llm_calls = [0]
        self.usage = Usage()
        self.user_messages = 1
        #: places that were entered in this run.
        self.entered: set[str] = set()
        #: event id → buffers whose writes the event carries away when it leaves (core DLT-5).
        self.unsettled: dict[str, list[DeltaBuffer]] = {}
        #: long-running calls whose body runs now: call id → the model event that made it (core HND-5).
        self.in_flight: dict[str, tuple[Event, Any]] = {}
        #: failures of nodes that were being ended, see `hookwork.node_cuts`; None: none.
        self.cut_failures: list[Any] | None = None
        #: what the runner's compaction remembers of this run (core CMP-5).
        self.compaction: Any = None
        self.prepared: dict[int, Any] = {}
        #: id of an agent → the agent and the node that bodies of this run start it as.
        self.nodes: dict[int, tuple[Agent, Node]] = {}
        #: ids of events whose writes were checked against the state schema of a workflow.
        self.checked: set[str] = set()
        #: path → node, of nodes that bodies started and that can be undone.
        self.undoable: dict[str, Node] = {}
        #: isolation scope → the input of the node that works in it, the first thing that its agent is told.
        self.briefs: dict[str, Any] = {}
        #: what `View.kept` found out, and at how many events; good until the next one is stored (ACT-6).
        self.kept: dict[Any, Any] = {}
        self.kept_at = -1

    def history(self) -> HistoryIndex:
        """The index at the session handle's range."""
        return self.session.history()

    def attach(self, event: Event, *buffers: DeltaBuffer) -> Event:
        """Let an event carry the writes of ``buffers`` away; returns the event."""
        full = [buffer for buffer in buffers if buffer]
        if full:
            self.unsettled.setdefault(event.id, []).extend(full)
        return event

    def count_llm_call(self) -> None:
        """Count a model call that is about to be made (core FLOW-4)."""
        limit = self.config.max_llm_calls
        self.llm_calls[0] += 1
        if 0 < limit < self.llm_calls[0]:
            raise LlmCallLimitError(
                f"the invocation made {limit} model calls, the limit of RunConfig.max_llm_calls; raise the limit, or "
                "look for agents that call or transfer to each other in circles"
            )

    def prepared_for(self, agent: Agent) -> Any:
        """What `Agent.prepare` gave for an agent: from the runner, or made now for one outside its tree."""
        key = id(agent)
        prepared = self.setup.prepared.get(key)
        if prepared is None:
            prepared = self.prepared.get(key)
            if prepared is None:
                prepared = self.prepared[key] = agent.prepare(self.setup)
        return prepared

    def memory_service(self) -> MemoryService:
        """The memory service, or a clear error."""
        if self.memory is None:
            raise ConfigurationError(
                "this runner has no memory service; give it one, e.g. Runner(..., memory='memory:')"
            )
        return self.memory


class Setup:
    """What an agent may ask for when a runner is built (`Agent.prepare`).

    ``tree`` is None outside a runner. ``plugins`` are the runner's plugin objects, in order. ``model_override``
    replaces every agent's model; ``default_model`` is for agents that have none. ``compaction`` is what
    ``events_compaction`` was bound to, None when history is not compacted (core §3.5). ``state_check`` and
    ``state_rules`` are what the app's ``state_schema`` and ``state_merge`` say (`hookwork.state.LiveState`).
    """

    __slots__ = (
        "_resolve",
        "compaction",
        "default_model",
        "model_override",
        "models",
        "plugins",
        "pool",
        "prepared",
        "state_check",
        "state_rules",
        "tree",
    )

    def __init__(
        self,
        *,
        tree: AgentTree | None = None,
        resolve: Callable[[str], Model] | None = None,
        model_override: Any = None,
        plugins: tuple[Any, ...] = (),
        pool: Callable[[], Executor] | None = None,
    ) -> None:
        self.tree = tree
        self.plugins = plugins
        self.model_override = model_override
        self.default_model: str | None = None
        self.state_check: Callable[[str, Any], None] | None = None
        self.state_rules: Mapping[str, Rule] | None = None
        self.compaction: Any = None
        self.pool = pool
        self.models: dict[str, Model] = {}
        self.prepared: dict[int, Any] = {}
        self._resolve = resolve

    def model(self, name: str) -> Model:
        """The model of that name, one object per runner. Raises UnknownModelError."""
        model = self.models.get(name)
        if model is None:
            if self._resolve is None:
                from hookwork.resolve import resolve_model

                model = resolve_model(name)
            else:
                model = self._resolve(name)
            self.models[name] = model
        return model
