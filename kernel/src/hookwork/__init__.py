"""Hookwork: an agent development kit built as a plugin-centric microkernel.

The public names below are resolved on first use, so ``import hookwork`` loads nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hookwork.version import VERSION as __version__

if TYPE_CHECKING:
    from hookwork.agent import Agent, AgentTree
    from hookwork.app import App
    from hookwork.context import CallbackContext, InvocationContext, ReadonlyContext, ToolContext
    from hookwork.ephemeral import EphemeralScope
    from hookwork.errors import HookworkError
    from hookwork.invocation import RunConfig, Usage
    from hookwork.live import ActivityEnd, ActivityStart, LiveConnection, LiveRequest, LiveRunConfig, SessionResumption
    from hookwork.live_run import LiveRun
    from hookwork.loader import AgentLoader
    from hookwork.model import Model, ModelCapabilities, ModelRequest
    from hookwork.node import Node, NodeConfig, NodeOutcome, Pause, Standing, build_node
    from hookwork.node_context import NodeContext
    from hookwork.plugins.discovery import use_extensions
    from hookwork.plugins.markers import hookimpl, hookspec
    from hookwork.plugins.plugin import FunctionPlugin, Plugin
    from hookwork.records.content import (
        Blob,
        Content,
        FileData,
        FunctionCall,
        FunctionResponse,
        Part,
        text_content,
        user_content,
    )
    from hookwork.records.event import Event, EventActions, NodeInfo, RequestInput, ToolConfirmation
    from hookwork.records.history import Call
    from hookwork.records.metadata import ModelResponse, UsageMetadata
    from hookwork.records.request import FunctionDeclaration, GenerateContentConfig, ToolDeclaration
    from hookwork.records.session import Session
    from hookwork.run import Run, RunOutcome
    from hookwork.runner import Runner
    from hookwork.services import ArtifactService, ArtifactVersion, MemoryEntry, MemoryService, SessionService
    from hookwork.settings import Settings
    from hookwork.stages import Stage, StageOutcome
    from hookwork.tool import Finished, Tool, Toolset, WithMedia

_HOMES = {
    "agent": ("Agent", "AgentTree"),
    "app": ("App",),
    "context": ("CallbackContext", "InvocationContext", "ReadonlyContext", "ToolContext"),
    "ephemeral": ("EphemeralScope",),
    "errors": ("HookworkError",),
    "invocation": ("RunConfig", "Usage"),
    "live_run": ("LiveRun",),
    "loader": ("AgentLoader",),
    "live": ("ActivityEnd", "ActivityStart", "LiveConnection", "LiveRequest", "LiveRunConfig", "SessionResumption"),
    "model": ("Model", "ModelCapabilities", "ModelRequest"),
    "node": ("Node", "NodeConfig", "NodeOutcome", "Pause", "Standing", "build_node"),
    "node_context": ("NodeContext",),
    "plugins.discovery": ("use_extensions",),
    "plugins.markers": ("hookimpl", "hookspec"),
    "plugins.plugin": ("FunctionPlugin", "Plugin"),
    "records.content": (
        "Blob",
        "Content",
        "FileData",
        "FunctionCall",
        "FunctionResponse",
        "Part",
        "text_content",
        "user_content",
    ),
    "records.event": ("Event", "EventActions", "NodeInfo", "RequestInput", "ToolConfirmation"),
    "records.history": ("Call",),
    "records.metadata": ("ModelResponse", "UsageMetadata"),
    "records.request": ("FunctionDeclaration", "GenerateContentConfig", "ToolDeclaration"),
    "records.session": ("Session",),
    "run": ("Run", "RunOutcome"),
    "runner": ("Runner",),
    "services": ("ArtifactService", "ArtifactVersion", "MemoryEntry", "MemoryService", "SessionService"),
    "settings": ("Settings",),
    "stages": ("Stage", "StageOutcome"),
    "tool": ("Finished", "Tool", "Toolset", "WithMedia"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ActivityEnd",
    "ActivityStart",
    "Agent",
    "AgentLoader",
    "AgentTree",
    "App",
    "ArtifactService",
    "ArtifactVersion",
    "Blob",
    "Call",
    "CallbackContext",
    "Content",
    "EphemeralScope",
    "Event",
    "EventActions",
    "FileData",
    "Finished",
    "FunctionCall",
    "FunctionDeclaration",
    "FunctionPlugin",
    "FunctionResponse",
    "GenerateContentConfig",
    "HookworkError",
    "InvocationContext",
    "LiveConnection",
    "LiveRequest",
    "LiveRun",
    "LiveRunConfig",
    "MemoryEntry",
    "MemoryService",
    "Model",
    "ModelCapabilities",
    "ModelRequest",
    "ModelResponse",
    "Node",
    "NodeConfig",
    "NodeContext",
    "NodeInfo",
    "NodeOutcome",
    "Part",
    "Pause",
    "Plugin",
    "ReadonlyContext",
    "RequestInput",
    "Run",
    "RunConfig",
    "RunOutcome",
    "Runner",
    "Session",
    "SessionResumption",
    "SessionService",
    "Settings",
    "Stage",
    "StageOutcome",
    "Standing",
    "Tool",
    "ToolConfirmation",
    "ToolContext",
    "ToolDeclaration",
    "Toolset",
    "Usage",
    "UsageMetadata",
    "WithMedia",
    "__version__",
    "build_node",
    "hookimpl",
    "hookspec",
    "text_content",
    "use_extensions",
    "user_content",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'hookwork' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"hookwork.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
