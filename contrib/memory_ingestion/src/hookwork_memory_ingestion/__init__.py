"""A plugin that adds sessions to the memory service after runs."""

from __future__ import annotations

from hookwork_memory_ingestion.plugin import MemoryIngestion

__all__ = ["MemoryIngestion"]
