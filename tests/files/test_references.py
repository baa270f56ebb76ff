"""References in a folder that others write too (services BEY-7, FIL-1, FIL-4)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hookwork.errors import (
    ArtifactNotFoundError,
    ArtifactReferenceError,
    UnsupportedOperationError,
    ValidationError,
)
from hookwork.records.content import Blob, FileData, Part
from hookwork_files import FileArtifactService

SESSION: dict[str, Any] = {"app_name": "shop", "user_id": "ann", "session_id": "s1"}
BASE = "artifact://apps/shop/users/ann/sessions/s1/artifacts"
ARTIFACTS = "apps/shop/users/ann/sessions/s1/artifacts"


def refers(uri: str) -> Part:
    return Part(file_data=FileData(file_uri=uri))


def blob(data: bytes) -> Part:
    return Part(inline_data=Blob(data=data, mime_type="image/png"))


def put_uri(root: Path, name: str, uri: str) -> None:
    """A record that somebody else wrote into the folder."""
    path = root / ARTIFACTS / name / "versions" / "1" / "metadata.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "hookworkFileUri": uri}))


async def test_bey_7_fil_1_what_is_on_the_disk(tmp_path: Path) -> None:
    """An empty payload, so that google-adk finds a file; the URI and the target's type are in the record."""
    service = FileArtifactService(tmp_path)
    await service.save_artifact(**SESSION, filename="pic.png", artifact=blob(b"1"))
    await service.save_artifact(**SESSION, filename="copy", artifact=refers(f"{BASE}/pic.png/versions/1"))
    version = tmp_path / ARTIFACTS / "copy" / "versions" / "1"
    assert (version / "copy").read_bytes() == b""
    record = json.loads((version / "metadata.json").read_bytes())
    assert (record["mimeType"], record["hookworkFileUri"]) == ("image/png", f"{BASE}/pic.png/versions/1")
    assert "hookworkSha256" not in record


async def test_bey_7_circles_and_foreign_scopes_that_were_written_by_hand(tmp_path: Path) -> None:
    service = FileArtifactService(tmp_path)
    other = {**SESSION, "user_id": "bob"}
    await service.save_artifact(**other, filename="secret", artifact=blob(b"secret"))
    for name in ("a", "b", "self", "theirs", "dots"):
        await service.save_artifact(**SESSION, filename=name, artifact=blob(b"1"))
    put_uri(tmp_path, "a", f"{BASE}/b/versions/1")
    put_uri(tmp_path, "b", f"{BASE}/a/versions/1")
    put_uri(tmp_path, "self", f"{BASE}/self/versions/1")
    put_uri(tmp_path, "theirs", "artifact://apps/shop/users/bob/sessions/s1/artifacts/secret/versions/1")
    put_uri(tmp_path, "dots", f"{BASE}/../../../../bob/sessions/s1/artifacts/secret/versions/1")
    for name, reason in (("a", "cycle"), ("b", "cycle"), ("self", "cycle"), ("theirs", "scope")):
        for ask in (service.load_artifact, service.open_artifact, service.artifact_url):
            with pytest.raises(ArtifactReferenceError) as refusal:
                await ask(**SESSION, filename=name)
            assert refusal.value.reason == reason, name
    for nested in (False, True):
        with pytest.raises(ValidationError):
            await FileArtifactService(tmp_path, nested_names=nested).load_artifact(**SESSION, filename="dots")
    assert (await service.get_artifact_version(**SESSION, filename="a")).file_uri == f"{BASE}/b/versions/1"
    await service.delete_artifact(**SESSION, filename="a")


async def test_bey_7_a_file_elsewhere_is_named_and_never_read(tmp_path: Path) -> None:
    """Whatever a record says: no path of this machine is opened for it."""
    service = FileArtifactService(tmp_path / "root")
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    await service.save_artifact(**SESSION, filename="a", artifact=blob(b"1"))
    put_uri(tmp_path / "root", "a", secret.as_uri())
    found = await service.load_artifact(**SESSION, filename="a")
    assert found.file_data is not None
    assert (found.file_data.file_uri, found.inline_data) == (secret.as_uri(), None)
    with pytest.raises(UnsupportedOperationError):
        await service.open_artifact(**SESSION, filename="a")


async def test_fil_4_a_reference_leads_over_no_link_out_of_the_root(tmp_path: Path) -> None:
    outside = FileArtifactService(tmp_path / "outside")
    await outside.save_artifact(**SESSION, filename="secret", artifact=blob(b"secret"))
    service = FileArtifactService(tmp_path / "root")
    await service.save_artifact(**SESSION, filename="ours", artifact=blob(b"1"))
    (tmp_path / "root" / ARTIFACTS / "secret").symlink_to(tmp_path / "outside" / ARTIFACTS / "secret")
    with pytest.raises(ValidationError, match="link"):
        await service.save_artifact(**SESSION, filename="copy", artifact=refers(f"{BASE}/secret/versions/1"))


async def test_bey_7_art_5_a_reference_to_version_0_means_version_0(tmp_path: Path) -> None:
    """As google-adk counts, also where a call takes 0 for the latest."""
    theirs = FileArtifactService(tmp_path, first_version=0)
    for data in (b"0", b"1"):
        await theirs.save_artifact(**SESSION, filename="a", artifact=blob(data))
    await theirs.save_artifact(**SESSION, filename="copy", artifact=refers(f"{BASE}/a/versions/0"))
    ours = FileArtifactService(tmp_path)
    await ours.save_artifact(**SESSION, filename="b", artifact=blob(b"b"))
    assert await ours.load_artifact(**SESSION, filename="copy") == blob(b"0")
    with pytest.raises(ArtifactNotFoundError):
        await ours.save_artifact(**SESSION, filename="other", artifact=refers(f"{BASE}/b/versions/0"))


async def test_bey_7_a_pruned_target_is_told(tmp_path: Path) -> None:
    """BEY-14: what is kept of many versions does not look at references."""
    service = FileArtifactService(tmp_path, keep_versions=1)
    await service.save_artifact(**SESSION, filename="a", artifact=blob(b"1"))
    await service.save_artifact(**SESSION, filename="copy", artifact=refers(f"{BASE}/a/versions/1"))
    await service.save_artifact(**SESSION, filename="a", artifact=blob(b"2"))
    with pytest.raises(ArtifactNotFoundError, match="stands for"):
        await service.load_artifact(**SESSION, filename="copy")
