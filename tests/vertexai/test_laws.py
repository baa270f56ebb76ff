"""Laws that hold whatever happens: nothing is lost, nothing is doubled, all processes come to see the same."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.vertexai.fake import FakeVertex, Fault
from tests.vertexai.steps import KEY, sessions, waits

from hookwork.errors import BackendError
from hookwork.records.session import Session
from hookwork_testkit.suites.base import drive, in_own_loop, say, texts
from hookwork_vertexai import VertexAiSessionService

_projects = (f"law-{number}" for number in itertools.count(1))
_LAW = settings(max_examples=25, deadline=None, database=None)

#: What may happen to one append, and whether the service keeps the event all the same.
_FAULTS = [
    Fault(429),
    Fault(500),
    Fault(503),
    Fault(drop=True),
    Fault(500, carried_out=True),
    Fault(503, carried_out=True),
    Fault(drop=True, carried_out=True),
    Fault(403),
    Fault(text="{oops", carried_out=True),
]
#: (which process, what it does, a time or a number of seconds by which its clock is off).
_step = st.tuples(st.integers(0, 1), st.sampled_from(["append", "append", "refresh", "open"]), st.integers(0, 60))


async def test_ses_19_every_event_is_stored_once_whatever_fails(fake: FakeVertex) -> None:
    """VTX-13, CS-27: the caller appends the same event until that succeeds."""

    @_LAW
    @given(
        faults=st.lists(st.lists(st.sampled_from(_FAULTS), max_size=4), min_size=1, max_size=5),
        blind=st.lists(st.booleans(), max_size=6),
    )
    def law(faults: list[list[Fault]], blind: list[bool]) -> None:
        drive(lambda: _check_appended_once(fake, faults, blind))

    await in_own_loop(law)


async def _check_appended_once(fake: FakeVertex, faults: list[list[Fault]], blind: list[bool]) -> None:
    project = next(_projects)
    service, other = sessions(fake, project=project), sessions(fake, project=project)
    session = await service.create_session(**KEY)
    for number, failing in enumerate(faults):
        fake.fail("append", *failing)
        for cannot_look in blind[:number]:
            if cannot_look:
                fake.fail("events", 403)
        event = say(str(number), delta={"n": number})
        shown = list(session.events)
        with waits():
            for _ in range(12):
                try:
                    await service.append_event(session, event)
                    break
                except BackendError:
                    assert list(session.events) == shown, "a failed append changes no handle"
        fake.faults.clear()
    expected = [str(number) for number in range(len(faults))]
    assert texts(session) == texts(await other.get_session(**KEY)) == expected
    assert session.state["n"] == len(faults) - 1
    rows = fake.engine(f"projects/{project}/locations/us-central1/reasoningEngines/42").sessions["s-1"].events
    assert [item["rawEvent"]["id"] for _, item in rows] == [event.id for event in session.events], "no second row"
    await service.close()
    await other.close()


async def test_trap_32_two_processes_come_to_see_the_same(fake: FakeVertex) -> None:
    """VTX-12, LOG-3, LOG-5: their clocks are up to half a minute apart, and either may append at any time."""

    @_LAW
    @given(steps=st.lists(_step, max_size=20), skew=st.integers(-30, 30))
    def law(steps: list[tuple[int, str, int]], skew: int) -> None:
        drive(lambda: _check_converged(fake, steps, skew))

    await in_own_loop(law)


async def _check_converged(fake: FakeVertex, steps: list[tuple[int, str, int]], skew: int) -> None:
    project = next(_projects)
    both = [sessions(fake, project=project), sessions(fake, project=project)]
    await both[0].create_session(**KEY)
    handles = [await service.get_session(**KEY) for service in both]
    appended: list[str] = []
    for number, (who, what, later) in enumerate(steps):
        if what == "append":
            at = number + later / 100 + (skew if who else 0)
            await both[who].append_event(handles[who], say(str(number), at=at, delta={f"k{who}": number}))
            appended.append(str(number))
        elif what == "refresh":
            before = len(handles[who].events)
            assert await both[who].refresh(handles[who]) == len(handles[who].events) - before
        else:
            _assert_same(handles[who], await both[who].get_session(**KEY), both[who])
    for service, handle in zip(both, handles, strict=True):
        await service.refresh(handle)
    fresh = sessions(fake, project=project)
    truth = await fresh.get_session(**KEY)
    for handle in handles:
        assert texts(handle) == texts(truth)
        assert (handle.revision, dict(handle.state)) == (truth.revision, dict(truth.state))
        assert handle.last_update_time == truth.last_update_time
    assert sorted(texts(truth)) == sorted(appended)
    for service in (*both, fresh):
        await service.close()


def _assert_same(held: Session, opened: Session, service: VertexAiSessionService) -> None:
    """What was shown before is shown by a handle opened later, in the same order."""
    known: Any = iter(texts(opened))
    assert all(text in known for text in texts(held)), "a subsequence"
    assert opened.backend.owner is service
