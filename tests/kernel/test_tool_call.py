"""A tool call's hooks, arguments, gate and body, wherever it is made (core TOOL-2; tools-plugins TL-27, HITL-02)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from hookwork import Finished, Plugin, Tool, ToolContext, WithMedia
from hookwork.effects import EffectCall, ToolResult
from hookwork.errors import (
    ConfirmationRejected,
    ConfirmationRequired,
    ConsentRequiredError,
    PluginError,
    ToolArgumentError,
    ToolError,
)
from hookwork.invocation import Invocation
from hookwork.node import Pause
from hookwork.plugins.dispatch import Hooks
from hookwork.records.content import FunctionResponseBlob, FunctionResponsePart
from hookwork.records.event import EventActions, ToolConfirmation
from hookwork.records.session import EventLog, Session
from hookwork.state import DeltaBuffer
from hookwork.tool_call import HookedCall


class Steps(Tool):
    """Writes down its steps; gives, or raises, what it is made with."""

    name = "pay"

    def __init__(self, seen: list[str], gives: Any = 1, *, asks: bool = False, refuses: bool = False) -> None:
        self.seen = seen
        self.gives = gives
        self.asks = asks
        self.refuses = refuses

    def validate_args(self, args: dict[str, Any]) -> Any:
        self.seen.append("check")
        if self.refuses:
            raise ToolArgumentError("amount is missing")
        return {"checked": args}

    async def needs_confirmation(self, ctx: ToolContext, args: dict[str, Any], converted: Any) -> bool:
        self.seen.append("gate")
        return self.asks

    async def run_validated(self, ctx: ToolContext, converted: Any) -> Any:
        self.seen.append("body")
        if isinstance(self.gives, BaseException):
            raise self.gives
        return self.gives

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> Any:
        raise AssertionError("checked arguments are run with")


class Watch(Plugin):
    """Writes down its hooks and what they see; each gives, or raises, what is set for it."""

    def __init__(self, seen: list[str], **values: Any) -> None:
        self.seen = seen
        self.values = values

    def _at(self, hook: str) -> Any:
        self.seen.append(hook)
        value = self.values.get(hook)
        if isinstance(value, BaseException):
            raise value
        return value

    @asynccontextmanager
    async def around_tool(self, ctx: ToolContext, tool: Tool, args: dict[str, Any], stage: Any) -> AsyncIterator[None]:
        self.seen.append("in")
        try:
            yield
        finally:
            outcome = stage.outcome
            self.seen.append(f"out {outcome.value} {type(outcome.error).__name__} by {outcome.source}")

    def before_tool(self, ctx: ToolContext, tool: Tool, args: dict[str, Any]) -> Any:
        return self._at("before_tool")

    def on_tool_error(self, ctx: ToolContext, tool: Tool, args: dict[str, Any], error: Exception) -> Any:
        return self._at("on_tool_error")

    def after_tool(self, ctx: ToolContext, tool: Tool, args: dict[str, Any], result: Any, error: Any) -> Any:
        self.seen.append(f"told {result} {type(error).__name__}")
        return self._at("after_tool")


class Engine(Plugin):
    """Carries tools out itself."""

    name = "engine"

    def __init__(self, result: Any = None) -> None:
        self.result = result
        self.described: list[dict[str, Any]] = []

    async def perform_tool(self, call: EffectCall) -> Any:
        self.described.append(call.to_json())
        return await call.default() if self.result is None else self.result


class Case:
    """One call of `Steps`, with plugins."""

    def __init__(self, *plugins: Callable[[list[str]], Plugin] | Plugin, approval: bool | None = None, **tool: Any):
        self.seen: list[str] = []
        made = [plugin if isinstance(plugin, Plugin) else plugin(self.seen) for plugin in plugins]
        began = datetime(2026, 1, 1, tzinfo=UTC)
        session = Session(
            app_name="app", user_id="u", id="s", log=EventLog(), last_update_time=began, revision="1", session_state={}
        )
        self.inv = Invocation(app_name="app", user_id="u", session=session, invocation_id="e0", hooks=Hooks(made))
        self.buffer = DeltaBuffer()
        ctx = ToolContext(
            self.inv,
            None,
            "",
            "",
            "a@1/pay@1-1",
            parent_path="a@1",
            buffer=self.buffer,
            place="tool/1.1",
            function_call_id="c1",
            tool_name="pay",
            tool_confirmation=None if approval is None else ToolConfirmation(confirmed=approval),
        )
        self.call = HookedCall(self.inv.hooks, Steps(self.seen, **tool), ctx, {"amount": 1}, self.buffer)

    async def run(self) -> Any:
        return await self.call.in_hooks(own_task=False)


def watch(**values: Any) -> Callable[[list[str]], Watch]:
    return lambda seen: Watch(seen, **values)


async def test_tool_2_the_order_of_a_call() -> None:
    """ARD-11: the around hook sees how it ended."""
    case = Case(watch())
    assert await case.run() == {"result": 1}
    assert case.seen == [
        *("in", "before_tool", "check", "gate", "body"),
        *("told {'result': 1} NoneType", "after_tool", "out {'result': 1} NoneType by default"),
    ]
    assert (case.call.error, case.call.finished) == (None, False)


async def test_tool_2_the_order_of_a_call_that_fails() -> None:
    case = Case(watch(), gives=ToolError("no luck"))
    assert await case.run() is None
    assert isinstance(case.call.error, ToolError)
    assert case.seen == [
        *("in", "before_tool", "check", "gate", "body", "on_tool_error", "told None ToolError", "after_tool"),
        "out None ToolError by default",
    ]


async def test_hitl_04_before_tool_answers_without_a_check_a_gate_or_the_body() -> None:
    case = Case(watch(before_tool={"cached": True}), asks=True)
    assert await case.run() == {"cached": True}
    assert "check" not in case.seen
    assert (case.call.finished, case.call.source) == (True, "Watch")


async def test_tool_2_arguments_that_do_not_fit_meet_no_gate() -> None:
    case = Case(watch(), refuses=True)
    assert await case.run() is None
    assert isinstance(case.call.error, ToolArgumentError)
    assert case.seen[1:4] == ["before_tool", "check", "on_tool_error"]


async def test_hitl_03_a_call_that_asks_runs_no_body_and_is_no_tool_error() -> None:
    case = Case(watch(), asks=True)
    assert await case.run() is None
    assert isinstance(case.call.error, ConfirmationRequired)
    assert case.seen[1:5] == ["before_tool", "check", "gate", "told None ConfirmationRequired"]
    assert list(case.call.ctx.actions.requested_tool_confirmations) == ["c1"]


@pytest.mark.parametrize("approved", [True, False])
async def test_hitl_02_a_decision_is_not_asked_for_again(approved: bool) -> None:
    case = Case(watch(), asks=True, approval=approved)
    result = await case.run()
    assert "gate" not in case.seen
    assert ("body" in case.seen) is approved
    assert result == ({"result": 1} if approved else None)
    assert isinstance(case.call.error, ConfirmationRejected) is not approved


async def test_auth_5_a_consent_is_no_tool_error() -> None:
    case = Case(watch(on_tool_error={"made": "up"}), gives=ConsentRequiredError("u", "n", "k"))
    assert await case.run() is None
    assert isinstance(case.call.error, ConsentRequiredError)
    assert "on_tool_error" not in case.seen


@pytest.mark.parametrize(
    ("values", "result", "error"),
    [
        ({"on_tool_error": {"made": "up"}}, {"made": "up"}, None),
        ({"after_tool": {"made": "up"}}, {"made": "up"}, None),
        ({"on_tool_error": LookupError("other")}, None, LookupError),
        ({"after_tool": LookupError("other")}, None, LookupError),
        ({"on_tool_error": "text"}, None, PluginError),
    ],
)
async def test_tool_2_what_hooks_make_of_an_error(values: dict[str, Any], result: Any, error: Any) -> None:
    """A value replaces it, and nothing more comes; a raise takes its place."""
    case = Case(watch(**values), gives=ToolError("no luck"))
    assert await case.run() == result
    assert (type(case.call.error) if case.call.error is not None else None) == error
    assert case.call.finished is (error is None)


async def test_ask_7_a_pause_is_no_error_and_leaves() -> None:
    case = Case(watch(), gives=Pause())
    with pytest.raises(Pause):
        await case.run()
    assert "on_tool_error" not in case.seen
    assert case.call.error is None


async def test_res_2_and_media_what_a_result_is_taken_apart_into() -> None:
    picture = FunctionResponsePart(inline_data=FunctionResponseBlob(data=b"x", mime_type="image/png"))
    case = Case(gives=Finished(WithMedia({"n": 1}, picture)))
    assert await case.run() == {"n": 1}
    assert (case.call.finished, case.call.media) == (True, (picture,))
    after = Case(watch(after_tool={"other": 1}), gives=WithMedia({"n": 1}, picture))
    assert await after.run() == {"other": 1}
    assert after.call.media == ()


async def test_eff_3_the_body_is_carried_out_by_an_engine() -> None:
    engine = Engine()
    case = Case(engine)
    assert await case.run() == {"result": 1}
    [described] = engine.described
    assert (described["tool"], described["call_id"], described["args"]) == ("pay", "c1", {"amount": 1})
    assert described["confirmation"] is None


async def test_eff_5_what_an_engine_brings_is_taken_over() -> None:
    actions = EventActions(state_delta={"k": 1}, escalate=True, skip_summarization=True, transfer_to_agent="b")
    case = Case(Engine(ToolResult(result={"n": 1}, finished=True, actions=actions)))
    assert await case.run() == {"n": 1}
    assert "body" not in case.seen
    taken = case.call.ctx.actions
    assert (case.call.finished, case.call.source, dict(taken.state_delta)) == (True, "engine", {"k": 1})
    assert (taken.escalate, taken.skip_summarization, taken.transfer_to_agent) == (True, True, "b")


async def test_eff_3_an_engine_that_gives_something_else_is_named() -> None:
    case = Case(Engine({"n": 1}))
    assert await case.run() is None
    assert isinstance(case.call.error, PluginError)
    assert "'engine'" in str(case.call.error)
