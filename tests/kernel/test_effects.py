"""Effect hooks: who carries an effect out, and what its errors are (tools-plugins §7.2)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hookwork.effects import EffectCall, ToolResult, perform
from hookwork.errors import PluginError, RemoteEffectError
from hookwork.node import Pause
from hookwork.plugins.dispatch import Hooks
from hookwork.plugins.plugin import FunctionPlugin
from hookwork.records.metadata import ModelResponse

FIELDS: dict[str, Any] = {
    "kind": "tool",
    "key": "e-1/root/tool/1.1",
    "app_name": "app",
    "user_id": "u",
    "session_id": "s",
    "invocation_id": "e-1",
    "agent": "root",
    "branch": "",
    "isolation_scope": "",
    "path": "root",
    "state": {"k": 1},
    "data": {"tool": "add", "call_id": "adk-1", "args": {"a": 1}, "confirmation": None},
}


def described(default: Callable[[], Awaitable[Any]]) -> EffectCall:
    return EffectCall(**FIELDS, default=default)


async def perform_tool(default: Callable[[], Awaitable[Any]], **plugins: Any) -> tuple[Any, str]:
    hooks = Hooks([FunctionPlugin(name, perform_tool=function) for name, function in plugins.items()])
    return await perform(hooks.perform_tool, "perform_tool", described, default)


async def here() -> ToolResult:
    return ToolResult(result={"by": "default"})


async def test_eff_1_the_first_implementer_decides() -> None:
    async def remote(call: Any) -> ToolResult:
        return ToolResult(result={"by": "remote", "tool": call.tool})

    async def never(call: Any) -> ToolResult:
        raise AssertionError("reached only through the earlier one's default()")

    result, who = await perform_tool(here, remote=remote, never=never)
    assert (result.result, who) == ({"by": "remote", "tool": "add"}, "remote")


async def test_eff_1_later_ones_and_the_effect_itself_are_reached_through_default() -> None:
    order: list[str] = []

    async def outer(call: Any) -> Any:
        order.append("outer")
        result = await call.default()
        order.append("outer again")
        return result

    async def inner(call: Any) -> Any:
        order.append("inner")
        return await call.default()

    async def effect() -> ToolResult:
        order.append("effect")
        return ToolResult(result={"x": 1})

    result, who = await perform_tool(effect, outer=outer, inner=inner)
    assert order == ["outer", "inner", "effect", "outer again"]
    assert (result.result, who) == ({"x": 1}, "outer")


async def test_eff_1_default_may_be_called_again() -> None:
    attempts = 0

    async def retry(call: Any) -> Any:
        for _ in range(2):
            try:
                return await call.default()
            except ConnectionError:
                continue
        return await call.default()

    async def flaky() -> ToolResult:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise ConnectionError("again")
        return ToolResult(result={"attempt": attempts})

    result, _ = await perform_tool(flaky, retry=retry)
    assert result.result == {"attempt": 3}


async def test_eff_1_none_is_no_result() -> None:
    async def forgets(call: Any) -> Any:
        await call.default()

    with pytest.raises(PluginError, match="plugin 'forgets': 'perform_tool' returned None"):
        await perform_tool(here, forgets=forgets)


async def test_eff_7_an_exception_of_the_hook_is_the_effects_error() -> None:
    async def faulty(call: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        await perform_tool(here, faulty=faulty)
    assert caught.value.__notes__ == ["raised by plugin 'faulty' in 'perform_tool'"]


async def test_eff_7_an_error_of_the_effect_passes_without_blaming_the_plugins_around_it() -> None:
    async def passes(call: Any) -> Any:
        return await call.default()

    async def breaks() -> ToolResult:
        raise ValueError("the tool's own")

    with pytest.raises(ValueError, match="the tool's own") as caught:
        await perform_tool(breaks, one=passes, two=passes)
    assert not hasattr(caught.value, "__notes__")


async def test_eff_7_a_result_with_an_error_is_raised() -> None:
    async def remote(call: Any) -> ToolResult:
        return ToolResult(error={"type": "TimeoutError", "message": "too slow", "retryable": True})

    with pytest.raises(RemoteEffectError, match="too slow") as caught:
        await perform_tool(here, remote=remote)
    assert (caught.value.error_type, caught.value.retryable) == ("TimeoutError", True)


async def test_eff_7_a_model_response_with_an_error_code_is_a_result() -> None:
    async def remote(call: Any) -> ModelResponse:
        return ModelResponse(error_code="SAFETY")

    hooks = Hooks([FunctionPlugin("remote", perform_model=remote)])
    result, _ = await perform(hooks.perform_model, "perform_model", described, here)
    assert result.error_code == "SAFETY"


@pytest.mark.parametrize("signal", [Pause, asyncio.CancelledError])
async def test_eff_7_pause_and_cancellation_pass_untouched(signal: type[BaseException]) -> None:
    async def passes(call: Any) -> Any:
        return await call.default()

    async def stops() -> ToolResult:
        raise signal

    with pytest.raises(signal) as caught:
        await perform_tool(stops, passes=passes)
    assert not hasattr(caught.value, "__notes__")


async def test_eff_2_a_call_is_json_and_its_fields_read_as_attributes() -> None:
    call = described(here)
    assert json.loads(json.dumps(call.to_json())) == {
        **{key: value for key, value in FIELDS.items() if key != "data"},
        **FIELDS["data"],
    }
    assert (call.tool, call.args, call.confirmation) == ("add", {"a": 1}, None)
    with pytest.raises(AttributeError, match="a tool effect has no 'request'; it has: tool, call_id, args"):
        _ = call.request


async def test_eff_4_emit_passes_partials_on_and_is_silent_where_nobody_listens() -> None:
    heard: list[ModelResponse] = []
    partial = ModelResponse(partial=True)
    EffectCall(**FIELDS, default=here, emit=heard.append).emit(partial)
    described(here).emit(partial)
    assert heard == [partial]
