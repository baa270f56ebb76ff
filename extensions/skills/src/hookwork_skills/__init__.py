"""Agent skills for Hookwork. The public names are resolved on first use."""

from __future__ import annotations
