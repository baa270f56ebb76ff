"""The declared state of an app (services BEY-3; workflow STATE-3 has the same rules for a graph)."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from subprocess import run
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict, Field
from tests.kernel.running import said

from hookwork import Agent, App, CallbackContext, Event, EventActions, InvocationContext, Runner, Settings
from hookwork.errors import ConfigurationError, StateMutationError, ValidationError


class Item(BaseModel):
    sku: str
    number: int = 1


class Model(BaseModel):
    count: int = 0
    tags: list[str] = Field(default_factory=list, max_length=2)
    size: Annotated[int, Field(gt=3)] = 4
    due: datetime | None = None
    cart: list[Item] = Field(default_factory=list)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    count: int = 0


class Typed(TypedDict, total=False):
    count: int
    tags: list[str]


@dataclass
class Data:
    count: int
    tags: list[str]


def _runner(schema: Any, before: Any = None, delta: Any = None, **options: Any) -> Runner:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=said("x").content, actions=EventActions(state_delta=delta or {}))

    root = Agent(name="root", body=body, before_agent=before or ())
    app = App("shop", root, state_schema=schema, **options)
    return Runner(app, sessions="memory:", settings=Settings())


async def _run(runner: Runner, **more: Any) -> dict[str, Any]:
    async with runner:
        async for _ in runner.run(user_id="u", session_id="s", message="go", **more):
            pass
        session = await runner.sessions.get_session(app_name="shop", user_id="u", session_id="s")
        return dict(session.state)


def _write(key: str, value: Any) -> Any:
    def before(ctx: CallbackContext) -> None:
        ctx.state[key] = value

    return before


@pytest.mark.parametrize("schema", [Model, Typed, Data, {"count": int, "tags": list[str]}])
@pytest.mark.parametrize("delivery", ["context", "event", "run"])
async def test_bey_3_every_way_in_is_checked(schema: Any, delivery: str) -> None:
    """The error names the key and the type that is expected, never the value; nothing of the write is stored."""
    for key, value, text in (
        ("count", "secret", r"state\['count'\] must be int by the state schema of app 'shop'"),
        ("count", True, r"state\['count'\] must be int"),
        ("tags", ["a", 3], r"state\['tags'\] must be list\[str\] .*- at"),
        ("tag", "secret", r"state\['tag'\] is not in the state schema of app 'shop'; did you mean 'tags'\?"),
        ("quite_different", 1, "which declares: .*count.*tags"),
    ):
        runner = {
            "context": lambda key=key, value=value: _runner(schema, _write(key, value)),
            "event": lambda key=key, value=value: _runner(schema, delta={key: value}),
            "run": lambda: _runner(schema),
        }[delivery]()
        more = {"state_delta": {key: value}} if delivery == "run" else {}
        with pytest.raises(ValidationError, match=text) as wrong:
            await _run(runner, **more)
        assert wrong.value.path == key
        assert "secret" not in str(wrong.value)


async def test_bey_3_what_fits_passes() -> None:
    """Scopes bypass, None is the absence of a value, deletion is no value at all (BEY-13)."""

    def before(ctx: CallbackContext) -> None:
        ctx.state["count"] = 1
        ctx.state["due"] = "2026-01-01T00:00:00Z"
        ctx.state["cart"] = [{"sku": "a", "number": 2}]
        ctx.state["size"] = None
        ctx.state["tags"] = ["gone"]
        ctx.state["app:anything"] = ctx.state["user:anything"] = ctx.state["temp:anything"] = object.__name__
        ctx.state.delete("tags")

    state = await _run(_runner(Model, before, {"size": 5}), state_delta={"count": 3})
    assert state == {
        "count": 1,
        "due": "2026-01-01T00:00:00Z",
        "cart": [{"sku": "a", "number": 2}],
        "size": 5,
        "app:anything": "object",
        "user:anything": "object",
    }
    assert await _run(_runner(Open, _write("other", [1]))) == {"other": [1]}


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [("size", 3, "must be int .*greater than 3"), ("cart", [{"number": 1}], "must be list.*Item.*required - at 0.sku")],
)
async def test_bey_3_a_models_constraints_hold(key: str, value: Any, text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        await _run(_runner(Model, _write(key, value)))


async def test_case_state_2_a_nested_change_in_place_is_refused_and_an_edit_is_checked() -> None:
    """Silent loss of nested writes cannot happen: in place raises, an edit is a write like any other."""

    def in_place(ctx: CallbackContext) -> None:
        ctx.state["cart"][0]["number"] = 2

    def edited(ctx: CallbackContext) -> None:
        with ctx.state.edit("cart") as cart:
            cart[0]["number"] = "two"

    start = {"cart": [{"sku": "a", "number": 1}]}
    with pytest.raises(StateMutationError, match=r"cart.*edit"):
        await _run(_runner(Model, in_place), state_delta=start)
    with pytest.raises(ValidationError, match=r"state\['cart'\] must be list"):
        await _run(_runner(Model, edited), state_delta=start)


async def test_bey_3_a_merged_value_is_checked_too() -> None:
    """BEY-10: what a rule makes of two right values may be none."""

    async def before(ctx: CallbackContext) -> None:
        ctx.state["count"] = 1
        session = await runner.sessions.get_session(app_name="shop", user_id="u", session_id="s")
        await runner.sessions.append_event(session, said("x", actions=EventActions(state_delta={"count": 2})))

    runner = _runner(Model, before, state_merge={"count": lambda base, mine, current: "text"})
    with pytest.raises(ValidationError, match=r"state\['count'\] must be int"):
        await _run(runner)


@pytest.mark.parametrize("schema", [3, "Model", {"count": 3}, {3: int}, ["count"]])
def test_bey_3_a_wrong_schema_is_refused(schema: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"app 'shop': state_schema"):
        _runner(schema)


def test_bey_3_plain_types_need_no_pydantic() -> None:
    """A mapping of plain types is checked without it, and an app without a schema loads neither."""
    code = (
        "import sys; from hookwork.state_schema import check_of; check_of({'n': int}, 'x')('n', 1); "
        "assert 'pydantic' not in sys.modules"
    )
    assert run([sys.executable, "-c", code], check=False).returncode == 0
