"""What hooks, engines and bodies may give that no node should give, and errors that are hard to handle."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from tests.workflow.flows import answered, handoff, outputs, run_flow, step

import hookwork.merge
from hookwork import Event, NodeOutcome, Plugin, Runner
from hookwork.effects import NodeResult
from hookwork.errors import ConfigurationError, InvalidResumeResponse, PluginError, ValidationError
from hookwork.resolve import load_agent
from hookwork_llm import LlmAgent
from hookwork_workflow import DEFAULT, START, GraphNode, SequentialAgent, Workflow, node

#: A workflow that somebody names where an agent is wanted.
FLOW = Workflow("flow", START >> step("a"))


def routing(first: Any) -> Workflow:
    """The first node, then ``bug`` or, for every other route, ``other``."""
    return Workflow("wf", START >> first, first.on({"bug": step("bug"), DEFAULT: step("other")}))


class Gives(Plugin):
    """A plugin whose one hook gives one value for the node ``first``."""

    def __init__(self, hook: str, value: Any) -> None:
        self.name = "gives"

        async def before_node(ctx: Any, input: Any) -> Any:
            return value if ctx.node.name == "first" else None

        async def after_node(ctx: Any, outcome: Any) -> Any:
            return value if ctx.node.name == "first" else None

        async def perform_node(call: Any) -> Any:
            return value if call.data["node"] == "first" else await call.default()

        setattr(self, hook, {"before_node": before_node, "after_node": after_node, "perform_node": perform_node}[hook])


@pytest.mark.parametrize("given", ["bug", ["bug"], ("bug",), {"bug"}])
async def test_edge_3_one_route_and_several_are_told_apart(kit: Any, given: Any) -> None:
    """EDGE-3: ``routes="bug"`` is one route, not the letters of it."""

    @node
    async def first(value: str) -> Event:
        return Event(output=value, routes=given)

    turn = await run_flow(kit, routing(first))
    assert [event.routes for event in turn.events if event.path == "wf@1/first@1"] == [("bug",)]
    assert outputs(turn.events)["wf@1/bug@1"] == "bug(hi)"


@pytest.mark.parametrize(("given", "text"), [(True, "true"), (False, "false"), (7, "7"), ((1, True, "x"), "1 true x")])
def test_edge_3_routes_on_events_and_outcomes_are_text(given: Any, text: str) -> None:
    assert " ".join(Event(routes=given).routes) == text
    assert " ".join(NodeOutcome(routes=given).routes) == text
    assert " ".join(NodeResult(routes=given).routes) == text


@pytest.mark.parametrize("given", [1.5, [None], [["bug"]], {"bug": 1}, b"bug"])
def test_edge_3_what_is_no_route_is_refused(given: Any) -> None:
    for kind in (Event, NodeOutcome, NodeResult):
        with pytest.raises(ValidationError, match="a route is text, a whole number or a boolean"):
            kind(routes=given)


@pytest.mark.parametrize("hook", ["before_node", "after_node"])
async def test_hk_2_the_route_of_a_hook_is_one_route(kit: Any, hook: str) -> None:
    plugin = Gives(hook, NodeOutcome(output="x", routes="bug"))  # type: ignore[arg-type]
    turn = await run_flow(kit, routing(step("first")), plugins=[plugin])
    assert outputs(turn.events)["wf@1/bug@1"] == "bug(x)"


async def test_eff_3_the_route_of_an_engine_is_one_route(kit: Any) -> None:
    plugin = Gives("perform_node", NodeResult(output="x", routes="bug"))  # type: ignore[arg-type]
    turn = await run_flow(kit, routing(step("first")), plugins=[plugin])
    assert outputs(turn.events)["wf@1/bug@1"] == "bug(x)"


async def test_eff_3_an_engine_that_gives_no_events_is_named(kit: Any) -> None:
    plugin = Gives("perform_node", NodeResult(events=(5,)))  # type: ignore[arg-type]
    with pytest.raises(PluginError, match="'gives': perform_node returned a NodeResult with int among its events"):
        await run_flow(kit, routing(step("first")), plugins=[plugin])


class Mute(Exception):
    """An error that cannot be shown as text."""

    def __str__(self) -> str:
        raise OSError("no text")


class Alarm(BaseException):
    """An error outside `Exception`."""


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(trace, "get_tracer", lambda *names, **more: provider.get_tracer(*names, **more))
    yield exporter
    provider.shutdown()


@pytest.mark.parametrize(("kind", "text"), [(Mute, "(its text cannot be had: OSError)"), (Alarm, "")])
async def test_fail_1_an_error_without_text_or_outside_exception_is_raised_and_recorded(
    kind: type[BaseException], text: str, spans: InMemorySpanExporter
) -> None:
    """FAIL-1, FAIL-6: the original error leaves; its event and its span say what it was."""
    error = kind()

    @node
    async def first(value: str) -> str:
        raise error

    async with Runner(Workflow("wf", START >> first).as_agent(), sessions="memory:") as runner:
        run = runner.run(user_id="u", message="hi")
        seen: list[Event] = []

        async def read() -> None:
            async for event in run:
                seen.append(event)

        with pytest.raises(kind) as raised:
            await read()
    assert raised.value is error
    assert [(event.error_code, event.error_message) for event in seen] == [(kind.__name__, text)]
    [span] = [span for span in spans.get_finished_spans() if span.name == "invoke_node first"]
    assert span.status.status_code is StatusCode.ERROR


async def test_act_6_the_work_of_a_resume_does_not_double_with_each_level(kit: Any) -> None:
    """ACT-6, ACT-23: a graph in a graph in a graph is asked once between two events, however deep it lies."""
    asked: list[str] = []

    class Leaf(GraphNode[Any, Any]):
        name = "leaf"

        async def run(self, ctx: Any, input: Any) -> AsyncIterator[Event]:
            yield Event(output="leaf")

        def standing(self, view: Any) -> Any:
            asked.append(view.path)
            return super().standing(view)

    async def resume(levels: int) -> int:
        flow: Any = Leaf()
        for level in range(levels):
            flow = Workflow(f"level{level}", START >> flow)
        lab = kit.Lab(Workflow("wf", START >> flow >> handoff("ask", "q")).as_agent)
        assert (await lab.run("hi")).outcome.kind == "paused"
        asked.clear()
        turn = await answered(lab, {"q": "yes"})
        assert outputs(turn.events) == {}
        assert turn.outcome.kind == "completed"
        return len(asked)

    assert await resume(40) == await resume(2)


class Long:
    """A route of one's own, without a text of its own."""

    def matches(self, event: Event) -> bool:
        return len(event.output) > 3


