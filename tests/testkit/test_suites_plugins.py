"""The plugin suite passes good plugins and catches those that break one rule each (tools-plugins §7, §9)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import define

from hookwork.agent import Agent
from hookwork.context import CallbackContext, InvocationContext
from hookwork.effects import EffectCall, ToolResult
from hookwork.errors import ToolError
from hookwork.model import Model, ModelRequest
from hookwork.plugins.plugin import FunctionPlugin, Plugin
from hookwork.records.content import Content, text_content
from hookwork.records.event import Event
from hookwork.records.metadata import ModelResponse
from hookwork.run import RunOutcome
from hookwork.stages import Stage
from hookwork_llm import LlmAgent
from hookwork_testkit.suites import PluginSuite
from hookwork_testkit.suites.broken import BrokenBackends, failures

BROKEN = BrokenBackends(PluginSuite)


def llm_agent(name: str, model: Model, tools: Sequence[Any]) -> Agent:
    """The flow under which model and tool hooks are called."""
    return LlmAgent(name=name, model=model, tools=tools)


class Watcher(Plugin):
    """Looks at everything and keeps what it needs under the invocation's id; the broken ones change one thing."""

    name: str | None = "watcher"

    def __init__(self) -> None:
        self.live: dict[str, int] = {}

    async def on_user_message(self, ctx: InvocationContext, message: Content) -> Content | None:
        self.live[ctx.invocation_id] = 0
        await asyncio.sleep(0)
        return None

    async def before_model(self, ctx: CallbackContext, request: ModelRequest) -> ModelResponse | None:
        await asyncio.sleep(0)
        return None

    async def before_tool(self, ctx: Any, tool: Any, args: dict[str, Any]) -> dict[str, Any] | None:
        await asyncio.sleep(0)
        return None

    async def on_event(self, ctx: InvocationContext, event: Event) -> Event | None:
        self.live[ctx.invocation_id] = self.live.get(ctx.invocation_id, 0) + 1
        return None

    @asynccontextmanager
    async def around_agent(self, ctx: CallbackContext, agent: Agent, stage: Stage) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        yield

    async def perform_tool(self, call: EffectCall) -> ToolResult:
        result: ToolResult = await call.default()
        return result

    async def on_run_error(self, ctx: InvocationContext, error: BaseException) -> None:
        await asyncio.sleep(0)

    async def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
        self.live.pop(ctx.invocation_id, None)

    async def close(self) -> None:
        self.live.clear()


class _Flow(PluginSuite):
    """With the LLM flow."""

    def make_agent(self, name: str, model: Model, tools: Sequence[Any]) -> Agent:
        return llm_agent(name, model, tools)


class TestWatcher(_Flow):
    observes = True

    def make_plugin(self) -> Any:
        return Watcher()


class TestWatcherWithoutAFlow(PluginSuite):
    observes = True

    def make_plugin(self) -> Any:
        return Watcher()


class TestGreeting(_Flow):
    """One that answers by itself, in plain functions."""

    def make_plugin(self) -> Any:
        def before_model(request: ModelRequest) -> ModelResponse:
            return ModelResponse(content=text_content(f"hi to {request.contents[0].text}"), finish_reason="STOP")

        return FunctionPlugin("greeting", before_model=before_model)


class TestGuard(_Flow):
    """One that refuses; and one that fails."""

    def make_plugin(self) -> Any:
        def before_tool(args: dict[str, Any]) -> None:
            if args:
                raise ToolError("this tool takes no arguments today")

        return FunctionPlugin("guard", before_tool=before_tool)

    def make_failing_plugin(self) -> Any:
        def before_run(ctx: InvocationContext) -> None:
            raise KeyError("unknown user")

        return FunctionPlugin("guard", before_run=before_run)


class _Suite(_Flow):
    """The suite against a broken plugin."""

    observes = True

    def __init__(self, kind: type[Watcher] = Watcher) -> None:
        self.kind = kind

    def make_plugin(self) -> Any:
        return self.kind()

    def make_failing_plugin(self) -> Any:
        return _failing(self.kind)


def _failing(kind: type[Watcher]) -> Any:
    class Failing(kind):  # type: ignore[misc, valid-type]
        async def before_run(self, ctx: InvocationContext) -> None:
            if kind is HidesItsFault:
                return
            raise KeyError("unknown user")

    return Failing()


async def test_a_good_plugin_passes() -> None:
    assert await failures(_Suite()) == {}


@BROKEN.breaks("test_plug_03_a_plugin")
class RenamesItself(Watcher):
    async def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
        await super().after_run(ctx, outcome)
        self.name = "another"


@BROKEN.breaks("test_pgy_04")
@define(eq=True, init=False)
class EqualsItsTwin(Watcher):
    """Compared by value, and so not to be hashed."""

    __hash__ = None  # type: ignore[assignment]


