"""Text every database can hold (services EVT-12, CASE-SESS-4)."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork.records.content import Part
from hookwork.records.text import clean, report_cleaned

any_text = st.text(st.characters(categories=["L", "Cs", "Cc", "So", "N"]))


@given(any_text)
def test_evt_12_clean_text_is_utf_8_without_nul_and_of_equal_length(text: str) -> None:
    cleaned = clean(text)
    assert "\x00" not in cleaned
    cleaned.encode()
    assert len(cleaned) == len(text)
    assert all(
        new == old or (new == "\ufffd" and (old == "\x00" or "\ud800" <= old <= "\udfff"))
        for new, old in zip(cleaned, text, strict=True)
    )
    assert clean(cleaned) is cleaned


@pytest.mark.parametrize("text", ["", "plain", "\t\n\x01\x7f", "é", "東京", "😀👩‍👩‍👧", "\ufffd", "\ue000"])
def test_evt_12_holdable_text_stays_the_same_object(text: str) -> None:
    assert clean(text) is text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [("a\x00b\ud83dc", "a\ufffdb\ufffdc"), ("\x00", "\ufffd"), ("\ud83d\ude00", "\ufffd\ufffd"), ("é\x00", "é\ufffd")],
)
def test_case_sess_4_nul_and_half_pairs_are_replaced(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


def test_evt_12_the_warning_names_the_place_and_not_the_text(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="hookwork.records"):
        assert Part(text="s3cret\x00").text == "s3cret\ufffd"
        report_cleaned("", 2)
    assert len(caplog.records) == 2
    assert "at text (1 place(s))" in caplog.messages[0]
    assert "at the value (2 place(s))" in caplog.messages[1]
    assert "s3cret" not in caplog.text
