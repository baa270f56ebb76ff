"""The options of the SDK's client for one session of a toolset."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookwork.version import VERSION

if TYPE_CHECKING:
    from hookwork_mcp.session import McpSession
    from hookwork_mcp.toolset import McpToolset

logger = logging.getLogger("hookwork.mcp.server")

_LEVELS = {"debug": 10, "info": 20, "notice": 20, "warning": 30}


def client_options(toolset: McpToolset, session: McpSession) -> dict[str, Any]:
    """Keyword arguments of `mcp.Client`."""
    import mcp_types as types

    from hookwork_mcp.elicitation import elicitation_callback
    from hookwork_mcp.sampling import sampling_callback

    async def note(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            session.listed = None

    async def log(params: Any) -> None:
        logger.log(_LEVELS.get(params.level, 40), "%s: %s", toolset.name, params.data)

    options: dict[str, Any] = {
        "client_info": types.Implementation(name="hookwork", version=VERSION),
        "mode": toolset.protocol,
        "read_timeout_seconds": toolset.request_timeout,
        "cache": None,  # lists are kept per session here, or not at all
        "message_handler": note,
        "logging_callback": log,
    }
    if toolset.elicitation is not None:
        options["elicitation_callback"] = elicitation_callback(toolset.elicitation, session.calls)
    if toolset.sampling is not None:
        options["sampling_callback"] = sampling_callback(toolset.sampling, session.calls)
    if toolset.roots is not None:
        roots = [types.Root.model_validate({"uri": _root(root)}) for root in toolset.roots]

        async def list_roots(_: Any) -> Any:
            return types.ListRootsResult(roots=roots)

        options["list_roots_callback"] = list_roots
    return options


def _root(root: str) -> str:
    return root if "://" in root else Path(root).absolute().as_uri()
