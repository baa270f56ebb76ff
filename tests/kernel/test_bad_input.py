"""Bad input gets a typed error that names the thing and the remedy, and nothing is stored (core §8, services GEN-6)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hookwork import (
    Agent,
    App,
    CallbackContext,
    Content,
    Event,
    EventActions,
    FunctionPlugin,
    InvocationContext,
    Part,
    Plugin,
    RunConfig,
    Runner,
    RunOutcome,
    Settings,
    Stage,
    text_content,
    use_extensions,
)
from hookwork.errors import (
    ConfigurationError,
    HookworkError,
    PluginError,
    SessionNotFoundError,
    StateMutationError,
    UnknownModelError,
    UnsupportedInContext,
    ValidationError,
)
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent


async def talk(ctx: InvocationContext) -> AsyncIterator[Event]:
    yield Event(content=text_content("hello"))


async def no_yield(ctx: InvocationContext) -> None:
    return None


def agent(name: str = "root", *children: Agent, **fields: Any) -> Agent:
    return Agent(**{"name": name, "body": talk, "sub_agents": children, **fields})


def runner(*plugins: Any, **options: Any) -> Runner:
    return Runner.in_memory(agent(), plugins=list(plugins), settings=Settings(), **options)


class Quiet(Plugin):
    name = "quiet"

    def before_agent(self) -> None:
        """No opinion."""


class Misspelt(Plugin):
    name = "misspelt"

    def before_agnet(self) -> None:
        """Never called."""


class Stranger(Plugin):
    name = "stranger"

    def before_agent(self, context: Any) -> None:
        """Its parameter is none of the hook's."""


_QUIET = Quiet()
_TWICE = agent("twice")


def _coroutine_subclass() -> Agent:
    class Wrong(Agent):
        async def body(self, ctx: InvocationContext) -> Any:  # type: ignore[override]
            return None

    return Wrong(name="wrong")


Case = tuple[str, Callable[[], Any], type[HookworkError], str]

