"""What only the in-memory session service promises (services §3, GEN-2)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from hookwork.errors import SessionNotFoundError, StaleSessionError, ValidationError
from hookwork.platform import use_clock, use_uuids
from hookwork.records.event import Event, EventActions, new_event
from hookwork_inmemory import InMemorySessionService

KEY: dict[str, Any] = {"app_name": "a", "user_id": "u"}


def _clock(seconds: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


async def test_inm_5_max_sessions_evicts_the_oldest_by_update_time() -> None:
    service = InMemorySessionService(max_sessions=3)
    ticks = count()
    with use_clock(lambda: _clock(next(ticks))):
        handles = [await service.create_session(**KEY, session_id=f"s{n}") for n in range(3)]
        await service.append_event(handles[0], Event(invocation_id="i", author="u"))
        await service.create_session(**KEY, session_id="s3")
    ids = [session.id for session in await service.list_sessions(app_name="a")]
    assert ids == ["s2", "s0", "s3"], "s1 is the one that was touched longest ago"
    with pytest.raises(SessionNotFoundError):
        await service.append_event(handles[1], new_event("i", author="u"))
    await service.append_event(handles[0], new_event("i", author="u"))


async def test_inm_5_deleted_sessions_make_room_and_leave_nothing_behind() -> None:
    service = InMemorySessionService(max_sessions=2)
    for number in range(500):
        await service.create_session(**KEY, session_id=f"s{number}")
        await service.delete_session(**KEY, session_id=f"s{number}")
    assert len(service._ages) < 100
    assert service._apps == {}
    assert service._by_serial == {}
    for number in range(2):
        await service.create_session(**KEY, session_id=f"k{number}")
    assert len(await service.list_sessions(app_name="a")) == 2


async def test_inm_5_nothing_is_evicted_without_a_limit() -> None:
    service = InMemorySessionService()
    for number in range(50):
        await service.create_session(**KEY, session_id=f"s{number}")
    assert len(await service.list_sessions(app_name="a")) == 50


async def test_url_9_two_services_share_nothing() -> None:
    first, second = InMemorySessionService(), InMemorySessionService()
    await first.create_session(**KEY, session_id="s", state={"app:x": 1})
    assert await second.list_sessions(app_name="a") == []
    assert dict((await second.create_session(**KEY, session_id="s")).state) == {}


async def test_gen_2_ids_and_times_come_from_the_platform() -> None:
    service = InMemorySessionService()
    ids = count()
    with use_uuids(lambda: f"id-{next(ids)}"), use_clock(lambda: _clock(0)):
        session = await service.create_session(**KEY)
        event = await service.append_event(session, Event(invocation_id="i", author="u"))
    assert (session.id, event.id) == ("id-0", "id-1")
    assert event.timestamp == _clock(0).timestamp()
    assert session.last_update_time == _clock(0) + timedelta(microseconds=1)


async def test_bey_1_user_state_without_a_session() -> None:
    service = InMemorySessionService()
    assert dict(await service.get_user_state(**KEY)) == {}
    session = await service.create_session(**KEY, state={"user:x": 1})
    await service.delete_session(**KEY, session_id=session.id)
    assert dict(await service.get_user_state(**KEY)) == {"x": 1}


async def test_log_2_opening_a_handle_copies_nothing() -> None:
    service = InMemorySessionService()
    session = await service.create_session(**KEY, session_id="s", state={"k": 1})
    for _ in range(10):
        await service.append_event(session, new_event("i", author="u"))
    again = await service.get_session(**KEY, session_id="s")
    assert again.log is session.log
    assert again.session_state is session.session_state


async def test_a_stored_event_is_the_event_itself() -> None:
    """An event without ``temp:`` keys is shared, not copied (design §8)."""
    service = InMemorySessionService()
    session = await service.create_session(**KEY)
    event = new_event("i", author="u", actions=EventActions(state_delta={"k": 1}))
    assert await service.append_event(session, event) is event
    assert session.events[0] is event


async def test_gen_4_no_call_waits_for_the_loop() -> None:
    """Every method is one step, so nothing can come between its check and its act."""
    service = InMemorySessionService()
    session = await service.create_session(**KEY, session_id="s")
    loop_turns = 0

    def turn() -> None:
        nonlocal loop_turns
        loop_turns += 1

    asyncio.get_running_loop().call_soon(turn)
    await service.append_event(session, new_event("i", author="u"))
    await service.get_session(**KEY, session_id="s", tail=1)
    await service.refresh(session)
    await service.list_sessions(app_name="a")
    assert loop_turns == 0


@pytest.mark.parametrize("after", [datetime(2026, 1, 1), "2026", True])
async def test_ses_6_after_is_a_number_or_an_aware_time(after: Any) -> None:
    service = InMemorySessionService()
    await service.create_session(**KEY, session_id="s")
    with pytest.raises(ValidationError):
        await service.get_session(**KEY, session_id="s", after=after)


async def test_log_8_tail_is_not_mixed_with_other_filters() -> None:
    service = InMemorySessionService()
    session = await service.create_session(**KEY, session_id="s")
    with pytest.raises(ValidationError, match="tail"):
        await service.get_session(**KEY, session_id="s", tail=1, num_recent_events=1)
    with pytest.raises(ValidationError, match="count"):
        await service.load_earlier(session, -1)


async def test_inm_1_ids_that_run_together_are_different_sessions() -> None:
    """Whatever stands between them: the key is three ids, and the list is ordered by time, user, id (SES-9)."""
    service = InMemorySessionService()
    keys = [("a", "b", "c"), ("a", "bc", "c"), ("ab", "c", "c"), ("a", "b\x01", "c"), ("a", "b/c", "d")]
    ticks = count()
    with use_clock(lambda: _clock(-next(ticks))):
        for app, user, name in keys:
            await service.create_session(app_name=app, user_id=user, session_id=name, state={"k": f"{app}|{user}"})
    for app, user, name in keys:
        found = await service.get_session(app_name=app, user_id=user, session_id=name)
        assert found.state["k"] == f"{app}|{user}"
    listed = await service.list_sessions(app_name="a")
    assert [session.user_id for session in listed] == ["b/c", "b\x01", "bc", "b"], "the newest last"


async def test_inm_2_everything_is_decided_before_the_log_and_the_log_before_the_handle() -> None:
    """SES-19 before SES-18: a lost reply is no stale handle, even when a common key was written meanwhile."""
    service = InMemorySessionService()
    session = await service.create_session(**KEY, session_id="s")
    lost, behind = session.view(), session.view()
    event = new_event("i", author="u", actions=EventActions(state_delta={"k": 1}))
    await service.append_event(lost, event)
    await service.append_event(lost, new_event("i", author="u", actions=EventActions(state_delta={"k": 2})))
    before = (list(behind.events), dict(behind.state), behind.revision)
    with pytest.raises(StaleSessionError):
        await service.append_event(behind, new_event("i", author="u", actions=EventActions(state_delta={"k": 3})))
    assert (list(behind.events), dict(behind.state), behind.revision) == before
    assert await service.append_event(behind, event) == event
    assert (len(behind.events), dict(behind.state)) == (1, {"k": 1})
    await service.delete_session(**KEY, session_id="s")
    with pytest.raises(SessionNotFoundError):
        await service.append_event(behind, event)
    assert len(behind.events) == 1


async def test_inm_3_times_are_filtered_before_the_newest_are_taken() -> None:
    """Over times that are in no order, where a binary search would find nothing."""
    service = InMemorySessionService()
    session = await service.create_session(**KEY, session_id="s")
    for at in (9.0, 1.0, 8.0, 2.0, 7.0, 3.0):
        await service.append_event(session, Event(invocation_id="i", author="u", timestamp=at))
    found = await service.get_session(**KEY, session_id="s", after=7.0, num_recent_events=2)
    assert [event.timestamp for event in found.events] == [8.0, 7.0]


@pytest.mark.parametrize("value", [object(), {1}, float("inf"), b"bytes", {"deep": [float("nan")]}])
async def test_inm_4_what_no_database_keeps_is_refused_here_too(value: Any) -> None:
    service = InMemorySessionService()
    with pytest.raises(ValidationError):
        await service.create_session(**KEY, session_id="s", state={"bad": value})
    session = await service.create_session(**KEY, session_id="s")
    with pytest.raises(ValidationError):
        await service.append_event(
            session, new_event("i", author="u", actions=EventActions(state_delta={"bad": value}))
        )
    assert (list(session.events), dict(session.state)) == ([], {})


async def test_ses_4_a_new_session_is_of_now() -> None:
    service = InMemorySessionService()
    with use_clock(lambda: _clock(5)):
        session = await service.create_session(**KEY)
    assert session.last_update_time == _clock(5)
