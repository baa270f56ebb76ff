"""MCP for Hookwork."""

from __future__ import annotations
