"""Provider hooks of hookwork-mcp."""

from __future__ import annotations
