"""What only the in-memory session service promises (services §3, GEN-2)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from hookwork.errors import SessionNotFoundError, ValidationError
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
