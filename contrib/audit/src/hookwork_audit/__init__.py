"""A plugin that keeps a tamper-evident record of what runs did."""

from __future__ import annotations
