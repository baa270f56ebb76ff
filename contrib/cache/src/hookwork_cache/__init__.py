"""A plugin that answers repeated model requests from memory."""

from __future__ import annotations
