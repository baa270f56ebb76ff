"""A plugin that adds arguments to the functions a model sees and takes them out of its calls."""

from __future__ import annotations
