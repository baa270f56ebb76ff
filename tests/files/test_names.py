"""Names as folders: legal, exact, never mixed up, never out of the root (services FIL-3, FIL-4, CASE-ART-1)."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookwork.artifact_names import check_filename
from hookwork.errors import BackendError, ValidationError
from hookwork.records.content import Blob, Part
from hookwork_files import FileArtifactService, tree
from hookwork_files.disk import is_spelled_so
from hookwork_files.names import MAX_FOLDER_BYTES, artifact_folders, owner_folder

KEY: dict[str, Any] = {"app_name": "shop", "user_id": "ann", "session_id": "s1"}

#: Characters that some file system, or this layout, treats in a way of its own.
NASTY = st.text(alphabet='aA%:.~ ?|ä\u0308"0Cc', min_size=1, max_size=6)
NAMES = st.one_of(
    NASTY, st.sampled_from(["con", "NUL.txt", "aux", "COM1", "metadata.json", "Versions", "versions", "3"])
)


def blob(data: bytes) -> Part:
    return Part(inline_data=Blob(data=data, mime_type="application/octet-stream"))


def is_legal(name: str) -> bool:
    try:
        check_filename(name, nested=False)
    except ValidationError:
        return False
    return True


@given(NAMES)
def test_fil_3_folders_are_legal_on_every_file_system(name: str) -> None:
    if not is_legal(name):
        return
    for folder in artifact_folders(name)[-2:]:
        assert not folder.endswith((".", " "))
        assert folder.lower() not in ("versions", "metadata.json", "con", "aux", "com1", "nul.txt")
        assert len(folder.encode()) <= MAX_FOLDER_BYTES
    assert not set('<>:"|?*') & set(artifact_folders(name)[-1])


@pytest.mark.parametrize(
    ("name", "folders"),
    [
        ("a.txt", ["a.txt"]),
        ("Bericht März 50%.pdf", ["Bericht März 50%.pdf"]),
        (".env", [".env"]),
        ("a#b?c.txt", ["a#b?c.txt", "a#b%3Fc.txt"]),
        ("end.", ["end%2E"]),
        ("end ", ["end%20"]),
        ("NUL.txt", ["%4EUL.txt"]),
        ("nullable", ["nullable"]),
        ("metadata.json", ["%6Detadata.json"]),
        ("versions", ["%76ersions"]),
        ("x/y:z", ["x/y:z", "x/y%3Az"]),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="the exact spelling comes first where the system takes it")
def test_fil_3_spellings(name: str, folders: list[str]) -> None:
    assert artifact_folders(name)[:-1] == folders


def test_fil_3_on_windows_the_portable_spelling_is_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert artifact_folders("a#b?c.txt")[0] == "a#b%3Fc.txt"
    assert owner_folder("auth0|7") == "auth0%7C7"


def test_fil_3_long_names_are_cut_and_stay_different() -> None:
    one, other = (artifact_folders("ä" * 255 + end) for end in ("x", "y"))
    assert len(one) == len(other) == 1
    assert one != other
    assert len(one[0].encode()) <= MAX_FOLDER_BYTES
    assert owner_folder("u" * 300) != owner_folder("u" * 301)


@settings(max_examples=40, deadline=None)
@given(st.lists(NAMES.filter(is_legal), min_size=2, max_size=6, unique=True))
def test_case_art_1_no_two_names_share_a_file(names: list[str]) -> None:
    async def check(root: str) -> None:
        service = FileArtifactService(root, sync=False)
        for name in names:
            assert await service.save_artifact(**KEY, filename=name, artifact=blob(name.encode())) == 1
        assert await service.list_artifacts(**KEY) == sorted(names)
        for name in names:
            found = await service.load_artifact(**KEY, filename=name)
            assert found == blob(name.encode())
            await service.delete_artifact(**KEY, filename=name)
        assert await service.list_artifacts(**KEY) == []
        assert os.listdir(Path(root, "apps", "shop", "users", "ann", "sessions", "s1", "artifacts")) == []

    with tempfile.TemporaryDirectory() as root:
        asyncio.run(check(root))


async def test_ca_22_a_folder_of_another_spelling_is_not_reused(tmp_path: Path) -> None:
    """What a file system that folds case shows: asked for ``A.txt`` it answers with the folder of ``a.txt``."""
    service = FileArtifactService(tmp_path)
    await service.save_artifact(**KEY, filename="a.txt", artifact=blob(b"small"))
    artifacts = tmp_path / "apps/shop/users/ann/sessions/s1/artifacts"
    (artifacts / "A.txt").symlink_to(artifacts / "a.txt")
    assert await service.save_artifact(**KEY, filename="A.txt", artifact=blob(b"large")) == 1
    assert await service.load_artifact(**KEY, filename="a.txt") == blob(b"small")
    assert await service.load_artifact(**KEY, filename="A.txt") == blob(b"large")
    (folder,) = (path for path in artifacts.iterdir() if path.name.startswith("A.txt~"))
    assert json.loads((folder / "versions/1/metadata.json").read_bytes())["fileName"] == "A.txt"
    assert await service.list_versions(**KEY, filename="a.txt") == [1]


@pytest.mark.parametrize("attempt", range(25))
async def test_ca_22_a_race_for_one_folder_is_settled_at_publishing(tmp_path: Path, attempt: int) -> None:
    """A folder that was free when it was chosen may be another name's by the time its number is (25 races)."""
    service = FileArtifactService(tmp_path)
    artifacts = tmp_path / "apps/shop/users/ann/sessions/s1/artifacts"
    (artifacts / "a.txt").mkdir(parents=True)
    (artifacts / "A.txt").symlink_to(artifacts / "a.txt")
    names = ("a.txt", "A.txt", "a.txt", "A.txt")
    saves = [service.save_artifact(**KEY, filename=name, artifact=blob(name.encode())) for name in names]
    given = await asyncio.gather(*saves)
    assert [sorted(given[::2]), sorted(given[1::2])] == [[1, 2], [1, 2]]
    for name in ("a.txt", "A.txt"):
        for version in (1, 2):
            found = await service.load_artifact(**KEY, filename=name, version=version)
            assert found == blob(name.encode())


