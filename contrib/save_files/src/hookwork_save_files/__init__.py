"""A plugin that keeps the files of a user's message as artifacts."""

from __future__ import annotations

from hookwork_save_files.plugin import SaveFiles

__all__ = ["SaveFiles"]
