"""Cases TOOL: functions as tools, in a run as users write them."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel

from hookwork import Plugin
from hookwork.context import ToolContext
from hookwork.errors import InvalidToolError, LimitExceeded
from hookwork.invocation import RunConfig
from hookwork.records.content import FunctionCall, Part
from hookwork_llm import FunctionTool, LlmAgent, as_tool, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call


class A(BaseModel):
    x: int


@dataclass
class B:
    y: str


def raw(name: str, args: dict[str, Any], call_id: str | None = None) -> Part:
    return Part(function_call=FunctionCall(id=call_id, name=name, args=args))


def schema(made: Any) -> dict[str, Any]:
    return dict(made.declaration().parameters_json_schema)


def results(events: list[Any], position: int = 1) -> list[Any]:
    return [response.response for response in events[position].function_responses]


# --- TOOL-1 … 4: from signature to schema -----------------------------------------------------------------------------


async def test_case_tool_1_annotations_as_strings_unions_nested_models(in_memory: Any, say: Any) -> None:
    got: list[Any] = []

    @tool
    async def f(a: A | None, bs: list[B], u: A | B, m: dict[str, B] = {}) -> dict[str, Any]:  # noqa: B006
        """Do f."""
        got.append((a, bs, u, m))
        return {}

    right = {"a": {"x": 1}, "bs": [{"y": "q"}], "u": {"y": "z"}}
    wrong = {**right, "a": {"x": "no"}}
    model = ScriptedModel([raw("f", right), raw("f", wrong), "done"])
    async with in_memory.runner(LlmAgent(name="a", model=model, tools=[f])) as runner:
        events, _ = await say(runner)
    assert got == [(A(x=1), [B("q")], B("z"), {})]
    assert "/a/x" in results(events, 3)[0]["error"]


def test_case_tool_1_types_that_only_a_type_checker_sees() -> None:
    namespace: dict[str, Any] = {}
    source = (
        "from __future__ import annotations\n"
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from elsewhere import Missing\n"
        "def f(a: Missing) -> None: ...\n"
    )
    exec(source, namespace)
    with pytest.raises(InvalidToolError) as raised:
        LlmAgent(name="a", tools=[namespace["f"]])
    for word in ("'f'", "'a'", "'Missing'"):
        assert word in str(raised.value)


async def test_case_tool_2_required_stays_required(in_memory: Any, say: Any) -> None:
    got: list[Any] = []

    def s(query: str, tags: list[str] | None = None, n: int = 10, mode: Literal["a", "b"] = "a") -> dict[str, Any]:
        got.append((query, tags, n, mode))
        return {}

    made = schema(as_tool(s))
    assert made["required"] == ["query"]
    assert list(made["properties"]) == ["query", "tags", "n", "mode"]
    tags = made["properties"]["tags"]
    assert (tags["type"], tags["items"]) == (["array", "null"], {"type": "string"})
    assert made["properties"]["n"]["default"] == 10
    assert (made["properties"]["mode"]["enum"], made["properties"]["mode"]["default"]) == (["a", "b"], "a")
    model = ScriptedModel([call("s", query="q"), "done"])
    async with in_memory.runner(LlmAgent(name="a", model=model, tools=[s])) as runner:
        await say(runner)
    assert got == [("q", None, 10, "a")]


class Desk:
    def __init__(self, name: str) -> None:
        self.name = name

    def ask(self, q: str) -> str:
        return f"{self.name}: {q}"


class Oracle:
    async def __call__(self, q: str) -> str:
        return f"oracle: {q}"


def convert(factor: int, value: int, unit: str = "K") -> str:
    return f"{factor * value} {unit}"


def logged(function: Any) -> Any:
    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    return wrapper


@logged
async def wrapped(q: str) -> str:
    return f"wrapped: {q}"


async def test_case_tool_3_anything_callable(in_memory: Any, say: Any) -> None:
    first, second = Desk("one"), Desk("two")
    tools = [
        FunctionTool(first.ask, name="ask_one"),
        FunctionTool(second.ask, name="ask_two"),
        FunctionTool(functools.partial(convert, 2), name="double"),
        FunctionTool(functools.partial(convert, unit="C"), name="celsius"),
        Oracle(),
        wrapped,
        FunctionTool(lambda q: q, name="echo"),
    ]
    model = ScriptedModel(
        [
            [
                call("ask_one", q="x"),
                call("ask_two", q="x"),
                call("double", value=4),
                call("celsius", factor=1, value=4),
                call("oracle", q="x"),
                call("wrapped", q="x"),
                call("echo", q="x"),
            ],
            "done",
        ]
    )
    agent = LlmAgent(name="a", model=model, tools=tools)
    async with in_memory.runner(agent) as runner:
        events, _ = await say(runner)
    assert [r["result"] for r in results(events)] == [
        "one: x", "two: x", "8 K", "4 C", "oracle: x", "wrapped: x", "x",
    ]  # fmt: skip
    assert list(schema(agent.function_tools[0])["properties"]) == ["q"]
    assert "factor" not in schema(agent.function_tools[2])["properties"]
    with pytest.raises(InvalidToolError, match="lambda"):
        LlmAgent(name="a", tools=[lambda q: q])


def google(city: str, days: int) -> None:
    """Forecast of a city.

    It looks ahead.

    Args:
        city: where
        days: how far
    """


def numpy(city: str, days: int) -> None:
    """Forecast of a city.

    It looks ahead.

    Parameters
    ----------
    city
        where
    days
        how far
    """


def sphinx(city: str, days: int) -> None:
    """Forecast of a city.

    It looks ahead.

    :param city: where
    :param days: how far
    """


def annotated(ctx: ToolContext, city: Annotated[str, "the city"], days: int) -> None:
    """Forecast of a city.

    It looks ahead.

    Args:
        ctx: the context
        city: where
        days: how far
    """


@pytest.mark.parametrize(
    ("function", "city"), [(google, "where"), (numpy, "where"), (sphinx, "where"), (annotated, "the city")]
)
def test_case_tool_4_parameter_descriptions(function: Any, city: str) -> None:
    made = as_tool(function)
    properties = schema(made)["properties"]
    assert {name: value["description"] for name, value in properties.items()} == {"city": city, "days": "how far"}
    assert made.description == "Forecast of a city.\n\nIt looks ahead."


# --- TOOL-5 … 8: running them -----------------------------------------------------------------------------------------

DEADLINE = 30  # s; reached only when the rule is broken
tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


async def test_case_tool_5_a_blocking_tool_must_not_stop_the_others(in_memory: Any, say: Any, read: Any) -> None:
    """Five blocking calls wait for each other, and then for the event loop: neither may be held up by one of them."""
    loop = asyncio.get_running_loop()
    together = threading.Barrier(5)
    all_inside, released = asyncio.Event(), threading.Event()

    @tool
    def block(ctx: ToolContext, n: int) -> str:
        """Block."""
        ctx.state[f"n{n}"] = n
        together.wait(DEADLINE)
        loop.call_soon_threadsafe(all_inside.set)
        assert released.wait(DEADLINE)
        return tenant.get()

    async def release() -> None:
        await all_inside.wait()
        released.set()

    model = ScriptedModel([[call("block", n=n) for n in range(5)], "done"])
    tenant.set("acme")
    async with in_memory.runner(LlmAgent(name="a", model=model, tools=[block])) as runner, asyncio.TaskGroup() as tasks:
        tasks.create_task(release())
        events, _ = await say(runner)
        session = await read(runner)
    assert results(events) == [{"result": "acme"}] * 5
    assert events[1].actions.state_delta == {f"n{n}": n for n in range(5)}
    assert dict(session.state) == {f"n{n}": n for n in range(5)}


async def test_case_tool_5_cancelling_does_not_wait_for_the_thread(in_memory: Any, read: Any) -> None:
    loop = asyncio.get_running_loop()
    inside, released, left = asyncio.Event(), threading.Event(), asyncio.Event()

    @tool
    def block() -> str:
        """Block."""
        loop.call_soon_threadsafe(inside.set)
        assert released.wait(DEADLINE)
        loop.call_soon_threadsafe(left.set)
        return "late"

    async with in_memory.runner(LlmAgent(name="a", model=ScriptedModel([call("block")]), tools=[block])) as runner:
        run = runner.run(user_id="u", session_id="s", message="hi")
        consumer = asyncio.create_task(run.wait())
        await inside.wait()
        consumer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consumer
        assert not left.is_set()
        released.set()
        await left.wait()
        session = await read(runner)
    assert [event.author for event in session.events] == ["user", "a"]


class Falsy(Plugin):
    """A plugin object whose truth value is False."""

    def __init__(self) -> None:
        self.ran = 0

    def __bool__(self) -> bool:
        return False

    def before_run(self) -> None:
        self.ran += 1


async def test_case_tool_6_falsy_is_a_value(backend: Any, say: Any, read: Any) -> None:
    values = [0, "", [], False, {}]
    tools = [FunctionTool(lambda value=value: value, name=f"t{i}") for i, value in enumerate(values)]
    model = ScriptedModel([[call(f"t{i}") for i in range(5)], "done"])
    plugin = Falsy()
    agent = LlmAgent(name="a", model=model, tools=tools)
    async with backend.runner(agent, plugins=[plugin]) as runner:
        events, _ = await say(runner, state_delta={"zero": 0, "no": False, "empty": ""})
    assert results(events) == [{"result": 0}, {"result": ""}, {"result": []}, {"result": False}, {}]
    assert plugin.ran == 1
    async with backend.runner(agent) as runner:
        session = await read(runner)
        none = await runner.sessions.get_session(app_name="case", user_id="u", session_id="s", num_recent_events=0)
    state = {key: (type(value), value) for key, value in session.state.items()}
    assert state == {"zero": (int, 0), "no": (bool, False), "empty": (str, "")}
    assert len(none.events) == 0


async def test_case_tool_6_an_empty_dict_from_before_tool_skips_the_tool(in_memory: Any, say: Any) -> None:
    ran: list[str] = []

    @tool
    async def t() -> None:
        """Never run."""
        ran.append("t")

    model = ScriptedModel([call("t"), "done"])
    agent = LlmAgent(name="a", model=model, tools=[t], before_tool=lambda ctx, tool, args: {})
    async with in_memory.runner(agent) as runner:
        events, _ = await say(runner)
    assert (results(events), ran) == ([{}], [])


async def test_case_tool_7_a_cancellation_that_nobody_asked_for(in_memory: Any, say: Any) -> None:
    @tool
    async def leaks() -> None:
        """A client library cancels its own scope."""
        raise asyncio.CancelledError

    @tool
    async def fine() -> str:
        """Be fine."""
        await asyncio.sleep(0)
        return "ok"

    model = ScriptedModel([[call("leaks"), call("fine")], "done"])
    async with in_memory.runner(LlmAgent(name="a", model=model, tools=[leaks, fine])) as runner:
        events, outcome = await say(runner)
    assert "error" in results(events)[0]
    assert results(events)[1] == {"result": "ok"}
    assert (model.calls, outcome.kind) == (2, "completed")


async def test_case_tool_7_while_the_run_really_is_cancelled(in_memory: Any, read: Any) -> None:
    inside = asyncio.Event()
    done: list[str] = []

    @tool
    async def leaks() -> None:
        """Answer a cancellation with one of its own."""
        inside.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise asyncio.CancelledError from None

    @tool
    async def sibling() -> None:
        """Wait."""
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            done.append("awaited")

    agent = LlmAgent(name="a", model=ScriptedModel([[call("leaks"), call("sibling")]]), tools=[leaks, sibling])
    async with in_memory.runner(agent) as runner:
        run = runner.run(user_id="u", session_id="s", message="hi")
        consumer = asyncio.create_task(run.wait())
        await inside.wait()
        await asyncio.sleep(0)
        consumer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consumer
        assert done == ["awaited"]
        assert (await read(runner)).length == 2
    assert run.outcome.kind == "closed"


async def test_case_tool_8_the_model_invents_a_tool(in_memory: Any, say: Any) -> None:
    seen: list[str] = []
    ran: list[str] = []

    class Watch(Plugin):
        def on_tool_error(self, tool: Any, error: Exception) -> None:
            seen.append(tool.name)

    @tool
    async def search(q: str) -> str:
        """Search."""
        ran.append(q)
        return "found"

    @tool
    async def another() -> None:
        """Be there too."""

    bad_turn = [call("serch", "c1", q="x"), call("search", "c2", q="y"), call("", "c3")]
    model = ScriptedModel([bad_turn, "done"])
    agent = LlmAgent(name="a", model=model, tools=[search, another])
    async with in_memory.runner(agent, plugins=[Watch()]) as runner:
        events, _ = await say(runner)
        first, second, third = results(events)
        assert first["error"].endswith("another, search")
        assert second == {"result": "found"}
        assert third["error"].endswith("another, search")
        assert (ran, sorted(seen)) == (["y"], ["", "serch"])
        assert_valid_prompt(model.prompts[-1], ids=False)
        model.add(*[bad_turn] * 10)
        with pytest.raises(LimitExceeded):
            await say(runner, "again", config=RunConfig(max_llm_calls=10))
