"""The HTTP client under a session: fixed headers, and failures told as protocol errors (MCP-02, MCP-13).

The SDK drops the HTTP status of a refused request, and a broken connection under one request ends every other one of
the session. So both are turned into the JSON-RPC error of that request here, below the SDK.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import httpx2

from hookwork_mcp.errors import CONNECTION_CLOSED, HTTP_STATUS, NOT_SENT

_INTERNAL_ERROR = -32603
_NOT_FOUND = -32601
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
#: Seconds; those of the SDK: general operations, and silence on a stream.
TIMEOUT, READ_TIMEOUT = 30.0, 300.0


def reason(status: int) -> str:
    """``HTTP 403 Forbidden``."""
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def _request_id(request: httpx2.Request) -> Any:
    """The id of the JSON-RPC request that is posted; None for notifications, answers and other methods."""
    if request.method != "POST":
        return None
    try:
        message = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):
        return None
    return message.get("id") if isinstance(message, dict) and "method" in message else None


def _is_rpc_error(body: bytes) -> bool:
    try:
        message = json.loads(body)
    except ValueError:
        return False
    return isinstance(message, dict) and isinstance(message.get("error"), dict)


class Relay(httpx2.AsyncBaseTransport):
    """Sends by another transport, or by a caller's client, which stays as it is."""

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport | httpx2.AsyncClient,
        *,
        own_authorization: bool = False,
        answers_here: bool = True,
        failed: Callable[[str], None] | None = None,
    ) -> None:
        """``answers_here``: answers come in the response itself; otherwise (SSE) ``failed`` is told of failures."""
        self._inner = inner
        self._options: dict[str, Any] = {"auth": None} if own_authorization else {}
        self._answers_here = answers_here
        self._failed = failed

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        ident = _request_id(request)
        try:
            response = await self._send(request)
        except httpx2.TransportError as error:
            return self._broken(request, ident, error)
        if ident is None:
            return response
        if not self._answers_here:
            return await self._accepted(response)
        content_type = response.headers.get("content-type", "").lower()
        if response.status_code < 400 and not content_type.startswith("application/json"):
            return response
        try:
            body = await response.aread()
        except httpx2.TransportError as error:
            return self._broken(request, ident, error)
        if response.status_code < 400 or _is_rpc_error(body):
            return response
        if response.status_code == 404 and "mcp-session-id" in request.headers:
            return response  # the server does not know the session any more; the SDK has a word for that
        code = _NOT_FOUND if response.status_code == 404 else _INTERNAL_ERROR
        data = {HTTP_STATUS: response.status_code}
        return _error(request, ident, code, reason(response.status_code), data, response.status_code)

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        if isinstance(self._inner, httpx2.AsyncClient):
            return await self._inner.send(request, stream=True, follow_redirects=False, **self._options)
        return await self._inner.handle_async_request(request)

    def _broken(self, request: httpx2.Request, ident: Any, error: httpx2.TransportError) -> httpx2.Response:
        text = f"{type(error).__name__}: {error}".rstrip(": ")
        if ident is None and request.method != "POST":
            raise error
        if ident is None or not self._answers_here:
            if self._failed is not None and not self._answers_here:
                self._failed(text)
            return httpx2.Response(202, request=request)
        data = {NOT_SENT: True} if isinstance(error, _UNSENT) else {}
        return _error(request, ident, CONNECTION_CLOSED, text, data, 502)

    async def _accepted(self, response: httpx2.Response) -> httpx2.Response:
        if response.status_code < 400:
            return response
        await response.aread()
        if self._failed is not None:
            self._failed(reason(response.status_code))
        return httpx2.Response(202, request=response.request)

    async def aclose(self) -> None:
        if not isinstance(self._inner, httpx2.AsyncClient):
            await self._inner.aclose()


def _error(
    request: httpx2.Request, ident: Any, code: int, message: str, data: Mapping[str, Any], status: int
) -> httpx2.Response:
    error = {"code": code, "message": message, "data": dict(data)}
    return httpx2.Response(status, json={"jsonrpc": "2.0", "id": ident, "error": error}, request=request)


def client_for(
    headers: Mapping[str, str],
    *,
    callers: httpx2.AsyncClient | None = None,
    timeout: float = TIMEOUT,
    read_timeout: float = READ_TIMEOUT,
    answers_here: bool = True,
    failed: Callable[[str], None] | None = None,
) -> httpx2.AsyncClient:
    """A client that sends ``headers`` with every request; redirects are the transport's affair.

    ``callers``: the caller's own client. Its headers, cookies, parameters and timeouts are copied and it does the
    sending; it is neither changed nor closed. Its own auth is left out when ``headers`` bring an Authorization.
    """
    own = httpx2.Headers(dict(headers))
    options: dict[str, Any] = {"answers_here": answers_here, "failed": failed}
    if callers is None:
        return httpx2.AsyncClient(
            headers=own,
            timeout=httpx2.Timeout(timeout, read=read_timeout),
            transport=Relay(httpx2.AsyncHTTPTransport(), **options),
        )
    merged = httpx2.Headers(callers.headers)
    merged.update(own)
    return httpx2.AsyncClient(
        headers=merged,
        params=callers.params,
        cookies=callers.cookies,
        timeout=callers.timeout,
        transport=Relay(callers, own_authorization="authorization" in own, **options),
    )
