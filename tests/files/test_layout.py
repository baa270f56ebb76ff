"""What lies in the folder, and folders that google-adk 2.13 wrote (services FIL-1, FIL-3, ART-4)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hookwork.errors import ArtifactNotFoundError, BackendError
from hookwork.platform import use_clock
from hookwork.records.content import Blob, Part
from hookwork_files import FileArtifactService

GOLDEN = Path(__file__).parent / "golden" / "google_adk.json"
KEY: dict[str, Any] = {"app_name": "shop", "user_id": "ann|1", "session_id": "s 1"}
PNG = Part(inline_data=Blob(data=b"\x89PNG", mime_type="image/png"))


@pytest.fixture
def google_adk(tmp_path: Path) -> Path:
    """A folder as google-adk 2.13.0 left it."""
    for name, text in json.loads(GOLDEN.read_text(encoding="utf-8")).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("latin-1"))
    return tmp_path


async def test_fil_1_our_own_layout(tmp_path: Path) -> None:
    service = FileArtifactService(tmp_path)
    named = Part(inline_data=Blob(data=b"1", mime_type="image/png", display_name="Ä"))
    with use_clock(lambda: datetime(2026, 1, 1, 0, 0, 0, 250000, tzinfo=UTC)):
        await service.save_artifact(**KEY, filename="pic.png", artifact=named, custom_metadata={"k": 1}, save_id="e-1")
        await service.save_artifact(**KEY, filename="user:note", artifact=Part(text="ü"))
    user = tmp_path / "apps" / "shop" / "users" / "ann|1"
    version = user / "sessions" / "s 1" / "artifacts" / "pic.png" / "versions" / "1"
    assert (version / "pic.png").read_bytes() == b"1"
    assert json.loads((version / "metadata.json").read_bytes()) == {
        "fileName": "pic.png",
        "version": 1,
        "canonicalUri": (version / "pic.png").as_uri(),
        "mimeType": "image/png",
        "createTime": 1767225600.25,
        "customMetadata": {"k": 1},
        "displayName": "Ä",
        "hookworkSaveId": "e-1",
        "hookworkSha256": "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",  # of "1": sha256sum
    }
    note = user / "artifacts" / "note" / "versions" / "1"
    assert (note / "note").read_bytes() == "ü".encode()
    record = json.loads((note / "metadata.json").read_bytes())
    assert (record["fileName"], "mimeType" in record) == ("user:note", False), "as google-adk marks a text"
    assert sorted(path.name for path in version.parent.iterdir()) == ["1"]


async def test_fil_1_a_folder_of_google_adk_opens(google_adk: Path) -> None:
    service = FileArtifactService(google_adk)
    assert await service.list_artifacts(**KEY) == [
        *(" padded ", "a#b?c.txt", "bytes.txt", "pic.png"),
        *("user:profil bild.png", "user:without prefix.txt"),
    ]
    expected = {
        " padded ": PNG,
        "a#b?c.txt": Part(text="Zeile\nÄ"),
        "bytes.txt": Part(inline_data=Blob(data=b"bytes", mime_type="text/plain")),
        "pic.png": Part(inline_data=Blob(data=b"second", mime_type="image/png")),
        "user:profil bild.png": PNG,
        "user:without prefix.txt": Part(text="users"),
    }
    for name, part in expected.items():
        assert await service.load_artifact(**KEY, filename=name) == part, name
    info = await service.get_artifact_version(**KEY, filename="bytes.txt")
    assert info.custom_metadata == {"source": "camera", "pages": 2}
    assert info.create_time == datetime(2026, 1, 1, 0, 0, 0, 250000, tzinfo=UTC)
    assert info.mime_type == "text/plain"
    where = google_adk / "apps/shop/users/ann|1/sessions/s 1/artifacts/bytes.txt/versions/0/bytes.txt"
    assert info.canonical_uri == where.as_uri(), "where it is now, not where it was written"
    nested = FileArtifactService(google_adk, nested_names=True)
    assert "x/y.txt" in await nested.list_artifacts(**KEY)
    assert await nested.load_artifact(**KEY, filename="x/y.txt") == Part(text="nested")


async def test_art_4_a_file_with_a_version_0_goes_on_in_its_numbering(google_adk: Path) -> None:
    service = FileArtifactService(google_adk)
    assert await service.list_versions(**KEY, filename="pic.png") == [0, 1]
    assert await service.load_artifact(**KEY, filename="pic.png", version=0) == PNG
    assert await service.save_artifact(**KEY, filename="pic.png", artifact=Part(text="third")) == 2
    assert await service.load_artifact(**KEY, filename="pic.png") == Part(text="third")
    assert await service.save_artifact(**KEY, filename=" padded ", artifact=PNG) == 1
    assert await service.list_versions(**KEY, filename=" padded ") == [0, 1]
    await service.delete_artifact(**KEY, filename="pic.png", version=0)
    assert await service.list_versions(**KEY, filename="pic.png") == [1, 2]
    assert await service.save_artifact(**KEY, filename="new.png", artifact=PNG) == 1


async def test_fil_2_what_google_adk_left_half_written_is_no_version_but_a_taken_number(google_adk: Path) -> None:
    versions = google_adk / "apps/shop/users/ann|1/sessions/s 1/artifacts/pic.png/versions"
    (versions / "2").mkdir()
    (versions / "2" / "pic.png").write_bytes(b"half")
    (versions / "3").mkdir()
    (versions / "3" / "metadata.json").write_text('{"fileName": "pic')
    service = FileArtifactService(google_adk)
    assert await service.list_versions(**KEY, filename="pic.png") == [0, 1]
    with pytest.raises(ArtifactNotFoundError):
        await service.load_artifact(**KEY, filename="pic.png", version=2)
    assert await service.save_artifact(**KEY, filename="pic.png", artifact=PNG) == 4
    await service.delete_artifact(**KEY, filename="pic.png")
    assert not versions.parent.exists()


async def test_a_payload_that_is_gone_is_an_error_and_not_an_absent_file(google_adk: Path) -> None:
    """GEN-7."""
    (google_adk / "apps/shop/users/ann|1/sessions/s 1/artifacts/pic.png/versions/1/pic.png").unlink()
    text = google_adk / "apps/shop/users/ann|1/sessions/s 1/artifacts/a#b?c.txt/versions/0/a#b?c.txt"
    text.write_bytes(b"\xff")
    service = FileArtifactService(google_adk)
    with pytest.raises(BackendError) as refusal:
        await service.load_artifact(**KEY, filename="pic.png")
    assert refusal.value.code == "ENOENT"
    with pytest.raises(BackendError, match="UTF-8"):
        await service.load_artifact(**KEY, filename="a#b?c.txt")


async def test_fil_1_odd_records_are_read_as_far_as_they_go(google_adk: Path) -> None:
    artifacts = google_adk / "apps/shop/users/ann|1/sessions/s 1/artifacts"
    times = {"iso": '"2026-01-02T03:04:05+00:00"', "naive": '"2026-01-02T03:04:05"', "none": "1e300"}
    for name, time in times.items():
        version = artifacts / name / "versions" / "1"
        version.mkdir(parents=True)
        (version / name).write_bytes(b"t")
        (version / "metadata.json").write_text(f'{{"createTime": {time}, "customMetadata": [], "mimeType": 3}}')
    (artifacts / "list" / "versions" / "1").mkdir(parents=True)
    (artifacts / "list" / "versions" / "1" / "metadata.json").write_text("[]")
    (artifacts / "file").write_text("no folder")
    service = FileArtifactService(google_adk)
    names = await service.list_artifacts(**KEY)
    assert {"iso", "naive", "none"} <= set(names), "without a recorded name the folder's counts"
    assert not {"list", "file"} & set(names)
    for name in ("iso", "naive"):
        info = await service.get_artifact_version(**KEY, filename=name)
        assert info.create_time == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    written = datetime.fromtimestamp((artifacts / "none" / "versions" / "1" / "metadata.json").stat().st_mtime, UTC)
    assert (await service.get_artifact_version(**KEY, filename="none")).create_time == written
    assert await service.load_artifact(**KEY, filename="none") == Part(text="t")
