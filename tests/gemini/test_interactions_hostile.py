"""Whatever a service sends in the name of the Interactions API, a call ends in a response or a ModelError (ERR-1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.gemini.interacting import asked, model_on
from tests.gemini.interactions_service import Answer, InteractionsService, call, events_of, output, thought
from tests.gemini.making import whole_of
from tests.gemini.service import Failure

from hookwork import ModelResponse
from hookwork.errors import ModelError, ValidationError
from hookwork_gemini.interactions.reading import whole_response
from hookwork_gemini.interactions.stream import InteractionStream

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
WHOLE: dict[str, Any] = {
    "id": "v1_1",
    "model": "m",
    "status": "completed",
    "steps": [thought("hm", "AQI="), output("text"), call("f", {"a": 1}),
              {"type": "google_search_call", "id": "s", "arguments": {"queries": ["q"]}},
              {"type": "code_execution_call", "id": "e", "arguments": {"code": "1", "language": "python"}},
              {"type": "code_execution_result", "call_id": "e", "result": "1"}],
    "usage": {"total_input_tokens": 1, "input_tokens_by_modality": [{"modality": "text", "tokens": 1}]},
}  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all values inside a JSON value."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += places(item, (*path, key))
    return found


def with_changes(value: Any, changes: list[tuple[int, Any]]) -> Any:
    """A copy in which some places hold something else."""
    import copy

    changed = copy.deepcopy(value)
    for number, new in changes:
        spots = places(changed)
        *path, last = spots[number % len(spots)]
        holder = changed
        for step in path:
            holder = holder[step]
        holder[last] = new
    return changed


CHANGES = st.lists(st.tuples(st.integers(0, 200), JSON), min_size=1, max_size=3)


@given(changes=CHANGES)
@settings(max_examples=300, deadline=None)
def test_err_1_a_whole_answer_with_odd_values(changes: list[tuple[int, Any]]) -> None:
    try:
        found: Any = whole_response("p", "m", with_changes(WHOLE, changes))
    except (ModelError, ValidationError) as error:
        found = error
    assert isinstance(found, ModelResponse | ModelError | ValidationError)


@given(changes=CHANGES, order=st.randoms(use_true_random=False), shuffled=st.booleans())
@settings(max_examples=300, deadline=None)
def test_err_1_a_stream_with_odd_values_in_any_order(
    changes: list[tuple[int, Any]], order: Any, shuffled: bool
) -> None:
    events = with_changes(events_of(WHOLE), changes)
    if shuffled:
        order.shuffle(events)
    folded = InteractionStream("p", "m")
    try:
        for event in events:
            if isinstance(event, dict):
                folded.take(event)
        found: Any = folded.finish()
    except (ModelError, ValidationError) as error:
        found = error
    assert isinstance(found, ModelResponse | ModelError | ValidationError)


BODIES = [
    b"",
    b"null",
    b"3",
    b'"x"',
    b"[1]",
    b"{",
    b'{"id": 5}',
    b'{"status": 7, "steps": {}}',
    b'{"error": {"code": 503}}',
    b'{"steps": [{"type": "function_call", "id": 1, "name": 2, "arguments": []}], "status": "completed"}',
    b'{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "k-secret"}}',
    b"\xff\xfe",
    b"<html>",
]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/html", ""])
async def test_err_1_bodies_behind_a_200(kept: InteractionsService, body: bytes, kind: str, streamed: bool) -> None:
    kept.script = [Failure(200, body, content_type=kind)]
    with pytest.raises(ModelError) as caught:
        await whole_of(model_on(kept), asked("hi"), stream=streamed)
    assert "k-secret" not in str(caught.value)


@pytest.mark.slow
async def test_mod_5_five_hundred_calls_at_once(kept: InteractionsService) -> None:
    model = model_on(kept, interactions={"chain": False})

    async def one(number: int) -> str:
        responses = [response async for response in model.generate(asked(f"n{number}"), stream=number % 2 == 0)]
        return responses[-1].text

    assert await asyncio.gather(*(one(number) for number in range(500))) == ["heard 1"] * 500
    await model.close()
    assert len({sent.body["input"][0]["content"][0]["text"] for sent in kept.sent}) == 500


@given(text=st.text(max_size=30), size=st.integers(1, 5))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_agg_30_any_text_comes_through_a_stream(kept: InteractionsService, text: str, size: int) -> None:
    text = text.encode("utf-8", "replace").decode()
    kept.reset()
    interaction = {"id": "v1_1", "model": "m", "status": "completed", "steps": [output(text)]}
    kept.script = [Answer(events=events_of(interaction, size))]
    found = asyncio.run(whole_of(model_on(kept), asked("hi"), stream=True))
    assert found.text == text.replace("\x00", "\ufffd")
