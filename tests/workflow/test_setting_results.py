"""`ctx.output` and `ctx.route` instead of yielding; what the state schema checks (workflow WB-5, NODE-6, STATE-3)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.workflow.flows import answered, failure, outputs, run_flow, step

from hookwork import Event, EventActions, Node, Plugin, ToolContext
from hookwork.errors import ContextClosedError, InvalidRunNodeContext
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call
from hookwork_workflow import (
    DEFAULT,
    START,
    MultipleOutputs,
    MultipleRoutes,
    NodeContext,
    OutputValidationError,
    Retry,
    SequentialAgent,
    Workflow,
    node,
    progress,
    routed,
)


def deciding(body: Any, name: str = "decide", **settings: Any) -> Any:
    """A node that does ``body(ctx)`` and returns nothing, before two routes."""

    async def run(value: str, ctx: NodeContext) -> None:
        body(ctx)

    made = node(name=name, **settings)(run)
    return START >> made, made.on({"left": step("left"), DEFAULT: step("other")})


async def test_wb_5_output_and_route_set_on_the_context(kit: Any) -> None:
    def both(ctx: NodeContext) -> None:
        ctx.output = {"n": 1}
        ctx.route = "left"
        assert (ctx.output, ctx.route) == ({"n": 1}, "left")

    turn = await run_flow(kit, Workflow("wf", *deciding(both)))
    assert turn.outcome.output == "left({'n': 1})"
    [event] = [event for event in turn.events if event.path == "wf@1/decide@1"]
    assert (dict(event.output), event.routes) == ({"n": 1}, ("left",))


@pytest.mark.parametrize(("route", "wanted"), [("left", "left"), (["x", "left"], "left"), (True, "other")])
async def test_wb_5_a_route_alone(kit: Any, route: Any, wanted: str) -> None:
    """EDGE-3: routes travel as text; without output the successor gets None."""

    def only(ctx: NodeContext) -> None:
        ctx.route = route

    turn = await run_flow(kit, Workflow("wf", *deciding(only)))
    assert turn.outcome.output == f"{wanted}(None)"


async def test_wb_5_dataclasses_are_written_as_json_and_checked(kit: Any) -> None:
    """PER-2, NODE-4: as if it were returned."""

    @dataclass
    class City:
        name: str

    @node(output_schema=City)
    async def find(value: str, ctx: NodeContext) -> None:
        ctx.output = City(value)

    turn = await run_flow(kit, Workflow("wf", START >> find))
    assert turn.outcome.output == {"name": "hi"}

    @node(output_schema=City)
    async def wrong(value: str, ctx: NodeContext) -> None:
        ctx.output = 3

    assert isinstance(await failure(kit, START >> wrong), OutputValidationError)


async def test_node_6_one_output_however_it_is_given(kit: Any) -> None:
    """Set twice, set and returned, set and yielded; the same for routes."""

    @node
    async def twice(value: str, ctx: NodeContext) -> None:
        ctx.output = 1
        ctx.output = 2

    @node
    async def returned(value: str, ctx: NodeContext) -> int:
        ctx.output = 1
        return 2

    @node
    async def yielded(value: str, ctx: NodeContext) -> AsyncIterator[Any]:
        ctx.output = 1
        yield progress("working")
        yield 2

    for made in (twice, returned, yielded):
        assert isinstance(await failure(kit, START >> made), MultipleOutputs), made.name

    @node
    async def two_routes(value: str, ctx: NodeContext) -> None:
        ctx.route = "a"
        ctx.route = "b"

    @node
    async def routed_twice(value: str, ctx: NodeContext) -> Any:
        ctx.route = "a"
        return routed("b", 1)

    for made in (two_routes, routed_twice):
        assert isinstance(await failure(kit, START >> made), MultipleRoutes), made.name


async def test_node_6_output_set_and_route_returned_are_one_each(kit: Any) -> None:
    @node
    async def mixed(value: str, ctx: NodeContext) -> Any:
        ctx.output = value
        return routed("left")

    turn = await run_flow(kit, Workflow("wf", START >> mixed, mixed.on({"left": step("left"), DEFAULT: step("other")})))
    assert turn.outcome.output == "left(hi)"


async def test_wb_5_for_nodes_of_a_class_too(kit: Any) -> None:
    class Counting(Node):
        name = "count"

        async def run(self, ctx: NodeContext, input: Any) -> AsyncIterator[Event]:
            ctx.output, ctx.route = len(input), 2
            for nothing in ():
                yield nothing

    made = node(Counting())
    from hookwork_workflow import Edge

    turn = await run_flow(
        kit, Workflow("wf", START >> made, Edge(made, step("two"), 2), Edge(made, step("x"), DEFAULT))
    )
    assert turn.outcome.output == "two(2)"


async def test_wb_5_plain_functions_in_threads_and_generators(kit: Any) -> None:
    @node
    def plain(value: str, ctx: NodeContext) -> None:
        ctx.output = value * 2

    @node
    def lines(value: str, ctx: NodeContext) -> Any:
        yield progress("one")
        ctx.output = value + "!"

    turn = await run_flow(kit, Workflow("wf", START >> plain >> lines))
    assert outputs(turn.events) == {"wf@1/plain@1": "hihi", "wf@1/lines@1": "hihi!"}


async def test_wb_5_what_is_set_before_a_question_is_dropped(kit: Any, tmp_path: Path) -> None:
    """ASK-5: an output before the pause does not count; the body sets it again when it is run again."""

    @node
    async def ask(value: str, ctx: NodeContext) -> None:
        ctx.output = value
        ctx.route = await ctx.request_input("side", "Which?")

    flow = Workflow("wf", START >> ask, ask.on({"left": step("left"), DEFAULT: step("other")}))
    lab = kit.Lab(flow.as_agent, url=f"sqlite:///{tmp_path}/s.db")
    turn = await lab.run("hi")
    assert (turn.outcome.kind, outputs(turn.events)) == ("paused", {})
    turn = await answered(lab, {turn.waits_for[0]: "left"})
    assert outputs(turn.events) == {"wf@1/ask@1": "hi", "wf@1/left@1": "left(hi)"}


async def test_rty_3_what_a_failed_attempt_set_does_not_count(kit: Any) -> None:
    tries: list[int] = []

    @node(retry=Retry(initial_delay=0, jitter=0))
    async def flaky(value: str, ctx: NodeContext) -> None:
        ctx.output = ctx.attempt
        tries.append(1)
        if len(tries) < 3:
            raise OSError

    assert (await run_flow(kit, Workflow("wf", START >> flaky))).outcome.output == 3


async def test_dyn_2_children_set_theirs(kit: Any) -> None:
    @node
    async def child(value: str, ctx: NodeContext) -> None:
        ctx.output = f"child of {value}"

    @node
    async def parent(value: str, ctx: NodeContext) -> None:
        ctx.output = [await ctx.run_node(child, value)]

    assert (await run_flow(kit, Workflow("wf", START >> parent))).outcome.output == ["child of hi"]


async def test_eff_8_a_body_that_is_carried_out_as_an_effect(kit: Any) -> None:
    """What it sets is part of the effect's result."""
    seen: list[Any] = []

    class Engine(Plugin):
        async def perform_node(self, call: Any) -> Any:
            result = await call.default()
            seen.append((result.output, result.routes))
            return result

    def both(ctx: NodeContext) -> None:
        ctx.output, ctx.route = 5, "left"

    turn = await run_flow(kit, Workflow("wf", *deciding(both, effect=True)), plugins=[Engine()])
    assert turn.outcome.output == "left(5)"
    assert seen[0] == (5, ("left",))


