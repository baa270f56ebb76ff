"""Transcriptions: fragments and wholes, and what is held back until they are written down (core LIVE-5, LIVE-6)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.llm.live_talks import Talk, brief, shown

from hookwork import Content, ModelResponse, Part, text_content
from hookwork.records.metadata import Transcription, UsageMetadata
from hookwork_llm import tool
from hookwork_llm.live.assembler import Assembler
from hookwork_testkit import Hear, call
from hookwork_testkit.live import audio, calls, interrupted, said, spoke, turn_complete


@tool
def look(what: str) -> dict[str, Any]:
    """Look at something."""
    return {"seen": what}


def pieces(*messages: ModelResponse) -> list[tuple[str, Any, bool]]:
    """(what, value, partial) of all pieces of some messages."""
    assembler, found = Assembler(), []
    for message in messages:
        for piece in assembler.add(message):
            response = piece.response
            if response.input_transcription is not None:
                what: tuple[str, Any] = ("input", response.input_transcription.text)
            elif response.output_transcription is not None:
                what = ("output", response.output_transcription.text)
            elif response.content is not None:
                what = ("text", response.text)
            else:
                what = ("end", bool(response.interrupted))
            found.append((*what, bool(response.partial)))
    return found


# --- fragments and wholes ---------------------------------------------------------------------------------------------


async def test_live_5_and_models_live_6_finished_transcriptions_come_before_the_end_of_the_turn_users_first() -> None:
    talk = await Talk([said("what "), said("time"), spoke("it is "), audio(), spoke("five"), turn_complete()]).hold()
    assert shown(talk.events) == [
        "voice: ~heard what ",
        "voice: ~heard time",
        "voice: ~spoke it is ",
        "voice: sound",
        "voice: ~spoke five",
        "voice: heard what time",
        "voice: spoke it is five",
        "voice: turn_complete",
    ]
    stored = await talk.stored()
    assert shown(stored) == ["voice: heard what time", "voice: spoke it is five", "voice: turn_complete"]
    assert stored[0].input_transcription == Transcription(text="what time", finished=True)
    assert talk.events[0].input_transcription == Transcription(text="what ")


async def test_str_2_an_utterance_has_one_id() -> None:
    talk = await Talk([said("a"), said("b"), turn_complete(), said("c"), turn_complete()]).hold()
    ids = [event.id for event in talk.events if event.input_transcription is not None]
    assert ids[0] == ids[1] == ids[2]
    assert ids[3] == ids[4] != ids[0]


async def test_models_live_6_an_interruption_finishes_them_too() -> None:
    talk = await Talk([spoke("I was sa"), said("stop"), interrupted()]).hold()
    assert shown(await talk.stored()) == [
        "voice: heard stop",
        "voice: spoke I was sa",
        "voice: interrupted",
        "voice: (end)",
    ]


async def test_models_live_6_a_server_that_sends_the_whole_utterance_is_believed() -> None:
    talk = await Talk([said("wat "), said("tiem"), said("What time?", finished=True), "five", turn_complete()]).hold()
    assert shown(await talk.stored()) == ["voice: heard What time?", "voice: five", "voice: turn_complete"]


def test_models_live_6_a_finished_utterance_that_the_turns_end_wrote_down_is_not_written_twice() -> None:
    whole = [("input", "what time", True), ("input", "what time", False), ("end", False, False)]
    assert pieces(said("what time"), turn_complete(), said("what time", finished=True)) == whole
    assert pieces(said("what time"), turn_complete(), said("What's the time?", finished=True)) == whole
    assert pieces(said("what time"), turn_complete(), said("what time is it", finished=True)) == [
        *whole,
        ("input", " is it", False),
    ]
    assert pieces(said("a"), turn_complete(), said("b"), said("b", finished=True))[3:] == [
        ("input", "b", True),
        ("input", "b", False),
    ]


def test_models_live_6_rule_3_order_of_one_message() -> None:
    message = ModelResponse(
        content=text_content("five"),
        partial=True,
        turn_complete=True,
        input_transcription=Transcription(text="time?"),
        output_transcription=Transcription(text="five"),
    )
    assert pieces(message) == [
        ("input", "time?", True),
        ("output", "five", True),
        ("text", "five", True),
        ("input", "time?", False),
        ("output", "five", False),
        ("text", "five", False),
        ("end", False, False),
    ]


def test_models_live_6_nothing_is_made_of_empty_fragments() -> None:
    empty = Transcription(text="")
    assert pieces(ModelResponse(input_transcription=empty, partial=True)) == []
    assert pieces(ModelResponse(output_transcription=Transcription(finished=True))) == []
    assert pieces(ModelResponse(content=Content(role="model", parts=[Part(text="")]), partial=True)) == []


def test_models_live_7_what_is_reported_beside_the_content_is_kept() -> None:
    usage = UsageMetadata(prompt_token_count=3)
    made = Assembler().add(ModelResponse(content=text_content("a"), partial=True, usage_metadata=usage))
    assert [(piece.response.text, piece.response.usage_metadata) for piece in made] == [("a", None), ("", usage)]


def test_models_live_8_a_call_ends_the_run_of_text_before_it() -> None:
    text = ModelResponse(content=text_content("let me see"), partial=True)
    assert [piece.response.content.parts[0] for piece in _added(text, calls(call("look", what="a")))] == [
        Part(text="let me see"),
        Part(text="let me see"),
        call("look", what="a"),
    ]


def test_models_live_8_sound_does_not_end_the_run_of_text() -> None:
    text = ModelResponse(content=text_content("a"), partial=True)
    assert pieces(text, audio(), text, turn_complete())[-2:] == [("text", "aa", False), ("end", False, False)]


def test_agg_10_a_signature_stays_on_its_own_part() -> None:
    signed = Part(text="b", thought_signature=b"sig")
    made = _added(
        ModelResponse(content=text_content("a"), partial=True),
        ModelResponse(content=Content(role="model", parts=[signed]), partial=True),
        ModelResponse(content=text_content("c"), partial=True),
        turn_complete(),
    )
    whole = made[-2].response.content
    assert whole == Content(role="model", parts=[Part(text="ab", thought_signature=b"sig"), Part(text="c")])


def _added(*messages: ModelResponse) -> list[Any]:
    assembler = Assembler()
    return [piece for message in messages for piece in assembler.add(message)]


@given(st.lists(st.tuples(st.sampled_from(["text", "input", "output"]), st.text(min_size=1, max_size=5))))
def test_models_live_6_and_8_law_the_wholes_are_the_fragments_put_together(parts: list[tuple[str, str]]) -> None:
    makers = {"text": lambda text: ModelResponse(content=text_content(text), partial=True), "input": said,
              "output": spoke}  # fmt: skip
    made = pieces(*(makers[kind](text) for kind, text in parts), turn_complete())
    for kind in makers:
        fragments = "".join(text for what, text, partial in made if what == kind and partial)
        assert fragments == "".join(ModelResponse(content=text_content(t)).text for what, t in parts if what == kind)
        wholes = [text for what, text, partial in made if what == kind and not partial]
        assert wholes == ([fragments] if fragments else [])


# --- what waits for them ----------------------------------------------------------------------------------------------


async def test_live_6_calls_and_responses_wait_for_the_transcription_and_the_tools_do_not() -> None:
    ran: list[str] = []

    @tool
    def note(what: str) -> dict[str, Any]:
        """Note something."""
        ran.append(what)
        return {}

    def has_run(connection: Any) -> None:
        assert ran == ["it"], "the tool ran while its call was held back"

    talk = await Talk(
        [said("note it"), call("note", "c1", what="it"), Hear(1), has_run, "done", turn_complete()], tools=[note]
    ).hold()
    assert shown(await talk.stored()) == [
        "voice: heard note it",
        "voice: note?",
        "voice: note!",
        "voice: done",
        "voice: turn_complete",
    ]
    assert [brief(event) for event in talk.events if not event.partial] == [brief(e) for e in await talk.stored()]


async def test_live_6_without_an_open_transcription_nothing_waits() -> None:
    talk = await Talk([Hear(1), call("look", "c1", what="a"), Hear(1), "ok", turn_complete()], tools=[look]).hold("hi")
    assert shown(await talk.stored()) == [
        "user: hi", "voice: look?", "voice: look!", "voice: ok", "voice: turn_complete",
    ]  # fmt: skip


async def test_live_6_what_is_held_back_is_let_go_when_the_session_ends() -> None:
    talk = await Talk([said("look"), call("look", "c1", what="a"), Hear(1)], tools=[look]).hold()
    assert shown(await talk.stored()) == ["voice: heard look", "voice: look?", "voice: look!", "voice: (end)"]


async def test_live_6_a_text_behind_a_held_call_keeps_its_place() -> None:
    talk = await Talk(
        [said("look"), "hm", call("look", "c1", what="a"), Hear(1), "b", call("look", "c2", what="b"), Hear(1), "end",
         turn_complete()],
        tools=[look],
    ).hold()  # fmt: skip
    assert shown(await talk.stored()) == [
        "voice: hm",
        "voice: heard look",
        "voice: look?",
        "voice: look!",
        "voice: b",
        "voice: look?",
        "voice: look!",
        "voice: end",
        "voice: turn_complete",
    ]


async def test_con_5_what_was_spoken_is_the_history_of_the_next_session() -> None:
    first = await Talk([said("my name "), said("is Ann"), spoke("hello Ann"), turn_complete()]).hold()
    second = first.runner
    first.model.add("typed answer")
    texts: list[str] = []
    async for event in second.run(user_id="u", session_id="s", message="what is my name?"):
        texts.append(event.text)
    assert [content.text for content in first.model.prompts[-1]] == ["my name is Ann", "hello Ann", "what is my name?"]
    assert texts == ["typed answer"]
