"""Races, failures and repeats of saves (services GCS-2, GCS-3, GCS-6, CA-18, CA-20)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.gcs.fake import FakeBucket

from hookwork.errors import ArtifactNotFoundError, ArtifactVersionConflictError, BackendError, ValidationError
from hookwork.platform import use_random, use_sleep, use_uuids
from hookwork.records.content import Blob, Part
from hookwork_gcs import GcsArtifactService

KEY: dict[str, Any] = {"app_name": "shop", "user_id": "ann", "session_id": "s1", "filename": "a.bin"}
PREFIX = "shop/ann/s1/a.bin/"


class Anyone:
    """Credentials that are always valid."""

    valid = True
    token = "t-1"


def service_on(fake: FakeBucket, **options: Any) -> GcsArtifactService:
    return GcsArtifactService(fake.name, client=fake.client(), credentials=Anyone(), **options)


def blob(data: bytes, mime_type: str = "image/png", name: str | None = None) -> Part:
    return Part(inline_data=Blob(data=data, mime_type=mime_type, display_name=name))


@pytest.fixture
def fake() -> FakeBucket:
    return FakeBucket()


async def test_gcs_8_the_upload_on_the_wire(fake: FakeBucket) -> None:
    service = service_on(fake)
    with use_uuids(lambda: "11111111-2222"):
        await service.save_artifact(**KEY, artifact=blob(b"\x89PNG", name="Ä"), custom_metadata={"k": "v", "n": 1})
    (upload,) = fake.uploads()
    assert upload.url.path == "/upload/storage/v1/b/bucket/o"
    assert dict(upload.url.params) == {"uploadType": "multipart", "ifGenerationMatch": "0"}
    assert upload.headers["authorization"] == "Bearer t-1"
    assert upload.headers["content-type"] == "multipart/related; boundary=11111111-2222"
    assert upload.headers["content-length"] == str(len(upload.content))
    assert "transfer-encoding" not in upload.headers
    described = json.loads(upload.content.split(b"\r\n\r\n")[1].split(b"\r\n--")[0])
    assert described == {
        "name": f"{PREFIX}1",
        "contentType": "image/png",
        "metadata": {
            "k": "v",
            "n": "1",
            "adkDisplayName": "Ä",
            "hookworkSha256": "0f4636c78f65d3639ece5a064b5ae753e3408614a14fb18ab4d7540d2c248543",  # sha256sum
            "hookworkSaveId": "11111111-2222",
        },
    }
    await service.save_artifact(**{**KEY, "filename": "user:t"}, artifact=Part(text="ü"))
    resource, data = fake.objects["shop/ann/user/user:t/1"]
    assert (resource["contentType"], resource["metadata"]["adkIsText"], data) == ("text/plain", "true", "ü".encode())


async def test_gcs_2_a_lost_race_takes_the_next_number(fake: FakeBucket) -> None:
    rivals = iter((1, 2, 3))

    async def rival() -> None:
        number = next(rivals, None)
        if number is not None:
            fake.put(f"{PREFIX}{number}", b"rival")

    fake.before_insert = rival
    slept: list[float] = []

    async def sleeper(seconds: float) -> None:
        slept.append(seconds)

    with use_sleep(sleeper), use_random(lambda: 0.5):
        assert await service_on(fake).save_artifact(**KEY, artifact=blob(b"ours")) == 4
    assert slept == [0.005, 0.01, 0.02]
    assert [fake.objects[f"{PREFIX}{number}"][1] for number in (1, 2, 3, 4)] == [b"rival"] * 3 + [b"ours"]


async def test_bey_17_who_loses_a_race_to_identical_content_saves_nothing(fake: FakeBucket) -> None:
    service = service_on(fake)

    async def somebody_saves_the_same() -> None:
        fake.before_insert = None
        other = service_on(fake)
        assert await other.save_artifact(**KEY, artifact=blob(b"same")) == 1

    async def at_once(seconds: float) -> None:
        assert seconds <= 1

    fake.before_insert = somebody_saves_the_same
    with use_sleep(at_once):
        assert await service.save_artifact(**KEY, artifact=blob(b"same"), reuse_identical=True) == 1
    assert await service.list_versions(**KEY) == [1]
    await service.save_artifact(**KEY, artifact=blob(b"same"), custom_metadata={"n": 1}, reuse_identical=True)
    assert (
        await service.save_artifact(**KEY, artifact=blob(b"same"), custom_metadata={"n": 1}, reuse_identical=True) == 2
    )


async def test_ca_18_sixteen_attempts_then_a_conflict(fake: FakeBucket) -> None:
    count = 0

    async def rival() -> None:
        nonlocal count
        count += 1
        fake.put(f"{PREFIX}{count}", b"rival")

    fake.before_insert = rival
    slept: list[float] = []

    async def sleeper(seconds: float) -> None:
        slept.append(seconds)

    with use_sleep(sleeper), use_random(lambda: 1.0), pytest.raises(ArtifactVersionConflictError, match="16 times"):
        await service_on(fake).save_artifact(**KEY, artifact=blob(b"ours"))
    assert len(fake.uploads()) == 16
    assert slept == pytest.approx([min(1.0, 0.01 * 2**n) for n in range(15)]), "none after the last"


async def test_ca_18_the_back_off_can_be_cancelled(fake: FakeBucket) -> None:
    waiting = asyncio.Event()

    async def rival() -> None:
        fake.put(f"{PREFIX}1", b"rival")

    async def sleeper(_: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    fake.before_insert = rival
    with use_sleep(sleeper):
        task = asyncio.ensure_future(service_on(fake).save_artifact(**KEY, artifact=blob(b"ours")))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list(fake.objects) == [f"{PREFIX}1"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 429, 500, 503])
async def test_ca_18_other_errors_are_not_tried_again(fake: FakeBucket, status: int) -> None:
    fake.failures = [("UPLOAD", status, False)]
    with pytest.raises(BackendError) as refusal:
        await service_on(fake).save_artifact(**KEY, artifact=blob(b"1"))
    assert (refusal.value.status, refusal.value.code) == (status, "backendError")
    assert refusal.value.retryable == (status in (429, 500, 503))
    assert len(fake.uploads()) == 1
    assert fake.objects == {}


@pytest.mark.parametrize("lost", [httpx.ReadTimeout("slow"), httpx.ReadError("cut"), 503])
async def test_gcs_2_a_lost_answer_is_looked_up_before_it_is_an_error(fake: FakeBucket, lost: Any) -> None:
    fake.failures = [("UPLOAD", lost, True)]
    service = service_on(fake)
    assert await service.save_artifact(**KEY, artifact=blob(b"1")) == 1
    assert await service.list_versions(**KEY) == [1]
    assert len(fake.uploads()) == 1


async def test_gcs_2_a_lost_upload_is_an_error_and_no_version(fake: FakeBucket) -> None:
    fake.failures = [("UPLOAD", httpx.WriteTimeout("slow"), False)]
    service = service_on(fake)
    with pytest.raises(BackendError) as refusal:
        await service.save_artifact(**KEY, artifact=blob(b"1"))
    assert (refusal.value.code, refusal.value.retryable) == ("timeout", True)
    assert isinstance(refusal.value.__cause__, httpx.WriteTimeout)
    assert fake.objects == {}
    fake.failures = [("UPLOAD", httpx.ConnectError("refused"), False)]
    fake.requests.clear()
    with pytest.raises(BackendError) as refusal:
        await service.save_artifact(**KEY, artifact=blob(b"1"))
    assert refusal.value.code == "connection"
    assert [request.method for request in fake.requests] == ["GET", "POST"], "nothing was sent: nothing to look up"


async def test_ca_20_a_repeat_after_a_crash_between_write_and_answer(fake: FakeBucket) -> None:
    service = service_on(fake)
    fake.failures = [("UPLOAD", httpx.ReadError("cut"), True)]
    listings = 0
    real = fake._list

    def fail_second(params: httpx.QueryParams) -> httpx.Response:
        nonlocal listings
        listings += 1
        return httpx.Response(503) if listings == 2 else real(params)

    fake._list = fail_second  # type: ignore[method-assign]
    with pytest.raises(BackendError) as refusal:
        await service.save_artifact(**KEY, artifact=blob(b"1"), save_id="e-1")
    assert refusal.value.code == "connection", "the first failure, not that of the look-up"
    assert await service.save_artifact(**KEY, artifact=blob(b"1"), save_id="e-1") == 1
    for other in (blob(b"2"), blob(b"1", "text/plain"), blob(b"1", name="x"), Part(text="1")):
        with pytest.raises(ArtifactVersionConflictError):
            await service.save_artifact(**KEY, artifact=other, save_id="e-1")
    assert list(fake.objects) == [f"{PREFIX}1"]


async def test_art_16_a_stream_is_sent_again_after_a_lost_race(fake: FakeBucket) -> None:
    rivals = iter((1, 2))

    async def rival() -> None:
        number = next(rivals, None)
        if number is not None:
            fake.put(f"{PREFIX}{number}", b"rival")

    async def source() -> AsyncIterator[bytes]:
        for number in range(3):
            yield bytes([number]) * 700_000

    async def sleeper(_: float) -> None:
        return None

    fake.before_insert = rival
    with use_sleep(sleeper):
        assert await service_on(fake).save_artifact_stream(**KEY, source=source()) == 3
    assert fake.objects[f"{PREFIX}3"][1] == b"".join(bytes([number]) * 700_000 for number in range(3))


async def test_art_16_a_spool_that_cannot_be_written_is_an_error(fake: FakeBucket, tmp_path: Any) -> None:
    async def source() -> AsyncIterator[bytes]:
        yield b"1"

    service = service_on(fake, spool_folder=str(tmp_path / "absent"))
    with pytest.raises(BackendError, match="spool_folder") as refusal:
        await service.save_artifact_stream(**KEY, source=source())
    assert refusal.value.code == "ENOENT"
    assert fake.requests == []


async def test_gcs_3_what_cloud_storage_would_refuse_is_refused_before(fake: FakeBucket) -> None:
    service = service_on(fake)
    with pytest.raises(ValidationError, match="8192"):
        await service.save_artifact(**KEY, artifact=blob(b"1"), custom_metadata={"k": "x" * 8200})
    for wrong in ("image/png\r\nx: y", "bild/ä"):
        with pytest.raises(ValidationError, match="mime_type"):
            await service.save_artifact(**KEY, artifact=blob(b"1", wrong))
    assert fake.objects == {}
    for call in (service.save_artifact, service.load_artifact):
        more = {"artifact": blob(b"1")} if call == service.save_artifact else {"version": 1}
        with pytest.raises(ValidationError, match="1024"):
            await call(**{**KEY, "user_id": "u" * 1100}, **more)


async def test_gcs_6_deleting_all_tries_every_version(fake: FakeBucket) -> None:
    service = service_on(fake)
    for number in range(1, 41):
        fake.put(f"{PREFIX}{number}", b"x")
    fake.failures = [("DELETE", 503, False), ("DELETE", 404, False), ("DELETE", 403, False)]
    with pytest.raises(BackendError) as refusal:
        await service.delete_artifact(**KEY)
    assert refusal.value.status == 503, "the first real one"
    assert len([request for request in fake.requests if request.method == "DELETE"]) == 40
    assert len(fake.objects) == 3
    await service.delete_artifact(**KEY)
    assert fake.objects == {}
    await service.delete_artifact(**KEY, version=1)
    with pytest.raises(ArtifactNotFoundError):
        await service.load_artifact(**KEY)
