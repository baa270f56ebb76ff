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
    from hookwork_llm.model_wrappers.fallback import FallbackModel
    from hookwork_llm.model_wrappers.redacting import RedactedModel
    from hookwork_llm.model_wrappers.router import RouterModel
    from hookwork_llm.planning import Planner, PlanReActPlanner
    from hookwork_llm.request_stages import RequestStage
    from hookwork_llm.tools.agent_tool import AgentTool
    from hookwork_llm.tools.artifacts import LoadArtifactsTool
    from hookwork_llm.tools.examples import Example, ExampleTool
    from hookwork_llm.tools.exit_loop import ExitLoopTool
    from hookwork_llm.tools.memory import LoadMemoryTool, PreloadMemoryTool
    from hookwork_llm.tools.model_tools import GoogleSearchTool, ModelTool
    from hookwork_llm.tools.request_input import RequestInputTool
    from hookwork_llm.tools.toolsets import allowed_tools, filter_toolset, prefix_toolset, with_confirmation

_HOMES = {
    "agent": ("LlmAgent",),
    "code_execution": ("CodeExecutor", "LocalSubprocessExecutor"),
    "compaction": ("EventsCompaction", "LlmSummarizer", "Summarizer"),
    "functions": ("FunctionTool", "StreamingTool", "as_tool", "tool"),
    "instructions": ("inject_session_state",),
    "model_wrappers.fallback": ("FallbackModel",),
    "model_wrappers.redacting": ("RedactedModel",),
    "model_wrappers.router": ("RouterModel",),
    "planning": ("PlanReActPlanner", "Planner"),
    "request_stages": ("RequestStage",),
    "tools.agent_tool": ("AgentTool",),
    "tools.artifacts": ("LoadArtifactsTool",),
    "tools.examples": ("Example", "ExampleTool"),
    "tools.exit_loop": ("ExitLoopTool",),
    "tools.memory": ("LoadMemoryTool", "PreloadMemoryTool"),
    "tools.model_tools": ("GoogleSearchTool", "ModelTool"),
    "tools.request_input": ("RequestInputTool",),
    "tools.toolsets": ("allowed_tools", "filter_toolset", "prefix_toolset", "with_confirmation"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AgentTool",
    "CodeExecutor",
    "EventsCompaction",
    "Example",
    "ExampleTool",
    "ExitLoopTool",
    "FallbackModel",
    "FunctionTool",
    "GoogleSearchTool",
    "LlmAgent",
    "LlmSummarizer",
    "LoadArtifactsTool",
    "LoadMemoryTool",
    "LocalSubprocessExecutor",
    "ModelTool",
    "PlanReActPlanner",
    "Planner",
    "PreloadMemoryTool",
    "RedactedModel",
    "RequestInputTool",
    "RequestStage",
    "RouterModel",
    "StreamingTool",
    "Summarizer",
    "allowed_tools",
    "as_tool",
    "filter_toolset",
    "inject_session_state",
    "prefix_toolset",
    "tool",
    "with_confirmation",
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
