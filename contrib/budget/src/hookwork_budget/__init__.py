"""A plugin and a model that limit tokens, cost and calls.

The module is light because the extension's entry module lives below it: names are resolved on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_budget.model import BudgetedModel
    from hookwork_budget.plugin import Budget

__all__ = ["Budget", "BudgetedModel"]


def __getattr__(name: str) -> Any:
    if name == "Budget":
        from hookwork_budget.plugin import Budget

        return Budget
    if name == "BudgetedModel":
        from hookwork_budget.model import BudgetedModel

        return BudgetedModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
