"""What can be derived once per runner for an LLM agent: its model, its stages, its static request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.errors import ConfigurationError, ModelNotConfigured
from hookwork.model import Model, ModelRequest
from hookwork.tool import Tool, pack_tool
from hookwork_llm import builtin_stages
from hookwork_llm.agent_calls import FinishTaskTool, SingleTurnTool, TaskTool
from hookwork_llm.instructions import Template
from hookwork_llm.object_schema import ObjectSchema
from hookwork_llm.request_stages import BUILT_IN, changes_for, compile_stages
from hookwork_llm.structured_output import SetModelResponseTool
from hookwork_llm.transfer import TransferTool, transfer_instruction, transfer_targets

if TYPE_CHECKING:
    from hookwork.invocation import Setup
    from hookwork_llm.agent import LlmAgent
    from hookwork_llm.code_execution.rounds import CodeRounds


class Prepared:
    """Built by `LlmAgent.prepare`; nothing of it changes afterwards.

    ``static`` is the request without contents when nothing in it depends on the run; else None, and every step walks
    ``stages``.
    """

    def __init__(self, agent: LlmAgent, setup: Setup) -> None:
        self.agent = agent
        self.model = self._resolve(agent, setup)
        for tool in agent.function_tools:
            prepare = getattr(tool, "prepare", None)  # a tool that runs agents of its own
            if prepare is not None:
                prepare(setup)
        self.targets = transfer_targets(agent, setup.tree)
        self.transfer_tool = TransferTool(self.targets) if self.targets else None
        chats = agent.conversational
        self.transfer_instruction = (
            transfer_instruction(agent, self.targets, setup.tree) if self.targets and chats else ""
        )
        self.schema = self._output_schema(agent)
        called = [child for child in agent.sub_agents if isinstance(child, type(agent)) and not child.conversational]
        #: tools named after sub-agents that are called, and `finish_task` of a task agent.
        self.agent_tools: tuple[Tool, ...] = tuple(
            TaskTool(child) if child.delegate else SingleTurnTool(child) for child in called
        )
        self.tasks = frozenset(child.name for child in called if child.delegate)
        self.finish_tool = FinishTaskTool(agent) if agent.delegate else None
        has_functions = bool(agent.tools or agent.toolsets or self.agent_tools or self.targets)
        #: how a reply gets its form: the model's own schema support, or a tool (OUT-1, OUT-2).
        combines = self.model is not None and self.model.capabilities.output_schema_with_tools
        self.reply_tool = (
            SetModelResponseTool(self.schema) if self.schema is not None and has_functions and not combines else None
        )
        root = setup.tree.root if setup.tree is not None and agent in setup.tree else agent
        owner: Any = root if hasattr(root, "global_instruction") else agent
        self.global_agent = owner
        self.instruction = _template(agent.instruction, agent.templating)
        self.global_instruction = _template(self.global_agent.global_instruction, self.global_agent.templating)
        self.identity = builtin_stages.identity_text(agent) if agent.effective_mode != "single_turn" else ""
        changes = changes_for(agent, setup.plugins)
        built_in = [(name, builtin_stages.FUNCTIONS.get(name, builtin_stages.nothing)) for name in BUILT_IN]
        compiled = compile_stages(built_in, changes, f"agent {agent.name!r}")
        own_functions = set(builtin_stages.FUNCTIONS.values())
        #: (name, function, whether it is built in and takes the flow) in order.
        self.stages = tuple(
            (name, fn, fn in own_functions) for name, fn in compiled if fn is not builtin_stages.nothing
        )
        retains_tail = getattr(setup.compaction, "retains_tail", False)
        self.static = self._build_static() if not changes and not retains_tail and self._is_static() else None

    @staticmethod
    def _resolve(agent: LlmAgent, setup: Setup) -> Model | None:
        chosen = setup.model_override or agent.model or setup.default_model
        if chosen is None or isinstance(chosen, Model):
            return chosen
        return setup.model(chosen)

    def code_rounds(self) -> CodeRounds | None:
        """What runs the code of one agent call, None when this agent runs none."""
        if self.agent.code_executor is None:
            return None
        from hookwork_llm.code_execution.rounds import CodeRounds

        return CodeRounds(self.agent.code_executor)

    @staticmethod
    def _output_schema(agent: LlmAgent) -> ObjectSchema | None:
        """The form of replies; a task gives its result through `finish_task` instead (OUT-1)."""
        if agent.output_schema is None or agent.delegate:
            return None
        schema = ObjectSchema(agent.output_schema, f"agent {agent.name!r}: output_schema")
        if not schema.is_object:
            raise ConfigurationError(f"agent {agent.name!r}: output_schema must describe an object at its top level")
        return schema

    def require_model(self) -> Model:
        """The model, or ModelNotConfigured naming the agent (core FLOW-10)."""
        if self.model is None:
            raise ModelNotConfigured(
                f"agent {self.agent.name!r} has no model; give it one (model='offline' needs no key), or set "
                "`model` under [tool.hookwork]"
            )
        return self.model

    def _is_static(self) -> bool:
        agent = self.agent
        return (
            agent.instruction_provider is None
            and self.global_agent.global_instruction_provider is None
            and (self.instruction is None or self.instruction.static is not None)
            and (self.global_instruction is None or self.global_instruction.static is not None)
            and not agent.toolsets
            and agent.planner is None
            and agent.code_executor is None
            and all(type(tool).process_request is Tool.process_request for tool in agent.function_tools)
        )

    def _build_static(self) -> ModelRequest:
        request = ModelRequest()
        builtin_stages.apply_basic(self, request)
        request.append_instruction(*(t.static or "" for t in (self.global_instruction, self.instruction) if t))
        request.append_instruction(self.identity)
        builtin_stages.apply_structured_output(self, request)
        builtin_stages.apply_transfer(self, request)
        for tool in self.agent.function_tools:
            pack_tool(request, tool)
        builtin_stages.apply_agent_tools(self, request)
        return request


class _Literal:
    """An instruction that is sent as it is written; stands in for a `Template`."""

    __slots__ = ("static",)

    def __init__(self, text: str) -> None:
        self.static = text

    async def render(self, _: Any) -> str:
        return self.static


def _template(text: str, templating: bool) -> Template | _Literal | None:
    if not text:
        return None
    return Template(text) if templating else _Literal(text)
