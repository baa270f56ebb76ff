"""Agents called as tools of their parent: ``single_turn`` runs, ``task`` delegations, `finish_task` (core §2.2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hookwork.activation import Activation
from hookwork.errors import ToolArgumentError, ToolError
from hookwork.inside import invocation_of
from hookwork.node import Pause
from hookwork.records.content import Content, text_content
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool
from hookwork_llm.object_schema import InvalidObject, ObjectSchema

if TYPE_CHECKING:
    from hookwork.context import ToolContext
    from hookwork_llm.agent import LlmAgent

FINISH_TASK = "finish_task"
#: The one success response of `finish_task`, as other ADKs write it (MODE-4).
TASK_COMPLETED = {"result": "Task completed."}

_REQUEST_SCHEMA = {
    "type": "object",
    "properties": {"request": {"type": "string", "description": "What the agent is asked to do."}},
    "required": ["request"],
    "additionalProperties": False,
}


class AgentCallTool(Tool):
    """Base of the tools named after a sub-agent: name, description and input are the agent's (MODE-3)."""

    def __init__(self, agent: LlmAgent, description: str) -> None:
        self.agent = agent
        self.name = agent.name
        self.description = description
        spec = agent.input_schema
        self._schema = ObjectSchema(
            spec if spec is not None else _REQUEST_SCHEMA, f"agent {agent.name!r}: input_schema"
        )
        self._declaration = FunctionDeclaration(
            name=self.name, description=description, parameters_json_schema=self._schema.json_schema
        )

    def declaration(self) -> FunctionDeclaration:
        return self._declaration

    def checked(self, args: Mapping[str, Any]) -> Any:
        """The arguments in their checked form; the plain request text without an input schema."""
        try:
            value = self._schema.validate(dict(args))
        except InvalidObject as error:
            raise ToolArgumentError(f"{self.name}: {error}") from error
        return value if self.agent.input_schema is not None else value["request"]


class SingleTurnTool(AgentCallTool):
    """Runs a ``single_turn`` sub-agent at the call's own place and answers with its output (MODE-6)."""

    def __init__(self, agent: LlmAgent) -> None:
        super().__init__(agent, agent.description or f"Asks the agent {agent.name}.")

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        value = self.checked(args)
        segment = ctx.path[ctx.path.rfind("/") + 1 :]
        branch = f"{ctx.branch}.{segment}" if ctx.branch else segment
        activation = Activation(
            invocation_of(ctx), self.agent, ctx.path, input=value, branch=branch, scope=ctx.isolation_scope
        )
        try:
            async for event in activation:
                if ctx.emit_event is not None:
                    await ctx.emit_event(event)
        finally:
            await activation.aclose()
        if activation.status == "paused":
            raise Pause
        final = activation.final_event
        if final is not None and final.error_code:
            raise ToolError(f"agent {self.agent.name!r} ended with {final.error_code}: {final.error_message}")
        output = activation.output
        if output is None and final is not None:
            output = final.text or None  # what `before_agent` gave in the agent's place
        return {"result": output}


class TaskTool(AgentCallTool):
    """Declares a ``task`` sub-agent; its calls are carried out by the flow, one by one after the others (MODE-11)."""

    def __init__(self, agent: LlmAgent) -> None:
        text = agent.description or f"Hands a task to the agent {agent.name}."
        super().__init__(agent, f"{text} Call it alone: do not combine it with other calls in one turn.")

    def defers_response(self) -> bool:
        return True

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> None:
        raise ToolError(f"the task agent {self.name!r} cannot be called here; its parent's loop starts it")


class FinishTaskTool(Tool):
    """`finish_task`: ends a task with its result (MODE-4, MODE-5)."""

    name = FINISH_TASK
    description = "Ends the task with its result."

    def __init__(self, agent: LlmAgent) -> None:
        where = f"agent {agent.name!r}: output_schema"
        spec = agent.output_schema
        inner = ObjectSchema(spec, where) if spec is not None else None
        if inner is not None and inner.is_object:
            self._schema, self._wrapped = inner, False
        else:
            result = inner.json_schema if inner is not None else {"type": "string"}
            wrapped = {"type": "object", "properties": {"result": result}, "required": ["result"]}
            self._schema, self._wrapped = ObjectSchema(wrapped, where), True
        self._declaration = FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._schema.json_schema
        )

    instruction = (
        f"You are working on a task. Talk with the user until it is done; only then call `{FINISH_TASK}` with the "
        "result, alone in its turn. Until then do not call it."
    )

    def declaration(self) -> FunctionDeclaration:
        return self._declaration

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        try:
            self._schema.validate(args)
        except InvalidObject as error:
            raise ToolArgumentError(f"{FINISH_TASK}: {error}") from error
        return dict(TASK_COMPLETED)

    def output(self, args: Mapping[str, Any]) -> Any:
        """The task's output from the arguments of a successful call."""
        return args["result"] if self._wrapped else dict(args)


def as_user_content(value: Any) -> Content | None:
    """A node's input as the virtual first user turn of its prompt (core LLM-20)."""
    if value is None:
        return None
    if isinstance(value, Content):
        return value.replace(role="user")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text_content(text, role="user")


def response_payload(output: Any) -> dict[str, Any]:
    """What answers a delegating call (MODE-9)."""
    return dict(output) if isinstance(output, Mapping) else {"output": output}
