"""Lifecycle hooks: what a plugin may do during a run (tools-plugins §7).

Order: tryfirst, then list order, then trylast. Value hooks stop at the first value that is not None; a value skips
the default action named in each text. A raise in a value hook ends the stage. Hooks may be async or plain functions
and may take any subset of the parameters by name.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from hookwork.plugins.markers import hookspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hookwork.agent import Agent
    from hookwork.context import CallbackContext, InvocationContext, ToolContext
    from hookwork.effects import EffectCall, NodeResult, ToolResult, WriteResult
    from hookwork.model import ModelRequest
    from hookwork.node import Node, NodeOutcome
    from hookwork.records.content import Content
    from hookwork.records.event import Event
    from hookwork.records.history import Call
    from hookwork.records.metadata import ModelResponse
    from hookwork.run import RunOutcome
    from hookwork.stages import Stage
    from hookwork.tool import Tool


class RunHooks:
    """One run of the runner."""

    @hookspec
    async def on_user_message(self, ctx: InvocationContext, message: Content) -> Content | None:
        """Before the user's message is stored. A value replaces it everywhere; a raise ends the run, nothing stored."""

    @hookspec
    async def before_run(self, ctx: InvocationContext) -> Content | None:
        """After the user's message was stored. A value is the answer: the agent is not run."""

    @hookspec
    async def on_event(self, ctx: InvocationContext, event: Event) -> Event | None:
        """Each event of the agents, partial ones too, before it is stored. A value is stored and yielded instead."""

    @hookspec
    async def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
        """Once for every run whose context was built, however it ended. All are called; raises are logged."""

    @hookspec
    async def on_run_error(self, ctx: InvocationContext, error: BaseException) -> None:
        """The run fails. All are called; raises are logged; the error goes on."""

    @hookspec
    def around_run(self, ctx: InvocationContext, stage: Stage) -> AbstractAsyncContextManager[Any]:  # type: ignore[empty-body]
        """Entered before ``on_user_message``, left before ``after_run``; ``stage.outcome.value`` is the RunOutcome."""


class AgentHooks:
    """One agent call."""

    @hookspec
    async def before_agent(self, ctx: CallbackContext, agent: Agent) -> Content | None:
        """Before an agent's body. A value is its answer: body and ``after_agent`` are skipped."""

    @hookspec
    async def after_agent(self, ctx: CallbackContext, agent: Agent) -> Content | None:
        """After the body ended or paused. A value becomes one further event."""

    @hookspec
    async def on_agent_error(self, ctx: CallbackContext, agent: Agent, error: BaseException) -> None:
        """The agent call fails. All are called; raises are logged; the error goes on."""

    @hookspec
    def around_agent(  # type: ignore[empty-body]
        self, ctx: CallbackContext, agent: Agent, stage: Stage
    ) -> AbstractAsyncContextManager[Any]:
        """Around an entered agent call; ``stage.outcome.value`` is an AgentOutcome."""

    @hookspec
    async def on_pause(self, ctx: CallbackContext, open_calls: Sequence[Call]) -> None:
        """An activation raised open calls and pauses. All are called; raises are logged."""


class ModelHooks:
    """One model call."""

    @hookspec
    async def before_model(self, ctx: CallbackContext, request: ModelRequest) -> ModelResponse | None:
        """The request is complete. A value is the response: model, ``on_model_error``, ``after_model`` are skipped."""

    @hookspec
    async def after_model(
        self, ctx: CallbackContext, request: ModelRequest, response: ModelResponse
    ) -> ModelResponse | None:
        """Each response, partial ones too. A value replaces it."""

    @hookspec
    async def on_model_error(
        self, ctx: CallbackContext, request: ModelRequest, error: Exception
    ) -> ModelResponse | None:
        """The model raised. A value is the response instead, and goes to ``after_model``."""

    @hookspec
    def around_model(  # type: ignore[empty-body]
        self, ctx: CallbackContext, request: ModelRequest, stage: Stage
    ) -> AbstractAsyncContextManager[Any]:
        """Around the model stage; ``stage.outcome.value`` is the final ModelResponse."""


class ToolHooks:
    """One tool call."""

    @hookspec
    async def before_tool(self, ctx: ToolContext, tool: Tool, args: dict[str, Any]) -> dict[str, Any] | None:
        """Before validation. A value (an empty dict too) is the result: validation, gate and tool are skipped."""

    @hookspec
    async def after_tool(
        self,
        ctx: ToolContext,
        tool: Tool,
        args: dict[str, Any],
        result: dict[str, Any] | None,
        error: Exception | None,
    ) -> dict[str, Any] | None:
        """After the tool. A value replaces the result and clears the error."""

    @hookspec
    async def on_tool_error(
        self, ctx: ToolContext, tool: Tool, args: dict[str, Any], error: Exception
    ) -> dict[str, Any] | None:
        """``before_tool`` or the tool raised. A value is the result instead."""

    @hookspec
    def around_tool(  # type: ignore[empty-body]
        self, ctx: ToolContext, tool: Tool, args: dict[str, Any], stage: Stage
    ) -> AbstractAsyncContextManager[Any]:
        """Around one call; ``stage.outcome.value`` is the result dict, or None when there is no response."""


class NodeHooks:
    """One node activation."""

    @hookspec
    async def before_node(self, ctx: Any, input: Any) -> NodeOutcome | None:
        """Before a node's body. A value counts as its result."""

    @hookspec
    async def after_node(self, ctx: Any, outcome: NodeOutcome) -> NodeOutcome | None:
        """The output is about to be emitted. A value replaces it."""

    @hookspec
    async def on_node_error(self, ctx: Any, error: Exception, attempt: int) -> NodeOutcome | None:
        """The node failed and its retries are used up. A value replaces the failure."""

    @hookspec
    def around_node(self, ctx: Any, node: Node, input: Any, stage: Stage) -> AbstractAsyncContextManager[Any]:  # type: ignore[empty-body]
        """Around an entered node, all its attempts inside; ``stage.outcome.value`` is a NodeOutcome."""


class EffectHooks:
    """How an effect is carried out; the first plugin that implements one decides (tools-plugins §7.2)."""

    @hookspec
    async def perform_model(self, call: EffectCall) -> ModelResponse:  # type: ignore[empty-body]
        """Carry out a model call; ``await call.default()`` does it here and now."""

    @hookspec
    async def perform_tool(self, call: EffectCall) -> ToolResult:  # type: ignore[empty-body]
        """Carry out a tool call."""

    @hookspec
    async def perform_node(self, call: EffectCall) -> NodeResult:  # type: ignore[empty-body]
        """Carry out one attempt at a leaf node's body."""

    @hookspec
    async def perform_write(self, call: EffectCall) -> WriteResult:  # type: ignore[empty-body]
        """Carry out a write to a service."""


class PluginHooks:
    """The plugin itself."""

    @hookspec
    async def close(self) -> None:
        """The runner closes. All are called, each within the close timeout; failures are raised together."""


LIFECYCLE_SPECS = (RunHooks, AgentHooks, ModelHooks, ToolHooks, NodeHooks, EffectHooks, PluginHooks)
