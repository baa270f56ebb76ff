"""A plugin that limits tokens, time, cost and calls of a run."""

from __future__ import annotations