async def test_fil_4_links_out_of_the_root_are_refused(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    other = FileArtifactService(outside)
    await other.save_artifact(**KEY, filename="secret", artifact=blob(b"secret"))
    service = FileArtifactService(root)
    await service.save_artifact(**KEY, filename="ours", artifact=blob(b"ours"))
    artifacts = "apps/shop/users/ann/sessions/s1/artifacts"
    (root / artifacts / "secret").symlink_to(outside / artifacts / "secret")
    (root / "apps/shop/users/eve").symlink_to(outside / "apps/shop/users/ann")
    for key in ({**KEY, "filename": "secret"}, {**KEY, "user_id": "eve", "filename": "secret"}):
        for call in (
            service.load_artifact,
            service.list_versions,
            service.get_artifact_version,
            service.delete_artifact,
        ):
            with pytest.raises(ValidationError, match="link"):
                await call(**key)
        with pytest.raises(ValidationError, match="link"):
            await service.save_artifact(**key, artifact=blob(b"forged"))
    assert await service.list_artifacts(**KEY) == ["ours"]
    with pytest.raises(ValidationError, match="link"):
        await service.list_artifacts(**{**KEY, "user_id": "eve"})
    assert await other.load_artifact(**KEY, filename="secret") == blob(b"secret")
    assert await other.list_versions(**KEY, filename="secret") == [1]


async def test_fil_4_links_in_place_of_a_version_or_its_files_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    service = FileArtifactService(tmp_path / "root")
    for name in ("payload", "record", "version"):
        await service.save_artifact(**KEY, filename=name, artifact=blob(b"1"))
    artifacts = tmp_path / "root/apps/shop/users/ann/sessions/s1/artifacts"
    payload = artifacts / "payload/versions/1/payload"
    payload.unlink()
    payload.symlink_to(secret)
    record = artifacts / "record/versions/1/metadata.json"
    record.rename(tmp_path / "metadata.json")
    record.symlink_to(tmp_path / "metadata.json")
    version = artifacts / "version/versions/1"
    version.rename(tmp_path / "1")
    version.symlink_to(tmp_path / "1")
    with pytest.raises(ValidationError, match="link"):
        await service.load_artifact(**KEY, filename="payload")
    for name in ("record", "version"):
        with pytest.raises(FileNotFoundError):
            await service.load_artifact(**KEY, filename=name)
    assert await service.list_artifacts(**KEY) == ["payload"]
    await service.delete_artifact(**KEY, filename="version")
    assert (tmp_path / "1" / "version").read_bytes() == b"1"


async def test_fil_4_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    service = FileArtifactService(tmp_path / "link")
    assert await service.save_artifact(**KEY, filename="a", artifact=blob(b"1")) == 1
    assert await FileArtifactService(tmp_path / "real").load_artifact(**KEY, filename="a") == blob(b"1")


async def test_ids_of_all_kinds_have_folders_of_their_own(tmp_path: Path) -> None:
    service = FileArtifactService(tmp_path)
    users = ["u" * 400, "u" * 401, "auth0|7", "end.", "end", "com1", "apps", "artifacts", "sessions"]
    for user in users:
        await service.save_artifact(**{**KEY, "user_id": user}, filename="user:a", artifact=blob(user.encode()))
    for user in users:
        assert await service.load_artifact(**{**KEY, "user_id": user}, filename="user:a") == blob(user.encode())
    with pytest.raises(ValidationError, match="surrogate"):
        await service.list_artifacts(**{**KEY, "user_id": "half \ud83d"})


async def test_fil_3_where_case_is_folded_each_user_still_has_files_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system is played by links: ``APPS`` and ``Ann`` answer, but are not what the folders are called."""
    await FileArtifactService(tmp_path).save_artifact(**KEY, filename="user:a", artifact=blob(b"of ann"))
    users = tmp_path / "apps/shop/users"
    (users / "Ann").symlink_to(users / "ann")
    (tmp_path / "APPS").symlink_to(tmp_path / "apps")
    monkeypatch.setattr(tree, "is_spelled_so", lambda path: not path.is_symlink())
    service = FileArtifactService(tmp_path)
    other = {**KEY, "user_id": "Ann"}
    assert await service.list_artifacts(**other) == []
    await service.save_artifact(**other, filename="user:a", artifact=blob(b"of Ann"))
    assert await service.load_artifact(**other, filename="user:a") == blob(b"of Ann")
    assert await service.load_artifact(**KEY, filename="user:a") == blob(b"of ann")
    assert await service.list_versions(**KEY, filename="user:a") == [1]


def test_is_spelled_so(tmp_path: Path) -> None:
    (tmp_path / "ann").mkdir()
    assert is_spelled_so(tmp_path / "ann")
    assert not is_spelled_so(tmp_path / "Ann")


@pytest.mark.skipif(sys.platform == "win32", reason="there the portable spelling comes first anyway")
async def test_fil_3_a_file_system_that_cannot_hold_a_name_gets_the_portable_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a FAT disk, where ``?`` in a name is an invalid argument."""
    real = tree.make_folders

    def on_fat(folder: Path, *, sync: bool) -> None:
        if "?" in os.fspath(folder):
            raise OSError(errno.EINVAL, "Invalid argument", os.fspath(folder))
        real(folder, sync=sync)

    monkeypatch.setattr(tree, "make_folders", on_fat)
    service = FileArtifactService(tmp_path)
    await service.save_artifact(**KEY, filename="a#b?c.txt", artifact=blob(b"1"))
    assert (tmp_path / "apps/shop/users/ann/sessions/s1/artifacts/a#b%3Fc.txt/versions/1").is_dir()
    assert await service.load_artifact(**KEY, filename="a#b?c.txt") == blob(b"1")

    def never(folder: Path, *, sync: bool) -> None:
        raise OSError(errno.EINVAL, "Invalid argument", os.fspath(folder))

    monkeypatch.setattr(tree, "make_folders", never)
    with pytest.raises(BackendError) as refusal:
        await service.save_artifact(**KEY, filename="other", artifact=blob(b"1"))
    assert refusal.value.code == "EINVAL"
