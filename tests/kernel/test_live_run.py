"""The life of a live run around its agent: handle, sending, storing, hooks, session policy (core §3.6)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.kernel.live_agents import Deaf, Echo
from tests.kernel.running import stored, talking

from hookwork import (
    Agent,
    Blob,
    CallbackContext,
    Content,
    Event,
    InvocationContext,
    LiveRequest,
    LiveRun,
    LiveRunConfig,
    Part,
    Plugin,
    Runner,
    RunOutcome,
    Settings,
    text_content,
    user_content,
)
from hookwork.errors import (
    ConfigurationError,
    NothingToResume,
    RunStateError,
    SessionBusyError,
    UnsupportedOperationError,
    ValidationError,
)
from hookwork.live import ActivityStart
from hookwork.records.content import FunctionResponse

AUDIO = Blob(data=b"\0\1", mime_type="audio/pcm")


def runner_of(agent: Agent, *plugins: Any, **options: Any) -> Runner:
    return Runner.in_memory(agent, plugins=list(plugins), settings=Settings(), **options)


def live(runner: Runner, config: LiveRunConfig | None = None, **arguments: Any) -> LiveRun:
    return runner.run_live(user_id="u", session_id="s", config=config or LiveRunConfig(), **arguments)


async def talk(run: LiveRun, *requests: Any) -> list[Event]:
    """Send everything, close, and read to the end."""
    for request in requests:
        await run.send(request)
    await run.close()
    return [event async for event in run]


def texts(events: list[Event]) -> list[str]:
    return [event.text for event in events]


# --- the handle -------------------------------------------------------------------------------------------------------


async def test_live_1_what_is_sent_is_heard_in_order_and_the_iterator_ends_after_close() -> None:
    runner = runner_of(Echo(name="echo"))
    run = live(runner)
    events = await talk(run, "one", user_content("two"), [Part(text="three")])
    assert texts([event for event in events if event.content and not event.partial]) == [
        "you said one",
        "you said two",
        "you said three",
    ]
    assert run.outcome is not None
    assert (run.outcome.kind, run.outcome.invocation_id) == ("completed", run.invocation_id)
    assert run.outcome.final_event is not None
    assert run.outcome.final_event.text == "you said three"


async def test_live_1_close_is_idempotent_and_so_is_leaving() -> None:
    async with live(runner_of(Echo(name="echo"))) as run:
        await run.close()
        await run.close()
        assert [event async for event in run if event.content] == []
        await run.close()
    await run.aclose()


async def test_live_3_sending_after_close_raises() -> None:
    run = live(runner_of(Echo(name="echo")))
    await run.close()
    with pytest.raises(RunStateError, match="closed"):
        await run.send("late")
    assert [event async for event in run if event.content] == []
    with pytest.raises(RunStateError, match="over"):
        await run.send("later")


@pytest.mark.parametrize("config", [None, {}, "AUDIO"])
def test_live_1_a_live_run_needs_its_config(config: Any) -> None:
    with pytest.raises(ConfigurationError, match="LiveRunConfig"):
        runner_of(Echo(name="echo")).run_live(user_id="u", config=config)


@pytest.mark.parametrize(
    ("arguments", "path"),
    [({"user_id": ""}, "user_id"), ({"user_id": "u", "session_id": 3}, "session_id")],
)
def test_live_1_bad_ids_are_refused_before_anything(arguments: dict[str, Any], path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        runner_of(Echo(name="echo")).run_live(config=LiveRunConfig(), **arguments)
    assert caught.value.path == path


async def test_live_1_a_session_id_is_made_when_none_is_given() -> None:
    run = runner_of(Echo(name="echo")).run_live(user_id="u", config=LiveRunConfig())
    assert run.session_id
    await talk(run, "hi")
    assert run.session is not None
    assert run.session.id == run.session_id


async def test_live_13_sends_that_wait_for_room_end_with_the_run() -> None:
    run = live(runner_of(Deaf(name="deaf")))
    assert (await anext(aiter(run))).text == "here"

    async def pour() -> None:
        while True:
            await run.send(AUDIO)

    pouring = asyncio.create_task(pour())
    await asyncio.sleep(0)
    await run.stop()
    with pytest.raises(RunStateError, match="over"):
        await pouring


# --- which agent, which order -----------------------------------------------------------------------------------------


async def test_live_2_an_agent_without_live_support_is_refused_and_no_hook_is_called() -> None:
    seen: list[str] = []

    class Watch(Plugin):
        name = "watch"

        def before_run(self) -> None:
            seen.append("before_run")

        def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
            seen.append("after_run")

    run = live(runner_of(Agent(name="plain", body=talking("hi")), Watch()))
    with pytest.raises(UnsupportedOperationError, match=r"'plain'.*does not support live"):
        await talk(run)
    assert seen == []
    assert run.outcome is not None
    assert run.outcome.kind == "failed"


def test_live_2_an_agent_without_a_live_body_says_so() -> None:
    agent = Agent(name="plain", body=talking("hi"))
    assert agent.live is False
    with pytest.raises(UnsupportedOperationError, match="only LLM and sequential agents"):
        agent.live_body(None)  # type: ignore[arg-type]


async def test_live_2_and_run_22_hooks_wrap_the_live_call_and_after_run_comes_last() -> None:
    seen: list[str] = []

    class Watch(Plugin):
        name = "watch"

        def before_run(self) -> None:
            seen.append("before_run")

        def before_agent(self, ctx: CallbackContext) -> None:
            seen.append("before_agent")

        def on_user_message(self, message: Content) -> None:
            seen.append(f"on_user_message {message.text}")

        def after_agent(self, ctx: CallbackContext) -> None:
            seen.append("after_agent")

        def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
            seen.append(f"after_run {outcome.kind}")

    await talk(live(runner_of(Echo(name="echo"), Watch())), "a", "b")
    assert seen == ["before_run", "before_agent", "on_user_message a", "on_user_message b", "after_agent",
                    "after_run completed"]  # fmt: skip


async def test_case_plug_1_a_before_run_answer_closes_the_session_and_passes_on_event() -> None:
    ended: list[str] = []

    class Guard(Plugin):
        name = "guard"

        def before_run(self) -> Content:
            return text_content("secret-42")

    class Redactor(Plugin):
        name = "redactor"

        def on_event(self, event: Event) -> Event:
            return event.replace(content=text_content("***"))

        def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
            ended.append(outcome.kind)

    runner = runner_of(Echo(name="echo"), Guard(), Redactor())
    run = live(runner)
    events = [event async for event in run]
    assert [(event.author, event.text) for event in events] == [("echo", "***")]
    assert [(event.id, event.text) for event in await stored(runner)] == [(events[0].id, "***")]
    assert ended == ["completed"]
    with pytest.raises(RunStateError):
        await run.send("hello?")


async def test_live_2_after_run_on_early_exit_too() -> None:
    ended: list[str] = []

    class Watch(Plugin):
        name = "watch"

        def after_run(self, ctx: InvocationContext, outcome: RunOutcome) -> None:
            ended.append(f"{outcome.kind}: {outcome.reason}")

    Deaf.ended.clear()
    async with live(runner_of(Deaf(name="deaf"), Watch())) as run:
        async for _ in run:
            break
    assert (ended, Deaf.ended) == (["closed: left"], ["deaf"])


async def test_live_2_an_error_of_the_body_fails_the_run_as_it_is() -> None:
    run = live(runner_of(Echo(name="echo")))
    with pytest.raises(ValueError, match="broken on purpose"):
        await talk(run, "break")
    assert run.outcome is not None
    assert run.outcome.kind == "failed"


# --- what is stored ---------------------------------------------------------------------------------------------------


async def test_live_3_contents_are_stored_as_user_events_and_realtime_input_is_not() -> None:
    runner = runner_of(Echo(name="echo"))
    run = live(runner)
    await talk(run, "one", AUDIO, ActivityStart(), LiveRequest(content=user_content("two"), realtime_input=AUDIO))
    events = [event for event in await stored(runner) if event.content is not None]
    assert [(event.author, event.text) for event in events] == [
        ("user", "one"),
        ("echo", "you said one"),
        ("user", "two"),
        ("echo", "you said two"),
    ]
    assert {event.invocation_id for event in events} == {run.invocation_id}


async def test_live_6_partials_and_inline_data_are_yielded_and_not_stored() -> None:
    runner = runner_of(Echo(name="echo"))
    events = await talk(live(runner), AUDIO, "hi")
    heard = [part.inline_data for event in events if event.content for part in event.content.parts if part.inline_data]
    assert heard == [AUDIO]
    assert [event.text for event in events if event.partial] == ["part of hi"]
    kept = await stored(runner)
    assert not any(event.partial for event in kept)
    assert not any(part.inline_data for event in kept if event.content for part in event.content.parts)


async def test_live_6_what_is_not_stored_passes_on_event_too() -> None:
    class Mute(Plugin):
        name = "mute"

        def on_event(self, event: Event) -> Event | None:
            loud = event.content is not None and any(part.inline_data for part in event.content.parts)
            return event.replace(content=text_content("(sound)")) if loud else None

    events = await talk(live(runner_of(Echo(name="echo"), Mute())), AUDIO)
    assert [event.text for event in events if event.content] == ["(sound)"]


async def test_live_7_on_user_message_replaces_what_is_stored_and_sent() -> None:
    class Polite(Plugin):
        name = "polite"

        def on_user_message(self, message: Content) -> Content:
            return user_content(f"{message.text}, please")

    runner = runner_of(Echo(name="echo"), Polite())
    events = await talk(live(runner), "tea")
    assert [event.text for event in events if event.content and not event.partial] == ["you said tea, please"]
    assert (await stored(runner))[0].text == "tea, please"


async def test_live_3_inline_files_of_a_content_become_artifacts_when_the_runner_says_so() -> None:
    from hookwork import RunConfig

    runner = runner_of(Echo(name="echo"), config=RunConfig(save_input_blobs_as_artifacts=True))
    image = Part(inline_data=Blob(data=b"png", mime_type="image/png"))
    run = live(runner)
    await talk(run, [Part(text="look"), image])
    first = (await stored(runner))[0]
    assert not any(part.inline_data for part in first.content.parts)  # type: ignore[union-attr]
    assert first.actions.artifact_delta == {f"artifact_{run.invocation_id}_1": 1}


async def test_cfg_1_custom_metadata_of_the_live_config_is_on_every_stored_event() -> None:
    runner = runner_of(Echo(name="echo"))
    await talk(live(runner, LiveRunConfig(custom_metadata={"tenant": "t"})), "hi")
    assert [event.custom_metadata for event in await stored(runner)] == [{"tenant": "t"}] * 3


async def test_eph_1_the_ephemeral_scope_reaches_hooks_of_a_live_run() -> None:
    seen: list[Any] = []

    class Watch(Plugin):
        name = "watch"

        def on_user_message(self, ctx: InvocationContext, message: Content) -> None:
            seen.append(ctx.ephemeral["token"])

    await talk(live(runner_of(Echo(name="echo"), Watch()), ephemeral={"token": "secret"}), "hi")
    assert seen == ["secret"]


@pytest.mark.parametrize("content", [user_content(""), Content(role="user", parts=[Part()]), Content(role="user")])
async def test_live_4_an_empty_content_is_refused_at_send_and_the_session_goes_on(content: Content) -> None:
    run = live(runner_of(Echo(name="echo")))
    with pytest.raises(ValidationError):
        await run.send(content)
    assert "you said hi" in texts(await talk(run, "hi"))


async def test_res_7_an_answer_to_no_call_is_refused_at_send_once_the_session_is_known() -> None:
    run = live(runner_of(Echo(name="echo")))
    await run.send("hi")
    assert (await anext(aiter(run))).partial
    answer = Part(function_response=FunctionResponse(id="nobody", name="f", response={}))
    with pytest.raises(NothingToResume, match="nobody"):
        await run.send([answer])
    await run.aclose()


async def test_res_7_an_answer_to_no_call_sent_before_the_session_is_known_is_dropped(caplog: Any) -> None:
    runner = runner_of(Echo(name="echo"))
    answer = Part(function_response=FunctionResponse(id="nobody", name="f", response={}))
    events = await talk(live(runner), [answer], "hi")
    assert [event.text for event in events if event.content and not event.partial] == ["you said hi"]
    assert "dropped" in caplog.text
    assert [event.text for event in await stored(runner) if event.author == "user"] == ["hi"]


async def test_live_10_save_live_blob_needs_an_artifact_service() -> None:
    runner = Runner(Echo(name="echo"), sessions="memory:", settings=Settings())
    run = live(runner, LiveRunConfig(save_live_blob=True))
    with pytest.raises(ConfigurationError, match="artifact service"):
        await talk(run, "hi")


# --- two runs on one session ------------------------------------------------------------------------------------------


async def test_pol_5_a_run_does_not_wait_for_a_live_run() -> None:
    runner = runner_of(Deaf(name="deaf"))
    async with live(runner) as run:
        events = aiter(run)
        await anext(events)

        async def other() -> None:
            async for _ in runner.run(user_id="u", session_id="s", message="hi"):
                pass

        with pytest.raises(SessionBusyError, match="live run"):
            await asyncio.create_task(other())


async def test_pol_5_a_run_does_not_queue_behind_a_live_run_that_waits_itself() -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow(ctx: InvocationContext) -> AsyncIterator[Event]:
        began.set()
        await go_on.wait()
        yield Event(content=text_content("done"))

    runner = runner_of(Echo(name="echo"))
    slow_runner = Runner(
        Agent(name="slow", body=slow), app_name=runner.app_name, sessions=runner.sessions, settings=Settings()
    )
    first = asyncio.create_task(slow_runner.run(user_id="u", session_id="s", message="hi").wait())
    await began.wait()
    waiting = live(runner)
    second = asyncio.create_task(talk(waiting, "hello"))
    await asyncio.sleep(0)
    with pytest.raises(SessionBusyError, match="waits for session"):
        await slow_runner.run(user_id="u", session_id="s", message="me too").wait()
    go_on.set()
    assert (await first).kind == "completed"
    assert "you said hello" in texts(await second)


async def test_pol_4_supersede_ends_a_live_run() -> None:
    runner = runner_of(Deaf(name="deaf"), session_policy="supersede")
    run = live(runner)
    await anext(aiter(run))

    async def other() -> list[str]:
        return [event.text async for event in runner.run(user_id="u", session_id="s", message="hi")]

    assert "typed" in await asyncio.create_task(other())
    assert run.outcome is not None
    assert (run.outcome.kind, run.outcome.reason) == ("closed", "superseded")


async def test_run_26_closing_the_runner_ends_its_live_runs() -> None:
    runner = runner_of(Deaf(name="deaf"))
    run = live(runner)
    await anext(aiter(run))
    await runner.close()
    assert run.outcome is not None
    assert run.outcome.kind == "closed"
    with pytest.raises(RunStateError, match="runner is closed"):
        live(runner)


def test_perf_24_a_normal_run_loads_nothing_of_live_runs() -> None:
    script = """
import asyncio, sys
from hookwork import Runner, Settings
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel

async def main():
    async with Runner.in_memory(LlmAgent(name="a", model=ScriptedModel(["hi"])), settings=Settings()) as runner:
        assert await runner.ask("hello") == "hi"

asyncio.run(main())
print([name for name in sys.modules if name.startswith(("hookwork.live", "hookwork_llm.live"))])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
