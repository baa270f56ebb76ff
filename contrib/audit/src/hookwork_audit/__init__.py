"""A plugin that keeps a tamper-evident record of what runs did.

The module is light because the extension's entry module lives below it: names are resolved on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_audit.chain import Verdict, verify
    from hookwork_audit.plugin import Audit

__all__ = ["Audit", "Verdict", "verify"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "Audit":
        from hookwork_audit.plugin import Audit

        return Audit
    from hookwork_audit import chain

    return getattr(chain, name)
