"""Several processes on one folder, and processes that are killed (services FIL-2, ART-12, CA-22)."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest
from tests.files.worker import KEY, SAME, content

from hookwork_files import FileArtifactService


async def start(root: Path, number: int, name: str) -> Process:
    script = Path(__file__).with_name("worker.py")
    return await asyncio.create_subprocess_exec(sys.executable, str(script), str(root), str(number), name, stdout=PIPE)


async def test_ca_22_four_processes_save_fifty_versions_each(tmp_path: Path) -> None:
    workers = [await start(tmp_path, 50, name) for name in "abcd"]
    service = FileArtifactService(tmp_path)
    saved: dict[int, bytes] = {}
    for name, worker in zip("abcd", workers, strict=True):
        out, _ = await worker.communicate()
        assert worker.returncode == 0
        for index, line in enumerate(out.split()):
            saved[int(line)] = content(name, index)
    assert sorted(saved) == list(range(1, 201))
    assert await service.list_versions(**KEY) == list(range(1, 201))
    for version, data in saved.items():
        found = await service.load_artifact(**KEY, version=version)
        assert found.inline_data is not None
        assert found.inline_data.data == data
    (versions,) = tmp_path.rglob("versions")
    assert not [path for path in versions.iterdir() if path.name.startswith(".")], "nothing is left behind"


async def test_bey_17_four_processes_save_identical_content_once(tmp_path: Path) -> None:
    workers = [await start(tmp_path, 25, SAME) for _ in range(4)]
    said = set()
    for worker in workers:
        out, _ = await worker.communicate()
        assert worker.returncode == 0
        said |= set(out.split())
    assert said == {b"1"}
    assert await FileArtifactService(tmp_path).list_versions(**KEY) == [1]
    (versions,) = tmp_path.rglob("versions")
    assert [path.name for path in versions.iterdir()] == ["1"], "nothing is left behind"


async def test_fil_2_a_reader_beside_writers_never_sees_half_a_version(tmp_path: Path) -> None:
    worker = await start(tmp_path, 60, "w")
    service = FileArtifactService(tmp_path)
    assert worker.stdout is not None
    await worker.stdout.readline()
    seen = set()
    while worker.returncode is None:
        found = await service.load_artifact(**KEY)
        assert found.inline_data is not None
        data = found.inline_data.data or b""
        index = int(data.split()[1])
        assert data == content("w", index)
        seen.add(index)
        if worker.stdout.at_eof():
            await worker.wait()
        else:
            await worker.stdout.readline()
    assert len(seen) > 10


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
async def test_ca_20_what_was_saved_survives_kill_9_and_a_repeat_saves_nothing_twice(tmp_path: Path) -> None:
    service = FileArtifactService(tmp_path)
    before = 0
    for number in range(6):
        name = f"w{number}"
        worker = await start(tmp_path, 0, name)
        assert worker.stdout is not None
        reported = [int(await worker.stdout.readline()) for _ in range(1 + 3 * number)]
        worker.send_signal(signal.SIGKILL)
        reported += [int(line) for line in re.findall(rb"(\d+)\n", await worker.stdout.read())]
        await worker.wait()
        versions = await service.list_versions(**KEY)
        assert versions == list(range(1, len(versions) + 1))
        assert set(reported) <= set(versions)
        assert len(versions) - before <= len(reported) + 1, "at most the save that was cut short is not reported"
        for version in versions[before:]:
            part = await service.load_artifact(**KEY, version=version)
            assert part.inline_data is not None
            assert part.inline_data.data == content(name, version - before - 1)
        last = len(versions) - before - 1
        part = await service.load_artifact(**KEY)
        assert await service.save_artifact(**KEY, artifact=part, save_id=f"{name}-{last}") == versions[-1]
        before = len(versions)
