"""Toolsets by settings (design §5 `create_toolset`, crosscutting T-25 and the YAML table)."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from tests.mcp.server import SCRIPT

from hookwork.errors import ConfigurationError
from hookwork.plugins.discovery import extensions
from hookwork_mcp import McpToolset, Sse, Stdio, StreamableHttp
from hookwork_testkit import make_context


def made(settings: dict[str, Any], kind: str = "mcp") -> McpToolset:
    toolset = extensions().first("create_toolset", kind=kind, settings=settings)
    assert isinstance(toolset, McpToolset)
    return toolset


def test_http_and_sse() -> None:
    options = {"prefix": "far_", "optional": True, "tool_filter": ["a"], "max_sessions": 3, "name": "far"}
    toolset = made({"url": "https://example.com/mcp", "headers": {"X": "1"}, "timeout": 5, **options})
    assert toolset.endpoint == StreamableHttp("https://example.com/mcp", headers={"X": "1"}, timeout=5)
    assert (toolset.prefix, toolset.optional, toolset.max_sessions, toolset.name) == ("far_", True, 3, "far")
    assert made({"url": "https://example.com/sse", "transport": "sse"}).endpoint == Sse("https://example.com/sse")


def test_t_25_a_command_needs_to_be_allowed() -> None:
    settings = {"command": "run-me", "args": ["--now"], "env": {"A": "1"}}
    with pytest.raises(ConfigurationError, match=r"'run-me' would start a process; allow it with allow"):
        made(settings)
    allowed = made({**settings, "allow": ["subprocess"]})
    assert allowed.endpoint == Stdio("run-me", ("--now",), {"A": "1"})


def test_adk_s_yaml_keys() -> None:
    """`McpToolset` with `stdio_connection_params.server_params`; `args` and `tool_filter` are optional."""
    params = {"server_params": {"command": "npx", "args": ["-y", "x"], "env": {"K": "v"}}, "timeout": 9}
    toolset = made({"stdio_connection_params": params, "allow": ["subprocess"]}, kind="McpToolset")
    assert toolset.endpoint == Stdio("npx", ("-y", "x"), {"K": "v"})
    assert toolset.connect_timeout == 9
    http = made({"streamable_http_connection_params": {"url": "http://x/mcp", "sse_read_timeout": 7}})
    assert http.endpoint == StreamableHttp("http://x/mcp", read_timeout=7)
    assert made({"sse_connection_params": {"url": "http://x/sse"}}).endpoint == Sse("http://x/sse")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "either a url or a command"),
        ({"url": "http://x/mcp", "command": "y"}, "either a url or a command"),
        ({"url": "http://x/mcp", "prefx": "a"}, r"no setting 'prefx' \(did you mean 'prefix'\?\)"),
        ({"url": "http://x/mcp", "optional": "yes"}, "optional is of type bool, not str"),
        ({"url": "http://x/mcp", "max_sessions": True}, "max_sessions is of type int, not bool"),
        ({"url": "http://x/mcp", "tool_filter": ["a", 1]}, r"tool_filter\[1\] is of type str, not int"),
        ({"command": "x", "args": ["a", 2], "allow": ["subprocess"]}, r"args\[1\] is of type str, not int"),
        ({"url": "ftp://x/mcp"}, "http or https URL"),
        ({"url": "http://x/mcp", "transport": "pigeon"}, "not 'pigeon'"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        made(settings)


def test_another_kind_is_not_ours() -> None:
    assert extensions().first("create_toolset", kind="skills-of-old", settings={}) is None


async def test_a_configured_toolset_works() -> None:
    toolset = made({"command": sys.executable, "args": [SCRIPT], "allow": ["subprocess"], "tool_filter": ["add"]})
    (tool,) = await toolset.tools(make_context("readonly"))
    assert await tool.run(make_context("tool"), {"a": 2, "b": 2}) == {"output": {"result": 4}}  # type: ignore[attr-defined]
    await toolset.close()


def test_dist_1_the_sdk_is_not_imported_before_a_server_is_needed() -> None:
    script = (
        "import sys\nfrom hookwork.plugins.discovery import extensions\n"
        "registry = extensions()\n"
        "toolset = registry.first('create_toolset', kind='mcp', settings={'url': 'http://x/mcp'})\n"
        "assert toolset is not None\n"
        "heavy = {'mcp', 'mcp_types', 'httpx2', 'anyio', 'pydantic', 'jsonschema', 'starlette'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
