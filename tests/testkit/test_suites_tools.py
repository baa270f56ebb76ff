"""The tool suite passes good tools and catches those that break one rule each (tools-plugins §1, §2)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from hookwork.agent import Agent
from hookwork.context import ToolContext
from hookwork.errors import ToolArgumentError, ToolError
from hookwork.model import Model, ModelRequest
from hookwork.records.request import FunctionDeclaration, ToolDeclaration
from hookwork.tool import Finished, Tool, ToolWrapper, pack_tool
from hookwork_llm import FunctionTool, LlmAgent
from hookwork_testkit.scene_tools import Appender, Recorder
from hookwork_testkit.suites import ToolSuite
from hookwork_testkit.suites.broken import BrokenBackends, failures

BROKEN = BrokenBackends(ToolSuite)
SECRET = "sk-secret"


class Weather(Tool):
    """A tool with every capability, by hand; the broken ones change one thing."""

    name = "get_weather"
    description = "Current weather of a city."

    def declaration(self) -> FunctionDeclaration | None:
        schema = {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        }
        return FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=schema)

    def validate_args(self, args: dict[str, Any]) -> Any:
        if list(args) != ["city"] or not isinstance(args["city"], str):
            raise ToolArgumentError("get_weather: /city is a string")
        return args["city"]

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> Any:
        return await self.run_validated(ctx, self.validate_args(args))

    async def run_validated(self, ctx: ToolContext, converted: Any) -> Any:
        await asyncio.sleep(0)
        if converted == "Atlantis":
            raise ToolError("Atlantis is not on the map")
        if converted == "Godot":
            await asyncio.Event().wait()
        return {"city": converted, "sky": "clear"}

    async def needs_confirmation(self, ctx: ToolContext, args: dict[str, Any], converted: Any) -> bool:
        return False

    async def close(self) -> None:
        """Nothing is held."""


class _WeatherSuite(ToolSuite):
    secrets = (SECRET,)

    def make_agent(self, model: Model, tool: Any) -> Agent:
        return LlmAgent(name="a", model=model, tools=[tool])

    def good_arguments(self) -> Sequence[Mapping[str, Any]]:
        return ({"city": "Paris"}, {"city": "Rome"})

    def bad_arguments(self) -> Sequence[Mapping[str, Any]]:
        return ({}, {"city": 7}, {"town": "Paris"})

    def failing_arguments(self) -> Mapping[str, Any]:
        return {"city": "Atlantis"}

    def waiting_arguments(self) -> Mapping[str, Any]:
        return {"city": "Godot"}


class TestByHand(_WeatherSuite):
    def make_tool(self) -> Any:
        return Weather()


class TestWrapped(_WeatherSuite):
    """What a wrapper lacks is found on the tool inside (TL-11)."""

    def make_tool(self) -> Any:
        return ToolWrapper(Weather())


async def get_weather(city: str) -> dict[str, str]:
    """Current weather of a city."""
    if city == "Atlantis":
        raise LookupError("Atlantis is not on the map")
    if city == "Godot":
        await asyncio.Event().wait()
    return {"city": city, "sky": "clear"}


class TestFunctionTool(_WeatherSuite):
    def make_tool(self) -> Any:
        return FunctionTool(get_weather)


class TestFunctionToolInAThread(ToolSuite):
    def make_agent(self, model: Model, tool: Any) -> Agent:
        return LlmAgent(name="a", model=model, tools=[tool])

    def make_tool(self) -> Any:
        def double(number: int, label: str | None = None) -> int:
            """Twice a number."""
            return 2 * number

        return FunctionTool(double)

    def good_arguments(self) -> Sequence[Mapping[str, Any]]:
        return ({"number": 4}, {"number": 5, "label": "five"})

    def bad_arguments(self) -> Sequence[Mapping[str, Any]]:
        return ({"number": "4"}, {"number": 4, "other": 1})


class TestLongRunning(ToolSuite):
    def make_agent(self, model: Model, tool: Any) -> Agent:
        return LlmAgent(name="a", model=model, tools=[tool])

    def make_tool(self) -> Any:
        def ship(item: str) -> Finished:
            """Ship an item."""
            return Finished({"shipped": item})

        return FunctionTool(ship, long_running=True)

    def good_arguments(self) -> Sequence[Mapping[str, Any]]:
        return ({"item": "book"},)


class TestStreaming(ToolSuite):
    """A tool that only streams."""

    def make_tool(self) -> Any:
        class Count(Tool):
            name = "count"
            description = "Counts."

            def declaration(self) -> FunctionDeclaration:
                return FunctionDeclaration(name=self.name, description=self.description)

            async def run_stream(self, ctx: ToolContext, args: dict[str, Any]) -> AsyncIterator[str]:
                for number in ("one", "two"):
                    await asyncio.sleep(0)
                    yield number

        return Count()


class TestRequestOnly(ToolSuite):
    """A model-side tool (TL-01): it joins the request and is not run here."""

    def make_tool(self) -> Any:
        class Search(Tool):
            name = "google_search"
            description = "Searches."

            async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
                request.update_config(tools=(*request.config.tools, ToolDeclaration(google_search={})))

        return Search()


class TestSceneTool(ToolSuite):
    """Undeclared parameters: the scenes' tools take what the script gives them."""

    repeatable = False

    def make_tool(self) -> Any:
        return Recorder("look")


