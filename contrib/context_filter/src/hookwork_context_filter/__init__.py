"""A plugin that sends only the last turns of a conversation to the model."""

from __future__ import annotations
