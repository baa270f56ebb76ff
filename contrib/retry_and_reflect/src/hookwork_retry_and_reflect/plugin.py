"""The plugin: counts failures of each tool and answers them with guidance (tools-plugins SP-01 … SP-04)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from hookwork import Plugin
from hookwork.errors import ConfigurationError, ConfirmationRejected, ConfirmationRequired, LimitExceeded
from hookwork_retry_and_reflect.reflection import RESPONSE_TYPE, give_up, retry

if TYPE_CHECKING:
    from hookwork import InvocationContext, RunOutcome, Tool, ToolContext

SCOPES = ("invocation", "global")

#: The one scope of ``scope="global"``.
_GLOBAL = ""


class RetryAndReflect(Plugin):
    """Turns a failed tool call into a result that tells the model what went wrong and how to try again.

    It guides the model only: no call is made again by itself. Subclass it and override `extract_error` for tools that
    report failures in their results.

    Args:
        max_retries: consecutive failures of a tool that are answered with guidance; 0: none.
        error_if_exceeded: after them, let the tool's own error stand; otherwise the model is told to stop using it.
        scope: ``invocation``: count for each run; ``global``: for all runs of this plugin together.
        name: the plugin's name.

    Raises:
        ConfigurationError: a negative or no whole ``max_retries``, or an unknown scope.
    """

    def __init__(
        self,
        *,
        max_retries: int = 3,
        error_if_exceeded: bool = False,
        scope: str = "invocation",
        name: str = "RetryAndReflectPlugin",
    ) -> None:
        if isinstance(max_retries, bool) or not isinstance(max_retries, int) or max_retries < 0:
            raise ConfigurationError(f"plugin {name!r}: max_retries is a whole number from 0, not {max_retries!r}")
        if scope not in SCOPES:
            raise ConfigurationError(f"plugin {name!r}: scope is one of {', '.join(SCOPES)}, not {scope!r}")
        self.name = name
        self._max_retries = max_retries
        self._error_if_exceeded = error_if_exceeded
        self._global = scope == "global"
        self._lock = threading.Lock()
        #: scope → tool → consecutive failures.
        self._failures: dict[str, dict[str, int]] = {}

    def extract_error(self, result: dict[str, Any]) -> Any:
        """The failure that a result reports, or None. For override; it may be a text or an exception."""
        return None

    # --- hooks --------------------------------------------------------------------------------------------------------

    def on_tool_error(
        self, ctx: ToolContext, tool: Tool, args: dict[str, Any], error: Exception
    ) -> dict[str, Any] | None:
        if isinstance(error, ConfirmationRequired | ConfirmationRejected | LimitExceeded):
            return None  # a person is asked, or has said no, or a budget is used up: nothing to try again
        return self._reflect(ctx, tool.name, args, error)

    def after_tool(
        self,
        ctx: ToolContext,
        tool: Tool,
        args: dict[str, Any],
        result: dict[str, Any] | None,
        error: Exception | None,
    ) -> dict[str, Any] | None:
        if error is not None or (result is not None and result.get("response_type") == RESPONSE_TYPE):
            return None
        reported = self.extract_error(result) if result is not None else None
        if reported is not None:
            return self._reflect(ctx, tool.name, args, reported)
        with self._lock:
            self._failures.get(self._scope(ctx), {}).pop(tool.name, None)
        return None

    def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
        with self._lock:
            self._failures.pop(ctx.invocation_id, None)

    # --- counting -----------------------------------------------------------------------------------------------------

    def _scope(self, ctx: ToolContext) -> str:
        return _GLOBAL if self._global else ctx.invocation_id

    def _reflect(self, ctx: ToolContext, tool: str, args: dict[str, Any], error: Any) -> dict[str, Any]:
        with self._lock:
            counts = self._failures.setdefault(self._scope(ctx), {})
            counts[tool] = count = counts.get(tool, 0) + 1
        if count <= self._max_retries:
            return retry(tool, error, args, count, self._max_retries)
        if self._error_if_exceeded and isinstance(error, Exception):
            raise error
        return give_up(tool, error, args, self._max_retries)
