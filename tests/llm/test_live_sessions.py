"""Live sessions: what opens them, what is sent and stored, the hooks around them (core §3.6, models §7)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.llm.live_talks import Talk, shown

from hookwork import (
    Blob,
    CallbackContext,
    Content,
    Event,
    GenerateContentConfig,
    LiveRequest,
    LiveRunConfig,
    ModelRequest,
    ModelResponse,
    Part,
    Plugin,
    Runner,
    SessionResumption,
    Settings,
    Stage,
    UsageMetadata,
    text_content,
    user_content,
)
from hookwork.errors import LlmCallLimitError, ModelError, ModelNotConfigured, UnsupportedOperationError
from hookwork.live import GO_AWAY, ActivityEnd, ActivityStart
from hookwork.records.metadata import Transcription
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import Hear, ScriptedModel, call
from hookwork_testkit.live import audio, interrupted, said, spoke, turn_complete

SOUND = Blob(data=b"\0\1", mime_type="audio/pcm;rate=16000")


@tool
def look(what: str) -> dict[str, Any]:
    """Look at something."""
    return {"seen": what}


# --- a turn -----------------------------------------------------------------------------------------------------------


async def test_live_5_a_turn_is_partials_the_whole_text_and_its_end() -> None:
    talk = await Talk([Hear(1), "It is ", "five.", turn_complete()]).hold("What time is it?")
    assert shown(talk.events) == ["voice: ~It is ", "voice: ~five.", "voice: It is five.", "voice: turn_complete"]
    assert shown(await talk.stored()) == ["user: What time is it?", "voice: It is five.", "voice: turn_complete"]
    assert talk.line.contents == [user_content("What time is it?")]
    assert talk.run.outcome is not None
    assert talk.run.outcome.kind == "completed"
    assert talk.run.outcome.final_event is not None
    assert talk.run.outcome.final_event.text == "It is five."


async def test_str_2_the_fragments_and_the_whole_share_one_id_and_the_next_turn_has_another() -> None:
    talk = await Talk([Hear(1), "a", "b", turn_complete(), Hear(1), "c", turn_complete()]).hold("one", "two")
    ids = [event.id for event in talk.events if event.content is not None]
    assert ids[0] == ids[1] == ids[2]
    assert ids[3] == ids[4] != ids[0]
    assert len({event.id for event in await talk.stored()}) == len(await talk.stored())


async def test_live_6_sound_is_yielded_whole_and_never_stored() -> None:
    talk = await Talk([Hear(1), audio(b"a"), audio(b"b"), turn_complete()]).hold("hi")
    assert shown(talk.events) == ["voice: sound", "voice: sound", "voice: turn_complete"]
    assert [event.partial for event in talk.events] == [None, None, None]
    assert shown(await talk.stored()) == ["user: hi", "voice: turn_complete"]


async def test_live_8_an_interruption_ends_the_text_that_was_being_said() -> None:
    talk = await Talk([Hear(1), "I was ", "saying", interrupted(), turn_complete()]).hold("hi")
    assert shown(await talk.stored()) == [
        "user: hi",
        "voice: I was saying interrupted",
        "voice: interrupted",
        "voice: turn_complete",
    ]


async def test_live_8_thoughts_and_text_are_parts_of_one_whole() -> None:
    thinking = ModelResponse(content=Content(role="model", parts=[Part(text="hm ", thought=True)]), partial=True)
    talk = await Talk([Hear(1), thinking, thinking, "yes", turn_complete()]).hold("hi")
    whole = (await talk.stored())[1]
    assert whole.content == Content(role="model", parts=[Part(text="hm hm ", thought=True), Part(text="yes")])
    assert whole.text == "yes"


async def test_live_7_signals_are_shown_and_not_stored() -> None:
    going = ModelResponse(partial=True, custom_metadata={GO_AWAY: 10})
    talk = await Talk([Hear(1), going, "yes", turn_complete()]).hold("hi")
    assert [event.custom_metadata for event in talk.events if event.custom_metadata] == [{GO_AWAY: 10}]
    assert len(await talk.stored()) == 3


async def test_models_live_7_an_error_the_server_reports_is_an_event_and_the_session_goes_on() -> None:
    failed = ModelResponse(error_code="RATE", error_message="slow down")
    talk = await Talk([Hear(1), failed, Hear(1), "yes", turn_complete()]).hold("hi", "again")
    assert shown(await talk.stored()) == ["user: hi", "user: again", "voice: RATE", "voice: yes",
                                          "voice: turn_complete"]  # fmt: skip


async def test_llm_10_output_key_gets_what_was_said_whole() -> None:
    talk = await Talk([Hear(1), "it is ", "five", turn_complete()], output_key="time").hold("hi")
    assert talk.run.session is not None
    assert talk.run.session.state["time"] == "it is five"


async def test_hnd_6_the_final_event_is_what_the_model_said_last_and_text_shows_it_once() -> None:
    talk = Talk([Hear(1), "it is ", "five", turn_complete()])
    await talk.run.send("hi")
    assert [piece async for piece in talk.run.text()] == ["it is ", "five"]
    assert talk.run.outcome is not None
    assert talk.run.outcome.final_event is not None
    assert talk.run.outcome.final_event.text == "it is five"


async def test_hnd_1_what_the_user_said_and_kept_audio_are_no_final_event() -> None:
    config = LiveRunConfig(save_live_blob=True, input_audio_transcription={})
    talk = await Talk(
        [Hear(0, 1), audio(), spoke("five"), turn_complete(), said("thanks"), turn_complete()], config=config
    ).hold(SOUND)
    outcome = talk.run.outcome
    assert outcome is not None
    assert outcome.final_event is not None
    assert outcome.final_event.output_transcription == Transcription(text="five", finished=True)


# --- what opens the connection ----------------------------------------------------------------------------------------


async def test_live_4_the_connection_is_opened_with_the_request_of_the_normal_chain() -> None:
    talk = await Talk(
        [Hear(1), "yes", turn_complete()],
        config=LiveRunConfig(response_modalities=("TEXT",)),
        instruction="Be brief.",
        tools=[look],
        generate_content_config=GenerateContentConfig(temperature=0.5),
    ).hold("hi")
    opened = talk.line
    assert "Be brief." in opened.request.instruction
    assert '"voice"' in opened.request.instruction
    assert opened.request.declared == ["look"]
    assert opened.request.config.temperature == 0.5
    assert opened.config == LiveRunConfig(response_modalities=("TEXT",))


async def test_models_live_2_every_setting_reaches_the_connection_as_it_was_given() -> None:
    config = LiveRunConfig(
        response_modalities=("AUDIO",),
        speech_config={"languageCode": "de-DE"},
        input_audio_transcription={},
        output_audio_transcription={"languageCodes": ["de"]},
        realtime_input_config={"automaticActivityDetection": {"disabled": True}},
        enable_affective_dialog=True,
        proactivity={"proactiveAudio": True},
        session_resumption=SessionResumption(handle="h", transparent=True),
        context_window_compression={"slidingWindow": {}},
        save_live_blob=True,
        max_llm_calls=7,
        custom_metadata={"tenant": "t"},
    )
    talk = await Talk([Hear(1), "yes", turn_complete()], config=config).hold("hi")
    assert talk.line.config == config


async def test_live_4_and_models_live_3_what_was_said_before_is_sent_as_history() -> None:
    talk = Talk([Hear(1), "blue", turn_complete()], responses=["hello"])
    async for _ in talk.runner.run(user_id="u", session_id="s", message="hi"):
        pass
    await talk.hold("which colour?")
    assert talk.line.history == [user_content("hi"), text_content("hello")]
    assert talk.line.texts == ["which colour?"]


async def test_models_live_3_without_history_nothing_is_told() -> None:
    talk = await Talk([Hear(1), "yes", turn_complete()]).hold("hi")
    assert talk.line.history is None


async def test_live_2_a_new_live_run_goes_on_with_the_agent_that_spoke_last() -> None:
    def tree(model: Any) -> LlmAgent:
        typed = ScriptedModel([call("transfer_to_agent", agent_name="helper"), "helper here"])
        helper = LlmAgent(name="helper", model=model, description="Helps.")
        return LlmAgent(name="front", model=typed, sub_agents=[helper])

    talk = Talk([Hear(1), "still me", turn_complete()], root=tree, responses=["helper here"])
    async for _ in talk.runner.run(user_id="u", session_id="s", message="help"):
        pass
    await talk.hold("and now?")
    assert {event.author for event in talk.events} == {"helper"}


async def test_live_1_a_model_without_live_says_so_and_nobody_answers_for_it() -> None:
    asked: list[Any] = []
    agent = LlmAgent(name="voice", model=ScriptedModel(["hi"]), on_model_error=lambda *given: asked.append(given))
    runner = Runner.in_memory(agent, settings=Settings())
    with pytest.raises(UnsupportedOperationError, match="does not support live"):
        async for _ in runner.run_live(user_id="u", config=LiveRunConfig()):
            pass
    assert asked == []


async def test_flow_10_no_model_at_all_raises_at_the_first_step() -> None:
    runner = Runner.in_memory(LlmAgent(name="voice"), settings=Settings())
    with pytest.raises(ModelNotConfigured, match="'voice'"):
        async for _ in runner.run_live(user_id="u", config=LiveRunConfig()):
            pass


async def test_models_live_1_an_error_of_the_first_connection_is_raised_as_it_is() -> None:
    refused = ModelError("no key", kind="auth", provider="scripted", status_code=401)
    talk = Talk(refused, close=False)
    with pytest.raises(ModelError) as caught:
        await talk.hold("hi")
    assert caught.value is refused
    assert len(talk.model.attempts) == 1
    assert talk.run.outcome is not None
    assert talk.run.outcome.kind == "failed"


# --- what is sent -----------------------------------------------------------------------------------------------------


async def test_live_3_contents_and_realtime_input_go_in_the_order_in_which_they_were_sent() -> None:
    talk = await Talk([Hear(2, 3), "yes", turn_complete()]).hold(
        "one", ActivityStart(), SOUND, ActivityEnd(), LiveRequest(content=user_content("two"))
    )
    assert talk.line.sent == [user_content("one"), ActivityStart(), SOUND, ActivityEnd(), user_content("two")]
    assert [event.text for event in await talk.stored() if event.author == "user"] == ["one", "two"]


async def test_live_3_a_content_and_a_realtime_input_of_one_request_go_in_that_order() -> None:
    both = LiveRequest(content=user_content("look"), realtime_input=Blob(data=b"x", mime_type="image/png"))
    talk = await Talk([Hear(1, 1), "yes", turn_complete()]).hold(both)
    assert talk.line.sent == [user_content("look"), both.realtime_input]


async def test_live_1_what_was_sent_is_handed_on_before_the_session_closes() -> None:
    talk = Talk([Hear(1)], close=False)
    await talk.run.send("last words")
    await talk.run.close()
    await talk.hold()
    assert talk.line.texts == ["last words"]
    assert talk.line.closed


async def test_live_7_on_user_message_is_called_for_each_content_and_decides_what_is_sent() -> None:
    class Loud(Plugin):
        name = "loud"

        def on_user_message(self, message: Content) -> Content:
            return user_content(message.text.upper())

    talk = await Talk([Hear(2), "yes", turn_complete()], plugins=[Loud()]).hold("one", "two")
    assert talk.line.texts == ["ONE", "TWO"]
    assert [event.text for event in await talk.stored() if event.author == "user"] == ["ONE", "TWO"]


async def test_plug_14_on_event_does_not_see_what_the_user_sends_and_plug_16_what_is_replaced_is_used_everywhere() -> (
    None
):
    seen: list[str] = []

    class Watch(Plugin):
        name = "watch"

        def on_user_message(self, message: Content) -> Content:
            return user_content(f"<{message.text}>")

        def on_event(self, event: Event) -> None:
            seen.append(f"{event.author} {event.text}")

    talk = await Talk([Hear(1), "yes", turn_complete()], plugins=[Watch()]).hold("hi")
    assert seen == ["voice yes", "voice yes", "voice "]
    assert [content.text for content in talk.line.contents] == ["<hi>"]
    assert talk.run._core.inv is not None
    assert talk.run._core.inv.user_content == user_content("<hi>")


async def test_live_4_pictures_go_with_a_content_and_are_stored_with_it() -> None:
    picture = Part(inline_data=Blob(data=b"png", mime_type="image/png"))
    talk = await Talk([Hear(1), "a cat", turn_complete()]).hold([Part(text="what is it?"), picture])
    assert talk.line.contents[0].parts == [Part(text="what is it?"), picture]
    assert (await talk.stored())[0].content == talk.line.contents[0]


# --- hooks around it --------------------------------------------------------------------------------------------------


class Watch(Plugin):
    """Writes down the hooks of agent and model."""

    name = "watch"

    def __init__(self) -> None:
        self.log: list[str] = []

    def before_agent(self, ctx: CallbackContext) -> None:
        self.log.append("before_agent")

    def after_agent(self, ctx: CallbackContext) -> None:
        self.log.append("after_agent")

    def before_model(self, ctx: CallbackContext, request: ModelRequest) -> None:
        self.log.append("before_model")

    def after_model(self, ctx: CallbackContext, response: ModelResponse) -> None:
        self.log.append(f"after_model {response.text or '-'}")

    @asynccontextmanager
    async def around_model(self, ctx: CallbackContext, request: ModelRequest, stage: Stage) -> AsyncIterator[None]:
        self.log.append("(model")
        try:
            yield
        finally:
            self.log.append("model)")


async def test_live_7_and_ard_16_hooks_span_the_connection_and_after_model_sees_each_message() -> None:
    watch = Watch()
    await Talk([Hear(1), "a", "b", turn_complete()], plugins=[watch]).hold("hi")
    assert watch.log == [
        "before_agent",
        "(model",
        "before_model",
        "after_model a",
        "after_model b",
        "after_model -",
        "model)",
        "after_agent",
    ]


async def test_live_7_after_model_may_replace_a_message() -> None:
    def mask(ctx: Any, request: Any, response: ModelResponse) -> ModelResponse | None:
        return response.replace(content=text_content("***")) if response.text == "secret" else None

    talk = await Talk([Hear(1), "my ", "secret", turn_complete()], after_model=mask).hold("hi")
    assert [event.text for event in await talk.stored()] == ["hi", "my ***", ""]


async def test_live_7_what_before_model_answers_is_the_whole_session() -> None:
    talk = Talk([], close=False, before_model=lambda ctx, request: ModelResponse(content=text_content("closed today")))
    await talk.hold("hi")
    assert talk.model.attempts == []
    assert [event.text for event in talk.events if event.content] == ["closed today"]
    assert talk.run.outcome is not None
    assert talk.run.outcome.kind == "completed"


async def test_req_4_writes_of_model_hooks_go_with_the_next_event() -> None:
    def note(ctx: CallbackContext, request: Any) -> None:
        ctx.state["connected"] = True

    talk = await Talk([Hear(1), "yes", turn_complete()], before_model=note).hold("hi")
    deltas = [event.actions.state_delta for event in await talk.stored() if event.actions.state_delta]
    assert deltas == [{"connected": True}]


async def test_dlt_6_writes_of_a_session_that_says_nothing_are_stored_too() -> None:
    def note(ctx: CallbackContext, request: Any) -> None:
        ctx.state["connected"] = True

    talk = await Talk([], before_model=note).hold()
    stored = await talk.stored()
    assert [dict(event.actions.state_delta) for event in stored] == [{"connected": True}, {}]
    assert shown(stored) == ["voice: ", "voice: (end)"]


async def test_plug_40_an_agent_callback_that_answers_keeps_the_line_closed() -> None:
    talk = Talk([], close=False, before_agent=lambda ctx: text_content("not today"))
    await talk.hold("hi")
    assert talk.model.attempts == []
    assert [event.text for event in talk.events] == ["not today"]


async def test_case_plug_1_before_run_answers_and_no_connection_is_opened() -> None:
    """PLUG-15: author, content and hooks are those of a typed run."""

    class Guard(Plugin):
        name = "guard"

        def before_run(self) -> Content:
            return text_content("secret-42")

    class Redactor(Plugin):
        name = "redactor"

        def on_event(self, event: Event) -> Event:
            return event.replace(content=text_content("***"))

    talk = Talk([], close=False, plugins=[Guard(), Redactor()])
    await talk.hold("hi")
    assert talk.model.attempts == []
    assert shown(talk.events) == shown(await talk.stored()) == ["voice: ***"]
    assert [event.id for event in talk.events] == [event.id for event in await talk.stored()]


# --- the end in the log -----------------------------------------------------------------------------------------------


async def test_act_14_a_live_call_that_ended_is_done_and_cannot_be_continued() -> None:
    from hookwork.errors import NothingToResume

    for script in ([Hear(1), "yes", turn_complete()], [Hear(1), "I was", interrupted()]):
        talk = await Talk(script).hold("hi")
        again = talk.runner.run(user_id="u", session_id="s", invocation_id=talk.run.invocation_id)
        with pytest.raises(NothingToResume, match="is completed"):
            await again.wait()


async def test_act_14_the_end_of_a_turn_is_the_end_of_the_call_when_nothing_runs() -> None:
    talk = await Talk([Hear(1), "yes", turn_complete()]).hold("hi")
    stamped = [event.node_info.status for event in await talk.stored() if event.node_info]
    assert stamped == [None, "completed"]


# --- counting ---------------------------------------------------------------------------------------------------------


async def test_use_2_live_turns_count_and_their_tokens_are_summed() -> None:
    def used(prompt: int, answer: int) -> ModelResponse:
        counts = UsageMetadata(prompt_token_count=prompt, candidates_token_count=answer)
        return ModelResponse(usage_metadata=counts, partial=True)

    talk = await Talk([Hear(1), "a", used(7, 3), turn_complete(), Hear(1), "b", turn_complete(), used(10, 5)]).hold(
        "one", "two"
    )
    total = talk.run.usage.total
    assert (total.calls, total.prompt_token_count, total.candidates_token_count) == (2, 17, 8)
    assert total.thoughts_token_count is None
    assert talk.run.usage.by_agent["voice"].calls == 2
    assert talk.run.usage.by_model["scripted-live"].prompt_token_count == 17


async def test_cfg_1_max_llm_calls_limits_the_turns_of_a_live_run() -> None:
    talk = Talk(
        [Hear(1), "a", turn_complete(), Hear(1), "b", turn_complete()],
        config=LiveRunConfig(max_llm_calls=1),
        close=False,
    )
    with pytest.raises(LlmCallLimitError):
        await talk.hold("one", "two")
    assert talk.run.outcome is not None
    assert talk.run.outcome.kind == "limit"
    assert talk.line.closed


async def test_cmp_14_a_live_run_is_not_compacted_and_a_typed_one_of_the_same_runner_is() -> None:
    from hookwork_llm import EventsCompaction

    asked: list[int] = []

    class Summarizer:
        async def summarize(self, events: Any) -> tuple[None, None]:
            asked.append(len(events))
            return None, None

    compaction = EventsCompaction(compaction_interval=1, overlap_size=0, summarizer=Summarizer())
    talk = Talk([Hear(1), "yes", turn_complete()], responses=["typed"], options={"events_compaction": compaction})
    await talk.hold("hi")
    assert asked == []
    async for _ in talk.runner.run(user_id="u", session_id="s", message="hi"):
        pass
    assert len(asked) == 1


async def test_cmp_14_the_prompt_of_a_live_run_is_not_compacted_either() -> None:
    from hookwork_llm import EventsCompaction

    asked: list[int] = []

    class Summarizer:
        async def summarize(self, events: Any) -> tuple[None, None]:
            asked.append(len(events))
            return None, None

    compaction = EventsCompaction(token_threshold=1, event_retention_size=1, summarizer=Summarizer())
    talk = Talk(
        [Hear(1), "yes", turn_complete()],
        responses=["typed", "typed", "typed"],
        options={"events_compaction": compaction},
    )
    for _ in range(3):
        async for _ in talk.runner.run(user_id="u", session_id="s", message="hi " * 50):
            pass
    before = len(asked)
    await talk.hold("hi")
    assert before > 0
    assert len(asked) == before
    assert len(talk.line.history or ()) == 6
