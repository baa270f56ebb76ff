"""Session line BEY-10: keys that have a merge rule, written by a run and by others at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork.agent import Agent
from hookwork.app import App
from hookwork.context import CallbackContext, InvocationContext
from hookwork.errors import StaleSessionError
from hookwork.records.content import text_content
from hookwork.records.event import Event, EventActions
from hookwork.runner import Runner
from hookwork.services import SessionService
from hookwork.settings import NO_SETTINGS
from hookwork_testkit.suites.base import SessionSuiteBase, drive, in_own_loop, say

RULES: Mapping[str, Any] = {
    "count": "add",
    "log": "append",
    "best": "max",
    "last": "last",
    "own": lambda base, mine, current: [base, mine, current],
    "app:count": "add",
    "user:log": "append",
}

#: What a step of a run or of somebody else does to a state: (key, amount).
Step = tuple[str, int]
_STEPS = st.tuples(st.booleans(), st.sampled_from(["count", "log", "best"]), st.integers(min_value=1, max_value=9))


def moved(state: Mapping[str, Any], step: Step) -> Any:
    """The value of the step's key after it."""
    key, amount = step
    if key == "log":
        return [*state.get(key, []), amount]
    return max(state.get(key, 0), amount) if key == "best" else state.get(key, 0) + amount


