"""Random trees of LLM and composed agents: talked to until nothing waits, cut, restarted (core §0, activations ACT-41).

Laws: what is yielded is stored; every prompt is valid; the live state is the stored one; an outcome names every open
call of its invocation; a tool runs at most once per call and never when refused; runs end; a tree that crashed
anywhere comes to the same end as one that did not.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, example, given, note, settings
from hypothesis import strategies as st
from tests.acceptance.agent_lab import Crash, Lab, lines_of
from tests.acceptance.tree_shapes import TREES, Shape, build

from hookwork import Event, Session
from hookwork.errors import LlmCallLimitError, NothingToResume
from hookwork.records.history import Call
from hookwork.view import segment_name
from hookwork_inmemory import InMemorySessionService

PATIENCE = 20.0
#: Among the picks: something is said that answers nothing.
CHAT = 9
SAYS = re.compile(r"call |response |'")
#: ids that the kit made up, and the numbers of approval requests: their order between places is free.
MADE_UP = re.compile(r"#adk-[0-9a-f-]+|(?<=approve)#r\d+")


class Memory:
    """Sessions in the process, as the lab wants them."""

    def __init__(self) -> None:
        self.sessions = InMemorySessionService()


class File:
    """Sessions in a SQLite file; every run opens it anew."""

    def __init__(self, folder: str) -> None:
        self.sessions = f"sqlite:///{folder}/tree.db"


class Talk(msgspec.Struct):
    """How a person talks: which open call is answered next, and what happens to runs meanwhile.

    ``cuts``: (events, way) for the runs in order; ``way``: crash, leave, stop, cancel.
    """

    picks: tuple[int, ...] = ()
    cuts: tuple[tuple[int, str], ...] = ()


def rejected(shape: Shape, name: str) -> bool:
    """Whether the person refuses the calls of an agent."""
    if name in (shape.name, f"{shape.name}_in"):
        return shape.rejects
    return any(rejected(child, name) for child in shape.children)


class Person:
    """Talks to a tree until nothing waits any more, and checks the laws on the way."""

    def __init__(self, shape: Shape, talk: Talk, store: Any = None) -> None:
        self.shape = shape
        self.lab = Lab(lambda world: build(shape, world), store or Memory())
        self.picks = list(talk.picks)
        self.cuts = list(talk.cuts)
        self.running: Any = None
        self.stopping: Any = None
        self.outer: set[Any] = set()

    async def talk(self) -> list[str]:
        message: Any = "hi"
        self.outer = asyncio.all_tasks()
        for _ in range(40):
            await self.say(message)
            session = await self.lab.session()
            waiting = sorted(session.history().open_calls().values(), key=lambda c: (c.path, c.name, c.position))
            pick = self.picks.pop(0) if waiting and self.picks else 0
            if pick == CHAT:
                message = "wait"
            elif waiting:
                message = await self.answer(waiting[pick % len(waiting)])
            elif session.open_delegations:
                message = "go on"
            else:
                self.check_answers(session)
                return lines_of(session.events)
        speakers = session.history().scope_paths
        handed_over = [call for call in session.open_delegations if segment_name(speakers[call.scope][1]) != call.name]
        if handed_over:  # transferred away: who works on it now answers for as long as somebody speaks
            self.check_answers(session)
            return lines_of(session.events)
        raise AssertionError("it never ends:\n" + "\n".join(await self.lab.lines()))

    async def answer(self, call: Call) -> Any:
        if call.kind == "confirmation":
            return await self.lab.answer({call.id: {"confirmed": not rejected(self.shape, call.author)}})
        return await self.lab.answer({call.id: {"value": 1}})

    async def say(self, message: Any) -> None:
        """One run, continued by its id for as long as it was cut or failed."""
        invocation_id = None
        for _ in range(30):
            async with asyncio.timeout(PATIENCE):
                error = await self.run(message, invocation_id)
            if error is None or isinstance(error, NothingToResume):
                return
            if isinstance(error, LlmCallLimitError):
                assume(False)
            assert isinstance(error, Crash | ValueError | asyncio.CancelledError), repr(error)
            self.lab.store.revive()
            message, invocation_id = None, await self.lab.newest_invocation()
        raise AssertionError("it fails for ever")

    async def run(self, message: Any, invocation_id: str | None) -> BaseException | None:
        """One run, cut if that is due; None when it came to its end or only was left."""
        cut, way = self.cuts.pop(0) if self.cuts else (0, "")
        if way == "crash":
            self.lab.store.crash_after = self.lab.store.stored + cut
        streaming = way in ("leave", "stop", "cancel") and cut % 2 == 1
        ending = asyncio.create_task(
            self.lab.run(message, invocation_id=invocation_id, streaming=streaming, on_event=self.watcher(cut, way))
        )
        self.running = ending
        try:
            turn = await ending
        except asyncio.CancelledError as error:
            assert way == "cancel"
            await self.check_left()
            return error
        if turn.error is None:
            await self.check(turn.outcome)
            if turn.outcome is not None and turn.outcome.kind == "closed":
                return Crash()
        return turn.error

    def watcher(self, cut: int, way: str) -> Any:
        """Checks every event as it passes, and ends the run at the one that is due."""
        count = 0
        folded: dict[str, Any] | None = None

        async def on_event(run: Any, event: Event) -> bool:
            nonlocal count, folded
            if not event.partial:
                stored = run.session.events[-1]
                assert stored == event, "INV-1: an event is handed on before it is stored"
                folded = folded if folded is not None else {}
                for past in run.session.events:
                    folded.update(past.actions.state_delta)
                assert dict(run.session.state) == folded, "INV-6"
            count += 1
            if count != cut or way in ("", "crash"):
                return False
            if way == "cancel":
                self.running.cancel()
                await asyncio.sleep(0)
            elif way == "stop":
                self.stopping = asyncio.get_running_loop().create_task(run.stop())
            return way == "leave"

        return on_event

    async def check_left(self) -> None:
        """Nothing of a run that was ended goes on (INV-3)."""
        others = asyncio.all_tasks() - {asyncio.current_task(), *self.outer}
        assert not others, f"INV-3: {others}"

    async def check(self, outcome: Any) -> None:
        await self.check_left()
        session = await self.lab.session()
        if outcome.kind == "closed":
            return
        waits = [c for c in session.history().open_calls().values() if c.invocation_id == outcome.invocation_id]
        note("\n".join(lines_of(session.events)) + f"\n{outcome}")
        named = {c.id for c in outcome.open_calls}
        assert {c.id for c in waits} <= named <= set(session.open_calls)
        assert {c.id for c in outcome.open_delegations} == {c.id for c in session.open_delegations}
        if outcome.open_calls:
            assert outcome.kind == "paused"

    def check_answers(self, session: Session) -> None:
        """Every answered approval was used: its call has a real response."""
        for call in session.history().calls:
            last = call.last_response
            if last is not None and last.placeholder and call.request is not None:
                assert call.request.answer is None, f"the answer about {call.path} {call.name} was lost"

    def check_tools(self, extra: int) -> None:
        extra += len(self.lab.world.failed)  # who fails cuts the calls of its siblings short (ACT-41 b)
        for place, count in Counter(self.lab.world.ran).items():
            assert count <= 1 + extra, place
        for place in self.lab.world.ran:
            owner, what = place.rpartition("#")[2].rsplit("_", 1)
            assert not (what.startswith("gated") and rejected(self.shape, owner)), place


def by_place(lines: list[str]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    for line in lines:
        place, _, what = line.partition(" ")
        what = MADE_UP.sub("#id", what)
        if not SAYS.search(what):
            continue  # state written by a long-running body that a crash leaves unrun (ACT-41 a)
        places.setdefault(place, []).extend(what.split(" response ") if place != "U" else ())
    return places


async def compare(shape: Shape, picks: tuple[int, ...], crashes: tuple[int, ...], store: Any = None) -> None:
    plain = Person(shape, Talk(picks=picks))
    expected = await plain.talk()
    plain.lab.world.check_prompts()
    plain.check_tools(0)
    crashed = Person(shape, Talk(picks=picks, cuts=tuple((n, "crash") for n in crashes)), store)
    found = await crashed.talk()
    crashed.lab.world.check_prompts()
    crashed.check_tools(len(crashes))
    assert by_place(found) == by_place(expected)


#: An agent that is transferred back to hands over a task: the call is that place's, not the first one's (ACT-20).
BACK_AGAIN = Shape(
    kind="chat",
    name="chat0",
    children=(Shape(kind="task", name="task1", asks=True), Shape(kind="chat", name="chat2", steps=("back",))),
    steps=("tool", "sub", "sub+gated"),
)


@example(shape=BACK_AGAIN, picks=(), crashes=())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    shape=TREES,
    picks=st.lists(st.integers(0, 3), max_size=4).map(tuple),
    crashes=st.lists(st.integers(1, 8), max_size=4).map(tuple),
)
def test_act_41_a_crashed_tree_comes_to_the_same_end(
    shape: Shape, picks: tuple[int, ...], crashes: tuple[int, ...]
) -> None:
    asyncio.run(compare(shape, picks, crashes))
    assert shape.name


async def interrupt(shape: Shape, picks: tuple[int, ...], cuts: tuple[tuple[int, str], ...], store: Any = None) -> None:
    person = Person(shape, Talk(picks=picks, cuts=cuts), store)
    await person.talk()
    person.lab.world.check_prompts()
    person.check_tools(len(cuts))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    shape=TREES,
    picks=st.lists(st.sampled_from([0, 1, 2, 3, CHAT]), max_size=6).map(tuple),
    cuts=st.lists(
        st.tuples(st.integers(1, 8), st.sampled_from(["leave", "stop", "cancel", "crash"])), min_size=1, max_size=4
    ).map(tuple),
)
def test_inv_3_a_tree_that_is_ended_anywhere_goes_on(
    shape: Shape, picks: tuple[int, ...], cuts: tuple[tuple[int, str], ...]
) -> None:
    asyncio.run(interrupt(shape, picks, cuts))
    assert shape.name


CUTS = st.lists(st.tuples(st.integers(1, 8), st.sampled_from(["leave", "stop", "cancel", "crash"])), max_size=3)


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    shape=TREES,
    picks=st.lists(st.integers(0, 3), max_size=3).map(tuple),
    crashes=st.lists(st.integers(1, 8), min_size=1, max_size=3).map(tuple),
    cuts=CUTS.map(tuple),
)
def test_act_41_inv_6_a_tree_in_a_file_comes_to_the_end_of_one_in_memory(
    shape: Shape, picks: tuple[int, ...], crashes: tuple[int, ...], cuts: tuple[tuple[int, str], ...]
) -> None:
    """Every run opens the file anew, so the state that a run begins with is the stored one."""
    pytest.importorskip("hookwork_database", reason="needs hookwork-database")
    with TemporaryDirectory() as folder:
        asyncio.run(compare(shape, picks, crashes, File(folder)))
    with TemporaryDirectory() as folder:
        asyncio.run(interrupt(shape, picks, cuts, File(folder)))
    assert shape.name
