"""The rules that all artifact services share (services ART-1, ART-3, ART-5, ART-10, ART-16, ART-17; URL-2)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork.artifact_contents import (
    TOMBSTONE,
    guessed_type,
    part_bytes,
    stored_metadata,
    stored_part,
)
from hookwork.artifact_names import check_file, check_filename, is_version, not_found, wanted_version
from hookwork.errors import ConfigurationError, ValidationError
from hookwork.records.content import Blob, FileData, Part
from hookwork.service_options import SWITCH, WHOLE_NUMBER, Option, options_of, words

KEY: dict[str, Any] = {"app_name": "a", "user_id": "u", "session_id": "s", "filename": "f"}


@given(st.text(max_size=20))
def test_art_3_a_legal_name_is_one_safe_segment(name: str) -> None:
    try:
        check_filename(name, nested=False)
    except ValidationError:
        return
    bare = name.removeprefix("user:")
    assert bare not in ("", ".", "..")
    assert not set("/\\\x00\n") & set(name)
    assert len(name.encode()) <= 512
    check_filename(name, nested=True)


@given(st.lists(st.sampled_from(["a", "..", ".", "", "versions", "12", "b c", "x\\y"]), min_size=2, max_size=4))
def test_art_3_nested_names_are_legal_when_each_segment_is(segments: list[str]) -> None:
    name = "/".join(segments)
    with pytest.raises(ValidationError):
        check_filename(name, nested=False)
    if all(segment in ("a", "b c") for segment in segments):
        check_filename(name, nested=True)
    else:
        with pytest.raises(ValidationError):
            check_filename(name, nested=True)


def test_art_1_all_that_is_missing_is_named_in_order() -> None:
    with pytest.raises(ValidationError, match=r"^app_name, filename, artifact must be given"):
        check_file(**{**KEY, "app_name": "", "filename": None}, nested=False, artifact=None)
    with pytest.raises(ValidationError, match="user_id must be text, not int"):
        check_file(**{**KEY, "user_id": 3}, nested=False)
    for wrong in ("half \ud83d", "..", "a/b", "a\x01"):
        with pytest.raises(ValidationError, match="session_id"):
            check_file(**{**KEY, "session_id": wrong}, nested=False)


@pytest.mark.parametrize(
    ("version", "first", "wanted"), [(None, 1, None), (0, 1, None), (3, 1, 3), (None, 0, None), (0, 0, 0), (3, 0, 3)]
)
def test_art_5_which_version_is_meant(version: int | None, first: int, wanted: int | None) -> None:
    assert wanted_version(version, first) == wanted
    for wrong in (-1, True, "1", 1.0):
        with pytest.raises(ValidationError):
            wanted_version(wrong, first)  # type: ignore[arg-type]


def test_art_9_the_error_names_file_and_version() -> None:
    assert "'f', version 3" in str(not_found("f", 3))
    assert "version" not in str(not_found("f"))
    assert (is_version("10"), is_version("١"), is_version(""), is_version("-1")) == (True, False, False, False)


def test_art_11_a_part_is_kept_as_text_or_bytes() -> None:
    assert stored_part(Part(text="ü", thought=True)) == (Part(text="ü"), "text/plain")
    assert part_bytes(Part(text="ü")) == "ü".encode()
    data: Any = bytearray(b"x")
    kept, mime_type = stored_part(Part(inline_data=Blob(data=data)))
    data[:] = b"y"
    assert (part_bytes(kept), mime_type) == (b"x", "application/octet-stream")
    file = FileData(file_uri="gs://b/pic.png?x=1#top", display_name="Bild")
    kept = Part(file_data=file.replace(mime_type="image/png"))
    assert stored_part(Part(file_data=file, thought=True)) == (kept, "image/png")
    unknown = FileData(file_uri="https://example.com/a#b.png")
    assert stored_part(Part(file_data=unknown))[1] == "application/octet-stream"
    reference = FileData(file_uri="artifact://apps/a/users/u/artifacts/user:pic.png/versions/1")
    assert stored_part(Part(file_data=reference))[0] == Part(file_data=reference), "its target knows"
    assert part_bytes(Part(file_data=file)) == b""
    for wrong in (Part(), Part(file_data=FileData(mime_type="image/png"))):
        with pytest.raises(ValidationError):
            stored_part(wrong)


def test_art_17_only_an_empty_version_can_be_a_tombstone() -> None:
    assert stored_metadata(None) == (None, False)
    assert stored_metadata({"k": [1]}) == ({"k": [1]}, False)
    assert stored_metadata({TOMBSTONE: True}, empty=True) == ({TOMBSTONE: True}, True)
    for wrong in ({TOMBSTONE: True}, {"adkIsText": "x"}, {"hookworkSaveId": "x"}, {"k": object()}):
        with pytest.raises(ValidationError):
            stored_metadata(wrong)


@pytest.mark.parametrize(
    ("name", "given_type", "guessed"),
    [
        ("a.png", None, "image/png"),
        ("a.png", "text/csv", "text/csv"),
        ("user:dir.zip/notes", None, "application/octet-stream"),
        ("x/y.json", "", "application/json"),
    ],
)
def test_art_16_the_type_is_guessed_from_the_name(name: str, given_type: str | None, guessed: str) -> None:
    assert guessed_type(name, given_type) == guessed


def test_url_2_options_of_the_query_win_over_the_table() -> None:
    options = {"count": WHOLE_NUMBER, "fast": SWITCH, "mode": words("a", "b"), "wait": Option(float, float, "seconds")}
    others = {"elsewhere": SWITCH}
    settings = {"count": 1, "elsewhere": True, "wait": 2}

    def read(query: str, table: dict[str, Any]) -> dict[str, Any]:
        return options_of(query, table, options, extension="x", at="x URL 'x:'", others=others)

    assert read("count=2&fast=Yes&mode=%61", settings) == {"count": 2, "fast": True, "mode": "a", "wait": 2}
    assert read("", settings) == {"count": 1, "wait": 2}
    for query, table, said in (
        ("elsewhere=true", {}, "x URL 'x:'.*unknown option 'elsewhere'"),
        ("", {"cont": 1}, r"tool\.hookwork\.x\].*did you mean 'count'"),
        ("count=1.5", {}, "count must be a whole number, not '1.5'"),
        ("", {"fast": "yes"}, "fast must be true or false"),
        ("fast=1&fast=1", {}, "twice"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            read(query, table)