class SessionMerges(SessionSuiteBase):
    """See the module."""

    #: How many runs each of two services makes at once.
    merging_runs: int = 8

    def merging_runner(
        self,
        service: SessionService,
        before: Callable[[CallbackContext], Awaitable[None]],
        *deltas: Mapping[str, Any],
        rules: Mapping[str, Any] | None = None,
    ) -> Runner:
        """A runner whose agent carries out ``before``, whose writes are one event, and then says each delta."""

        async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
            stored = await self.reopen(service, ctx.session, num_recent_events=0)
            if stored.revision == ctx.session.revision:  # else the run wrote nothing, and has not looked since
                assert dict(ctx.state) == dict(stored.state), "CASE-STATE-1: live state is not what is stored"
            for number, delta in enumerate(deltas):
                yield Event(content=text_content(f"part {number}"), actions=EventActions(state_delta=dict(delta)))
            yield Event(content=text_content("done"))

        async def first(ctx: CallbackContext) -> None:
            await before(ctx)

        root = Agent(name="root", body=body, before_agent=first)
        app = App(self.app_name, root, state_merge=RULES if rules is None else rules)
        return Runner(app, sessions=service, settings=NO_SETTINGS)

    async def foreign(self, service: SessionService, session: Any, delta: Mapping[str, Any]) -> None:
        """Somebody else appends, through a handle opened now."""
        await service.append_event(await self.reopen(service, session), say("foreign", delta=delta))

    async def test_bey_10_common_keys_with_rules_merge(self, service: SessionService) -> None:
        """Each by its own rule, shared keys of the session too; live and stored state are equal (CASE-STATE-1)."""
        self._needs_stale(service)
        base: dict[str, Any] = {"count": 5, "log": ["a"], "best": 3, "last": "x", "own": 1, "app:count": 1}
        session = await self.create(service, state={**base, "user:log": ["u"], "other": 0})

        async def before(ctx: CallbackContext) -> None:
            ctx.state["count"] += 1
            ctx.state["log"] = [*ctx.state["log"], "mine"]
            ctx.state["best"], ctx.state["last"], ctx.state["own"] = 7, "mine", 2
            ctx.state["app:count"] += 10
            with ctx.state.edit("user:log") as log:
                log.append("mine")
            await self.foreign(
                service,
                session,
                {"count": 7, "log": ["a", "b"], "best": 9, "last": "theirs", "own": 3, "app:count": 3},
            )
            await self.foreign(service, session, {"user:log": ["u", "theirs"], "other": 1})

        await self._run(self.merging_runner(service, before), session)
        state = dict((await self.reopen(service, session)).state)
        assert state == {
            "count": 8,
            "log": ["a", "b", "mine"],
            "best": 9,
            "last": "mine",
            "own": [1, 2, 3],
            "app:count": 13,
            "user:log": ["u", "theirs", "mine"],
            "other": 1,
        }

    async def test_bey_10_writes_that_wait_for_their_event_merge_too(self, service: SessionService) -> None:
        """A delta that a body made by hand, and keys that are absent at first."""
        self._needs_stale(service)
        session = await self.create(service)

        async def before(ctx: CallbackContext) -> None:
            ctx.state["count"] = ctx.state.get("count", 0) + 1
            await self.foreign(service, session, {"count": 10, "log": ["theirs"]})

        runner = self.merging_runner(service, before, {"log": ["mine"]}, {"log": ["mine", "again"]})
        handle = await self.reopen(service, session)
        await self._run(runner, session)
        await service.refresh(handle)
        assert dict(handle.state) == {"count": 11, "log": ["mine", "again"]}

    async def test_bey_10_a_common_key_without_a_rule_is_stale(self, service: SessionService) -> None:
        """SES-18: beside keys that have rules too; and where a rule does not fit what is stored."""
        self._needs_stale(service)
        cases: list[tuple[dict[str, Any], str]] = [
            ({"count": 2, "plain": 2}, "plain"),
            ({"count": "text"}, "count"),
            ({"log": "text"}, "log"),
            ({"best": [1]}, "best"),
        ]
        for number, (theirs, key) in enumerate(cases):
            session = await self.create(service, name=f"s-{number}", state={"count": 1, "plain": 1})

            async def before(ctx: CallbackContext, session: Any, theirs: Any) -> None:
                ctx.state["count"], ctx.state["plain"], ctx.state["log"], ctx.state["best"] = 5, 5, [1], 5
                await self.foreign(service, session, theirs)

            runner = self.merging_runner(service, partial(before, session=session, theirs=theirs))
            with pytest.raises(StaleSessionError) as stale:
                await self._run(runner, session)
            assert stale.value.keys == (key,) or set(stale.value.keys) == set(theirs)
            state = dict((await self.reopen(service, session)).state)
            assert state == {"count": 1, "plain": 1, **theirs}, "nothing of the run's event was stored"

    async def test_bey_10_a_key_about_to_be_written_is_not_absorbed_away(self, service: SessionService) -> None:
        """CASE-SESS-2: a foreign write that another event of the run meets first is not overwritten silently."""
        self._needs_stale(service)
        for rules, expected in ((RULES, 12), ({"other": "add"}, None)):
            session = await self.create(service, name="s-1" if expected else "s-2", state={"count": 1})

            async def before(ctx: CallbackContext, session: Any) -> None:
                ctx.state["count"] += 1
                await self.foreign(service, session, {"count": 11})
                await service.append_event(ctx.session, say("of the run's handle, without the key"))

            runner = self.merging_runner(service, partial(before, session=session), rules=rules)
            with pytest.raises(StaleSessionError, match="count"):
                await self._run(runner, session)
            assert (await self.reopen(service, session)).state["count"] == 11

    async def test_bey_10_random_writes_of_both_sides_add_up(self, service: SessionService) -> None:
        """Sums, lists and maxima are what they would be one after the other, however the writes fall."""
        self._needs_stale(service)

        @self.property_settings(max_examples=min(self.max_examples, 25))
        @given(runs=st.lists(st.lists(_STEPS, max_size=5), min_size=1, max_size=3))
        def law(runs: list[list[tuple[bool, str, int]]]) -> None:
            drive(lambda: self._check_adds_up(runs))

        await in_own_loop(law)

    async def _check_adds_up(self, runs: list[list[tuple[bool, str, int]]]) -> None:
        service = await self.make_service()
        session = await self.create(service, state={"count": 0, "log": [], "best": 0})

        async def before(ctx: CallbackContext, steps: list[tuple[bool, str, int]]) -> None:
            for mine, key, amount in steps:
                if mine:
                    ctx.state[key] = moved(ctx.state, (key, amount))
                else:
                    seen = await self.reopen(service, session)
                    delta = {key: moved(seen.state, (key, amount))}
                    await service.append_event(seen, say("foreign", delta=delta))

        for steps in runs:
            await self._run(self.merging_runner(service, partial(before, steps=steps)), session)
        state = (await self.reopen(service, session)).state
        amounts = {key: [n for steps in runs for _, k, n in steps if k == key] for key in ("count", "log", "best")}
        assert state["count"] == sum(amounts["count"])
        assert sorted(state["log"]) == sorted(amounts["log"])
        assert state["best"] == max([0, *amounts["best"]])
        await service.close()

    async def test_bey_10_two_services_count_exactly(self, service: SessionService) -> None:
        """As two processes: each run of either adds one, and none is lost."""
        other = await self.make_service_again(service)
        if other is None or not service.capabilities.detects_stale:
            pytest.skip("the backend has no second service on one store, or does not notice others")
        session = await self.create(service, state={"count": 0})

        async def before(ctx: CallbackContext) -> None:
            ctx.state["count"] += 1
            ctx.state["app:count"] = ctx.state.get("app:count", 0) + 1

        async def work(sessions: SessionService) -> None:
            for _ in range(self.merging_runs):
                await self._run(self.merging_runner(sessions, before), session)

        await asyncio.gather(work(service), work(other))
        state = dict((await self.reopen(service, session)).state)
        assert state == dict.fromkeys(("count", "app:count"), 2 * self.merging_runs)
        await other.close()

    async def _run(self, runner: Runner, session: Any) -> None:
        async with runner, runner.run(user_id=session.user_id, session_id=session.id, message="go") as run:
            async for _ in run:
                pass
        assert run.outcome is not None
        assert run.outcome.kind == "completed"

    @staticmethod
    def _needs_stale(service: SessionService) -> None:
        if not service.capabilities.detects_stale:
            pytest.skip("the backend cannot tell that others appended, so nothing is merged")
