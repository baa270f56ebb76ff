"""A plugin that limits tokens, time, cost and calls of a run."""

from __future__ import annotations

from hookwork_budget.plugin import Budget

__all__ = ["Budget"]