@BROKEN.breaks("test_plug_01_a_value", "test_plug_observers")
class AnswersInWords(Watcher):
    async def before_node(self, ctx: Any, input: Any) -> Any:
        return "no"


@BROKEN.breaks("test_plug_02", "test_plug_observers")
class ReturnsItsInput(Watcher):
    async def on_event(self, ctx: InvocationContext, event: Event) -> Event | None:
        await super().on_event(ctx, event)
        return event


@BROKEN.breaks("test_plug_observers")
class Counts(Watcher):
    async def before_tool(self, ctx: Any, tool: Any, args: dict[str, Any]) -> dict[str, Any] | None:
        ctx.state["tools"] = ctx.state.get("tools", 0) + 1
        return await super().before_tool(ctx, tool, args)


@BROKEN.breaks("test_plug_observers")
class LowersTheTemperature(Watcher):
    async def before_model(self, ctx: CallbackContext, request: ModelRequest) -> ModelResponse | None:
        request.update_config(temperature=0.0)
        return await super().before_model(ctx, request)


@BROKEN.breaks("test_plug_01_hooks")
class StumblesOverPauses(Watcher):
    async def on_pause(self, ctx: CallbackContext, open_calls: Sequence[Any]) -> None:
        raise IndexError("no call is open")


@BROKEN.breaks("test_plug_01_hooks")
class RaisesInAnObservingHook(Watcher):
    async def on_run_error(self, ctx: InvocationContext, error: BaseException) -> None:
        raise ToolError("cannot report this")


@BROKEN.breaks("test_eff_1")
class GivesAnotherResult(Watcher):
    async def perform_node(self, call: EffectCall) -> Any:
        return {"output": "hello"}


@BROKEN.breaks("test_ard_14")
class ExpectsNoCancellation(Watcher):
    @asynccontextmanager
    async def around_model(self, ctx: CallbackContext, request: ModelRequest, stage: Stage) -> AsyncIterator[None]:
        try:
            yield
        except asyncio.CancelledError as error:
            if stage.outcome is not None and "planted" in str(error):
                raise LookupError("no outcome for a cancelled call") from error
            raise


@BROKEN.breaks("test_plug_12", "test_plug_06", "test_plug_a_run")
class HidesItsFault(Watcher):
    """Turns every failure of a run into a good end."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    async def on_model_error(
        self, ctx: CallbackContext, request: ModelRequest, error: Exception
    ) -> ModelResponse | None:
        if type(error).__name__ == "Planted" and "the model" in str(error):
            self.seen.add(ctx.invocation_id)
            return ModelResponse(content=text_content("all is well"), finish_reason="STOP")
        return None


@BROKEN.breaks("test_plug_05")
class KeepsTheRunOnItself(Watcher):
    async def on_user_message(self, ctx: InvocationContext, message: Content) -> Content | None:
        self.said = message.text
        await asyncio.sleep(0)
        await super().on_user_message(ctx, message)
        if self.said != message.text:
            return text_content(self.said, "user")
        return None


@BROKEN.breaks("test_plug_03_one")
class ServesOneRunAtATimeInASession(Watcher):
    """Takes two runs of one session id for the same run, though they are of two runners."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions: list[str] = []

    async def on_user_message(self, ctx: InvocationContext, message: Content) -> Content | None:
        if ctx.session_id in self.sessions:
            raise ToolError("that session is running")
        self.sessions.append(ctx.session_id)
        return await super().on_user_message(ctx, message)

    async def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
        await super().after_run(ctx, outcome)
        self.sessions = [one for one in self.sessions if one != ctx.session_id]


@BROKEN.breaks("test_tool_3")
class SwallowsCancellation(Watcher):
    async def before_model(self, ctx: CallbackContext, request: ModelRequest) -> ModelResponse | None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        return None


@BROKEN.breaks("test_plug_a_run")
class ForgetsToForget(Watcher):
    async def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
        if outcome.kind == "completed":
            await super().after_run(ctx, outcome)


@BROKEN.breaks("test_plug_41", "test_plug_03_one")
class ClosesOnce(Watcher):
    closed = False

    async def close(self) -> None:
        if self.closed:
            raise RuntimeError("already closed")
        self.closed = True


@BROKEN.breaks("test_plug_41")
class LeavesItsWriterRunning(Watcher):
    writer: Any = None

    async def close(self) -> None:
        self.writer = asyncio.create_task(asyncio.Event().wait())


@pytest.mark.parametrize("name", list(BROKEN.kinds))
async def test_each_broken_plugin_fails_its_line_and_no_other(name: str) -> None:
    await BROKEN.assert_caught(name, _Suite)


def test_every_line_is_failed_by_some_broken_plugin() -> None:
    assert BROKEN.uncaught(BROKEN.lines) == []