CONSTRUCTION: list[Case] = [
    # agents and trees
    ("agent name with a blank", lambda: agent("my agent"), ConfigurationError, "'my agent'.*letters, digits"),
    ("empty agent name", lambda: agent(""), ConfigurationError, "name ''.*identifier"),
    ("agent name of a wrong type", lambda: agent(5), ConfigurationError, "name 5"),  # type: ignore[arg-type]
    ("reserved agent name", lambda: agent("user"), ConfigurationError, "'user' is reserved"),
    ("same child twice", lambda: agent("root", _TWICE, _TWICE), ConfigurationError, "'root'.*'twice' twice"),
    ("child that is no agent", lambda: agent(sub_agents=["x"]), ConfigurationError, "'root': 'x' in sub_agents"),
    ("child without a list", lambda: agent(sub_agents=_TWICE), ConfigurationError, r"sub_agents=\[…\]"),
    ("no body", lambda: Agent(name="root"), ConfigurationError, "'root' has no body; pass body="),
    ("body that is no function", lambda: agent(body="x"), ConfigurationError, "'root': body is an async generator"),
    ("body without yield", lambda: agent(body=no_yield), ConfigurationError, "'root' is a coroutine function.*yield"),
    ("body method without yield", _coroutine_subclass, ConfigurationError, "'wrong' is a coroutine function"),
    ("callback that is none", lambda: agent(before_agent=["x"]), ConfigurationError, "'root': before_agent .*'x'"),
    ("callback number", lambda: agent(after_agent=5), ConfigurationError, "'root': after_agent .*5"),
    ("description number", lambda: agent(description=5), ConfigurationError, "'root': description is text"),
    (
        "one name twice in the tree",
        lambda: Runner(agent("root", agent("a", agent("b")), agent("b")), settings=Settings()),
        ConfigurationError,
        "two agents in the tree are named 'b'",
    ),
    (
        "the root's name deeper down",
        lambda: Runner(agent("root", agent("a", agent("root"))), settings=Settings()),
        ConfigurationError,
        "two agents in the tree are named 'root'",
    ),
    (
        "one object at two places",
        lambda: Runner(agent("root", agent("a", _TWICE), agent("b", _TWICE)), settings=Settings()),
        ConfigurationError,
        "'twice' has more than one parent: 'a' and 'b'.*clone",
    ),
    # app and runner
    ("empty app name", lambda: App("", agent()), ConfigurationError, "app name ''.*non-empty"),
    ("app name with a slash", lambda: App("a/b", agent()), ConfigurationError, "'a/b'.*without /"),
    ("app name user", lambda: App("user", agent()), ConfigurationError, "app name 'user'"),
    ("app without an agent", lambda: App("app", "root"), ConfigurationError, "'app': root must be an agent, not str"),  # type: ignore[arg-type]
    ("app plugins no list", lambda: App("app", agent(), plugins=5), PluginError, r"write plugins=\[…\]"),
    ("runner without an agent", lambda: Runner("root"), ConfigurationError, "an agent or an App, not str"),  # type: ignore[arg-type]
    ("unknown routing", lambda: runner(routing="random"), ConfigurationError, "'sticky' or 'root', not 'random'"),
    ("unknown policy", lambda: runner(session_policy="first"), ConfigurationError, "queue, reject, supersede"),
    ("no threads", lambda: runner(tool_threads=0), ConfigurationError, "tool_threads is a whole number from 1, not 0"),
    ("threads text", lambda: runner(tool_threads="x"), ConfigurationError, "tool_threads.*not 'x'"),
    ("close timeout", lambda: runner(plugin_close_timeout=-1), ConfigurationError, "plugin_close_timeout.*not -1"),
    ("config no RunConfig", lambda: runner(config={"a": 1}), ConfigurationError, "config is a RunConfig"),
    ("settings no Settings", lambda: Runner(agent(), settings={}), ConfigurationError, "settings is a Settings"),  # type: ignore[arg-type]
    ("sessions of a wrong type", lambda: runner(sessions=5), ConfigurationError, "sessions takes a URL or a Session"),
    ("unknown URL", lambda: runner(sessions="nope://x"), ConfigurationError, "'nope://x'.*installed schemes.*memory"),
    (
        "unknown model",
        lambda: Runner(LlmAgent(name="root", model="ofline"), settings=Settings()),
        UnknownModelError,
        "'ofline'.*did you mean 'offline'",
    ),
    # settings and run config
    ("unknown setting", lambda: Settings(modle="x"), ConfigurationError, "'modle'.*did you mean 'model'"),
    ("setting of a wrong type", lambda: Settings(model=5), ConfigurationError, "model"),
    ("plugins setting no list", lambda: Settings(plugins=5), ConfigurationError, "plugins"),
    ("streaming mode", lambda: RunConfig(streaming_mode="SSE"), ConfigurationError, "'none' or 'sse', not 'SSE'"),
    ("call limit", lambda: RunConfig(max_llm_calls="9"), ConfigurationError, "max_llm_calls is a whole number"),  # type: ignore[arg-type]
    ("reserved metadata", lambda: RunConfig(custom_metadata={"adk_x": 1}), ConfigurationError, "'adk_x' is reserved"),
    ("metadata key", lambda: RunConfig(custom_metadata={5: 1}), ConfigurationError, "keys are text, not 5"),  # type: ignore[dict-item]
    # plugins
    ("plugin twice", lambda: runner(_QUIET, _QUIET), PluginError, "two plugins are named 'quiet'.*another `name`"),
    ("two of one name", lambda: runner(Quiet(), Quiet()), PluginError, "two plugins are named 'quiet'"),
    ("plugin None", lambda: runner(None), PluginError, "None is not a plugin"),
    ("plugin class", lambda: runner(Quiet), PluginError, r"Quiet is a class; list an object of it: Quiet\("),
    ("misspelt hook", lambda: runner(Misspelt()), PluginError, "'before_agnet'.*did you mean 'before_agent'"),
    ("unknown parameter", lambda: runner(Stranger()), PluginError, "(?s)'stranger'.*before_agent.*context"),
    ("unknown plugin name", lambda: runner("nonesuch"), PluginError, "no installed plugin is named 'nonesuch'"),
    ("plugins no list", lambda: Runner(agent(), plugins="x", settings=Settings()), PluginError, r"plugins=\[…\]"),
    ("sync effect", lambda: runner(FunctionPlugin("p", perform_write=lambda call: None)), PluginError, "be an async"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("build", "kind", "text"), [case[1:] for case in CONSTRUCTION], ids=[c[0] for c in CONSTRUCTION]
)
def test_run_1_what_does_not_fit_together_is_refused_at_construction(
    build: Callable[[], Any], kind: type[HookworkError], text: str
) -> None:
    with pytest.raises(kind, match=text) as raised:
        build()
    assert isinstance(raised.value, ValueError)


RUNS: list[tuple[str, dict[str, Any], type[HookworkError], str]] = [
    ("empty text", {"message": ""}, ValidationError, "message is empty: give text, a file or an answer"),
    ("blank text", {"message": " \n"}, ValidationError, "message is empty"),
    ("no parts", {"message": []}, ValidationError, "message is empty"),
    ("empty part", {"message": Content(role="user", parts=[Part()])}, ValidationError, "message is empty"),
    ("number", {"message": 5}, ValidationError, "text, a Content or a list of Parts, not int"),
    ("bytes", {"message": b"hi"}, ValidationError, "not bytes"),
    ("list of texts", {"message": ["hi"]}, ValidationError, "not list with str"),
    ("dict", {"message": {"text": "hi"}}, ValidationError, "not dict"),
    ("no user", {"user_id": ""}, ValidationError, "user_id is empty"),
    ("user number", {"user_id": 5}, ValidationError, "user_id is text, not int"),
    ("session number", {"session_id": 5}, ValidationError, "session_id is text or None, not int"),
    ("invocation number", {"invocation_id": 5}, ValidationError, "invocation_id is non-empty text"),
    ("empty invocation", {"invocation_id": " "}, ValidationError, "invocation_id is non-empty text"),
    ("rerun text", {"rerun": "c1"}, ValidationError, r"write rerun=\['c1'\]"),
    ("state no mapping", {"state_delta": [1]}, ValidationError, "state_delta is a mapping"),
    ("state object", {"state_delta": {"cart": object()}}, ValidationError, "^cart"),
    ("state nested", {"state_delta": {"cart": {"lines": [1, {2}]}}}, ValidationError, r"^cart\.lines\[1\]"),
    ("state nan", {"state_delta": {"rate": float("nan")}}, ValidationError, "^rate: JSON has no NaN"),
    ("state key", {"state_delta": {5: 1}}, ValidationError, "keys are non-empty text"),
    ("state prefix", {"state_delta": {"user:": 1}}, ValidationError, "'user:' has a scope but no name"),
    ("ephemeral no mapping", {"ephemeral": [1]}, ValidationError, "ephemeral is a mapping"),
    ("ephemeral key", {"ephemeral": {5: 1}}, ValidationError, "ephemeral keys are text"),
    ("config", {"config": "sse"}, ConfigurationError, "config is a RunConfig"),
]


@pytest.mark.parametrize(("arguments", "kind", "text"), [case[1:] for case in RUNS], ids=[case[0] for case in RUNS])
async def test_run_5_bad_arguments_of_a_run_are_refused_and_nothing_is_stored(
    arguments: dict[str, Any], kind: type[HookworkError], text: str
) -> None:
    told: list[Any] = []
    subject = runner(FunctionPlugin("watch", after_run=lambda: told.append(1), on_user_message=lambda: told.append(2)))
    with pytest.raises(kind, match=text):
        subject.run(**{"user_id": "u", "session_id": "s", "message": "hi", **arguments})
    assert await subject.sessions.list_sessions(app_name="root") == []
    assert told == []


async def test_gen_6_the_session_of_another_user_is_not_reached() -> None:
    sessions = InMemorySessionService()
    strict = Runner(agent(), sessions=sessions, auto_create_session=False, settings=Settings())
    await sessions.create_session(app_name="root", user_id="alice", session_id="s", state={"secret": 1})
    with pytest.raises(SessionNotFoundError, match="'s'"):
        await strict.run(user_id="eve", session_id="s", message="hi").wait()
    lenient = Runner(agent(), sessions=sessions, settings=Settings())
    run = lenient.run(user_id="eve", session_id="s", message="hi")
    await run.wait()
    assert run.session is not None
    assert "secret" not in run.session.state
    alice = await sessions.get_session(app_name="root", user_id="alice", session_id="s")
    assert list(alice.events) == []


# --- what a body or a callback may get wrong --------------------------------------------------------------------------


def _writes(value: Any) -> Callable[[CallbackContext], None]:
    def callback(ctx: CallbackContext) -> None:
        ctx.state["good"] = 1
        ctx.state["bad"] = value

    return callback


async def _yields_text(ctx: InvocationContext) -> AsyncIterator[Any]:
    yield "hello"


async def _yields_bad_state(ctx: InvocationContext) -> AsyncIterator[Event]:
    yield Event(actions=EventActions(state_delta={"bad": {1, 2}}))


async def _writes_from_body(ctx: InvocationContext) -> AsyncIterator[Event]:
    ctx.state["bad"] = 1
    yield Event()


async def _changes_in_place(ctx: InvocationContext) -> AsyncIterator[Event]:
    ctx.state["cart"]["lines"].append(1)
    yield Event()


async def _activates_bad_run_id(ctx: InvocationContext) -> AsyncIterator[Event]:
    async for event in ctx.activate(agent("child"), run_id="a/b"):
        yield event


def _returns_text(ctx: CallbackContext) -> Any:
    return "hello"


def _closed_state(ctx: CallbackContext) -> None:
    del ctx.state["cart"]


async def _deletes_from_body(ctx: InvocationContext) -> AsyncIterator[Event]:
    ctx.state.delete("cart")
    yield Event()


FAULTS: list[tuple[str, dict[str, Any], type[HookworkError], str]] = [
    ("body yields text", {"body": _yields_text}, ConfigurationError, "agent 'root' yielded str; yield Event"),
    ("body yields bad state", {"body": _yields_bad_state}, ValidationError, "^bad: JSON cannot hold"),
    ("body writes state", {"body": _writes_from_body}, UnsupportedInContext, "read-only here, so 'bad'"),
    ("body changes in place", {"body": _changes_in_place}, StateMutationError, "cart.*edit"),
    ("body gives a bad run id", {"body": _activates_bad_run_id}, ValidationError, "run id 'a/b' is not free"),
    ("callback writes an object", {"before_agent": _writes(object())}, ValidationError, "^bad: JSON cannot hold"),
    (
        "callback returns text",
        {"before_agent": _returns_text},
        ConfigurationError,
        "before_agent callback returned str",
    ),
    ("callback deletes state", {"before_agent": _closed_state}, StateMutationError, r"ctx.state\['cart'\] = None"),
    ("body deletes state", {"body": _deletes_from_body}, UnsupportedInContext, "read-only here, so 'cart'"),
]


@pytest.mark.parametrize(("fields", "kind", "text"), [case[1:] for case in FAULTS], ids=[case[0] for case in FAULTS])
async def test_faults_of_a_body_or_callback_end_the_run_with_their_name(
    fields: dict[str, Any], kind: type[HookworkError], text: str
) -> None:
    told: list[RunOutcome] = []
    watch = FunctionPlugin("watch", after_run=lambda outcome: told.append(outcome))
    subject = Runner.in_memory(agent(**fields), plugins=[watch], settings=Settings())
    run = subject.run(user_id="u", session_id="s", message="hi", state_delta={"cart": {"lines": []}})
    with pytest.raises(kind, match=text):
        await run.wait()
    session = await subject.sessions.get_session(app_name="root", user_id="u", session_id="s")
    assert [event.author for event in session.events] == ["user"]
    assert dict(session.state) == {"cart": {"lines": []}}
    assert [outcome.kind for outcome in told] == ["failed"]
    assert isinstance(told[0].error, kind)


# --- hooks that raise, or return what they may not, at each call site -------------------------------------------------

#: hook → what is stored by then.
SITES: dict[str, list[str]] = {
    "on_user_message": [],
    "before_run": ["hi"],
    "before_agent": ["hi"],
    "on_event": ["hi"],
    "after_agent": ["hi", "hello"],
}


async def _texts(subject: Runner) -> list[str]:
    session = await subject.sessions.get_session(app_name="root", user_id="u", session_id="s")
    return [event.text for event in session.events if event.content is not None]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("hook", SITES)
async def test_plug_06_a_hook_that_raises_keeps_its_type_and_is_named(hook: str, kind: str) -> None:
    def fail(ctx: Any) -> None:
        raise LookupError("the plugin's own")

    async def fail_async(ctx: Any) -> None:
        raise LookupError("the plugin's own")

    told: list[str] = []
    bad = FunctionPlugin("bad", **{hook: fail if kind == "sync" else fail_async})
    watch = FunctionPlugin("watch", after_run=lambda outcome: told.append(outcome.kind))
    subject = runner(bad, watch)
    with pytest.raises(LookupError, match="the plugin's own") as raised:
        await subject.run(user_id="u", session_id="s", message="hi").wait()
    assert raised.value.__notes__ == [f"raised by plugin 'bad' in {hook!r}"]
    assert told == ["failed"]
    assert await _texts(subject) == SITES[hook]
    again = runner(sessions=subject.sessions)
    assert await again.ask("more", user_id="u", session_id="s") == "hello"  # the session is not harmed


@pytest.mark.parametrize("hook", SITES)
async def test_a_hook_that_returns_a_wrong_type_is_named_and_nothing_of_it_is_stored(hook: str) -> None:
    subject = runner(FunctionPlugin("bad", **{hook: lambda ctx: "text"}))
    wanted = "Event" if hook == "on_event" else "Content"
    text = re.escape(f"plugin 'bad': {hook!r} returned str; return {wanted}, or None")
    with pytest.raises(PluginError, match=text):
        await subject.run(user_id="u", session_id="s", message="hi").wait()
    assert await _texts(subject) == SITES[hook]


@pytest.mark.parametrize("hook", ["after_run", "on_run_error", "on_agent_error", "on_pause"])
async def test_plug_42_an_observer_that_raises_is_logged_and_changes_nothing(
    hook: str, caplog: pytest.LogCaptureFixture
) -> None:
    from hookwork import FunctionCall

    failing = hook in ("on_run_error", "on_agent_error")

    def fail() -> None:
        raise ValueError("observer")

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        if failing:
            raise LookupError("the run's own")
        part = Part(function_call=FunctionCall(id="c1", name="ask", args={}))
        yield Event(content=Content(role="model", parts=[part]), long_running_tool_ids=("c1",))

    plugin = FunctionPlugin("bad", **{hook: fail})
    subject = Runner.in_memory(agent(body=body), plugins=[plugin], settings=Settings())
    run = subject.run(user_id="u", session_id="s", message="hi")
    if failing:
        with pytest.raises(LookupError, match="the run's own"):
            await run.wait()
    else:
        assert (await run.wait()).kind == "paused"
    assert [record.getMessage() for record in caplog.records] == [f"plugin 'bad' raised in {hook!r}; the run goes on"]


@pytest.mark.parametrize("moment", ["entering", "leaving"])
@pytest.mark.parametrize("hook", ["around_run", "around_agent"])
async def test_ard_13_an_around_hook_that_raises_is_named(hook: str, moment: str) -> None:
    @asynccontextmanager
    async def around(ctx: Any, stage: Stage) -> AsyncIterator[None]:
        if moment == "entering":
            raise LookupError("the plugin's own")
        yield
        raise LookupError("the plugin's own")

    told: list[str] = []
    watch = FunctionPlugin("watch", after_run=lambda outcome: told.append(outcome.kind))
    subject = runner(FunctionPlugin("bad", **{hook: around}), watch)
    with pytest.raises(LookupError) as raised:
        await subject.run(user_id="u", session_id="s", message="hi").wait()
    assert raised.value.__notes__ == [f"raised by plugin 'bad' on {moment} {hook}"]
    assert told == ["failed"]
    stored = {"around_run": [], "around_agent": ["hi"]}[hook] if moment == "entering" else ["hi", "hello"]
    assert await _texts(subject) == stored


# --- a broken extension -----------------------------------------------------------------------------------------------


class BrokenExtension:
    """Its provider hook raises whenever it is asked."""

    def create_session_service(self, url: str, settings: Any) -> Any:
        raise OSError("driver is missing")


async def test_bey_4_an_extension_registers_a_scheme_of_its_own() -> None:
    """In place of google-adk's ``services.yaml``: a URL of any scheme, for each of the three kinds of services."""
    from hookwork import hookimpl

    class Redis:
        @hookimpl
        def create_session_service(self, url: str, settings: Any) -> Any:
            return InMemorySessionService() if url.startswith("redis:") else None

    with use_extensions([("redis", Redis())]):
        async with Runner(agent(), sessions="redis://cache/0", settings=Settings()) as runner:
            assert await runner.ask("hi", user_id="u", session_id="s") == "hello"
            assert type(runner.sessions) is InMemorySessionService
        with pytest.raises(ConfigurationError, match="redis"):
            Runner(agent(), sessions="memory:", memory="redis://cache/0", settings=Settings())


def test_ext_a_broken_extension_is_named_and_harms_only_who_needs_it() -> None:
    from hookwork import hookimpl

    class Broken(BrokenExtension):
        create_session_service = hookimpl(BrokenExtension.create_session_service)

    sessions = InMemorySessionService()
    with use_extensions([("broken", Broken())]):
        assert Runner(agent(), sessions=sessions, settings=Settings()).sessions is sessions
        with pytest.raises((HookworkError, OSError), match="driver is missing") as raised:
            Runner(agent(), sessions="other://y", settings=Settings())
    assert "broken" in str(raised.value) + str(getattr(raised.value, "__notes__", ""))
