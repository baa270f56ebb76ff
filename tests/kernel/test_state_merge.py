"""Merge rules of an app (services BEY-10); what backends have to do with them is in the session suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.kernel.running import said

from hookwork import Agent, App, CallbackContext, Event, InvocationContext, Plugin, Runner, Settings
from hookwork.effects import EffectCall, WriteResult
from hookwork.errors import ConfigurationError, StaleSessionError
from hookwork.platform import use_sleep
from hookwork.records.deleted import DELETED
from hookwork.records.event import EventActions, new_event
from hookwork.services import SessionService
from hookwork.state_merge import TRIES, CannotMerge, merged_value, rules_of

VALUES = [
    ("add", 5, 7, 6, 8),
    ("add", None, 7, 1, 8),
    ("add", 5, None, 6, 1),
    ("add", 1.5, 2, 2.0, 2.5),
    ("append", ["a"], ["a", "b"], ["a", "c"], ["a", "b", "c"]),
    ("append", None, ["b"], ["c"], ["b", "c"]),
    ("append", ["a"], None, ["a", "c"], ["c"]),
    ("append", ["a"], [], ["a"], []),
    ("max", 1, 9, 5, 9),
    ("max", 1, 3, 5, 5),
    ("max", "a", "c", "b", "c"),
    ("max", None, None, 5, 5),
    ("last", 1, 2, 3, 3),
    ("last", 1, 2, DELETED, DELETED),
]


@pytest.mark.parametrize(("rule", "base", "current", "mine", "expected"), VALUES)
def test_bey_10_what_the_rules_make_of_values(rule: str, base: Any, current: Any, mine: Any, expected: Any) -> None:
    assert merged_value(rules_of({"k": rule}, "app 'a'")["k"], base, mine, current) == expected


@pytest.mark.parametrize(
    ("rule", "base", "current", "mine"),
    [
        ("add", 1, "x", 2),
        ("add", True, 1, 2),
        ("add", 1, [1], 2),
        ("add", 1, 2, DELETED),
        ("append", ["a"], ["a"], ["b"]),
        ("append", ["a"], "text", ["a"]),
        ("append", ["a", "b"], ["a", "b"], ["a"]),
        ("max", 1, "x", 2),
        ("max", 1, 2, DELETED),
    ],
)
def test_bey_10_what_does_not_fit_is_not_merged(rule: str, base: Any, current: Any, mine: Any) -> None:
    with pytest.raises(CannotMerge):
        merged_value(rules_of({"k": rule}, "app 'a'")["k"], base, mine, current)


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ({"k": "sum"}, r"state_merge\['k'\] is 'sum'; give 'add', 'append', 'max', 'last', or a function"),
        ({"k": 3}, r"state_merge\['k'\] is 3"),
        ({"temp:k": "add"}, "temp: keys are never stored"),
        ({"app:": "add"}, "scope but no name"),
        ({3: "add"}, "non-empty text"),
        (["k"], "is a mapping of state keys to rules"),
    ],
)
def test_bey_10_a_wrong_rule_is_refused_when_the_app_is_made(rules: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text) as wrong:
        App("counting", _agent(_nothing), state_merge=rules)
    assert "app 'counting'" in str(wrong.value)


async def _nothing(ctx: CallbackContext) -> None:
    pass


def _agent(before: Any) -> Agent:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("done")

    return Agent(name="root", body=body, before_agent=before)


def _runner(before: Any, rules: Any, **options: Any) -> Runner:
    return Runner(
        App("counting", _agent(before), state_merge=rules), sessions="memory:", settings=Settings(), **options
    )


async def _state(runner: Runner) -> dict[str, Any]:
    session = await runner.sessions.get_session(app_name="counting", user_id="u", session_id="s")
    return dict(session.state)


async def _write(sessions: SessionService, delta: dict[str, Any]) -> None:
    session = await sessions.get_session(app_name="counting", user_id="u", session_id="s")
    await sessions.append_event(session, new_event("x", author="x", actions=EventActions(state_delta=delta)))


async def test_eff_9_a_write_that_an_engine_carries_out_merges_inside_it() -> None:
    """Every try is inside the one effect, whose result is what was stored: a replay gets the merged value back."""
    results: list[WriteResult] = []

    class Engine(Plugin):
        async def perform_write(self, call: EffectCall) -> Any:
            results.append(await call.default())
            return results[-1]

    async def before(ctx: CallbackContext) -> None:
        ctx.state["count"] = ctx.state.get("count", 0) + 1
        await _write(runner.sessions, {"count": 10})

    async with _runner(before, {"count": "add"}, plugins=[Engine()]) as runner:
        async for _ in runner.run(user_id="u", session_id="s", message="go"):
            pass
        assert await _state(runner) == {"count": 11}
        assert results[1].payload["actions"]["stateDelta"] == {"count": 11}


async def test_bey_10_tries_are_bounded_and_nothing_is_stored() -> None:
    """A writer who is quicker every time ends the run as without a rule."""
    tried = waited = 0

    async def before(ctx: CallbackContext) -> None:
        ctx.state["count"] = 1
        real = runner.sessions.append_event

        async def beaten(session: Any, event: Event, **more: Any) -> Event:
            nonlocal tried
            if "count" in event.actions.state_delta and event.author == "root":
                tried += 1
                await _write_with(real, runner.sessions, {"count": tried})
            return await real(session, event, **more)

        runner.sessions.append_event = beaten  # type: ignore[method-assign]

    async def no_sleep(seconds: float) -> None:
        nonlocal waited
        waited += 1

    with use_sleep(no_sleep):
        async with _runner(before, {"count": "add"}) as runner:
            with pytest.raises(StaleSessionError):
                async for _ in runner.run(user_id="u", session_id="s", message="go"):
                    pass
            assert await _state(runner) == {"count": TRIES}
    assert (tried, waited) == (TRIES, TRIES - 2)


async def _write_with(append: Any, sessions: SessionService, delta: dict[str, Any]) -> None:
    session = await sessions.get_session(app_name="counting", user_id="u", session_id="s")
    await append(session, new_event("x", author="x", actions=EventActions(state_delta=delta)))


async def test_bey_10_an_error_of_a_rule_of_ones_own_ends_the_run() -> None:
    def rule(base: Any, mine: Any, current: Any) -> Any:
        raise LookupError("no idea")

    async def before(ctx: CallbackContext) -> None:
        ctx.state["k"] = 1
        await _write(runner.sessions, {"k": 2})

    async with _runner(before, {"k": rule}) as runner:
        with pytest.raises(LookupError, match="no idea"):
            async for _ in runner.run(user_id="u", session_id="s", message="go"):
                pass
        assert await _state(runner) == {"k": 2}


async def test_bey_10_the_initial_delta_of_a_run_merges() -> None:
    """``run(state_delta=…)`` is written with the user's message, before anything else (DLT-9)."""

    class Quicker(Plugin):
        async def on_user_message(self, ctx: InvocationContext) -> None:
            await _write(runner.sessions, {"count": 10})

    runner = _runner(_nothing, {"count": "add"}, plugins=[Quicker()])
    async with runner:
        async for _ in runner.run(user_id="u", session_id="s", message="go", state_delta={"count": 1}):
            pass
        assert await _state(runner) == {"count": 11}


async def test_core_rew_1_what_was_taken_back_meanwhile_is_not_merged() -> None:
    """A rewind before this invocation, and a foreign write of a key with a rule, meet one append."""

    async def before(ctx: CallbackContext) -> None:
        ctx.state["count"] = 1
        session = await runner.sessions.get_session(app_name="counting", user_id="u", session_id="s")
        for actions in (
            EventActions(state_delta={"count": 10}),
            EventActions(rewind_before_invocation_id=ctx.invocation_id),
        ):
            await runner.sessions.append_event(session, new_event("x", author="user", actions=actions))

    async with _runner(before, {"count": "add"}) as runner:
        with pytest.raises(StaleSessionError):
            async for _ in runner.run(user_id="u", session_id="s", message="go"):
                pass
        assert await _state(runner) == {"count": 10}
