"""Runner: runs an app over sessions (core §3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from hookwork.agent import Agent, AgentTree, as_agent_hint
from hookwork.app import App, check_app_name
from hookwork.closing import Closing
from hookwork.ephemeral import EphemeralScope
from hookwork.errors import ConfigurationError, PluginError, RunPaused, RunStateError, ValidationError
from hookwork.invocation import RunConfig, Setup, check_config
from hookwork.lifecycle import RunCore
from hookwork.platform import new_uuid
from hookwork.plugins.dispatch import Hooks
from hookwork.policy import check_policy
from hookwork.records.content import Content, Part
from hookwork.records.event import frozen_delta
from hookwork.run import Run, RunOutcome, read_message

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from hookwork.blocking import LoopThread, SyncRun
    from hookwork.erasing import ErasedUser
    from hookwork.live import LiveRunConfig
    from hookwork.live_run import LiveRun
    from hookwork.model import ModelRequest
    from hookwork.records.history import Call
    from hookwork.records.session import Session
    from hookwork.services import ArtifactService, MemoryService, SessionService
    from hookwork.settings import Settings

ROUTINGS = ("sticky", "root")
#: Seconds each toolset may take to close (core RUN-26).
TOOLSET_CLOSE_TIMEOUT = 10.0

__all__ = ["Run", "RunConfig", "RunOutcome", "Runner"]


class Runner:
    """Runs one app. Construction checks everything and does no I/O but reading the nearest configuration.

    Args:
        agent_or_app: the root agent, or an App.
        app_name: identity for all services; default the App's name, else the root's.
        sessions, artifacts, memory: service objects (they stay yours) or URLs (opened on demand, closed with the
            runner); default the App's, the settings', then ``memory:`` for sessions and none for the others.
        plugins: lifecycle plugins, in order: objects or names; default the App's, else the settings'.
        model: replaces the model of every agent in the tree; an object or a name.
        auto_create_session: create a session that does not exist.
        session_policy: what a second run on one session does: ``queue``, ``reject`` or ``supersede``.
        routing: ``sticky`` (a conversation stays with the helper it was handed to) or ``root``.
        config: default RunConfig of runs.
        events_compaction: how long histories are summarised, e.g. ``hookwork_llm.EventsCompaction(...)``; default the
            App's, else not at all.
        settings: instead of the nearest configuration.
        plugin_close_timeout: seconds each plugin may take to close.
        tool_threads: threads for blocking tools.

    Raises:
        ConfigurationError, UnknownModelError, PluginError: what does not fit together, named.
    """

    def __init__(
        self,
        agent_or_app: Agent | App,
        *,
        app_name: str | None = None,
        sessions: Any = None,
        artifacts: Any = None,
        memory: Any = None,
        plugins: Iterable[Any] | None = None,
        model: Any = None,
        plugin_close_timeout: float = 5.0,
        auto_create_session: bool = True,
        session_policy: str = "queue",
        routing: str = "sticky",
        config: RunConfig | None = None,
        events_compaction: Any = None,
        settings: Settings | None = None,
        tool_threads: int = 64,
    ) -> None:
        from hookwork import resolve
        from hookwork.settings import Settings

        app = agent_or_app if isinstance(agent_or_app, App) else None
        root = app.root if app is not None else agent_or_app
        if not isinstance(root, Agent):
            raise ConfigurationError(
                f"a Runner needs an agent or an App, not {type(root).__name__}{as_agent_hint(root)}"
            )
        self.settings = Settings.load() if settings is None else settings
        if not isinstance(self.settings, Settings):
            raise ConfigurationError(f"settings is a Settings object, e.g. Settings(model='offline'), not {settings!r}")
        self.app_name = app_name or (app.name if app is not None else root.name)
        check_app_name(self.app_name)
        self.session_policy = check_policy(session_policy)
        if routing not in ROUTINGS:
            raise ConfigurationError(f"routing is 'sticky' or 'root', not {routing!r}")
        self.routing = routing
        self.auto_create_session = auto_create_session
        if type(tool_threads) is not int or tool_threads < 1:
            raise ConfigurationError(f"tool_threads is a whole number from 1, not {tool_threads!r}")
        if type(plugin_close_timeout) not in (int, float) or not plugin_close_timeout > 0:
            raise ConfigurationError(f"plugin_close_timeout is a number of seconds, not {plugin_close_timeout!r}")
        self.plugin_close_timeout = plugin_close_timeout
        chosen_config = config if config is not None or app is None else app.config
        self.config = RunConfig() if chosen_config is None else check_config(chosen_config)
        self.tree = AgentTree(root)
        resolve.check_tables(self.settings)
        self.plugins = tuple(resolve.resolve_plugins(_chosen_plugins(plugins, app, self.settings), self.settings))
        self.hooks = Hooks(self.plugins)
        self._services = self._resolved_services(app, sessions=sessions, artifacts=artifacts, memory=memory)
        self.setup = self._set_up(app, model, events_compaction)
        self._live: set[RunCore] = set()
        self._closed = False
        self._threads = tool_threads
        self._pool: ThreadPoolExecutor | None = None
        self._sync_loop: LoopThread | None = None

    def _set_up(self, app: App | None, model: Any, events_compaction: Any) -> Setup:
        """What all runs share; every agent is prepared, so that what does not fit together is told at once."""
        from hookwork import resolve

        setup = Setup(
            tree=self.tree,
            resolve=lambda name: resolve.resolve_model(name, self.settings),
            model_override=model,
            plugins=self.plugins,
            pool=self._thread_pool,
        )
        setup.default_model = self.settings.model
        if app is not None:
            setup.state_check, setup.state_rules = app.state_check(), app.state_rules()
        if events_compaction is None and app is not None:
            events_compaction = app.events_compaction
        if events_compaction is not None:
            setup.compaction = _bound(events_compaction, setup, self.settings)
        for agent in self.tree:
            setup.prepared[id(agent)] = agent.prepare(setup)
        return setup

    @classmethod
    def in_memory(cls, agent_or_app: Agent | App, **options: Any) -> Self:
        """A runner with all three services in memory (RUN-2)."""
        return cls(agent_or_app, **{"sessions": "memory:", "artifacts": "memory:", "memory": "memory:", **options})

    @property
    def sessions(self) -> SessionService:
        """The session service."""
        return self._services["sessions"][0]  # type: ignore[no-any-return]

    @property
    def artifacts(self) -> ArtifactService | None:
        """The artifact service, if any."""
        return self._services["artifacts"][0] if "artifacts" in self._services else None

    @property
    def memory(self) -> MemoryService | None:
        """The memory service, if any."""
        return self._services["memory"][0] if "memory" in self._services else None

    def _thread_pool(self) -> ThreadPoolExecutor:
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix=f"hookwork-{self.app_name}")
        return self._pool

    def _resolved_services(self, app: App | None, **given: Any) -> dict[str, tuple[Any, bool]]:
        """Kind → (service, whether this runner built it), from argument, App or settings."""
        from hookwork import resolve

        services: dict[str, tuple[Any, bool]] = {}
        for kind, wanted in given.items():
            if wanted is None and app is not None:
                wanted = getattr(app, kind)
            if wanted is None:
                wanted = getattr(self.settings, kind)
            if wanted is not None or kind == "sessions":
                services[kind] = getattr(resolve, f"resolve_{_SERVICE_KINDS[kind]}")(wanted, self.settings)
        return services

    # --- running ------------------------------------------------------------------------------------------------------

    def run(
        self,
        *,
        user_id: str,
        session_id: str | None = None,
        message: str | Content | Iterable[Part] | None = None,
        invocation_id: str | None = None,
        rerun: Iterable[str] = (),
        state_delta: Mapping[str, Any] | None = None,
        config: RunConfig | None = None,
        ephemeral: Mapping[str, Any] | None = None,
        yield_user_message: bool = False,
    ) -> Run:
        """One run as a handle; nothing happens before it is iterated (RUN-3).

        ``session_id`` None: a new session. ``invocation_id``: continue that invocation. ``state_delta``: written with
        the message. ``ephemeral``: values that tools and hooks can read and that are never stored.

        Raises:
            ValidationError: an empty message, a bad id, a value that state cannot hold.
            RunStateError: the runner is closed.
        """
        self._check_ids(user_id, session_id)
        if invocation_id is not None and (not isinstance(invocation_id, str) or not invocation_id.strip()):
            raise ValidationError(
                f"invocation_id is non-empty text or None, not {invocation_id!r}", path="invocation_id"
            )
        if isinstance(rerun, str):
            raise ValidationError(f"rerun is a list of call ids; write rerun=[{rerun!r}]", path="rerun")
        if state_delta is not None:
            _check_mapping("state_delta", state_delta)
            if self.setup.state_check is not None:
                for name, value in frozen_delta(state_delta).items():
                    self.setup.state_check(name, value)
        if ephemeral is not None:
            _check_mapping("ephemeral", ephemeral)
        content = read_message(message)
        core = RunCore(
            self,
            user_id=user_id,
            session_id=(session_id or "").strip() or new_uuid(),
            message=content,
            invocation_id=invocation_id,
            rerun=frozenset(rerun),
            state_delta=frozen_delta(state_delta) if state_delta else None,
            config=self.config if config is None else check_config(config),
            ephemeral=EphemeralScope(ephemeral),
            yield_user_message=yield_user_message,
        )
        return Run(core)

    def run_live(
        self,
        *,
        user_id: str,
        session_id: str | None = None,
        config: LiveRunConfig | None = None,
        ephemeral: Mapping[str, Any] | None = None,
    ) -> LiveRun:
        """A live (bidirectional) run as a handle that takes input while it is iterated (core LIVE-1).

        ``config``: the `LiveRunConfig`, required. ``session_id`` and ``ephemeral`` as for `run`.

        Raises:
            ConfigurationError: no live config. ValidationError, RunStateError: as for `run`.
        """
        from hookwork.live_run import start_live_run

        self._check_ids(user_id, session_id)
        if ephemeral is not None:
            _check_mapping("ephemeral", ephemeral)
        session_id = (session_id or "").strip() or new_uuid()
        return start_live_run(self, user_id=user_id, session_id=session_id, config=config, ephemeral=ephemeral)

    def _check_ids(self, user_id: Any, session_id: Any) -> None:
        """Refuse a run before it exists: the runner is closed, or an id is no id."""
        if self._closed:
            raise RunStateError("the runner is closed; build a new one")
        if not isinstance(user_id, str):
            raise ValidationError(f"user_id is text, not {type(user_id).__name__}", path="user_id")
        if not user_id.strip():
            raise ValidationError("user_id is empty; every run belongs to a user", path="user_id")
        if session_id is not None and not isinstance(session_id, str):
            raise ValidationError(f"session_id is text or None, not {type(session_id).__name__}", path="session_id")

    async def ask(self, message: str | Content | Iterable[Part] | None = None, **arguments: Any) -> str:
        """The text of a run's final event, ``""`` if it has none (RUN-4). ``user_id`` defaults to ``"user-1"``.

        Raises:
            RunPaused: the run waits for answers; ``error.outcome`` lists them.
        """
        arguments.setdefault("user_id", "user-1")
        async with self.run(message=message, **arguments) as run:
            outcome = await run.wait()
        if outcome.kind == "paused":
            waiting = ", ".join(f"{call.name} ({call.id})" for call in outcome.open_calls)
            raise RunPaused(f"the run waits for: {waiting or 'an answer to a delegated task'}", outcome)
        return outcome.final_event.text if outcome.final_event is not None else ""

    def run_sync(self, **arguments: Any) -> SyncRun:
        """The blocking twin of `run`: a plain iterator with ``.outcome``, driven on the runner's own loop thread.

        A blocking tool that calls it keeps its own thread of ``tool_threads`` meanwhile; where every thread waits for
        such a run, none is left for that run's blocking tools. Make such a tool async, or raise ``tool_threads``.

        Raises:
            RuntimeError: inside a running event loop; use `run` there.
            RunStateError: the runner is closed.
        """
        if self._closed:
            raise RunStateError("the runner is closed; build a new one")
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise RuntimeError(
                "run_sync was called inside a running event loop; use `async for event in runner.run(...)`"
            )
        from hookwork.blocking import LoopThread, SyncRun

        if self._sync_loop is None:
            self._sync_loop = LoopThread()
        return SyncRun(self, self._sync_loop, arguments)

    async def run_debug(self, message: str, *, user_id: str = "debug_user", session_id: str = "debug_session") -> None:
        """Print a readable transcript of one turn of a fixed user and session."""
        print(f"{user_id} -> {message}")
        async with self.run(user_id=user_id, session_id=session_id, message=message) as run:
            async for event in run:
                if event.partial:
                    continue
                for call in event.function_calls:
                    print(f"{event.author} calls {call.name}({dict(call.args or {})})")
                for response in event.function_responses:
                    print(f"{event.author} got {response.name}: {response.response}")
                if event.text:
                    print(f"{event.author} -> {event.text}")
        print(f"[{run.outcome}]")

    async def open_calls(self, *, user_id: str, session_id: str) -> list[Call]:
        """What a session waits for, in order of raising (PND-5)."""
        await self.open()
        session = await self.sessions.get_session(app_name=self.app_name, user_id=user_id, session_id=session_id)
        return list(session.open_calls.values())

    async def rewind(self, *, user_id: str, session_id: str, before_invocation_id: str) -> Session:
        """Go back to before an invocation: it and what followed is hidden, state and files are put back (REW-1).

        Raises:
            InvocationNotFoundError: the session shows no event of that invocation.
        """
        from hookwork.rewind import rewind

        return await rewind(self, user_id=user_id, session_id=session_id, before_invocation_id=before_invocation_id)

    @property
    def live_runs(self) -> Iterable[RunCore]:
        """The runs that are under way."""
        return tuple(self._live)

    async def delete_user(self, user_id: str) -> ErasedUser:
        """Erase a user of this app: sessions, the user's state, memories and files, on all services of this runner.

        A second call finds nothing and is no error. What the app keeps for all users stays.

        Raises:
            SessionBusyError: this runner has a run of the user under way; nothing was erased.
            PartlyErasedError: a service cannot erase all; it says what is gone and what is left.
        """
        from hookwork.erasing import erase_user_of

        return await erase_user_of(self, user_id)

    async def preview(
        self,
        message: str | Content | Iterable[Part] | None = None,
        *,
        user_id: str = "user-1",
        session_id: str | None = None,
        config: RunConfig | None = None,
    ) -> ModelRequest:
        """The request that a turn with this message would send first; no model is called and nothing is stored.

        Plugins' hooks are not run. Raises UnsupportedOperationError when the agent that would hear it has no model.
        """
        from hookwork.remote import preview

        content = read_message(message)
        return await preview(
            self, user_id=user_id, session_id=session_id, message=content, config=config or self.config
        )

    async def carry_out(self, call: Mapping[str, Any], *, ephemeral: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Carry out an effect that was described elsewhere (`EffectCall.to_json`), and give its result as JSON.

        Agent, tool and model are looked up by name in this runner. The code sees the call's state and this runner's
        services, no history; no hooks run (tools-plugins EFF-10).

        Raises:
            ConfigurationError: this runner knows no such agent, tool or operation.
        """
        from hookwork.remote import carry_out

        return await carry_out(self, call, ephemeral)

    # --- life ---------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open services made from URLs; called by `async with` and by the first run."""
        if self._closed:
            raise RunStateError("the runner is closed; build a new one")

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            await self.close()
        except ExceptionGroup as failures:
            if error is None:
                raise
            # The first error says why; what then could not be closed either must not stand in front of it.
            error.add_note(f"{failures.message}: {'; '.join(map(str, failures.exceptions))}")

    def remember(self, core: RunCore) -> None:
        """A run began."""
        self._live.add(core)

    def forget(self, core: RunCore) -> None:
        """A run is over."""
        self._live.discard(core)

    async def close(self) -> None:
        """Stop and await running runs, then close toolsets, plugins, models and the services made here (RUN-26).

        Idempotent. Failures are collected and raised together after everything was tried.

        Raises:
            ExceptionGroup: what failed. RuntimeError: called from inside a run; nothing was closed.
        """
        if self._closed:
            return
        if any(core.runs_inside_caller() for core in self._live):
            raise RuntimeError("runner.close() was called from inside one of its runs; close it from outside")
        self._closed = True
        closing = Closing()
        # Those that wait for a session go first, lest they begin when its holder is gone.
        for core in sorted(self._live, key=lambda core: core.inv is not None):
            await closing.attempt(f"run on session {core.session_id!r}", partial(_stop_run, core), None)
        toolsets = {id(closable): closable for agent in self.tree for closable in agent.closables()}
        for toolset in toolsets.values():
            await closing.attempt(f"toolset {_name_of(toolset)}", toolset.close, TOOLSET_CLOSE_TIMEOUT)
        for call, name in self.hooks.close:
            await closing.attempt(f"plugin {name!r}", call, self.plugin_close_timeout)
        for name, model in self.setup.models.items():
            await closing.attempt(f"model {name!r}", model.close, self.plugin_close_timeout)
        for kind, (service, owned) in self._services.items():
            if owned:
                await closing.attempt(kind, service.close, self.plugin_close_timeout)
        if self._sync_loop is not None:
            self._sync_loop.end()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        closing.raise_failures(self.app_name)


