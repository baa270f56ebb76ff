"""google-adk's own service follows our references and we follow its (services BEY-7, GCS-1, GCS-3)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.gcs.fake import FakeBucket
from tests.gcs.servers import make_bucket
from tests.gcs.test_saving import service_on

from hookwork.errors import ArtifactReferenceError
from hookwork.records.content import Blob, FileData, Part
from hookwork_gcs import GcsArtifactService

#: An interpreter that has google-adk 2.13.
PEER = os.environ.get("GOOGLE_ADK_PYTHON", "")
pytestmark = pytest.mark.skipif(not PEER, reason="GOOGLE_ADK_PYTHON names no interpreter with google-adk")

SCRIPT = Path(__file__).with_name("adk_peer.py")
KEY: dict[str, Any] = {"app_name": "shop", "user_id": "ann", "session_id": "s1"}
BASE = "artifact://apps/shop/users/ann"
PICTURE = Part(inline_data=Blob(data=b"\x89PNG", mime_type="image/png"))


@pytest.fixture(scope="module")
def has_storage() -> None:
    """google-adk comes without the client that its service needs."""
    done = subprocess.run([PEER, "-c", "import google.cloud.storage"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("the interpreter with google-adk has no google-cloud-storage")


@pytest.fixture
def adk(has_storage: None, gcs: str) -> Callable[..., str]:
    """Runs the peer; what it printed, or its error."""

    def run(*words: str) -> str:
        done = subprocess.run(
            [PEER, str(SCRIPT), *words],
            env={**os.environ, "STORAGE_EMULATOR_HOST": gcs},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return done.stdout.strip() or done.stderr.strip().splitlines()[-1]

    return run


def refers(uri: str) -> Part:
    return Part(file_data=FileData(file_uri=uri))


async def test_bey_7_google_adk_follows_our_references(adk: Callable[..., str], gcs: str) -> None:
    make_bucket(gcs, "adk-follows")
    service = GcsArtifactService("adk-follows", first_version=0)
    await service.save_artifact(**KEY, filename="pic ä#1.png", artifact=PICTURE)
    await service.save_artifact(**KEY, filename="user:note", artifact=Part(text="ü"))
    uri = f"{BASE}/sessions/s1/artifacts/pic ä#1.png/versions/0"
    await service.save_artifact(**KEY, filename="copy", artifact=refers(uri))
    await service.save_artifact(**KEY, filename="note", artifact=refers(f"{BASE}/artifacts/user:note/versions/0"))
    await service.save_artifact(**KEY, filename="film", artifact=refers("gs://other/film.mp4"))
    assert json.loads(adk("adk-follows", "load", "copy", "0")) == ["bytes", "image/png", "\x89PNG"]
    assert json.loads(adk("adk-follows", "load", "film", "0")) == ["uri", "video/mp4", "gs://other/film.mp4"]
    # Its parser takes `artifacts/user:note` apart as we do; the text comes back as text.
    assert json.loads(adk("adk-follows", "load", "note", "0")) == ["text", None, "ü"]
    await service.close()


async def test_bey_7_we_follow_references_of_google_adk(adk: Callable[..., str], gcs: str) -> None:
    make_bucket(gcs, "we-follow")
    service = GcsArtifactService("we-follow", first_version=0)
    await service.save_artifact(**KEY, filename="n-0", artifact=PICTURE)
    for n in range(1, 7):  # it does not look where a reference leads when it saves one
        uri = f"{BASE}/sessions/s1/artifacts/n-{n - 1}/versions/0"
        assert adk("we-follow", "refer", f"n-{n}", uri) == "0"
    assert await service.load_artifact(**KEY, filename="n-5") == PICTURE
    assert json.loads(adk("we-follow", "load", "n-5", "0")) == ["bytes", "image/png", "\x89PNG"]
    with pytest.raises(ArtifactReferenceError) as refusal:
        await service.load_artifact(**KEY, filename="n-6")
    assert refusal.value.reason == "depth"
    assert "depth" in adk("we-follow", "load", "n-6", "0")
    await service.close()


async def test_bey_7_the_authenticated_url_is_google_adks(adk: Callable[..., str], gcs: str) -> None:
    make_bucket(gcs, "adk-url")
    emulated = GcsArtifactService("adk-url", first_version=0)
    await emulated.save_artifact(**KEY, filename="Bericht März 50%.pdf", artifact=PICTURE)
    await emulated.close()
    fake = FakeBucket("adk-url")
    fake.put("shop/ann/s1/Bericht März 50%.pdf/0", b"1")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("STORAGE_EMULATOR_HOST")
        ours = await service_on(fake, first_version=0).artifact_url(**KEY, filename="Bericht März 50%.pdf", version=0)
    assert ours == adk("adk-url", "url", "Bericht März 50%.pdf", "0")
