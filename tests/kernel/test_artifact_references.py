"""``artifact://`` references (services BEY-7)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork.artifact_names import ArtifactKey, check_file
from hookwork.artifact_references import (
    MAX_DEPTH,
    ArtifactReference,
    Trail,
    artifact_uri,
    check_saved_reference,
    reference_part,
)
from hookwork.errors import ArtifactNotFoundError, ArtifactReferenceError, HookworkError, ValidationError
from hookwork.records.content import FileData, Part

KEY = ArtifactKey("shop", "ann", "s 1", "a.txt")
#: As ``artifact_util.get_artifact_uri`` of google-adk 2.13 spells them.
OF_SESSION = "artifact://apps/shop/users/ann/sessions/s 1/artifacts/Bericht März 50%.pdf/versions/3"
OF_USER = "artifact://apps/shop/users/ann/artifacts/user:note/versions/0"

segments = st.text(min_size=1, max_size=12)


def uri_of(name: str, version: int = 1) -> str:
    return ArtifactReference.to(KEY._replace(filename=name), version).uri


def test_bey_7_a_reference_is_spelled_as_google_adk_spells_it() -> None:
    session = ArtifactReference.parsed(OF_SESSION)
    assert session == ("shop", "ann", "s 1", "Bericht März 50%.pdf", 3)
    user = ArtifactReference.parsed(OF_USER)
    assert user == ("shop", "ann", None, "user:note", 0)
    assert ArtifactReference.parsed(OF_USER.replace("user:", "")) == user, "the prefix may be missing"
    assert (session.uri, user.uri) == (OF_SESSION, OF_USER)
    assert reference_part(KEY._replace(filename="user:note"), 0, mime_type="text/plain") == Part(
        file_data=FileData(file_uri=OF_USER, mime_type="text/plain")
    )


@given(segments, segments, segments, segments, st.booleans(), st.integers(0, 10**17))
def test_bey_7_every_legal_name_comes_back(
    app: str, user: str, session: str, name: str, users: bool, version: int
) -> None:
    key = ArtifactKey(app, user, session, f"user:{name}" if users else name)
    try:
        check_file(**key._asdict(), nested=True)
    except ValidationError:
        return
    reference = ArtifactReference.to(key, version)
    found = ArtifactReference.parsed(reference.uri)
    assert found == reference
    assert found.seen_from(key) == key._asdict()


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "artifact://",
        "artifact:///etc/passwd",
        OF_SESSION + "/4",
        OF_SESSION[:-1],
        OF_SESSION.replace("versions/3", "versions/-1"),
        OF_SESSION.replace("versions/3", "versions/٣"),
        OF_SESSION.replace("versions/3", "versions/" + "9" * 19),
        OF_SESSION.replace("shop", "sh/op"),
        OF_SESSION.replace("artifact:", "ARTIFACT:"),
        f" {OF_SESSION}",
        f"{OF_SESSION}\n",
    ],
)
def test_bey_7_what_names_no_version_is_refused(uri: str) -> None:
    with pytest.raises(ArtifactReferenceError) as refusal:
        ArtifactReference.parsed(uri)
    assert refusal.value.reason == "malformed"
    assert isinstance(refusal.value, ValidationError | HookworkError)


def test_bey_7_only_the_artifact_scheme_is_followed() -> None:
    assert artifact_uri(None) is None
    assert artifact_uri(FileData()) is None
    assert artifact_uri(FileData(file_uri="gs://b/artifact://x")) is None
    assert artifact_uri(FileData(file_uri=OF_USER)) == OF_USER
    assert check_saved_reference(KEY, Part(file_data=FileData(file_uri="https://example.com"))) is None
    assert check_saved_reference(KEY, Part(text="t")) is None


def test_bey_7_a_circle_is_told_from_a_long_trail() -> None:
    trail = Trail(KEY, 2)
    trail.step(uri_of("b"))
    with pytest.raises(ArtifactReferenceError, match="circle") as circle:
        trail.step(uri_of("a.txt", 2))
    assert circle.value.reason == "cycle"
    long = Trail(KEY)
    for n in range(MAX_DEPTH):
        where, version = long.step(uri_of(f"n-{n}", n))
        assert (where, version) == ({**KEY._asdict(), "filename": f"n-{n}"}, n)
    with pytest.raises(ArtifactReferenceError, match="more than 5") as depth:
        long.step(uri_of("n-5"))
    assert depth.value.reason == "depth"
    with pytest.raises(ArtifactNotFoundError, match=r"'a.txt' stands for 'artifact://.*/n-4/versions/4'"):
        raise long.lost()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("a.txt", {"app_name": "other"}),
        ("a.txt", {"user_id": "bob"}),
        ("a.txt", {"session_id": "s 2"}),
        ("user:note", {"user_id": "bob"}),
    ],
)
def test_bey_7_nobody_elses_file_is_reached(name: str, changes: dict[str, Any]) -> None:
    uri = ArtifactReference.to(KEY._replace(filename=name, **changes), 1).uri
    for refuse in (Trail(KEY).step, lambda uri: check_saved_reference(KEY, Part(file_data=FileData(file_uri=uri)))):
        with pytest.raises(ArtifactReferenceError) as refusal:
            refuse(uri)
        assert refusal.value.reason == "scope"


def test_bey_7_a_users_file_stands_for_no_sessions_file() -> None:
    with pytest.raises(ArtifactReferenceError, match="of one session") as refusal:
        check_saved_reference(KEY._replace(filename="user:a"), Part(file_data=FileData(file_uri=uri_of("b"))))
    assert refusal.value.reason == "scope"
    with pytest.raises(ArtifactReferenceError):
        ArtifactReference("shop", "ann", None, "no prefix", 1).seen_from(KEY)
