"""Lost lines: resumption handles, back-off, what is sent again, what ends the session (models LIVE-9 … LIVE-13)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.llm.live_talks import Talk, shown

from hookwork import (
    Blob,
    CallbackContext,
    FunctionResponse,
    LiveRunConfig,
    ModelRequest,
    ModelResponse,
    Part,
    Plugin,
    SessionResumption,
    Stage,
    text_content,
    user_content,
)
from hookwork.errors import LiveConnectionClosed, ModelError
from hookwork.live import GO_AWAY
from hookwork.platform import use_sleep
from hookwork_llm import tool
from hookwork_llm.live.recovery import Recovery
from hookwork_testkit import Cut, Hear, call
from hookwork_testkit.live import audio, handle, said, turn_complete

SOUND = Blob(data=b"\0\1", mime_type="audio/pcm")
RESUMING = LiveRunConfig(session_resumption=SessionResumption())


class Clock:
    """Notes every wait and takes no time."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> Any:
    clock = Clock()
    with use_sleep(clock.sleep):
        yield clock


def handles(talk: Talk) -> list[str | None]:
    """The handle of every attempt to connect."""
    given = [config.session_resumption for config in talk.model.attempts]
    return [resumption.handle if resumption is not None else None for resumption in given]


# --- handles ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transparent", [None, False, True])
async def test_case_live_1_the_ten_minute_line_cut(clock: Clock, transparent: bool | None) -> None:
    going = ModelResponse(partial=True, custom_metadata={GO_AWAY: 9})
    talk = Talk(
        [handle("h1"), "some text", going, Cut(1011)],
        [handle("h2"), Cut(1006)],
        *[[Cut(1006)] for _ in range(5)],
        config=LiveRunConfig(session_resumption=SessionResumption(transparent=transparent)),
        close=False,
    )
    with pytest.raises(ModelError) as caught:
        await talk.hold()
    assert (caught.value.kind, caught.value.code, caught.value.retryable) == ("live", "1006", False)
    assert isinstance(caught.value.__cause__, LiveConnectionClosed)
    assert handles(talk) == [None, "h1", *["h2"] * 5]
    assert {config.session_resumption.transparent for config in talk.model.attempts if config.session_resumption} == {
        transparent
    }
    assert [line.history for line in talk.connections] == [None] * 7
    assert [event.session_resumption_handle for event in talk.events if event.session_resumption_handle] == ["h1", "h2"]
    assert clock.waits == [1.0, 1.0, 2.0, 4.0, 8.0, 16.0]
    assert talk.model.open_connections == 0

    again = Talk(
        [Hear(1), "here", turn_complete()], config=LiveRunConfig(session_resumption=SessionResumption(handle="h2"))
    )
    await again.hold("hello")
    assert handles(again) == ["h2"]


async def test_live_9_handles_are_stored_so_that_another_process_can_find_them() -> None:
    talk = await Talk([handle("h1"), Hear(1), "a", turn_complete()]).hold("hi")
    assert "voice: handle h1" in shown(await talk.stored())


async def test_live_9_a_handle_of_the_caller_resumes_on_the_first_connection_and_no_history_is_sent() -> None:
    talk = Talk(
        [Hear(1), "yes", turn_complete()],
        config=LiveRunConfig(session_resumption=SessionResumption(handle="old")),
        responses=["typed"],
    )
    async for _ in talk.runner.run(user_id="u", session_id="s", message="before"):
        pass
    await talk.hold("go on")
    assert handles(talk) == ["old"]
    assert talk.line.history is None


async def test_live_9_the_handle_is_kept_without_the_caller_asking_for_it(clock: Clock) -> None:
    talk = await Talk([Hear(1), handle("h1"), "a", turn_complete(), Cut(1006)], ["b", turn_complete()]).hold("hi")
    assert handles(talk) == [None, "h1"]


