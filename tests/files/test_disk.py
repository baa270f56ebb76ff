"""Full disks, remains of stopped processes, cancellation, kept numbers (services FIL-2, GEN-5, TRAP-28)."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from hookwork.errors import ArtifactNotFoundError, BackendError, ValidationError
from hookwork.records.content import Blob, Part
from hookwork_files import FileArtifactService
from hookwork_files.staging import Staging

KEY: dict[str, Any] = {"app_name": "shop", "user_id": "ann", "session_id": "s1", "filename": "a.bin"}


def blob(data: bytes) -> Part:
    return Part(inline_data=Blob(data=data, mime_type="application/octet-stream"))


def files_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def versions_of(root: Path) -> Path:
    return root / "apps/shop/users/ann/sessions/s1/artifacts/a.bin/versions"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if sys.platform != "linux" or os.getuid() != 0:
        pytest.skip("mounting a small file system needs root on Linux")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


async def test_ca_22_a_full_disk_leaves_the_older_versions_intact(small_disk: Path) -> None:
    service = FileArtifactService(small_disk)
    await service.save_artifact(**KEY, artifact=blob(b"x" * 300_000))
    before = files_below(small_disk)

    async def large() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"y" * 600_000

    for save in (
        service.save_artifact(**KEY, artifact=blob(b"y" * 2_000_000)),
        service.save_artifact_stream(**KEY, source=large()),
        service.save_artifact(**{**KEY, "filename": "other"}, artifact=blob(b"y" * 2_000_000)),
    ):
        with pytest.raises(BackendError, match="free some space") as refusal:
            await save
        assert (refusal.value.code, refusal.value.retryable) == ("ENOSPC", False)
        assert isinstance(refusal.value.__cause__, OSError)
        assert refusal.value.__cause__.errno == errno.ENOSPC
        assert files_below(small_disk) == before
    assert await service.load_artifact(**KEY) == blob(b"x" * 300_000)
    assert await service.save_artifact(**KEY, artifact=blob(b"z" * 300_000)) == 2


async def test_bey_17_identical_content_is_known_on_a_full_disk(small_disk: Path) -> None:
    service = FileArtifactService(small_disk)
    await service.save_artifact(**KEY, artifact=blob(b"x" * 600_000))
    with pytest.raises(BackendError, match="free some space"):
        await service.save_artifact(**KEY, artifact=blob(b"x" * 600_000))
    assert await service.save_artifact(**KEY, artifact=blob(b"x" * 600_000), reuse_identical=True) == 1
    with pytest.raises(BackendError, match="free some space"):
        await service.save_artifact(**KEY, artifact=blob(b"y" * 600_000), reuse_identical=True)
    assert await service.list_versions(**KEY) == [1]


async def test_fil_2_remains_older_than_an_hour_are_removed_by_the_next_save(tmp_path: Path) -> None:
    service = FileArtifactService(tmp_path)
    await service.save_artifact(**KEY, artifact=blob(b"1"))
    versions = versions_of(tmp_path)
    now = time.time()
    for name, age in ((".old.pending", 3700), (".new.pending", 3500), (".old.deleted", 3700), (".busy.pending", 3700)):
        (versions / name).mkdir()
        payload = versions / name / "a.bin"
        payload.write_bytes(b"half")
        os.utime(payload, (now - age, now - age))
        os.utime(versions / name, (now - age, now - age))
    os.utime(versions / ".busy.pending" / "a.bin")  # a long upload: its folder is old, its file grows
    (versions / ".mark.pending").write_bytes(b"{}")
    os.utime(versions / ".mark.pending", (now - 3700, now - 3700))
    await service.save_artifact(**{**KEY, "filename": "other"}, artifact=blob(b"1"))
    assert (versions / ".old.pending").exists(), "the save of another file looks at its own folder only"
    assert await service.save_artifact(**KEY, artifact=blob(b"2")) == 2
    assert sorted(path.name for path in versions.iterdir()) == [".busy.pending", ".new.pending", "1", "2"]


async def test_gen_5_a_cancelled_save_is_whole_or_absent(tmp_path: Path) -> None:
    service = FileArtifactService(tmp_path)
    saved = 0
    for turns in range(40):
        task = asyncio.ensure_future(service.save_artifact(**KEY, artifact=blob(b"x" * 200_000)))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        try:
            await task
            saved += 1
        except asyncio.CancelledError:
            pass
        (left,) = [sorted(p.name for p in versions_of(tmp_path).iterdir())] if versions_of(tmp_path).exists() else [[]]
        assert not [name for name in left if name.startswith(".")], "nothing half-way stays, and no thread goes on"
    versions = await service.list_versions(**KEY) if saved else []
    assert len(versions) >= saved
    for version in versions:
        assert await service.load_artifact(**KEY, version=version) == blob(b"x" * 200_000)


async def test_gen_5_a_save_cancelled_before_publishing_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = FileArtifactService(tmp_path)
    loop, reached = asyncio.get_running_loop(), asyncio.Event()
    real = Staging._settle

    def settle(staging: Staging) -> Any:
        loop.call_soon_threadsafe(reached.set)
        staging._abandoned.wait(timeout=30)
        return real(staging)

    monkeypatch.setattr(Staging, "_settle", settle)
    task = asyncio.ensure_future(service.save_artifact(**KEY, artifact=blob(b"1")))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not versions_of(tmp_path).exists()
    with pytest.raises(ArtifactNotFoundError):
        await service.load_artifact(**KEY)


async def test_gen_5_a_cancelled_stream_leaves_nothing(tmp_path: Path) -> None:
    service = FileArtifactService(tmp_path)
    waiting = asyncio.Event()

    async def source() -> AsyncIterator[bytes]:
        yield b"x" * (2 << 20)
        waiting.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(service.save_artifact_stream(**KEY, source=source()))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not versions_of(tmp_path).exists()


async def test_trap_28_numbers_can_be_kept_from_coming_back(tmp_path: Path) -> None:
    keeping = FileArtifactService(tmp_path, reuse_versions=False)
    for expected in (1, 2, 3):
        assert await keeping.save_artifact(**KEY, artifact=blob(b"1")) == expected
    await keeping.delete_artifact(**KEY, version=2)
    await keeping.delete_artifact(**KEY, version=3)
    assert await keeping.save_artifact(**KEY, artifact=blob(b"4")) == 4
    await keeping.delete_artifact(**KEY)
    await keeping.delete_artifact(**KEY)
    with pytest.raises(ArtifactNotFoundError):
        await keeping.load_artifact(**KEY)
    assert await keeping.list_artifacts(app_name="shop", user_id="ann", session_id="s1") == []
    assert await FileArtifactService(tmp_path).save_artifact(**KEY, artifact=blob(b"5")) == 5
    assert await FileArtifactService(tmp_path).list_versions(**KEY) == [5]


async def test_no_empty_folders_are_left_behind(tmp_path: Path) -> None:
    service = FileArtifactService(tmp_path, nested_names=True)
    for name in ("a", "x/y", "user:x/y"):
        await service.save_artifact(**{**KEY, "filename": name}, artifact=blob(b"1"))
        await service.delete_artifact(**{**KEY, "filename": name})
    assert not list(tmp_path.rglob("versions"))
    assert not list(tmp_path.rglob("x"))


async def test_art_16_a_stream_of_a_version_that_is_replaced_tells_so(tmp_path: Path) -> None:
    service = FileArtifactService(tmp_path)
    await service.save_artifact(**KEY, artifact=blob(b"1" * (3 << 20)))
    _, late = await service.open_artifact(**KEY)
    _, early = await service.open_artifact(**KEY)
    async with aclosing(late), aclosing(early):
        first = await anext(early)
        await service.delete_artifact(**KEY, version=1)
        await service.save_artifact(**KEY, artifact=blob(b"2"))
        if sys.platform != "win32":
            assert first + b"".join([piece async for piece in early]) == b"1" * (3 << 20), "the one that was opened"
        with pytest.raises(ArtifactNotFoundError):
            await anext(late)


async def test_errors_of_the_disk_are_backend_errors(tmp_path: Path) -> None:
    """GEN-6, GEN-7."""
    (tmp_path / "file").write_text("no folder")
    service = FileArtifactService(tmp_path / "file")
    with pytest.raises(BackendError) as refusal:
        await service.save_artifact(**KEY, artifact=blob(b"1"))
    assert refusal.value.code in ("ENOTDIR", "EEXIST")
    assert str(tmp_path / "file") in str(refusal.value)
    with pytest.raises(ArtifactNotFoundError):
        await service.load_artifact(**KEY)
    with pytest.raises(ValidationError):
        FileArtifactService("")
    with pytest.raises(ValidationError):
        FileArtifactService(tmp_path, first_version=-1)


@pytest.mark.parametrize("reuse", [True, False])
async def test_gen_4_saves_deletions_and_reads_at_once(tmp_path: Path, reuse: bool) -> None:
    """Whatever happens at the same time, a call succeeds or says that the file is absent, and reads are whole."""
    services = [
        FileArtifactService(tmp_path, nested_names=True, reuse_versions=reuse, sync=False),
        FileArtifactService(tmp_path, nested_names=True, reuse_versions=reuse, sync=False),
    ]
    names = ["x", "x/y", "user:x"]
    outcomes: dict[str, int] = {"read": 0, "absent": 0}

    async def worker(number: int) -> None:
        for turn in range(40):
            service = services[(number + turn) % 2]
            name = names[(number + turn) % 3]
            key = {**KEY, "filename": name}
            action = (number * 7 + turn) % 6
            try:
                if action < 2:
                    await service.save_artifact(**key, artifact=blob(name.encode() * 1000))
                elif action == 2:
                    await service.delete_artifact(**key, version=None if turn % 2 else turn % 5 + 1)
                elif action == 3:
                    assert await service.load_artifact(**key) == blob(name.encode() * 1000)
                    outcomes["read"] += 1
                elif action == 4:
                    numbers = await service.list_versions(**key)
                    assert numbers == sorted(set(numbers))
                else:
                    listed = await service.list_artifacts(app_name="shop", user_id="ann", session_id="s1")
                    assert set(listed) <= set(names)
            except ArtifactNotFoundError:
                outcomes["absent"] += 1

    await asyncio.gather(*(worker(number) for number in range(8)))
    assert outcomes["read"] > 5
    left = [path.name for path in tmp_path.rglob(".*") if not path.name.endswith(".used")]
    assert left == [], "nothing half-way stays"
