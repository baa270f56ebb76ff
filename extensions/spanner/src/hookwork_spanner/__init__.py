"""Sessions on Google Cloud Spanner for Hookwork."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_spanner.opening import engine_service, session_service

__all__ = ["engine_service", "session_service"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hookwork_spanner import opening

    value = globals()[name] = getattr(opening, name)
    return value
