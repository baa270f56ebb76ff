"""Session checklist lines CS-43 … CS-46, CS-48: text, incremental reads, windows, growth, what is derived."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, SupportsIndex

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from hookwork.errors import SessionNotFoundError, ValidationError
from hookwork.records.content import CodeExecutionResult, Content, FunctionResponse, Part
from hookwork.records.event import Event, new_event
from hookwork.records.history import HistoryIndex, Record
from hookwork.records.session import EventLog, Session, live_positions
from hookwork.services import SessionService
from hookwork_testkit.suites.base import SessionSuiteBase, drive, in_own_loop, say, texts
from hookwork_testkit.suites.histories import Move, history, moves

_BAD = "a\x00b\ud83dc"
_GOOD = "a\ufffdb\ufffdc"


class SessionReads(SessionSuiteBase):
    """See the module."""

    async def test_cs_43_text_no_database_can_hold(self, service: SessionService) -> None:
        """EVT-12, CASE-SESS-4: U+FFFD, live and after a reload, with one warning an event."""
        session = await self.create(service)
        cases: list[tuple[str, Callable[[str], Event], Callable[[Event], Any]]] = [
            ("text", lambda t: say(t), lambda e: e.text),
            ("state value", lambda t: say("x", delta={"k": {"deep": [t]}}), lambda e: e.actions.state_delta["k"]),
            ("state key", lambda t: say("x", delta={t: 1}), lambda e: dict(e.actions.state_delta)),
            ("tool result", _result, lambda e: e.function_responses[0].response),
            ("metadata", lambda t: say("x", custom_metadata={t: 1}), lambda e: e.custom_metadata),
            ("error message", lambda t: say("x", error_code="E", error_message=t), lambda e: e.error_message),
            ("code output", _code_output, lambda e: _code_result(e).output),
        ]
        for name, make, read in cases:
            with Warnings() as warnings:
                stored = await service.append_event(session, make(_BAD))
            again = (await self.reopen(service, session, num_recent_events=1)).events[0]
            assert read(stored) == read(again) == read(make(_GOOD)), name
            assert len(warnings) == 1, f"{name}: {warnings}"
            assert _BAD not in str(warnings)
        with Warnings() as warnings:
            for fine in ("🎈 emoji", "数据", "Ünï"):
                for _, make, read in cases:
                    stored = await service.append_event(session, make(fine))
                    again = (await self.reopen(service, session, num_recent_events=1)).events[0]
                    assert read(again) == read(make(fine))
        assert len(warnings) == 0
        with pytest.raises(ValidationError):
            await service.append_event(session, say("x", delta={"k\x00": 1, "k\ufffd": 2}))

    async def test_cs_44_refresh(self, service: SessionService) -> None:
        """LOG-5: only what is behind the handle's last event comes, with the state."""
        first = await self.create(service, state={"k": 0})
        assert await service.refresh(first) == 0
        await service.append_event(first, say("own", delta={"k": 1, "temp:t": 1}))
        assert await service.refresh(first) == 0
        second = await self.reopen(service, first)
        for number in range(3):
            await service.append_event(second, say(str(number), delta={"k": number, "app:a": number}))
        assert first.revision != second.revision
        assert await service.refresh(first) == 3
        assert texts(first) == texts(second) == ["own", "0", "1", "2"]
        assert (first.state["k"], first.state["app:a"]) == (2, 2)
        assert first.revision == second.revision
        assert first.last_update_time == second.last_update_time
        partial = await self.reopen(service, first, num_recent_events=1)
        await service.append_event(second, say("3"))
        assert await service.refresh(partial) == 1
        assert texts(partial) == ["2", "3"]

    async def test_cs_44_refresh_tells_a_session_made_again_from_the_old_one(self, service: SessionService) -> None:
        first = await self.create(service)
        await service.append_event(first, say("old", at=1))
        await self.delete(service, first)
        with pytest.raises(SessionNotFoundError):
            await service.refresh(first)
        again = await self.create(service)
        await service.append_event(again, say("new", at=1))
        assert again.revision != first.revision
        try:
            await service.refresh(first)
        except SessionNotFoundError:
            return
        assert texts(first) == ["new"], "a handle of a deleted session must never mix both"

    async def test_cs_44_two_services_on_one_store(self, service: SessionService) -> None:
        """LOG-4, LOG-5: the revision means the same in both."""
        other = await self.make_service_again(service)
        if other is None:
            pytest.skip("the store lives in one service")
        here = await self.create(service)
        there = await self.reopen(other, here)
        await other.append_event(there, say("there", delta={"k": 1, "app:a": 1}))
        assert await service.refresh(here) == 1
        assert texts(here) == texts(there)
        assert dict(here.state) == dict(there.state) == {"k": 1, "app:a": 1}
        assert here.revision == there.revision
        assert here.last_update_time == there.last_update_time
        await service.append_event(here, say("here"))
        assert await other.refresh(there) == 1
        await other.close()

    async def test_cs_45_windows_over_random_histories(self) -> None:
        """LOG-8, LOG-9: pairs are whole, an invocation begins the window, and the start can be reached."""

        @self.property_settings()
        @given(played=moves, size=st.integers(min_value=0, max_value=8), step=st.integers(min_value=1, max_value=4))
        def law(played: list[Move], size: int, step: int) -> None:
            drive(lambda: self._window_law(history(played), size, step))

        await in_own_loop(law)

    async def _window_law(self, events: list[Event], size: int, step: int) -> None:
        service = await self.make_service()
        session = await self.create(service)
        for event in events:
            await service.append_event(session, event)
        stored = list(session.events)
        for tail in (size, "summary"):
            handle = await self.reopen(service, session, tail=tail)
            window = list(handle.events)
            assert stored[len(stored) - len(window) :] == window, "a window is the end of the history"
            _assert_pairs_closed(stored, len(stored) - len(window))
            if window:
                assert stored.index(window[0]) == _first_of(stored, window[0].invocation_id)
            if isinstance(tail, int):
                assert len(window) >= min(tail, len(stored))
            else:
                _assert_summary_covers(stored, len(window))
            assert handle.complete == (len(window) == len(stored))
            assert dict(handle.state) == dict(session.state)
            while not handle.complete:
                shown = len(handle.events)
                added = await service.load_earlier(handle, step)
                assert added >= 1
                assert len(handle.events) == shown + added
                _assert_pairs_closed(stored, len(stored) - len(handle.events))
            assert list(handle.events) == stored
            assert await service.load_earlier(handle, step) == 0
        await service.close()

    async def test_cs_45_wrong_windows_are_refused(self, service: SessionService) -> None:
        session = await self.create(service)
        for tail in (-1, "all", 1.5):
            with pytest.raises(ValidationError):
                await self.reopen(service, session, tail=tail)

    async def test_log_09_a_filtered_handle_loads_back_without_gaps(self, service: SessionService) -> None:
        session = await self.create(service)
        for text, at in (("a", 5), ("b", 3), ("c", 9), ("d", 1), ("e", 9)):
            await service.append_event(session, say(text, at=at))
        handle = await self.reopen(service, session, after=session.events[2].timestamp)
        assert texts(handle) == ["c", "e"]
        while not handle.complete:
            assert await service.load_earlier(handle, 1) >= 1
        assert texts(handle) == ["a", "b", "c", "d", "e"]

    async def test_cs_46_a_turn_touches_as_many_events_whatever_the_length(self, service: SessionService) -> None:
        """LOG-10: no event of the past is looked at by append, refresh or the index of calls."""
        session = await self.create(service)
        touched: list[int] = []
        for length in (1, 100, 1000):
            while len(session.events) < length:
                await service.append_event(session, say(str(len(session.events))))
            assert session.open_calls == {}
            counted = CountingList(session.log.events)
            session.log.events = counted
            await service.append_event(session, say("turn", delta={"k": length}))
            await service.refresh(session)
            assert session.open_calls == {}
            touched.append(counted.touched)
            session.log.events = list(counted)
        assert touched[0] == touched[1] == touched[2], f"events touched at 1, 100, 1000: {touched}"

    async def test_cs_48_what_is_derived_equals_what_the_events_alone_give(self) -> None:
        """LOG-11, LOG-12: open calls, live events and records of every kind of handle."""

        @self.property_settings()
        @given(played=moves, cut=st.integers(min_value=0, max_value=24))
        def law(played: list[Move], cut: int) -> None:
            drive(lambda: self._derived_law(history(played), cut))

        await in_own_loop(law)

    async def _derived_law(self, events: list[Event], cut: int) -> None:
        service = await self.make_service()
        session = await self.create(service)
        behind: Session | None = None
        for position, event in enumerate(events):
            if position == cut:
                behind = await self.reopen(service, session)
            await service.append_event(session, event)
            if position % 5 == 0:
                _assert_derived(session)
        fresh = await self.reopen(service, session)
        for handle in (session, fresh, behind, session.view(length=cut)):
            if handle is not None:
                _assert_derived(handle)
        partial = await self.reopen(service, session, tail=1)
        await service.load_earlier(partial, 3)
        _assert_derived(partial)
        if behind is not None:
            await service.append_event(behind, say("caught up", invocation="inv-later"))
            _assert_derived(behind)
        await service.close()

    async def test_cs_48_opening_a_handle_on_a_loaded_log_reads_no_event(self, service: SessionService) -> None:
        session = await self.create(service)
        for number in range(50):
            await service.append_event(session, say(str(number)))
        assert session.open_calls == {}
        counted = CountingList(session.log.events)
        session.log.events = counted
        handle = await self.reopen(service, session)
        assert len(handle.events) == 50
        assert handle.open_calls == {}
        assert counted.touched == 0

    async def test_log_11_a_view_shows_and_extends_the_past(self, service: SessionService) -> None:
        session = await self.create(service)
        for number in range(4):
            await service.append_event(session, say(str(number), delta={f"k{number}": number}))
        view = session.view(length=2, state={"k0": 0, "k1": 1})
        assert (texts(view), dict(view.state)) == (["0", "1"], {"k0": 0, "k1": 1})
        await service.append_event(view, say("own", delta={"own": 1}))
        assert texts(view) == ["0", "1", "2", "3", "own"]
        assert dict(view.state) == {"k0": 0, "k1": 1, "k2": 2, "k3": 3, "own": 1}
        assert texts(session) == ["0", "1", "2", "3"]


