"""The founding example ``[audit, cache, policy]``, generated from the rule table (tools-plugins §7).

For every call site and each of value, None and raise: what runs afterwards and what does not, and that the audit's
around hook, listed first, sees how the stage ended although the cache decided.

The plugin in the middle decides, at one call site; ``policy`` behind it and the agent's own callbacks write down that
they were asked. `SKIPS` is the table "what a first value skips" with the row of what a raise skips beside it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hookwork import Content, Event, FunctionPlugin, ModelResponse, Runner, text_content
from hookwork.effects import ToolResult
from hookwork.hookspecs.table import LIFECYCLE_HOOKS, Rule
from hookwork_audit import Audit, verify
from hookwork_cache import Cache
from hookwork_llm import LlmAgent, tool
from hookwork_policy import Policy
from hookwork_testkit import ScriptedModel, call

RunnerFactory = Callable[..., Runner]


class Veto(Exception):
    """What the cache raises."""


class Row(NamedTuple):
    """What does not run, and what does nevertheless. ``stage``: whose outcome the audit sees."""

    stage: str
    value: Any
    value_skips: str
    value_keeps: str
    raise_skips: str
    raise_keeps: str


CONTENT = text_content("from the cache")
RESPONSE = ModelResponse(content=CONTENT)
RESULT: dict[str, Any] = {"from": "cache"}

#: Call site → row. ``x`` is policy's hook x, ``@x`` the agent's callback x, ``MODEL`` and ``TOOL`` the default actions.
SKIPS = {
    "on_user_message": Row(
        *("run", Content(role="user", parts=CONTENT.parts)),
        *("on_user_message", "before_run MODEL after_run"),
        *("on_user_message before_run before_agent MODEL", "on_run_error after_run"),
    ),
    "before_run": Row(
        *("run", CONTENT),
        *("before_run before_agent @before_agent MODEL after_agent", "on_user_message on_event after_run"),
        *("before_run before_agent MODEL on_event", "on_user_message on_run_error after_run"),
    ),
    "on_event": Row(
        *("run", Event(content=CONTENT)),
        *("on_event", "MODEL after_model after_agent after_run"),
        *("on_event on_model_error", "MODEL after_model on_run_error after_run"),
    ),
    "before_agent": Row(
        *("agent", CONTENT),
        *("before_agent @before_agent before_model MODEL after_agent @after_agent", "on_event after_run"),
        *("before_agent @before_agent MODEL after_agent on_event", "on_agent_error on_run_error after_run"),
    ),
    "after_agent": Row(
        *("agent", CONTENT),
        *("after_agent @after_agent", "MODEL on_event after_run"),
        *("after_agent @after_agent", "MODEL on_event on_agent_error on_run_error after_run"),
    ),
    "before_model": Row(
        *("model", RESPONSE),
        "before_model @before_model MODEL on_model_error after_model @after_model",
        "on_event after_agent @after_agent after_run",
        "before_model @before_model MODEL on_model_error @on_model_error after_model @after_model on_event",
        "on_agent_error on_run_error after_run",
    ),
    "on_model_error": Row(
        *("model", RESPONSE),
        "on_model_error @on_model_error on_agent_error on_run_error",
        "MODEL after_model @after_model on_event after_agent after_run",
        "on_model_error @on_model_error after_model @after_model on_event",
        "MODEL on_agent_error on_run_error after_run",
    ),
    "after_model": Row(
        *("model", RESPONSE),
        *("after_model @after_model", "MODEL on_event after_agent after_run"),
        *("after_model @after_model on_model_error on_event", "MODEL on_agent_error on_run_error after_run"),
    ),
    "before_tool": Row(
        *("tool", RESULT),
        *("before_tool @before_tool TOOL on_tool_error", "after_tool @after_tool on_event after_run"),
        "before_tool @before_tool TOOL on_run_error",
        "on_tool_error @on_tool_error after_tool @after_tool on_event after_run",
    ),
    "on_tool_error": Row(
        *("tool", RESULT),
        *("on_tool_error @on_tool_error", "TOOL after_tool @after_tool on_event after_run"),
        *("on_tool_error @on_tool_error on_run_error", "TOOL after_tool @after_tool on_event after_run"),
    ),
    "after_tool": Row(
        *("tool", RESULT),
        *("after_tool @after_tool", "TOOL on_event after_run"),
        *("after_tool @after_tool on_tool_error on_run_error", "TOOL on_event after_run"),
    ),
}

#: Call sites of graph nodes: see test_founding_nodes.
NODES = {name for name in LIFECYCLE_HOOKS if "node" in name}
FIRST = sorted(name for name, (rule, _) in LIFECYCLE_HOOKS.items() if rule is Rule.FIRST and name not in NODES)
NOTIFY = sorted(name for name, (rule, _) in LIFECYCLE_HOOKS.items() if rule is Rule.NOTIFY)
AROUND = sorted(name for name, (rule, _) in LIFECYCLE_HOOKS.items() if rule is Rule.AROUND and name not in NODES)
CALLBACKS = (
    *("before_agent", "after_agent", "before_model", "after_model", "on_model_error"),
    *("before_tool", "after_tool", "on_tool_error"),
)


class Scene:
    """One run of ``[audit, cache, policy]`` in which ``hook`` is called, and what was seen of it."""

    def __init__(self, hook: str, path: Path, runner_factory: RunnerFactory) -> None:
        self.hook = hook
        self.path = path
        self.ran: list[str] = []
        self.texts: list[str] = []
        self.error: BaseException | None = None
        self._factory = runner_factory

    def _note(self, name: str) -> Callable[..., None]:
        def note() -> None:
            self.ran.append(name)

        return note

    def _callback(self, name: str) -> Callable[..., None]:
        return lambda *_: self.ran.append(f"@{name}")

    def _model(self) -> ScriptedModel:
        def turn(step: Any) -> Callable[[Any], Any]:
            def play(_: Any) -> Any:
                self.ran.append("MODEL")
                return step

            return play

        if self.hook in ("on_model_error", "on_agent_error", "on_run_error"):
            return ScriptedModel([turn(RuntimeError("model is down"))])
        if "tool" in self.hook or self.hook == "on_pause":
            return ScriptedModel([turn(call("act")), turn("done")])
        return ScriptedModel([turn("from the model")])

    def _agent(self) -> LlmAgent:
        @tool(require_confirmation=self.hook == "on_pause")
        def act() -> dict[str, Any]:
            """Act."""
            self.ran.append("TOOL")
            if self.hook == "on_tool_error":
                raise ValueError("tool is broken")
            return {"from": "tool"}

        callbacks: dict[str, Any] = {name: self._callback(name) for name in CALLBACKS}
        return LlmAgent(name="helper", model=self._model(), tools=[act], **callbacks)

    async def play(self, cache: Any) -> None:
        """Run once; ``cache`` is the hook of the plugin in the middle."""
        hooks: dict[str, Any] = {name: self._note(name) for name in (*FIRST, *NOTIFY) if name != "close"}
        hooks |= {name: self._passes(name) for name in AROUND}
        policy = FunctionPlugin("policy", **hooks)
        plugins = [Audit(self.path), FunctionPlugin("cache", **{self.hook: cache}), policy]
        async with self._factory(self._agent(), plugins=plugins) as runner:
            try:
                async for event in runner.run(user_id="u", session_id="s", message="Hi"):
                    self.texts.append(event.text)
            except Exception as error:
                self.error = error

    def _passes(self, name: str) -> Callable[..., Any]:
        @asynccontextmanager
        async def passes() -> AsyncIterator[None]:
            self.ran.append(name)
            yield

        return passes

    def seen(self, stage: str) -> dict[str, Any]:
        """What the audit wrote down about the first stage of that kind."""
        with self.path.open("rb") as lines:
            assert verify(lines).ok
        records = [json.loads(line) for line in self.path.read_text().splitlines()]
        return next(record for record in records if record["stage"] == stage)


def split(names: str) -> list[str]:
    return names.split()


def test_every_call_site_has_its_row() -> None:
    assert sorted(SKIPS) == FIRST
    assert {
        *("before_node", "after_node", "on_node_error", "around_node", "perform_node"),
    } == NODES


@pytest.mark.parametrize("hook", FIRST)
async def test_plug_01_a_value_skips_what_the_table_says(
    hook: str, tmp_path: Path, runner_factory: RunnerFactory
) -> None:
    row, scene = SKIPS[hook], Scene(hook, tmp_path / "audit.jsonl", runner_factory)
    await scene.play(lambda: row.value)
    assert scene.error is None
    assert [name for name in split(row.value_skips) if name in scene.ran] == []
    assert [name for name in split(row.value_keeps) if name not in scene.ran] == []
    record = scene.seen(row.stage)
    assert "error" not in record
    if row.stage in ("model", "tool"):
        assert record["source"] == "cache"
        assert "cache" in json.dumps(record["result"])
    elif hook != "on_user_message":
        assert scene.texts[-1] == "from the cache"
    if hook == "before_run":
        assert (record["source"], record["result"]["text"]) == ("cache", "from the cache")


@pytest.mark.parametrize("hook", FIRST)
async def test_plug_01_none_skips_nothing(hook: str, tmp_path: Path, runner_factory: RunnerFactory) -> None:
    row, scene = SKIPS[hook], Scene(hook, tmp_path / "audit.jsonl", runner_factory)
    await scene.play(lambda: None)
    own = [hook, f"@{hook}"] if hook in CALLBACKS else [hook]
    assert [name for name in own if name not in scene.ran] == []
    failed = hook == "on_model_error"  # nobody answered it
    if not failed:
        assert scene.error is None
        assert [name for name in split(row.value_keeps) if name not in scene.ran] == []
    default = {"run": "MODEL", "agent": "MODEL", "model": "MODEL", "tool": "TOOL"}[row.stage]
    assert default in scene.ran
    record = scene.seen(row.stage)
    assert record["source"] == "default"
    assert ("error" in record) is (failed or hook == "on_tool_error")


@pytest.mark.parametrize("hook", FIRST)
async def test_plug_01_a_raise_ends_the_stage_at_once(hook: str, tmp_path: Path, runner_factory: RunnerFactory) -> None:
    def veto() -> None:
        raise Veto("no")

    row, scene = SKIPS[hook], Scene(hook, tmp_path / "audit.jsonl", runner_factory)
    await scene.play(veto)
    assert [name for name in split(row.raise_skips) if name in scene.ran] == []
    assert [name for name in split(row.raise_keeps) if name not in scene.ran] == []
    if row.stage == "tool":  # the model is told
        assert scene.error is None
    else:
        assert isinstance(scene.error, Veto)
        assert scene.error.__notes__ == [f"raised by plugin 'cache' in {hook!r}"]  # PLUG-06
    record = scene.seen(row.stage)
    # after_tool answers nothing here, so the error stands until the end of the stage.
    assert record["error"] == {"type": "Veto", "message": "no"}


@pytest.mark.parametrize("decides", ["value", "none", "raise"])
@pytest.mark.parametrize("hook", NOTIFY)
async def test_pgy_13_a_notification_reaches_everybody(
    hook: str, decides: str, tmp_path: Path, runner_factory: RunnerFactory, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> Any:
        if decides == "raise":
            raise Veto("no")
        return CONTENT if decides == "value" else None

    scene = Scene(hook, tmp_path / "audit.jsonl", runner_factory)
    if hook == "close":
        closed: list[str] = []
        policy = FunctionPlugin("policy", close=lambda: closed.append("policy"))
        plugins = [Audit(scene.path), FunctionPlugin("cache", close=told), policy]
        runner = runner_factory(scene._agent(), plugins=plugins)
        with suppress(ExceptionGroup):
            await runner.close()
        assert closed == ["policy"]
        return
    await scene.play(told)
    assert hook in scene.ran
    assert ("Veto" in caplog.text) is (decides == "raise")
    assert not isinstance(scene.error, Veto)


@pytest.mark.parametrize("hook", AROUND)
async def test_ard_13_a_raise_on_entering_is_the_stages_error(
    hook: str, tmp_path: Path, runner_factory: RunnerFactory
) -> None:
    @asynccontextmanager
    async def veto() -> AsyncIterator[None]:
        raise Veto("no")
        yield

    scene = Scene(hook, tmp_path / "audit.jsonl", runner_factory)
    await scene.play(veto)
    assert hook not in scene.ran  # policy was not entered
    stage = hook.removeprefix("around_")
    assert scene.seen(stage)["error"]["type"] == "Veto"  # audit was, and was left with the error
    assert f"before_{stage}" not in scene.ran
    assert "after_run" in scene.ran


@pytest.mark.parametrize("hook", AROUND)
async def test_ard_10_around_hooks_are_all_entered(hook: str, tmp_path: Path, runner_factory: RunnerFactory) -> None:
    entered: list[str] = []

    @asynccontextmanager
    async def passes() -> AsyncIterator[None]:
        entered.append("cache")
        yield

    scene = Scene(hook, tmp_path / "audit.jsonl", runner_factory)
    await scene.play(passes)
    assert (entered[0], hook in scene.ran, scene.error) == ("cache", True, None)
    assert "error" not in scene.seen(hook.removeprefix("around_"))


@pytest.mark.parametrize("decides", ["value", "default", "raise"])
@pytest.mark.parametrize("hook", ["perform_model", "perform_tool"])
async def test_eff_1_the_first_that_carries_an_effect_out_decides(
    hook: str, decides: str, tmp_path: Path, runner_factory: RunnerFactory
) -> None:
    async def carry_out(call: Any) -> Any:
        if decides == "raise":
            raise Veto("no")
        if decides == "default":
            return await call.default()
        return ModelResponse(content=CONTENT) if hook == "perform_model" else ToolResult(result=RESULT)

    scene = Scene(hook, tmp_path / "audit.jsonl", runner_factory)
    await scene.play(carry_out)
    action = "MODEL" if hook == "perform_model" else "TOOL"
    assert (action in scene.ran) is (decides == "default")
    stage = hook.removeprefix("perform_")
    record = scene.seen(stage)
    assert ("error" in record) is (decides == "raise")
    # Its error goes where an error of the model or the tool goes (EFF-3).
    assert (f"on_{stage}_error" in scene.ran) is (decides == "raise")
    if decides == "value":
        assert (record["source"], "cache" in json.dumps(record["result"])) == ("cache", True)


async def test_the_three_plugins_themselves(tmp_path: Path, runner_factory: RunnerFactory) -> None:
    """The cache answers the second run's model calls, the policy is asked about its tool call all the same."""
    acted: list[str] = []

    @tool
    def act(what: str) -> dict[str, Any]:
        """Act."""
        acted.append(what)
        return {"done": what}

    model = ScriptedModel([[call("act", what="read"), call("act", what="delete")], "Read; not deleted."])
    policy = Policy([{"effect": "deny", "args": {"/what": "delete"}, "reason": "deleting is not allowed"}])
    path = tmp_path / "audit.jsonl"
    plugins = [Audit(path), Cache(include_tools=True), policy]
    agent = LlmAgent(name="helper", model=model, tools=[act])
    async with runner_factory(agent, plugins=plugins) as runner:
        for session in ("s1", "s2"):
            assert await runner.ask("Go", user_id="u", session_id=session) == "Read; not deleted."
    assert (model.calls, acted) == (2, ["read", "read"])
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert verify(path.read_bytes().splitlines(keepends=True)).records == len(records) == 12
    stages = [(record["stage"], record["source"]) for record in records if record["session_id"] == "s2"]
    assert sorted(stages) == [
        ("agent", "default"),
        ("model", "cache"),
        ("model", "cache"),
        ("run", "default"),
        ("tool", "default"),
        ("tool", "policy"),
    ]
    refused = [record["result"] for record in records if record["source"] == "policy"]
    assert refused == [{"error": "deleting is not allowed"}] * 2
