"""What a server offers: an agent as one tool, or the tools of an agent."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp import MCPError

from hookwork.agent import Agent
from hookwork.app import App
from hookwork.errors import HookworkError, SessionNotFoundError
from hookwork.platform import new_uuid
from hookwork.records.frozen import thaw
from hookwork.run import RunOutcome
from hookwork.runner import Runner
from hookwork.tool import RESERVED_TOOL_NAMES
from hookwork_mcp.schemas import Checker
from hookwork_mcp.serving.content import result_of, text_result
from hookwork_mcp.serving.forms import told
from hookwork_mcp.serving.played import PlayedModel, call_message
from hookwork_mcp.serving.talk import Identify, Talk, headers_of

logger = logging.getLogger("hookwork.mcp.serving")

CallResult = types.CallToolResult | types.InputRequiredResult

_AGENT_INPUT = {
    "type": "object",
    "properties": {
        "request": {"type": "string", "description": "What the agent is asked to do."},
        "session_id": {"type": "string", "description": "Continue this conversation; without it a new one begins."},
    },
    "required": ["request"],
}
_AGENT_OUTPUT = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "session_id": {"type": "string"},
        "status": {"type": "string", "description": "completed, paused, ended, limit"},
        "waiting": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["text", "session_id", "status"],
}


class Exposed(ABC):
    """Something a server offers. It owns its runner; ``close`` closes it."""

    def __init__(self, runner: Runner, identify: Identify) -> None:
        self.runner = runner
        self._identify = identify

    @abstractmethod
    async def tools(self) -> list[types.Tool]:
        """What clients see."""

    @abstractmethod
    async def carried_out(self, ctx: Any, params: types.CallToolRequestParams) -> CallResult:
        """Carry out a call of a tool that is on offer, or raise MCPError."""

    async def call(self, ctx: Any, params: types.CallToolRequestParams) -> CallResult:
        """Carry out a call; a failed run is a failed call, whose text tells no internals."""
        try:
            return await self.carried_out(ctx, params)
        except HookworkError as error:
            logger.info("a call of %r failed", params.name, exc_info=error)
            return text_result(f"{params.name} failed: {error}", error=True)
        except MCPError:
            raise
        except Exception:
            logger.exception("a call of %r failed", params.name)
            return text_result(f"{params.name} failed; see the server's log", error=True)

    def _talk(self, ctx: Any, session_id: str) -> Talk:
        user_id, ephemeral = self._identify(headers_of(ctx))
        return Talk(self.runner, ctx, user_id=user_id, session_id=session_id, ephemeral=ephemeral)

    async def close(self) -> None:
        await self.runner.close()


async def _outcome(
    talk: Talk, params: types.CallToolRequestParams, message: Any
) -> RunOutcome | types.InputRequiredResult:
    """Run the message, or go on with the answers to what an earlier round asked."""
    outcome = None
    if params.input_responses and params.request_state:
        outcome = await talk.answered(params.input_responses)
        if outcome is None:
            raise MCPError(types.INVALID_PARAMS, "the answers belong to nothing that waits; call the tool anew")
    if outcome is None:
        outcome = await talk.run(message)
    return await talk.settled(outcome)


class ExposedAgent(Exposed):
    """An agent as one tool: a request in, its final text out, and the session to go on with."""

    def __init__(self, target: Agent | App, identify: Identify, options: Mapping[str, Any]) -> None:
        super().__init__(Runner(target, **options), identify)
        root = self.runner.tree.root
        self._tool = types.Tool(
            name=root.name,
            description=root.description or f"Ask the agent {root.name}.",
            input_schema=_AGENT_INPUT,
            output_schema=_AGENT_OUTPUT,
        )
        self._arguments = Checker(_AGENT_INPUT, "the input schema")

    async def tools(self) -> list[types.Tool]:
        return [self._tool]

    async def carried_out(self, ctx: Any, params: types.CallToolRequestParams) -> CallResult:
        if params.name != self._tool.name:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        arguments = params.arguments or {}
        faults = self._arguments.faults(arguments)
        if faults:
            return text_result(f"invalid arguments: {'; '.join(faults)}", error=True)
        session_id = params.request_state or arguments.get("session_id") or new_uuid()
        talk = self._talk(ctx, session_id)
        outcome = await _outcome(talk, params, arguments["request"])
        if isinstance(outcome, types.InputRequiredResult):
            return outcome
        text = outcome.final_event.text if outcome.final_event is not None else ""
        structured: dict[str, Any] = {"text": text, "session_id": session_id, "status": outcome.kind}
        if outcome.open_calls:
            structured["waiting"] = [told(call) for call in outcome.open_calls]
        return text_result(text, structured=structured)


class ExposedTools(Exposed):
    """The tools of an agent, its toolsets' included, without the agent: the client is the model.

    Each call is a turn of its own session, deleted when it is over; plugins, approval and validation work as ever.
    """

    def __init__(self, target: Agent | App, identify: Identify, options: Mapping[str, Any]) -> None:
        super().__init__(Runner(target, **{**options, "model": PlayedModel()}), identify)
        #: the output schemas that clients were shown.
        self._schemas: dict[str, Any] = {}

    async def tools(self) -> list[types.Tool]:
        request = await self.runner.preview("tools")
        listed = [
            types.Tool(
                name=declaration.name or "",
                description=declaration.description,
                input_schema=_input(declaration.parameters_json_schema),
                output_schema=_output(declaration.response_json_schema),
            )
            for declaration in request.config.function_declarations()
            if declaration.name not in RESERVED_TOOL_NAMES
        ]
        for tool in listed:
            self._schemas[tool.name] = tool.output_schema
        return listed

    async def carried_out(self, ctx: Any, params: types.CallToolRequestParams) -> CallResult:
        if params.name not in self._schemas:
            await self.tools()  # the client listed them elsewhere, or earlier than this process
        if params.name not in self._schemas:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        session_id = params.request_state or new_uuid()
        talk = self._talk(ctx, session_id)
        outcome = None
        try:
            outcome = await _outcome(talk, params, call_message(params.name, params.arguments or {}))
        finally:
            if not isinstance(outcome, types.InputRequiredResult):
                await self._forget(talk)
        if isinstance(outcome, types.InputRequiredResult):
            return outcome
        responses = [response for event in talk.events for response in event.function_responses]
        if outcome.open_calls or not responses:
            what = ", ".join(call.message or call.name for call in outcome.open_calls) or "no answer came"
            return text_result(f"{params.name} was not carried out: {what}", error=True)
        answer = responses[-1].response
        return result_of(thaw(answer) if answer is not None else None, self._schemas.get(params.name))

    async def _forget(self, talk: Talk) -> None:
        try:
            await self.runner.sessions.delete_session(
                app_name=self.runner.app_name, user_id=talk.user_id, session_id=talk.session_id
            )
        except SessionNotFoundError:
            logger.debug("no session was made for a call")


def _input(schema: Any) -> dict[str, Any]:
    """A schema of arguments as MCP carries it: its top level says that it is an object."""
    plain: dict[str, Any] = thaw(schema) if schema is not None else {}
    return plain if plain.get("type") == "object" else {**plain, "type": "object"}


def _output(schema: Any) -> dict[str, Any] | None:
    """A schema of results, if it describes an object; others are not what older protocol versions take."""
    plain: dict[str, Any] = thaw(schema) if schema is not None else {}
    return plain if plain.get("type") == "object" else None
