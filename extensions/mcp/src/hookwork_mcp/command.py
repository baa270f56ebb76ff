"""`hookwork mcp serve AGENT`."""

from __future__ import annotations

import asyncio
from typing import Any

import click


@click.group("mcp")
def command() -> None:
    """Agents as MCP servers."""


@command.command("serve")
@click.argument("agent", required=False)
@click.option("--tools", "expose", flag_value="tools", help="Offer the agent's tools instead of the agent.")
@click.option("--http", is_flag=True, help="Serve streamable HTTP instead of the standard streams.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65535), help="Port to listen on.")
@click.option("--path", default="/mcp", show_default=True, help="Path of the endpoint.")
@click.option("--sessions", metavar="URL", help="Session service; conversations outlive the process there.")
@click.option("--artifacts", metavar="URL", help="Artifact service.")
@click.option("--memory", metavar="URL", help="Memory service.")
@click.option("--model", metavar="NAME", help="Model of all agents.")
def serve(agent: str | None, expose: str | None, http: bool, host: str, port: int, path: str, **options: Any) -> None:
    """Serve AGENT as an MCP server, on the standard streams or by streamable HTTP.

    The server asks nobody who they are: put it behind something that does before others can reach it.
    """
    if not path.startswith("/"):
        raise click.BadParameter(f"a path begins with a slash: {path!r}", param_hint="--path")
    asyncio.run(_serve(agent, expose or "agent", http, {"host": host, "port": port, "path": path}, options))


async def _serve(agent: str | None, expose: str, http: bool, where: dict[str, Any], options: dict[str, Any]) -> None:
    from hookwork.cli import command_settings
    from hookwork.resolve import load_agent
    from hookwork_mcp.serving.server import AgentServer

    settings = command_settings()
    given = {
        name: value for name, value in options.items() if value is not None and (name, expose) != ("model", "tools")
    }
    async with AgentServer(load_agent(agent, settings), expose=expose, settings=settings, **given) as server:
        if not http:
            await server.run_stdio()
            return
        click.echo(f"serving http://{where['host']}:{where['port']}{where['path']}", err=True)
        await server.run_http(**where)
