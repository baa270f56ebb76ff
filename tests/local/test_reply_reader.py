"""Prose out of JSON while it is being written (models LOC-2): the law of `ReplyReader`."""

from __future__ import annotations

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from hookwork.records.request import FunctionDeclaration
from hookwork_local.choice import Choice, ReplyReader

CHOICE = Choice({"f": FunctionDeclaration(name="f")}, True, None)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def split(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[a:b] for a, b in itertools.pairwise(places)]


@given(TEXT, st.booleans(), st.sampled_from([None, 1]), st.lists(st.integers(0, 10_000)))
def test_any_split_of_an_encoded_reply_reads_as_the_reply(
    reply: str, ascii_only: bool, indent: int | None, cuts: list[int]
) -> None:
    written = json.dumps({"reply": reply}, ensure_ascii=ascii_only, indent=indent)
    reader = ReplyReader(CHOICE)
    assert "".join(reader.feed(piece) for piece in split(written, cuts)) == reply


@given(st.lists(st.integers(0, 10_000)), st.dictionaries(st.text(max_size=5), TEXT, max_size=3))
def test_nothing_of_a_call_is_shown_as_prose(cuts: list[int], arguments: dict[str, str]) -> None:
    written = json.dumps({"tool": "f", "arguments": {**arguments, "reply": "not prose"}})
    reader = ReplyReader(CHOICE)
    assert "".join(reader.feed(piece) for piece in split(written, cuts)) == ""


def test_without_tools_every_piece_is_prose() -> None:
    reader = ReplyReader(Choice({}, True, None))
    assert [reader.feed(piece) for piece in ('{"a"', ": 1}")] == ['{"a"', ": 1}"]
