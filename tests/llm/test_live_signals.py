"""What a live server tells beside its content: grounding, reasons, activity (models LIVE-7, Beyond; services BEY-8)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.llm.live_talks import Talk, brief

from hookwork.live import GO_AWAY, INTERACTION_STATUS, TURN_COMPLETE_REASON, VOICE_ACTIVITY
from hookwork.records.codec import dump
from hookwork.records.metadata import (
    GroundingChunk,
    GroundingChunkWeb,
    GroundingMetadata,
    GroundingSupport,
    ModelResponse,
    Segment,
)
from hookwork_testkit import Hear, ScriptedConnection
from hookwork_testkit.live import audio, handle, interrupted, spoke, turn_complete


def page(name: str) -> GroundingChunk:
    return GroundingChunk(web=GroundingChunkWeb(title=name))


def rests(text: str, *chunks: int) -> GroundingSupport:
    return GroundingSupport(grounding_chunk_indices=chunks, segment=Segment(text=text))


def told(**fields: Any) -> ModelResponse:
    return ModelResponse(grounding_metadata=GroundingMetadata(**fields))


NEW_EACH_TIME = [
    told(web_search_queries=("a",), grounding_chunks=(page("one"),), grounding_supports=(rests("x", 0),)),
    told(web_search_queries=("b",), grounding_chunks=(page("two"),), grounding_supports=(rests("y", 0),)),
]
ALL_EACH_TIME = [
    NEW_EACH_TIME[0],
    told(
        web_search_queries=("a", "b"),
        grounding_chunks=(page("one"), page("two")),
        grounding_supports=(rests("x", 0), rests("y", 1)),
    ),
]
WHOLE = GroundingMetadata(
    web_search_queries=("a", "b"),
    grounding_chunks=(page("one"), page("two")),
    grounding_supports=(rests("x", 0), rests("y", 1)),
)


@pytest.mark.parametrize("told_as", [NEW_EACH_TIME, ALL_EACH_TIME])
async def test_live_7_the_grounding_of_a_turn_is_one_and_stands_with_its_text(told_as: list[ModelResponse]) -> None:
    first, second = told_as
    talk = await Talk([Hear(1), "x ", first, "y", second, turn_complete(), Hear(1), "z", turn_complete()]).hold(
        "?", "!"
    )
    stored = {brief(event): event.grounding_metadata for event in await talk.stored() if event.author == "voice"}
    assert stored == {"x y": WHOLE, "turn_complete": None, "z": None}
    shown = [event.grounding_metadata for event in talk.events if event.partial and event.grounding_metadata]
    assert shown == [first.grounding_metadata, second.grounding_metadata], "each is shown as it comes"


@pytest.mark.parametrize(
    ("said", "stands_with"),
    [([spoke("xy")], "spoke xy"), ([audio()], "turn_complete"), ([], "turn_complete")],
)
async def test_live_7_without_text_it_stands_with_what_was_spoken_or_with_the_end(said: Any, stands_with: str) -> None:
    talk = await Talk([Hear(1), *said, *NEW_EACH_TIME, turn_complete()]).hold("?")
    grounded = {brief(event): event.grounding_metadata for event in await talk.stored() if event.grounding_metadata}
    assert grounded == {stands_with: WHOLE}


async def test_live_7_an_interruption_ends_the_turn_it_belongs_to() -> None:
    talk = await Talk([Hear(1), "x", NEW_EACH_TIME[0], interrupted(), "y", turn_complete()]).hold("?")
    grounded = [brief(event) for event in await talk.stored() if event.grounding_metadata]
    assert grounded == ["x interrupted"]


@pytest.mark.parametrize(
    ("message", "field", "value"),
    [
        (turn_complete(custom_metadata={TURN_COMPLETE_REASON: "NEED_MORE_INPUT"}), "turnCompleteReason",
         "NEED_MORE_INPUT"),
        (turn_complete(custom_metadata={INTERACTION_STATUS: "IDLE"}), "interactionStatus", "IDLE"),
        (ModelResponse(partial=True, custom_metadata={GO_AWAY: 9.5}), "goAway", {"timeLeft": "9.5s"}),
        (ModelResponse(partial=True, custom_metadata={GO_AWAY: 0}), "goAway", {"timeLeft": "0s"}),
        (ModelResponse(partial=True, custom_metadata={VOICE_ACTIVITY: {"voiceActivityType": "ACTIVITY_END"}}),
         "voiceActivity", {"voiceActivityType": "ACTIVITY_END"}),
        (handle("h1"), "liveSessionResumptionUpdate", {"newHandle": "h1", "resumable": True}),
    ],
)  # fmt: skip
async def test_bey_8_events_tell_it_under_the_names_of_google_adk(message: Any, field: str, value: Any) -> None:
    talk = await Talk([Hear(1), message]).hold("?")
    [event] = [event for event in talk.events if field in dump(event)]
    assert dump(event)[field] == value


def test_bey_8_the_forms_are_those_of_the_sdk() -> None:
    types = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    for kind, form in (
        (types.LiveServerGoAway, {"timeLeft": "9.5s"}),
        (types.VoiceActivity, {"voiceActivityType": "ACTIVITY_END"}),
        (types.LiveServerSessionResumptionUpdate, {"newHandle": "h1", "resumable": True}),
    ):
        assert kind.model_validate(form).model_dump(exclude_none=True, by_alias=True, mode="json") == form
    assert "NEED_MORE_INPUT" in {reason.value for reason in types.TurnCompleteReason}
    assert "IDLE" in {status.value for status in types.InteractionStatus}


async def test_bey_8_events_name_the_session_of_the_service() -> None:
    def named(connection: ScriptedConnection) -> None:
        connection.session_id = "live-7"

    talk = await Talk([named, Hear(1), "yes", turn_complete()]).hold("?")
    assert [dump(event).get("liveSessionId") for event in talk.events] == ["live-7"] * 3
