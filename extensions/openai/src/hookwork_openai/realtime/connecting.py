"""Opening a session, and closing it however it is left (models RT-1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hookwork.errors import ModelError
from hookwork.live import LiveConnection, LiveRunConfig
from hookwork.model import ModelRequest
from hookwork_modelkit.errors import model_error, transport_error
from hookwork_openai.call import Call
from hookwork_openai.config import transport
from hookwork_openai.errors import sdk_error
from hookwork_openai.realtime.session import session_settings

if TYPE_CHECKING:
    from hookwork_openai.sdk import Client


@asynccontextmanager
async def connected(
    make_call: Callable[[], Call],
    request: ModelRequest,
    live: LiveRunConfig,
    client_of: Callable[[Call], Client],
) -> AsyncIterator[LiveConnection]:
    """A session with these settings. The SDK's own reconnecting is off: who drives the connection decides.

    Raises:
        ModelError: on entering: a setting that the service lacks, or no connection.
    """
    call = make_call()
    session = session_settings(call, request, live)
    headers = transport(call, request.config).headers
    client = client_of(call)
    from hookwork_openai.realtime.connection import RealtimeConnection

    try:
        line = await client.sdk.realtime.connect(model=call.model, extra_headers=headers).enter()
    except Exception as error:
        failed = _failure(call, error)
        if failed is None:
            raise
        raise failed from error
    connection = RealtimeConnection(call, line, session)
    try:
        await connection.configure()
        yield connection
    finally:
        await connection.close()


def _failure(call: Call, error: Exception) -> ModelError | None:
    """A refused handshake has a status of its own; everything else is a matter of the network."""
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if isinstance(status, int):
        return model_error(call.provider, call.model, status=status, headers=dict(getattr(response, "headers", {})))
    return sdk_error(call, error, False) or transport_error(call.provider, call.model, error)
