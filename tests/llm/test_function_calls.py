"""Function tools: validation, results, the gate, streams (tools-plugins FN-10..FN-26, HITL-02, CASE-TOOL-1, 3, 6)."""
# mypy: disable-error-code="no-untyped-def, empty-body, type-arg, comparison-overlap"
# Functions without annotations and bodies are the very thing these tests are about.

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, field_validator

from hookwork.context import ToolContext
from hookwork.errors import InvalidToolError, ToolArgumentError, ToolError, ToolResultError
from hookwork.invocation import Invocation
from hookwork.records.session import EventLog, Session
from hookwork.state import DeltaBuffer
from hookwork.tool import (
    ArgumentValidator,
    ConfirmationGate,
    Finished,
    FunctionLike,
    StreamingLike,
    capability,
)
from hookwork_llm.functions import FunctionTool, StreamingTool


class A(BaseModel):
    x: int


@dataclass
class B:
    y: str


def call_context() -> ToolContext:
    """A tool context as the flow makes it, on a session without a service."""
    session = Session(
        app_name="app", user_id="u", id="s", log=EventLog(), last_update_time=datetime.now(UTC), revision=""
    )
    invocation = Invocation(app_name="app", user_id="u", session=session, invocation_id="i")
    return ToolContext(
        invocation, None, "", "", "", parent_path="", buffer=DeltaBuffer(), place="tool/1", function_call_id="c1"
    )


# --- FN-10..FN-14 -----------------------------------------------------------------------------------------------------


def test_fn_10_the_tool_has_the_capabilities_the_flow_asks_for() -> None:
    made = FunctionTool(lambda: None, name="f")
    for protocol in (FunctionLike, ArgumentValidator, ConfirmationGate):
        assert capability(made, protocol) is made


async def test_fn_10_case_tool_1_nested_types_arrive_built() -> None:
    got: list[Any] = []

    def f(a: A | None, bs: list[B], u: A | B, m: dict[str, B] = {}) -> None:  # noqa: B006
        got.extend([a, bs, u, m])

    made = FunctionTool(f)
    args = {"a": {"x": 1}, "bs": [{"y": "q"}], "u": {"y": "z"}}
    assert await made.run(call_context(), args) is None
    assert got == [A(x=1), [B("q")], B("z"), {}]
    with pytest.raises(ToolArgumentError, match=r"'f'.*/a/x: Input should be a valid integer"):
        await made.run(call_context(), {**args, "a": {"x": "no"}})
    assert len(got) == 4


