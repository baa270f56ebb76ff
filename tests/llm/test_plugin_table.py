"""The short-circuit table of tools-plugins §7, for every value hook and each of: no opinion, a value, a raise.

The cases are made from the kernel's table of hooks, so a hook that is added there needs a row here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from hookwork.context import ToolContext
from hookwork.hookspecs.table import LIFECYCLE_HOOKS, Rule
from hookwork.plugins.plugin import Plugin
from hookwork.records.content import Content, Part, text_content
from hookwork.records.event import Event
from hookwork.records.metadata import ModelResponse
from hookwork_llm import LlmAgent
from hookwork_llm.functions import tool
from hookwork_testkit import ScriptedModel, call

#: Nodes come with graphs; their rows belong to the tests of the workflow distribution.
NODE_HOOKS = {"before_node", "after_node", "on_node_error", "around_node", "perform_node"}
FIRST_HOOKS = [h for h, (rule, _) in LIFECYCLE_HOOKS.items() if rule is Rule.FIRST and h not in NODE_HOOKS]
NOTIFY_HOOKS = [h for h, (rule, _) in LIFECYCLE_HOOKS.items() if rule is Rule.NOTIFY]
#: Where the agent has callbacks of its own.
STAGES = (
    "before_agent", "after_agent",
    "before_model", "after_model", "on_model_error",
    "before_tool", "after_tool", "on_tool_error",
)  # fmt: skip

MODES = ("none", "value", "raise")


class Refused(Exception):
    """Raised by the hook under test."""


class Failure(Exception):
    """Raised by the model or the tool, to get an error hook called."""


def value_of(hook: str, values: tuple[Any, ...]) -> Any:
    if hook == "on_user_message":
        return Content(role="user", parts=[Part(text="replaced message")])
    if hook == "on_event":
        event: Event = values[1]
        return event.replace(content=text_content("replaced event")) if event.text else None
    if hook in ("before_run", "before_agent", "after_agent"):
        return text_content(f"{hook} value")
    if hook in ("before_model", "after_model", "on_model_error"):
        return ModelResponse(content=text_content(f"{hook} value"))
    return {"by": hook}


class Subject(Plugin):
    """Implements the hook under test, once per run: with a value, a raise or no opinion."""

    name = "subject"

    def __init__(self, hook: str, mode: str, log: list[str]) -> None:
        async def implementation(*values: Any) -> Any:
            if not log or not log.count(f"subject {hook}"):
                log.append(f"subject {hook}")
                if mode == "raise":
                    raise Refused(hook)
                if mode == "value":
                    return value_of(hook, values)
            return None

        setattr(self, hook, _with_parameters(hook, implementation))


def _with_parameters(hook: str, implementation: Any) -> Any:
    """A function with the hook's own parameter names, as plugins write them."""
    parameters = ", ".join(LIFECYCLE_HOOKS[hook][1])
    namespace: dict[str, Any] = {"implementation": implementation}
    exec(f"async def {hook}({parameters}):\n    return await implementation({parameters})", namespace)
    return namespace[hook]


class Later(Plugin):
    """Listed after the subject; notes which of its hooks are called, and the outcomes its around hooks see."""

    name = "later"

    def __init__(self, log: list[str], seen: list[tuple[str, str, str, str]]) -> None:
        for hook in (*FIRST_HOOKS, *NOTIFY_HOOKS):
            if hook not in NODE_HOOKS:
                setattr(self, hook, _with_parameters(hook, self._noting(hook, log)))
        self._seen = seen

    @staticmethod
    def _noting(hook: str, log: list[str]) -> Any:
        async def note(*values: Any) -> None:
            log.append(f"later {hook}")

        return note

    @asynccontextmanager
    async def around_run(self, stage: Any) -> AsyncIterator[None]:
        async with self._around(stage):
            yield

    @asynccontextmanager
    async def around_agent(self, stage: Any) -> AsyncIterator[None]:
        async with self._around(stage):
            yield

    @asynccontextmanager
    async def around_model(self, stage: Any) -> AsyncIterator[None]:
        async with self._around(stage):
            yield

    @asynccontextmanager
    async def around_tool(self, stage: Any) -> AsyncIterator[None]:
        async with self._around(stage):
            yield

    @asynccontextmanager
    async def _around(self, stage: Any) -> AsyncIterator[None]:
        try:
            yield
        finally:
            outcome = stage.outcome
            self._seen.append((stage.kind, _shown(outcome.value), _shown(outcome.error), outcome.source))


