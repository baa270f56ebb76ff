"""How a server is reached: a subprocess, an HTTP endpoint, a server object in this process."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

import attrs

from hookwork.errors import ConfigurationError
from hookwork_mcp.errors import public_url

if TYPE_CHECKING:
    import httpx2


@attrs.frozen
class Link:
    """What a transport gets for one session: its headers, and whom to tell when it ends or fails."""

    headers: Mapping[str, str] = attrs.field(repr=False)
    ended: Callable[[], None]
    failed: Callable[[str], None]


class Endpoint(ABC):
    """A way to reach a server. ``place`` names it in texts; ``http``: headers can be sent with each request."""

    http: bool = False

    @property
    @abstractmethod
    def place(self) -> str:
        """Where the server is, without secrets."""

    @abstractmethod
    def open(self, link: Link) -> Any:
        """What `mcp.Client` takes as its server, for one session."""


def _lenient(transport: AbstractAsyncContextManager[Any], link: Link) -> Any:
    from hookwork_mcp.lenient import lenient

    return lenient(transport, link.ended)


@attrs.frozen
class Stdio(Endpoint):
    """A subprocess that speaks MCP on its standard streams.

    It gets HOME, PATH and the like, and ``env``, nothing else of this process's environment. ``errlog``: a text file
    for its standard error; None: it is discarded.
    """

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] | None = attrs.field(default=None, repr=False)
    cwd: str | None = None
    errlog: Any = attrs.field(default=None, repr=False)

    @property
    def place(self) -> str:
        return f"command {self.command!r}"

    def open(self, link: Link) -> Any:
        from mcp import StdioServerParameters

        from hookwork_mcp.processes import stdio

        env = dict(self.env) if self.env is not None else None
        parameters = StdioServerParameters(command=self.command, args=list(self.args), env=env, cwd=self.cwd)
        return _lenient(stdio(parameters, self.errlog), link)


def _split_credentials(url: str) -> tuple[str, dict[str, str]]:
    """A URL without user and password, and the header that stands for them: clients log the URLs they call."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"an MCP endpoint is an http or https URL; got {public_url(url)!r}")
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, {}
    name, _, password = user.partition(":")
    token = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
    bare = urlunsplit((parts.scheme, host, parts.path, parts.query, parts.fragment))
    return bare, {"Authorization": f"Basic {token}"}


@attrs.frozen
class StreamableHttp(Endpoint):
    """A streamable-HTTP endpoint. ``timeout`` and ``read_timeout`` in seconds; ``http_client``: sends by this one."""

    url: str = attrs.field(repr=public_url)
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=lambda headers: str(sorted(headers)))
    timeout: float = 30.0
    read_timeout: float = 300.0
    http_client: httpx2.AsyncClient | None = None

    http = True

    def __attrs_post_init__(self) -> None:
        _split_credentials(self.url)

    @property
    def place(self) -> str:
        return public_url(self.url)

    def _client(self, link: Link, own: Mapping[str, str], *, answers_here: bool) -> httpx2.AsyncClient:
        from hookwork_mcp.http import client_for

        return client_for(
            _merged(own, self.headers, link.headers),
            callers=self.http_client,
            timeout=self.timeout,
            read_timeout=self.read_timeout,
            answers_here=answers_here,
            failed=link.failed,
        )

    def open(self, link: Link) -> Any:
        from hookwork_mcp.streams import streamable_http

        url, own = _split_credentials(self.url)
        return _lenient(streamable_http(url, self._client(link, own, answers_here=True)), link)


@attrs.frozen
class Sse(StreamableHttp):
    """An endpoint of the older HTTP+SSE transport."""

    def open(self, link: Link) -> Any:
        from mcp.client.sse import sse_client

        url, own = _split_credentials(self.url)
        made = self._client(link, own, answers_here=False)

        def given(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
            return made

        return _lenient(sse_client(url, httpx_client_factory=given), link)


def _merged(*layers: Mapping[str, str]) -> dict[str, str]:
    """Headers of all layers; a later one replaces an equal name, whatever its case."""
    merged: dict[str, tuple[str, str]] = {}
    for layer in layers:
        for name, value in layer.items():
            merged[name.lower()] = (name, value)
    return dict(merged.values())


@attrs.frozen
class InProcess(Endpoint):
    """An ``mcp`` server object of this process, for tests and for tools that need no process of their own."""

    server: Any

    @property
    def place(self) -> str:
        return f"server {getattr(self.server, 'name', type(self.server).__name__)!r} in this process"

    def open(self, link: Link) -> Any:
        return self.server


@attrs.frozen
class Custom(Endpoint):
    """A function that gives a fresh SDK transport (an async context manager of two streams) for each session."""

    make: Callable[[], AbstractAsyncContextManager[Any]]

    @property
    def place(self) -> str:
        return f"transport {getattr(self.make, '__qualname__', type(self.make).__name__)!r}"

    def open(self, link: Link) -> Any:
        return _lenient(self.make(), link)


def endpoint_of(transport: Any, endpoint: str | None) -> Endpoint:
    """The endpoint that a toolset's arguments mean (MCP-01).

    Raises:
        ValueError: neither is given. ConfigurationError: they mean nothing we know.
    """
    if transport is None:
        if not endpoint:
            raise ConfigurationError("an McpToolset needs a transport or an endpoint, e.g. endpoint='https://…/mcp'")
        return StreamableHttp(endpoint)
    if isinstance(transport, Endpoint):
        return transport
    if isinstance(transport, str):
        return StreamableHttp(transport)
    if hasattr(transport, "command") and hasattr(transport, "args"):  # the SDK's StdioServerParameters
        cwd = str(transport.cwd) if transport.cwd is not None else None
        return Stdio(transport.command, tuple(transport.args), transport.env, cwd)
    if type(transport).__module__.split(".")[0] == "mcp" and hasattr(transport, "name"):
        return InProcess(transport)
    if callable(transport):
        return Custom(transport)
    raise ConfigurationError(
        f"an McpToolset's transport is a Stdio, StreamableHttp, Sse, a URL, an mcp server, or a function that gives an "
        f"SDK transport; got {type(transport).__name__}"
    )
