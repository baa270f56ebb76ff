"""A plugin that puts one instruction in front of every agent's own."""

from __future__ import annotations

from hookwork_global_instruction.plugin import GlobalInstruction

__all__ = ["GlobalInstruction"]
