"""The model-tool loop of an LLM agent (core §4)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar

from hookwork.context import CallbackContext, ToolContext
from hookwork.errors import ConfigurationError, DuplicateToolError, IncompleteModelStream
from hookwork.inside import invocation_of
from hookwork.model import ModelRequest
from hookwork.platform import new_uuid, timestamp
from hookwork.records.content import Content, FunctionCall, text_content
from hookwork.records.event import NO_ACTIONS, Event, EventActions, NodeInfo
from hookwork.records.history import is_model_turn
from hookwork.records.metadata import ModelResponse
from hookwork.state import DeltaBuffer
from hookwork.tool import Tool
from hookwork_llm.agent_calls import as_user_content
from hookwork_llm.batch import Batch, resume_batch
from hookwork_llm.builtin_stages import check_tool_kinds, toolset_error
from hookwork_llm.contents import build_contents
from hookwork_llm.model_stage import EMPTY_RESPONSE, ModelStage
from hookwork_llm.offered import offered
from hookwork_llm.prepared import Prepared
from hookwork_llm.replies import Reply, judged
from hookwork_llm.standing import hand_over_is_due

if TYPE_CHECKING:
    from hookwork.context import InvocationContext
    from hookwork.view import View
    from hookwork_llm.agent import LlmAgent

logger = logging.getLogger("hookwork.flow")

#: Thought-only model turns in a row after which the loop gives up (core FLOW-2).
MAX_THOUGHT_TURNS = 3


async def run_flow(agent: LlmAgent, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
    """One agent call: what was left unfinished first, then steps until the model has answered (FLOW-1).

    A step is one model call and the batch of tools it asks for (FLOW-10). The steps are not a generator of their own:
    a layer costs more than what it would tidy up.
    """
    flow = Flow(agent, ctx)
    if ctx.resuming or (flow.prepared.tasks and flow.inv.session.log.has_scopes):
        async with aclosing(resume_batch(flow)) as events:
            async for event in events:
                yield event
        if ctx.resuming and hand_over_is_due(ctx.view):
            return  # it waited for calls of its batch: no further model call, the kernel takes it (ACT-18)
    while not flow.over and not ctx.ended:
        stage = await flow.begin_step()
        if stage is None:
            left = flow.left_writes()
            if left is not None:
                yield left
            return
        responses = stage.responses()
        if stage.plain and stage.was_cancelled:
            await asyncio.sleep(0)  # a cancellation that was asked for before comes here: it is not the model's
        try:
            async for response in responses:
                if stage.plain:
                    response = stage.polished(response)
                if not response.partial:
                    flow.final = response
                elif response.content is not None or response.error_code or response.interrupted:
                    yield flow.partial_event(response)
        except asyncio.CancelledError as error:
            failed = stage.stray(error) if stage.plain else None
            if failed is None:
                raise
            raise failed from error
        finally:
            await responses.aclose()
        if flow.final is not None and (flow.code is not None or agent.planner is not None):
            flow.final = await flow.revised(flow.final)
        event, calls = flow.model_event(stage)
        batch = Batch.of_turn(flow, event, calls) if calls else None
        yield event
        flow.request_buffer.closed = True
        if flow.code is not None and flow.code.pending is not None and not ctx.ended:
            yield await flow.code.run(flow, event)
        if batch is not None and not ctx.ended:
            events = batch.run()
            try:
                async for event in events:
                    yield event
            finally:
                await events.aclose()


class Flow:
    """One agent call's loop: what its steps share."""

    __slots__ = (
        "_corrections",
        "_resolved_tools",
        "agent",
        "began_anew",
        "code",
        "ctx",
        "event_id",
        "final",
        "inv",
        "output_tries",
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

    #: built-in stages that this kind of loop does without.
    left_out: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, agent: LlmAgent, ctx: InvocationContext) -> None:
        self.agent = agent
        self.ctx = ctx
        self.inv = invocation_of(ctx)
        self.prepared: Prepared = self.inv.prepared_for(agent)
        self.code = self.prepared.code_rounds()
        self.over = False
        self.thought_turns = 0
        #: further tries after a reply without the required form, and what the model is told about the last one (OUT-6).
        self.output_tries = agent.output_retries
        self._corrections: list[Content] = []
        #: model turns of this activation so far (tools-plugins EFF-2).
        self.turn = 0
        #: where the activation began anew after a failed attempt; prompts show nothing of that (workflow RTY-5).
        self.began_anew: View | None = None
        if ctx.resuming and (record := ctx.view.record) is not None:
            self.turn = record.turns
            self.began_anew = ctx.view if record.voided >= 0 else None
        self.table: dict[str, Tool] = {}
        self._resolved_tools: list[Tool] | None = None
        self.path_info = NodeInfo(path=ctx.path)
        self.stamp_info = NodeInfo(path=ctx.path, status="completed")
        self.request_buffer = DeltaBuffer()
        self.stage_context: CallbackContext = ctx
        self.event_id = ""
        self.final: ModelResponse | None = None

    # --- the request --------------------------------------------------------------------------------------------------

    async def tools(self) -> list[Tool]:
        """The agent's tools, then those of its toolsets; listed once per agent call (TL-03)."""
        if self._resolved_tools is None:
            tools = list(self.agent.function_tools)
            for toolset in self.agent.toolsets:
                try:
                    listed = await toolset.tools(self.ctx.readonly())
                    tools.extend(offered(listed, tools, f"toolset {toolset.name!r} of agent {self.agent.name!r}"))
                except DuplicateToolError:
                    raise
                except Exception as error:
                    if toolset.optional:
                        logger.warning("toolset %r gave no tools: %s", toolset.name, error)
                        continue
                    raise toolset_error(toolset.name, self.agent.name, "could not list its tools", error) from error
            self._resolved_tools = tools
        return self._resolved_tools

    async def known_tools(self) -> dict[str, Tool]:
        """The execution table for calls that were made before: no request is built for them (core §4.2, stage 4)."""
        static = self.prepared.static
        if static is not None:
            return static.tools
        table = {tool.name: tool for tool in await self.tools()}
        prepared = self.prepared
        for tool in (prepared.transfer_tool, prepared.reply_tool, prepared.finish_tool, *prepared.agent_tools):
            if tool is not None:
                table[tool.name] = tool
        return table

    def contents(self) -> Sequence[Content]:
        """The history as this agent's model may see it (core §4.5)."""
        model, ctx = self.prepared.model, self.ctx
        single_turn = self.agent.effective_mode == "single_turn"
        return build_contents(
            self.inv.session,
            agent=self.agent,
            agent_name=self.agent.name,
            branch=ctx.branch,
            isolation_scope=ctx.isolation_scope,
            include_contents="none" if single_turn else self.agent.include_contents,
            pairs_by_id=model is not None and model.capabilities.pairs_calls_by_id,
            compaction=self.inv.setup.compaction is not None,
            user_content=self._opening(single_turn),
            single_turn=single_turn,
            place=ctx.view if single_turn else None,
            began_anew=self.began_anew,
            extra=self._corrections,
        )

    def _opening(self, single_turn: bool) -> Content | None:
        """What the conversation is about, for an agent that does not see the one it was called from (CON-9)."""
        if single_turn:
            return as_user_content(self.ctx.input)
        scope, briefs = self.ctx.isolation_scope, self.inv.briefs
        if scope and scope in briefs:  # a node works on a task: what it was given stays first (workflow WB-6)
            return as_user_content(briefs[scope])
        return self.inv.user_content

    def correct(self, text: str) -> None:
        """Tell the model in the next request what was wrong with its last reply; never stored."""
        self._corrections = [text_content(text, role="user")]

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
            if name in self.left_out:
                continue
            try:
                done = fn(self if built_in else self.stage_context, request)
                if inspect.isawaitable(done):
                    await done
            except Exception as error:
                error.add_note(f"in request stage {name!r} of agent {self.agent.name!r}")
                raise
        if len(request.config.tools) > 1:
            check_tool_kinds(self.prepared, request)
        return request

    async def preview(self) -> ModelRequest:
        """The request of the first step, with writes of its stages forgotten."""
        self.stage_context = self.ctx.callback(self.request_buffer, "model/1")
        try:
            return await self.build_request()
        finally:
            self.inv.live.discard(self.request_buffer)

    # --- steps --------------------------------------------------------------------------------------------------------

    async def begin_step(self) -> ModelStage | None:
        """Build the request of the next model call; None when a stage ended the invocation."""
        inv, ctx = self.inv, self.ctx
        model = self.prepared.require_model()
        self.request_buffer = buffer = DeltaBuffer()
        self.stage_context = callback = CallbackContext(
            inv,
            self.agent,
            ctx.branch,
            ctx.isolation_scope,
            ctx.path,
            buffer=buffer,
            place=f"model/{self.turn + 1}",
            resuming=ctx.resuming,
        )
        request = await self.build_request()
        if inv.ended:
            return None
        self.event_id = new_uuid()
        self.final = None
        stream = inv.config.streaming_mode == "sse"
        return ModelStage(self.agent, model, request, callback, stream=stream, event_id=self.event_id)

    def left_writes(self) -> Event | None:
        """What was written while a request was built that is never sent, on an event of its own (DLT-6)."""
        buffer = self.request_buffer
        buffer.closed = True
        if not buffer:
            return None
        ctx = self.ctx
        event = Event(
            id=new_uuid(),
            timestamp=timestamp(),
            invocation_id=self.inv.invocation_id,
            author=self.agent.name,
            branch=ctx.branch,
            isolation_scope=ctx.isolation_scope,
            node_info=self.path_info,
        )
        return self.inv.attach(event, buffer)

    def partial_event(self, response: ModelResponse) -> Event:
        """A piece of the answer, under the id of the event that will hold the whole (STR-2)."""
        return event_of(
            response,
            self.event_id,
            self.inv.invocation_id,
            self.agent.name,
            self.ctx.branch,
            self.ctx.isolation_scope,
            self.path_info,
        )

    async def revised(self, response: ModelResponse) -> ModelResponse:
        """The answer up to the code in it that is to be run, and what the planner makes of it (FLOW-10)."""
        if self.code is not None:
            response = self.code.take(response)
        if self.agent.planner is not None:
            from hookwork_llm.planning.contract import plan_response

            response = await plan_response(self.agent.planner, self.stage_context, response)
        return response

    def model_event(self, stage: ModelStage) -> tuple[Event, Sequence[FunctionCall]]:
        """The model turn as an event, and the calls to carry out (FLOW-11).

        Raises:
            IncompleteModelStream: the stream ended without its final response (FLOW-3).
        """
        response, inv, ctx = self.final, self.inv, self.ctx
        self.table = stage.request.tools  # hooks may have put another table in its place
        if response is None:
            raise IncompleteModelStream(
                f"model {stage.model.name!r} of agent {self.agent.name!r} ended its stream without a final response; "
                "nothing of this turn was stored",
                provider=stage.model.capabilities.provider,
                model=stage.model.name,
            )
        usage = response.usage_metadata
        if stage.used_model or usage is not None:
            name = response.model_version or stage.request.model or stage.model.name
            inv.usage.add(self.agent.name, name, usage)
        content = response.content
        if content is not None and content.role is None:  # a hook left it out; without one it would never be shown
            content = content.replace(role="model")
            response = response.replace(content=content)
        calls = content.function_calls if content is not None and not response.error_code else []
        if calls:
            self.thought_turns = 0
            self._corrections = []
        else:
            response = self._limit_thoughts(response)
            runs_code = self.code is not None and self.code.pending is not None
            self.over = not runs_code and not self._is_thought_only(response)
        long_running = self.long_running(calls) if calls else ()
        reply = judged(self, response) if self.over else Reply(response, self.path_info)
        if reply.again:
            self.over = False
        if long_running and self.agent.output_key is not None:
            reply.actions = self.output_actions(response)  # what stands beside a call that may wait is an answer too
        event = event_of(
            reply.response,
            self.event_id,
            inv.invocation_id,
            self.agent.name,
            ctx.branch,
            ctx.isolation_scope,
            reply.info,
            actions=reply.actions,
            long_running=long_running,
            output=reply.output,
        )
        if is_model_turn(event):
            self.turn += 1
        return inv.attach(event, self.request_buffer), calls

    def _is_thought_only(self, response: ModelResponse) -> bool:
        content = response.content
        if response.error_code or content is None or not content.parts:
            return False
        for part in content.parts:
            if not part.thought:
                return False
        return True

    def _limit_thoughts(self, response: ModelResponse) -> ModelResponse:
        """The third thought-only turn in a row becomes an error event (FLOW-2)."""
        if not self._is_thought_only(response):
            self.thought_turns = 0
            return response
        self.thought_turns += 1
        if self.thought_turns < MAX_THOUGHT_TURNS:
            return response
        return response.replace(
            error_code=EMPTY_RESPONSE,
            error_message=f"the model only thought, {self.thought_turns} turns in a row, and answered nothing",
        )

    def output_actions(self, response: ModelResponse) -> EventActions:
        """``output_key`` gets the final text; an error or a turn without text leaves it as it is (LLM-10)."""
        content = response.content
        if response.error_code or content is None:
            return NO_ACTIONS
        if not any(part.text is not None and not part.thought for part in content.parts):
            return NO_ACTIONS
        return EventActions(state_delta={self.agent.output_key or "": content.text})

    def long_running(self, calls: Sequence[FunctionCall]) -> tuple[str, ...]:
        """The ids of calls to long-running tools (FLOW-11)."""
        found = []
        for call in calls:
            tool = self.table.get(call.name or "")
            if tool is not None and tool.is_long_running:
                found.append(call.id or "")
        return tuple(found)

    def transfer_to(self, name: str) -> None:
        """A hand-over was decided: check the target and end the body; the kernel goes on there (TRF-4)."""
        if not any(target.name == name for target in self.prepared.targets):
            known = ", ".join(target.name for target in self.prepared.targets) or "none"
            raise ConfigurationError(
                f"agent {self.agent.name!r} was asked to transfer to {name!r}, which is not among its targets ({known})"
            )
        self.over = True


