"""The tools of an MCP server as a toolset (tools-plugins §5)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from hookwork import platform
from hookwork.credentials import has_consent_answers
from hookwork.errors import (
    BackendError,
    ConfigurationError,
    ConsentRequiredError,
    HookworkError,
    ToolError,
    ToolResultError,
)
from hookwork.tool import RESERVED_TOOL_NAMES, Tool, Toolset
from hookwork_mcp.bounds import MAX_RESULT_BYTES, check_size, fenced
from hookwork_mcp.errors import McpConnectionError, McpToolError, leaf, status_of, text_of, was_lost
from hookwork_mcp.headers import headers_for
from hookwork_mcp.listing import all_pages
from hookwork_mcp.pool import SessionPool, always_resend, resend_if_not_delivered
from hookwork_mcp.results import response_of, with_media_parts
from hookwork_mcp.schemas import Checkers
from hookwork_mcp.tool import Confirmation, McpTool
from hookwork_mcp.transports import Endpoint, endpoint_of

if TYPE_CHECKING:
    from hookwork.context import ReadonlyContext, ToolContext
    from hookwork.model import ModelRequest
    from hookwork.records.content import Content, Part
    from hookwork_mcp.elicitation import ElicitationHandler
    from hookwork_mcp.resources import McpPrompt, McpResource
    from hookwork_mcp.sampling import SamplingHandler
    from hookwork_mcp.session import McpSession

T = TypeVar("T")

logger = logging.getLogger("hookwork.mcp")

ToolFilter = Iterable[str] | Callable[[Any, Tool], "bool | Awaitable[bool]"]
HeaderProvider = Callable[[Any], "Mapping[str, str] | Awaitable[Mapping[str, str]]"]
#: Takes the call's context, the tool's name, what is done, the total (or None) and a message (or None).
ProgressHandler = Callable[[Any, str, float, float | None, str | None], "Awaitable[None] | None"]

_METHOD_NOT_FOUND = -32601


class McpToolset(Toolset):
    """Tools of one MCP server. Nothing is connected before the tools are asked for.

    Args:
        transport: `Stdio`, `StreamableHttp`, `Sse`, a URL, an ``mcp`` server object, the SDK's StdioServerParameters,
            or a function that gives a fresh SDK transport.
        endpoint: URL of a streamable-HTTP server; ignored when ``transport`` is given.
        name: of the toolset, in texts; default ``mcp_tool_set``.
        client_factory: makes the SDK's client from (server, options); default `mcp.Client`.
        auth: a credential provider: an object with ``credential(ctx)`` or a function; HTTP only.
        header_provider: ``ctx → {header: value}``, may be async; HTTP only. Both are asked for every list and call,
            with the context of the run, and each set of headers has sessions of its own.
        tool_filter: names on the server, or a predicate of (ctx, tool), may be async.
        prefix: put in front of each tool's name.
        require_confirmation: whether calls need a person's approval, or a function of (tool name, arguments).
        optional: an unreachable server contributes no tools instead of failing the run.
        elicitation, sampling: handlers of a server's questions to the user and to a model; without one the server is
            told that there is none.
        roots: folders the server is told to work in, as ``file://`` URIs or paths.
        on_progress: is told of the progress of calls.
        resource_tools: also offer the tools ``list_resources`` and ``read_resource``.
        protocol: ``auto``, ``legacy`` (the initialize handshake) or a version of the stateless protocol.
        connect_timeout, request_timeout, call_timeout: seconds to connect, to list and read, to run one tool.
        close_timeout: seconds that `close` may take before sessions are cancelled.
        max_sessions, idle_timeout: how many sessions there may be at once, and seconds after which idle ones end.
        cache_ttl: seconds for which a list of tools is used again on the same session; 0: never.
        trusted: False marks the server's descriptions as data in front of the model, strips what cannot be printed and
            cuts them to 2,000 characters; True shows them verbatim (MCP-05).
        max_result_bytes: of one result; a larger one is a tool error, since every later request would carry it. 0: any.

    Raises:
        ValueError: no transport and no endpoint.
        ConfigurationError: headers for a server that is not reached by HTTP.
    """

    def __init__(
        self,
        transport: Any = None,
        endpoint: str | None = None,
        *,
        name: str = "mcp_tool_set",
        client_factory: Callable[[Any, dict[str, Any]], Any] | None = None,
        auth: Any = None,
        header_provider: HeaderProvider | None = None,
        tool_filter: ToolFilter | None = None,
        prefix: str = "",
        require_confirmation: Confirmation = False,
        optional: bool = False,
        elicitation: ElicitationHandler | None = None,
        sampling: SamplingHandler | None = None,
        roots: Sequence[str] | None = None,
        on_progress: ProgressHandler | None = None,
        resource_tools: bool = False,
        protocol: str = "auto",
        connect_timeout: float = 30.0,
        request_timeout: float = 60.0,
        call_timeout: float | None = 300.0,
        close_timeout: float = 8.0,
        max_sessions: int = 64,
        idle_timeout: float = 900.0,
        cache_ttl: float = 0.0,
        trusted: bool = True,
        max_result_bytes: int = MAX_RESULT_BYTES,
    ) -> None:
        self.name = name
        self.endpoint: Endpoint = endpoint_of(transport, endpoint)
        if (auth is not None or header_provider is not None) and not self.endpoint.http:
            raise ConfigurationError(
                f"toolset {name!r}: auth and header_provider need an HTTP server; {self.endpoint.place} has no headers"
            )
        if max_sessions < 1:
            raise ConfigurationError(f"toolset {name!r}: max_sessions must be at least 1, not {max_sessions}")
        self.optional = optional
        self.prefix = prefix
        self.auth = auth
        self.header_provider = header_provider
        self.tool_filter = _filter_of(tool_filter, name)
        self.require_confirmation = require_confirmation
        self.elicitation = elicitation
        self.sampling = sampling
        self.roots = roots
        self.on_progress = on_progress
        self.resource_tools = resource_tools
        self.protocol = protocol
        self.connect_timeout = connect_timeout
        self.request_timeout = request_timeout
        self.call_timeout = call_timeout
        self.close_timeout = close_timeout
        self.max_sessions = max_sessions
        self.idle_timeout = idle_timeout
        self.cache_ttl = cache_ttl
        self.trusted = trusted
        self.max_result_bytes = max_result_bytes
        self._client_factory = client_factory
        #: sessions belong to the event loop they were opened in.
        self._pools: dict[asyncio.AbstractEventLoop, SessionPool] = {}
        self._names: set[str] = set()
        self._left_out: set[str] = set()
        self.checkers = Checkers()

    def __repr__(self) -> str:
        return f"McpToolset({self.name!r}, {self.endpoint.place})"

    @property
    def live_sessions(self) -> int:
        """How many sessions are open now, those that are being closed included."""
        return sum(len(pool) for pool in self._pools.values())

    # --- tools --------------------------------------------------------------------------------------------------------

    async def tools(self, ctx: ReadonlyContext) -> list[Tool]:
        """The server's tools that pass the filter, in order of names (MCP-05).

        Raises:
            McpConnectionError: the server cannot be reached. BackendError: it answers with an error.
        """
        from hookwork_mcp.consent import ConnectTool

        try:
            made = await self.server_tools(ctx)
        except ConsentRequiredError:
            return [ConnectTool(self)]  # the model asks for it, and the call pauses the run
        if self.resource_tools:
            from hookwork_mcp.resources import ListResourcesTool, ReadResourceTool

            made += [ListResourcesTool(self), ReadResourceTool(self)]
        if self.auth is not None and has_consent_answers(ctx):
            made.append(ConnectTool(self))  # the call that asked runs again in this run
        made.sort(key=lambda tool: tool.name)
        self._names.update(tool.name for tool in made)
        return made

    async def server_tools(self, ctx: ReadonlyContext) -> list[Tool]:
        """The server's own tools that pass the filter, as `tools` offers them. Raises what `tools` raises.

        Raises:
            ConsentRequiredError: a person has to consent before the server is asked.
        """
        listed = await self._asked(ctx, self._listed, "list its tools")
        return [tool for tool in self._made(listed) if await self._passes(ctx, tool)]

    async def _listed(self, session: McpSession) -> list[Any]:
        if session.listed is not None and session.listed[0] > platform.timestamp():
            return session.listed[1]  # type: ignore[no-any-return]
        client = session.client
        try:
            found = await all_pages(lambda cursor: client.list_tools(cursor=cursor), "tools", self._what("tools/list"))
        except Exception as error:
            if getattr(error, "code", None) != _METHOD_NOT_FOUND or client.server_capabilities.tools is not None:
                raise
            found = []  # the server never said that it has tools
        if self.cache_ttl > 0:
            session.listed = (platform.timestamp() + self.cache_ttl, found)
        return found

    def _made(self, listed: Iterable[Any]) -> Iterable[McpTool]:
        from hookwork_mcp.lenient import schema_of

        seen: set[str] = set()
        for item in listed:
            name = f"{self.prefix}{item.name}"
            if name in RESERVED_TOOL_NAMES or name in seen or not name:
                self._leave_out(name)
                continue
            seen.add(name)
            annotations = item.annotations.model_dump(by_alias=True, exclude_none=True) if item.annotations else None
            description = item.description or item.title or ""
            yield McpTool(
                self,
                mcp_name=item.name,
                prefix=self.prefix,
                description=description if self.trusted or not description else fenced(description),
                input_schema=schema_of(item, "inputSchema"),
                output_schema=schema_of(item, "outputSchema"),
                annotations=annotations,
                require_confirmation=self.require_confirmation,
            )

    def _leave_out(self, name: str) -> None:
        """Say once that a tool is not offered."""
        if name in self._left_out:
            return
        self._left_out.add(name)
        why = "its name is reserved; use a prefix" if name in RESERVED_TOOL_NAMES else "the name comes twice"
        logger.warning("toolset %r: the tool %r of %s is left out: %s", self.name, name, self.endpoint.place, why)

    async def _passes(self, ctx: Any, tool: McpTool) -> bool:
        chosen = self.tool_filter
        if chosen is None:
            return True
        if isinstance(chosen, frozenset):
            return tool.mcp_name in chosen
        assert callable(chosen)
        answer = chosen(ctx, tool)
        return bool(await answer if inspect.isawaitable(answer) else answer)

    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        """Show the media of earlier responses as media, not as base64 text."""
        shown = with_media_parts(request.contents, self._names)
        if shown is not None:
            request.contents = shown

    async def call(self, ctx: ToolContext, tool: McpTool, args: dict[str, Any]) -> dict[str, Any]:
        """Run a tool on the server; its response as an object (§5).

        A cancelled caller cancels the call on the server too. After a lost connection the call is sent again only when
        it cannot have been delivered, or when the tool is idempotent (MCP-07).

        Raises:
            McpToolError: the call came to no result. ToolError: the server says that it failed.
        """

        async def request(session: McpSession) -> Any:
            with session.calls.made_by(ctx):
                return await session.client.call_tool(
                    tool.mcp_name,
                    args,
                    read_timeout_seconds=self.call_timeout,
                    progress_callback=self._progress_of(ctx, tool.name),
                )

        resend = always_resend if tool.idempotent else resend_if_not_delivered
        try:
            headers = await headers_for(ctx, self.header_provider, self.auth, self.name)
            result = await self._pool().use(headers, request, resend=resend)
        except HookworkError as error:
            if isinstance(error, McpConnectionError):
                raise self._failed(tool, error) from error
            raise
        except RuntimeError as error:  # the SDK's word for content unlike the tool's output schema
            if "structured content" not in str(error):
                raise self._failed(tool, error) from error
            raise ToolResultError(f"tool {tool.name!r} returned content unlike its own output schema") from error
        except Exception as error:
            raise self._failed(tool, error) from error
        response = response_of(result)
        check_size(response, tool.name, self.max_result_bytes)
        return response

    def _failed(self, tool: McpTool, error: Exception) -> ToolError:
        return McpToolError(
            f"the call of tool {tool.name!r} failed: {text_of(error)}",
            status=status_of(leaf(error)),
            retryable=was_lost(error),
        )

    def _progress_of(self, ctx: Any, tool: str) -> Any:
        handler = self.on_progress
        if handler is None:
            return None

        async def told(progress: float, total: float | None, message: str | None) -> None:
            answer = handler(ctx, tool, progress, total, message)
            if inspect.isawaitable(answer):
                await answer

        return told

    # --- resources and prompts ----------------------------------------------------------------------------------------

    async def resources(self, ctx: ReadonlyContext) -> list[McpResource]:
        """The server's resources, then its templates; empty when it has none."""
        from hookwork_mcp.resources import resource_of

        async def request(session: McpSession) -> list[McpResource]:
            client = session.client
            if client.server_capabilities.resources is None:
                return []
            what = self._what("resources/list")
            plain = await all_pages(lambda cursor: client.list_resources(cursor=cursor), "resources", what)
            templates = await all_pages(
                lambda cursor: client.list_resource_templates(cursor=cursor), "resource_templates", what
            )
            return [resource_of(item) for item in (*plain, *templates)]

        return await self._asked(ctx, request, "list its resources")

    async def read_resource(self, ctx: ReadonlyContext, uri: str) -> list[Part]:
        """What a resource holds: texts as text parts, bytes as inline data."""
        from hookwork_mcp.resources import parts_of

        async def request(session: McpSession) -> list[Part]:
            return parts_of(await session.client.read_resource(uri))

        return await self._asked(ctx, request, f"read {uri!r}")

    async def prompts(self, ctx: ReadonlyContext) -> list[McpPrompt]:
        """The server's prompts; empty when it has none."""
        from hookwork_mcp.resources import prompt_of

        async def request(session: McpSession) -> list[McpPrompt]:
            client = session.client
            if client.server_capabilities.prompts is None:
                return []
            found = await all_pages(
                lambda cursor: client.list_prompts(cursor=cursor), "prompts", self._what("prompts/list")
            )
            return [prompt_of(item) for item in found]

        return await self._asked(ctx, request, "list its prompts")

    async def prompt(
        self, ctx: ReadonlyContext, name: str, arguments: Mapping[str, str] | None = None
    ) -> list[Content]:
        """A prompt's messages, filled in."""
        from hookwork_mcp.resources import contents_of

        async def request(session: McpSession) -> list[Content]:
            return contents_of(await session.client.get_prompt(name, dict(arguments or {})))

        return await self._asked(ctx, request, f"give the prompt {name!r}")

    async def _asked(self, ctx: Any, request: Callable[[McpSession], Awaitable[T]], what: str) -> T:
        """The result of a request that only reads."""
        headers = await headers_for(ctx, self.header_provider, self.auth, self.name)
        try:
            return await self._pool().use(headers, request, resend=always_resend)
        except McpConnectionError as error:
            raise McpConnectionError(
                f"toolset {self.name!r}: {error}", status=error.status, delivered=error.delivered
            ) from error
        except HookworkError:
            raise
        except Exception as error:
            raise BackendError(
                f"toolset {self.name!r}: {self.endpoint.place} could not {what}: {text_of(error)}",
                status=status_of(leaf(error)),
                retryable=was_lost(error),
            ) from error

    def _what(self, method: str) -> str:
        return f"toolset {self.name!r}: {method} of {self.endpoint.place}"

    # --- sessions -----------------------------------------------------------------------------------------------------

    def _pool(self) -> SessionPool:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            for other in [other for other in self._pools if other.is_closed()]:
                del self._pools[other]  # what was opened there ended with its loop
            pool = self._pools[loop] = SessionPool(self._open, self.max_sessions)
        return pool

    def _open(self, headers: dict[str, str], released: Callable[[], None]) -> McpSession:
        from hookwork_mcp.session import McpSession

        return McpSession(
            self.endpoint,
            headers,
            self._client,
            connect_timeout=self.connect_timeout,
            idle_after=self.idle_timeout,
            released=released,
        )

    def _client(self, server: Any, session: McpSession) -> Any:
        from hookwork_mcp.clients import client_options

        options = client_options(self, session)
        if self._client_factory is not None:
            return self._client_factory(server, options)
        from mcp import Client

        return Client(server, **options)

    async def close(self) -> None:
        """End all sessions and their processes; idempotent, from any task, never raises (MCP-10).

        A toolset that is used afterwards connects again.
        """
        pools, self._pools = self._pools, {}
        here = asyncio.get_running_loop()
        for loop, pool in pools.items():
            if loop is here:
                await pool.close(self.close_timeout)
            elif loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(pool.close(self.close_timeout), loop)
                await asyncio.wait({asyncio.wrap_future(closing)}, timeout=self.close_timeout + 2)


def _filter_of(value: Any, toolset: str) -> Any:
    """None, a set of names, or the predicate."""
    if isinstance(value, str):
        raise ConfigurationError(f"toolset {toolset!r}: tool_filter is a list of names or a predicate, not a text")
    return value if value is None or callable(value) else frozenset(value)
