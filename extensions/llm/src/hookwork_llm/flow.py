"""The model-tool loop of an LLM agent (core §4)."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from hookwork.context import CallbackContext, ToolContext
from hookwork.errors import ConfigurationError, HookworkError, IncompleteModelStream
from hookwork.model import ModelRequest
from hookwork.platform import new_uuid, timestamp
from hookwork.records.content import Content, FunctionCall
from hookwork.records.event import NO_ACTIONS, Event, EventActions, NodeInfo
from hookwork.records.history import is_model_turn
from hookwork.records.metadata import ModelResponse
from hookwork.state import DeltaBuffer
from hookwork.tool import Tool
from hookwork_llm.batch import Batch, resume_batch
from hookwork_llm.contents import build_contents
from hookwork_llm.model_stage import EMPTY_RESPONSE, ModelStage
from hookwork_llm.prepared import Prepared

if TYPE_CHECKING:
    from hookwork.context import InvocationContext
    from hookwork_llm.agent import LlmAgent

logger = logging.getLogger("hookwork.flow")

#: Thought-only model turns in a row after which the loop gives up (core FLOW-2).
MAX_THOUGHT_TURNS = 3

_RESPONSE_FIELDS = tuple(name for name in ModelResponse.__struct_fields__ if name not in ("content", "extra"))
_PLAIN_FIELDS = frozenset({"partial", "turn_complete", "finish_reason", "usage_metadata", "model_version"})


async def run_flow(agent: LlmAgent, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
    """One agent call: what was left unfinished first, then steps until the model has answered (FLOW-1)."""
    flow = Flow(agent, ctx)
    if ctx.resuming:
        async with aclosing(flow.resume()) as events:
            async for event in events:
                yield event
        if flow.over:
            return
    while not flow.over and not ctx.ended:
        async with aclosing(flow.step()) as events:
            async for event in events:
                yield event


class Flow:
    """One agent call's loop: what its steps share."""

    __slots__ = (
        "_resolved_tools",
        "agent",
        "ctx",
        "inv",
        "over",
        "path_info",
        "prepared",
        "request_buffer",
        "stage_context",
        "stamp_info",
        "table",
        "thought_turns",
        "turn",
    )

    def __init__(self, agent: LlmAgent, ctx: InvocationContext) -> None:
        self.agent = agent
        self.ctx = ctx
        self.inv = ctx._inv
        self.prepared: Prepared = self.inv.prepared_for(agent)
        self.over = False
        self.thought_turns = 0
        #: model turns of this activation so far (tools-plugins EFF-2).
        self.turn = 0
        if ctx.resuming and (record := ctx.view.record) is not None:
            self.turn = record.turns
        self.table: dict[str, Tool] = {}
        self._resolved_tools: list[Tool] | None = None
        self.path_info = NodeInfo(path=ctx.path)
        self.stamp_info = NodeInfo(path=ctx.path, status="completed")
        self.request_buffer = DeltaBuffer()
        self.stage_context: CallbackContext = ctx

    # --- the request --------------------------------------------------------------------------------------------------

    async def tools(self) -> list[Tool]:
        """The agent's tools, then those of its toolsets; listed once per agent call (TL-03)."""
        if self._resolved_tools is None:
            tools = list(self.agent.function_tools)
            for toolset in self.agent.toolsets:
                try:
                    tools.extend(await toolset.tools(self.ctx.readonly()))
                except Exception as error:
                    if toolset.optional:
                        logger.warning("toolset %r gave no tools: %s", toolset.name, error)
                        continue
                    raise HookworkError(
                        f"toolset {toolset.name!r} of agent {self.agent.name!r} could not list its tools: {error}"
                    ) from error
            self._resolved_tools = tools
        return self._resolved_tools

    def contents(self) -> Sequence[Content]:
        """The history as this agent's model may see it (core §4.5)."""
        model, ctx = self.prepared.model, self.ctx
        return build_contents(
            self.inv.session,
            agent=self.agent,
            agent_name=self.agent.name,
            branch=ctx.branch,
            isolation_scope=ctx.isolation_scope,
            include_contents=self.agent.include_contents,
            pairs_by_id=model is not None and model.capabilities.pairs_calls_by_id,
            user_content=self.inv.user_content,
        )

    def request_context(self, call_id: str, name: str) -> ToolContext:
        """For a tool's `process_request`: its writes go to the step's model event."""
        ctx = self.ctx
        return ToolContext(
            self.inv,
            self.agent,
            ctx.branch,
            ctx.isolation_scope,
            ctx.path,
            parent_path=ctx.path,
            buffer=self.request_buffer,
            place=f"model/{self.turn + 1}",
            function_call_id=call_id,
            tool_name=name,
        )

    async def build_request(self) -> ModelRequest:
        """The request of a step: the prepared one, or all stages in order (core §4.2)."""
        static = self.prepared.static
        if static is not None:
            request = ModelRequest(model=static.model, config=static.config, tools=dict(static.tools))
            request.contents = self.contents()
            return request
        request = ModelRequest()
        for name, fn, built_in in self.prepared.stages:
            try:
                done = fn(self if built_in else self.stage_context, request)
                if inspect.isawaitable(done):
                    await done
            except Exception as error:
                error.add_note(f"in request stage {name!r} of agent {self.agent.name!r}")
                raise
        return request

    # --- steps --------------------------------------------------------------------------------------------------------

    async def step(self) -> AsyncGenerator[Event, None]:
        """One model call and the tools it asks for (FLOW-10)."""
        inv, ctx = self.inv, self.ctx
        model = self.prepared.require_model()
        buffer = self.request_buffer = DeltaBuffer()
        turn = self.turn + 1
        self.stage_context = callback = CallbackContext(
            inv,
            self.agent,
            ctx.branch,
            ctx.isolation_scope,
            ctx.path,
            buffer=buffer,
            place=f"model/{turn}",
            resuming=ctx.resuming,
        )
        request = await self.build_request()
        if inv.ended:
            return
        self.table = request.tools
        stage = ModelStage(self.agent, model, request, callback, stream=inv.config.streaming_mode == "sse")
        event_id = new_uuid()
        final: ModelResponse | None = None
        async with aclosing(stage.responses()) as responses:  # type: ignore[type-var]
            async for response in responses:
                if response.partial:
                    if response.content is not None or response.error_code or response.interrupted:
                        yield self._partial(response, event_id)
                else:
                    final = response
        if final is None:
            raise IncompleteModelStream(
                f"model {model.name!r} of agent {self.agent.name!r} ended its stream without a final response; nothing "
                "of this turn was stored",
                provider=model.capabilities.provider,
                model=model.name,
            )
        if stage.used_model or final.usage_metadata is not None:
            inv.usage.add(self.agent.name, final.model_version or request.model or model.name, final.usage_metadata)
        async with aclosing(self._answered(final, event_id, buffer)) as events:
            async for event in events:
                yield event

    def _partial(self, response: ModelResponse, event_id: str) -> Event:
        ctx = self.ctx
        return Event(
            id=event_id,
            timestamp=timestamp(),
            invocation_id=self.inv.invocation_id,
            author=self.agent.name,
            actions=NO_ACTIONS,
            content=response.content,
            partial=True,
            branch=ctx.branch,
            isolation_scope=ctx.isolation_scope,
            node_info=self.path_info,
            **_more(response),
        )

    async def _answered(
        self, response: ModelResponse, event_id: str, buffer: DeltaBuffer
    ) -> AsyncGenerator[Event, None]:
        """The model event, then the batch it asks for."""
        content = response.content
        calls: list[FunctionCall] = content.function_calls if content is not None and not response.error_code else []
        response = self._limit_thoughts(response, bool(calls))
        ends = not calls and not self._is_thought_only(response)
        event = self._model_event(response, event_id, calls, ends)
        self.inv.attach(event, buffer)
        if is_model_turn(event):
            self.turn += 1
        yield event
        buffer.closed = True
        if ends:
            self.over = True
        if not calls or self.inv.ended:
            return
        async with aclosing(Batch(self, event, calls).run()) as events:
            async for later in events:
                yield later

    def _is_thought_only(self, response: ModelResponse) -> bool:
        content = response.content
        return (
            not response.error_code
            and content is not None
            and bool(content.parts)
            and all(part.thought for part in content.parts)
        )

    def _limit_thoughts(self, response: ModelResponse, has_calls: bool) -> ModelResponse:
        """The third thought-only turn in a row becomes an error event (FLOW-2)."""
        if has_calls or not self._is_thought_only(response):
            self.thought_turns = 0
            return response
        self.thought_turns += 1
        if self.thought_turns < MAX_THOUGHT_TURNS:
            return response
        return response.replace(
            error_code=EMPTY_RESPONSE,
            error_message=f"the model only thought, {self.thought_turns} turns in a row, and answered nothing",
        )

    def _model_event(self, response: ModelResponse, event_id: str, calls: Sequence[FunctionCall], ends: bool) -> Event:
        ctx = self.ctx
        long_running = tuple(
            call.id or ""
            for call in calls
            if (tool := self.table.get(call.name or "")) is not None and tool.is_long_running
        )
        actions = NO_ACTIONS
        key = self.agent.output_key
        if key is not None and ends and not response.error_code:
            text = response.text
            if any(
                part.text is not None and not part.thought
                for part in (response.content.parts if response.content else ())
            ):
                actions = EventActions(state_delta={key: text})
        return Event(
            id=event_id,
            timestamp=timestamp(),
            invocation_id=self.inv.invocation_id,
            author=self.agent.name,
            actions=actions,
            content=response.content,
            branch=ctx.branch,
            isolation_scope=ctx.isolation_scope,
            long_running_tool_ids=long_running,
            node_info=self.stamp_info if ends else self.path_info,
            **_more(response),
        )

    async def resume(self) -> AsyncGenerator[Event, None]:
        """The batch that an entry of a known activation begins with (ACT-20)."""
        async with aclosing(resume_batch(self)) as events:
            async for event in events:
                yield event

    def transfer_to(self, name: str) -> None:
        """A hand-over was decided: check the target and end the body; the kernel goes on there (TRF-4)."""
        if not any(target.name == name for target in self.prepared.targets):
            known = ", ".join(target.name for target in self.prepared.targets) or "none"
            raise ConfigurationError(
                f"agent {self.agent.name!r} was asked to transfer to {name!r}, which is not among its targets ({known})"
            )
        self.over = True


def _more(response: ModelResponse) -> dict[str, Any]:
    """The response's further fields that are set, for its event."""
    return {
        name: value for name in _RESPONSE_FIELDS if (value := getattr(response, name)) is not None and name != "partial"
    }
