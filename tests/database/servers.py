"""What holds on every database server: round trips, processes, names, dropped connections (spec §1, §4)."""

from __future__ import annotations

import asyncio

from tests.database.proxy import RoundTrips

from hookwork.records.session import Session
from hookwork_database import DatabaseSessionService
from hookwork_testkit.suites.base import say, texts

APP, USER = "app", "user"


async def opened(service: DatabaseSessionService, session_id: str = "s") -> Session:
    return await service.get_session(app_name=APP, user_id=USER, session_id=session_id)


async def flights_of_a_turn(service: DatabaseSessionService, proxy: RoundTrips, length: int) -> int:
    """Round trips of an open and two appends on a session of ``length`` events whose log is loaded."""
    session = await opened(service)
    while len(session.events) < length:
        await service.append_event(session, say("x"))
    before = proxy.flights
    session = await opened(service)
    await service.append_event(session, say("question", author="user"))
    await service.append_event(session, say("answer", delta={"k": length}))
    return proxy.flights - before


async def check_a_turn_takes_three_round_trips(service: DatabaseSessionService, proxy: RoundTrips) -> None:
    """Whatever the session's length, with and without a delta (budgets S6)."""
    await service.create_session(app_name=APP, user_id=USER, session_id="s")
    await flights_of_a_turn(service, proxy, 1)  # statements are prepared
    assert [await flights_of_a_turn(service, proxy, length) for length in (4, 50, 200)] == [3, 3, 3]
    session = await opened(service)
    before = proxy.flights
    await service.append_event(session, say("all", delta={"k": 1, "app:k": 1, "user:k": 1}))
    first = proxy.flights - before
    before = proxy.flights
    await service.append_event(session, say("all", delta={"k": 2, "app:k": 2, "user:k": 2}))
    assert (proxy.flights - before, first >= 1) == (1, True)


async def check_a_foreign_event_is_read(
    service: DatabaseSessionService, other: DatabaseSessionService, proxy: RoundTrips, trips: int = 1
) -> None:
    """A turn on another server process than the one before (spec DBP-7). ``other`` does not use the proxy."""
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s")
    await service.refresh(session)  # the statement is prepared
    for number in range(3):
        there = await opened(other)
        await other.append_event(there, say(str(number), delta={"n": number}))
        before = proxy.flights
        await service.refresh(session)
        assert (proxy.flights - before, texts(session)[-1], session.state["n"]) == (trips, str(number), number)


async def check_shared_keys_of_two_sessions_are_all_kept(
    service: DatabaseSessionService, other: DatabaseSessionService, number: int
) -> None:
    """Two writers add app and user keys from two sessions: all are kept, and nothing dead-locks (services DB-13)."""
    for name in ("a", "b"):
        await service.create_session(app_name=APP, user_id=USER, session_id=name)

    async def write(writer: DatabaseSessionService, name: str) -> None:
        session = await opened(writer, name)
        for n in range(number):
            delta = {f"app:{name}{n}": n, f"user:{name}{n}": n}
            await writer.append_event(session, say(str(n), delta=delta))

    await asyncio.gather(write(service, "a"), write(other, "b"))
    state = (await opened(service, "a")).state
    for name in ("a", "b"):
        for n in range(number):
            assert state[f"app:{name}{n}"] == state[f"user:{name}{n}"] == n


async def check_ids_differ_byte_by_byte(service: DatabaseSessionService) -> None:
    """Case, trailing blanks and accents make other users (spec DBL-2)."""
    users = ["Alice", "alice", "alice ", "álice", "al%ice", "al_ice", "'; DROP TABLE sessions; --", 'a"b\\c', "数据🎈"]
    for user in users:
        session = await service.create_session(app_name=APP, user_id=user, session_id="s", state={"user:me": user})
        await service.append_event(session, say(user, id=f"{user}-1"))
    for user in users:
        session = await service.get_session(app_name=APP, user_id=user, session_id="s")
        assert (texts(session), session.state["user:me"], session.user_id) == ([user], user, user)
        assert len(await service.list_sessions(app_name=APP, user_id=user)) == 1
    assert len(await service.list_sessions(app_name=APP)) == len(users)
