"""A plugin that writes a row for every step of a run, to JSON Lines or Parquet files."""

from __future__ import annotations

from hookwork_analytics.plugin import Analytics
from hookwork_analytics.sinks import JsonLinesSink, ParquetSink, Sink

__all__ = ["Analytics", "JsonLinesSink", "ParquetSink", "Sink"]
