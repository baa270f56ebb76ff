"""The built-in request stages (core §4.2). Each is ``fn(flow, request)``."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from hookwork.errors import ConfigurationError, HookworkError, LimitExceeded
from hookwork.platform import new_uuid
from hookwork.tool import RequestProcessor, capability, pack_tool
from hookwork_llm.structured_output import INSTRUCTION, ask_for_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from hookwork.model import ModelRequest
    from hookwork_llm.agent import LlmAgent
    from hookwork_llm.flow import Flow
    from hookwork_llm.prepared import Prepared


def toolset_error(toolset: str, agent: str, what: str, error: Exception) -> HookworkError:
    """An error of a toolset, named (TL-04, TL-07)."""
    return HookworkError(f"toolset {toolset!r} of agent {agent!r} {what}: {type(error).__name__}: {error}")


def nothing(*_: Any) -> None:
    """A stage that has nothing to do here: a place for others."""


def identity_text(agent: LlmAgent) -> str:
    """The identity piece of the system instruction (INS-5)."""
    text = f'You are an agent. Your internal name is "{agent.name}".'
    return f'{text} What you are for: "{agent.description}".' if agent.description else text


def apply_basic(prepared: Prepared, request: ModelRequest) -> None:
    """Model name and the agent's own config."""
    if prepared.model is not None:
        request.model = prepared.model.name
    if prepared.agent.generate_content_config is not None:
        request.config = prepared.agent.generate_content_config


def apply_transfer(prepared: Prepared, request: ModelRequest) -> None:
    """The transfer tool and what the model is told about its targets (TRF-2)."""
    if prepared.transfer_tool is None:
        return
    pack_tool(request, prepared.transfer_tool)
    request.append_instruction(prepared.transfer_instruction)


async def collect_tools(flow: Flow, request: ModelRequest) -> None:
    """List the toolsets, once per agent call (REQ-2)."""
    await flow.tools()


def apply_structured_output(prepared: Prepared, request: ModelRequest) -> None:
    """Ask for the reply's form: by the model's own schema support, else by a tool (OUT-1, OUT-2)."""
    if prepared.schema is None:
        return
    if prepared.reply_tool is None:
        ask_for_object(request, prepared.schema)
        return
    pack_tool(request, prepared.reply_tool)
    request.append_instruction(INSTRUCTION)


def apply_agent_tools(prepared: Prepared, request: ModelRequest) -> None:
    """Tools named after called sub-agents, and `finish_task` with its instruction (MODE-3, MODE-4)."""
    for tool in prepared.agent_tools:
        pack_tool(request, tool)
    if prepared.finish_tool is not None:
        pack_tool(request, prepared.finish_tool)
        request.append_instruction(prepared.finish_tool.instruction)


def structured_output(flow: Flow, request: ModelRequest) -> None:
    apply_structured_output(flow.prepared, request)


def basic(flow: Flow, request: ModelRequest) -> None:
    apply_basic(flow.prepared, request)


async def instructions(flow: Flow, request: ModelRequest) -> None:
    """Global instruction of the root, then the agent's (INS-4)."""
    prepared, ctx = flow.prepared, flow.stage_context
    owner, agent = prepared.global_agent, prepared.agent
    texts: list[str] = []
    for provider, template in (
        (owner.global_instruction_provider, prepared.global_instruction),
        (agent.instruction_provider, prepared.instruction),
    ):
        if provider is not None:
            text = provider(ctx.readonly())
            texts.append(await text if inspect.isawaitable(text) else text)
        elif template is not None:
            texts.append(await template.render(ctx))
    request.append_instruction(*texts)


def identity(flow: Flow, request: ModelRequest) -> None:
    request.append_instruction(flow.prepared.identity)


def contents(flow: Flow, request: ModelRequest) -> None:
    request.contents = flow.contents()


def transfer(flow: Flow, request: ModelRequest) -> None:
    apply_transfer(flow.prepared, request)


async def tool_requests(flow: Flow, request: ModelRequest) -> None:
    """Each tool's `process_request`, in order; state it writes goes to the step's model event (TL-06, REQ-4)."""
    for tool in await flow.tools():
        processor = capability(tool, RequestProcessor)
        if processor is not None:
            await processor.process_request(flow.request_context(f"adk-{new_uuid()}", tool.name), request)
    apply_agent_tools(flow.prepared, request)


async def toolset_requests(flow: Flow, request: ModelRequest) -> None:
    """Each toolset's `process_request`, if it has one."""
    for toolset in flow.prepared.agent.toolsets:
        if isinstance(toolset, RequestProcessor):
            try:
                await toolset.process_request(flow.request_context(f"adk-{new_uuid()}", toolset.name), request)
            except LimitExceeded:
                raise  # a budget decides about the run, whoever noticed it
            except Exception as error:
                what = "failed in process_request"
                raise toolset_error(toolset.name, flow.prepared.agent.name, what, error) from error


def check_tool_kinds(prepared: Prepared, request: ModelRequest) -> None:
    """Refuse the provider's own tools beside functions where the model does not combine them (BT-31, models CAP-5).

    Raises:
        ConfigurationError: names agent, model, both kinds of tools, and the way out.
    """
    model = prepared.model
    if model is None or model.capabilities.builtin_with_functions:
        return
    entries = request.config.tools
    functions = request.config.function_declarations()
    if not functions or all(entry.function_declarations is not None for entry in entries):
        return
    from hookwork_llm.tools.model_tools import kinds_of

    kinds = [kind for entry in entries for kind in kinds_of(entry)]
    if kinds:
        raise ConfigurationError(
            f"agent {prepared.agent.name!r}: model {model.name!r} does not take its tool {kinds[0]!r} beside "
            f"functions ({', '.join(str(function.name) for function in functions)}); give it to an agent of its own "
            "and that agent to this one as an AgentTool, or use a model that combines them"
        )


async def compaction(flow: Flow, request: ModelRequest) -> None:
    """Tail retention, when the runner's compaction does that (CMP-5)."""
    if flow.inv.setup.compaction is not None:
        from hookwork_llm.compaction.stage import compact_before_request

        await compact_before_request(flow, request)


async def planning(flow: Flow, request: ModelRequest) -> None:
    """The planner's instruction."""
    planner = flow.agent.planner
    if planner is not None:
        from hookwork_llm.planning.contract import plan_request

        await plan_request(planner, flow.stage_context, request)


def code_execution(flow: Flow, request: ModelRequest) -> None:
    """Code that was run before, and its results, as text."""
    if flow.code is not None:
        from hookwork_llm.code_execution.rounds import prepare_code

        prepare_code(request)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "basic": basic,
    "collect_tools": collect_tools,
    "instructions": instructions,
    "identity": identity,
    "compaction": compaction,
    "contents": contents,
    "planning": planning,
    "code_execution": code_execution,
    "structured_output": structured_output,
    "transfer": transfer,
    "tool_requests": tool_requests,
    "toolset_requests": toolset_requests,
}
