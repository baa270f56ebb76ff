"""Session checklist lines CS-1 … CS-14: creating, reading, listing, deleting."""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from hookwork.errors import (
    SessionAlreadyExistsError,
    SessionNotFoundError,
    SessionOwnershipError,
    ValidationError,
)
from hookwork.platform import use_clock, use_uuids
from hookwork.records.session import Session
from hookwork.services import SessionService
from hookwork_testkit.suites.base import BASE_TIME, SessionSuiteBase, say, texts

_NOT_YOURS = (SessionNotFoundError, SessionOwnershipError)


class SessionBasics(SessionSuiteBase):
    """See the module."""

    async def test_cs_01_create_echoes_key_and_state(self, service: SessionService) -> None:
        session = await self.create(service, state={"k": 5})
        assert (session.app_name, session.user_id) == (self.app_name, "u1")
        if service.capabilities.user_provided_session_id:
            assert session.id == "s-1"
        assert dict(session.state) == {"k": 5}
        assert list(session.events) == []
        assert session.last_update_time.utcoffset() == timedelta(0)

    async def test_cs_02_missing_ids_are_made_up(self, service: SessionService) -> None:
        """SES-1: from the uuid provider where the client makes them."""
        first = await service.create_session(app_name=self.app_name, user_id="u1")
        second = await service.create_session(app_name=self.app_name, user_id="u1")
        assert first.id
        assert second.id
        assert first.id != second.id
        if self.client_made_ids:
            with use_uuids(lambda: "made-1"):
                assert (await service.create_session(app_name=self.app_name, user_id="u1")).id == "made-1"

    async def test_cs_03_a_taken_id_changes_nothing(self, service: SessionService) -> None:
        self._needs_own_ids(service)
        first = await self.create(service, state={"k": 1, "app:a": 1, "user:u": 1})
        with pytest.raises(SessionAlreadyExistsError):
            await self.create(service, state={"k": 2, "app:a": 2, "user:u": 2, "app:b": 2})
        again = await self.reopen(service, first)
        assert dict(again.state) == {"k": 1, "app:a": 1, "user:u": 1}

    async def test_cs_04_one_of_twenty_concurrent_creates_wins(self, service: SessionService) -> None:
        self._needs_own_ids(service)
        results = await asyncio.gather(*(self.create(service) for _ in range(20)), return_exceptions=True)
        assert sum(isinstance(result, Session) for result in results) == 1
        assert sum(isinstance(result, SessionAlreadyExistsError) for result in results) == 19

    async def test_cs_05_app_and_user_are_needed_and_a_blank_id_is_missing(self, service: SessionService) -> None:
        """SES-1, EVT-1: blanks around an id do not count."""
        for app_name, user_id in (("", "u1"), (self.app_name, "")):
            with pytest.raises(ValidationError):
                await service.create_session(app_name=app_name, user_id=user_id)
            with pytest.raises(ValidationError):
                await service.get_session(app_name=app_name, user_id=user_id, session_id="s-1")
        session = await service.create_session(app_name=self.app_name, user_id="u1", session_id=" \t ")
        assert session.id.strip()
        if service.capabilities.user_provided_session_id:
            assert (await service.create_session(app_name=self.app_name, user_id="u1", session_id=" s-2\n")).id == "s-2"

    async def test_ses_23_ids_beyond_the_declared_limits_are_refused_early(self, service: SessionService) -> None:
        limit, pattern = service.capabilities.max_id_length, service.capabilities.session_id_pattern
        too_much = [] if limit is None else [("x" * (limit + 1), "s-1"), ("u1", "s" * (limit + 1))]
        if pattern is not None:
            too_much += [("u1", wrong) for wrong in ("-s", "S_1", "s" * 200) if not re.fullmatch(pattern, wrong)]
        for user, session_id in too_much:
            with pytest.raises(ValidationError):
                await service.create_session(app_name=self.app_name, user_id=user, session_id=session_id)
        assert await service.list_sessions(app_name=self.app_name) == []

    async def test_cs_06_initial_state_is_split_by_scope(self, service: SessionService) -> None:
        """SES-3: shared keys overwrite, temp keys stay on the returned handle."""
        before = await self.create(service, name="s-0", state={"app:old": 0, "user:old": 0})
        first = await self.create(service, state={"k": 1, "app:a": 2, "user:u": 3, "temp:t": 4, "app:old": 9})
        expected = {"k": 1, "app:old": 9, "app:a": 2, "user:old": 0, "user:u": 3}
        assert dict(first.state) == {**expected, "temp:t": 4}
        assert dict((await self.reopen(service, first)).state) == expected
        other = {key: value for key, value in expected.items() if key != "k"}
        assert dict((await self.reopen(service, before)).state) == other

    async def test_cs_07_the_callers_mapping_is_not_kept(self, service: SessionService) -> None:
        """SES-4: neither kept nor changed."""
        state: dict[str, Any] = {"k": {"list": [1]}}
        session = await self.create(service, state=state)
        state["k"]["list"].append(2)
        state["new"] = 1
        assert dict(session.state) == {"k": {"list": [1]}}
        assert dict((await self.reopen(service, session)).state) == {"k": {"list": [1]}}
        assert state == {"k": {"list": [1, 2]}, "new": 1}

    async def test_cs_08_get_finds_own_sessions_only(self, service: SessionService) -> None:
        """SES-7: absent is an error and never None; nothing of another user's leaks."""
        session = await self.create(service, state={"secret": 1})
        await service.append_event(session, say("secret", at=1))
        assert texts(await self.reopen(service, session)) == ["secret"]
        with pytest.raises(SessionNotFoundError):
            await service.get_session(app_name=self.app_name, user_id="u1", session_id="absent")
        with pytest.raises(_NOT_YOURS) as refusal:
            await service.get_session(app_name=self.app_name, user_id="u2", session_id=session.id)
        assert "secret" not in str(refusal.value)
        if self.other_app_name is not None:
            with pytest.raises(_NOT_YOURS):
                await service.get_session(app_name=self.other_app_name, user_id="u1", session_id=session.id)

    async def _five(self, service: SessionService) -> Session:
        """A session of five events, one second apart from 2025-01-01."""
        session = await self.create(service)
        for second in range(5):
            await service.append_event(session, say(str(second), at=second))
        return session

    async def test_cs_09_filters(self, service: SessionService) -> None:
        session = await self._five(service)
        start = datetime(2025, 1, 1, tzinfo=UTC)
        assert texts(await self.reopen(service, session)) == ["0", "1", "2", "3", "4"]
        assert texts(await self.reopen(service, session, num_recent_events=3)) == ["2", "3", "4"]
        second = start + timedelta(seconds=1)
        assert texts(await self.reopen(service, session, after=second)) == ["1", "2", "3", "4"]
        assert texts(await self.reopen(service, session, num_recent_events=2, after=start)) == ["3", "4"]

    async def test_cs_10_filters_at_their_edges(self, service: SessionService) -> None:
        """SES-5, SES-6: 0 gives none, a negative count is refused, a time is exact to the microsecond."""
        session = await self._five(service)
        none = await self.reopen(service, session, num_recent_events=0)
        assert texts(none) == []
        assert not none.complete
        assert len((await self.reopen(service, session, num_recent_events=99)).events) == 5
        with pytest.raises(ValidationError):
            await self.reopen(service, session, num_recent_events=-1)
        assert texts(await self.reopen(service, session, after=BASE_TIME + 4.000001)) == []
        assert texts(await self.reopen(service, session, after=BASE_TIME + 3.000001)) == ["4"]
        await service.append_event(session, say("late", at=4.123456))
        assert texts(await self.reopen(service, session, after=BASE_TIME + 4.123456)) == ["late"]
        assert texts(await self.reopen(service, session, after=BASE_TIME + 4.123457)) == []

    async def test_cs_11_append_order_whatever_the_times(self, service: SessionService) -> None:
        """SES-5, SES-6: filtered by time first, then the newest are kept."""
        session = await self.create(service)
        for text, at in (("a", 5), ("b", 3), ("c", 3), ("d", 9), ("e", 1), ("f", 9)):
            await service.append_event(session, say(text, at=at))
        assert texts(await self.reopen(service, session)) == ["a", "b", "c", "d", "e", "f"]
        assert texts(await self.reopen(service, session, num_recent_events=3)) == ["d", "e", "f"]
        filtered = await self.reopen(service, session, after=BASE_TIME + 3)
        assert texts(filtered) == ["a", "b", "c", "d", "f"]
        assert not filtered.complete
        assert texts(await self.reopen(service, session, after=BASE_TIME + 4, num_recent_events=2)) == ["d", "f"]
        await service.append_event(filtered, say("g", at=10))
        assert texts(filtered) == ["a", "b", "c", "d", "f", "g"]
        assert texts(await self.reopen(service, session)) == ["a", "b", "c", "d", "e", "f", "g"]

    async def test_cs_12_lists(self, service: SessionService) -> None:
        """SES-8, SES-9: the state of each item is its own user's."""
        ids = count()
        made = [
            await self.create(service, user=user, name=f"s-{next(ids)}", state={"k": user, "user:of": user, "app:a": 1})
            for user in ("u1", "u2", "u1")
        ]
        await service.append_event(made[0], say("newest"))
        mine = await service.list_sessions(app_name=self.app_name, user_id="u1")
        assert [session.id for session in mine] == [made[2].id, made[0].id]
        assert len(await service.list_sessions(app_name=self.app_name, user_id="u2")) == 1
        assert await service.list_sessions(app_name=self.app_name, user_id="u3") == []
        everyone = await service.list_sessions(app_name=self.app_name)
        assert len(everyone) == 3
        for session in everyone:
            assert list(session.events) == []
            assert dict(session.state) == {"k": session.user_id, "app:a": 1, "user:of": session.user_id}
        keys = [(session.last_update_time, session.user_id, session.id) for session in everyone]
        assert keys == sorted(keys), "SES-9: by update time, then user, then id"
        if self.other_app_name is not None:
            assert await service.list_sessions(app_name=self.other_app_name) == []

    async def test_cs_13_nothing_is_lost_to_paging(self, service: SessionService) -> None:
        sessions = [await self.create(service, name=f"s-{number:03}") for number in range(105)]
        listed = await service.list_sessions(app_name=self.app_name, user_id="u1")
        assert {session.id for session in listed} == {session.id for session in sessions}
        for number in range(260):
            await service.append_event(sessions[0], say(str(number), at=number))
        assert texts(await self.reopen(service, sessions[0])) == [str(number) for number in range(260)]

    async def test_bey_12_a_list_in_pages_is_the_list(self, service: SessionService) -> None:
        """SES-9: each once and in order, whatever the size of a page; for one user and for all."""
        with use_clock(lambda: datetime(2025, 1, 1, tzinfo=UTC)):
            for number, user in enumerate(("u1", "U1", "ü", "u1", "u2", "u1", "u10")):
                await self.create(service, user=user, name=f"s-{number}", state={"k": number, "user:of": user})
        listed = await service.list_sessions(app_name=self.app_name)
        await service.append_event(await self.reopen(service, listed[2]), say("used last"))
        for user_id in (None, "u1", "nobody"):
            whole = await service.list_sessions(app_name=self.app_name, user_id=user_id)
            for limit in (1, 2, 100):
                found = await self._paged(service, limit, user_id)
                assert [(s.user_id, s.id, dict(s.state)) for s in found] == [
                    (s.user_id, s.id, dict(s.state)) for s in whole
                ]
                assert all(list(session.events) == [] for session in found)
        for wrong in ({"limit": 0}, {"limit": True}, {"page_token": "none of ours"}, {"page_token": "bnVsbA"}):
            with pytest.raises(ValidationError):
                await service.list_session_page(app_name=self.app_name, **wrong)

    async def _paged(
        self, service: SessionService, limit: int, user_id: str | None, token: str | None = None
    ) -> list[Session]:
        """A list in pages, from a place on; a service whose tokens lead in circles fails."""
        found: list[Session] = []
        for _ in range(20):
            page = await service.list_session_page(
                app_name=self.app_name, user_id=user_id, limit=limit, page_token=token
            )
            found += page.sessions
            token = page.next_page_token
            if token is None:
                assert len(page.sessions) <= limit
                return found
            assert len(page.sessions) == limit, "only the last page may be short"
        raise AssertionError("the pages of a list do not end")

    async def test_bey_12_a_session_used_between_pages_is_not_missed(self, service: SessionService) -> None:
        made = [await self.create(service, name=f"s-{number}") for number in range(4)]
        listed = await service.list_sessions(app_name=self.app_name)
        page = await service.list_session_page(app_name=self.app_name, limit=2)
        await service.append_event(await self.reopen(service, listed[0]), say("used"))
        rest = await self._paged(service, 2, None, page.next_page_token)
        found = {session.id for session in (*page.sessions, *rest)}
        assert found == {session.id for session in made}

    async def test_bey_12_events_come_as_a_stream(self, service: SessionService) -> None:
        """In append order, from the first on, in pages of any size; an absent session is an error."""
        session = await self.create(service)
        key: dict[str, Any] = {"app_name": session.app_name, "user_id": session.user_id, "session_id": session.id}
        async with aclosing(service.stream_events(**key)) as stream:
            assert [event async for event in stream] == []
        for number in range(7):
            await service.append_event(session, say(str(number), at=9 - number))
        for page_size in (1, 3, 7, 500):
            async with aclosing(service.stream_events(**key, page_size=page_size)) as stream:
                assert [event async for event in stream] == list(session.events), page_size
        async with aclosing(service.stream_events(**key, page_size=2)) as stream:
            async for event in stream:
                assert event == session.events[0]
                break
        with pytest.raises(SessionNotFoundError):
            await anext(service.stream_events(**{**key, "session_id": "absent"}))
        with pytest.raises(ValidationError):
            await anext(service.stream_events(**key, page_size=0))

    async def test_bey_14_unused_sessions_are_purged(self, service: SessionService) -> None:
        """The oldest first; what is younger, another user's, or used meanwhile stays, and so does shared state."""
        made = [await self.create(service, user=user, name=f"s-{n}") for n, user in enumerate(("u1", "u1", "u1", "u2"))]
        for session, at in zip(made, (-300, -200, -100, -300), strict=True):
            await service.append_event(session, say("x", timestamp=session.last_update_time.timestamp() + 1000 + at))
        newest = made[2].last_update_time
        if (await self.reopen(service, made[2], num_recent_events=0)).last_update_time != newest:
            pytest.skip("the backend's own clock says when a session was used")
        with use_clock(lambda: newest + timedelta(seconds=50)):
            assert await service.purge_sessions(app_name=self.app_name, user_id="u1", unused_for=1e6) == 0
            assert await service.purge_sessions(app_name=self.app_name, user_id="u1", unused_for=100) == 2
            left = await service.list_sessions(app_name=self.app_name)
            assert {session.id for session in left} == {made[2].id, made[3].id}
            assert await service.purge_sessions(app_name=self.app_name, unused_for=0) == 2
        assert await service.list_sessions(app_name=self.app_name) == []
        for wrong in (-1, True, float("nan")):
            with pytest.raises(ValidationError):
                await service.purge_sessions(app_name=self.app_name, unused_for=wrong)

    async def test_cs_14_delete(self, service: SessionService) -> None:
        session = await self.create(service, state={"k": 1, "app:a": 1, "user:u": 1})
        await service.append_event(session, say("old"))
        try:
            await service.delete_session(app_name=self.app_name, user_id="u2", session_id=session.id)
        except SessionOwnershipError:
            pass  # a backend whose ids are global may tell
        assert texts(await self.reopen(service, session)) == ["old"]
        await self.delete(service, session)
        with pytest.raises(SessionNotFoundError):
            await self.reopen(service, session)
        await self.delete(service, session)
        again = await self.create(service)
        assert list(again.events) == []
        assert dict(again.state) == {"app:a": 1, "user:u": 1}
        assert list((await self.reopen(service, again)).events) == []

    @staticmethod
    def _needs_own_ids(service: SessionService) -> None:
        if not service.capabilities.user_provided_session_id:
            pytest.skip("the backend makes its own session ids")
