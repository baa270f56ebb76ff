"""A plugin that adds sessions to the memory service after runs."""

from __future__ import annotations
