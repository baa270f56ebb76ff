"""Requests to the REST API: headers, retries, errors (services VTX-13, VTX-14)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hookwork.errors import BackendError, HookworkError, ValidationError
from hookwork.platform import now, random, sleep
from hookwork.telemetry import count_retry
from hookwork_vertexai.identity import Identity
from hookwork_vertexai.names import VERSION

if TYPE_CHECKING:
    import httpx

#: Seconds to wait for a connection.
CONNECT_TIMEOUT = 10.0
#: Longest ``Retry-After`` that is waited for, in seconds; the caller decides about a longer one.
LONGEST_WAIT = 60.0

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class ApiError(BackendError):
    """A request failed.

    Attributes:
        unclear: the service may have carried it out all the same.
        retry_after: seconds the service asked to wait, None when it said nothing.
    """

    def __init__(
        self, message: str, *, unclear: bool = False, retry_after: float | None = None, **attributes: Any
    ) -> None:
        super().__init__(message, **attributes)
        self.unclear = unclear
        self.retry_after = retry_after


class Retries(NamedTuple):
    """Which failures are tried again, how often, and the first wait in seconds (it doubles; the service's wish wins).

    ``jitter``: wait a random share of that. ``broken``: also requests whose connection broke, which only reads may.
    """

    statuses: frozenset[int]
    attempts: int
    wait: float
    jitter: bool = True
    broken: bool = False


#: Reading changes nothing, so it may be asked again.
READS = Retries(frozenset({429, 503}), 3, 0.5, broken=True)
#: Nothing is tried again.
NEVER = Retries(frozenset(), 0, 0.0)
#: A request that the quota turned away was not carried out.
WRITES = Retries(frozenset({429}), 1, 1.0, jitter=False)


class Api:
    """The API at one address.

    Args:
        base_url: scheme and host; the version and the resource are put behind.
        timeout: seconds to wait for an answer.
        client: used and not closed; None: one of our own, made at the first request.
    """

    def __init__(
        self, base_url: str, identity: Identity, *, timeout: float, client: httpx.AsyncClient | None = None
    ) -> None:
        if not timeout > 0:
            raise ValidationError(f"timeout must be a positive number of seconds, not {timeout!r}", path="timeout")
        self.base_url = base_url
        self._identity = identity
        self._timeout = timeout
        self._client = client
        self._owned = client is None
        self._closed = False

    async def close(self) -> None:
        """Close our own connections; later requests raise."""
        self._closed = True
        if self._owned and self._client is not None:
            await self._client.aclose()

    def check_open(self) -> None:
        """Raise BackendError after `close`."""
        if self._closed:
            raise BackendError("the Vertex AI service is closed; make a new one", code="closed")

    async def get(self, name: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Read a resource or a list."""
        return await self.request("GET", name, params=params, retries=READS)

    async def request(
        self,
        method: str,
        name: str,
        *,
        body: Any = None,
        params: Mapping[str, Any] | None = None,
        retries: Retries = WRITES,
    ) -> dict[str, Any]:
        """The JSON object that the service answers.

        Args:
            name: of the resource, with the custom method behind it where there is one.
            body: what JSON can hold; None sends none.

        Raises:
            ApiError: the request failed or its answer is no JSON object.
            ValidationError: JSON cannot hold the body.
        """
        headers = {} if body is None else {"content-type": "application/json"}
        try:
            content = None if body is None else _encode(body)
        except (UnicodeEncodeError, TypeError) as error:
            raise ValidationError("the request holds what JSON cannot hold: a lone surrogate, or an object") from error
        url = f"{self.base_url}/{VERSION}/{name}"
        return await self.send(method, url, retries=retries, headers=headers, content=content, params=params)

    async def send(self, method: str, url: str, *, retries: Retries, **more: Any) -> dict[str, Any]:
        """As `request`, for any URL and httpx's own arguments."""
        left, wait = retries.attempts, retries.wait
        while True:
            try:
                return await self._send(method, url, **more)
            except ApiError as error:
                again = error.status in retries.statuses or (error.status is None and retries.broken and error.unclear)
                asked = error.retry_after
                if not left or not again or (asked is not None and asked > LONGEST_WAIT):
                    raise
                delay = wait * random() if retries.jitter else wait
            left, wait = left - 1, wait * 2
            count_retry()
            await sleep(delay if asked is None else asked)

    async def _send(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> dict[str, Any]:
        self.check_open()
        sent = {**await self._identity.headers(), **(headers or {})}
        with _failures():
            response = await self._http().request(method, url, headers=sent, follow_redirects=False, **more)
        if not response.is_success:
            raise _refusal(response)
        try:
            found = _decode(response.content or b"{}")
        except msgspec.DecodeError as error:
            raise _malformed("is not JSON") from error
        if not isinstance(found, dict):
            raise _malformed("is no JSON object")
        return found

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            import httpx

            self._client = httpx.AsyncClient(timeout=httpx.Timeout(self._timeout, connect=CONNECT_TIMEOUT))
        return self._client


@contextmanager
def _failures() -> Iterator[None]:
    """Turn errors of the transport into our own."""
    import httpx

    try:
        yield
    except httpx.TransportError as error:
        late = isinstance(error, httpx.TimeoutException)
        # Nothing was sent when no connection was made.
        unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        raise ApiError(
            f"Vertex AI: {'no answer in time' if late else 'the connection failed'} ({type(error).__name__})",
            code="timeout" if late else "connection",
            retryable=True,
            unclear=not unsent,
        ) from error


def _malformed(what: str) -> ApiError:
    return ApiError(f"Vertex AI: the answer {what}; try again", code="malformed", retryable=True, unclear=True)


def _refusal(response: httpx.Response) -> ApiError:
    """The error of an answer that is none: ``{"error": {"code", "message", "status", "details"}}``."""
    status = response.status_code
    try:
        error = _decode(response.content)["error"]
        message, code = str(error.get("message") or ""), str(error.get("status") or "")
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        message, code = "", ""  # a proxy's page, say
    return refusal(status, message or response.reason_phrase, code, retry_after=_retry_after(response))


def refusal(status: int, message: str, code: str = "", *, retry_after: float | None = None) -> ApiError:
    """The error of an HTTP status (VTX-14)."""
    text = " ".join(message.split())[:300]
    retryable = status in (408, 429) or status >= 500
    return ApiError(
        f"Vertex AI: {text} (HTTP {status}); {_remedy(status)}",
        code=code or str(status),
        status=status,
        retryable=retryable,
        unclear=status >= 500 or status == 408,
        retry_after=retry_after,
    )


def _remedy(status: int) -> str:
    if status in (401, 403):
        return "the credentials need the role Vertex AI User in the project"
    if status == 429:
        return "the quota is used up: wait, or ask for more"
    if status == 404:
        return "see that the engine, corpus or resource exists"
    return "try again" if status == 408 or status >= 500 else "see the message"


def _retry_after(response: httpx.Response) -> float | None:
    """``Retry-After`` in seconds: a number, or an HTTP date."""
    text = response.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
        return max(0.0, (moment - now()).total_seconds())
    except (ValueError, TypeError):  # TypeError: a date without zone
        return None


def typed(error: ApiError, *, missing: HookworkError | None = None) -> HookworkError:
    """What a caller is told: ``missing`` for 404, ValidationError for 400, else the error itself (VTX-14)."""
    if error.status == 404 and missing is not None:
        return missing
    if error.status == 400:
        return ValidationError(str(error))
    return error
