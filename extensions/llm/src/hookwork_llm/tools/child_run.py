"""A run inside a tool call: an agent tree over a session of its own that is discarded afterwards (BT-01, BT-04).

It shares with the parent's run what belongs to the caller: user, plugins, ephemeral scope, call counter, usage, models,
artifacts and memory. It is a run like any other (`RunCore`), so every hook of a run is called for it too.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, cast

import msgspec

from hookwork.invocation import Setup, Usage
from hookwork.lifecycle import RunCore
from hookwork.plugins.dispatch import NO_HOOKS
from hookwork.resolve import resolve_session_service
from hookwork.run import Run, read_message
from hookwork_llm.tools.shared_services import ParentArtifacts, ParentMemory

if TYPE_CHECKING:
    from hookwork.agent import AgentTree
    from hookwork.context import ToolContext
    from hookwork.invocation import Invocation
    from hookwork.records.metadata import UsageMetadata
    from hookwork.records.session import Session
    from hookwork.runner import Runner
    from hookwork.services import SessionService

_IDS = uuid.UUID("0b6b3f0e-6f2c-4f0e-9d38-7f4f3a1d2c55")
#: Keys of this prefix are the framework's own and stay with the parent (BT-01).
PRIVATE_PREFIX = "_adk"


class ChildUsage(Usage):
    """The child's usage; each entry counts in the parent's run as well, under the child's name (models USE-2)."""

    __slots__ = ("_name", "_parent")

    def __init__(self, name: str, parent: Usage) -> None:
        super().__init__()
        self._name = name
        self._parent = parent

    def add(self, agent: str, model: str, usage: UsageMetadata | None, calls: int = 1) -> None:
        super().add(agent, model, usage, calls)
        self._parent.add(self._name, model, usage, calls)


def prepared_setup(tree: AgentTree, setup: Setup, *, include_plugins: bool) -> Setup:
    """A child tree prepared with what the parent's runner has. Raises what `Agent.prepare` raises."""
    own = Setup(
        tree=tree,
        resolve=setup.model,  # the parent's runner owns the models and closes them
        model_override=setup.model_override,
        plugins=setup.plugins if include_plugins else (),
        pool=setup.pool,
    )
    own.default_model = setup.default_model
    for agent in tree:
        own.prepared[id(agent)] = agent.prepare(own)
    return own


class ChildSetup:
    """What the child runs of one agent tool share within one parent run."""

    def __init__(self, tree: AgentTree, parent: Invocation, *, include_plugins: bool) -> None:
        self.tree = tree
        self.parent = parent
        self.hooks = parent.hooks if include_plugins else NO_HOOKS
        self.setup = prepared_setup(tree, parent.setup, include_plugins=include_plugins)
        self.artifacts = ParentArtifacts(parent.artifacts, parent) if parent.artifacts is not None else None
        self.memory = ParentMemory(parent.memory, parent) if parent.memory is not None else None


class ChildHost:
    """One child run's runner, as far as a run asks for one. Its sessions are its own and end with it."""

    session_policy = "queue"
    routing = "sticky"
    auto_create_session = True

    def __init__(self, shared: ChildSetup) -> None:
        self.parent = shared.parent
        self.tree = shared.tree
        self.app_name = shared.tree.root.name
        self.hooks = shared.hooks
        self.setup = shared.setup
        self.artifacts = shared.artifacts
        self.memory = shared.memory
        self.sessions, _ = resolve_session_service("memory:")

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Forget the session."""
        await self.sessions.close()

    def remember(self, core: RunCore) -> None:
        """The parent's run ends this one; nobody else has to know of it."""

    def forget(self, core: RunCore) -> None:
        """See `remember`."""

    def run(self, ctx: ToolContext, message: str) -> Run:
        """The run of a tool call. Its ids follow from the call, so that they are the same when it is made again."""
        ids = str(uuid.uuid5(_IDS, ctx.idempotency_key))
        config = msgspec.structs.replace(
            self.parent.config, streaming_mode="none", save_input_blobs_as_artifacts=False, custom_metadata=None
        )
        core = _ChildRun(
            cast("Runner", self),
            user_id=self.parent.user_id,
            session_id=ids,
            message=read_message(message),
            invocation_id=f"e-{ids}",
            rerun=frozenset(),
            state_delta=None,
            config=config,
            ephemeral=self.parent.ephemeral,
            yield_user_message=False,
        )
        core.parent = self.parent
        return Run(core)


class _ChildRun(RunCore):
    """A run that begins with the parent's state and counts with the parent."""

    __slots__ = ("parent",)

    parent: Invocation

    async def _open_session(self, sessions: SessionService) -> Session:
        state: dict[str, Any] = {
            key: value for key, value in self.parent.live.as_dict().items() if not key.startswith(PRIVATE_PREFIX)
        }
        return await sessions.create_session(
            app_name=self.runner.app_name, user_id=self.user_id, session_id=self.session_id, state=state
        )

    async def _begin(self) -> Invocation:
        inv = await super()._begin()
        inv.llm_calls = self.parent.llm_calls
        inv.usage = ChildUsage(self.runner.app_name, self.parent.usage)
        return inv
