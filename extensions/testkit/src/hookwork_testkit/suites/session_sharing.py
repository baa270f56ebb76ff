"""Session checklist lines CS-29 … CS-38: several handles, many tasks, isolation, cancellation, closing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hookwork.errors import HookworkError, StaleSessionError, StateMutationError, ValidationError
from hookwork.records.content import Content, FunctionCall, Part
from hookwork.records.event import Event, EventActions, new_event
from hookwork.records.session import Session
from hookwork.services import SessionService
from hookwork_testkit.suites.base import SessionSuiteBase, Snapshot, say, texts


class SessionSharing(SessionSuiteBase):
    """See the module."""

    async def test_cs_29_foreign_events_are_absorbed(self, service: SessionService) -> None:
        """SES-18, LOG-3, LOG-6 (CASE-SESS-2)."""
        first = await self.create(service, state={"shared": 0})
        await service.append_event(first, say("own", delta={"mine": 1}))
        second = await self.reopen(service, first)
        await service.append_event(second, say("foreign", delta={"theirs": 2}))
        assert texts(first) == ["own"], "LOG-3: invisible until the handle's own next append"
        assert "theirs" not in first.state
        await service.append_event(first, say("after", delta={"mine": 3}))
        if not service.capabilities.detects_stale:
            assert sorted(texts(await self.reopen(service, first))) == ["after", "foreign", "own"]
            return
        assert texts(first) == ["own", "foreign", "after"]
        assert dict(first.state) == {"shared": 0, "mine": 3, "theirs": 2}
        again = await self.reopen(service, first)
        assert texts(again) == ["own", "foreign", "after"]
        assert again.revision == first.revision

    async def test_cs_29_a_common_key_is_stale(self, service: SessionService) -> None:
        """The key was written by this handle before, or is written by the event itself."""
        self._needs_stale(service)
        for earlier, now in (({"k": 1}, {}), ({}, {"k": 1}), ({"user:k": 1}, {}), ({}, {"app:k": 1})):
            key = next(iter({**earlier, **now}))
            first = await service.create_session(app_name=self.app_name, user_id="u1")
            await service.append_event(first, say("one", delta=earlier))
            second = await self.reopen(service, first)
            await service.append_event(second, say("two", delta={key: 2}))
            before = Snapshot(first)
            with pytest.raises(StaleSessionError) as stale:
                await service.append_event(first, say("three", delta=now))
            assert stale.value.keys == (key,)
            assert stale.value.stored != stale.value.local
            before.assert_unchanged(first, "a stale append")
            assert texts(await self.reopen(service, first)) == ["one", "two"]
            assert await service.refresh(first) == 1
            await service.append_event(first, say("redone", delta=now))
            assert texts(first) == texts(await self.reopen(service, first)) == ["one", "two", "redone"]

    async def test_cs_29_a_rewind_is_stale_for_an_invocation_that_is_under_way(self, service: SessionService) -> None:
        """Its next event would stand behind the rewind without its beginning (REW-2); a new invocation absorbs it."""
        self._needs_stale(service)
        first = await self.create(service)
        await service.append_event(first, say("one", author="user", invocation="inv-a"))
        fresh, second = await self.reopen(service, first), await self.reopen(service, first)
        back = EventActions(rewind_before_invocation_id="inv-a")
        await service.append_event(second, new_event("inv-back", author="user", actions=back))
        before = Snapshot(first)
        with pytest.raises(StaleSessionError, match="rewound") as stale:
            await service.append_event(first, say("two", invocation="inv-a"))
        assert stale.value.keys == ()
        before.assert_unchanged(first, "a stale append")
        await service.append_event(fresh, say("three", author="user", invocation="inv-b"))
        again = await self.reopen(service, first)
        assert [event.text for event in again.live_events] == ["three"]

    async def test_cs_29_a_shared_key_of_another_session_never_counts(self, service: SessionService) -> None:
        first = await self.create(service)
        await service.append_event(first, say("one", delta={"app:k": 1, "user:k": 1}))
        other = await self.create(service, name="s-2")
        await service.append_event(other, say("elsewhere", delta={"app:k": 2, "user:k": 2}))
        await service.append_event(first, say("two", delta={"app:k": 3}))
        assert texts(first) == ["one", "two"]
        assert dict((await self.reopen(service, first)).state) == {"app:k": 3, "user:k": 2}

    async def test_cs_29_temp_keys_never_count(self, service: SessionService) -> None:
        first = await self.create(service)
        await service.append_event(first, say("one", delta={"temp:k": 1}))
        second = await self.reopen(service, first)
        await service.append_event(second, say("two", delta={"temp:k": 2}))
        await service.append_event(first, say("three", delta={"temp:k": 3}))
        assert texts(await self.reopen(service, first)) == ["one", "two", "three"]
        assert first.state["temp:k"] == 3

    async def test_cs_29_refusing_every_foreign_append(self) -> None:
        service = await self.make_refusing_service()
        if service is None:
            pytest.skip("the backend has no option foreign_appends")
        first = await self.create(service)
        second = await self.reopen(service, first)
        await service.append_event(second, say("foreign"))
        before = Snapshot(first)
        with pytest.raises(StaleSessionError):
            await service.append_event(first, say("own"))
        before.assert_unchanged(first, "a refused foreign append")
        await service.refresh(first)
        await service.append_event(first, say("own"))
        await service.append_event(first, say("own again"))
        assert texts(first) == ["foreign", "own", "own again"]
        await service.close()

    async def test_cs_30_twenty_appends_on_one_handle(self, service: SessionService) -> None:
        """SES-22: one after the other, in the order in which they came."""
        session = await self.create(service)
        await asyncio.gather(*(service.append_event(session, say(str(n), delta={"last": n})) for n in range(20)))
        again = await self.reopen(service, session)
        assert sorted(texts(session), key=int) == [str(n) for n in range(20)]
        assert texts(again) == texts(session)
        assert again.state["last"] == session.state["last"] == int(texts(session)[-1])

    async def test_cs_31_twenty_handles_with_keys_of_their_own(self, service: SessionService) -> None:
        session = await self.create(service)
        handles = [await self.reopen(service, session) for _ in range(20)]
        await asyncio.gather(
            *(service.append_event(handle, say(str(n), delta={f"k{n}": n})) for n, handle in enumerate(handles))
        )
        for handle in handles:
            await service.refresh(handle)
        stored = texts(await self.reopen(service, session))
        assert len(stored) == 20
        for handle in handles:
            assert texts(handle) == stored
            assert dict(handle.state) == {f"k{n}": n for n in range(20)}

    async def test_cs_31_twenty_handles_with_one_common_key(self, service: SessionService) -> None:
        session = await self.create(service)
        handles = [await self.reopen(service, session) for _ in range(20)]
        results = await asyncio.gather(
            *(service.append_event(handle, say(str(n), delta={"k": n})) for n, handle in enumerate(handles)),
            return_exceptions=True,
        )
        done = [result for result in results if isinstance(result, Event)]
        stale = [result for result in results if isinstance(result, StaleSessionError)]
        assert len(done) + len(stale) == 20
        assert len(done) == (1 if service.capabilities.detects_stale else 20)
        stored = await self.reopen(service, session)
        assert texts(stored) == [event.text for event in done]
        assert stored.state["k"] == int(texts(stored)[-1])

    async def test_cs_32_app_keys_of_many_sessions_merge(self, service: SessionService) -> None:
        sessions = [await self.create(service, name=f"s-{n}") for n in range(20)]
        await asyncio.gather(
            *(
                service.append_event(session, say("x", delta={f"app:k{n}": n, f"user:k{n}": n}))
                for n, session in enumerate(sessions)
            )
        )
        state = (await self.reopen(service, sessions[0])).state
        assert {key: state[key] for key in state} == {
            f"{scope}:k{n}": n for scope in ("app", "user") for n in range(20)
        }

    async def test_cs_33_no_reader_sees_a_torn_append(self, service: SessionService) -> None:
        session = await self.create(service, state={"n": -1})
        done = asyncio.Event()

        async def write() -> None:
            for n in range(30):
                await service.append_event(session, say(str(n), delta={"n": n, "app:n": n}))
                await asyncio.sleep(0)
            done.set()

        async def read() -> int:
            seen = 0
            while not done.is_set():
                handle = await self.reopen(service, session)
                found = [int(text) for text in texts(handle)]
                assert found == list(range(len(found)))
                assert handle.state["n"] == len(found) - 1, "an event without its state, or the reverse"
                seen += 1
                await asyncio.sleep(0)
            return seen

        async with asyncio.timeout(60):
            results = await asyncio.gather(write(), read(), read())
        assert min(count for count in results if count is not None) > 0
        assert texts(session) == [str(n) for n in range(30)]

    async def test_cs_34_a_state_object_shows_later_appends(self, service: SessionService) -> None:
        session = await self.create(service, state={"k": 1})
        state = session.state
        snapshot = iter(state)
        await service.append_event(session, say("x", delta={"k": 2, "new": 3, "temp:t": 4}))
        assert dict(state) == {"k": 2, "new": 3, "temp:t": 4}
        assert list(snapshot) in (["k"], ["k", "new", "temp:t"]), "iterating while others append is safe"

    async def test_cs_35_nothing_handed_out_can_change_the_store(self, service: SessionService) -> None:
        """SES-21: frozen to the leaves."""
        args: dict[str, Any] = {"list": [1], "map": {"a": 1}}
        delta: dict[str, Any] = {"k": {"inner": [1]}}
        initial: dict[str, Any] = {"i": {"inner": [1]}}
        part = Part(function_call=FunctionCall(id="c", name="f", args=args))
        parts = [part]
        session = await self.create(service, state=initial)
        event = new_event(
            "inv-1",
            author="agent",
            content=Content(role="model", parts=parts),
            actions=EventActions(state_delta=delta),
            custom_metadata={"m": [1]},
        )
        stored = await service.append_event(session, event)
        args["list"].append(2)
        delta["k"]["inner"].append(2)
        initial["i"]["inner"].append(2)
        parts.append(Part(text="more"))
        listed = (await service.list_sessions(app_name=self.app_name))[0]
        handles = [session, listed, await self.reopen(service, session)]
        for attempt in _mutations(handles, stored):
            try:
                attempt()
            except (TypeError, AttributeError, HookworkError):
                pass  # refused: that is the other right answer
        again = await self.reopen(service, session)
        assert len(again.events) == 1
        content = again.events[0].content
        assert content is not None
        assert [part.function_call for part in content.parts] == [
            FunctionCall(id="c", name="f", args={"list": [1], "map": {"a": 1}})
        ]
        assert again.events[0].custom_metadata == {"m": [1]}
        assert dict(again.events[0].actions.state_delta) == {"k": {"inner": [1]}}
        assert dict(again.state) == {"i": {"inner": [1]}, "k": {"inner": [1]}}

    async def test_case_state_2_an_in_place_change_is_refused_by_name(self, service: SessionService) -> None:
        session = await self.create(service, state={"cart": {"lines": []}})
        await service.append_event(session, say("x", delta={"list": [{"a": 1}]}))
        for handle in (session, await self.reopen(service, session)):
            state: Any = handle.state
            with pytest.raises(StateMutationError, match="cart"):
                state["cart"]["lines"].append(1)
            with pytest.raises(StateMutationError, match="list"):
                state["list"][0]["a"] = 2
            with pytest.raises(StateMutationError, match="new"):
                state["new"] = 1

    async def test_cs_36_a_foreign_handle_is_refused_before_any_effect(self, service: SessionService) -> None:
        """SES-11: None and other services' handles too."""
        other = await self.make_service()
        session = await self.create(service)
        foreign = await self.create(other)
        for handle in (foreign, None, object()):
            with pytest.raises(ValidationError):
                await service.append_event(handle, say("x", delta={"k": 1, "app:k": 1}))  # type: ignore[arg-type]
        with pytest.raises(ValidationError):
            await service.append_event(session, None)  # type: ignore[arg-type]
        assert list(foreign.events) == []
        for owner, handle in ((service, session), (other, foreign)):
            again = await self.reopen(owner, handle)
            assert (list(again.events), dict(again.state)) == ([], {})
        await other.close()

    async def test_cs_37_cancellation_tears_nothing(self, service: SessionService) -> None:
        session = await self.create(service, state={"k": -1, "app:k": -1})
        expected: list[str] = []
        for steps in range(8):
            event = say(str(steps), delta={"k": steps, "app:k": steps})
            before = Snapshot(session)
            task = asyncio.ensure_future(service.append_event(session, event))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            if texts(session) == expected:
                before.assert_unchanged(session, f"cancelled after {steps} steps")
            stored = await self.reopen(service, session)
            assert texts(stored) in (expected, [*expected, str(steps)])
            newest = steps if len(stored.events) > len(expected) else steps - 1
            assert (stored.state["k"], stored.state["app:k"]) == (newest, newest), "an event without its state"
            await service.append_event(session, event)  # a plain retry is right in both cases
            expected.append(str(steps))
            assert texts(session) == texts(await self.reopen(service, session)) == expected

    async def test_cs_38_use_after_close_raises(self) -> None:
        service = await self.make_service()
        session = await self.create(service)
        key: dict[str, Any] = {"app_name": self.app_name, "user_id": "u1", "session_id": session.id}
        await service.close()
        await service.close()
        calls: list[Callable[[], Any]] = [
            lambda: self.create(service, name="s-2"),
            lambda: service.get_session(**key),
            lambda: service.list_sessions(app_name=self.app_name),
            lambda: service.delete_session(**key),
            lambda: service.refresh(session),
            lambda: service.append_event(session, say("x")),
        ]
        for call in calls:
            with pytest.raises(HookworkError):
                await call()

    @staticmethod
    def _needs_stale(service: SessionService) -> None:
        if not service.capabilities.detects_stale:
            pytest.skip("the backend cannot tell that others appended")


