"""Provider hooks of hookwork-budget: models of the name ``budgeted:NAME``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.plugins.markers import hookimpl

if TYPE_CHECKING:
    from hookwork.model import Model

_PREFIX = "budgeted:"


@hookimpl
def create_model(name: str, settings: dict[str, Any]) -> Model | None:
    """``budgeted:NAME``: a model that spends no more than it may. Its options: ``[tool.hookwork.budgeted]``.

    Raises:
        hookwork.errors.ConfigurationError: an unknown option or a wrong value, or nobody takes the name.
    """
    if not name.startswith(_PREFIX):
        return None
    from hookwork_budget.model import BudgetedModel

    return BudgetedModel.named(name.removeprefix(_PREFIX).strip(), settings)
