"""The MCP server of an agent, and the two ways to run it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import mcp_types as types
from mcp.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

from hookwork.agent import Agent
from hookwork.app import App
from hookwork.errors import ConfigurationError
from hookwork.version import VERSION
from hookwork_mcp.serving.exposed import Exposed, ExposedAgent, ExposedTools
from hookwork_mcp.serving.talk import Identify

if TYPE_CHECKING:
    from starlette.applications import Starlette

logger = logging.getLogger("hookwork.mcp.serving")

#: The user of clients that nobody identified.
DEFAULT_USER = "mcp_user"


def nobody(_: Mapping[str, str]) -> tuple[str, Mapping[str, Any] | None]:
    """All calls belong to one user."""
    return DEFAULT_USER, None


class AgentServer:
    """An agent, or its tools, as an MCP server. ``async with`` closes it at the end.

    Args:
        target: the agent or App.
        expose: ``agent`` (one tool: ask it) or ``tools`` (the tools it has; no model is asked).
        identify: from the HTTP headers of a call, names in lower case, to its user id and ephemeral scope. Give one
            wherever more than one person can reach the server: sessions belong to users.
        state_keys: secrets that seal what a client hands back when it answers a question, newest first; give them when
            several processes serve the same clients. Default: a key of this process. Sealed state is good for 600 s.
        options: of the Runner: ``sessions``, ``artifacts``, ``memory``, ``plugins``, ``model``, ``settings`` …

    Raises:
        ConfigurationError: ``expose`` is something else, or the runner cannot be built.
    """

    def __init__(
        self,
        target: Agent | App,
        *,
        expose: str = "agent",
        identify: Identify = nobody,
        state_keys: Sequence[str] = (),
        **options: Any,
    ) -> None:
        if expose not in ("agent", "tools"):
            raise ConfigurationError(f"expose is 'agent' or 'tools', not {expose!r}")
        made: Exposed = (ExposedAgent if expose == "agent" else ExposedTools)(target, identify, options)
        self.exposed = made

        async def on_list_tools(_: Any, params: Any) -> types.ListToolsResult:
            return types.ListToolsResult(tools=await made.tools())

        #: the SDK's server object; give it to a transport of your own, or to `McpToolset` in this process.
        self.server: Server[Any] = Server(
            made.runner.app_name,
            version=VERSION,
            on_list_tools=on_list_tools,
            on_call_tool=made.call,
        )
        security = RequestStateSecurity(keys=list(state_keys)) if state_keys else RequestStateSecurity.ephemeral()
        self.server.middleware.append(RequestStateBoundary(security, default_audience=made.runner.app_name))

    async def run_stdio(self) -> None:
        """Serve the process's standard streams until they are closed."""
        from mcp.server.stdio import stdio_server

        async with stdio_server() as (read, write):
            await self.server.run(read, write, self.server.create_initialization_options())

    def http_app(self, *, path: str = "/mcp", host: str = "127.0.0.1") -> Starlette:
        """An ASGI app that serves streamable HTTP at ``path``.

        For a ``host`` of this machine only requests that name it are taken (a page in a browser cannot reach it by
        another name).
        """
        return self.server.streamable_http_app(streamable_http_path=path, host=host)

    async def run_http(self, *, host: str = "127.0.0.1", port: int = 8765, path: str = "/mcp") -> None:
        """Serve streamable HTTP until the process is told to stop."""
        import uvicorn

        config = uvicorn.Config(
            self.http_app(path=path, host=host), host=host, port=port, log_level="warning", timeout_graceful_shutdown=2
        )
        await uvicorn.Server(config).serve()

    async def close(self) -> None:
        """Close the runner, and with it toolsets, plugins and services."""
        await self.exposed.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