async def test_live_9_another_agent_is_not_given_the_handle_of_the_first() -> None:
    from hookwork_llm import LlmAgent

    def tree(model: Any) -> LlmAgent:
        helper = LlmAgent(name="helper", model=model, description="Helps.")
        return LlmAgent(name="front", model=model, sub_agents=[helper])

    talk = await Talk(
        [handle("h1"), Hear(1), call("transfer_to_agent", "c1", agent_name="helper"), Hear(1)],
        ["I help", turn_complete()],
        root=tree,
        config=LiveRunConfig(session_resumption=SessionResumption(handle="old", transparent=False)),
    ).hold("help")
    assert handles(talk) == ["old", None]
    assert talk.connections[1].config.session_resumption == SessionResumption(transparent=False)


async def test_live_11_a_resumed_connection_is_told_nothing_again(clock: Clock) -> None:
    async def second(_: Any) -> None:
        await talk.run.send("two")

    talk = Talk([Hear(1), "a", turn_complete(), handle("h1"), Cut(1006)], [second, Hear(1), "b", turn_complete()])
    await talk.hold("one")
    assert talk.line.history is None
    assert talk.line.texts == ["two"]


async def test_live_10_a_handle_that_the_server_does_not_take_is_given_up_for_the_history(clock: Clock) -> None:
    async def second(_: Any) -> None:
        await talk.run.send("two")

    talk = Talk(
        [Hear(1), "a", turn_complete(), handle("h1"), Cut(1006)],
        [Cut(1007)],
        [second, Hear(1), "b", turn_complete()],
    )
    await talk.hold("one")
    assert handles(talk) == [None, "h1", None]
    assert talk.line.history == [user_content("one"), text_content("a")]
    assert talk.line.texts == ["two"]


async def test_live_10_a_refused_handle_of_the_caller_is_the_callers_to_hear_about(clock: Clock) -> None:
    refused = ModelError("no such session", kind="invalid_request", provider="scripted")
    talk = Talk(refused, config=LiveRunConfig(session_resumption=SessionResumption(handle="gone")), close=False)
    with pytest.raises(ModelError) as caught:
        await talk.hold("hi")
    assert caught.value is refused


# --- which ends may be followed by a new connection -------------------------------------------------------------------


@pytest.mark.parametrize("code", [1000, 1001, 1006, 1008, 1011, 1012, 1013, 1014])
async def test_live_10_these_close_codes_are_followed_by_a_new_connection(clock: Clock, code: int) -> None:
    talk = await Talk([Hear(1), Cut(code)], [Hear(1), "yes", turn_complete()]).hold("hi")
    assert len(talk.connections) == 2
    assert clock.waits == [1.0]


@pytest.mark.parametrize("code", [1002, 1003, 1007, 1009, 1010, 4000])
async def test_live_10_other_close_codes_end_the_session_with_that_error(clock: Clock, code: int) -> None:
    talk = Talk([Hear(1), "half", Cut(code)], close=False)
    with pytest.raises(LiveConnectionClosed) as caught:
        await talk.hold("hi")
    assert caught.value.close_code == code
    assert clock.waits == []
    assert talk.line.closed


async def test_live_10_after_a_go_away_any_close_code_will_do(clock: Clock) -> None:
    going = ModelResponse(partial=True, custom_metadata={GO_AWAY: 0})
    talk = await Talk([Hear(1), going, Cut(1002)], [Hear(1), "yes", turn_complete()]).hold("hi")
    assert len(talk.connections) == 2


async def test_live_10_the_end_of_the_stream_without_a_code_counts_as_1000(clock: Clock) -> None:
    async def hang_up(connection: Any) -> None:
        connection.closed = True  # the server's side ends its stream: `receive` is exhausted

    talk = await Talk([Hear(1), hang_up], [Hear(1), "yes", turn_complete()]).hold("hi")
    assert len(talk.connections) == 2


