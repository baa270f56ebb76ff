"""Who we are to Google: the headers that a request carries (crosscutting AUTH-22)."""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

from hookwork.errors import BackendError, ValidationError

SCOPE = "https://www.googleapis.com/auth/cloud-platform"

#: Gives an access token, at once or awaited.
TokenSource = Callable[[], "str | Awaitable[str]"]


class Identity(ABC):
    """Makes the headers of a request."""

    @abstractmethod
    async def headers(self) -> dict[str, str]:
        """Names and values. Raises BackendError when there is no valid credential."""


class GoogleCredentials(Identity):
    """Credentials of google-auth.

    Args:
        credentials: None: those of the environment (Application Default Credentials), looked up at the first request.
    """

    def __init__(self, credentials: Any = None) -> None:
        self._credentials = credentials
        self._lock = asyncio.Lock()

    async def headers(self) -> dict[str, str]:
        """``Authorization``, and who pays where the credentials say so."""
        if self._credentials is None or not self._credentials.valid:
            async with self._lock:  # one refresh for all that wait
                if self._credentials is None or not self._credentials.valid:
                    await asyncio.to_thread(self._refresh)
        found = {"authorization": f"Bearer {self._credentials.token}"}
        project = getattr(self._credentials, "quota_project_id", None)
        return {**found, "x-goog-user-project": project} if project else found

    def _refresh(self) -> None:
        from google.auth import default
        from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
        from google.auth.transport.requests import Request

        try:
            if self._credentials is None:
                self._credentials, _ = default(scopes=[SCOPE])
            if not self._credentials.valid:
                self._credentials.refresh(Request())
        except DefaultCredentialsError as error:
            raise BackendError(
                "no Google credentials were found; run 'gcloud auth application-default login', set "
                "GOOGLE_APPLICATION_CREDENTIALS, or pass credentials=",
                code="credentials",
            ) from error
        except GoogleAuthError as error:
            raise BackendError(
                f"the Google credentials give no token: {type(error).__name__}; see that they are still valid",
                code="credentials",
                retryable=bool(getattr(error, "retryable", False)),
            ) from error


class OwnTokens(Identity):
    """Access tokens of a function, asked before every request; it may cache."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source

    async def headers(self) -> dict[str, str]:
        """``Authorization``."""
        token = self._source()
        if inspect.isawaitable(token):
            token = await token
        if not isinstance(token, str) or not token:
            raise BackendError("token_source gave no token; it must return non-empty text", code="credentials")
        return {"authorization": f"Bearer {token}"}


class ApiKey(Identity):
    """The key of an express-mode account."""

    def __init__(self, key: str) -> None:
        self._key = key

    async def headers(self) -> dict[str, str]:
        """``x-goog-api-key``; a header, since URLs end up in logs."""
        return {"x-goog-api-key": self._key}


def identity_of(credentials: Any, token_source: TokenSource | None, api_key: str | None) -> Identity:
    """The one that is given; none: Application Default Credentials.

    Raises:
        ValidationError: more than one is given.
    """
    if sum(given is not None for given in (credentials, token_source, api_key)) > 1:
        raise ValidationError("give only one of credentials, token_source and api_key")
    if api_key is not None:
        if not isinstance(api_key, str) or not api_key.strip():
            raise ValidationError("api_key must be non-empty text", path="api_key")
        return ApiKey(api_key.strip())
    return GoogleCredentials(credentials) if token_source is None else OwnTokens(token_source)
