"""The quick way for plain stored events gives what the walker gives, or leaves the document to it (services COD-9)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork.errors import ValidationError
from hookwork.records.codec import load
from hookwork.records.event import NO_ACTIONS, Event
from hookwork.records.plain_events import plain_event
from hookwork.records.reading import reader_of

texts = st.sampled_from(["", "a", "héllo", "\x00", "\ud83d", '"function_call":', "~extra"]) | st.text(max_size=4)
odd: st.SearchStrategy[Any] = st.sampled_from([None, 1, 1.5, True, [], {}, "x", {"x": 1}, [None], -1, 1e300])
part = st.fixed_dictionaries({}, optional={"text": texts | odd, "thought": st.booleans() | odd, "inline_data": odd})
content = st.fixed_dictionaries(
    {}, optional={"role": texts | odd, "parts": st.lists(part | odd, max_size=3) | odd, "x": odd}
)
counts = st.integers(-2, 9) | st.sampled_from([2.0, 1.5, None, True, 2**63, 2**70])
usage = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("prompt_token_count", "candidates_token_count", "total_token_count", "cachedContentTokenCount"), counts
    ),
)
node = st.fixed_dictionaries({}, optional={"path": texts | odd, "status": texts | odd, "output_for": odd})
times = st.sampled_from([0, 0.0, 1796078436.776571, 1.23456789, 1, -1e300, "2026-01-01T00:00:00Z", None, True])
documents = st.fixed_dictionaries(
    {"id": texts, "timestamp": times, "invocation_id": texts, "author": texts},
    optional={
        "content": content | odd,
        "turn_complete": st.booleans() | odd,
        "finish_reason": texts | odd,
        "usage_metadata": usage | odd,
        "model_version": texts | odd,
        "branch": texts | odd,
        "node_info": node | odd,
        "invocationId": texts | odd,
        "actions": st.sampled_from([{}, {"state_delta": {"k": 1}}, None]),
        "unknown": odd,
    },
)


def read(text: str | bytes, keys: Any) -> Any:
    try:
        return load(Event, text, keys)
    except ValidationError as error:
        return str(error), error.path


@given(documents)
def test_cod_9_a_document_reads_alike_either_way(document: dict[str, Any]) -> None:
    text = json.dumps(document)
    wanted = read(text, "camel")
    assert read(text, "snake") == wanted
    assert read(text.encode(), "snake") == wanted
    if isinstance(wanted, Event) and "actions" not in document:
        assert wanted.actions is NO_ACTIONS


def test_cod_9_a_chat_of_texts_is_read_the_quick_way() -> None:
    """As the google-adk layout writes it; the walker's record is the measure."""
    document = {
        "content": {"role": "model", "parts": [{"text": "thinking", "thought": True}, {"text": "said"}]},
        "turn_complete": True,
        "finish_reason": "STOP",
        "usage_metadata": {"prompt_token_count": 10, "candidates_token_count": 3, "total_token_count": 13},
        "model_version": "m-1",
        "id": "e1",
        "timestamp": 1796078436.776571,
        "invocation_id": "inv",
        "author": "root",
        "branch": "a.b",
        "node_info": {"path": "root@1", "status": "completed"},
    }
    quick = plain_event(msgspec.json.encode(document))
    assert quick == reader_of(Event)(document)
    assert quick is not None
    assert quick.text == "said"


@pytest.mark.parametrize(
    "more",
    [
        {"content": {"parts": [{"function_call": {"name": "f"}}]}},
        {"actions": {"state_delta": {"k": 1}}},
        {"timestamp": 1.23456789},
        {"branch": None},
        {"unknown": 1},
    ],
    ids=["a call", "a delta", "a time to round", "a null", "an unknown key"],
)
def test_cod_9_what_is_not_plain_is_left_to_the_walker(more: dict[str, Any]) -> None:
    plain = {"id": "e", "timestamp": 1.0, "invocation_id": "i", "author": "a"}
    assert plain_event(json.dumps(plain)) is not None
    assert plain_event(json.dumps({**plain, **more})) is None