def event_of(
    response: ModelResponse,
    event_id: str,
    invocation_id: str,
    author: str,
    branch: str,
    isolation_scope: str,
    info: NodeInfo,
    *,
    actions: EventActions = NO_ACTIONS,
    long_running: tuple[str, ...] = (),
    output: Any = None,
) -> Event:
    """A response as an event; the fields are spelled out because this runs once per streamed piece."""
    return Event(
        content=response.content,
        partial=response.partial,
        turn_complete=response.turn_complete,
        interrupted=response.interrupted,
        finish_reason=response.finish_reason,
        error_code=response.error_code,
        error_message=response.error_message,
        usage_metadata=response.usage_metadata,
        citation_metadata=response.citation_metadata,
        grounding_metadata=response.grounding_metadata,
        avg_logprobs=response.avg_logprobs,
        logprobs_result=response.logprobs_result,
        input_transcription=response.input_transcription,
        output_transcription=response.output_transcription,
        session_resumption_handle=response.session_resumption_handle,
        model_version=response.model_version,
        custom_metadata=response.custom_metadata,
        extra=response.extra,
        id=event_id,
        timestamp=timestamp(),
        invocation_id=invocation_id,
        author=author,
        actions=actions,
        branch=branch,
        isolation_scope=isolation_scope,
        long_running_tool_ids=long_running,
        node_info=info,
        output=output,
    )
