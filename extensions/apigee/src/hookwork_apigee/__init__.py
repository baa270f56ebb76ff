"""Models behind an Apigee proxy. Names are resolved on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_apigee.model import ApigeeModel

__all__ = ["ApigeeModel"]


def __getattr__(name: str) -> Any:
    if name != "ApigeeModel":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hookwork_apigee.model import ApigeeModel

    return ApigeeModel
