"""The plugin: every hook is told to a logger; every hook returns None (tools-plugins §8)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from hookwork import Plugin
from hookwork.errors import ConfigurationError
from hookwork.platform import replaying
from hookwork_logging.lines import CONTENT_LIMIT, cut, shown

if TYPE_CHECKING:
    from hookwork import (
        Agent,
        Call,
        CallbackContext,
        Content,
        Event,
        InvocationContext,
        ModelRequest,
        ModelResponse,
        NodeOutcome,
        RunOutcome,
        Tool,
        ToolContext,
    )

_GREY, _PLAIN = "\033[90m", "\033[0m"


class LoggingPlugin(Plugin):
    """Writes one line for every hook: its name, who runs, and what it is about.

    Args:
        name: the plugin's name; every line begins with it in brackets.
        logger: name of the logger that gets the lines.
        level: their level, a name of the `logging` module.
        stream: where to print the lines besides: ``"stdout"``, ``"stderr"``, a text stream, or None for nowhere.
        color: grey ANSI text on that stream; None: when it is a terminal.

    Contents and system instructions are cut after 200 characters, arguments and results after 300. Nothing is written
    while a durable engine replays.

    Raises:
        ConfigurationError: an unknown level or stream.
    """

    def __init__(
        self,
        name: str = "logging_plugin",
        *,
        logger: str = "hookwork.logging_plugin",
        level: str = "INFO",
        stream: str | TextIO | None = None,
        color: bool | None = None,
    ) -> None:
        self.name = name
        self._logger = logging.getLogger(logger)
        number = logging.getLevelNamesMapping().get(str(level).upper())
        if number is None:
            raise ConfigurationError(f"plugin {name!r}: level {level!r} is unknown; use DEBUG, INFO, WARNING or ERROR")
        self._level = number
        if isinstance(stream, str) and stream not in ("stdout", "stderr"):
            raise ConfigurationError(f"plugin {name!r}: stream is 'stdout', 'stderr' or a text stream, not {stream!r}")
        self._stream = stream
        self._color = color

    # --- writing ------------------------------------------------------------------------------------------------------

    def _say(self, hook: str, ctx: Any = None, /, **fields: Any) -> None:
        to_logger = self._logger.isEnabledFor(self._level)
        if replaying() or not (to_logger or self._stream is not None):
            return
        if ctx is not None:
            fields = {"agent": ctx.agent_name, "invocation": ctx.invocation_id, **fields}
        told = "".join(f" {key}={shown(value)}" for key, value in fields.items() if value is not None and value != "")
        line = f"[{self.name}] {hook}{told}"
        if to_logger:
            self._logger.log(self._level, "%s", line)
        if self._stream is not None:
            self._print(line, self._stream)

    def _print(self, line: str, wanted: str | TextIO) -> None:
        # sys.stdout is looked up each time: programs replace it.
        stream: TextIO = getattr(sys, wanted) if isinstance(wanted, str) else wanted
        grey = stream.isatty() if self._color is None else self._color
        print(f"{_GREY}{line}{_PLAIN}" if grey else line, file=stream, flush=True)

    # --- run ----------------------------------------------------------------------------------------------------------

    def on_user_message(self, ctx: InvocationContext, message: Content) -> None:
        self._say("on_user_message", ctx, user=ctx.user_id, session=ctx.session_id, message=message)

    def before_run(self, ctx: InvocationContext) -> None:
        self._say("before_run", ctx, user=ctx.user_id, session=ctx.session_id)

    def on_event(self, ctx: InvocationContext, event: Event) -> None:
        self._say(
            "on_event",
            ctx,
            event=event.id,
            author=event.author,
            partial=event.partial,
            final=event.is_final_response(),
            content=event.content,
            state=list(event.actions.state_delta) or None,
            error=event.error_message,
        )

    def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
        waiting = [call.id for call in outcome.open_calls] or None
        self._say("after_run", ctx, outcome=outcome.kind, reason=outcome.reason, open_calls=waiting)

    def on_run_error(self, ctx: InvocationContext, error: BaseException) -> None:
        self._say("on_run_error", ctx, error=error)

    # --- agents -------------------------------------------------------------------------------------------------------

    def before_agent(self, ctx: CallbackContext, agent: Agent) -> None:
        self._say("before_agent", ctx, path=ctx.path, branch=ctx.branch)

    def after_agent(self, ctx: CallbackContext, agent: Agent) -> None:
        self._say("after_agent", ctx, path=ctx.path)

    def on_agent_error(self, ctx: CallbackContext, agent: Agent, error: BaseException) -> None:
        self._say("on_agent_error", ctx, path=ctx.path, error=error)

    def on_pause(self, ctx: CallbackContext, open_calls: Sequence[Call]) -> None:
        self._say("on_pause", ctx, open_calls=[f"{call.name} ({call.id})" for call in open_calls])

    # --- models -------------------------------------------------------------------------------------------------------

    def before_model(self, ctx: CallbackContext, request: ModelRequest) -> None:
        instruction = request.config.system_instruction
        self._say(
            "before_model",
            ctx,
            model=request.model or None,
            contents=len(request.contents),
            instruction=cut(instruction.text, CONTENT_LIMIT) if instruction is not None else None,
            tools=sorted(request.tools) or None,
        )

    def after_model(self, ctx: CallbackContext, request: ModelRequest, response: ModelResponse) -> None:
        usage = response.usage_metadata
        self._say(
            "after_model",
            ctx,
            partial=response.partial,
            content=response.content,
            error_code=response.error_code,
            error=response.error_message,
            prompt_tokens=usage.prompt_token_count if usage is not None else None,
            answer_tokens=usage.candidates_token_count if usage is not None else None,
        )

    def on_model_error(self, ctx: CallbackContext, request: ModelRequest, error: Exception) -> None:
        self._say("on_model_error", ctx, model=request.model or None, error=error)

    # --- tools --------------------------------------------------------------------------------------------------------

    def before_tool(self, ctx: ToolContext, tool: Tool, args: dict[str, Any]) -> None:
        self._say("before_tool", ctx, tool=tool.name, call=ctx.function_call_id, args=args)

    def after_tool(
        self,
        ctx: ToolContext,
        tool: Tool,
        args: dict[str, Any],
        result: dict[str, Any] | None,
        error: Exception | None,
    ) -> None:
        self._say("after_tool", ctx, tool=tool.name, call=ctx.function_call_id, result=result, error=error)

    def on_tool_error(self, ctx: ToolContext, tool: Tool, args: dict[str, Any], error: Exception) -> None:
        self._say("on_tool_error", ctx, tool=tool.name, call=ctx.function_call_id, args=args, error=error)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def before_node(self, ctx: Any, input: Any) -> None:
        self._say("before_node", ctx, path=ctx.path, input=input)

    def after_node(self, ctx: Any, outcome: NodeOutcome) -> None:
        self._say("after_node", ctx, path=ctx.path, status=outcome.status, output=outcome.output)

    def on_node_error(self, ctx: Any, error: Exception, attempt: int) -> None:
        self._say("on_node_error", ctx, path=ctx.path, attempt=attempt, error=error)

    # --- the plugin ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        self._say("close")
