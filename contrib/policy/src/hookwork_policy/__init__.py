"""A plugin that decides by rules which tool calls may run."""

from __future__ import annotations
