"""A plugin that writes a row for every step of a run, to JSON Lines, Parquet files or BigQuery."""

from __future__ import annotations

from hookwork_analytics.bigquery import BigQuerySink
from hookwork_analytics.plugin import Analytics
from hookwork_analytics.sinks import JsonLinesSink, ParquetSink, Sink

__all__ = ["Analytics", "BigQuerySink", "JsonLinesSink", "ParquetSink", "Sink"]
