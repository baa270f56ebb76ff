"""The built-in tools and wrapped toolsets keep the contracts of tools-plugins §1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hookwork.agent import Agent
from hookwork.context import ReadonlyContext
from hookwork.model import Model
from hookwork.tool import Tool, Toolset
from hookwork_llm import (
    AgentTool,
    ExitLoopTool,
    LlmAgent,
    LoadArtifactsTool,
    LoadMemoryTool,
    allowed_tools,
    filter_toolset,
    prefix_toolset,
    tool,
    with_confirmation,
)
from hookwork_testkit import ScriptedModel
from hookwork_testkit.suites import ToolsetSuite, ToolSuite


class _InAgent(ToolSuite):
    def make_agent(self, model: Model, tool: Any) -> Agent:
        return LlmAgent(name="owner", model=model, tools=[tool])


class TestAgentTool(_InAgent):
    def make_tool(self) -> AgentTool:
        return AgentTool(LlmAgent(name="helper", model=ScriptedModel(lambda _: "an answer")))

    def good_arguments(self) -> Sequence[Mapping[str, Any]]:
        return ({"request": "do it"},)

    def bad_arguments(self) -> Sequence[Mapping[str, Any]]:
        return ({},)


class TestExitLoop(_InAgent):
    def make_tool(self) -> ExitLoopTool:
        return ExitLoopTool()


class TestLoadMemory(ToolSuite):
    def make_tool(self) -> LoadMemoryTool:
        return LoadMemoryTool()

    def good_arguments(self) -> Sequence[Mapping[str, Any]]:
        return ({"query": "home"},)

    def bad_arguments(self) -> Sequence[Mapping[str, Any]]:
        return ({}, {"query": 1})


class TestLoadArtifacts(ToolSuite):
    def make_tool(self) -> LoadArtifactsTool:
        return LoadArtifactsTool()

    def good_arguments(self) -> Sequence[Mapping[str, Any]]:
        return ({}, {"artifact_names": ["a.txt"]})

    def bad_arguments(self) -> Sequence[Mapping[str, Any]]:
        return ({"artifact_names": [1]},)


class _Box(Toolset):
    name = "box"

    async def tools(self, ctx: ReadonlyContext) -> list[Tool]:
        @tool
        def one() -> int:
            """One."""
            return 1

        @tool
        def two() -> int:
            """Two."""
            return 2

        return [one, two]


class TestFiltered(ToolsetSuite):
    def make_toolset(self) -> Toolset:
        return filter_toolset(_Box(), allowed_tools(["two"]))


class TestPrefixed(ToolsetSuite):
    def make_toolset(self) -> Toolset:
        return prefix_toolset(_Box(), "box_")


class TestConfirming(ToolsetSuite):
    def make_toolset(self) -> Toolset:
        return with_confirmation(_Box(), True)
