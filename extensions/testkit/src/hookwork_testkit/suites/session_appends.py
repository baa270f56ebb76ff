"""Session checklist lines CS-15 … CS-28: what an append stores, and what a failed one leaves alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from hookwork.errors import EventConflictError, HookworkError, SessionNotFoundError, ValidationError
from hookwork.platform import use_clock
from hookwork.records.content import Blob, Content, Part
from hookwork.records.event import (
    Event,
    EventActions,
    EventCompaction,
    ExcludedEvent,
    NodeInfo,
    RequestInput,
    new_event,
)
from hookwork.services import SessionService
from hookwork_testkit.suites.base import BASE_TIME, SessionSuiteBase, Snapshot, assert_same_events, say, texts
from hookwork_testkit.suites.samples import every_event_field, every_part


class SessionAppends(SessionSuiteBase):
    """See the module."""

    async def test_cs_15_append_to_a_missing_session(self, service: SessionService) -> None:
        """SES-16, SES-17: the handle is as it was."""
        session = await self.create(service)
        await service.append_event(session, say("one"))
        await self.delete(service, session)
        before = Snapshot(session)
        with pytest.raises(SessionNotFoundError):
            await service.append_event(session, say("two", delta={"k": 1}))
        before.assert_unchanged(session, "append to a missing session")

    async def test_cs_16_append_stores_in_order_with_its_time(self, service: SessionService) -> None:
        """SES-15, LOG-4: event, update time and revision are those of the store."""
        with use_clock(lambda: datetime(2025, 1, 1, tzinfo=UTC)):
            session = await self.create(service)
        first = await service.append_event(session, say("one", at=1))
        revision = session.revision
        second = await service.append_event(session, say("two", at=2.5))
        assert list(session.events) == [first, second]
        assert session.revision != revision
        assert session.last_update_time == datetime(2025, 1, 1, 0, 0, 2, 500000, tzinfo=UTC)
        again = await self.reopen(service, session)
        assert_same_events(service, list(again.events), [first, second])
        assert again.last_update_time == session.last_update_time
        assert again.revision == session.revision

    async def test_ses_20_update_time_never_goes_back_and_unset_fields_are_filled(
        self, service: SessionService
    ) -> None:
        with use_clock(lambda: datetime(2025, 1, 1, tzinfo=UTC)):
            session = await self.create(service)
        await service.append_event(session, say("new", at=10))
        reached = session.last_update_time
        await service.append_event(session, say("old", at=-1000))
        assert session.last_update_time > reached
        assert session.events[-1].timestamp == BASE_TIME - 1000
        with use_clock(lambda: datetime(2025, 1, 2, tzinfo=UTC)):
            filled = await service.append_event(session, Event(invocation_id="inv-1", author="agent"))
        assert filled.id
        assert filled.timestamp == BASE_TIME + 86400
        exact = await service.append_event(session, say("raw", timestamp=BASE_TIME + 90000.00000049))
        assert exact.timestamp == BASE_TIME + 90000
        assert (await self.reopen(service, session)).events[-1].timestamp == BASE_TIME + 90000

    async def test_cs_17_partial_events_pass_through(self, service: SessionService) -> None:
        """SES-12: even for a session that is gone."""
        session = await self.create(service)
        before = Snapshot(session)
        partial = say("par", delta={"k": 1}, partial=True)
        assert await service.append_event(session, partial) is partial
        before.assert_unchanged(session, "a partial event")
        again = await self.reopen(service, session)
        assert (list(again.events), dict(again.state)) == ([], {})
        assert again.last_update_time == before.time
        await self.delete(service, session)
        assert await service.append_event(session, partial) is partial

    async def test_cs_18_bytes_come_back_exact(self, service: SessionService) -> None:
        session = await self.create(service)
        for size in (0, 3, 1 << 20):
            data = (bytes(range(256)) * (size // 256 + 1))[:size]
            part = Part(inline_data=Blob(data=data, mime_type="image/png"), thought_signature=b"\xff\xfe\x00-_+/")
            await service.append_event(session, new_event("inv-1", author="user", content=Content(parts=[part])))
            content = (await self.reopen(service, session, num_recent_events=1)).events[0].content
            assert content is not None
            assert content.parts[0] == part, f"{size} bytes"

    async def test_cs_19_every_field_comes_back_or_is_declared_dropped(self, service: SessionService) -> None:
        session = await self.create(service)
        event = every_event_field()
        await service.append_event(session, event)
        found = (await self.reopen(service, session)).events[0]
        lost = {name for name in Event.__struct_fields__ if getattr(found, name) != getattr(event, name)}
        lost.discard("id" if service.capabilities.server_assigned_event_id else "")
        assert lost == set(service.capabilities.dropped_event_fields)

    async def test_cs_20_workflow_fields(self, service: SessionService) -> None:
        session = await self.create(service)
        outputs: list[Any] = [0, "", False, [], {"a": [None, 1.5]}]
        for output in outputs:
            event = say(
                "node",
                node_info=NodeInfo(path="graph@1/step@2", output_for=("graph@1",), status="completed"),
                requested_input=RequestInput(interrupt_id="i-1", message="?", response_schema={"type": "string"}),
                routes=("left", "right"),
                isolation_scope="scope-1",
                output=output,
            )
            await service.append_event(session, event)
            found = (await self.reopen(service, session, num_recent_events=1)).events[0]
            assert_same_events(service, [found], [event])
            if "output" not in service.capabilities.dropped_event_fields:
                assert type(found.output) is type(event.output)

    async def test_cs_21_compaction_times_are_exact(self, service: SessionService) -> None:
        """services ACT-2: to the microsecond, as they are compared with those of events."""
        session = await self.create(service)
        compaction = EventCompaction(
            start_timestamp=BASE_TIME + 0.000001,
            end_timestamp=BASE_TIME + 4.999999,
            compacted_content=Content(role="model", parts=[Part(text="summary")]),
            excluded_events=(ExcludedEvent(invocation_id="inv-0", timestamp=BASE_TIME + 1.234567),),
        )
        event = new_event("e-1", author="user", actions=EventActions(compaction=compaction))
        await service.append_event(session, event)
        assert (await self.reopen(service, session)).events[0].actions.compaction == compaction

    async def test_cs_22_all_kinds_of_parts(self, service: SessionService) -> None:
        session = await self.create(service)
        parts = every_part()
        await service.append_event(session, new_event("inv-1", author="agent", content=Content(parts=parts)))
        content = (await self.reopen(service, session)).events[0].content
        assert content is not None
        assert list(content.parts) == parts

    async def test_cs_23_who_shares_which_state(self, service: SessionService) -> None:
        """SES-14, STA-1, STA-2: by prefix, which do not compose."""
        session = await self.create(service)
        await service.append_event(session, say("x", delta={"app:a": 1, "user:u": 2, "k": 3, "app:temp:x": 4}))
        assert dict(session.state) == {"k": 3, "app:a": 1, "app:temp:x": 4, "user:u": 2}
        same_user = await self.create(service, name="s-2")
        assert dict(same_user.state) == {"app:a": 1, "app:temp:x": 4, "user:u": 2}
        other_user = await self.create(service, user="u2", name="s-3")
        assert dict(other_user.state) == {"app:a": 1, "app:temp:x": 4}
        if self.other_app_name is not None:
            other = await service.create_session(app_name=self.other_app_name, user_id="u1")
            assert dict(other.state) == {}

    async def test_cs_24_temp_keys_live_on_the_handle_only(self, service: SessionService) -> None:
        """SES-13: the caller's event still has them, the stored one not."""
        session = await self.create(service)
        event = say("x", delta={"temp:t": 1, "k": 2})
        stored = await service.append_event(session, event)
        assert dict(session.state) == {"k": 2, "temp:t": 1}
        assert dict(stored.actions.state_delta) == dict(session.events[-1].actions.state_delta) == {"k": 2}
        assert dict(event.actions.state_delta) == {"temp:t": 1, "k": 2}
        again = await self.reopen(service, session)
        assert dict(again.state) == {"k": 2}
        assert dict(again.events[-1].actions.state_delta) == {"k": 2}

    async def test_cs_25_values_of_state(self, service: SessionService) -> None:
        """SES-14, STA-7: None is a value and deletes nothing; a map replaces a map."""
        session = await self.create(service, state={"d": {"a": 1, "b": 2}})
        delta = {"none": None, "d": {"a": 3}, "int": 7, "float": 7.5, "ключ-🗝": "значение-🎈", "nested": {"n": [None]}}
        await service.append_event(session, say("x", delta=delta))
        state = dict((await self.reopen(service, session)).state)
        assert state == delta
        assert type(state["int"]) is int
        assert "none" in state
        assert dict(session.state) == delta

    async def test_cs_26_a_value_json_cannot_hold(self, service: SessionService) -> None:
        session = await self.create(service)
        before = Snapshot(session)
        for value in (object(), {1, 2}, float("nan"), {"deep": [b"bytes"]}):
            with pytest.raises(ValidationError):
                await service.append_event(session, say("x", delta={"k": 1, "bad": value}))
            with pytest.raises(ValidationError):
                await service.create_session(app_name=self.app_name, user_id="u1", state={"bad": value})
        for key in ("", "app:", "user:"):
            with pytest.raises(ValidationError):
                await service.create_session(app_name=self.app_name, user_id="u1", state={key: 1})
        before.assert_unchanged(session, "a value JSON cannot hold")
        again = await self.reopen(service, session)
        assert (list(again.events), dict(again.state)) == ([], {})
        assert len(await service.list_sessions(app_name=self.app_name)) == 1

    async def test_cs_27_a_failed_append_leaves_nothing_and_can_be_retried(self, service: SessionService) -> None:
        session = await self.create(service, state={"k": 0})
        await service.append_event(session, say("one", at=1))
        before = Snapshot(session)
        for moment in (1e300, float("inf"), float("nan"), -1e13):
            with pytest.raises(HookworkError):
                await service.append_event(session, say("bad", timestamp=moment, delta={"k": 1, "app:a": 1}))
            before.assert_unchanged(session, f"a timestamp of {moment}")
        expected = ["one"]
        for name, fault in self.append_faults(service).items():
            event = say(name, delta={"k": name, "app:a": name, "temp:t": name})
            before = Snapshot(session)
            with fault(), pytest.raises(Exception):  # noqa: B017 - whatever the driver raises in place of its work
                await service.append_event(session, event)
            before.assert_unchanged(session, name)
            await service.append_event(session, event)
            expected.append(name)
            assert texts(session) == expected
        again = await self.reopen(service, session)
        assert texts(again) == expected
        assert again.state["k"] == (expected[-1] if len(expected) > 1 else 0)

    async def test_cs_27_a_lost_reply_can_be_retried(self, service: SessionService) -> None:
        """After the commit: the event is stored, but the caller never learned of it (SES-19)."""
        session = await self.create(service)
        await service.append_event(session, say("one", at=1))
        event = say("two", at=2, delta={"k": 1, "temp:t": 1})
        await service.append_event(session.view(), event)
        assert texts(session) == ["one"]
        await service.append_event(session, event)
        assert texts(session) == ["one", "two"]
        assert dict(session.state) == {"k": 1, "temp:t": 1}
        again = await self.reopen(service, session)
        assert texts(again) == ["one", "two"]
        assert again.revision == session.revision
        await service.append_event(session, say("three", at=3, delta={"k": 2}))
        assert texts(session) == ["one", "two", "three"]

    async def test_cs_28_the_same_event_again(self, service: SessionService) -> None:
        session = await self.create(service)
        event = say("one", at=1, delta={"k": 1})
        first = await service.append_event(session, event)
        await service.append_event(session, say("two", at=2, delta={"k": 2}))
        before = Snapshot(session)
        assert await service.append_event(session, event) == first
        before.assert_unchanged(session, "an event appended again")
        with pytest.raises(EventConflictError):
            await service.append_event(session, event.replace(author="another"))
        before.assert_unchanged(session, "another event of the same id")
        assert texts(await self.reopen(service, session)) == ["one", "two"]

    async def test_ses_19_redelivery_takes_the_stored_event_uncompared(self, service: SessionService) -> None:
        """A durable run opens the session as of its start and appends its own events again (durable DUR-4)."""
        session = await self.create(service)
        await service.append_event(session, say("one", at=1, delta={"k": 1}))
        start = session.view()
        stored = await service.append_event(session, say("two", at=2, delta={"k": 2}))
        await service.append_event(session, say("three", at=3, delta={"k": 3}))
        assert await service.append_event(start, stored.replace(author="again"), redelivery=True) == stored
        assert texts(start) == ["one", "two"]
        assert start.state["k"] == 2
        assert texts(await self.reopen(service, session)) == ["one", "two", "three"]
