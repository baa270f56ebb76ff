"""Objects of other kits, strangers' objects, pages, failures while reading (services GCS-1, GCS-4 … GCS-7, CA-18)."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from tests.gcs.fake import FakeBucket
from tests.gcs.test_saving import KEY, PREFIX, Anyone, blob, service_on

from hookwork.errors import ArtifactNotFoundError, BackendError, HookworkError
from hookwork.records.content import FileData, Part
from hookwork.services import ArtifactVersion
from hookwork_gcs import GcsArtifactService

SESSION = {name: value for name, value in KEY.items() if name != "filename"}


@pytest.fixture
def fake() -> FakeBucket:
    return FakeBucket()


async def test_ca_18_objects_of_google_adk(fake: FakeBucket) -> None:
    """GCS-1, GCS-7: text marker, display name, URI, name with a slash, version 0: as google-adk 2.13 writes them."""
    fake.put("shop/ann/s1/t.txt/0", "ü".encode(), "text/plain", adkIsText="true", pages="2")
    fake.put("shop/ann/s1/pic.png/0", b"p", "image/png", adkDisplayName="Bild")
    fake.put("shop/ann/s1/ref/0", b"", "video/mp4", adkFileUri="gs://other/film.mp4", adkFileMimeType="video/mp4")
    fake.put("shop/ann/s1/x/y.txt/0", b"n", "text/plain", adkIsText="true")
    fake.put("shop/ann/user/user:note/0", b"u", "text/plain", adkIsText="true")
    fake.put("shop/ann/s1/old.txt/0", b"go", "text/plain")
    service = service_on(fake, first_version=0)
    assert await service.list_artifacts(**SESSION) == ["old.txt", "pic.png", "ref", "t.txt", "user:note"]
    assert await service.load_artifact(**SESSION, filename="t.txt", version=0) == Part(text="ü")
    assert await service.load_artifact(**SESSION, filename="pic.png") == blob(b"p", name="Bild")
    reference = FileData(file_uri="gs://other/film.mp4", mime_type="video/mp4")
    assert await service.load_artifact(**SESSION, filename="ref") == Part(file_data=reference)
    assert await service.load_artifact(**SESSION, filename="user:note") == Part(text="u")
    assert await service.load_artifact(**SESSION, filename="old.txt") == blob(b"go", "text/plain")
    assert await service.get_artifact_version(**SESSION, filename="t.txt") == ArtifactVersion(
        version=0,
        canonical_uri="gs://bucket/shop/ann/s1/t.txt/0",
        custom_metadata={"pages": "2"},
        create_time=datetime(2026, 1, 1, tzinfo=UTC),
        mime_type="text/plain",
    )
    assert await service.save_artifact(**SESSION, filename="t.txt", artifact=Part(text="next")) == 1
    nested = service_on(fake, first_version=0, nested_names=True)
    assert "x/y.txt" in await nested.list_artifacts(**SESSION)
    assert await nested.load_artifact(**SESSION, filename="x/y.txt") == Part(text="n")
    with pytest.raises(ArtifactNotFoundError):
        await nested.load_artifact(**SESSION, filename="x")


async def test_gcs_4_legacy_text(fake: FakeBucket) -> None:
    fake.put(f"{PREFIX}1", b"old", "text/plain")
    fake.put(f"{PREFIX}2", b"charset", "text/plain; charset=utf-8")
    service = service_on(fake, legacy_text=True)
    assert await service.load_artifact(**KEY, version=1) == Part(text="old")
    assert await service.load_artifact(**KEY, version=2) == blob(b"charset", "text/plain; charset=utf-8")
    assert await service.save_artifact(**KEY, artifact=blob(b"ours", "text/plain")) == 3
    assert await service.load_artifact(**KEY) == blob(b"ours", "text/plain"), "ours are marked and stay bytes"
    fake.put(f"{PREFIX}4", b"\xff", "text/plain", adkIsText="true")
    with pytest.raises(BackendError, match="UTF-8"):
        await service.load_artifact(**KEY)


async def test_gcs_5_strangers_objects_are_ignored(fake: FakeBucket) -> None:
    for name in ("notes", "a.bin/latest", "a.bin/1/thumb", "a.bin/007", "a.bin/١", "a.bin/-1", "1", "", "user:x/1"):
        fake.put(f"shop/ann/s1/{name}", b"stranger")
    fake.put("shop/ann/user/plain/1", b"stranger")
    fake.put("shop/ann/s10/b.bin/1", b"another session")
    service = service_on(fake)
    assert await service.list_artifacts(**SESSION) == []
    with pytest.raises(ArtifactNotFoundError):
        await service.list_versions(**KEY)
    assert await service.save_artifact(**KEY, artifact=blob(b"1")) == 1
    before = len(fake.objects)
    await service.delete_artifact(**KEY)
    assert len(fake.objects) == before - 1


@pytest.mark.parametrize("page_size", [1, 3])
async def test_ca_18_listings_of_many_pages(page_size: int) -> None:
    fake = FakeBucket(page_size=page_size)
    service = service_on(fake)
    for number in range(1, 12):
        fake.put(f"{PREFIX}{number}", b"%d" % number)
        fake.put(f"shop/ann/user/user:{number:02}/1", b"x")
    assert await service.list_versions(**KEY) == list(range(1, 12))
    assert await service.load_artifact(**KEY) == blob(b"11", "application/octet-stream")
    assert await service.list_artifacts(**SESSION) == ["a.bin", *(f"user:{number:02}" for number in range(1, 12))]


async def test_gcs_4_an_object_that_is_replaced_between_attributes_and_media(fake: FakeBucket) -> None:
    service = service_on(fake)
    await service.save_artifact(**KEY, artifact=blob(b"first"))
    info, stream = await service.open_artifact(**KEY)
    assert info.version == 1
    fake.put(f"{PREFIX}1", b"second")
    async with aclosing(stream):
        with pytest.raises(ArtifactNotFoundError):
            await anext(stream)
    fake.failures = [("MEDIA", 404, False)]
    with pytest.raises(ArtifactNotFoundError):
        await service.load_artifact(**KEY)


@pytest.mark.parametrize("failure", [403, 503, httpx.ConnectTimeout("slow"), httpx.ReadError("cut")])
@pytest.mark.parametrize("kind", ["GET", "MEDIA"])
async def test_gen_7_failures_are_never_not_found(fake: FakeBucket, kind: str, failure: Any) -> None:
    service = service_on(fake)
    await service.save_artifact(**KEY, artifact=blob(b"1"))
    fake.failures = [(kind, failure, False)]
    with pytest.raises(BackendError) as refusal:
        await service.load_artifact(**KEY)
    assert refusal.value.retryable == (failure != 403)
    assert refusal.value.status == (failure if isinstance(failure, int) else None)
    fake.failures = [("GET", failure, False)]
    with pytest.raises(BackendError):
        await service.list_artifacts(**SESSION)


async def test_gen_7_a_missing_bucket_is_not_a_missing_file(fake: FakeBucket) -> None:
    service = GcsArtifactService("another", client=fake.client(), credentials=Anyone())
    for call in (service.load_artifact, service.list_versions):
        with pytest.raises(BackendError, match="bucket exists") as refusal:
            await call(**KEY)
        assert refusal.value.status == 404


async def test_a_page_of_a_proxy_is_an_error_with_its_text() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(502, text="<h1>bad gateway</h1>")

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    service = GcsArtifactService("bucket", client=client, credentials=Anyone())
    with pytest.raises(BackendError, match="bad gateway") as refusal:
        await service.load_artifact(**KEY)
    assert (refusal.value.status, refusal.value.code, refusal.value.retryable) == (502, "502", True)
    await service.close()
    assert not client.is_closed, "it was not ours"
    with pytest.raises(HookworkError):
        await service.load_artifact(**KEY)
    await client.aclose()


async def test_gcs_8_names_are_encoded_whole(fake: FakeBucket) -> None:
    service = service_on(fake)
    name = "Bericht März 50%.pdf"
    await service.save_artifact(**SESSION, filename=name, artifact=blob(b"1"))
    assert await service.load_artifact(**SESSION, filename=name) == blob(b"1")
    paths = [request.url.raw_path.partition(b"?")[0] for request in fake.requests if request.method == "GET"]
    wanted = b"/storage/v1/b/bucket/o/shop%2Fann%2Fs1%2FBericht%20M%C3%A4rz%2050%25.pdf%2F1"
    assert paths[-2:] == [wanted, wanted]
    listing = fake.requests[0].url.params
    assert listing["prefix"] == f"shop/ann/s1/{name}/"
    assert listing["fields"].endswith("nextPageToken")