@pytest.mark.parametrize(
    ("annotation", "given", "value"),
    [
        (int, 1.0, 1),
        (int | None, 3.0, 3),
        (list[int], [1.0, 2], [1, 2]),
        (set[int], [1, 2], {1, 2}),
        (A, {"x": 2.0}, A(x=2)),
        (dict[str, list[A]], {"k/~": [{"x": 1.0}]}, {"k/~": [A(x=1)]}),
        (Literal[1, 2], 2.0, 2),
        (float, 1, 1.0),
        (float, 1.0, 1.0),
        (date, "2026-01-31", date(2026, 1, 31)),
        (UUID, "6f9619ff-8b86-d011-b42d-00c04fc964ff", UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff")),
        (Decimal, "1.50", Decimal("1.50")),
        (bytes, "aGk=", b"hi"),
        (tuple[int, str], [1.0, "x"], (1, "x")),
        (Any, {"a": [1.0]}, {"a": [1.0]}),
    ],
)
def test_fn_12_json_forms_become_python_values(annotation: Any, given: Any, value: Any) -> None:
    def f(v): ...

    f.__annotations__ = {"v": annotation}
    converted = FunctionTool(f).validate_args({"v": given})["v"]
    assert converted == value
    assert type(converted) is type(value)


@pytest.mark.parametrize(
    ("annotation", "given", "where"),
    [
        (int, "1", "/v"),
        (int, True, "/v"),
        (int, 1.5, "/v"),
        (str, 1, "/v"),
        (float, True, "/v"),
        (bool, 1, "/v"),
        (int, None, "/v"),
        (list[int], [1, "2"], "/v/1"),
        (dict[str, int], {"a/b~c": "x"}, "/v/a~1b~0c"),
        (A, {"x": 1, "z": 2}, "/v/z"),
        (A, {}, "/v/x"),
        (A | B, {"y": 1}, "/v/y"),
        (Annotated[int, Field(ge=3)], 2, "/v"),
        (Literal["a"], "b", "/v"),
    ],
)
def test_fn_12_fn_13_nothing_else_is_coerced_and_the_pointer_is_named(annotation: Any, given: Any, where: str) -> None:
    ran = []

    def f(v): ran.append(v)  # fmt: skip

    f.__annotations__ = {"v": annotation}
    with pytest.raises(ToolArgumentError) as caught:
        FunctionTool(f, name="probe").validate_args({"v": given})
    assert "'probe'" in str(caught.value)
    assert f" {where}: " in str(caught.value)
    assert ran == []


def test_fn_13_secret_values_are_not_in_the_message() -> None:
    def f(token: list[int]): ...

    with pytest.raises(ToolArgumentError) as caught:
        FunctionTool(f).validate_args({"token": ["hunter2"]})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("annotation", [int, list[int]])
def test_fn_12_unknown_and_missing_arguments_fail(annotation: Any) -> None:
    def f(v, w=0): ...

    f.__annotations__ = {"v": annotation}
    with pytest.raises(ToolArgumentError, match="/v: Field required; /z: Extra inputs are not permitted"):
        FunctionTool(f).validate_args({"z": 1})


@pytest.mark.parametrize("args", ["text", [], 3])
def test_fn_10_arguments_must_be_an_object(args: Any) -> None:
    with pytest.raises(ToolArgumentError, match="Input should be an object"):
        FunctionTool(lambda: 1, name="f").validate_args(args)


def test_fn_11_null_arguments_are_an_empty_object() -> None:
    assert FunctionTool(lambda: 1, name="f").validate_args(None) == {}
    with pytest.raises(ToolArgumentError):
        FunctionTool(lambda a: 1, name="f").validate_args(None)
    with pytest.raises(ToolArgumentError, match="array"):
        FunctionTool(lambda: 1, name="f", input_schema={"type": "array"}).validate_args(None)


def test_fn_13_validator_of_a_users_class_may_raise_anything() -> None:
    class Picky(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def check(cls, value: int) -> int:
            raise LookupError("no such n")

    def f(p: Picky): ...

    with pytest.raises(ToolArgumentError, match="LookupError: no such n"):
        FunctionTool(f).validate_args({"p": {"n": 1}})


async def test_fn_14_defaults_are_the_functions_own() -> None:
    def f(a: list[int] | None = None, b: int = 7) -> str:
        return f"{a} {b}"

    made = FunctionTool(f)
    assert await made.run(call_context(), {}) == {"result": "None 7"}
    with pytest.raises(ToolArgumentError, match="/b"):
        made.validate_args({"b": None})


def test_fn_04_override_is_enforced_before_conversion() -> None:
    schema = {
        "type": "object",
        "properties": {"day": {"type": "string", "pattern": "^2026-"}, "n": {"enum": [1, 2]}},
        "required": ["day"],
    }

    def f(day: date, n: int = 1): ...

    made = FunctionTool(f, input_schema=schema)
    assert made.validate_args({"day": "2026-03-01", "n": 2}) == {"day": date(2026, 3, 1), "n": 2}
    for bad, where in (({"day": "2025-03-01"}, "/day"), ({}, "/day"), ({"day": "2026-03-01", "n": 3}, "/n")):
        with pytest.raises(ToolArgumentError, match=where):
            made.validate_args(bad)


async def test_fn_01_positional_only_and_keyword_arguments() -> None:
    def f(a: int, b: int = 2, /, ctx: ToolContext | None = None, **rest: Any) -> list[Any]:
        return [a, b, ctx is not None, rest]

    made = FunctionTool(f)
    assert await made.run(call_context(), {"a": 1, "z": 3}) == {"result": [1, 2, True, {"z": 3}]}
    assert await made.run(call_context(), {"a": 1, "b": 5}) == {"result": [1, 5, True, {}]}
    with pytest.raises(ToolArgumentError, match="/ctx"):
        made.validate_args({"a": 1, "ctx": "mine"})


# --- FN-06 ------------------------------------------------------------------------------------------------------------


class Service:
    def __init__(self, answer: str) -> None:
        self.answer = answer

    async def method(self, q: str) -> str:
        return f"{self.answer}:{q}"

    async def __call__(self, q: str) -> str:
        return f"{self.answer}/{q}"


def passed_on(func: Any) -> Any:
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapper


async def test_fn_06_case_tool_3_everything_callable_is_called_right() -> None:
    async def fetch(q: str, unit: str = "K") -> str:
        return f"{q}{unit}"

    cases = [
        (Service("a").method, "a:x"),
        (Service("b").method, "b:x"),
        (Service("c"), "c/x"),
        (functools.partial(fetch, unit="C"), "xC"),
        (passed_on(fetch), "xK"),
    ]
    for func, answer in cases:
        assert await FunctionTool(func).run(call_context(), {"q": "x"}) == {"result": answer}
    assert await FunctionTool(lambda q: fetch(q), name="l").run(call_context(), {"q": "x"}) == {"result": "xK"}


# --- FN-15, FN-20, FN-21 ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "response"),
    [
        (0, {"result": 0}),
        ("", {"result": ""}),
        ([], {"result": []}),
        (False, {"result": False}),
        ({}, {}),
        ({"a": 1}, {"a": 1}),
        (None, None),
        (B("q"), {"y": "q"}),
        ((1, 2), {"result": [1, 2]}),
    ],
)
async def test_fn_20_case_tool_6_falsy_values_are_values(value: Any, response: Any) -> None:
    assert await FunctionTool(lambda: value, name="f", inline=True).run(call_context(), {}) == response


async def test_fn_20_output_schema_is_enforced() -> None:
    def f(n: int) -> int:
        return "text" if n else 3  # type: ignore[return-value]

    made = FunctionTool(f)
    assert await made.run(call_context(), {"n": 0}) == {"result": 3}
    with pytest.raises(ToolResultError, match=r"'f'.*valid integer"):
        await made.run(call_context(), {"n": 1})
    strict = FunctionTool(lambda: {"a": 1}, name="g", output_schema={"type": "object", "required": ["b"]})
    with pytest.raises(ToolResultError, match="/b"):
        await strict.run(call_context(), {})
    typed = FunctionTool(lambda: {"x": "no"}, name="h", output_schema=A)
    with pytest.raises(ToolResultError, match="/x"):
        await typed.run(call_context(), {})


async def test_fn_20_none_is_not_checked_against_the_output_schema() -> None:
    def f() -> str:
        return None  # type: ignore[return-value]

    assert await FunctionTool(f).run(call_context(), {}) is None


@pytest.mark.parametrize("value", [object(), float("nan"), {1: 2}, 1j])
async def test_fn_21_what_json_cannot_hold_is_an_error(value: Any) -> None:
    with pytest.raises(ToolResultError, match="'f'"):
        await FunctionTool(lambda: {"deep": [value]}, name="f").run(call_context(), {})


async def test_fn_15_exception_is_raised_and_its_traceback_logged(caplog: pytest.LogCaptureFixture) -> None:
    def f() -> None:
        raise KeyError("lost")

    with caplog.at_level(logging.WARNING), pytest.raises(KeyError, match="lost"):
        await FunctionTool(f).run(call_context(), {})
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_tl_21_the_kits_own_errors_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def f() -> None:
        raise ToolError("quantity must be positive")

    with caplog.at_level(logging.WARNING), pytest.raises(ToolError, match="positive"):
        await FunctionTool(f).run(call_context(), {})
    assert caplog.records == []


async def test_core_res_2_finished_is_kept_for_long_running_tools_only() -> None:
    async def order(n: int) -> Finished | str | None:
        return Finished(n) if n else None

    slow = FunctionTool(order, long_running=True)
    answer = await slow.run(call_context(), {"n": 2})
    assert isinstance(answer, Finished)
    assert answer.value == {"result": 2}
    assert await slow.run(call_context(), {"n": 0}) is None
    assert await FunctionTool(order).run(call_context(), {"n": 2}) == {"result": 2}


# --- HITL-02: the gate ------------------------------------------------------------------------------------------------


async def gated(require: Any, args: dict[str, Any]) -> bool:
    def pay(amount: int, to: str = "me", what: A | None = None): ...

    made = FunctionTool(pay, require_confirmation=require)
    return await made.needs_confirmation(call_context(), args, made.validate_args(args))


async def test_hitl_02_flag_and_provider() -> None:
    def by_context(amount: int, ctx: ToolContext) -> bool:
        return ctx.function_call_id == "c1" and amount > 1

    async def awaited(what: A | None) -> bool:
        return what == A(x=1)

    assert await gated(False, {"amount": 1}) is False
    assert await gated(True, {"amount": 1}) is True
    assert await gated(lambda amount: amount > 100, {"amount": 101.0}) is True
    assert await gated(lambda to: to == "me", {"amount": 1}) is True
    assert await gated(lambda **given: len(given) == 3, {"amount": 1}) is True
    assert await gated(by_context, {"amount": 2}) is True
    assert await gated(lambda amount, ctx: ctx.function_call_id == "c1", {"amount": 2}) is True
    assert await gated(awaited, {"amount": 2, "what": {"x": 1}}) is True


@pytest.mark.parametrize("bad", [1, "yes", lambda other: True, lambda amount, /: True])
def test_fn_02_bad_confirmation_callable_fails_at_construction(bad: Any) -> None:
    def pay(amount: int): ...

    with pytest.raises(InvalidToolError, match="require_confirmation"):
        FunctionTool(pay, require_confirmation=bad)


# --- FN-25, FN-26: streaming ------------------------------------------------------------------------------------------


class Words:
    def __init__(self) -> None:
        self.closed = 0

    async def say(self, n: int, fail: bool = False) -> AsyncIterator[str]:
        """Say words."""
        try:
            for i in range(n):
                yield f"w{i} "
            if fail:
                raise ValueError("tired")
        finally:
            self.closed += 1


async def test_fn_26_chunks_are_joined_outside_live_sessions() -> None:
    made = StreamingTool(Words().say)
    assert await made.run_validated(call_context(), made.validate_args({"n": 2})) == {"result": "w0 w1 "}
    assert made.declaration().response_json_schema is None
    assert capability(made, StreamingLike) is made
    with pytest.raises(ValueError, match="tired"):
        await made.run_validated(call_context(), made.validate_args({"n": 2, "fail": True}))


async def test_fn_25_errors_come_while_iterating_and_closing_cleans_up() -> None:
    words = Words()
    made = StreamingTool(words.say)
    wrong = made.run_stream(call_context(), {"n": "x"})
    with pytest.raises(ToolArgumentError, match="/n"):
        await anext(wrong)
    stream = made.run_stream(call_context(), {"n": 3})
    assert await anext(stream) == "w0 "
    await stream.aclose()
    assert words.closed == 1
    assert await made.needs_confirmation(call_context(), {}, {}) is False


async def test_fn_25_a_chunk_that_is_not_text_is_an_error() -> None:
    async def numbers() -> AsyncIterator[Any]:
        yield 1

    made = StreamingTool(numbers)
    with pytest.raises(ToolResultError, match="a chunk is text"):
        await made.run_validated(call_context(), {})


async def test_streaming_timeout_covers_the_whole_stream() -> None:
    async def forever() -> AsyncIterator[str]:
        yield "a"
        await asyncio.Event().wait()

    with pytest.raises(ToolError, match="'forever' did not finish"):
        await StreamingTool(forever, timeout=0.01).run_validated(call_context(), {})
