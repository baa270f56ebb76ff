"""URLs of objects for others: signed ones and authenticated ones (services BEY-7).

Formats: Cloud Storage, "Signing URLs with your own program" (V4 signing process with RSA keys, path-style resources,
unsigned payload) and "Request endpoints" (authenticated browser downloads).
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hookwork.errors import ValidationError
from hookwork.platform import now

if TYPE_CHECKING:
    from hookwork_gcs.tokens import Tokens

HOST = "storage.googleapis.com"
BROWSER_HOST = "storage.cloud.google.com"
ALGORITHM = "GOOG4-RSA-SHA256"
#: Longest time, in seconds, for which a signed URL holds: 7 days.
LONGEST = 604_800
#: What stays as it is in the path of a canonical request; the unreserved characters do anyhow.
_PATH_PLAIN = "/~"


def checked_lifetime(seconds: Any) -> int:
    """Whole seconds, rounded up. Raises ValidationError unless they are from 1 up to 7 days."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST:
        raise ValidationError(
            f"expires_in must be a number of seconds above 0 and up to {LONGEST} (7 days), not {seconds!r}",
            path="expires_in",
        )
    return math.ceil(seconds)


def authenticated_url(bucket: str, name: str) -> str:
    """Where a browser gets an object after its user has signed in with an account that may read it."""
    return f"https://{BROWSER_HOST}/{_path(bucket, name)}"


async def signed_url(tokens: Tokens, bucket: str, name: str, seconds: int) -> str:
    """A URL with which everybody can read an object for so many seconds.

    Raises:
        UnsupportedOperationError: the credentials cannot sign.
        BackendError: there are no credentials, or IAM refuses to sign.
    """
    email, sign = await tokens.signer()
    moment = now()
    day, stamp = f"{moment:%Y%m%d}", f"{moment:%Y%m%dT%H%M%SZ}"
    scope = f"{day}/auto/storage/goog4_request"
    query = "&".join(
        f"{key}={quote(value, safe='')}"
        for key, value in (
            ("X-Goog-Algorithm", ALGORITHM),
            ("X-Goog-Credential", f"{email}/{scope}"),
            ("X-Goog-Date", stamp),
            ("X-Goog-Expires", str(seconds)),
            ("X-Goog-SignedHeaders", "host"),
        )
    )
    path = f"/{_path(bucket, name)}"
    request = f"GET\n{path}\n{query}\nhost:{HOST}\n\nhost\nUNSIGNED-PAYLOAD"
    to_sign = f"{ALGORITHM}\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    signature = await sign(to_sign.encode())
    return f"https://{HOST}{path}?{query}&X-Goog-Signature={signature.hex()}"


def _path(bucket: str, name: str) -> str:
    return f"{bucket}/{quote(name, safe=_PATH_PLAIN)}"
