"""The headers of one user's requests: from a header provider and a credential provider (MCP-02, MCP-12)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from hookwork.errors import ConfigurationError


class Headers(dict[str, str]):
    """Header names without regard to case; the newest spelling wins."""

    def __setitem__(self, name: str, value: str) -> None:
        for present in [key for key in self if key.lower() == name.lower()]:
            del self[present]
        super().__setitem__(name, value)


async def headers_for(
    ctx: Any, header_provider: Callable[[Any], Any] | None, auth: Any, toolset: str
) -> dict[str, str]:
    """What each request made for ``ctx`` carries; credentials come last, so they decide about Authorization.

    Raises:
        ConfigurationError: a provider gave something that is no header. The text names it, not its value.
    """
    headers = Headers()
    if header_provider is not None:
        given = header_provider(ctx)
        given = await given if inspect.isawaitable(given) else given
        if not isinstance(given, Mapping):
            raise ConfigurationError(
                f"toolset {toolset!r}: header_provider gives a mapping of header names to texts, not "
                f"{type(given).__name__}"
            )
        for name, value in given.items():
            headers[name] = value
    if auth is not None:
        ask = getattr(auth, "credential", auth)
        credential = ask(ctx)
        credential = await credential if inspect.isawaitable(credential) else credential
        if credential is None:
            raise ConfigurationError(
                f"toolset {toolset!r}: the credential provider gave no credential; nothing was sent"
            )
        applied = credential.apply(headers)
        if inspect.isawaitable(applied):
            await applied
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str) or any(c in value for c in "\r\n\0"):
            raise ConfigurationError(f"toolset {toolset!r}: the value of header {name!r} is not a text of one line")
    return dict(headers)