def _chosen_plugins(given: Any, app: App | None, settings: Settings) -> list[Any]:
    chosen = given if given is not None else app.plugins if app is not None and app.plugins else settings.plugins
    if isinstance(chosen, str) or not isinstance(chosen, Iterable):
        raise PluginError(f"plugins is a list of plugin objects and names, not {chosen!r}; write plugins=[…]")
    return list(chosen)


def _bound(compaction: Any, setup: Setup, settings: Settings) -> Any:
    """What compacts this runner's sessions: an object with ``after_run(ctx, outcome)`` (core §3.5)."""
    bind = getattr(compaction, "bind", None)
    if not callable(bind):
        raise ConfigurationError(
            f"events_compaction is an EventsCompaction (hookwork_llm), or has a method bind(setup, settings); got "
            f"{compaction!r}"
        )
    return bind(setup, settings)


_SERVICE_KINDS = {"sessions": "session_service", "artifacts": "artifact_service", "memory": "memory_service"}


def _check_mapping(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ValidationError(f"{name} is a mapping of names to values, not {type(value).__name__}", path=name)


def _name_of(closable: Any) -> str:
    return repr(getattr(closable, "name", None) or type(closable).__name__)


async def _stop_run(core: RunCore) -> None:
    """Stop a run, on its own loop."""
    if core.loop is None or core.loop is asyncio.get_running_loop():
        await core.stop("the runner was closed")
    else:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(core.stop("the runner was closed"), core.loop))
