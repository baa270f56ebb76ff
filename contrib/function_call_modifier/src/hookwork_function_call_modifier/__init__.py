"""A plugin that adds arguments to the functions a model sees and takes them out of its calls."""

from __future__ import annotations

from hookwork_function_call_modifier.plugin import FunctionCallModifier

__all__ = ["FunctionCallModifier"]