class _Suite(_WeatherSuite):
    """The suite against a broken tool."""

    def __init__(self, kind: type[Weather]) -> None:
        self.kind = kind

    def make_tool(self) -> Any:
        return self.kind()


async def test_a_tool_that_keeps_its_state_in_the_context_passes() -> None:
    class Adds(ToolSuite):
        def make_tool(self) -> Any:
            return Appender()

        def good_arguments(self) -> Sequence[Mapping[str, Any]]:
            return ()

    assert await failures(Adds()) == {}


@BROKEN.breaks(
    "test_tl_01", "test_tl_12_the_tool_joins", "test_tl_06", "test_tl_12_each", "test_tl_20", "test_tl_21_a_run"
)
class Nameless(Weather):
    name = ""


@BROKEN.breaks("test_tl_01")
class LongAndNotRunning(Weather):
    is_long_running: Any = None


@BROKEN.breaks("test_tl_13", "test_tl_20", "test_tl_21_a_run")
class TakesAReservedName(Weather):
    name = "finish_task"


@BROKEN.breaks("test_tl_14", "test_tl_12_each")
class CountsInItsDeclaration(Weather):
    asked = 0

    def declaration(self) -> FunctionDeclaration | None:
        self.asked += 1
        declared = super().declaration()
        return declared and declared.replace(description=f"Weather, asked for {self.asked} times.")


@BROKEN.breaks("test_tl_14", "test_tl_12_the_tool_joins")
class DeclaresAnotherName(Weather):
    def declaration(self) -> FunctionDeclaration | None:
        declared = super().declaration()
        return declared and declared.replace(name="weather")


@BROKEN.breaks("test_tl_14")
class RenamesItself(Weather):
    async def run_validated(self, ctx: ToolContext, converted: Any) -> Any:
        self.description = f"Weather of {converted}."
        return await super().run_validated(ctx, converted)


@BROKEN.breaks("test_fn_05")
class DeclaresAnArray(Weather):
    def declaration(self) -> FunctionDeclaration | None:
        declared = super().declaration()
        return declared and declared.replace(parameters_json_schema={"type": "array"})


@BROKEN.breaks("test_fn_05")
class DeclaresTwoSchemas(Weather):
    def declaration(self) -> FunctionDeclaration | None:
        declared = super().declaration()
        return declared and declared.replace(parameters={"type": "OBJECT"})


@BROKEN.breaks("test_fn_05")
class RequiresWhatNobodyGives(Weather):
    def declaration(self) -> FunctionDeclaration | None:
        declared = super().declaration()
        schema = {**(declared.parameters_json_schema or {}), "required": ["city", "unit"]} if declared else None
        return declared and declared.replace(parameters_json_schema=schema)


@BROKEN.breaks("test_tl_12_the_tool_joins")
class PacksTwice(Weather):
    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        first = self.name not in request.tools
        pack_tool(request, self)
        declared = self.declaration()
        if first and declared is not None:
            request.add_declarations([declared])


@BROKEN.breaks("test_tl_12_the_tool_joins")
class OpensAnEntryOfItsOwn(Weather):
    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        scratch = ModelRequest(tools=request.tools)
        pack_tool(scratch, self)
        request.update_config(tools=(*request.config.tools, *scratch.config.tools))


@BROKEN.breaks("test_tl_12_the_tool_joins")
class ReplacesItsNamesake(Weather):
    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        if request.tools.pop(self.name, None) is None:
            pack_tool(request, self)


@BROKEN.breaks("test_tl_06")
class SetsTheTemperature(Weather):
    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        await super().process_request(ctx, request)
        request.update_config(temperature=0.0)


@BROKEN.breaks("test_tl_06")
class EmptiesTheTable(Weather):
    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        if self.name not in request.tools:
            request.tools.clear()
        await super().process_request(ctx, request)