class CountingList(list[Event]):
    """A list that counts how many of its items were read."""

    def __init__(self, items: list[Event]) -> None:
        super().__init__(items)
        self.touched = 0

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        found = super().__getitem__(index)
        self.touched += len(found) if isinstance(found, list) else 1
        return found

    def __iter__(self) -> Any:
        for item in super().__iter__():
            self.touched += 1
            yield item


class Warnings(logging.Handler):
    """What is logged as a warning while it is entered."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())

    def __enter__(self) -> Warnings:
        logging.getLogger("hookwork").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("hookwork").removeHandler(self)

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        return repr(self.messages)


def _result(text: str) -> Event:
    response = FunctionResponse(id="c", name="f", response={"out": text})
    return new_event("inv-1", author="agent", content=Content(parts=[Part(function_response=response)]))


def _code_output(text: str) -> Event:
    result = CodeExecutionResult(outcome="OUTCOME_OK", output=text)
    return new_event("inv-1", author="agent", content=Content(parts=[Part(code_execution_result=result)]))


def _code_result(event: Event) -> CodeExecutionResult:
    assert event.content is not None
    result = event.content.parts[0].code_execution_result
    assert result is not None
    return result


def _first_of(events: list[Event], invocation_id: str) -> int:
    return next(position for position, event in enumerate(events) if event.invocation_id == invocation_id)


def _assert_pairs_closed(events: list[Event], start: int) -> None:
    """Every response at or behind ``start`` has its call there too, if it has one at all."""
    for position in range(start, len(events)):
        for response in events[position].function_responses:
            callers = [
                earlier
                for earlier in range(position)
                if any(call.id == response.id for call in events[earlier].function_calls)
            ]
            assert not callers or callers[-1] >= start, f"the call of {response.id} was cut off at {start}"


def _assert_summary_covers(events: list[Event], shown: int) -> None:
    """Rule (a) of ``tail="summary"``: what is not shown lies in the span of one live record that is shown."""
    hidden = events[: len(events) - shown]
    if not hidden:
        return
    live = live_positions(events)
    records = [
        compaction
        for position in live
        if position >= len(hidden) and (compaction := events[position].actions.compaction) is not None
    ]
    assert any(
        all(
            event.actions.compaction is not None
            or (
                record.start_timestamp <= event.timestamp <= record.end_timestamp
                and (event.invocation_id, event.timestamp)
                not in {(left.invocation_id, left.timestamp) for left in record.excluded_events}
            )
            for event in hidden
        )
        for record in records
    ), "an event that no summary covers is not shown"


def _assert_derived(session: Session) -> None:
    """Compare what a handle derives with an index built from its events alone."""
    events = list(session.events)
    alone = Session(
        app_name=session.app_name,
        user_id=session.user_id,
        id=session.id,
        log=EventLog(events),
        last_update_time=session.last_update_time,
        revision=session.revision,
    )
    assert list(session.live_events) == [events[position] for position in live_positions(events)]
    assert session.open_calls == alone.open_calls
    assert list(session.open_calls) == list(alone.open_calls)
    assert session.open_delegations == alone.open_delegations
    index = HistoryIndex()
    index.extend(events, live_positions(events))
    assert _by_value(session.history().records) == _by_value(index.records)


def _by_value(records: Mapping[Any, Record]) -> dict[Any, Any]:
    """Records whose waiting calls are compared in order, not by the identity of their objects."""
    return {
        key: (structs.replace(record, waiting={}), list(record.waiting.values())) for key, record in records.items()
    }