async def test_live_10_a_message_resets_the_attempts_and_the_back_off(clock: Clock) -> None:
    scripts: list[Any] = [[Hear(1), Cut(1006)], [Cut(1006)], [Cut(1006)], [handle("h"), Cut(1006)], [Cut(1006)]]
    talk = await Talk(*scripts, [Hear(1), "yes", turn_complete()]).hold("hi")
    assert clock.waits == [1.0, 2.0, 4.0, 1.0, 2.0]
    assert len(talk.connections) == 6


async def test_live_10_failed_attempts_to_connect_count_too(clock: Clock) -> None:
    down = ModelError("down", kind="unavailable", retryable=True, status_code=503)
    talk = await Talk([Hear(1), Cut(1006)], down, down, [Hear(1), "yes", turn_complete()]).hold("hi")
    assert clock.waits == [1.0, 2.0, 4.0]
    assert len(talk.model.attempts) == 4


async def test_live_10_an_error_that_no_attempt_can_mend_ends_the_session(clock: Clock) -> None:
    denied = ModelError("key revoked", kind="auth", status_code=401)
    talk = Talk([Hear(1), Cut(1006)], denied, close=False)
    with pytest.raises(ModelError) as caught:
        await talk.hold("hi")
    assert caught.value is denied


def test_live_10_the_back_off_doubles_and_stays_below_its_cap() -> None:
    from hookwork_llm.live import recovery

    waits = []
    known = Recovery()
    known.opened()
    for _ in range(recovery.MAX_ATTEMPTS):
        waits.append(known.delay(LiveConnectionClosed("gone"), "m"))
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert max(waits) <= recovery.MAX_DELAY == 30.0
    with pytest.raises(ModelError, match="5 new ones in a row"):
        known.delay(LiveConnectionClosed("gone"), "m")


async def test_live_10_what_was_only_spoken_cannot_be_told_again(clock: Clock) -> None:
    talk = Talk([Hear(0, 1), audio(), turn_complete(), Cut(1006)], close=False)
    with pytest.raises(ModelError, match="session_resumption") as caught:
        await talk.hold(SOUND)
    assert (caught.value.kind, caught.value.code) == ("live", "1006")


async def test_live_10_with_transcription_or_a_handle_speech_survives_the_cut(clock: Clock) -> None:
    written = LiveRunConfig(input_audio_transcription={}, output_audio_transcription={})
    talk = await Talk(
        [Hear(0, 1), said("hello"), audio(), turn_complete(), Cut(1006)], ["yes", turn_complete()], config=written
    ).hold(SOUND)
    assert [content.text for content in talk.line.history or ()] == ["hello"]
    talk = await Talk([Hear(0, 1), audio(), turn_complete(), handle("h"), Cut(1006)], ["yes", turn_complete()]).hold(
        SOUND
    )
    assert handles(talk) == [None, "h"]


async def test_mcb_3_on_model_error_may_answer_for_a_line_that_is_lost_for_good(clock: Clock) -> None:
    talk = await Talk(
        [Hear(1), Cut(1007)],
        close=False,
        on_model_error=lambda ctx, request, error: ModelResponse(content=text_content("Sorry, I lost you.")),
    ).hold("hi")
    assert [event.text for event in talk.events if event.content] == ["Sorry, I lost you."]
    assert talk.run.outcome is not None
    assert talk.run.outcome.kind == "completed"


# --- the history, told again ------------------------------------------------------------------------------------------


async def test_live_10_without_a_handle_the_conversation_is_told_again(clock: Clock) -> None:
    async def second(_: Any) -> None:
        await talk.run.send("two")

    talk = Talk(
        [Hear(1), "a", turn_complete(), Cut(1006)],
        [second, Hear(1), "b", turn_complete()],
    )
    await talk.hold("one")
    assert talk.line.history == [user_content("one"), text_content("a")]
    assert talk.line.texts == ["two"]
    assert [event.text for event in await talk.stored() if event.content] == ["one", "a", "two", "b"]