@BROKEN.breaks("test_tl_12_each")
class JoinsOnlyOnce(Weather):
    joined = False

    async def process_request(self, ctx: ToolContext, request: ModelRequest) -> None:
        if not self.joined or self.name in request.tools:
            await super().process_request(ctx, request)
        self.joined = True


@BROKEN.breaks("test_tl_25", "test_tl_20")
class GivesAnObject(Weather):
    async def run_validated(self, ctx: ToolContext, converted: Any) -> Any:
        await super().run_validated(ctx, converted)
        return {"sky": asyncio.Event}


@BROKEN.breaks("test_tl_25")
class SaysFinishedWithoutNeed(Weather):
    async def run_validated(self, ctx: ToolContext, converted: Any) -> Any:
        return Finished(await super().run_validated(ctx, converted))


@BROKEN.breaks("test_tl_17", "test_tl_20")
class KeepsTheCallOnItself(Weather):
    async def run_validated(self, ctx: ToolContext, converted: Any) -> Any:
        self.city = converted
        await asyncio.sleep(0)
        return await super().run_validated(ctx, self.city)


@BROKEN.breaks("test_fn_13", "test_tl_21_a_run")
class TakesAnything(Weather):
    def validate_args(self, args: dict[str, Any]) -> Any:
        return args.get("city")


@BROKEN.breaks("test_fn_13")
class RefusesWithAValueError(Weather):
    def validate_args(self, args: dict[str, Any]) -> Any:
        try:
            return super().validate_args(args)
        except ToolArgumentError as error:
            raise ValueError("city") from error


@BROKEN.breaks("test_fn_13")
class EatsTheArguments(Weather):
    def validate_args(self, args: dict[str, Any]) -> Any:
        city = super().validate_args(args)
        args.clear()
        return city


@BROKEN.breaks("test_tl_21_a_failed")
class ReturnsItsErrors(Weather):
    async def run_validated(self, ctx: ToolContext, converted: Any) -> Any:
        try:
            return await super().run_validated(ctx, converted)
        except ToolError as error:
            return {"error": str(error)}


@BROKEN.breaks("test_tl_21_a_failed")
class ShowsItsStack(Weather):
    async def run_validated(self, ctx: ToolContext, converted: Any) -> Any:
        try:
            return await super().run_validated(ctx, converted)
        except ToolError as error:
            raise ToolError(f"Traceback (most recent call last): {error}") from error


@BROKEN.breaks("test_tl_21_a_failed")
class ShowsItsKey(Weather):
    async def run_validated(self, ctx: ToolContext, converted: Any) -> Any:
        try:
            return await super().run_validated(ctx, converted)
        except ToolError as error:
            raise ToolError(f"{error}; the key was {SECRET}") from error


@BROKEN.breaks("test_tl_21_a_failed")
class StaysBroken(Weather):
    broken = False

    async def run_validated(self, ctx: ToolContext, converted: Any) -> Any:
        if self.broken or converted == "Atlantis":
            self.broken = True
            raise ToolError("the connection is lost")
        return await super().run_validated(ctx, converted)


@BROKEN.breaks("test_tool_3")
class SwallowsCancellation(Weather):
    async def run_validated(self, ctx: ToolContext, converted: Any) -> Any:
        with contextlib.suppress(asyncio.CancelledError):
            return await super().run_validated(ctx, converted)
        return {"city": converted, "sky": "unknown"}


@BROKEN.breaks("test_tool_3")
class LeavesATaskBehind(Weather):
    async def run_validated(self, ctx: ToolContext, converted: Any) -> Any:
        self.task = asyncio.create_task(super().run_validated(ctx, converted))
        return await asyncio.shield(self.task)

    async def close(self) -> None:
        if hasattr(self, "task"):
            self.task.cancel()


@BROKEN.breaks("test_hitl_02")
class NeedsConfirmationMaybe(Weather):
    async def needs_confirmation(self, ctx: ToolContext, args: dict[str, Any], converted: Any) -> Any:
        return None


@BROKEN.breaks("test_gen_4")
class ClosesOnce(Weather):
    closed = False

    async def close(self) -> None:
        if self.closed:
            raise RuntimeError("already closed")
        self.closed = True


@pytest.mark.parametrize("name", list(BROKEN.kinds))
async def test_each_broken_tool_fails_its_line_and_no_other(name: str) -> None:
    await BROKEN.assert_caught(name, _Suite)


def test_every_line_is_failed_by_some_broken_tool() -> None:
    assert BROKEN.uncaught(BROKEN.lines) == []
