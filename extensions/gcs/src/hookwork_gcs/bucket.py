"""One bucket through the JSON API (services GCS-8): list, insert, get, media, delete."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from hookwork.errors import BackendError
from hookwork.platform import new_uuid
from hookwork_gcs.contents import Stored
from hookwork_gcs.payloads import Payload
from hookwork_gcs.tokens import Tokens

if TYPE_CHECKING:
    import httpx

#: Seconds to wait for a connection.
CONNECT_TIMEOUT = 10.0


class ObjectError(BackendError):
    """A request failed. ``unclear``: the service may have carried it out all the same."""

    def __init__(self, message: str, *, unclear: bool = False, **attributes: Any) -> None:
        super().__init__(message, **attributes)
        self.unclear = unclear


class Bucket:
    """The objects of a bucket.

    Args:
        name: of the bucket.
        endpoint: scheme, host and port of the service.
        timeout: seconds to wait for an answer, or for the next bytes of one.
        client: used and not closed; None: one of our own, made at the first request.
    """

    def __init__(
        self, name: str, *, endpoint: str, tokens: Tokens, timeout: float, client: httpx.AsyncClient | None = None
    ) -> None:
        self.name = name
        self._endpoint = endpoint
        self._tokens = tokens
        self._timeout = timeout
        self._client = client
        self._owned = client is None

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            import httpx

            self._client = httpx.AsyncClient(timeout=httpx.Timeout(self._timeout, connect=CONNECT_TIMEOUT))
        return self._client

    async def close(self) -> None:
        """Close our own connections."""
        if self._owned and self._client is not None:
            await self._client.aclose()

    def _url(self, name: str | None = None, *, upload: bool = False) -> str:
        path = f"{'/upload' if upload else ''}/storage/v1/b/{quote(self.name, safe='')}/o"
        return self._endpoint + path + ("" if name is None else f"/{quote(name, safe='')}")

    def media_url(self, name: str) -> str:
        """Where this service gives the bytes of an object to those that it lets in."""
        return f"{self._url(name)}?alt=media"

    async def list(self, prefix: str, *, below: bool) -> list[Stored]:
        """The objects whose names begin with ``prefix``; those with a further ``/`` only when ``below``."""
        wanted = "items(name,metadata,size,md5Hash,contentType,timeCreated),nextPageToken"
        params = {"prefix": prefix, "fields": wanted, **({} if below else {"delimiter": "/"})}
        found: list[Stored] = []
        while True:
            page = (await self._request("GET", self._url(), params=params)).json()
            found += [Stored(resource) for resource in page.get("items") or ()]
            token = page.get("nextPageToken")
            if not token:
                return found
            params["pageToken"] = token

    async def insert(self, name: str, payload: Payload, content_type: str, metadata: dict[str, str]) -> None:
        """Write an object that does not exist. Raises ObjectError, with the status 412 when it does."""
        boundary = new_uuid()
        described = json.dumps({"name": name, "contentType": content_type, "metadata": metadata}).encode()
        head = (
            f"--{boundary}\r\ncontent-type: application/json; charset=UTF-8\r\n\r\n".encode()
            + described
            + f"\r\n--{boundary}\r\ncontent-type: {content_type}\r\n\r\n".encode()
        )
        tail = f"\r\n--{boundary}--\r\n".encode()

        await self._request(
            "POST",
            self._url(upload=True),
            params={"uploadType": "multipart", "ifGenerationMatch": "0"},
            headers={
                "content-type": f"multipart/related; boundary={boundary}",
                "content-length": str(len(head) + payload.size + len(tail)),
            },
            content=_Body(head, payload, tail),
        )

    async def get(self, name: str) -> Stored:
        """What is known of an object."""
        return Stored((await self._request("GET", self._url(name))).json())

    async def delete(self, name: str) -> None:
        """Remove an object; an absent one is no error."""
        try:
            await self._request("DELETE", self._url(name))
        except ObjectError as error:
            if error.status != 404:
                raise

    async def media(self, stored: Stored) -> AsyncGenerator[bytes, None]:
        """The bytes of an object as it was when it was described."""
        params = {"alt": "media", **({"generation": stored.generation} if stored.generation else {})}
        with self._failures():
            request = self._http().build_request(
                "GET", self._url(stored.name), params=params, headers=await self._tokens.headers()
            )
            response = await self._http().send(request, stream=True)
            try:
                if response.is_error:
                    await response.aread()
                    raise self._refusal(response)
                chunks = cast("AsyncGenerator[bytes, None]", response.aiter_bytes())
                async with aclosing(chunks):
                    async for chunk in chunks:
                        yield chunk
            finally:
                await response.aclose()

    async def _request(self, method: str, url: str, **more: Any) -> httpx.Response:
        headers = {**await self._tokens.headers(), **more.pop("headers", {})}
        with self._failures():
            response = await self._http().request(method, url, headers=headers, **more)
        if response.is_error:
            raise self._refusal(response)
        return response

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn errors of the transport into our own."""
        import httpx

        try:
            yield
        except httpx.TransportError as error:
            late = isinstance(error, httpx.TimeoutException)
            # Nothing was sent when no connection was made.
            unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
            raise ObjectError(
                f"bucket {self.name!r}: {'no answer in time' if late else 'the connection failed'} "
                f"({type(error).__name__}); try again",
                code="timeout" if late else "connection",
                retryable=True,
                unclear=not unsent,
            ) from error

    def _refusal(self, response: httpx.Response) -> ObjectError:
        status = response.status_code
        try:
            error = response.json()["error"]
            message, reason = error.get("message") or "", (error.get("errors") or [{}])[0].get("reason") or ""
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            message, reason = response.text[:200].strip(), ""  # a proxy's page, not the service's answer
        return ObjectError(
            f"bucket {self.name!r}: {message or response.reason_phrase} (HTTP {status}); {_remedy(status)}",
            code=reason or str(status),
            status=status,
            retryable=status in (408, 429) or status >= 500,
            unclear=status >= 500,
        )


class _Body(AsyncIterator[bytes]):
    """The body of an upload. No generator: the client lets go of one that it could not send to its end."""

    def __init__(self, head: bytes, payload: Payload, tail: bytes) -> None:
        self._ends: list[bytes] = [tail, head]
        self._payload = payload
        self._sent = 0

    async def __anext__(self) -> bytes:
        if len(self._ends) > 1:
            return self._ends.pop()
        chunk = await self._payload.read(self._sent)
        if chunk:
            self._sent += len(chunk)
            return chunk
        if not self._ends:
            raise StopAsyncIteration
        return self._ends.pop()


def _remedy(status: int) -> str:
    if status in (401, 403):
        return "the credentials need the role Storage Object User on it"
    if status == 404:
        return "see that the bucket exists"
    return "try again" if status in (408, 429) or status >= 500 else "see the message"
