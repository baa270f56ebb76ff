"""The request that opens a live connection: the normal chain of stages, and tools that only live sessions have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from hookwork.context import ToolContext
from hookwork.errors import DuplicateToolError, UnsupportedOperationError
from hookwork.model import ModelRequest
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import FunctionLike, StreamingLike, Tool, capability, pack_tool
from hookwork_llm.flow import Flow
from hookwork_llm.structured_output import INSTRUCTION, SET_MODEL_RESPONSE, SetModelResponseTool

if TYPE_CHECKING:
    from hookwork_llm.agent import LlmAgent

STOP_STREAMING = "stop_streaming"
TASK_COMPLETED = "task_completed"

_COMPLETION_NOTE = (
    f"When what the user asked of you is done, call the tool {TASK_COMPLETED!r}. Somebody else then goes on; do not "
    "announce it and say nothing more."
)


class StopStreamingTool(Tool):
    """`stop_streaming`: carried out by the session itself, before any look-up or hook (tools-plugins FN-28)."""

    name = STOP_STREAMING
    description = "Stops every running call of a function that goes on giving results."

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema={
                "type": "object",
                "properties": {"function_name": {"type": "string", "description": "The function to stop."}},
                "required": ["function_name"],
            },
        )

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        return {"status": "nothing of that name is running"}


class TaskCompletedTool(Tool):
    """`task_completed`: an agent of a live sequence says that the next one may begin (core LIVE-20)."""

    name = TASK_COMPLETED
    description = "Signals that your part of the work is done."

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name=self.name, description=self.description)

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        return {"result": "Task completion signaled."}


def is_streaming(tool: Tool | None) -> bool:
    """Whether a tool gives its result in pieces."""
    return tool is not None and capability(tool, FunctionLike) is None and capability(tool, StreamingLike) is not None


def check_live(agent: LlmAgent) -> None:
    """Refuse what a live session of an agent could only leave out in silence.

    Both of them read a whole answer before anybody sees it and have the model called again; a live model speaks on.

    Raises:
        UnsupportedOperationError: names agent and field.
    """
    for name, what in (("planner", "a planner"), ("code_executor", "a code executor")):
        if getattr(agent, name) is not None:
            raise UnsupportedOperationError(
                f"agent {agent.name!r} has {what} ({name}=…), which live runs do not have; use runner.run() for it, or "
                f"give the live run an agent without: agent.clone({name}=None)"
            )


class LiveFlow(Flow):
    """What the agent's live call shares with its typed one: tools, prompt, places, events."""

    __slots__ = ("ends_by_tool",)

    left_out: ClassVar[frozenset[str]] = frozenset({"compaction"})
    #: the agent has a tool with which it says that it is done (core LIVE-20).
    ends_by_tool: bool

    async def build_request(self) -> ModelRequest:
        """The request by the normal stages but compaction (core LIVE-4, CMP-14), with the tools of live sessions."""
        request = await super().build_request()
        self._ask_for_object_by_tool(request)
        if self.ends_by_tool:
            if TASK_COMPLETED in request.tools:
                raise DuplicateToolError(
                    f"agent {self.agent.name!r} has a tool named {TASK_COMPLETED!r}, the name of the one that a live "
                    "sequence gives its agents; rename it"
                )
            pack_tool(request, TaskCompletedTool())
            request.append_instruction(_COMPLETION_NOTE)
        if any(is_streaming(tool) for tool in request.tools.values()):
            pack_tool(request, StopStreamingTool())
        return request

    def _ask_for_object_by_tool(self, request: ModelRequest) -> None:
        """No connection takes a response schema: `output_schema` is asked for by the tool of OUT-2, whatever the model
        does in typed turns. What it takes becomes the final event (OUT-3).
        """
        schema = self.prepared.schema
        if schema is None or request.config.response_json_schema is None or SET_MODEL_RESPONSE in request.tools:
            return
        request.update_config(response_json_schema=None, response_mime_type=None)
        pack_tool(request, SetModelResponseTool(schema))
        request.append_instruction(INSTRUCTION)
