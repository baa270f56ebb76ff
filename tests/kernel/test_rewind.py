"""Going back to before an invocation (core REW-1 … REW-4)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork import Agent, Event, EventActions, Part, Runner, text_content
from hookwork.errors import ArtifactNotFoundError, InvocationNotFoundError

WHO = {"user_id": "u", "session_id": "s"}


def remembering() -> Agent:
    """Stores every message under two keys and in a file."""

    async def body(ctx: Any) -> Any:
        said = ctx.user_content.text
        await ctx.artifacts.save("last.txt", Part(text=said))
        if said == "two":
            await ctx.artifacts.save("new.txt", Part(text="new"))
        delta = {"last": said, f"seen_{said}": True, "user:last": said}
        yield Event(content=text_content(f"heard {said}"), actions=EventActions(state_delta=delta))

    return Agent(name="echo", body=body)


@pytest.fixture
async def runner() -> Any:
    async with Runner(remembering(), sessions="memory:", artifacts="memory:") as runner:
        yield runner


async def say(runner: Runner, text: str) -> str:
    run = runner.run(message=text, **WHO)
    await run.wait()
    assert run.invocation_id is not None
    return run.invocation_id


async def test_rew_1_a_rewind_is_one_more_event_and_history_stays(runner: Runner) -> None:
    await say(runner, "one")
    second = await say(runner, "two")
    before = len((await runner.sessions.get_session(app_name="echo", **WHO)).events)
    session = await runner.rewind(before_invocation_id=second, **WHO)
    assert len(session.events) == before + 1
    last = session.events[-1]
    assert (last.author, last.content) == ("user", None)
    assert last.actions.rewind_before_invocation_id == second
    assert last.invocation_id.startswith("e-")
    assert last.invocation_id != second
    assert not last.is_final_response()


async def test_rew_2_live_events_leave_out_what_was_rewound(runner: Runner) -> None:
    first = await say(runner, "one")
    second = await say(runner, "two")
    await say(runner, "three")
    session = await runner.rewind(before_invocation_id=second, **WHO)
    assert {event.invocation_id for event in session.live_events} == {first}


async def test_rew_3_state_goes_back_to_what_kept_events_gave(runner: Runner) -> None:
    await say(runner, "one")
    second = await say(runner, "two")
    session = await runner.rewind(before_invocation_id=second, **WHO)
    assert session.state["last"] == "one"
    assert session.state["seen_one"] is True
    assert session.state["seen_two"] is None
    assert session.state["user:last"] == "two"  # user state stays
    again = await runner.sessions.get_session(app_name="echo", **WHO)
    assert dict(again.state) == dict(session.state)


async def test_rew_3_initial_state_that_no_hidden_event_wrote_stays(runner: Runner) -> None:
    await runner.sessions.create_session(app_name="echo", state={"plan": "gold"}, **WHO)
    only = await say(runner, "one")
    session = await runner.rewind(before_invocation_id=only, **WHO)
    assert session.state["plan"] == "gold"
    assert session.state["last"] is None


async def test_rew_4_files_go_back_and_new_ones_are_gone(runner: Runner) -> None:
    await say(runner, "one")
    second = await say(runner, "two")
    await runner.rewind(before_invocation_id=second, **WHO)
    assert runner.artifacts is not None
    where = {"app_name": "echo", **WHO}
    assert (await runner.artifacts.load_artifact(filename="last.txt", **where)).text == "one"
    with pytest.raises(ArtifactNotFoundError):
        await runner.artifacts.load_artifact(filename="new.txt", **where)
    assert await runner.artifacts.list_artifacts(**where) == ["last.txt"]


async def test_rew_1_an_unknown_or_hidden_invocation_changes_nothing(runner: Runner) -> None:
    await say(runner, "one")
    second = await say(runner, "two")
    await runner.rewind(before_invocation_id=second, **WHO)
    count = len((await runner.sessions.get_session(app_name="echo", **WHO)).events)
    for absent in ("e-unknown", second):
        with pytest.raises(InvocationNotFoundError, match="nothing was changed"):
            await runner.rewind(before_invocation_id=absent, **WHO)
    assert len((await runner.sessions.get_session(app_name="echo", **WHO)).events) == count


async def test_a_turn_after_a_rewind_sees_only_what_is_left(runner: Runner) -> None:
    first = await say(runner, "one")
    second = await say(runner, "two")
    await runner.rewind(before_invocation_id=second, **WHO)
    third = await say(runner, "three")
    session = await runner.sessions.get_session(app_name="echo", **WHO)
    assert {event.invocation_id for event in session.live_events} == {first, third}
    assert session.state["last"] == "three"


async def test_rew_4_a_version_that_is_not_there_any_more_is_no_reason_to_stay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """BEY-14: with one version kept, the old content is gone; the newer must not stand in its place."""
    async with Runner(remembering(), sessions="memory:", artifacts="memory:?keep_versions=1") as runner:
        await say(runner, "one")
        second = await say(runner, "two")
        session = await runner.rewind(before_invocation_id=second, **WHO)
        assert session.state["last"] == "one"
        assert runner.artifacts is not None
        assert await runner.artifacts.list_artifacts(app_name="echo", **WHO) == []
    assert "'last.txt' cannot be put back" in caplog.text


async def test_rew_4_what_was_known_of_the_old_version_comes_back_with_it() -> None:
    async def body(ctx: Any) -> Any:
        said = ctx.user_content.text
        await ctx.artifacts.save("last.txt", Part(text=said), {"said": said})
        yield Event(content=text_content(said))

    async with Runner(Agent(name="echo", body=body), sessions="memory:", artifacts="memory:") as runner:
        await say(runner, "one")
        second = await say(runner, "two")
        await runner.rewind(before_invocation_id=second, **WHO)
        assert runner.artifacts is not None
        found = await runner.artifacts.get_artifact_version(app_name="echo", filename="last.txt", **WHO)
        assert (found.version, found.custom_metadata) == (3, {"said": "one"})
