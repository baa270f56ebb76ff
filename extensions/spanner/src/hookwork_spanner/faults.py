"""What errors of Spanner and of its client mean (services GEN-6, GEN-7)."""

from __future__ import annotations

from typing import Any

from hookwork.errors import BackendError

#: gRPC status → (code, meaning, whether the same call may succeed later).
_MEANINGS = {
    "ABORTED": ("aborted", "another transaction came first", True),
    "ALREADY_EXISTS": ("duplicate", "the key is taken", False),
    "NOT_FOUND": ("no_database", "there is no such instance, database or table", False),
    "PERMISSION_DENIED": ("auth", "these credentials may not do this", False),
    "UNAUTHENTICATED": ("auth", "the credentials are not accepted", False),
    "UNAVAILABLE": ("connection", "Spanner cannot be reached", True),
    "DEADLINE_EXCEEDED": ("timeout", "the answer did not come in time", True),
    "RESOURCE_EXHAUSTED": ("exhausted", "a quota or limit is used up", True),
    "CANCELLED": ("cancelled", "the call was cancelled on its way", True),
    "INTERNAL": ("internal", "Spanner failed inside", True),
    "OUT_OF_RANGE": ("too_long", "a value is too long for its column", False),
    "FAILED_PRECONDITION": ("refused", "Spanner refused", False),
    "INVALID_ARGUMENT": ("invalid", "Spanner does not take the statement", False),
}
#: What Spanner says, under FAILED_PRECONDITION and with the column's name, of a value that does not fit (DB-25).
_TOO_LONG = "exceeds the maximum size limit for this column"


def backend_error(error: Exception, where: str) -> BackendError | None:
    """The error a caller gets for a client's; None when it is none of the client's."""
    module = type(error).__module__
    if module.startswith("google.auth"):
        return BackendError(
            f"{where}: no usable credentials ({error}); run `gcloud auth application-default login`, or let "
            "GOOGLE_APPLICATION_CREDENTIALS name a key file",
            code="auth",
        )
    if not module.startswith("google."):
        return None
    status = status_of(error)
    if _TOO_LONG in str(error):
        return BackendError(f"{where}: a value is too long for its column ({error})", code="too_long")
    code, meaning, retryable = _MEANINGS.get(status, (status.lower() or "unknown", "Spanner refused", False))
    return BackendError(f"{where}: {meaning} ({error})", code=code, status=_http(error), retryable=retryable)


def status_of(error: Any) -> str:
    """The name of an error's gRPC status, ``""`` when it has none."""
    status = getattr(error, "grpc_status_code", None)
    return str(getattr(status, "name", ""))


def _http(error: Any) -> int | None:
    code = getattr(error, "code", None)
    return int(code) if isinstance(code, int) else None