async def test_wb_5_hooks_and_late_tasks_set_nothing(kit: Any) -> None:
    kept: list[NodeContext] = []

    class Meddler(Plugin):
        async def before_node(self, ctx: NodeContext, input: Any) -> None:
            ctx.output = 1

    turn = await kit.Lab(Workflow("wf", START >> step("a")).as_agent).run("hi", plugins=[Meddler()])
    assert isinstance(turn.error, InvalidRunNodeContext)

    @node
    async def keep(value: str, ctx: NodeContext) -> None:
        kept.append(ctx)

    await run_flow(kit, Workflow("wf", START >> keep))
    with pytest.raises(ContextClosedError, match=r"ctx\.output"):
        kept[0].output = 1


# --- the state schema -------------------------------------------------------------------------------------------------


@dataclass
class Address:
    street: str


def writing(value: Any) -> Any:
    """A node that writes one key."""

    async def write(given: str, ctx: NodeContext) -> None:
        ctx.state["k"] = value

    return node(write)


@pytest.mark.parametrize(
    ("declared", "good", "bad"),
    [
        (int, 1, "x"),
        (str, "x", 1),
        (list[int], [1, 2], [1, "x"]),
        (dict[str, float], {"a": 1.5}, {"a": "x"}),
        (Address, {"street": "x"}, {"streets": "x"}),
        (int | None, None, "x"),
        (bool, True, "yes"),
    ],
)
async def test_state_3_types_are_checked_when_they_are_written(kit: Any, declared: Any, good: Any, bad: Any) -> None:
    """Class and mapping alike; nothing of a refused write is stored, and the text never quotes the value."""
    schema_class = type("Keys", (), {"__annotations__": {"k": declared}})
    for schema in ({"k": declared}, schema_class):
        for value, fits in ((good, True), (bad, False)):
            lab = kit.Lab(Workflow("wf", START >> writing(value), state_schema=schema).as_agent)
            turn = await lab.run("hi")
            assert (turn.error is None) is fits, (schema, value)
            if not fits:
                assert "'k'" in str(turn.error)
                assert dict((await lab.session()).state) == {}