def _shown(value: Any) -> str:
    if isinstance(value, ModelResponse):
        return value.text
    if isinstance(value, BaseException):
        return type(value).__name__
    if hasattr(value, "kind"):
        return str(value.kind)
    if hasattr(value, "status"):
        return str(value.status)
    return "" if value is None else str(value)


class Result(NamedTuple):
    """What happened: the plugins' and the agent's log, the around hooks' view, the store, how the run ended."""

    log: list[str]
    seen: dict[str, list[tuple[str, str, str]]]
    stored: list[str]
    yielded: list[str]
    kind: str
    error: str


async def run_case(runner_factory: Any, hook: str, mode: str, unknown_tool: bool = False) -> Result:
    log: list[str] = []
    seen: list[tuple[str, str, str, str]] = []

    @tool(name="t")
    async def body(ctx: ToolContext) -> dict[str, Any]:
        """Do it."""
        log.append("tool")
        if hook == "on_tool_error" and not unknown_tool:
            raise Failure("tool")
        return {"by": "tool"}

    def model_turn(request: Any) -> Any:
        log.append("model")
        if hook == "on_model_error" and log.count("model") == 1:
            return Failure("model")
        if hook in ("before_tool", "after_tool", "on_tool_error") and log.count("model") == 1:
            return call("gone" if unknown_tool else "t", "c1")
        return "model text"

    callbacks: dict[str, Any] = {stage: _agent_callback(stage, log) for stage in STAGES}
    agent = LlmAgent(name="a", model=ScriptedModel(model_turn), tools=[body], **callbacks)
    error = ""
    yielded: list[str] = []
    async with runner_factory(agent, plugins=[Subject(hook, mode, log), Later(log, seen)]) as runner:
        async with runner.run(user_id="u", session_id="s", message="hi") as run:
            try:
                async for event in run:
                    yielded.append(_of(event))
            except (Refused, Failure) as raised:
                error = type(raised).__name__
        session = await runner.sessions.get_session(app_name="a", user_id="u", session_id="s")
        kind = run.outcome.kind
    grouped: dict[str, list[tuple[str, str, str]]] = {}
    for stage, value, failed, source in seen:
        grouped.setdefault(stage, []).append((value, failed, source))
    return Result(log, grouped, [_of(event) for event in session.events], yielded, kind, error)


def _agent_callback(stage: str, log: list[str]) -> Any:
    def callback(*values: Any) -> None:
        log.append(f"agent {stage}")

    return callback


def _of(event: Event) -> str:
    words = [event.text] if event.text else []
    words += [f"+{c.name}" for c in event.function_calls]
    words += [f"-{r.name} {dict(r.response or {})}" for r in event.function_responses]
    return f"{event.author}: {' '.join(words)}"


class Row(NamedTuple):
    """What the table says. ``stored``: texts of the store's events. ``around``: stage → (value, error, source)."""

    stored: list[str]
    error: str = ""
    runs: tuple[str, ...] = ()
    skips: tuple[str, ...] = ()
    around: tuple[str, tuple[str, str, str]] | None = None


USER = "user: hi"
TEXT = "a: model text"
CALL = "a: +t"
RESULT = "a: -t {'by': 'tool'}"
FAILED = "a: -t {'error': 'Failure: tool'}"

