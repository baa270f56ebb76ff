"""LlmAgent: an agent whose body is the model-tool loop (core §2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import define, field

from hookwork.agent import Agent, as_callbacks, check_callbacks
from hookwork.errors import ConfigurationError, DuplicateToolError
from hookwork.model import Model
from hookwork.node import Standing
from hookwork.records.frozen import thaw
from hookwork.tool import RESERVED_TOOL_NAMES, Closable, Tool, Toolset, capability
from hookwork_llm.fields import MODEL_CALLBACKS, as_config, as_stages, as_tools, as_toolsets, check_fields

if TYPE_CHECKING:
    from hookwork.context import InvocationContext
    from hookwork.invocation import Setup
    from hookwork.model import ModelRequest
    from hookwork.records.event import Event
    from hookwork.records.history import Call
    from hookwork.records.request import GenerateContentConfig
    from hookwork.view import View
    from hookwork_llm.code_execution import CodeExecutor
    from hookwork_llm.planning import Planner
    from hookwork_llm.request_stages import RequestStage

Callback = Callable[..., Any]

#: How an agent is used (core §2.2).
MODES = ("chat", "task", "single_turn")


# What may be given, for the type checker; `LlmAgent.__attrs_post_init__` reads it, because it knows the agent's name.


def _config_given(value: GenerateContentConfig | Mapping[str, Any] | None) -> GenerateContentConfig | None:
    return value  # type: ignore[return-value]


def _tools_given(value: Iterable[Any]) -> tuple[Tool | Toolset, ...]:
    return value  # type: ignore[return-value]


def _toolsets_given(value: Iterable[Toolset]) -> tuple[Toolset, ...]:
    return value  # type: ignore[return-value]


def _stages_given(value: Iterable[RequestStage]) -> tuple[RequestStage, ...]:
    return value  # type: ignore[return-value]


@define(eq=False, kw_only=True, frozen=True)
class LlmAgent(Agent):
    """An agent that calls a model and runs the tools the model asks for, until the model answers.

    Args:
        model: a Model object or a name (``"offline"``, ``"provider/name"``); None: the settings' ``model``.
        instruction: a template; ``{key}`` is replaced by state, ``{{key}}`` is a literal ``{key}`` (core INS-1).
        instruction_provider: ``(ReadonlyContext) -> str``, async or not; wins over ``instruction``, not templated.
        templating: False sends instructions as they are written.
        global_instruction, global_instruction_provider: the same for the whole tree; only the root's count.
        generate_content_config: generation settings, or a dict of them; a system instruction in it comes first.
        tools: functions, bound methods, Tools and Toolsets; a Toolset in it is moved to ``toolsets``.
        toolsets: listed once per agent call; their tools come after ``tools``.
        mode: ``"chat"`` (also None): talks with the user; ``"task"``: its parent hands it a task, it talks with the
            user in a scope of its own until it calls `finish_task`; ``"single_turn"``: its parent calls it like a
            function.
        include_contents: ``"default"`` (the visible history) or ``"none"`` (the current turn).
        input_schema: what a parent must give (``task``, ``single_turn``): a type or a JSON schema; None: one text.
        output_schema: the form of the reply: a pydantic model, dataclass, attrs class, TypedDict or JSON schema.
        output_retries: further tries after a reply that does not have that form.
        output_key: state key that the final text (the checked object, with ``output_schema``) is written to.
        disallow_transfer_to_parent, disallow_transfer_to_peers: take those transfer targets away.
        before_model, after_model, on_model_error, before_tool, after_tool, on_tool_error: callbacks of this agent, with
            the arguments of the plugin hooks of those names; they run after all plugins.
        request_stages: changes to the stages that build a request (core REQ-1).
        code_executor: runs code that the model writes (`hookwork_llm.code_execution`); None: it is only shown.
        planner: has the model plan before it acts (`hookwork_llm.planning`).

    Raises:
        ConfigurationError: a bad field; DuplicateToolError: two tools of one name, or a reserved one.
    """

    model: Model | str | None = None
    instruction: str = ""
    instruction_provider: Callback | None = None
    templating: bool = True
    global_instruction: str = ""
    global_instruction_provider: Callback | None = None
    generate_content_config: GenerateContentConfig | None = field(default=None, converter=_config_given)
    tools: tuple[Tool | Toolset, ...] = field(default=(), converter=_tools_given)
    toolsets: tuple[Toolset, ...] = field(default=(), converter=_toolsets_given)
    mode: str | None = None
    include_contents: str = "default"
    input_schema: Any = None
    output_schema: Any = None
    output_retries: int = 1
    output_key: str | None = None
    disallow_transfer_to_parent: bool = False
    disallow_transfer_to_peers: bool = False
    before_model: tuple[Callback, ...] = field(default=(), converter=as_callbacks)
    after_model: tuple[Callback, ...] = field(default=(), converter=as_callbacks)
    on_model_error: tuple[Callback, ...] = field(default=(), converter=as_callbacks)
    before_tool: tuple[Callback, ...] = field(default=(), converter=as_callbacks)
    after_tool: tuple[Callback, ...] = field(default=(), converter=as_callbacks)
    on_tool_error: tuple[Callback, ...] = field(default=(), converter=as_callbacks)
    request_stages: tuple[RequestStage, ...] = field(default=(), converter=_stages_given)
    code_executor: CodeExecutor | None = None
    planner: Planner | None = None

    def __attrs_post_init__(self) -> None:
        Agent.__attrs_post_init__(self)
        where = f"agent {self.name!r}"
        tools, moved = as_tools(self.tools, where)
        object.__setattr__(self, "tools", tools)
        object.__setattr__(self, "toolsets", (*moved, *as_toolsets(self.toolsets, where)))
        object.__setattr__(self, "request_stages", as_stages(self.request_stages, where))
        object.__setattr__(self, "generate_content_config", as_config(self.generate_content_config, where))
        check_callbacks(self, *MODEL_CALLBACKS)
        if self.include_contents not in ("default", "none"):
            raise ConfigurationError(f"{where}: include_contents is 'default' or 'none', not {self.include_contents!r}")
        if self.mode not in (None, *MODES):
            raise ConfigurationError(f"{where}: mode is one of {', '.join(MODES)}, not {self.mode!r}")
        if not isinstance(self.output_retries, int) or self.output_retries < 0:
            raise ConfigurationError(f"{where}: output_retries is a number from 0, not {self.output_retries!r}")
        if self.model is not None and not isinstance(self.model, Model | str):
            raise ConfigurationError(f"{where}: model is a Model or a name, not {type(self.model).__name__}")
        check_fields(self)
        for name, methods in (
            ("code_executor", ("execute",)),
            ("planner", ("build_instruction", "process_response")),
        ):
            value = getattr(self, name)
            if value is not None and (isinstance(value, type) or not all(hasattr(value, m) for m in methods)):
                raise ConfigurationError(f"{where}: {name} is an object with {' and '.join(methods)}, not {value!r}")
        seen: set[str] = set()
        for tool in self.function_tools:
            if tool.name in RESERVED_TOOL_NAMES:
                raise DuplicateToolError(f"{where}: the tool name {tool.name!r} is reserved; rename the tool")
            if tool.name and tool.name in seen:
                raise DuplicateToolError(f"{where} has two tools named {tool.name!r}; rename one of them")
            seen.add(tool.name)
        for child in self.sub_agents:
            if child.name in seen and getattr(child, "effective_mode", "") in ("task", "single_turn"):
                raise DuplicateToolError(
                    f"{where} has a tool {child.name!r} and a sub-agent of that name, which it calls like a tool; "
                    "rename one of them"
                )

    @property
    def function_tools(self) -> tuple[Tool, ...]:
        """The tools given one by one, in order."""
        return self.tools  # type: ignore[return-value]  # toolsets were moved out of it

    def body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        from hookwork_llm.flow import run_flow

        return run_flow(self, ctx)

    @property
    def live(self) -> bool:
        return True

    def check_live(self) -> None:
        """A planner or a code executor has no place in a live run; see `Agent.check_live`."""
        from hookwork_llm.live.request import check_live

        check_live(self)

    def live_body(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        from hookwork_llm.live import run_live_flow

        return run_live_flow(self, ctx)

    # --- what the kernel asks -----------------------------------------------------------------------------------------

    @property
    def effective_mode(self) -> str:
        """The mode, with its default: an agent of a tree is a ``chat`` agent unless it says otherwise (MODE-1)."""
        return self.mode or "chat"

    @property
    def conversational(self) -> bool:
        return self.effective_mode == "chat"

    @property
    def sticky(self) -> bool:
        return self.conversational and not self.disallow_transfer_to_parent

    @property
    def delegate(self) -> bool:
        return self.mode == "task"

    def as_node(self) -> LlmAgent:
        """Without a mode: a copy that answers its input alone; this agent stays as it is (MODE-1)."""
        return self if self.mode is not None else self.clone(mode="single_turn")

    def read_answer(self, call: Call, payload: Any) -> Any:
        """Questions below this agent, of nodes that its tools run, are answered as their schema says."""
        if call.kind != "input" or not call.response_schema:
            return Agent.read_answer(self, call, payload)
        from hookwork.asking import fitting_answer
        from hookwork_llm.object_schema import checker_of

        return fitting_answer(call, payload, checker_of(thaw(call.response_schema), f"question {call.id!r}"))

    def check_root(self) -> None:
        if not self.conversational:
            raise ConfigurationError(
                f"agent {self.name!r} has mode {self.mode!r} and cannot be a root; give it mode 'chat', or put it "
                "under an agent that calls it"
            )

    @property
    def derives_end(self) -> bool:
        return True

    def standing(self, view: View) -> Standing:
        from hookwork_llm.standing import standing

        return standing(view, self)

    def output(self, view: View) -> Any:
        from hookwork_llm.replies import recorded_output

        return recorded_output(self, view)

    def closables(self) -> Iterable[Any]:
        closable = [capability(tool, Closable) for tool in self.function_tools]
        return (*self.toolsets, *(tool for tool in closable if tool is not None))

    async def preview(self, ctx: InvocationContext) -> ModelRequest:
        from hookwork_llm.flow import Flow

        return await Flow(self, ctx).preview()

    async def carry_out(self, ctx: InvocationContext, kind: str, call: Mapping[str, Any]) -> dict[str, Any]:
        from hookwork_llm.carrying_out import carry_out

        return await carry_out(self, ctx, kind, call)

    def prepare(self, setup: Setup) -> Any:
        from hookwork_llm.prepared import Prepared

        return Prepared(self, setup)