async def test_case_model_3_what_was_half_said_is_not_stored_and_the_question_is_asked_again(clock: Clock) -> None:
    talk = await Talk([Hear(1), "the answer ", Cut(1006)], [Hear(1), "is five", turn_complete()]).hold("one")
    assert [line.texts for line in talk.connections] == [["one"], ["one"]]
    assert talk.connections[1].history is None
    assert [event.text for event in await talk.stored() if event.content] == ["one", "is five"]


async def test_live_10_before_model_runs_once_per_connection_on_a_request_of_its_own(clock: Clock) -> None:
    seen: list[tuple[int, str]] = []

    class Note(Plugin):
        name = "note"

        def before_model(self, ctx: CallbackContext, request: ModelRequest) -> None:
            request.append_instruction("Once.")
            assert request.config.system_instruction is not None
            seen.append((len(request.contents), request.config.system_instruction.text[-5:]))

        @asynccontextmanager
        async def around_model(self, ctx: CallbackContext, request: ModelRequest, stage: Stage) -> AsyncIterator[None]:
            seen.append((0, "("))
            yield

    talk = await Talk([Hear(1), "a", turn_complete(), Cut(1006)], ["b", turn_complete()], plugins=[Note()]).hold("hi")
    assert seen == [(0, "("), (0, "Once."), (0, "("), (2, "Once.")]
    assert talk.line.request.instruction.count("Once.") == 1


async def test_live_10_what_the_user_had_said_when_the_line_broke_is_kept(clock: Clock) -> None:
    written = LiveRunConfig(input_audio_transcription={}, output_audio_transcription={})
    talk = await Talk([said("what time "), said("is"), Cut(1006)], ["five", turn_complete()], config=written).hold()
    assert shown(await talk.stored()) == ["voice: heard what time is", "voice: five", "voice: turn_complete"]
    assert [content.text for content in talk.line.history or ()] == ["what time is"]


# --- what is sent again -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resumes", [True, False])
async def test_live_12_a_content_whose_send_failed_is_sent_over_the_next_line(clock: Clock, resumes: bool) -> None:
    first: list[Any] = [Hear(1), "a", turn_complete(), *([handle("h1")] if resumes else [])]

    async def second(_: Any) -> None:
        await talk.run.send("two")

    talk = Talk([*first, Cut(1006, on_send=True), second], [Hear(1), "b", turn_complete()])
    await talk.hold("one")
    assert [line.texts for line in talk.connections] == [["one"], ["two"]]
    assert talk.connections[1].history == (None if resumes else [user_content("one"), text_content("a")])
    assert [event.text for event in await talk.stored() if event.content] == ["one", "a", "two", "b"]


async def test_live_12_realtime_media_is_not_sent_again(clock: Clock) -> None:
    written = LiveRunConfig(input_audio_transcription={}, output_audio_transcription={})
    talk = await Talk([Hear(1, 1), Cut(1006)], [Hear(1), "yes", turn_complete()], config=written).hold("one", SOUND)
    assert [line.realtime for line in talk.connections] == [[SOUND], []]
    assert [line.texts for line in talk.connections] == [["one"], ["one"]]


async def test_live_12_realtime_media_between_two_lines_is_lost_and_its_sender_not_held_up() -> None:
    gone, go_on = asyncio.Event(), asyncio.Event()

    async def wait(_: float) -> None:
        gone.set()
        await go_on.wait()

    async def speak() -> None:
        await gone.wait()
        for _ in range(200):
            await talk.run.send(SOUND)
        await talk.run.send("and text")
        go_on.set()

    written = LiveRunConfig(input_audio_transcription={}, output_audio_transcription={})
    talk = Talk([Hear(1), "a", turn_complete(), Cut(1006)], [Hear(1), "yes", turn_complete()], config=written)
    speaking = asyncio.create_task(speak())
    with use_sleep(wait):
        await talk.hold("one")
    await speaking
    assert talk.connections[1].realtime == []
    assert talk.connections[1].texts == ["and text"]


