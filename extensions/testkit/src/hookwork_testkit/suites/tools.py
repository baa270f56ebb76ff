"""The tool suite: tools-plugins §1 for anything with a tool's capabilities, found by protocol and never by class."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from hookwork.agent import Agent
from hookwork.context import ToolContext
from hookwork.errors import DuplicateToolError, ToolArgumentError, ToolError
from hookwork.model import Model, ModelRequest
from hookwork.records.content import FunctionCall, FunctionResponse, Part, user_content
from hookwork.records.request import FunctionDeclaration
from hookwork.runner import Runner
from hookwork.settings import NO_SETTINGS
from hookwork.tool import (
    RESERVED_TOOL_NAMES,
    ArgumentValidator,
    Closable,
    ConfirmationGate,
    Finished,
    FunctionLike,
    RequestProcessor,
    ResponseDeferrer,
    SkipSummarizationDisplayer,
    StreamingLike,
    Tool,
    ToolWrapper,
    capability,
)
from hookwork_testkit.contexts import make_context
from hookwork_testkit.scripted import ScriptedModel
from hookwork_testkit.suites.leftovers import PATIENCE, no_tasks_left, settle, within

#: A function that was declared before the tool under test joins.
_NEIGHBOUR = FunctionDeclaration(name="a_neighbour", description="Declared before.")


class ToolSuite(ABC):
    """Subclass it in a test module; say how a tool is made and with which arguments it is called.

    Attributes:
        repeatable: the same arguments give the same result each time.
        secrets: texts that no error may show.
    """

    pytestmark = pytest.mark.asyncio

    repeatable: bool = True
    secrets: tuple[str, ...] = ()

    @abstractmethod
    def make_tool(self) -> Any:
        """A fresh tool."""

    def good_arguments(self) -> Sequence[Mapping[str, Any]]:
        """Arguments with which a call succeeds. Default: none, for a tool that takes none."""
        return ({},)

    def bad_arguments(self) -> Sequence[Mapping[str, Any]]:
        """Arguments that the tool refuses, as its declaration says. Default: no such samples."""
        return ()

    def failing_arguments(self) -> Mapping[str, Any] | None:
        """Arguments that fit and with which the call fails; None where there are none."""
        return None

    def waiting_arguments(self) -> Mapping[str, Any] | None:
        """Arguments with which a call waits for something until it is cancelled; None where no call waits."""
        return None

    def make_context(self, tool: Any, **options: Any) -> ToolContext:
        """The context of one call; override it for a tool that needs state, files or a memory."""
        context: ToolContext = make_context("tool", tool_name=tool.name, **options)
        return context

    def make_agent(self, model: Model, tool: Any) -> Agent | None:
        """An agent of some flow that has this tool, to see the tool in a run; None: it is not seen in one."""
        return None

    # --- steps --------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def tool(self) -> AsyncIterator[Any]:
        """The tool under test, closed afterwards."""
        tool = self.make_tool()
        try:
            yield tool
        finally:
            closable = capability(tool, Closable)
            if closable is not None:
                await closable.close()

    @asynccontextmanager
    async def runnable(self) -> AsyncIterator[tuple[Any, Callable[[Mapping[str, Any]], Awaitable[Any]]]]:
        """The tool, and a way to call it, each time in a context of its own; skips a tool that does not run."""
        async with self.tool() as tool:
            if capability(tool, FunctionLike) is None and capability(tool, StreamingLike) is None:
                pytest.skip("the tool is not run locally")

            async def call(args: Mapping[str, Any]) -> Any:
                return await self.call(tool, self.make_context(tool), args)

            yield tool, call

    async def call(self, tool: Any, ctx: ToolContext, args: Mapping[str, Any]) -> Any:
        """Run the tool once; the pieces of a streaming tool as a list."""
        runner = capability(tool, FunctionLike)
        if runner is not None:
            return await runner.run(ctx, dict(args))
        streaming = capability(tool, StreamingLike)
        assert streaming is not None
        stream: Any = streaming.run_stream(ctx, dict(args))
        async with aclosing(stream) as pieces:
            return [piece async for piece in pieces]

    async def packed(self, tool: Any, *before: FunctionDeclaration) -> ModelRequest:
        """A request that the tool joined."""
        request = ModelRequest(contents=[user_content("Do it.")])
        request.add_declarations(before)
        await self._join(tool, request)
        return request

    async def _join(self, tool: Any, request: ModelRequest) -> None:
        processor = capability(tool, RequestProcessor)
        if processor is None:
            pytest.skip("the tool changes no request")
        await processor.process_request(self.make_context(tool), request)

    # --- what a tool is -----------------------------------------------------------------------------------------------

    async def test_tl_01_a_tool_has_a_name_a_description_and_something_it_can_do(self) -> None:
        async with self.tool() as tool:
            assert isinstance(tool.name, str), "a tool's name is a string"
            assert tool.name.strip() == tool.name != "", f"a tool needs a name without blanks around it: {tool.name!r}"
            assert isinstance(tool.description, str), "a tool's description is a string"
            assert type(tool.is_long_running) is bool, "is_long_running is True or False"
            assert tool.idempotent in (None, True, False), "idempotent is True, False or None"
            known = (RequestProcessor, FunctionLike, StreamingLike)
            assert any(capability(tool, kind) for kind in known), "the tool neither changes a request nor runs"
            if isinstance(tool, ToolWrapper):
                assert tool.name == tool.inner.name, "a wrapper keeps the name (TL-11)"

    async def test_tl_13_the_name_is_not_one_of_the_kits_own(self) -> None:
        async with self.tool() as tool:
            assert tool.name not in RESERVED_TOOL_NAMES, f"{tool.name!r} is a name that the kit itself uses"

    async def test_tl_14_the_declaration_is_one_record_that_never_changes(self) -> None:
        async with self.tool() as tool:
            first = _declaration(tool)
            if first is None:
                pytest.skip("the tool shows the model nothing")
            assert isinstance(first, FunctionDeclaration), f"a declaration is no {type(first).__name__}"
            assert first.name == tool.name, f"declared as {first.name!r}, named {tool.name!r}"
            name, description = tool.name, tool.description
            again = self.make_tool()
            assert _declaration(again) == first, "two tools made alike are declared differently"
            if capability(tool, FunctionLike) is not None:
                for args in self.good_arguments():
                    await self.call(tool, self.make_context(tool), args)
            assert _declaration(tool) == first, "the declaration changed after a call"
            assert (tool.name, tool.description) == (name, description), "name or description changed"

    async def test_fn_05_the_declared_parameters_are_a_json_object_that_the_arguments_fit(self) -> None:
        async with self.tool() as tool:
            declared = _declaration(tool)
            if declared is None:
                pytest.skip("the tool shows the model nothing")
            assert declared.parameters is None or declared.parameters_json_schema is None, "two parameter schemas"
            schema: Any = declared.parameters_json_schema or declared.parameters
            if schema is None:
                assert not any(self.good_arguments()), "arguments of a tool that declares none"
                return
            assert str(schema.get("type", "object")).lower() == "object", "the parameters of a function are an object"
            known, required = schema.get("properties", {}), schema.get("required", ())
            for args in self.good_arguments():
                assert all(name in args for name in required), f"the good arguments {args} lack a required one"
                open_ended = schema.get("additionalProperties", True) is not False
                assert open_ended or all(name in known for name in args), f"{args} has undeclared arguments"

    # --- joining a request --------------------------------------------------------------------------------------------

    async def test_tl_12_the_tool_joins_a_request_once(self) -> None:
        async with self.tool() as tool:
            request = await self.packed(tool, _NEIGHBOUR)
            names = [declared.name for declared in request.config.function_declarations()]
            assert names[0] == _NEIGHBOUR.name, "what was declared before is still there, and first"
            if tool.name in request.tools:
                assert capability(request.tools[tool.name], FunctionLike) or capability(
                    request.tools[tool.name], StreamingLike
                ), "what is in the execution table can be run"
                declared = _declaration(tool)
                assert names[1:] == ([] if declared is None else [tool.name]), f"declared: {names[1:]}"
                entries = [entry for entry in request.config.tools if entry.function_declarations is not None]
                assert len(entries) == 1, "functions share one entry of config.tools"
                with pytest.raises(DuplicateToolError):
                    await self._join(tool, request)

    async def test_tl_06_joining_a_request_leaves_what_others_put_there(self) -> None:
        async with self.tool() as tool:
            other = _Other()
            request = ModelRequest(contents=[user_content("Do it.")], tools={other.name: other})
            request.update_config(temperature=0.5, labels={"team": "a"})
            contents = list(request.contents)
            await self._join(tool, request)
            assert request.tools[other.name] is other, "another tool's entry was replaced"
            assert (request.config.temperature, request.config.labels) == (0.5, {"team": "a"}), "settings were changed"
            assert list(request.contents)[: len(contents)] == contents, "the conversation was changed"

    async def test_tl_12_each_request_gets_the_same(self) -> None:
        async with self.tool() as tool:
            first, second = await self.packed(tool), await self.packed(tool)
            assert first.config == second.config, "the second request got other declarations"
            assert list(first.tools) == list(second.tools), "the second request got another execution table"

    # --- a call -------------------------------------------------------------------------------------------------------

    async def test_tl_25_a_result_is_an_object_or_json_that_becomes_one(self) -> None:
        async with self.runnable() as (tool, call):
            for args in self.good_arguments():
                result = await within(PATIENCE, f"a call with {args}", call(args))
                if isinstance(result, Finished):
                    assert tool.is_long_running, "only a long-running tool says Finished"
                    result = result.value
                if capability(tool, FunctionLike) is None:
                    assert all(isinstance(piece, str) for piece in result), f"a stream of text gave {result!r}"
                    continue
                response = result if isinstance(result, Mapping) else {"result": result}
                try:
                    FunctionResponse(name=tool.name, response=dict(response))
                except Exception as error:
                    raise AssertionError(f"JSON cannot hold the result {result!r}: {error}") from error

    async def test_tl_17_calls_at_once_do_not_mix(self) -> None:
        async with self.runnable() as (tool, call):
            if not self.repeatable:
                pytest.skip("the tool's results differ from call to call")
            samples = [args for _ in range(4) for args in self.good_arguments()]
            alone = [await call(args) for args in samples]
            contexts = [self.make_context(tool, function_call_id=f"c-{i}") for i in range(len(samples))]
            work = [self.call(tool, ctx, args) for ctx, args in zip(contexts, samples, strict=True)]
            at_once = await asyncio.gather(*work)
            shown = [_plain(result) for result in at_once]
            assert shown == [_plain(result) for result in alone], "results differ beside other calls"

    async def test_fn_13_arguments_that_do_not_fit_are_refused(self) -> None:
        async with self.runnable() as (tool, call):
            validator = capability(tool, ArgumentValidator)
            for args in self.good_arguments():
                if validator is not None:
                    given = dict(args)
                    validator.validate_args(given)
                    assert given == args, "validation changed the arguments"
            for args in self.bad_arguments():
                error = await _error_of(call(args))
                assert isinstance(error, ToolArgumentError), f"{args} should be refused, not {error!r}"
                self._check_text(error)
                if validator is not None:
                    with pytest.raises(ToolArgumentError):
                        validator.validate_args(dict(args))

    async def test_tl_21_a_failed_call_raises_what_the_model_may_read(self) -> None:
        args = self.failing_arguments()
        if args is None:
            pytest.skip("the suite was not told how a call fails")
        async with self.runnable() as (_, call):
            error = await _error_of(call(args))
            assert error is not None, "the call should fail; an error is raised, not returned"
            self._check_text(error)
            if self.good_arguments():
                await call(self.good_arguments()[0])  # the next call is not disturbed

    def _check_text(self, error: Exception) -> None:
        text = str(error)
        assert text.strip() or not isinstance(error, ToolError), "an error that says nothing"
        assert "Traceback (most recent call last)" not in text, "the text of an error holds a stack trace (FN-15)"
        assert not any(secret in text for secret in self.secrets), "the text of an error shows a secret"

    async def test_tool_3_cancellation_passes(self) -> None:
        args = self.waiting_arguments()
        if args is None:
            pytest.skip("the suite was not told how a call waits")
        async with self.runnable() as (_, call), no_tasks_left("a cancelled call"):
            task = asyncio.ensure_future(call(args))
            await settle()
            assert not task.done(), "the call should wait"
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=PATIENCE)
            assert done, f"the call goes on {PATIENCE:g} s after it was cancelled"
            assert task.cancelled(), "the call swallowed its cancellation"

    # --- in a run -----------------------------------------------------------------------------------------------------

    async def test_tl_20_a_run_answers_each_call_in_the_order_of_calls(self) -> None:
        async with self.runnable() as (tool, call):
            samples = [dict(args) for args in self.good_arguments()]
            responses = await self._responses(samples)
            if tool.is_long_running and len(responses) < len(samples):
                return  # calls that stay open have no response
            assert [response.name for response in responses] == [tool.name] * len(samples)
            assert not any("error" in (response.response or {}) for response in responses), f"errors: {responses}"
            if self.repeatable and capability(tool, FunctionLike) is not None:
                for args, response in zip(samples, responses, strict=True):
                    result = await call(args)
                    result = result.value if isinstance(result, Finished) else result
                    wanted = result if isinstance(result, Mapping) or result is None else {"result": result}
                    assert response.response == wanted, f"{args} was answered by {response.response}"

    async def test_tl_21_a_run_goes_on_after_calls_that_fail(self) -> None:
        failing = self.failing_arguments()
        samples = [dict(args) for args in (*self.bad_arguments(), *(() if failing is None else (failing,)))]
        if not samples:
            pytest.skip("the suite was not told how a call fails")
        async with self.runnable():
            for args, response in zip(samples, await self._responses(samples), strict=True):
                text = (response.response or {}).get("error")
                assert isinstance(text, str), f"{args} was answered by {response.response}"
                assert text, f"{args}: an error without a text"

    async def _responses(self, samples: Sequence[dict[str, Any]]) -> list[FunctionResponse]:
        """What a run answers to a model that makes these calls at once; the tool is the run's own, closed with it."""
        tool = self.make_tool()
        calls = [Part(function_call=FunctionCall(name=tool.name, args=args)) for args in samples]
        model = ScriptedModel([calls, "done"])
        agent = self.make_agent(model, tool)
        if agent is None:
            pytest.skip("the suite was not given an agent")
        async with (
            Runner(agent, sessions="memory:", settings=NO_SETTINGS) as runner,
            runner.run(user_id="u1", message="Do it.") as run,
        ):
            return [response for event in [e async for e in run] for response in event.function_responses]

    # --- smaller capabilities -----------------------------------------------------------------------------------------

    async def test_hitl_02_capabilities_that_answer_a_question_answer_yes_or_no(self) -> None:
        async with self.tool() as tool:
            gate, validator = capability(tool, ConfirmationGate), capability(tool, ArgumentValidator)
            for args in self.good_arguments() if gate is not None else ():
                converted = validator.validate_args(dict(args)) if validator is not None else dict(args)
                assert gate is not None
                answer = await gate.needs_confirmation(self.make_context(tool), dict(args), converted)
                assert type(answer) is bool, f"needs_confirmation answered {answer!r}"
            deferrer = capability(tool, ResponseDeferrer)
            assert deferrer is None or type(deferrer.defers_response()) is bool, "defers_response answers yes or no"
            shows = capability(tool, SkipSummarizationDisplayer)
            assert shows is None or type(shows.display_result_on_skip_summarization()) is bool

    async def test_gen_4_close_may_be_called_twice(self) -> None:
        closable = capability(self.make_tool(), Closable)
        if closable is None:
            pytest.skip("the tool holds nothing to close")
        await within(PATIENCE, "close()", closable.close())
        await within(PATIENCE, "close()", closable.close())


class _Other(Tool):
    name = "another_tool"
    description = "In the table before."


def _declaration(tool: Any) -> FunctionDeclaration | None:
    """What the tool shows the model, by whichever capability; None for a model-side or request-only tool."""
    declare = getattr(capability(tool, FunctionLike) or capability(tool, StreamingLike) or tool, "declaration", None)
    return None if declare is None else declare()


def _plain(result: Any) -> Any:
    return ("finished", result.value) if isinstance(result, Finished) else result


async def _error_of(work: Awaitable[Any]) -> Exception | None:
    """What awaiting raises."""
    try:
        await work
    except Exception as error:  # noqa: BLE001 - the caller looks at it
        return error
    return None
