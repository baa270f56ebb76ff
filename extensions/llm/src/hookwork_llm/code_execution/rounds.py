"""The part of code execution in the flow of one agent call: find code in an answer, run it, tell the model."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from hookwork.platform import new_uuid, timestamp
from hookwork.records.content import CodeExecutionResult, Content, ExecutableCode, FunctionCall, Part
from hookwork.records.event import Event
from hookwork.tool import Tool
from hookwork_llm.code_execution.blocks import as_text, first_code
from hookwork_llm.code_execution.contract import FAILED, OK, CodeExecutor
from hookwork_llm.tool_calls import ToolCall

if TYPE_CHECKING:
    from hookwork.context import ToolContext
    from hookwork.model import ModelRequest
    from hookwork.records.metadata import ModelResponse
    from hookwork.records.request import FunctionDeclaration
    from hookwork_llm.flow import Flow

logger = logging.getLogger("hookwork.flow")

TOOL_NAME = "code_execution"


class CodeExecutionTool(Tool):
    """What tool hooks see of a run of code: they may look at it, forbid it, answer in its place (tools-plugins §7).

    It is never shown to the model; ``args`` are ``code`` and ``language``.
    """

    name = TOOL_NAME
    description = "Runs code that the model wrote."
    idempotent = False

    def __init__(self, executor: CodeExecutor) -> None:
        self.executor = executor

    def declaration(self) -> FunctionDeclaration | None:
        return None

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        result = await self.executor.execute(ctx, ExecutableCode(code=args["code"], language=args.get("language")))
        return {"outcome": result.outcome or OK, "output": result.output or ""}


class CodeRounds:
    """The runs of one agent call."""

    __slots__ = ("executor", "failures", "pending", "rounds")

    def __init__(self, executor: CodeExecutor) -> None:
        self.executor = executor
        self.rounds = 0
        self.failures = 0
        #: the code of the newest answer that is still to be run.
        self.pending: ExecutableCode | None = None

    def take(self, response: ModelResponse) -> ModelResponse:
        """The answer up to its first code, which is `pending` then; else the answer as it is."""
        self.pending = None
        content = response.content
        if content is None or response.error_code or response.interrupted or content.function_calls:
            return response
        found = first_code(content, self.executor.fences)
        if found is None:
            return response
        if self.rounds >= self.executor.max_rounds or self.failures >= self.executor.max_failures:
            logger.warning("code was not run: %d run(s), the last %d failed", self.rounds, self.failures)
            return response
        kept, self.pending = found
        return response.replace(content=kept)

    async def run(self, flow: Flow, made_by: Event) -> Event:
        """Run the pending code as a tool call that only hooks can see; the event with its result.

        Around, before, after and error hooks of tools, the effect hook and the trace apply to it.
        """
        code, self.pending = self.pending, None
        assert code is not None
        self.rounds += 1
        flow.table = {**flow.table, TOOL_NAME: CodeExecutionTool(self.executor)}
        args = {"code": code.code or "", "language": code.language or "PYTHON"}
        wish = FunctionCall(id=code.id or f"adk-{new_uuid()}", name=TOOL_NAME, args=args)
        call = ToolCall(flow, made_by, wish, flow.turn, 1)
        await call.execute()
        answer = call.response.response if call.response is not None else None
        result = _as_result(answer, code.id)
        self.failures = 0 if result.outcome == OK else self.failures + 1
        event = Event(
            id=new_uuid(),
            timestamp=timestamp(),
            invocation_id=flow.inv.invocation_id,
            author=flow.agent.name,
            branch=flow.ctx.branch,
            isolation_scope=flow.ctx.isolation_scope,
            content=Content(role="user", parts=[Part(code_execution_result=result)]),
            node_info=flow.path_info,
        )
        return flow.inv.attach(event, call.buffer)


def _as_result(answer: dict[str, Any] | None, code_id: str | None) -> CodeExecutionResult:
    """What the run, or a hook in its place, gave."""
    if answer is None:
        return CodeExecutionResult(id=code_id, outcome=FAILED, output="the code was not run")
    if "outcome" in answer:
        return CodeExecutionResult(id=code_id, outcome=str(answer["outcome"]), output=str(answer.get("output", "")))
    if "error" in answer:
        return CodeExecutionResult(id=code_id, outcome=FAILED, output=str(answer["error"]))
    return CodeExecutionResult(id=code_id, outcome=OK, output=str(answer.get("result", answer)))


def prepare_code(request: ModelRequest) -> None:
    """Show earlier code and results as text, unless the request has the model's own code execution on."""
    if any(entry.code_execution is not None for entry in request.config.tools):
        return
    request.contents = as_text(request.contents)
