"""Agents and their tools offered as an MCP server."""

from __future__ import annotations
