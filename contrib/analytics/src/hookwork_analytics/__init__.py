"""A plugin that writes a row for every step of a run, to JSON Lines or Parquet files."""

from __future__ import annotations
