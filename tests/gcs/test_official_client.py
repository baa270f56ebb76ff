"""Google's own client reads what we write, and we read what it writes (services GCS-1, GCS-3, GCS-8)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.gcs.servers import make_bucket

from hookwork.records.content import Blob, Part
from hookwork_gcs import GcsArtifactService

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("official.py")
PACKAGE = "google-cloud-storage==3.17.0"
UNREACHABLE = re.compile(r"dns error|failed to fetch|error sending request|could not connect|network", re.IGNORECASE)
KEY: dict[str, Any] = {"app_name": "shop", "user_id": "ann", "session_id": "s1"}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with the official client."""
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed")
    folder = tmp_path_factory.mktemp("official") / "venv"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    program = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    done = subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", str(program), PACKAGE],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and UNREACHABLE.search(done.stderr):
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr
    return str(program)


@pytest.fixture
def official(python: str, gcs: str) -> Callable[..., str]:
    """Runs the script with some words; what it printed."""

    def run(*words: str) -> str:
        return subprocess.run(
            [python, str(SCRIPT), *words],
            env={**os.environ, "STORAGE_EMULATOR_HOST": gcs},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout.strip()

    return run


async def test_the_official_client_reads_what_we_write(official: Callable[..., str], gcs: str) -> None:
    """GCS-1: under the object names of ADK-Go and google-adk."""
    make_bucket(gcs, "official-reads")
    service = GcsArtifactService("official-reads", first_version=0)
    picture = Part(inline_data=Blob(data=bytes(range(256)), mime_type="image/png", display_name="Ä"))
    await service.save_artifact(
        **KEY, filename="Bericht März 50%.pdf", artifact=picture, custom_metadata={"Ünï": "ä"}, save_id="e-1"
    )
    await service.save_artifact(**KEY, filename="user:a#b?c.txt", artifact=Part(text="ü"), save_id="e-2")
    await service.close()
    assert json.loads(official("read", "official-reads")) == {
        "shop/ann/s1/Bericht März 50%.pdf/0": [
            "image/png",
            {
                "Ünï": "ä",
                "adkDisplayName": "Ä",
                "hookworkSha256": "40aff2e9d2d8922e47afd4648e6967497158785fbd1da870e7110266bf944880",  # sha256sum
                "hookworkSaveId": "e-1",
            },
            bytes(range(256)).decode("latin-1"),
        ],
        "shop/ann/user/user:a#b?c.txt/0": [
            "text/plain",
            {
                "adkIsText": "true",
                "hookworkSha256": "607474ca475a9724d7360aba71a56d5df77e61350e3f724cfa1f46e857e2d85f",
                "hookworkSaveId": "e-2",
            },
            "ü".encode().decode("latin-1"),
        ],
    }
    assert official("race", "official-reads", "shop/ann/user/user:a#b?c.txt/0") == "precondition failed"


async def test_we_read_what_the_official_client_writes(official: Callable[..., str], gcs: str) -> None:
    make_bucket(gcs, "official-writes")
    official("write", "official-writes")
    service = GcsArtifactService("official-writes", first_version=0)
    assert await service.list_artifacts(**KEY) == ["t.txt", "user:profil bild.png"]
    assert await service.load_artifact(**KEY, filename="t.txt") == Part(text="ü")
    assert (await service.get_artifact_version(**KEY, filename="t.txt")).custom_metadata == {"pages": "2"}
    picture = Part(inline_data=Blob(data=b"\x89PNG", mime_type="image/png", display_name="Bild"))
    assert await service.load_artifact(**KEY, filename="user:profil bild.png") == picture
    assert await service.save_artifact(**KEY, filename="t.txt", artifact=Part(text="next")) == 1
    await service.close()