@pytest.mark.parametrize("resumes", [True, False])
async def test_live_12_a_response_whose_send_failed_reaches_the_model_and_the_tool_ran_once(
    clock: Clock, resumes: bool
) -> None:
    ran: list[str] = []

    @tool
    def look() -> dict[str, Any]:
        """Look."""
        ran.append("look")
        return {"seen": True}

    first: list[Any] = [*([handle("h1")] if resumes else []), Hear(1), Cut(1006, on_send=True), call("look", "c1")]
    talk = Talk(first, [*([Hear(1)] if resumes else []), "ok", turn_complete()], tools=[look])
    await talk.hold("go")
    assert ran == ["look"]
    if resumes:
        assert [response.id for response in talk.line.responses] == ["c1"]
        assert talk.line.history is None
    else:
        told = talk.line.history or []
        assert [[*content.function_calls, *content.function_responses] == [] for content in told] == [
            True,
            False,
            False,
        ]
        assert talk.line.responses == []
    assert shown(await talk.stored())[-4:] == ["voice: look?", "voice: look!", "voice: ok", "voice: turn_complete"]


async def test_live_10_a_tool_that_runs_when_the_line_breaks_is_waited_for_before_the_history_is_told(
    clock: Clock,
) -> None:
    go_on = asyncio.Event()

    @tool
    async def slow() -> dict[str, Any]:
        """Take a while."""
        await go_on.wait()
        return {"slow": True}

    talk = Talk([Hear(1), call("slow", "c1"), Cut(1006)], ["ok", turn_complete()], tools=[slow])
    holding = asyncio.create_task(talk.hold("go"))
    while not clock.waits:
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(talk.connections) == 1
    go_on.set()
    await holding
    told = [response.response for content in talk.line.history or () for response in content.function_responses]
    assert told == [{"slow": True}]


@pytest.mark.parametrize("resumes", [True, False])
async def test_live_10_an_answer_that_comes_after_the_cut_reaches_the_model(clock: Clock, resumes: bool) -> None:
    """A server that was told the conversation anew waits for no answer to a call of its history: it is told in words,
    as FN-27 tells what comes late. One that resumed by a handle still waits."""
    asked = asyncio.Event()

    @tool(long_running=True)
    def ticket() -> None:
        """Open a ticket."""
        asked.set()

    async def until_asked(_: Any) -> None:
        await asked.wait()

    async def solve(_: Any) -> None:
        answered = FunctionResponse(id="c1", name="ticket", response={"solved": True})
        await talk.run.send([Part(function_response=answered)])

    begin = [handle("h1")] if resumes else []
    talk = Talk(
        [Hear(1), *begin, call("ticket", "c1"), until_asked, "wait", turn_complete(), Cut(1006)],
        [solve, Hear(1), "done", turn_complete()],
        tools=[ticket],
    )
    await talk.hold("go")
    [sent] = talk.line.contents
    if resumes:
        assert [(response.id, response.response) for response in sent.function_responses] == [("c1", {"solved": True})]
    else:
        assert sent == user_content('Function ticket returned: {"solved": true}')
    assert talk.run.open_calls == []


async def test_live_10_a_result_that_the_model_spoke_beside_stands_last_in_what_is_told(clock: Clock) -> None:
    """A history that ends with the model asks for no answer (LIVE-3); a result that got none must not be behind it."""
    second_done = asyncio.Event()

    @tool
    async def look(what: str) -> dict[str, Any]:
        """Look."""
        if what == "b":
            await second_done.wait()
        return {"seen": what}

    def release(_: Any) -> None:
        second_done.set()

    made = [call("look", "c1", what="a"), call("look", "c2", what="b")]
    talk = Talk(
        [Hear(1), made[0], made[1], Hear(1), "a is there", release, Hear(1), turn_complete(), Cut(1006)],
        ["b too", turn_complete()],
        tools=[look],
    )
    await talk.hold("look")
    told = talk.line.history or []
    assert [response.response for response in told[-1].function_responses] == [{"seen": "b"}]
    assert [made.id for made in told[-2].function_calls] == ["c2"]
    assert [content.text for content in told if content.text] == ["look", "a is there"]
