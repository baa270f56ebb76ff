"""Cases PLUG, STATE and SESS: hooks, state and sessions as users met them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from hookwork import Event, Plugin, RunConfig
from hookwork.context import CallbackContext, ToolContext
from hookwork.errors import SessionBusyError, StaleSessionError, StateMutationError
from hookwork.records.content import text_content
from hookwork.records.event import EventActions, new_event
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call


async def test_case_plug_1_an_early_answer_passes_the_event_hook(in_memory: Any, say: Any, read: Any) -> None:
    """The plain run; live and workflow runs come with their distributions."""
    ended: list[str] = []

    class Guard(Plugin):
        def before_run(self, ctx: Any) -> Any:
            return text_content("secret-42")

        def after_run(self, outcome: Any) -> None:
            ended.append(outcome.kind)

    class Redactor(Plugin):
        def on_event(self, event: Event) -> Event | None:
            return event.replace(content=text_content(event.text.replace("secret-42", "***")))

    model = ScriptedModel()
    async with in_memory.runner(LlmAgent(name="a", model=model), plugins=[Guard(), Redactor()]) as runner:
        events, _ = await say(runner)
        session = await read(runner)
    assert [(event.author, event.text) for event in events] == [("a", "***")]
    assert (session.events[-1].id, session.events[-1].text) == (events[0].id, "***")
    assert (model.calls, ended) == (0, ["completed"])


@pytest.mark.parametrize("where", ["after_agent", "before_agent"])
async def test_case_plug_3_a_state_only_event_is_not_the_answer(
    in_memory: Any, say: Any, read: Any, where: str
) -> None:
    def note(ctx: CallbackContext) -> None:
        ctx.state["n"] = 1

    callbacks: dict[str, Any] = {where: note}
    async with in_memory.runner(LlmAgent(name="a", model=ScriptedModel(["hello"]), **callbacks)) as runner:
        events, outcome = await say(runner)
        session = await read(runner)
    kept = [event for event in events if event.is_final_response()][-1]
    assert kept.text == "hello"
    (delta,) = [event for event in events if event.content is None]
    assert delta.actions.state_delta == {"n": 1}
    assert not delta.is_final_response()
    assert delta.id in [event.id for event in session.events]
    assert outcome.final_event.text == "hello"


async def test_case_state_1_parallel_calls_that_append_to_one_list(backend: Any, say: Any, read: Any) -> None:
    later = asyncio.Event()

    @tool
    async def add(ctx: ToolContext, item: str) -> dict[str, Any]:
        """Add an item."""
        if item == "a":
            await later.wait()
        ctx.state["items"] = [*ctx.state["items"], item]
        later.set()
        return {}

    model = ScriptedModel([[call("add", item="a"), call("add", item="b")], "done"])
    agent = LlmAgent(name="a", model=model, tools=[add])
    async with backend.runner(agent) as runner:
        async with runner.run(user_id="u", session_id="s", message="hi", state_delta={"items": []}) as run:
            await run.wait()
        in_the_run = run.session.state["items"]
    async with backend.runner(agent) as runner:
        stored = (await read(runner)).state["items"]
    assert in_the_run == stored == ["b", "a"]


async def test_case_state_2_an_in_place_change_of_a_nested_value(backend: Any, say: Any, read: Any) -> None:
    """Refused with a message that names the key and the two ways; the same on every backend."""
    errors: list[Exception] = []

    @tool
    async def change(ctx: ToolContext) -> dict[str, Any]:
        """Change in place."""
        try:
            ctx.state["cart"]["lines"].append("x")
        except StateMutationError as error:
            errors.append(error)
            with ctx.state.edit("cart") as cart:
                cart["lines"].append("x")
        return {}

    @tool
    async def count(ctx: ToolContext) -> int:
        """Count."""
        return len(ctx.state["cart"]["lines"])

    model = ScriptedModel([call("change"), "done", call("count"), "done"])
    agent = LlmAgent(name="a", model=model, tools=[change, count])
    async with backend.runner(agent) as runner:
        await say(runner, state_delta={"cart": {"lines": []}})
    async with backend.runner(agent) as runner:
        events, _ = await say(runner, "again")
    assert "cart" in str(errors[0])
    assert "edit" in str(errors[0])
    assert events[1].function_responses[0].response == {"result": 1}


class Booking:
    """A tool that waits until it is let go."""

    def __init__(self) -> None:
        self.booked: list[str] = []
        self.inside = asyncio.Event()
        self.go_on = asyncio.Event()

        @tool
        async def book(ctx: ToolContext) -> dict[str, Any]:
            """Book."""
            self.booked.append(ctx.user_content.text if ctx.user_content else "")
            self.inside.set()
            await self.go_on.wait()
            return {"booked": True}

        self.agent = LlmAgent(
            name="a", model=ScriptedModel([call("book"), "first", call("book"), "second"]), tools=[book]
        )


async def test_case_sess_1_two_messages_in_a_row(backend: Any, say: Any, read: Any) -> None:
    booking = Booking()
    async with backend.runner(booking.agent) as runner:
        one = asyncio.create_task(say(runner, "one"))
        await booking.inside.wait()
        two = asyncio.create_task(say(runner, "two"))
        await asyncio.sleep(0)
        booking.go_on.set()
        await asyncio.gather(one, two)
        session = await read(runner)
    assert [event.text or event.author for event in session.events] == [
        "one", "a", "a", "first", "two", "a", "a", "second",
    ]  # fmt: skip
    assert booking.booked == ["one", "two"]


async def test_case_sess_1_with_the_reject_policy(backend: Any, say: Any, read: Any) -> None:
    booking = Booking()
    async with backend.runner(booking.agent, session_policy="reject") as runner:
        one = asyncio.create_task(say(runner, "one"))
        await booking.inside.wait()
        with pytest.raises(SessionBusyError) as refused:
            await say(runner, "two")
        assert isinstance(refused.value, StaleSessionError)
        booking.go_on.set()
        await one
        session = await read(runner)
    assert [event.text for event in session.events if event.text] == ["one", "first"]


async def note_from_the_side(ctx: ToolContext, sessions: Any, **delta: Any) -> None:
    side = await sessions.get_session(app_name=ctx.app_name, user_id=ctx.user_id, session_id=ctx.session_id)
    await sessions.append_event(side, new_event("e-side", author="bridge", actions=EventActions(state_delta=delta)))


async def test_case_sess_2_a_write_from_the_side_during_a_run(backend: Any, say: Any, read: Any) -> None:
    runners: list[Any] = []

    @tool
    async def bridge(ctx: ToolContext) -> str:
        """Write a note from the side."""
        await note_from_the_side(ctx, runners[0].sessions, note=1)
        return "ok"

    model = ScriptedModel([call("bridge"), "final"])
    agent = LlmAgent(name="a", model=model, tools=[bridge])
    async with backend.runner(agent) as runner:
        runners.append(runner)
        await say(runner)
    async with backend.runner(agent) as runner:
        session = await read(runner)
    assert session.state["note"] == 1
    assert [event.author for event in session.events] == ["user", "a", "bridge", "a", "a"]
    assert session.events[3].function_responses[0].response == {"result": "ok"}
    assert session.events[-1].text == "final"
    assert_valid_prompt(model.prompts[-1])


async def test_case_sess_2_a_foreign_write_of_a_key_of_the_run_is_an_error(backend: Any, say: Any, read: Any) -> None:
    runners: list[Any] = []

    @tool
    async def bridge(ctx: ToolContext) -> str:
        """Write the same key twice, here and from the side."""
        ctx.state["note"] = "mine"
        await note_from_the_side(ctx, runners[0].sessions, note="theirs")
        return "ok"

    agent = LlmAgent(name="a", model=ScriptedModel([call("bridge"), "never"]), tools=[bridge])
    async with backend.runner(agent) as runner:
        runners.append(runner)
        with pytest.raises(StaleSessionError) as stale:
            await say(runner)
        assert (await read(runner)).state["note"] == "theirs"
    assert stale.value.keys == ("note",)


async def test_case_sess_4_text_a_database_cannot_hold(
    backend: Any, say: Any, read: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def load() -> dict[str, Any]:
        """Read a file."""
        return {"out": "a\x00b\ud83dc", "fine": "😀 漢字", "k\x00": 1}

    model = ScriptedModel([call("load"), "done", "again"])
    agent = LlmAgent(name="a", model=model, tools=[load])
    with caplog.at_level(logging.WARNING):
        async with backend.runner(agent) as runner:
            await say(runner)
    async with backend.runner(agent) as runner:
        await say(runner, "and now?")
        session = await read(runner)
    wanted = {"out": "a\ufffdb\ufffdc", "fine": "😀 漢字", "k\ufffd": 1}
    assert session.events[2].function_responses[0].response == wanted
    shown = [[r.response for c in prompt for r in c.function_responses] for prompt in model.prompts[1:]]
    assert shown == [[wanted], [wanted]]  # live and after a reload
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1


async def test_case_sess_4_streamed_text_too(in_memory: Any, say: Any) -> None:
    model = ScriptedModel([["a\x00", "b"]])
    async with in_memory.runner(LlmAgent(name="a", model=model), config=RunConfig(streaming_mode="sse")) as runner:
        events, _ = await say(runner)
    assert events[-1].text == "a\ufffdb"
