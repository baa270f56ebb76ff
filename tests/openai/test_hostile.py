"""Whatever a server sends, a call ends in a response or a ModelError (models ERR-1): answers are untrusted."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.openai.asking import a_call
from tests.openai.realtime_service import A_CALL, audio, begun, called, ended, failure, text, transcript
from tests.openai.realtime_service import usage as realtime_usage
from tests.openai.wire import (
    chat_stream,
    completion,
    function_call,
    message,
    reasoning,
    response,
    stream,
    text_delta,
    tool_call,
)

from hookwork.errors import ModelError, ValidationError
from hookwork.records.codec import dump_json
from hookwork_openai.chat.reply import whole_response as whole_chat
from hookwork_openai.chat.stream import ChatStream
from hookwork_openai.realtime.events import ServerEvents
from hookwork_openai.responses.output import whole_response
from hookwork_openai.responses.stream import ResponseStream

junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)

cited = {"type": "url_citation", "start_index": 0, "end_index": 1, "title": "T", "url": "https://h"}
rich = message("Hello", phase="commentary")
rich["content"][0] |= {
    "annotations": [cited],
    "logprobs": [{"token": "a", "logprob": -0.1, "top_logprobs": [{"token": "a", "logprob": -0.1}]}],
}
ITEMS = [reasoning("hm", encrypted="ENC", content=("c",)), rich, function_call("f", '{"a": 1}')]
FAILED = {
    "type": "response.failed",
    "response": response(status="failed", error={"code": "server_error", "message": "x"}),
}
EVENTS = [*stream(*ITEMS), FAILED, {"type": "error", "code": "server_error", "message": "x"}]
CHUNKS = [*chat_stream("Hello", tool_call("f", '{"a": 1}'), reasoning_content="hm"), {"error": {"code": 500}}]
FRAMES = [
    {"type": "session.created", "session": {"model": "m"}},
    begun(),
    text("a"),
    audio("AAE="),
    transcript("a"),
    {"type": "response.output_item.added", "item": A_CALL},
    called("f", '{"a": 1}'),
    {"type": "conversation.item.input_audio_transcription.completed", "transcript": "x"},
    {"type": "conversation.item.input_audio_transcription.failed", "error": {"code": "x"}},
    {"type": "input_audio_buffer.speech_started"},
    ended("completed", A_CALL, usage=realtime_usage()),
    ended("failed", details={"error": {"code": "x", "message": "y"}}),
    ended("incomplete", details={"reason": "content_filter"}),
    failure("x"),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in inner for found in [(*path, key), *places(item, (*path, key))]]


def damaged(draw: st.DrawFn, value: Any) -> Any:
    """A copy in which up to three things are replaced by junk, or are missing."""
    result = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from(places(value)))
        target = result
        try:
            for step in path:
                target = target[step]
            if draw(st.booleans()):
                target[last] = draw(junk)
            else:
                del target[last]
        except (KeyError, IndexError, TypeError):
            continue  # an earlier blow took it away
    return result


@st.composite
def hostile(draw: st.DrawFn, value: Any) -> Any:
    return damaged(draw, value)


REFUSALS = (ModelError, ValidationError)  # modelkit's `guarded` makes a ModelError of the latter


def outcome(read: Callable[[], Iterable[Any]]) -> Exception | None:
    """None when all that came can be stored, else the refusal; anything else that is raised is a fault of ours."""
    try:
        for item in read():
            if item is not None:
                dump_json(item)
    except REFUSALS as error:
        return error
    return None


def said(error: Exception | None) -> bool:
    return error is None or bool(str(error))


@settings(max_examples=300)
@given(hostile(response(*ITEMS)))
def test_a_damaged_response(body: Any) -> None:
    assert said(outcome(lambda: [whole_response(a_call(), body)]))


@settings(max_examples=300)
@given(hostile(EVENTS[:-2]) | hostile(EVENTS), st.booleans())
def test_a_damaged_stream(events: Any, accept: bool) -> None:
    folded = ResponseStream(a_call(accept_unterminated=accept))
    assert said(outcome(lambda: [*(folded.take(event) for event in events), folded.finish()]))


@settings(max_examples=300)
@given(hostile(completion("Hello", tool_call("f", '{"a": 1}'), reasoning_content="hm", annotations=[cited])))
def test_a_damaged_completion(body: Any) -> None:
    call = a_call(chat=True, parse_text_calls=True)
    assert said(outcome(lambda: [whole_chat(call, body, declared=frozenset({"f"}))]))


@settings(max_examples=300)
@given(hostile(CHUNKS[:-1]) | hostile(CHUNKS), st.booleans())
def test_a_damaged_chat_stream(chunks: Any, accept: bool) -> None:
    folded = ChatStream(a_call(chat=True, accept_unterminated=accept))
    assert said(outcome(lambda: [shown for chunk in chunks for shown in folded.take(chunk)]))
    assert said(outcome(lambda: [folded.finish(done=True)]))


@settings(max_examples=300)
@given(hostile(FRAMES))
def test_damaged_frames(frames: Any) -> None:
    events = ServerEvents(a_call(), "audio/pcm;rate=24000")
    assert all(said(outcome(lambda frame=frame: [events.read(frame)])) for frame in frames)  # type: ignore[misc]


@given(st.lists(junk, max_size=4), st.lists(junk, max_size=4))
def test_plain_junk(first: list[Any], second: list[Any]) -> None:
    folded, chat = ResponseStream(a_call()), ChatStream(a_call(chat=True))
    assert [folded.take(item) for item in first] == [None] * len(first)
    assert folded.take(text_delta("a")) is not None
    assert said(outcome(lambda: [shown for item in second for shown in chat.take(item)]))