@pytest.mark.parametrize("how", ["update", "setdefault", "delta", "edit", "yielded"])
async def test_state_3_every_way_to_write_is_checked(kit: Any, how: str) -> None:
    @node
    async def write(given: str, ctx: NodeContext) -> AsyncIterator[Any]:
        if how == "update":
            ctx.state.update({"n": "x"})
        elif how == "setdefault":
            ctx.state.setdefault("n", "x")
        elif how == "delta":
            ctx.actions.state_delta["n"] = "x"
        elif how == "edit":
            ctx.state["xs"] = [1]
            with ctx.state.edit("xs") as xs:
                xs.append("x")

        yield Event(actions=EventActions(state_delta={"n": "x"} if how == "yielded" else {}))

    lab = kit.Lab(Workflow("wf", START >> write, state_schema={"n": int, "xs": list[int]}).as_agent)
    turn = await lab.run("hi")
    assert turn.error is not None
    assert "state[" in str(turn.error)
    assert "n" not in (await lab.session()).state


@pytest.mark.parametrize("what", ["output_key", "tool"])
async def test_state_3_agents_that_are_nodes_are_checked(kit: Any, what: str) -> None:
    """What an agent writes by its ``output_key`` or a tool of it leaves on the node's events."""

    @tool
    def note(ctx: ToolContext) -> str:
        """Notes."""
        ctx.state["n"] = "x"
        return "noted"

    replies: list[Any] = ["text"] if what == "output_key" else [call("note"), "text"]
    more: dict[str, Any] = {"output_key": "n"} if what == "output_key" else {"tools": [note]}

    def build() -> Any:
        agent = LlmAgent(name="ag", model=ScriptedModel(replies), **more)
        return Workflow("wf", START >> agent, state_schema={"n": int}).as_agent()

    lab = kit.Lab(build)
    turn = await lab.run("hi")
    assert "state['n']" in str(turn.error)
    assert dict((await lab.session()).state) == {}


async def test_state_3_agents_below_an_agent_node_are_checked(kit: Any) -> None:
    """Children of a sequence that is a node; a graph in it that declares keys of its own is checked by those."""

    def build(key: str) -> Any:
        first = LlmAgent(name="one", model=ScriptedModel(["text"]), output_key=key)
        inner = Workflow("inner", START >> writing(1), state_schema={"k": int}).as_agent()
        return Workflow(
            "wf", START >> SequentialAgent(name="seq", sub_agents=[first, inner]), state_schema={"s": str, "n": int}
        )

    assert (await kit.Lab(build("s").as_agent).run("hi")).error is None
    assert "state['n']" in str((await kit.Lab(build("n").as_agent).run("hi")).error)


async def test_state_3_an_inner_workflow_has_a_schema_of_its_own(kit: Any) -> None:
    """Children inherit it; one that declares its own is checked by that."""

    @node
    async def write(given: str, ctx: NodeContext) -> None:
        ctx.state["inner"] = 1

    inner = Workflow("inner", START >> write, state_schema={"inner": int})
    turn = await kit.Lab(Workflow("wf", START >> inner, state_schema={"n": int}).as_agent).run("hi")
    assert turn.error is None


async def test_state_3_a_declared_key_may_be_deleted(kit: Any) -> None:
    @node
    async def drop(given: str, ctx: NodeContext) -> bool:
        ctx.state["n"] = 1
        ctx.state.delete("n")
        return "n" in ctx.state

    lab = kit.Lab(Workflow("wf", START >> drop, state_schema={"n": int}).as_agent)
    turn = await lab.run("hi")
    assert turn.error is None
    assert turn.outcome.output is False
    assert "n" not in (await lab.session()).state