TABLE: dict[tuple[str, str], Row] = {
    ("on_user_message", "none"): Row([USER, TEXT], runs=("later on_user_message", "later before_run", "model")),
    ("on_user_message", "value"): Row(
        ["user: replaced message", TEXT], runs=("later before_run", "model"), skips=("later on_user_message",)
    ),
    ("on_user_message", "raise"): Row(
        [],
        error="Refused",
        runs=("later on_run_error", "later after_run"),
        skips=("later on_user_message", "later before_run", "model"),
        around=("run", ("failed", "Refused", "default")),
    ),
    ("before_run", "none"): Row([USER, TEXT], runs=("later before_run", "model", "later after_run")),
    ("before_run", "value"): Row(
        [USER, "a: before_run value"],
        runs=("later on_event", "later after_run"),
        skips=("later before_run", "later before_agent", "agent before_agent", "model"),
        around=("run", ("completed", "", "subject")),
    ),
    ("before_run", "raise"): Row(
        [USER],
        error="Refused",
        runs=("later on_run_error", "later after_run"),
        skips=("later before_run", "later on_event", "model"),
        around=("run", ("failed", "Refused", "default")),
    ),
    ("on_event", "none"): Row([USER, TEXT], runs=("later on_event",)),
    ("on_event", "value"): Row([USER, "a: replaced event"], runs=("later after_run",), skips=("later on_event",)),
    ("on_event", "raise"): Row(
        [USER],
        error="Refused",
        runs=("model", "later on_run_error", "later after_run"),
        skips=("later on_event", "later after_agent"),
    ),
    ("before_agent", "none"): Row([USER, TEXT], runs=("later before_agent", "agent before_agent", "agent after_agent")),
    ("before_agent", "value"): Row(
        [USER, "a: before_agent value"],
        runs=("later on_event", "later after_run"),
        skips=("later before_agent", "agent before_agent", "model", "later after_agent", "agent after_agent"),
        around=("agent", ("completed", "", "subject")),
    ),
    ("before_agent", "raise"): Row(
        [USER],
        error="Refused",
        runs=("later on_agent_error", "later on_run_error", "later after_run"),
        skips=("later before_agent", "agent before_agent", "model", "later after_agent"),
        around=("agent", ("", "Refused", "default")),
    ),
    ("after_agent", "none"): Row([USER, TEXT], runs=("later after_agent", "agent after_agent")),
    ("after_agent", "value"): Row(
        [USER, TEXT, "a: after_agent value"],
        runs=("model", "later after_run"),
        skips=("later after_agent", "agent after_agent"),
    ),
    ("after_agent", "raise"): Row(
        [USER, TEXT],
        error="Refused",
        runs=("later on_agent_error", "later on_run_error", "later after_run"),
        skips=("later after_agent", "agent after_agent"),
        around=("agent", ("", "Refused", "default")),
    ),
    ("before_model", "none"): Row(
        [USER, TEXT], runs=("later before_model", "agent before_model", "model", "agent after_model")
    ),
    ("before_model", "value"): Row(
        [USER, "a: before_model value"],
        runs=("later on_event",),
        skips=(
            "later before_model", "agent before_model", "model", "later on_model_error",
            "later after_model", "agent after_model",
        ),
        around=("model", ("before_model value", "", "subject")),
    ),
    ("before_model", "raise"): Row(
        [USER],
        error="Refused",
        runs=("later on_agent_error", "later after_run"),
        skips=("later before_model", "model", "later on_model_error", "later after_model"),
        around=("model", ("", "Refused", "default")),
    ),
    ("on_model_error", "none"): Row(
        [USER],
        error="Failure",
        runs=("later on_model_error", "agent on_model_error", "later on_agent_error"),
        skips=("later after_model", "agent after_model"),
        around=("model", ("", "Failure", "default")),
    ),
    ("on_model_error", "value"): Row(
        [USER, "a: on_model_error value"],
        runs=("later after_model", "agent after_model", "later on_event"),
        skips=("later on_model_error", "agent on_model_error", "later on_agent_error"),
        around=("model", ("on_model_error value", "", "subject")),
    ),
    ("on_model_error", "raise"): Row(
        [USER],
        error="Refused",
        runs=("later on_agent_error",),
        skips=("later on_model_error", "agent on_model_error", "later after_model"),
        around=("model", ("", "Refused", "default")),
    ),
    ("after_model", "none"): Row([USER, TEXT], runs=("later after_model", "agent after_model")),
    ("after_model", "value"): Row(
        [USER, "a: after_model value"],
        runs=("model",),
        skips=("later after_model", "agent after_model"),
        around=("model", ("after_model value", "", "subject")),
    ),
    ("after_model", "raise"): Row(
        [USER],
        error="Refused",
        runs=("model", "later on_agent_error"),
        skips=("later after_model", "agent after_model", "later on_model_error"),
        around=("model", ("", "Refused", "default")),
    ),
    ("before_tool", "none"): Row(
        [USER, CALL, RESULT, TEXT], runs=("later before_tool", "agent before_tool", "tool", "agent after_tool")
    ),
    ("before_tool", "value"): Row(
        [USER, CALL, "a: -t {'by': 'before_tool'}", TEXT],
        runs=("later after_tool", "agent after_tool"),
        skips=("later before_tool", "agent before_tool", "tool", "later on_tool_error"),
        around=("tool", ("{'by': 'before_tool'}", "", "subject")),
    ),
    ("before_tool", "raise"): Row(
        [USER, CALL, "a: -t {'error': 'Refused: before_tool'}", TEXT],
        runs=("later on_tool_error", "agent on_tool_error", "later after_tool", "agent after_tool"),
        skips=("later before_tool", "agent before_tool", "tool"),
        around=("tool", ("{'error': 'Refused: before_tool'}", "Refused", "default")),
    ),
    ("on_tool_error", "none"): Row(
        [USER, CALL, FAILED, TEXT],
        runs=("later on_tool_error", "agent on_tool_error", "later after_tool", "agent after_tool"),
        around=("tool", ("{'error': 'Failure: tool'}", "Failure", "default")),
    ),
    ("on_tool_error", "value"): Row(
        [USER, CALL, "a: -t {'by': 'on_tool_error'}", TEXT],
        runs=("tool", "later after_tool", "agent after_tool"),
        skips=("later on_tool_error", "agent on_tool_error"),
        around=("tool", ("{'by': 'on_tool_error'}", "", "subject")),
    ),
    ("on_tool_error", "raise"): Row(
        [USER, CALL, "a: -t {'error': 'Refused: on_tool_error'}", TEXT],
        runs=("tool", "later after_tool", "agent after_tool"),
        skips=("later on_tool_error", "agent on_tool_error"),
        around=("tool", ("{'error': 'Refused: on_tool_error'}", "Refused", "default")),
    ),
    ("after_tool", "none"): Row([USER, CALL, RESULT, TEXT], runs=("later after_tool", "agent after_tool")),
    ("after_tool", "value"): Row(
        [USER, CALL, "a: -t {'by': 'after_tool'}", TEXT],
        runs=("tool",),
        skips=("later after_tool", "agent after_tool"),
        around=("tool", ("{'by': 'after_tool'}", "", "subject")),
    ),
    ("after_tool", "raise"): Row(
        [USER, CALL, "a: -t {'error': 'Refused: after_tool'}", TEXT],
        runs=("tool",),
        skips=("later after_tool", "agent after_tool", "later on_tool_error"),
        around=("tool", ("{'error': 'Refused: after_tool'}", "Refused", "default")),
    ),
}  # fmt: skip


