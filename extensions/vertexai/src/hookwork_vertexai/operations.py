"""Long-running operations: wait until one is done (services VTX-7)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hookwork.errors import BackendError
from hookwork.platform import sleep
from hookwork_vertexai.api import Api, ApiError, refusal

#: Seconds: the first wait, its growth, the longest one, and all together.
FIRST_WAIT, GROWTH, LONGEST_WAIT, DEADLINE = 0.5, 1.5, 5.0, 60.0

_NAME = re.compile(r"(?:[A-Za-z0-9_:-]+(?:\.[A-Za-z0-9_:-]+)*/)+operations/[A-Za-z0-9_-]+", re.ASCII)
#: Codes of google.rpc.Code as the HTTP status that stands for each.
_HTTP = {3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 13: 500, 14: 503, 16: 401}


def failure(status: Any, what: str) -> ApiError:
    """The error of a google.rpc.Status ``{"code", "message"}``, with the HTTP status that stands for its code."""
    found = status if isinstance(status, Mapping) else {}
    code = found.get("code")
    return refusal(_HTTP.get(code if isinstance(code, int) else -1, 500), str(found.get("message") or what))


async def finished(api: Api, operation: Mapping[str, Any], *, deadline: float = DEADLINE) -> Mapping[str, Any]:
    """What an operation results in, once it is done; ``{}`` for nothing.

    Args:
        operation: as it was answered.
        deadline: seconds that are waited, the requests not counted.

    Raises:
        ApiError: it failed, with the HTTP status that stands for its code.
        BackendError: it is not done by the deadline, or cannot be asked for.
    """
    waited, wait = 0.0, FIRST_WAIT
    while not operation.get("done"):
        name = operation.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise BackendError("Vertex AI: the answer names no operation to wait for", code="malformed")
        if waited >= deadline:
            raise BackendError(
                f"Vertex AI: operation {name} is not done after {deadline:g} s; it may still succeed",
                code="deadline",
                retryable=True,
            )
        pause = min(wait, deadline - waited)
        await sleep(pause)
        waited, wait = waited + pause, min(wait * GROWTH, LONGEST_WAIT)
        operation = await api.get(name)
    if operation.get("error"):
        raise failure(operation["error"], "the operation failed")
    response = operation.get("response")
    return response if isinstance(response, Mapping) else {}
