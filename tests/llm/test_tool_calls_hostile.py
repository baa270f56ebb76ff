"""Tools that misbehave: odd results, odd exceptions, odd names (tools-plugins TL-12, TL-19 … TL-21, FN-20, FN-21)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import pytest

from hookwork.context import ToolContext
from hookwork.errors import ToolError
from hookwork.platform import use_task_runner
from hookwork.plugins.plugin import FunctionPlugin
from hookwork.records.request import FunctionDeclaration
from hookwork.tool import Tool, Toolset
from hookwork_llm import LlmAgent, tool
from hookwork_llm.tool_errors import told
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call


class Raw(Tool):
    """A tool of the plain contract: a name and a `run`."""

    def __init__(self, name: str, run: Any = lambda ctx, args: {"ok": True}, **fields: Any) -> None:
        self.name = name
        self._run = run
        for key, value in fields.items():
            setattr(self, key, value)

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name=self.name, description=self.name)

    async def run(self, ctx: ToolContext, args: dict[str, Any]) -> Any:
        result = self._run(ctx, args)
        return await result if inspect.isawaitable(result) else result


class Offers(Toolset):
    """Offers what it is given."""

    def __init__(self, name: str, *tools: Any) -> None:
        self.name = name
        self._tools = list(tools)

    async def tools(self, ctx: Any) -> list[Any]:
        return self._tools


def agent_of(model: ScriptedModel, *tools: Any, **fields: Any) -> LlmAgent:
    return LlmAgent(name="a", model=model, tools=tools, **fields)


def responses_of(turn: Any, position: int = 1) -> list[Any]:
    return [response.response for response in turn.events[position].function_responses]


# --- results ----------------------------------------------------------------------------------------------------------


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"x": value}
    return value


def endless() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


@pytest.mark.parametrize("kind", ["function", "raw"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: {1: "a number as key"},
        lambda: {"x": {1, 2, object()}},
        lambda: {"x": object},
        lambda: {"x": float("inf")},
        endless,
        lambda: nested(100_000),
        lambda: (n for n in range(3)),
        lambda: {"x": complex(1, 2)},
        lambda: {"x": lambda: 1},
    ],
    ids=["key", "set", "class", "infinity", "endless", "deep", "generator", "complex", "function"],
)
async def test_fn_21_a_result_that_json_cannot_hold_is_an_error_and_the_turn_goes_on(
    runner_factory: Any, play: Any, stored: Any, make: Any, kind: str
) -> None:
    made: Any = tool(name="t")(make) if kind == "function" else Raw("t", lambda ctx, args: make())
    model = ScriptedModel([[call("t", "c1"), call("fine", "c2")], "done"])
    async with runner_factory(agent_of(model, made, Raw("fine"))) as runner:
        turn = await play(runner)
        session = await stored(runner)
    assert turn.error is None
    first, second = responses_of(turn)
    assert list(first) == ["error"]
    assert "'t'" in first["error"]
    assert second == {"ok": True}
    assert len(session.events) == 4
    assert_valid_prompt(model.prompts[-1])


@pytest.mark.parametrize("depth", [100, 300, 600, 900])
@pytest.mark.parametrize("kind", ["function", "raw"])
async def test_fn_20_a_deep_result_is_kept_or_refused_but_never_ends_the_run(
    runner_factory: Any, play: Any, stored: Any, depth: int, kind: str
) -> None:
    made: Any = tool(name="t")(lambda: nested(depth)) if kind == "function" else Raw("t", lambda c, a: nested(depth))
    model = ScriptedModel([call("t", "c1"), "done"])
    async with runner_factory(agent_of(model, made)) as runner:
        turn = await play(runner)
        assert turn.error is None
        assert turn.scene == ["a: +t", "a: -t", "a: done"]
        session = await stored(runner)
    assert len(session.events) == 4
    response = responses_of(turn)[0]
    assert response == nested(depth) if depth <= 300 else list(response) in (["x"], ["error"])


async def test_fn_20_a_huge_result_is_a_result(runner_factory: Any, play: Any) -> None:
    text = "x" * 5_000_000
    model = ScriptedModel([call("t", "c1"), "done"])
    async with runner_factory(agent_of(model, tool(name="t")(lambda: {"n": 2**70, "text": text}))) as runner:
        turn = await play(runner)
    assert responses_of(turn)[0] == {"n": 2**70, "text": text}


# --- exceptions -------------------------------------------------------------------------------------------------------


class Panic(BaseException):
    """What an extension module in another language raises when it panics: no Exception."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Fatal(asyncio.CancelledError):
    """A library's own subclass."""


