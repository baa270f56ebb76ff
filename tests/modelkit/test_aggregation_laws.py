"""Laws of stream aggregation: any split gives the whole (MOD-2), and the cost is linear (AGG-30)."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork.records.codec import dump
from hookwork.records.content import Blob, Content, FunctionCall, Part, PartialArg
from hookwork.records.metadata import ModelResponse, UsageMetadata
from hookwork_modelkit import StreamAggregator, convert_response, whole_response

# --- whole responses and ways to split them ---------------------------------------------------------------------------

signatures = st.none() | st.binary(min_size=1, max_size=4)
keys = st.text("ab.' é[]\\\"", min_size=1, max_size=4)
leaves = st.none() | st.booleans() | st.integers(-(2**50), 2**50) | st.floats(-1e6, 1e6) | st.text(max_size=8)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(keys, inner, min_size=1, max_size=3)
)
arguments = st.dictionaries(keys, values, max_size=3)


@st.composite
def wholes(draw: Any) -> list[Part]:
    parts: list[Part] = []
    for i, kind in enumerate(draw(st.lists(st.sampled_from(["text", "thought", "call", "blob"]), max_size=7))):
        signature = draw(signatures)
        if kind == "blob":
            parts.append(Part(inline_data=Blob(data=b"x", mime_type="image/png")))
        elif kind == "call":
            call = FunctionCall(id=f"c{i}", name=draw(st.sampled_from(["f", "g"])), args=draw(arguments))
            parts.append(Part(function_call=call, thought_signature=signature))
        else:
            thought = True if kind == "thought" else None
            if parts and parts[-1].text is not None and parts[-1].thought == thought:
                continue  # neighbours of one kind are one part
            parts.append(Part(text=draw(st.text(min_size=1)), thought=thought, thought_signature=signature))
    return parts


def pieces_of_text(draw: Any, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def path_of(steps: list[Any]) -> str:
    text = "$"
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else "['" + step.replace("\\", "\\\\").replace("'", "\\'") + "']"
    return text


def pieces_of_args(draw: Any, value: Any, steps: list[Any]) -> list[PartialArg]:
    if isinstance(value, dict):
        return [piece for key, item in value.items() for piece in pieces_of_args(draw, item, [*steps, key])]
    if isinstance(value, list):
        return [piece for i, item in enumerate(value) for piece in pieces_of_args(draw, item, [*steps, i])]
    path = path_of(steps)
    if isinstance(value, str):
        return [PartialArg(json_path=path, string_value=text) for text in pieces_of_text(draw, value)]
    if value is None:
        return [PartialArg(json_path=path, null_value="NULL_VALUE")]
    if isinstance(value, bool):
        return [PartialArg(json_path=path, bool_value=value)]
    return [PartialArg(json_path=path, number_value=float(value))]


def fragments(draw: Any, part: Part) -> list[Part]:
    call = part.function_call
    assert call is not None
    if draw(st.booleans()):
        return [part]
    pieces = pieces_of_args(draw, call.args, [])
    head = Part(
        function_call=FunctionCall(id=call.id, name=call.name, will_continue=True),
        thought_signature=part.thought_signature,
    )
    carried = draw(st.sampled_from([call.id, None]))
    rest = [Part(function_call=FunctionCall(id=carried, partial_args=(p,), will_continue=True)) for p in pieces]
    return [head, *rest, Part(function_call=FunctionCall())]


def pieces(draw: Any, part: Part) -> list[Part]:
    if part.function_call is not None:
        return fragments(draw, part)
    if part.text is None:
        return [part]
    texts = pieces_of_text(draw, part.text)
    signed = draw(st.integers(0, len(texts) - 1))
    return [
        Part(text=text, thought=part.thought, thought_signature=part.thought_signature if i == signed else None)
        for i, text in enumerate(texts)
    ]


@given(data=st.data())
def test_mod_2_any_split_of_a_response_aggregates_to_the_whole(data: Any) -> None:
    whole = data.draw(wholes())
    flow = [piece for part in whole for piece in pieces(data.draw, part)]
    aggregator = StreamAggregator()
    shown: list[Part] = []
    while flow:
        size = data.draw(st.integers(1, len(flow)))
        chunk, flow = flow[:size], flow[size:]
        if data.draw(st.booleans()):
            aggregator.add(ModelResponse(usage_metadata=UsageMetadata(prompt_token_count=1)))
        partial = aggregator.add(ModelResponse(content=Content(role="model", parts=chunk)))
        assert partial.content is not None
        shown += partial.content.parts
    aggregator.add(ModelResponse(finish_reason="STOP"))
    final = aggregator.finish()
    assert final.content == Content(role="model", parts=whole)
    for thought in (None, True):  # CASE-STREAM-3: partials of one response concatenate to its text
        said = "".join(part.text or "" for part in whole if part.thought == thought)
        assert "".join(part.text or "" for part in shown if part.text and part.thought == thought) == said
    ids = {part.function_call.id for part in shown if part.function_call and part.function_call.partial_args}
    assert ids <= {part.function_call.id for part in whole if part.function_call}


#: What a service may say of the end of a turn: the API's own names, and nothing.
REASONS = ["STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "LANGUAGE", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
           "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "FINISH_REASON_UNSPECIFIED"]  # fmt: skip


def test_the_reasons_of_the_laws_are_those_of_the_api() -> None:
    types = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    assert set(REASONS) <= {reason.value for reason in types.FinishReason}


def candidate(parts: list[Part], end: dict[str, Any]) -> dict[str, Any]:
    content = {"content": {"role": "model", "parts": [dump(part) for part in parts]}} if parts else {}
    return {"candidates": [{**content, **end}]}


@given(data=st.data())
def test_mod_2_any_split_of_a_turn_gives_the_response_of_the_unstreamed_one(data: Any) -> None:
    """CONV and AGG agree wherever the stream is cut; an end that comes alone behind a text is its error (AGG-25)."""
    whole = data.draw(wholes())
    reason = data.draw(st.sampled_from(REASONS))
    end = {"finishReason": reason, "finishMessage": data.draw(st.sampled_from(["no", ""]))}
    usage = {"usageMetadata": {"promptTokenCount": 3}}
    unstreamed = whole_response({**candidate(whole, end), **usage, "modelVersion": "v"})
    flow = [piece for part in whole for piece in pieces(data.draw, part)]
    flow += data.draw(st.sampled_from([[], [Part()], [Part(text="")]]))
    documents: list[dict[str, Any]] = [usage] if data.draw(st.booleans()) else []
    while flow:
        size = data.draw(st.integers(1, len(flow)))
        chunk, flow = flow[:size], flow[size:]
        documents.append(candidate(chunk, {}))
    alone = not (documents and "candidates" in documents[-1] and data.draw(st.booleans()))
    if not alone:
        documents[-1]["candidates"][0] |= end
    else:
        documents.append(candidate([], end))
    documents.append({**usage, "modelVersion": "v"})
    aggregator = StreamAggregator()
    for document in documents:
        aggregator.add(convert_response(document))
    streamed = aggregator.finish()
    if not whole:  # a message comes with a candidate without parts; one with an empty part has none to give
        streamed = streamed.replace(error_message=unstreamed.error_message)
    if whole and alone and reason not in ("STOP", "MAX_TOKENS", "UNEXPECTED_TOOL_CALL"):
        assert streamed.error_code == reason
        streamed = streamed.replace(error_code=None, error_message=None)
    assert streamed == unstreamed


@given(
    st.lists(st.builds(PartialArg, json_path=st.text("$.a[0]'\"\\9", max_size=12), string_value=st.text(max_size=3)))
)
def test_agg_15_no_path_of_a_remote_service_can_break_the_aggregator(given_pieces: list[PartialArg]) -> None:
    aggregator = StreamAggregator()
    call = FunctionCall(id="c", name="f", partial_args=tuple(given_pieces) or None, will_continue=True)
    aggregator.add(ModelResponse(content=Content(role="model", parts=[Part(function_call=call)])))
    whole = aggregator.finish()
    assert whole.content is not None
    assert isinstance(whole.content.parts[0].function_call.args, dict)  # type: ignore[union-attr]


# --- cost -------------------------------------------------------------------------------------------------------------


class NeverAdded(str):
    """A text that may be joined, and must not be concatenated piece by piece."""

    __slots__ = ()

    def __add__(self, other: str) -> str:
        raise AssertionError("concatenated")

    __radd__ = __add__


def text_chunk(piece: str) -> ModelResponse:
    return ModelResponse(content=Content(role="model", parts=[Part(text=piece)]))


def argument_chunk(piece: str) -> ModelResponse:
    piece_of = PartialArg(json_path="$.text", string_value=piece)
    call = FunctionCall(id="c", name="f", partial_args=(piece_of,), will_continue=True)
    return ModelResponse(content=Content(role="model", parts=[Part(function_call=call)]))


@pytest.mark.parametrize("make", [text_chunk, argument_chunk])
def test_agg_30_texts_are_joined_once(make: Any) -> None:
    aggregator = StreamAggregator()
    for _ in range(100):
        aggregator.add(make(NeverAdded("ab")))
    content = aggregator.finish().content
    assert content is not None
    part = content.parts[0]
    assert (part.text or part.function_call.args["text"]) == "ab" * 100  # type: ignore[index,union-attr]


def calls_made(make: Any, chunks: int) -> int:
    """How many Python functions run while so many chunks are aggregated."""
    prepared = [make("ab") for _ in range(chunks)]
    aggregator = StreamAggregator()
    count = 0

    def seen(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        for item in prepared:
            aggregator.add(item)
        aggregator.finish()
    finally:
        sys.setprofile(None)
    return count


def many_calls(piece: str) -> ModelResponse:
    call = FunctionCall(id=f"c{id(piece)}", name="f", args={"a": 1})
    return ModelResponse(content=Content(role="model", parts=[Part(function_call=call)]))


@pytest.mark.parametrize("make", [text_chunk, argument_chunk, many_calls])
def test_agg_30_twice_the_chunks_cost_twice_the_work(make: Any) -> None:
    once, twice = calls_made(make, 300), calls_made(make, 600)
    assert twice < 2 * once + 50