def test_every_value_hook_has_its_three_rows() -> None:
    assert set(TABLE) == {(hook, mode) for hook in FIRST_HOOKS for mode in MODES}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("hook", FIRST_HOOKS)
async def test_short_circuit(runner_factory: Any, hook: str, mode: str) -> None:
    """PLUG-10, PLUG-11, PLUG-13, PLUG-20, PLUG-22, PLUG-30, PLUG-32, PLUG-33, PLUG-34, PLUG-35, PLUG-37: a row each."""
    row = TABLE[hook, mode]
    result = await run_case(runner_factory, hook, mode)
    assert result.stored == row.stored
    assert result.error == row.error
    assert result.kind == ("failed" if row.error else "completed")
    assert result.yielded == [event for event in row.stored if not event.startswith("user:")]
    assert [entry for entry in row.runs if entry not in result.log] == []
    assert [entry for entry in row.skips if entry in result.log] == []
    assert result.log.count("later after_run") == 1  # PLUG-12
    if row.around is not None:
        stage, expected = row.around
        assert result.seen[stage][0] == expected
    assert len(result.seen["run"]) == 1


@pytest.mark.parametrize("hook", FIRST_HOOKS)
async def test_plug_1_plugins_come_before_the_agents_own_callbacks(runner_factory: Any, hook: str) -> None:
    result = await run_case(runner_factory, hook, "none")
    order = [entry for entry in result.log if entry.endswith(f" {hook}")]
    expected = [f"subject {hook}", f"later {hook}"] + ([f"agent {hook}"] if hook in STAGES else [])
    assert order[: len(expected)] == expected


