"""A plugin that sends only the last turns of a conversation to the model."""

from __future__ import annotations

from hookwork_context_filter.plugin import ContextFilter
from hookwork_context_filter.turns import last_turns

__all__ = ["ContextFilter", "last_turns"]