@pytest.mark.parametrize(
    "error",
    [
        Panic("rust"),
        GeneratorExit(),
        Unprintable(),
        Fatal("scope"),
        StopAsyncIteration(),
        StopIteration(1),
        TimeoutError(),
        ExceptionGroup("g", [ValueError("v")]),
        BaseExceptionGroup("g", [Panic("v")]),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("kind", ["async", "thread", "raw"])
async def test_tl_21_whatever_a_tool_raises_its_siblings_end_and_the_model_is_told(
    runner_factory: Any, play: Any, error: BaseException, kind: str
) -> None:
    def body() -> None:
        raise error

    async def in_loop() -> None:
        raise error

    def raw(ctx: Any, args: Any) -> None:
        raise error

    made = {"async": tool(name="t")(in_loop), "thread": tool(name="t")(body), "raw": Raw("t", raw)}[kind]
    ended = []

    async def sibling(ctx: Any, args: Any) -> dict[str, Any]:
        await asyncio.sleep(0.01)
        ended.append(1)
        return {"ok": True}

    model = ScriptedModel([[call("t", "c1"), call("s", "c2")], "done"])
    seen: list[Any] = []
    plugin = FunctionPlugin("p", on_tool_error=lambda ctx, tool, args, error: seen.append(error))
    async with runner_factory(agent_of(model, made, Raw("s", sibling)), plugins=[plugin]) as runner:
        turn = await asyncio.wait_for(play(runner), 5)
    assert turn.error is None
    first, second = responses_of(turn)
    assert list(first) == ["error"]
    assert second == {"ok": True}
    assert ended == [1]
    assert [isinstance(given, Exception) for given in seen] == [True]


async def test_tl_21_the_text_of_a_panic_is_type_and_message(runner_factory: Any, play: Any) -> None:
    def panic(ctx: Any, args: Any) -> None:
        raise Panic("index out of bounds")

    def silent(ctx: Any, args: Any) -> None:
        raise Unprintable

    def empty(ctx: Any, args: Any) -> None:
        raise TimeoutError

    def typed(ctx: Any, args: Any) -> None:
        raise ToolError("")

    bodies = {"p": panic, "s": silent, "e": empty, "t": typed}
    model = ScriptedModel([[call(name) for name in bodies], "done"])
    async with runner_factory(agent_of(model, *(Raw(name, body) for name, body in bodies.items()))) as runner:
        turn = await play(runner)
    texts = ["Panic: index out of bounds", "Unprintable", "TimeoutError", "ToolError"]
    assert responses_of(turn) == [{"error": text} for text in texts]


@pytest.mark.parametrize("hook", ["before_tool", "after_tool", "on_tool_error"])
async def test_tl_21_a_panic_in_a_hook_ends_its_call_only(runner_factory: Any, play: Any, hook: str) -> None:
    def panics(tool: Tool) -> None:
        if tool.name == "t":
            raise Panic("hook")

    def fails(ctx: Any, args: Any) -> None:
        raise ValueError("v")

    body = fails if hook == "on_tool_error" else (lambda ctx, args: {"ok": True})
    model = ScriptedModel([[call("t"), call("fine")], "done"])
    plugin = FunctionPlugin("p", **{hook: panics})
    async with runner_factory(agent_of(model, Raw("t", body), Raw("fine")), plugins=[plugin]) as runner:
        turn = await play(runner)
    assert responses_of(turn) == [{"error": "Panic: hook"}, {"ok": True}]


async def test_tl_21_a_panic_in_an_around_hook_is_the_calls_error(runner_factory: Any, play: Any) -> None:
    @asynccontextmanager
    async def panics(tool: Tool) -> AsyncIterator[None]:
        if tool.name == "t":
            raise Panic("enter")
        yield

    model = ScriptedModel([[call("t"), call("fine")], "done"])
    async with runner_factory(
        agent_of(model, Raw("t"), Raw("fine")), plugins=[FunctionPlugin("p", around_tool=panics)]
    ) as runner:
        turn = await play(runner)
    assert responses_of(turn) == [{"error": "Panic: enter"}, {"ok": True}]


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt(), BaseExceptionGroup("g", [ValueError("v"), SystemExit(3)])],
    ids=["exit", "interrupt", "in a group"],
)
async def test_tl_21_what_ends_the_process_passes(error: BaseException) -> None:
    with pytest.raises(type(error)) as passed:
        told(error, "t", asyncio.current_task())
    assert passed.value is error


async def test_tl_21_the_end_of_a_coroutine_that_was_thrown_away_passes() -> None:
    """A `GeneratorExit` that did not come out of the running task is the closing of an abandoned coroutine."""
    with pytest.raises(GeneratorExit):
        told(GeneratorExit(), "t", None)
    assert str(told(GeneratorExit(), "t", asyncio.current_task())) == "GeneratorExit"
    panic = Panic("p")
    assert told(panic, "t", asyncio.current_task()).__cause__ is panic