UNKNOWN = {
    ("before_tool", "none"): ("there is no tool 'gone'", ("later on_tool_error",)),
    ("before_tool", "value"): ("'by': 'before_tool'", ()),
    ("before_tool", "raise"): ("Refused: before_tool", ("later on_tool_error",)),
    ("on_tool_error", "none"): ("there is no tool 'gone'", ("later on_tool_error", "agent on_tool_error")),
    ("on_tool_error", "value"): ("'by': 'on_tool_error'", ()),
    ("on_tool_error", "raise"): ("Refused: on_tool_error", ()),
}


@pytest.mark.parametrize(("hook", "mode"), list(UNKNOWN))
async def test_plug_36_tool_not_found(runner_factory: Any, hook: str, mode: str) -> None:
    answer, runs = UNKNOWN[hook, mode]
    result = await run_case(runner_factory, hook, mode, unknown_tool=True)
    assert answer in result.stored[2]
    assert [entry for entry in runs if entry not in result.log] == []
    assert "later after_tool" not in result.log  # no after_tool for a tool that is not there
    assert len(result.seen["tool"]) == 1  # ARD-4: unknown names too
    assert result.stored[-1] == TEXT


@pytest.mark.parametrize("hook", NOTIFY_HOOKS)
async def test_notify_hooks_call_all_and_their_raise_changes_nothing(
    runner_factory: Any, hook: str, caplog: pytest.LogCaptureFixture
) -> None:
    """PLUG-12, PLUG-40, PLUG-42, PLUG-43."""
    log: list[str] = []

    class Raises(Plugin):
        name = "raises"

    class Notes(Plugin):
        name = "notes"

    async def raising(*values: Any) -> None:
        log.append("raised")
        raise Refused(hook)

    async def noting(*values: Any) -> None:
        log.append("noted")

    first, second = Raises(), Notes()
    setattr(first, hook, _with_parameters(hook, raising))
    setattr(second, hook, _with_parameters(hook, noting))

    @tool(name="wait", long_running=True)
    async def wait() -> None:
        """Wait."""

    step = call("wait", "c1") if hook == "on_pause" else Failure("model") if hook.endswith("_error") else "text"
    agent = LlmAgent(name="a", model=ScriptedModel([step]), tools=[wait])
    runner = runner_factory(agent, plugins=[first, second])
    async with runner.run(user_id="u", session_id="s", message="hi") as run:
        if hook.endswith("_error"):
            with pytest.raises(Failure):
                await run.wait()
        else:
            await run.wait()
    if hook == "close":
        with pytest.raises(ExceptionGroup) as group:
            await runner.close()
        assert group.group_contains(Refused)
    else:
        await runner.close()
        assert "raises" in caplog.text
    assert log == ["raised", "noted"]
    assert run.outcome.kind == {"on_pause": "paused"}.get(hook, "failed" if hook.endswith("_error") else "completed")
