"""Toolsets from settings: plain JSON, in our own keys or in those of google-adk's YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookwork.catalogue import did_you_mean
from hookwork.errors import ConfigurationError
from hookwork_mcp.toolset import McpToolset
from hookwork_mcp.transports import Endpoint, Sse, Stdio, StreamableHttp

#: Keys that go to the toolset as they are, with their types.
_OPTIONS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "prefix": (str,),
    "optional": (bool,),
    "require_confirmation": (bool,),
    "resource_tools": (bool,),
    "protocol": (str,),
    "connect_timeout": (int, float),
    "request_timeout": (int, float),
    "call_timeout": (int, float),
    "close_timeout": (int, float),
    "max_sessions": (int,),
    "idle_timeout": (int, float),
    "cache_ttl": (int, float),
    "trusted": (bool,),
    "max_result_bytes": (int,),
}
_PROCESS = {"command": (str,), "args": (list,), "env": (dict,), "cwd": (str,)}
_HTTP = {"url": (str,), "headers": (dict,), "timeout": (int, float), "read_timeout": (int, float)}
_SAME = {
    "tool_name_prefix": "prefix",
    "endpoint": "url",
    "sse_read_timeout": "read_timeout",
    "use_mcp_resources": "resource_tools",
}
_NESTED = ("stdio_connection_params", "streamable_http_connection_params", "sse_connection_params")


def toolset_from(settings: Mapping[str, Any]) -> McpToolset:
    """A toolset.

    A ``command`` starts a process, so it needs ``allow = ["subprocess"]`` beside it: settings may come from a file that
    somebody uploaded.

    Raises:
        ConfigurationError: an unknown key, a wrong type, no server, or a process that was not allowed.
    """
    given = _flat(settings)
    kind = given.pop("transport", None)
    allow = given.pop("allow", ())
    chosen = _names(given.pop("tool_filter", None))
    known = {**_OPTIONS, **_PROCESS, **_HTTP}
    for key, value in given.items():
        if key not in known:
            names = [*known, *_SAME, *_NESTED, "transport", "allow", "tool_filter"]
            raise ConfigurationError(f"mcp toolset: there is no setting {key!r}{did_you_mean(key, names)}")
        if not isinstance(value, known[key]) or (isinstance(value, bool) and bool not in known[key]):
            wanted = " or ".join(kind.__name__ for kind in known[key])
            raise ConfigurationError(f"mcp toolset: {key} is of type {wanted}, not {type(value).__name__}")
    endpoint = _endpoint(given, kind, allow)
    return McpToolset(endpoint, tool_filter=chosen, **{key: given[key] for key in given if key in _OPTIONS})


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with nested connection parameters laid out and other spellings of keys replaced."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if key not in _NESTED:
            flat[_SAME.get(key, key)] = value
            continue
        if not isinstance(value, Mapping):
            raise ConfigurationError(f"mcp toolset: {key} is of type dict, not {type(value).__name__}")
        inner = dict(value)
        process = inner.pop("server_params", {})
        if "timeout" in inner and key.startswith("stdio"):
            inner["connect_timeout"] = inner.pop("timeout")
        flat |= {_SAME.get(name, name): item for name, item in {**inner, **process}.items()}
        if key.startswith("sse"):
            flat["transport"] = "sse"
    return flat


def _names(value: Any) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise ConfigurationError(f"mcp toolset: tool_filter is a list of names, not {type(value).__name__}")
    for i, name in enumerate(value):
        if not isinstance(name, str):
            raise ConfigurationError(f"mcp toolset: tool_filter[{i}] is of type str, not {type(name).__name__}")
    return value


def _endpoint(given: Mapping[str, Any], kind: Any, allow: Any) -> Endpoint:
    if ("command" in given) == ("url" in given):
        raise ConfigurationError("mcp toolset: give either a url or a command")
    if "command" in given:
        if kind not in (None, "stdio"):
            raise ConfigurationError(f"mcp toolset: a command speaks stdio, not {kind!r}")
        if "subprocess" not in (allow or ()):
            raise ConfigurationError(
                f"mcp toolset: the command {given['command']!r} would start a process; "
                'allow it with allow = ["subprocess"] where you trust these settings'
            )
        for i, arg in enumerate(given.get("args", ())):
            if not isinstance(arg, str):
                raise ConfigurationError(f"mcp toolset: args[{i}] is of type str, not {type(arg).__name__}")
        return Stdio(given["command"], tuple(given.get("args", ())), given.get("env"), given.get("cwd"))
    if kind not in (None, "http", "streamable_http", "sse"):
        raise ConfigurationError(f"mcp toolset: transport is 'stdio', 'http' or 'sse', not {kind!r}")
    options = {key: given[key] for key in ("headers", "timeout", "read_timeout") if key in given}
    return (Sse if kind == "sse" else StreamableHttp)(given["url"], **options)
