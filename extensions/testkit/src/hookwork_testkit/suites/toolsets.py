"""The toolset suite: tools-plugins TL-02…TL-07, TL-12, TL-13 for groups of tools, local or remote."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hookwork.context import ReadonlyContext
from hookwork.model import ModelRequest
from hookwork.records.content import user_content
from hookwork.tool import (
    RESERVED_TOOL_NAMES,
    FunctionLike,
    RequestProcessor,
    StreamingLike,
    Tool,
    Toolset,
    capability,
)
from hookwork_testkit.contexts import make_context
from hookwork_testkit.suites.leftovers import PATIENCE, assert_cancellable, no_tasks_left, within


class ToolsetSuite(ABC):
    """Subclass it in a test module and say how a toolset is made.

    Attributes:
        stable: the list is the same each time; False for one that depends on the caller or on the time.
    """

    pytestmark = pytest.mark.asyncio

    stable: bool = True

    @abstractmethod
    def make_toolset(self) -> Toolset:
        """A fresh toolset, with at least one tool on offer."""

    def make_failing_toolset(self) -> Toolset | None:
        """A toolset whose listing fails, an unreachable server for example; None where that cannot be arranged."""
        return None

    def make_context(self, **options: Any) -> ReadonlyContext:
        """The context in which the tools are listed; override it for a toolset that reads state or headers."""
        context: ReadonlyContext = make_context("readonly", **options)
        return context

    # --- steps --------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def toolset(self) -> AsyncIterator[Toolset]:
        """The toolset under test, closed afterwards."""
        toolset = self.make_toolset()
        try:
            yield toolset
        finally:
            await toolset.close()

    async def names(self, toolset: Toolset, **options: Any) -> list[str]:
        """The names of the tools on offer."""
        return [tool.name for tool in await toolset.tools(self.make_context(**options))]

    # --- the list -----------------------------------------------------------------------------------------------------

    async def test_tl_02_a_toolset_has_a_name_and_lists_tools(self) -> None:
        async with self.toolset() as toolset:
            assert isinstance(toolset.name, str), "a toolset's name is a string"
            assert toolset.name.strip(), "a toolset needs a name: errors and `hookwork plugins` show it"
            assert type(toolset.optional) is bool, "optional is True or False"
            tools = await within(PATIENCE, "tools()", toolset.tools(self.make_context()))
            assert isinstance(tools, list), f"tools() gave a {type(tools).__name__}"
            assert tools, "the toolset under test has no tools"
            for tool in tools:
                assert isinstance(tool.name, str), f"{tool!r} has no name"
                assert tool.name, f"{tool!r} has no name"
                kinds = (RequestProcessor, FunctionLike, StreamingLike)
                assert any(capability(tool, kind) for kind in kinds), f"{tool.name}: neither joins a request nor runs"

    async def test_tl_13_names_are_unique_and_not_the_kits_own(self) -> None:
        async with self.toolset() as toolset:
            names = await self.names(toolset)
            twice = sorted({name for name in names if names.count(name) > 1})
            assert not twice, f"listed more than once: {twice}"
            reserved = sorted(RESERVED_TOOL_NAMES.intersection(names))
            assert not reserved, f"names that the kit itself uses: {reserved}"

    async def test_tl_03_the_list_is_the_same_each_time(self) -> None:
        if not self.stable:
            pytest.skip("the toolset's list changes")
        async with self.toolset() as toolset:
            first = await toolset.tools(self.make_context())
            names = [tool.name for tool in first]
            first.clear()  # the list belongs to the caller
            assert await self.names(toolset) == names, "the second list differs"
            assert await self.names(self.make_toolset()) == names, "a toolset made alike lists other tools"

    async def test_tl_03_lists_asked_for_at_once_are_complete(self) -> None:
        if not self.stable:
            pytest.skip("the toolset's list changes")
        async with self.toolset() as toolset:
            lists = await asyncio.gather(*[self.names(toolset, invocation_id=f"e-{i}") for i in range(8)])
            assert all(names == lists[0] for names in lists), f"lists differ: {lists}"
            assert lists[0] == await self.names(toolset), "lists asked for at once are not those asked for alone"

    async def test_tl_14_declarations_do_not_change(self) -> None:
        if not self.stable:
            pytest.skip("the toolset's list changes")
        async with self.toolset() as toolset:
            shown = [_shown(tool) for tool in await toolset.tools(self.make_context())]
            assert [_shown(tool) for tool in await toolset.tools(self.make_context())] == shown

    async def test_tl_12_all_tools_fit_into_one_request(self) -> None:
        async with self.toolset() as toolset:
            tools = await toolset.tools(self.make_context())
            request = ModelRequest(contents=[user_content("Do it.")])
            for processor in (*(capability(tool, RequestProcessor) for tool in tools), _processor(toolset)):
                if processor is not None:
                    await processor.process_request(make_context("tool"), request)
            names = [declared.name for declared in request.config.function_declarations()]
            assert len(names) == len(set(names)), f"declared more than once: {names}"
            runnable = {tool.name for tool in tools if capability(tool, FunctionLike) and _shown(tool) is not None}
            assert runnable <= set(names), f"not declared: {sorted(runnable - set(names))}"
            assert runnable <= set(request.tools), (
                f"not in the execution table: {sorted(runnable - set(request.tools))}"
            )

    # --- faults and ends ----------------------------------------------------------------------------------------------

    async def test_tl_04_a_list_that_cannot_be_had_is_an_error(self) -> None:
        toolset = self.make_failing_toolset()
        if toolset is None:
            pytest.skip("the suite was not told how a listing fails")
        try:
            listed: Any = await within(PATIENCE, "a failing tools()", toolset.tools(self.make_context()))
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001 - any error will do; the flow names the toolset
            listed = error
        assert isinstance(listed, Exception), f"a failed listing gave {listed!r}; `optional` is for the flow to apply"
        assert str(listed).strip(), "the error says nothing"
        await within(PATIENCE, "close()", toolset.close())

    async def test_tool_3_a_cancelled_listing_ends(self) -> None:
        async with self.toolset() as toolset:

            async def listing() -> Any:
                return await toolset.tools(self.make_context())

            await assert_cancellable("tools()", listing, at_most=40)
            assert await self.names(toolset), "no tools after listings were cancelled"

    async def test_gen_4_close_may_be_called_twice(self) -> None:
        for lists in (0, 2):
            async with no_tasks_left("a closed toolset"):
                toolset = self.make_toolset()
                for _ in range(lists):
                    await toolset.tools(self.make_context())
                await within(PATIENCE, "close()", toolset.close())
                await within(PATIENCE, "close()", toolset.close())


def _processor(toolset: Toolset) -> RequestProcessor | None:
    process: Callable[..., Any] | None = getattr(toolset, "process_request", None)
    return None if process is None else toolset  # type: ignore[return-value]


def _shown(tool: Tool) -> Any:
    found = capability(tool, FunctionLike) or capability(tool, StreamingLike)
    return None if found is None else found.declaration()