@pytest.mark.parametrize("runner", [None, "serial"], ids=["tasks", "one task"])
async def test_case_tool_7_tool_3_a_tool_that_cancels_its_own_task_is_an_ordinary_error(
    runner_factory: Any, play: Any, runner: str | None
) -> None:
    """The count of the task rose, but nobody ends the call: the sibling goes on, hooks run, the model is told."""
    counts: list[int] = []

    async def cancels_itself() -> None:
        """Cancels its own task."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    async def after(ctx: Any, tool: Any, args: Any, result: Any, error: Any) -> None:
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        counts.append(task.cancelling())

    async def one_by_one(tasks: Any) -> None:
        for run in tasks:
            await run()

    model = ScriptedModel([[call("cancels_itself", "c1"), call("s", "c2")], "done"])
    plugins = [FunctionPlugin("p", after_tool=after)]
    with use_task_runner(one_by_one) if runner else nullcontext():
        async with runner_factory(agent_of(model, tool(cancels_itself), Raw("s")), plugins=plugins) as made:
            turn = await asyncio.wait_for(play(made), 5)
    failed, fine = turn.events[1].function_responses
    assert "cancelled from within" in failed.response["error"]
    assert "error" not in fine.response
    assert (turn.error, turn.outcome.kind, turn.scene[-1]) == (None, "completed", "a: done")
    assert counts == [0, 0]


async def test_case_tool_7_the_same_tool_while_the_run_is_cancelled(runner_factory: Any, stored: Any) -> None:
    """Then it is the run's cancellation: the sibling is awaited and nothing more is stored."""
    started, left = asyncio.Event(), []

    async def stubborn() -> None:
        """Waits, and cancels its own task once more on the way out."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    async def sibling() -> None:
        """Waits."""
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            left.append("sibling")

    model = ScriptedModel([[call("stubborn", "c1"), call("sibling", "c2")]])
    async with runner_factory(agent_of(model, tool(stubborn), tool(sibling))) as made:
        running = asyncio.create_task(made.run(user_id="u", session_id="s", message="go").wait())
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert left == ["sibling"]
        assert [event.author for event in (await stored(made)).events] == ["user", "a"]


# --- names ------------------------------------------------------------------------------------------------------------

NAMES = ["a/b", "a@1", "x@1-1/y", "../..", " ", "new\nline", "ünï", "x" * 300, "adk_x", ".", "a.b", "%s{}", "<x>", "0"]


@pytest.mark.parametrize("name", NAMES)
async def test_tl_19_any_name_of_a_toolset_can_be_called_and_approved(
    runner_factory: Any, play: Any, answer: Any, stored: Any, name: str
) -> None:
    runs = []

    def body(ctx: ToolContext) -> str:
        runs.append(ctx.path)
        ctx.state["k"] = 1
        return "ran"

    gated = tool(name=name, require_confirmation=True)(body)
    model = ScriptedModel([call(name, "c1"), "done"])
    async with runner_factory(agent_of(model, Offers("o", gated))) as runner:
        turn = await play(runner)
        assert turn.error is None
        await play(runner, answer(turn.open_ids[0], {"confirmed": True}))
        session = await stored(runner)
    assert len(runs) == 1
    assert session.events[-1].text == "done"
    assert session.events[-2].function_responses[0].response == {"result": "ran"}
    assert_valid_prompt(model.prompts[-1])


@pytest.mark.parametrize("name", NAMES)
async def test_fn_33_any_name_of_a_long_running_tool_can_wait(
    runner_factory: Any, play: Any, answer: Any, stored: Any, name: str
) -> None:
    waiting = tool(name=name, long_running=True)(lambda: None)
    model = ScriptedModel([call(name, "c1"), "done"])
    async with runner_factory(agent_of(model, Offers("o", waiting))) as runner:
        turn = await play(runner)
        assert turn.open_ids == ["c1"]
        turn = await play(runner, answer("c1", {"v": 1}, name=name))
        session = await stored(runner)
    assert turn.error is None
    assert session.events[-1].text == "done"
    assert_valid_prompt(model.prompts[-1])


@pytest.mark.parametrize("name", ["", None])
async def test_tl_12_a_toolset_with_a_tool_without_a_name(runner_factory: Any, play: Any, name: Any) -> None:
    model = ScriptedModel(["done"])
    async with runner_factory(agent_of(model, Offers("o", Raw(name)))) as runner:
        turn = await play(runner)
    assert type(turn.error).__name__ == "DuplicateToolError"
    assert "has no name" in str(turn.error)


@pytest.mark.parametrize("name", ["adk_request_confirmation", "adk_request_input", "adk_request_credential"])
async def test_hitl_11_a_model_that_calls_a_request_by_its_name_opens_none(
    runner_factory: Any, play: Any, answer: Any, gated: Any, name: str
) -> None:
    go = gated()
    forged = {
        "originalFunctionCall": {"id": "c1", "name": "go", "args": {"x": 1}},
        "toolConfirmation": {"hint": "h", "confirmed": False},
    }
    model = ScriptedModel([[call("go", "c1", x=1), call(name, "c2", **forged)], "done", "more"])
    async with runner_factory(agent_of(model, go.tool)) as runner:
        turn = await play(runner)
        assert "c2" not in turn.open_ids
        again = await play(runner, answer("c2", {"confirmed": True}, name=name))
        assert type(again.error).__name__ == "NothingToResume"
        assert again.events == []
    assert go.runs == []


async def test_tl_12_equal_names_in_two_toolsets_name_both(runner_factory: Any, play: Any) -> None:
    model = ScriptedModel(["done"])
    async with runner_factory(agent_of(model, Offers("one", Raw("t")), Offers("two", Raw("t")))) as runner:
        turn = await play(runner)
    assert type(turn.error).__name__ == "DuplicateToolError"
    assert "'t'" in str(turn.error)
    assert model.calls == 0
