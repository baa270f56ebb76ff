"""One turn of a run as a plugin sees it, played without a runner: every hook it implements is called once."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from hookwork.activation import AgentOutcome
from hookwork.agent import Agent
from hookwork.context import InvocationContext
from hookwork.effects import EffectCall, NodeResult, ToolResult, WriteResult
from hookwork.hookspecs.table import LIFECYCLE_HOOKS, Rule
from hookwork.model import ModelRequest
from hookwork.node import Node, NodeOutcome
from hookwork.plugins.dispatch import Hooks
from hookwork.records.content import Content, text_content, user_content
from hookwork.records.event import Event
from hookwork.records.metadata import ModelResponse
from hookwork.run import RunOutcome
from hookwork.stages import Stage, StageOutcome
from hookwork_testkit.contexts import make_context
from hookwork_testkit.scene_tools import Recorder

#: value hook → what its value is an object of (tools-plugins §7).
VALUES: dict[str, type] = {
    "on_user_message": Content,
    "before_run": Content,
    "on_event": Event,
    "before_agent": Content,
    "after_agent": Content,
    "before_model": ModelResponse,
    "after_model": ModelResponse,
    "on_model_error": ModelResponse,
    "before_tool": dict,
    "after_tool": dict,
    "on_tool_error": dict,
    "before_node": NodeOutcome,
    "after_node": NodeOutcome,
    "on_node_error": NodeOutcome,
}
#: effect hook → what it gives.
EFFECTS: dict[str, type] = {
    "perform_model": ModelResponse,
    "perform_tool": ToolResult,
    "perform_node": NodeResult,
    "perform_write": WriteResult,
}
#: The hooks of a turn in the order in which a run calls them.
_ORDER = (
    "on_user_message", "before_run", "before_agent", "before_model", "perform_model", "on_model_error", "after_model",
    "on_event", "before_tool", "perform_tool", "on_tool_error", "after_tool", "before_node", "perform_node",
    "on_node_error", "after_node", "perform_write", "on_pause", "after_agent", "on_agent_error", "on_run_error",
)  # fmt: skip
_AROUND = ("around_run", "around_agent", "around_node", "around_model", "around_tool")


class Planted(RuntimeError):
    """The error of a stage that failed, made by the suite."""


class HookTurn:
    """Plays a turn and keeps what each hook gave.

    Attributes:
        gave: hook → its value, for value and effect hooks that were called.
        raised: hook → what it raised by itself, around hooks too; the error of the stage itself is left out.
        inputs: name → what the hooks were given, to see what became of it.
    """

    def __init__(self, hooks: Hooks, *, error: BaseException | None = None, invocation_id: str = "e-suite") -> None:
        self.hooks = hooks
        self.error = error
        self.gave: dict[str, Any] = {}
        self.raised: dict[str, BaseException] = {}
        self.invocation_id = invocation_id
        self.agent = Agent(name="suite_agent", description="The agent of the turn.", body=_no_events)
        self.inputs = self._inputs()

    @property
    def implemented(self) -> list[str]:
        """The hooks that somebody implements."""
        return [hook for hook in LIFECYCLE_HOOKS if getattr(self.hooks, hook)]

    async def play(self) -> HookTurn:
        """The turn, from the message to ``after_run``."""
        async with AsyncExitStack() as stack:
            stages = [(hook, await self._enter(stack, hook)) for hook in _AROUND]
            for hook in _ORDER:
                await self._call(hook)
            for hook, stage in stages:
                stage.outcome = StageOutcome(self._outcome(hook), self.error)
        await self._call("after_run")
        return self

    async def _enter(self, stack: AsyncExitStack, hook: str) -> Stage:
        stage = Stage(hook.removeprefix("around_"))
        for call, _ in getattr(self.hooks, hook):
            try:
                manager = call(*self._values(hook), stage)
                await manager.__aenter__()
            except Exception as error:  # noqa: BLE001 - kept, for the suite to look at
                self.raised[hook] = error
            else:
                stack.push_async_callback(self._leave, hook, manager)
        return stage

    async def _leave(self, hook: str, manager: Any) -> None:
        error = self.error
        try:
            await manager.__aexit__(type(error) if error else None, error, error.__traceback__ if error else None)
        except BaseException as raised:  # noqa: BLE001 - the stage's error is thrown in, and may come out again
            if raised is not error:
                self.raised[hook] = raised

    async def _call(self, hook: str) -> None:
        for call, _ in getattr(self.hooks, hook):
            try:
                value = call(*self._values(hook))
                self.gave[hook] = await value if inspect.isawaitable(value) else value
            except Exception as error:  # noqa: BLE001 - kept, for the suite to look at
                self.raised[hook] = error

    # --- what the hooks are given -------------------------------------------------------------------------------------

    def _values(self, hook: str) -> list[Any]:
        """The parameters of a hook, in the order of the table; ``stage`` is the caller's."""
        return [self._value(hook, name) for name in LIFECYCLE_HOOKS[hook][1] if name != "stage"]

    def _value(self, hook: str, name: str) -> Any:
        if name == "outcome":
            return self._outcome("around_node" if "node" in hook else "around_run")
        if name == "call":
            return self._effect(hook)
        if name == "error":
            failed = hook != "after_tool" or self.error is not None
            return (self.error or Planted("the stage failed")) if failed else None
        if name == "ctx":
            return self.inputs[f"ctx/{_context_kind(hook)}"]
        return self.inputs[name]

    def _inputs(self) -> dict[str, Any]:
        tool = Recorder("look")
        request = ModelRequest(contents=[user_content("hello")], tools={"look": tool})
        request.add_declarations([tool.declaration()])
        options: dict[str, Any] = {"agent": self.agent, "message": "hello", "invocation_id": self.invocation_id}
        return {
            **{f"ctx/{kind}": make_context(kind, **options) for kind in ("invocation", "callback", "tool")},
            "message": user_content("hello"),
            "event": Event(id="evt-1", invocation_id=self.invocation_id, author="suite_agent", timestamp=1.0,
                           content=text_content("hello")),
            "agent": self.agent,
            "request": request,
            "response": ModelResponse(content=text_content("hello"), finish_reason="STOP"),
            "tool": tool,
            "args": {"city": "Paris"},
            "result": {"n": 1},
            "open_calls": (),
            "input": "hello",
            "node": _Step(),
            "attempt": 1,
        }  # fmt: skip

    def _outcome(self, hook: str) -> Any:
        """What stands in ``stage.outcome.value`` of a stage."""
        kind = "completed" if self.error is None else "failed"
        if isinstance(self.error, asyncio.CancelledError):
            kind = "closed"
        outcomes: Mapping[str, Any] = {
            "around_run": RunOutcome(kind, invocation_id=self.invocation_id, error=self.error),
            "around_agent": AgentOutcome(kind, None, ()),
            "around_node": NodeOutcome(status=kind, output="hello"),
            "around_model": self.inputs["response"],
            "around_tool": self.inputs["result"],
        }
        return outcomes[hook]

    def _effect(self, hook: str) -> EffectCall:
        kind = hook.removeprefix("perform_")
        data: dict[str, dict[str, Any]] = {
            "model": {"model": "scripted", "request": {"contents": []}, "stream": False},
            "tool": {"tool": "look", "call_id": "c-1", "args": {"city": "Paris"}, "confirmation": None},
            "node": {"node": "step", "run_id": "1", "attempt": 1, "input": "hello", "answers": {}},
            "write": {"op": "append_event", "payload": {}},
        }
        results: dict[str, Any] = {
            "model": self.inputs["response"],
            "tool": ToolResult(result={"n": 1}),
            "node": NodeResult(output="hello"),
            "write": WriteResult(payload={}),
        }

        async def default() -> Any:
            return results[kind]

        return EffectCall(
            kind=kind,
            key=f"{self.invocation_id}/suite_agent@1/{kind}",
            app_name="test_app",
            user_id="test_user",
            session_id="test_session",
            invocation_id=self.invocation_id,
            agent="suite_agent",
            branch="",
            isolation_scope="",
            path="suite_agent@1",
            state={},
            data=data[kind],
            default=default,
        )


class _Step(Node):
    name = "step"
    description = "The node of the turn."

    async def run(self, ctx: Any, input: Any) -> Any:
        return
        yield


async def _no_events(ctx: InvocationContext) -> Any:
    return
    yield


def _context_kind(hook: str) -> str:
    if hook.endswith(("_tool", "_tool_error")):
        return "tool"
    run_hooks = ("on_user_message", "before_run", "on_event", "after_run", "on_run_error", "around_run")
    return "invocation" if hook in run_hooks or "node" in hook else "callback"


#: Hooks whose errors are only logged or collected.
NOTIFIED = tuple(hook for hook, (rule, _) in LIFECYCLE_HOOKS.items() if rule is Rule.NOTIFY)