async def test_rpl_8_a_graph_with_a_route_of_ones_own_is_known_again_in_another_process(kit: Any) -> None:
    """RPL-8: the fingerprint of a graph that is built anew is the same, whatever addresses its objects have."""

    def build() -> Any:
        first = handoff("first", "q")
        return Workflow("wf", START >> first, first.on({Long(): step("long"), DEFAULT: step("short")})).as_agent()

    kept = [build() for _ in range(3)]  # alive at once, so no two of them share an address
    assert len({agent.workflow.graph.fingerprint for agent in kept}) == 1
    lab = kit.Lab(build)
    assert (await lab.run("hi")).outcome.kind == "paused"
    turn = await answered(lab, {"q": "a long answer"})
    assert outputs(turn.events) == {"wf@1/long@1": "long(a long answer)"}


async def test_edge_2_a_route_of_ones_own_that_fails_is_named(kit: Any) -> None:
    class Broken:
        def __repr__(self) -> str:
            return "Broken()"

        def matches(self, event: Event) -> bool:
            raise KeyError("size")

    first = step("first")
    with pytest.raises(KeyError) as raised:
        await run_flow(kit, Workflow("wf", START >> first, first.on({Broken(): step("a"), DEFAULT: step("b")})))
    assert raised.value.__notes__[0] == 'in the route Broken() from node "first" to "a"'


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer"}, "$: does not fit 'type' of the schema, which says \"integer\""),
        ({"enum": ["yes", "no"]}, '$: does not fit \'enum\' of the schema, which says ["yes","no"]'),
        ({"enum": ["x" * 200]}, "$: does not fit 'enum' of the schema"),
    ],
)
async def test_ans_3_a_refused_answer_is_told_what_was_asked_for(kit: Any, schema: dict[str, Any], text: str) -> None:
    lab = kit.Lab(Workflow("wf", START >> handoff("first", "q", schema=schema)).as_agent)
    await lab.run("hi")
    with pytest.raises(InvalidResumeResponse) as raised:
        await answered(lab, {"q": "secret"})
    assert f"asked for: {text}; nothing was stored" in str(raised.value)
    assert "secret" not in str(raised.value)


async def test_fail_4_what_an_abandoned_body_fails_with_later_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """FAIL-4: its error goes to the log, not to the loop as an exception that nobody retrieved."""
    monkeypatch.setattr(hookwork.merge.cancel_and_wait, "__defaults__", (0.01,))
    release, reported = asyncio.Event(), []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["message"]))

    async def stubborn() -> None:
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()
        raise OSError("late")

    task = asyncio.ensure_future(stubborn())
    await asyncio.sleep(0)
    await hookwork.merge.cancel_and_wait([task])
    release.set()
    await asyncio.wait([task])
    await asyncio.sleep(0)
    del task
    gc.collect()
    assert "a task that was abandoned ended with OSError" in caplog.text
    assert reported == []


def test_wf_2_a_workflow_where_an_agent_or_tool_is_wanted_is_told_what_to_give() -> None:
    """WF-2: the error of every door names ``as_agent()``."""
    flow: Any = Workflow("wf", START >> step("a"))
    doors: list[Callable[[], Any]] = [
        lambda: Runner(flow),
        lambda: SequentialAgent(name="root", sub_agents=[flow]),
        lambda: LlmAgent(name="root", model="offline", tools=[flow]),
        lambda: load_agent(f"{__name__}:FLOW"),
    ]
    for door in doors:
        with pytest.raises(ConfigurationError, match=r"its as_agent\(\) returns"):
            door()
