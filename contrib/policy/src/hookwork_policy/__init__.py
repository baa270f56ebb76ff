"""A plugin that decides by rules which tool calls may run."""

from __future__ import annotations

from hookwork_policy.plugin import Policy
from hookwork_policy.rules import Rule

__all__ = ["Policy", "Rule"]
