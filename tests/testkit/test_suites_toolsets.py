"""The toolset suite passes good toolsets and catches those that break one rule each (tools-plugins TL-02…TL-07)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from hookwork.context import ReadonlyContext
from hookwork.model import ModelRequest
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool, Toolset, pack_tool
from hookwork_llm import FunctionTool
from hookwork_testkit.scene_tools import Recorder
from hookwork_testkit.suites import ToolsetSuite
from hookwork_testkit.suites.broken import BrokenBackends, failures

BROKEN = BrokenBackends(ToolsetSuite)


class Server(Toolset):
    """Two tools behind a turn of the event loop, as a server would have them; the broken ones change one thing."""

    name = "server"

    def __init__(self, *, down: bool = False) -> None:
        self.down = down

    async def tools(self, ctx: ReadonlyContext) -> list[Tool]:
        await asyncio.sleep(0)
        if self.down:
            raise ConnectionError("the server is down")
        return self.listed()

    def listed(self) -> list[Tool]:
        return [Recorder("look"), Recorder("listen")]


class _Suite(ToolsetSuite):
    def __init__(self, kind: type[Server] = Server) -> None:
        self.kind = kind

    def make_toolset(self) -> Toolset:
        return self.kind()

    def make_failing_toolset(self) -> Toolset:
        return self.kind(down=True)


class TestFunctions(ToolsetSuite):
    """A toolset of function tools."""

    def make_toolset(self) -> Toolset:
        def add(a: int, b: int) -> int:
            """Add."""
            return a + b

        class Sums(Toolset):
            name = "sums"

            async def tools(self, ctx: ReadonlyContext) -> list[Tool]:
                return [FunctionTool(add)]

        return Sums()


class TestServer(ToolsetSuite):
    def make_toolset(self) -> Toolset:
        return Server()

    def make_failing_toolset(self) -> Toolset:
        return Server(down=True)


class TestChanging(ToolsetSuite):
    """One whose list is another each time; it may be."""

    stable = False

    def make_toolset(self) -> Toolset:
        class Changing(Server):
            count = 0

            def listed(self) -> list[Tool]:
                self.count += 1
                return [Recorder(f"look_{self.count}")]

        return Changing()


@BROKEN.breaks("test_tl_02_a_toolset")
class Nameless(Server):
    name = ""


@BROKEN.breaks("test_tl_02_a_toolset")
class GivesATuple(Server):
    async def tools(self, ctx: ReadonlyContext) -> Any:
        return Tuple(await super().tools(ctx))


class Tuple(tuple[Any, ...]):
    """A tuple that can be cleared, so that only its type is wrong."""

    __slots__ = ()

    def clear(self) -> None:
        """Nothing."""


@BROKEN.breaks("test_tl_13", "test_tl_12")
class ListsATwin(Server):
    def listed(self) -> list[Tool]:
        return [*super().listed(), Recorder("look")]


@BROKEN.breaks("test_tl_13")
class ListsAReservedName(Server):
    def listed(self) -> list[Tool]:
        return [*super().listed(), Recorder("finish_task")]


@BROKEN.breaks("test_tl_03_the_list")
class GivesItsOwnList(Server):
    def __init__(self, *, down: bool = False) -> None:
        super().__init__(down=down)
        self.own = super().listed()

    def listed(self) -> list[Tool]:
        return self.own


@BROKEN.breaks("test_tl_03", "test_tl_14")
class ForgetsATool(Server):
    asked = 0

    def listed(self) -> list[Tool]:
        self.asked += 1
        return super().listed()[: 1 if self.asked > 1 else 2]


@BROKEN.breaks("test_tl_03_lists")
class ServesOneAtATime(Server):
    """A second caller gets what is there while the first one fetches."""

    fetching = False

    async def tools(self, ctx: ReadonlyContext) -> list[Tool]:
        if self.fetching:
            return super().listed()[:1]
        self.fetching = True
        try:
            return await super().tools(ctx)
        finally:
            self.fetching = False


class _Dated(Recorder):
    def __init__(self, name: str, number: int) -> None:
        super().__init__(name)
        self.number = number

    def declaration(self) -> FunctionDeclaration:
        return super().declaration().replace(description=f"Fetched {self.number} times.")


@BROKEN.breaks("test_tl_14")
class DatesItsDeclarations(Server):
    asked = 0

    def listed(self) -> list[Tool]:
        self.asked += 1
        return [_Dated("look", self.asked)]


class _Silent(Recorder):
    async def process_request(self, ctx: Any, request: ModelRequest) -> None:
        """Joins nothing."""


@BROKEN.breaks("test_tl_12")
class ToolsThatDoNotJoin(Server):
    def listed(self) -> list[Tool]:
        return [_Silent("look")]


@BROKEN.breaks("test_tl_12")
class PacksItsToolsItself(Server):
    async def process_request(self, ctx: Any, request: ModelRequest) -> None:
        for tool in self.listed():
            pack_tool(request, tool)


@BROKEN.breaks("test_tl_04")
class HidesItsFailure(Server):
    async def tools(self, ctx: ReadonlyContext) -> list[Tool]:
        try:
            return await super().tools(ctx)
        except ConnectionError:
            return []


@BROKEN.breaks("test_tool_3")
class SwallowsCancellation(Server):
    async def tools(self, ctx: ReadonlyContext) -> list[Tool]:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        return await super().tools(ctx)


@BROKEN.breaks("test_gen_4")
class ClosesOnce(Server):
    closed = False

    async def close(self) -> None:
        if self.closed:
            raise RuntimeError("already closed")
        self.closed = True


@BROKEN.breaks("test_gen_4", "test_tool_3")
class LeavesItsConnectionOpen(Server):
    """Each listing opens one that nobody closes."""

    async def tools(self, ctx: ReadonlyContext) -> list[Tool]:
        self.connection = asyncio.create_task(asyncio.Event().wait())
        return await super().tools(ctx)


async def test_a_good_toolset_passes() -> None:
    assert await failures(_Suite()) == {}


@pytest.mark.parametrize("name", list(BROKEN.kinds))
async def test_each_broken_toolset_fails_its_line_and_no_other(name: str) -> None:
    await BROKEN.assert_caught(name, _Suite)


def test_every_line_is_failed_by_some_broken_toolset() -> None:
    assert BROKEN.uncaught(BROKEN.lines) == []
