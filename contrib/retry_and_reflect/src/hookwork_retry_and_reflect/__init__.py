"""A plugin that tells a model how to recover from a failed tool call."""

from __future__ import annotations
