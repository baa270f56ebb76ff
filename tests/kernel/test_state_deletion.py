"""Deleted state keys in records, on the wire and in runs (services BEY-13, ACT-3, TRAP-20)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.kernel.running import run_of, runner_of, said, stored

from hookwork import Agent, CallbackContext, Event, EventActions, InvocationContext, Plugin, Runner
from hookwork.errors import ValidationError
from hookwork.records.codec import dump, dump_json, load
from hookwork.records.deleted import DELETED, DELETED_KEYS, actions_with_delta, applied, deleting, delta_of, with_delta
from hookwork.records.session import without_temp


def test_act_3_the_mark_stands_beside_actions_and_older_readers_see_null() -> None:
    event = deleting(Event(id="e", timestamp=1.0, actions=EventActions(state_delta={"k": 1, "j": 2})), ["k"])
    for keys, delta in (("camel", "stateDelta"), ("snake", "state_delta")):
        document = dump(event, keys)  # type: ignore[arg-type]
        assert document["actions"][delta] == {"k": None, "j": 2}
        assert set(document["actions"]) <= {"stateDelta", "artifactDelta", "state_delta", "artifact_delta"}
        assert document[DELETED_KEYS] == ["k"]
        assert load(Event, document) == event
    again = load(Event, dump_json(event))
    assert again == event
    assert delta_of(again) == {"k": DELETED, "j": 2}


@pytest.mark.parametrize("names", ["k", ["other"], ["j"], [3], None, {"k": 1}])
def test_a_mark_that_says_nothing_is_passed_over(names: Any) -> None:
    """A foreign writer may put anything there: only a key that is null in the delta is deleted."""
    event = Event(actions=EventActions(state_delta={"k": None, "j": 1}), extra={DELETED_KEYS: names})
    assert delta_of(event) is event.actions.state_delta


def test_the_mark_follows_the_delta() -> None:
    event = deleting(Event(extra={"theirs": 1}), ["k", "j"])
    assert event.extra == {"theirs": 1, DELETED_KEYS: ["k", "j"]}
    fewer = with_delta(event, {"k": 1, "j": DELETED})
    assert fewer.extra == {"theirs": 1, DELETED_KEYS: ["j"]}
    assert with_delta(fewer, {"k": 1}).extra == {"theirs": 1}
    assert with_delta(deleting(Event(), ["k"]), {}).extra is None
    with pytest.raises(ValidationError, match=r"\[key\]"):
        deleting(Event(), "k")
    with pytest.raises(ValidationError, match="scope but no name"):
        deleting(Event(), ["app:"])


def test_ses_13_deleted_temp_keys_are_named_nowhere() -> None:
    event = without_temp(deleting(Event(), ["temp:t", "k"]))
    assert event.extra == {DELETED_KEYS: ["k"]}
    assert without_temp(deleting(Event(), ["temp:t"])) == Event()


def test_applied_takes_keys_away() -> None:
    assert applied({"a": 1, "b": 2}, {"b": DELETED, "c": 3, "d": DELETED}) == {"a": 1, "c": 3}


async def test_bey_13_a_callback_deletes_and_the_next_run_misses_it() -> None:
    seen: list[Any] = []

    def before(ctx: CallbackContext) -> None:
        seen.append(ctx.state.to_dict())
        ctx.state.delete("k")
        ctx.state.delete("user:k")
        seen.append(ctx.state.to_dict())

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        seen.append(ctx.state.to_dict())
        yield said("ok")

    runner = runner_of(Agent(name="root", body=body, before_agent=before))
    async with runner:
        await run_of(runner, state_delta={"k": 1, "user:k": 1, "kept": 1})
        assert seen == [{"k": 1, "kept": 1, "user:k": 1}, {"kept": 1}, {"kept": 1}]
        session = await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")
        assert dict(session.state) == {"kept": 1}
        marked = [event.extra for event in await stored(runner) if event.extra]
        assert marked == [{DELETED_KEYS: ["k", "user:k"]}]


async def test_bey_13_a_hand_made_event_deletes() -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        assert ctx.state["k"] == 1
        yield deleting(said("bye"), ["k"])
        assert "k" not in ctx.state

    async with runner_of(body) as runner:
        await run_of(runner, state_delta={"k": 1})
        session = await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")
        assert dict(session.state) == {}


async def test_act_3_actions_that_travelled_alone_put_no_key_of_ours_under_actions() -> None:
    """``ctx.actions.snapshot()`` on an event of one's own: the mark moves beside ``actions`` before it is stored."""
    kept: list[EventActions] = []

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        alone = actions_with_delta(EventActions(), {"k": DELETED, "j": 2})
        assert alone.extra == {DELETED_KEYS: ["k"]}
        kept.append(alone)
        yield Event(content=said("x").content, actions=alone)
        assert ctx.state.to_dict() == {"j": 2}

    async with runner_of(body) as runner:
        await run_of(runner, state_delta={"k": 1})
        [_, event] = [event for event in await stored(runner) if event.actions.state_delta]
        assert event.actions.extra is None
        assert event.extra == {DELETED_KEYS: ["k"]}
        session = await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")
        assert dict(session.state) == {"j": 2}


async def test_bey_13_live_and_stored_agree_whatever_a_hook_makes_of_the_event() -> None:
    """INV-6: a hook that writes the event anew without the mark stores None, and that is what is live."""

    class Anew(Plugin):
        def on_event(self, event: Event) -> Event:
            return event.replace(extra=None)

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield deleting(said("bye"), ["k"])
        assert ctx.state["k"] is None

    async with runner_of(body, Anew()) as runner:
        await run_of(runner, state_delta={"k": 1})
        session = await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")
        assert dict(session.state) == {"k": None}


async def test_rew_3_a_rewind_gives_back_what_was_deleted_and_deletes_again() -> None:
    wanted = iter([{"k": 1}, DELETED, {"k": 2}])

    def before(ctx: CallbackContext) -> None:
        value: Any = next(wanted)
        if value is DELETED:
            ctx.state.delete("k")
        else:
            ctx.state["k"] = value["k"]

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield said("ok")

    runner = runner_of(Agent(name="root", body=body, before_agent=before))
    async with runner:
        for _ in range(3):
            await run_of(runner)
        ids = list(dict.fromkeys(event.invocation_id for event in await stored(runner)))
        assert await _rewound(runner, ids[2]) == {}
        assert await _rewound(runner, ids[1]) == {"k": 1}


async def _rewound(runner: Runner, invocation_id: str) -> dict[str, Any]:
    await runner.rewind(user_id="u", session_id="s", before_invocation_id=invocation_id)
    session = await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")
    return dict(session.state)
