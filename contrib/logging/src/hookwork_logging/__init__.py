"""A plugin that writes one line for every hook of a run, to a logger and, if wanted, to a stream."""

from __future__ import annotations

from hookwork_logging.plugin import LoggingPlugin

__all__ = ["LoggingPlugin"]
