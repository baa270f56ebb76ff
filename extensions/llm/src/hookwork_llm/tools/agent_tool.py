"""AgentTool: an agent that another agent calls like a function (tools-plugins BT-01 … BT-04)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hookwork.agent import Agent, AgentTree
from hookwork.errors import ConfigurationError, ToolArgumentError, ToolError
from hookwork.inside import buffer_of, invocation_of
from hookwork.records.deleted import delta_of
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool
from hookwork_llm.object_schema import InvalidObject, ObjectSchema, read_object
from hookwork_llm.tools.child_run import ChildHost, ChildSetup, prepared_setup

if TYPE_CHECKING:
    from hookwork.context import ToolContext
    from hookwork.invocation import Setup
    from hookwork.records.event import Event
    from hookwork.run import RunOutcome

_REQUEST = {
    "type": "object",
    "properties": {"request": {"type": "string", "description": "What the agent is asked to do."}},
    "required": ["request"],
}


class AgentTool(Tool):
    """Gives an agent to another one as a tool; the caller's model gets its answer and goes on.

    Each call is a run of its own over an in-memory session that begins with the caller's state and is discarded
    afterwards. The agent works for the same user, with the caller's plugins, ephemeral scope, artifacts and memory;
    what it writes to state is written by the call, what it spends counts in ``run.usage`` under its name and against
    the caller's ``max_llm_calls``. It ends with the caller. It cannot wait for a person: a call that stays open in it
    is an error. Use a sub-agent for that.

    The tool has the agent's name and description. Its parameters are the agent's ``input_schema``, else one text,
    ``request``. The result is the object of its ``output_schema``, else ``{"result": text}``, ``{}`` without text.

    Args:
        agent: the agent; one that can be a root.
        skip_summarization: the answer ends the caller's turn and is shown to the user as it is.
        include_plugins: False runs the agent without the caller's plugins.

    Raises:
        ConfigurationError: no agent, or a tree or schema that does not hold together.
    """

    def __init__(self, agent: Agent, skip_summarization: bool = False, *, include_plugins: bool = True) -> None:
        if not isinstance(agent, Agent):
            raise ConfigurationError(f"AgentTool takes an agent, not {type(agent).__name__}")
        agent.check_root()
        self.agent = agent
        self.name = agent.name
        self.description = agent.description or f"Asks the agent {agent.name}."
        self.skip_summarization = skip_summarization
        self.include_plugins = include_plugins
        self._tree = AgentTree(agent)
        self._input = _schema_of(agent, "input_schema")
        self._output = _schema_of(agent, "output_schema")
        self._declaration = FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=self._input.json_schema if self._input is not None else _REQUEST,
        )

    def declaration(self) -> FunctionDeclaration:
        return self._declaration

    def display_result_on_skip_summarization(self) -> bool:
        return True

    def prepare(self, setup: Setup) -> None:
        """Prepare the child tree once ahead of time, so that a faulty one is found when the runner is built (EXT-5)."""
        prepared_setup(self._tree, setup, include_plugins=self.include_plugins)

    async def close(self) -> None:
        """Close what the agents of the tree hold, each thing once. Failures are raised together."""
        closables = {id(closable): closable for agent in self._tree for closable in agent.closables()}
        failures: list[Exception] = []
        for closable in closables.values():
            try:
                await closable.close()
            except Exception as error:  # noqa: BLE001 - the others are closed first
                failures.append(error)
        if failures:
            raise ExceptionGroup(f"closing the agent tool {self.name!r} failed in part", failures)

    # --- a call -------------------------------------------------------------------------------------------------------

    def validate_args(self, args: dict[str, Any]) -> str:
        """The child's message: the checked arguments as JSON, or the request as it is (BT-02)."""
        if self._input is None:
            return _request_text(self.name, args)
        try:
            return _json(self._input.validate(args))
        except InvalidObject as error:
            raise ToolArgumentError(f"{self.name}: {error}") from error

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> dict[str, Any]:
        return await self.run_validated(ctx, self.validate_args(args))

    async def run_validated(self, ctx: ToolContext, converted: str) -> dict[str, Any]:
        if self.skip_summarization:
            ctx.actions.skip_summarization = True
        last: Event | None = None
        try:
            host = ChildHost(self._setup(ctx))
            try:
                async with host.run(ctx, converted) as run:
                    async for event in run:
                        if event.partial:
                            continue
                        _take_over(ctx, event)
                        self._refuse_error(event)
                        if event.content is not None:
                            last = event
            finally:
                await host.close()
            assert run.outcome is not None
            self._refuse_waiting(run.outcome)
        except ToolError:
            raise
        except Exception as error:
            raise ToolError(f"agent {self.name!r} failed: {type(error).__name__}: {error}") from error
        return self._result(last)

    def _setup(self, ctx: ToolContext) -> ChildSetup:
        """Built once per parent run: this object may serve several runs and runners at once."""
        kept = invocation_of(ctx).prepared
        found = kept.get(id(self))
        if found is None or found[0] is not self:
            found = kept[id(self)] = (
                self,
                ChildSetup(self._tree, invocation_of(ctx), include_plugins=self.include_plugins),
            )
        setup: ChildSetup = found[1]
        return setup

    def _refuse_error(self, event: Event) -> None:
        if event.error_code or event.error_message:
            text = ": ".join(text for text in (event.error_code, event.error_message) if text)
            raise ToolError(f"agent {self.name!r} ended with {text}")

    def _refuse_waiting(self, outcome: RunOutcome) -> None:
        """What waits in the child can never be answered: its session is discarded (BT-04)."""
        waiting = [*outcome.open_calls, *outcome.open_delegations]
        if outcome.kind == "paused" or waiting:
            calls = ", ".join(f"{call.name!r} ({call.id})" for call in waiting) or "an answer"
            raise ToolError(
                f"agent {self.name!r} waits for {calls}, which an agent tool cannot do: its session ends with the "
                "call; make it a sub-agent (mode 'single_turn', 'task' or a transfer target) instead of an AgentTool"
            )

    def _result(self, last: Event | None) -> dict[str, Any]:
        """What the last event with content says (BT-03)."""
        parts = last.content.parts if last is not None and last.content is not None else ()
        text = "\n".join(part.text for part in parts if part.text and not part.thought)
        if not text:
            return {}
        if self._output is None:
            return {"result": text}
        try:
            value = self._output.validate(read_object(text))
        except InvalidObject as error:
            raise ToolError(f"agent {self.name!r} did not answer in the form of its output_schema: {error}") from error
        return value if isinstance(value, dict) else {"result": value}


def _schema_of(agent: Agent, field: str) -> ObjectSchema | None:
    """The agent's own declared schema; agents of other types may have none."""
    spec = getattr(agent, field, None)
    return None if spec is None else ObjectSchema(spec, f"agent {agent.name!r}: {field}")


def _request_text(tool: str, args: Mapping[str, Any]) -> str:
    request = args.get("request")
    if request is None:
        raise ToolArgumentError(f"{tool}: /request: Field required")
    text = request if isinstance(request, str) else _json(request)
    if not text.strip():
        raise ToolArgumentError(f"{tool}: /request: Input should not be blank")
    return text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _take_over(ctx: ToolContext, event: Event) -> None:
    """What the child stored is written by this call too, in the same order (core DLT-3)."""
    for key, value in delta_of(event).items():
        ctx.state[key] = value
    buffer = buffer_of(ctx)
    if buffer is not None:
        for filename, version in event.actions.artifact_delta.items():
            buffer.note_artifact(filename, version)
