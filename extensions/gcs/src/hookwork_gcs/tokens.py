"""Who we are to Google: access tokens of google-auth credentials."""

from __future__ import annotations

import asyncio
from typing import Any

from hookwork.errors import BackendError

SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"


class Tokens:
    """Headers of a request.

    Args:
        credentials: of google-auth; None: those of the environment (Application Default Credentials), looked up at the
            first request.
    """

    def __init__(self, credentials: Any = None) -> None:
        self._credentials = credentials
        self._lock = asyncio.Lock()

    async def headers(self) -> dict[str, str]:
        """``Authorization`` and what goes with it. Raises BackendError when there are no valid credentials."""
        if self._credentials is None or not self._credentials.valid:
            async with self._lock:  # one refresh for all that wait
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


class NoTokens(Tokens):
    """Of an emulator, which asks for none."""

    async def headers(self) -> dict[str, str]:
        """Nothing."""
        return {}
