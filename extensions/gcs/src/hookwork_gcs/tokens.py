"""Who we are to Google: access tokens, and signatures, of google-auth credentials."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hookwork.errors import BackendError, UnsupportedOperationError

SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
#: What IAM asks for before it signs in a service account's name.
IAM_SCOPE = "https://www.googleapis.com/auth/cloud-platform"

#: Signs bytes with the key of a service account.
Sign = Callable[[bytes], Awaitable[bytes]]


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

    async def signer(self) -> tuple[str, Sign]:
        """The service account that signs, and how: by its key, or by IAM (signBlob) where only IAM has the key.

        Raises:
            UnsupportedOperationError: the credentials are no service account's.
            BackendError: there are none. On signing: IAM refuses to.
        """
        async with self._lock:
            email, sign = await asyncio.to_thread(self._signer)

        def signed(data: bytes) -> bytes:
            with _failures("sign nothing"):
                return bytes(sign(data))

        return email, lambda data: asyncio.to_thread(signed, data)

    def _signer(self) -> tuple[str, Callable[[bytes], bytes]]:
        from google.auth.credentials import Signing
        from google.auth.iam import Signer
        from google.auth.transport.requests import Request

        self._find()
        credentials = self._credentials
        if isinstance(credentials, Signing):
            return str(credentials.signer_email), credentials.sign_bytes
        self._refresh()  # on a machine of Google's the account's name comes with the first token
        email = getattr(credentials, "service_account_email", None)
        if not email:
            raise UnsupportedOperationError(
                f"{type(credentials).__name__} credentials cannot sign URLs; use those of a service account, or "
                "impersonate one: 'gcloud auth application-default login --impersonate-service-account=…'"
            )
        if hasattr(credentials, "with_scopes"):
            credentials = credentials.with_scopes([IAM_SCOPE])
        return str(email), Signer(Request(), credentials, email).sign  # type: ignore[no-untyped-call]

    def _find(self) -> None:
        from google.auth import default

        if self._credentials is None:
            with _failures("give no token"):
                self._credentials, _ = default(scopes=[SCOPE])

    def _refresh(self) -> None:
        from google.auth.transport.requests import Request

        self._find()
        with _failures("give no token"):
            if not self._credentials.valid:
                self._credentials.refresh(Request())


@contextmanager
def _failures(what: str) -> Iterator[None]:
    """Errors of google-auth as our own; their texts may quote tokens."""
    from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError

    try:
        yield
    except DefaultCredentialsError as error:
        raise BackendError(
            "no Google credentials were found; run 'gcloud auth application-default login', set "
            "GOOGLE_APPLICATION_CREDENTIALS, or pass credentials=",
            code="credentials",
        ) from error
    except GoogleAuthError as error:
        raise BackendError(
            f"the Google credentials {what}: {type(error).__name__}; see that they are still valid",
            code="credentials",
            retryable=bool(getattr(error, "retryable", False)),
        ) from error


class NoTokens(Tokens):
    """Of an emulator, which asks for none."""

    async def headers(self) -> dict[str, str]:
        """Nothing."""
        return {}

    async def signer(self) -> tuple[str, Sign]:
        """None: an emulator has no accounts."""
        raise UnsupportedOperationError("an emulator of Cloud Storage signs no URLs; leave expires_in out")
