"""What can go wrong between a toolset and its server, told without secrets (tools-plugins MCP-04, MCP-06, MCP-13)."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from hookwork.errors import BackendError, ToolError

#: JSON-RPC codes as MCP SDKs use them for a closed connection and a request that was refused as such.
CONNECTION_CLOSED = -32000
INVALID_REQUEST = -32600
REQUEST_TIMEOUT = -32001
URL_ELICITATION_REQUIRED = -32042

#: Key of an error's data: the HTTP status a server answered with.
HTTP_STATUS = "httpStatus"
#: Key of an error's data: the request never left this machine, so it may be sent again.
NOT_SENT = "notSent"


class McpConnectionError(BackendError):
    """A server could not be reached, or the connection to it was lost. ``retryable`` is True."""

    def __init__(self, message: str, *, status: int | None = None, delivered: bool = True) -> None:
        super().__init__(message, status=status, retryable=True)
        #: whether the server may have seen the request.
        self.delivered = delivered


def public_url(url: str) -> str:
    """A URL without user, password, query and fragment: what may stand in texts and logs."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def leaf(error: BaseException) -> BaseException:
    """The first error within nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def status_of(error: BaseException) -> int | None:
    """The HTTP status behind an error, if there was one."""
    data = getattr(error, "data", None)
    status = data.get(HTTP_STATUS) if isinstance(data, dict) else getattr(error, "status", None)
    return status if isinstance(status, int) else None


def text_of(error: BaseException) -> str:
    """An error in one line. Protocol errors speak for themselves, others are named by their type."""
    from mcp import MCPError

    error = leaf(error)
    if isinstance(error, MCPError):
        return f"{error.message}{_pages(error)}" or f"error {error.code}"
    if isinstance(error, McpConnectionError):
        return str(error)
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _pages(error: BaseException) -> str:
    """The pages a user has to visit first, when the server asked for that."""
    if getattr(error, "code", None) != URL_ELICITATION_REQUIRED:
        return ""
    data = getattr(error, "data", None)
    asked = data.get("elicitations", ()) if isinstance(data, dict) else ()
    urls = [str(item["url"]) for item in asked if isinstance(item, dict) and item.get("url")]
    return f"; the user has to visit: {', '.join(urls)}" if urls else ""


def was_lost(error: BaseException) -> bool:
    """Whether the connection or the session is gone, or seems so: worth a new connection (MCP-06)."""
    import anyio
    from mcp import MCPError

    error = leaf(error)
    if isinstance(error, MCPError):
        return error.code == CONNECTION_CLOSED or (error.code == INVALID_REQUEST and "terminated" in error.message)
    closed = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, BrokenPipeError, EOFError)
    return isinstance(error, (McpConnectionError, *closed))


def was_delivered(error: BaseException) -> bool:
    """Whether the server may have acted on a request that failed with a lost connection (MCP-07).

    It surely did not when the connection could not be made, or when it refused the session as unknown.
    """
    error = leaf(error)
    if isinstance(error, McpConnectionError):
        return error.delivered
    if getattr(error, "code", None) == INVALID_REQUEST:
        return False
    data = getattr(error, "data", None)
    return not (isinstance(data, dict) and data.get(NOT_SENT))


class McpToolError(ToolError):
    """A call came to no result: transport, protocol or timeout. ``status``: the HTTP status, if there was one."""

    def __init__(self, message: str, *, status: int | None = None, retryable: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.retryable = retryable
