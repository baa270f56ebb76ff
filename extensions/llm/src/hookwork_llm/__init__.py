"""LLM agents for Hookwork. The public names are resolved on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_llm.agent import LlmAgent
    from hookwork_llm.code_execution import CodeExecutor, LocalSubprocessExecutor
    from hookwork_llm.compaction import EventsCompaction, LlmSummarizer, Summarizer
    from hookwork_llm.functions import FunctionTool, StreamingTool, as_tool, tool
    from hookwork_llm.instructions import inject_session_state
    from hookwork_llm.planning import Planner, PlanReActPlanner
    from hookwork_llm.request_stages import RequestStage

_HOMES = {
    "agent": ("LlmAgent",),
    "code_execution": ("CodeExecutor", "LocalSubprocessExecutor"),
    "compaction": ("EventsCompaction", "LlmSummarizer", "Summarizer"),
    "functions": ("FunctionTool", "StreamingTool", "as_tool", "tool"),
    "instructions": ("inject_session_state",),
    "planning": ("PlanReActPlanner", "Planner"),
    "request_stages": ("RequestStage",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CodeExecutor",
    "EventsCompaction",
    "FunctionTool",
    "LlmAgent",
    "LlmSummarizer",
    "LocalSubprocessExecutor",
    "PlanReActPlanner",
    "Planner",
    "RequestStage",
    "StreamingTool",
    "Summarizer",
    "as_tool",
    "inject_session_state",
    "tool",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'hookwork_llm' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"hookwork_llm.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
