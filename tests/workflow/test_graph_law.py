"""Random graphs with random pauses, failures, retries, crashes and restarts against a sequential interpreter (issue 8).

The same outputs, each node completed exactly once, no question asked twice, no event lost.
"""

from __future__ import annotations

from collections import Counter
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.workflow.random_graphs import NESTED, Expected, Plan, World, answer, build, expected, plans

from hookwork import Content, Event, FunctionResponse, Part
from hookwork.errors import NothingToResume

LAW = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

#: Runs after which a plan must have come to its end: each one answers, continues after a failure, or after a crash.
RUNS = 80


class Story:
    """One plan from the first message to the end, in as many processes as it takes."""

    def __init__(self, kit: Any, plan: Plan, draw: Any, url: str = "") -> None:
        self.world = World(draw(st.integers(0, 1000)))
        self.lab = kit.Lab(lambda: build(plan, self.world), url=url)
        self.crash = kit.Crash
        self.draw = draw
        self.seen: list[str] = []
        self.crashes = 0

    async def play(self, message: str, crashes: list[int]) -> None:
        turn = await self._run(message, crashes)
        for _ in range(RUNS):
            if turn.error is not None and not isinstance(turn.error, NothingToResume):
                assert isinstance(turn.error, self.crash | OSError), turn.error
                turn = await self._run(None, crashes, invocation_id=await self.lab.first_invocation())
                continue
            # After a crash behind its last event a run is at its end, or waits, without anybody having been told.
            waiting = list((await self.lab.session()).open_calls)
            if not waiting:
                assert turn.error is not None or turn.outcome.kind == "completed"
                return
            assert turn.error is not None or turn.waits_for == waiting
            turn = await self._run(self._answers(waiting), crashes)
        raise AssertionError(f"not at its end after {RUNS} runs")

    async def _run(self, message: Any, crashes: list[int], **arguments: Any) -> Any:
        store = self.lab.store
        store.revive()
        store.crash_after = store.stored + crashes.pop() if crashes else None
        turn = await self.lab.run(message, **arguments)
        self.seen += [event.id for event in turn.events]
        self.crashes += isinstance(turn.error, self.crash)
        self.world.ended = ended(await self.lab.events())
        return turn

    def _answers(self, waiting: list[str]) -> Content:
        """Answers to some of the open questions, at least one, in any order."""
        chosen = self.draw(st.lists(st.sampled_from(waiting), min_size=1, unique=True))
        parts = []
        for call_id in chosen:
            approval = call_id.startswith("wf_tool_confirmation:")
            payload = {"confirmed": True} if approval else {"result": answer(*self.world.asked[call_id])}
            parts.append(
                Part(function_response=FunctionResponse(id=call_id, name="adk_request_input", response=payload))
            )
        return Content(role="user", parts=parts)


def is_end(event: Event) -> bool:
    """An output, a route or a marker."""
    marked = event.node_info is not None and event.node_info.status == "completed"
    return output_of(event) is not None or bool(event.routes) or marked


def output_of(event: Event) -> Any:
    """The output as it was given; a text that is one is stored once (NODE-8)."""
    info = event.node_info
    return event.text if event.output is None and info is not None and info.message_as_output else event.output


def marks_an_agent(event: Event) -> bool:
    """The marker behind an agent's text: the agent has ended, the node had its output already."""
    return output_of(event) is None and name_of(event.path).startswith("agent") and not event.routes


def places(event: Event) -> set[str]:
    """The places whose end an event is: its own, and those whose output it is."""
    info = event.node_info
    return {event.path, *((info.output_for or ()) if info is not None else ())} if is_end(event) else set()


def ended(events: list[Event]) -> set[str]:
    """Paths with a stored end."""
    return {path for event in events for path in places(event)}


def name_of(path: str) -> str:
    return path.rpartition("/")[2].partition("@")[0]


def check(story: Story, events: list[Event], said: Expected) -> None:
    ends_at = [(path, event) for event in events for path in places(event) if path.count("/") == 1]
    outputs = Counter((name_of(path), repr(_plain(output_of(e)))) for path, e in ends_at if output_of(e) is not None)
    assert outputs == said.outputs
    ends = Counter(path for event in events for path in places(event) if not marks_an_agent(event))
    assert set(ends.values()) <= {1}, "a node completed twice"
    by_name = Counter(name_of(path) for path in ended(events))
    for name, number in said.activations.items():
        if not name.startswith("hand"):  # its answer is its end; an inner workflow's is its last node's
            assert by_name[f"{name}_b" if name.startswith(NESTED) else name] == number, name
    asked = Counter(call.id for event in events for call in event.function_calls)
    assert set(asked.values()) <= {1}, "asked twice"
    assert Counter(story.world.asked[call_id][0] for call_id in asked) == said.questions
    if not story.crashes:  # a crash between the body and its event lets it run again, with the same call id
        tools = {key: number for key, number in story.world.ran.items() if key[0].endswith(".tool")}
        assert sum(tools.values()) == sum(n for name, n in said.activations.items() if name.startswith("gate"))
    assert story.world.entered_after_end == [], "entered although its end was stored"
    stored = [event.id for event in events if event.author != "user"]
    assert len(stored) == len(set(stored))
    assert [id for id in stored if id in set(story.seen)] == story.seen  # in the order in which they were shown
    assert len(stored) - len(story.seen) <= story.crashes, "an event was stored and never shown"


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else value


@LAW
@given(plan=plans(), data=st.data())
async def test_random_graphs_with_pauses_failures_and_restarts(kit: Any, plan: Plan, data: st.DataObject) -> None:
    said = expected(plan, "go")
    assume(said is not None)
    assert said is not None
    story = Story(kit, plan, data.draw)
    await story.play("go", [])
    check(story, await story.lab.events(), said)


@LAW
@given(plan=plans(max_steps=6), crashes=st.lists(st.integers(1, 8), min_size=1, max_size=5), data=st.data())
async def test_random_graphs_with_crashes(kit: Any, plan: Plan, crashes: list[int], data: st.DataObject) -> None:
    """The process dies behind any stored event, several times over."""
    said = expected(plan, "go")
    assume(said is not None)
    assert said is not None
    story = Story(kit, plan, data.draw)
    await story.play("go", crashes)
    check(story, await story.lab.events(), said)


@settings(LAW, max_examples=20)
@given(plan=plans(), crashes=st.lists(st.integers(1, 8), max_size=3), data=st.data())
async def test_random_graphs_in_a_database(kit: Any, plan: Plan, crashes: list[int], data: st.DataObject) -> None:
    """Each process opens the store for itself; what it knows of the run it has read."""
    said = expected(plan, "go")
    assume(said is not None)
    assert said is not None
    with TemporaryDirectory() as folder:
        story = Story(kit, plan, data.draw, url=f"sqlite:///{folder}/s.db")
        await story.play("go", crashes)
        check(story, await story.lab.events(), said)