def _mutations(handles: list[Session], stored: Event) -> list[Callable[[], object]]:
    """Ways to change what was handed out."""
    event: Any = stored
    call: Any = event.content.parts[0].function_call
    attempts: list[Callable[[], object]] = [
        lambda: setattr(event, "author", "forged"),
        lambda: event.content.parts.append(Part(text="forged")),
        lambda: setattr(event.content, "parts", []),
        lambda: call.args.__setitem__("list", 9),
        lambda: call.args["list"].append(9),
        lambda: call.args["map"].update(a=9),
        lambda: setattr(call, "name", "forged"),
        lambda: event.custom_metadata["m"].append(9),
        lambda: event.actions.state_delta.update(k=9),
        lambda: event.actions.state_delta["k"]["inner"].append(9),
    ]
    for handle in handles:
        attempts += _handle_mutations(handle, stored)
    return attempts


def _handle_mutations(handle: Session, stored: Event) -> list[Callable[[], object]]:
    state: Any = handle.state
    own: Any = handle.session_state
    events: Any = handle.events
    return [
        lambda: state.__setitem__("k", 9),
        lambda: own.__setitem__("k", 9),
        lambda: state["i"]["inner"].append(9),
        lambda: state["i"].__setitem__("inner", 9),
        lambda: state["k"]["inner"].append(9),
        lambda: events.append(stored),
        lambda: events.__setitem__(0, stored),
        lambda: events[:].clear(),
    ]
