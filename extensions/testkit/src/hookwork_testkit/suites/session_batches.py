"""Session lines BEY-9, BEY-11 and BEY-13: batches of events, waiting for writes, deleted state keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import pytest

from hookwork.errors import EventConflictError, SessionNotFoundError, StaleSessionError, ValidationError
from hookwork.records.deleted import DELETED, delta_of
from hookwork.records.deleted import deleting as delete
from hookwork.records.event import Event
from hookwork.services import SessionService
from hookwork_testkit.suites.base import SessionSuiteBase, Snapshot, assert_same_events, say, texts

_KEYS = ("k", "app:k", "user:k", "temp:k")


def deleting(text: str, *keys: str, **fields: Any) -> Event:
    """An event that deletes state keys, and writes those of ``delta``."""
    return delete(say(text, **fields), keys)


class SessionBatches(SessionSuiteBase):
    """See the module."""

    def batch_faults(self, service: SessionService) -> Mapping[str, Callable[[], AbstractContextManager[object]]]:
        """Named ways to make the next batch fail half-way; default: those of a single append."""
        return self.append_faults(service)

    # --- BEY-13: deleted keys -----------------------------------------------------------------------------------------

    async def test_bey_13_a_deleted_key_is_absent(self, service: SessionService) -> None:
        """On the handle at once, on every other one that takes the event in, and after a reload."""
        session = await self.create(service, state=dict.fromkeys(_KEYS, 1) | {"kept": 2})
        behind = await self.reopen(service, session)
        refreshed = await self.reopen(service, session)
        stored = await service.append_event(session, deleting("gone", *_KEYS, delta={"new": 3}))
        absent = {} if service.capabilities.deletes_state else dict.fromkeys(("k", "app:k", "user:k"))
        expected = {"kept": 2, "new": 3, **absent}
        assert dict(session.state) == expected
        await service.append_event(behind, say("absorbs it"))
        assert dict(behind.state) == expected
        await service.refresh(refreshed)
        assert dict(refreshed.state) == expected
        again = await self.reopen(service, session)
        assert dict(again.state) == expected
        assert set(again.state) == set(expected)
        assert_same_events(service, [again.events[0]], [stored])
        assert set(stored.actions.state_delta) == {"k", "app:k", "user:k", "new"}
        assert stored.actions.state_delta["k"] is None, "what a reader sees that knows nothing of deletion (ACT-3)"
        if "extra" not in service.capabilities.dropped_event_fields:
            assert dict(delta_of(again.events[0])) == {"k": DELETED, "app:k": DELETED, "user:k": DELETED, "new": 3}

    async def test_bey_13_a_deleted_key_can_be_written_again(self, service: SessionService) -> None:
        session = await self.create(service, state={"k": 1, "app:k": 1, "app:kept": 1})
        await service.append_event(session, deleting("gone", "k", "app:k"))
        await service.append_event(session, say("back", delta={"k": 2, "app:k": 2}))
        await service.append_event(session, deleting("absent", "never", "user:never"))
        absent = {} if service.capabilities.deletes_state else {"never": None, "user:never": None}
        again = await self.reopen(service, session)
        assert dict(again.state) == dict(session.state) == {"k": 2, "app:k": 2, "app:kept": 1, **absent}
        assert again.revision == session.revision

    async def test_bey_13_a_deletion_takes_part_in_the_stale_rule(self, service: SessionService) -> None:
        """SES-18: it is a write of the key."""
        if not service.capabilities.detects_stale:
            pytest.skip("the backend cannot tell that others appended")
        first = await self.create(service, state={"k": 1})
        second = await self.reopen(service, first)
        await service.append_event(second, deleting("gone", "k"))
        with pytest.raises(StaleSessionError) as stale:
            await service.append_event(first, say("one", delta={"k": 2}))
        assert stale.value.keys == ("k",)
        assert first.state["k"] == 1

    async def test_bey_13_shared_keys_of_others_stay(self, service: SessionService) -> None:
        """Keys that other sessions write meanwhile are not taken away with it (DB-13)."""
        one, two = await self.create(service, name="s-1"), await self.create(service, name="s-2")
        await service.append_event(one, say("a", delta={"app:a": 1, "user:a": 1}))
        await asyncio.gather(
            service.append_event(one, deleting("gone", "app:a", "user:a")),
            service.append_event(two, say("b", delta={"app:b": 1, "user:b": 1})),
        )
        state = dict((await self.reopen(service, one)).state)
        assert {key for key, value in state.items() if value is not None} == {"app:b", "user:b"}

    # --- BEY-11: batches ----------------------------------------------------------------------------------------------

    async def test_bey_11_a_batch_is_stored_in_order(self, service: SessionService) -> None:
        session = await self.create(service, state={"k": 0, "gone": 0})
        await service.append_event(session, say("first", at=1))
        partial = say("part", partial=True, delta={"k": 9})
        batch = [
            say("a", at=2, delta={"k": 1, "app:x": 1, "temp:t": 1}),
            partial,
            deleting("b", "gone", at=2, delta={"k": 2, "user:y": 2}),
            say("c", at=0),
        ]
        stored = await service.append_events(session, batch)
        assert [event.text for event in stored] == ["a", "part", "b", "c"]
        assert stored[1] is partial
        assert list(session.events[1:]) == [stored[0], stored[2], stored[3]]
        absent = {} if service.capabilities.deletes_state else {"gone": None}
        expected = {"k": 2, "app:x": 1, "user:y": 2, **absent}
        assert dict(session.state) == {**expected, "temp:t": 1}
        again = await self.reopen(service, session)
        assert texts(again) == ["first", "a", "b", "c"]
        assert_same_events(service, list(again.events), list(session.events))
        assert dict(again.state) == expected
        assert (again.revision, again.last_update_time) == (session.revision, session.last_update_time)
        assert await service.append_events(session, []) == []
        assert await service.append_events(session, [partial]) == [partial]
        await service.append_event(session, say("after", delta={"k": 3}))
        assert texts(await self.reopen(service, session)) == ["first", "a", "b", "c", "after"]

    async def test_bey_11_a_repeated_batch_changes_nothing(self, service: SessionService) -> None:
        """SES-19: whoever did not learn of it repeats it; another content, or a half of it, is a conflict."""
        session = await self.create(service)
        behind = await self.reopen(service, session)
        batch = [say("a", delta={"k": 1, "temp:t": 1}), say("b", delta={"j": 2})]
        stored = await service.append_events(session, batch)
        assert await service.append_events(session, batch) == stored
        assert await service.append_events(behind, batch) == stored
        assert dict(behind.state) == {"k": 1, "j": 2, "temp:t": 1}
        assert texts(behind) == texts(session) == texts(await self.reopen(service, session)) == ["a", "b"]
        before = Snapshot(session)
        with pytest.raises(EventConflictError):
            await service.append_events(session, [batch[0], batch[1].replace(author="another")])
        if service.capabilities.atomic_batches:
            with pytest.raises(EventConflictError):
                await service.append_events(session, [batch[0], say("new")])
        before.assert_unchanged(session, "a batch in conflict with what is stored")
        twice = say("x")
        with pytest.raises(ValidationError, match=twice.id):
            await service.append_events(session, [twice, twice.replace(author="another")])
        with pytest.raises(ValidationError):
            await service.append_events(session, [say("y"), None])  # type: ignore[list-item]
        assert texts(await self.reopen(service, session)) == ["a", "b"]

    async def test_bey_11_a_stale_batch_stores_nothing(self, service: SessionService) -> None:
        """SES-18: the keys of all its events count; without a common key what others stored is absorbed."""
        self._needs(service, "atomic_batches", "detects_stale")
        first = await self.create(service)
        second = await self.reopen(service, first)
        await service.append_event(second, say("foreign", delta={"k": 1}))
        before = Snapshot(first)
        with pytest.raises(StaleSessionError) as stale:
            await service.append_events(first, [say("a", delta={"j": 1}), say("b", delta={"k": 2})])
        assert stale.value.keys == ("k",)
        before.assert_unchanged(first, "a stale batch")
        assert texts(await self.reopen(service, first)) == ["foreign"]
        await service.append_events(first, [say("a", delta={"j": 1}), say("b")])
        assert texts(first) == texts(await self.reopen(service, first)) == ["foreign", "a", "b"]
        assert dict(first.state) == {"k": 1, "j": 1}
        with pytest.raises(StaleSessionError):
            await service.append_events(second, [say("c", delta={"j": 2}), say("d")])

    async def test_bey_11_all_or_none_whatever_fails(self, service: SessionService) -> None:
        """SES-16, CS-27: nothing of a batch is stored by a failure at any step, and a plain retry is right."""
        self._needs(service, "atomic_batches")
        session = await self.create(service, state={"k": 0})
        await service.append_event(session, say("one", at=1))
        before = Snapshot(session)
        with pytest.raises(ValidationError):
            await service.append_events(session, [say("good", delta={"k": 1}), say("bad", timestamp=float("nan"))])
        before.assert_unchanged(session, "an event that cannot be stored")
        expected = ["one"]
        for name, fault in self.batch_faults(service).items():
            batch = [say(f"{name} {n}", delta={"k": f"{name} {n}", "app:a": name, "temp:t": n}) for n in (1, 2)]
            before = Snapshot(session)
            with fault(), pytest.raises(Exception):  # noqa: B017 - whatever the driver raises in place of its work
                await service.append_events(session, batch)
            before.assert_unchanged(session, name)
            assert texts(await self.reopen(service, session)) == expected, name
            await service.append_events(session, batch)
            expected += [event.text for event in batch]
            assert texts(session) == expected
        again = await self.reopen(service, session)
        assert texts(again) == expected
        assert again.state["k"] == (expected[-1] if len(expected) > 1 else 0)

    async def test_bey_11_cancellation_stores_all_or_none(self, service: SessionService) -> None:
        """GEN-5; a retry is right in both cases."""
        self._needs(service, "atomic_batches")
        session = await self.create(service)
        expected: list[str] = []
        for steps in range(8):
            batch = [say(f"{steps} {n}", delta={"k": n, "app:k": n}) for n in (1, 2, 3)]
            task = asyncio.ensure_future(service.append_events(session, batch))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            whole = [*expected, *(event.text for event in batch)]
            assert texts(await self.reopen(service, session)) in (expected, whole)
            await service.append_events(session, batch)
            expected = whole
            assert texts(session) == texts(await self.reopen(service, session)) == expected

    async def test_bey_11_batches_of_one_handle_do_not_mix(self, service: SessionService) -> None:
        """SES-22."""
        self._needs(service, "atomic_batches")
        session = await self.create(service)
        batches = [[say(f"{n} {part}", delta={"last": n}) for part in "ab"] for n in range(10)]
        await asyncio.gather(*(service.append_events(session, batch) for batch in batches))
        found = texts(await self.reopen(service, session))
        assert found == texts(session)
        assert sorted(found) == sorted(event.text for batch in batches for event in batch)
        assert all(found[n].split()[0] == found[n + 1].split()[0] for n in range(0, 20, 2))

    async def test_bey_11_a_batch_for_a_session_that_is_gone(self, service: SessionService) -> None:
        session = await self.create(service)
        await self.delete(service, session)
        with pytest.raises(SessionNotFoundError):
            await service.append_events(session, [say("a"), say("b")])

    # --- BEY-9: flush -------------------------------------------------------------------------------------------------

    async def test_bey_9_flush_waits_for_what_was_handed_in(self, service: SessionService) -> None:
        session = await self.create(service)
        tasks = [asyncio.ensure_future(service.append_event(session, say(str(n)))) for n in range(5)]
        await asyncio.sleep(0)
        await asyncio.gather(service.flush(), service.flush())
        await asyncio.gather(*tasks)
        await service.flush()
        assert texts(await self.reopen(service, session)) == [str(n) for n in range(5)]

    @staticmethod
    def _needs(service: SessionService, *capabilities: str) -> None:
        for name in capabilities:
            if not getattr(service.capabilities, name):
                pytest.skip(f"the backend declares that it has no {name}")
