"""URLs for others, and references of other kits (services BEY-7)."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from google.auth.exceptions import TransportError
from tests.gcs.fake import FakeBucket
from tests.gcs.signing import EMAIL, new_key, service_account, signing_service
from tests.gcs.test_official_client import SCRIPT, python  # noqa: F401 - a fixture
from tests.gcs.test_saving import KEY, blob, service_on

from hookwork.errors import (
    ArtifactNotFoundError,
    ArtifactReferenceError,
    BackendError,
    UnsupportedOperationError,
    ValidationError,
)
from hookwork.platform import use_clock
from hookwork.records.content import FileData, Part
from hookwork_gcs import GcsArtifactService

MOMENT = datetime(2019, 2, 1, 9, tzinfo=UTC)
#: The published vector "Simple GET" of Google's client libraries up to the signature, which depends on the key; only
#: the bucket and the object are ours.
VECTOR = (
    "https://storage.googleapis.com/{path}?X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Credential="
    "test-iam-credentials%40dummy-project-id.iam.gserviceaccount.com%2F20190201%2Fauto%2Fstorage%2Fgoog4_request"
    "&X-Goog-Date=20190201T090000Z&X-Goog-Expires=10&X-Goog-SignedHeaders=host&X-Goog-Signature="
)
NAME = {**KEY, "filename": "Bericht März 50%#?&'~.pdf"}
PATH = "bucket/shop/ann/s1/Bericht%20M%C3%A4rz%2050%25%23%3F%26%27~.pdf/1"


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return new_key()


@pytest.fixture(scope="module")
def account(key: rsa.RSAPrivateKey) -> dict[str, str]:
    return service_account(key)


def assert_signed(url: str, path: str, key: rsa.RSAPrivateKey) -> None:
    """The steps of "V4 signing process with Cloud Storage tools", with the public key."""
    expected = VECTOR.format(path=path)
    assert url.startswith(expected)
    query = expected.partition("?")[2].removesuffix("&X-Goog-Signature=")
    request = f"GET\n/{path}\n{query}\nhost:storage.googleapis.com\n\nhost\nUNSIGNED-PAYLOAD"
    digest = hashlib.sha256(request.encode()).hexdigest()
    to_sign = f"GOOG4-RSA-SHA256\n20190201T090000Z\n20190201/auto/storage/goog4_request\n{digest}"
    signature = bytes.fromhex(url.removeprefix(expected))
    key.public_key().verify(signature, to_sign.encode(), padding.PKCS1v15(), hashes.SHA256())


async def test_bey_7_a_url_signed_by_the_key_of_an_account(key: rsa.RSAPrivateKey, account: dict[str, str]) -> None:
    fake = FakeBucket()
    service = signing_service(fake, account)
    await service.save_artifact(**NAME, artifact=blob(b"1"))
    with use_clock(lambda: MOMENT):
        url = await service.artifact_url(**NAME, expires_in=9.5)
    assert_signed(url, PATH, key)
    with pytest.raises(ArtifactNotFoundError):
        await service.artifact_url(**NAME, version=2, expires_in=10)
    for wrong in (0, -1, 604_801, float("nan"), float("inf"), True, "10"):
        with pytest.raises(ValidationError, match="expires_in"):
            await service.artifact_url(**NAME, expires_in=wrong)  # type: ignore[arg-type]
    assert "X-Goog-Expires=604800&" in await service.artifact_url(**NAME, expires_in=604_800)


@pytest.mark.slow
async def test_bey_7_googles_own_client_signs_the_same(
    python: str,  # noqa: F811 - the fixture
    account: dict[str, str],
    tmp_path: Path,
) -> None:
    fake = FakeBucket()
    service = signing_service(fake, account)
    await service.save_artifact(**NAME, artifact=blob(b"1"))
    with use_clock(lambda: MOMENT):
        url = await service.artifact_url(**NAME, expires_in=10)
    (tmp_path / "account.json").write_text(json.dumps(account))
    words = [str(tmp_path / "account.json"), unquote(PATH).partition("/")[2], MOMENT.isoformat(), "10"]
    done = subprocess.run(
        [python, str(SCRIPT), "sign", "bucket", *words], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == url
    assert shutil.which("uv")


class OfMachine:
    """Credentials of a machine of Google's: the account's name comes with the first token, the key stays with IAM."""

    universe_domain = "googleapis.com"
    quota_project_id = None
    service_account_email = "default"
    token = "t-1"

    def __init__(self, scopes: tuple[str, ...] = ()) -> None:
        self.valid = False
        self.scopes = scopes

    def refresh(self, request: Any) -> None:
        self.valid, self.service_account_email = True, EMAIL

    def with_scopes(self, scopes: list[str]) -> OfMachine:
        return OfMachine(tuple(scopes))

    def before_request(self, request: Any, method: str, url: str, headers: dict[str, str]) -> None:
        assert self.scopes == ("https://www.googleapis.com/auth/cloud-platform",)
        headers["authorization"] = f"Bearer {self.token}"


def iam(answer: Callable[[bytes], tuple[int, dict[str, str]]], asked: list[str]) -> type:
    """A transport of google-auth that answers as IAM does."""

    class Answer:
        def __init__(self, status: int, body: dict[str, str]) -> None:
            self.status, self.data = status, json.dumps(body).encode()

    class Request:
        def __call__(self, *, url: str, method: str, body: bytes, headers: dict[str, str]) -> Answer:
            asked.append(f"{method} {url} {headers['authorization']}")
            return Answer(*answer(base64.b64decode(json.loads(body)["payload"])))

    return Request


async def test_bey_7_iam_signs_where_it_alone_has_the_key(
    key: rsa.RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, asked = FakeBucket(), list[str]()

    def sign(payload: bytes) -> tuple[int, dict[str, str]]:
        return 200, {"signedBlob": base64.b64encode(key.sign(payload, padding.PKCS1v15(), hashes.SHA256())).decode()}

    service = GcsArtifactService(fake.name, client=fake.client(), credentials=OfMachine())
    await service.save_artifact(**NAME, artifact=blob(b"1"))
    monkeypatch.setattr("google.auth.transport.requests.Request", iam(sign, asked))
    with use_clock(lambda: MOMENT):
        assert_signed(await service.artifact_url(**NAME, expires_in=10), PATH, key)
    url = f"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/{EMAIL}:signBlob"
    assert asked == [f"POST {url} Bearer t-1"]
    monkeypatch.setattr("google.auth.transport.requests.Request", iam(lambda _: (403, {"error": "t-1"}), asked))
    with pytest.raises(BackendError, match="sign nothing") as refusal:
        await service.artifact_url(**NAME, expires_in=10)
    assert isinstance(refusal.value.__cause__, TransportError)
    assert "t-1" not in str(refusal.value)


async def test_bey_7_who_cannot_sign_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeBucket()
    service = service_on(fake)
    await service.save_artifact(**NAME, artifact=blob(b"1"))
    with pytest.raises(UnsupportedOperationError, match="impersonate"):
        await service.artifact_url(**NAME, expires_in=10)
    assert await service.artifact_url(**NAME) == f"https://storage.cloud.google.com/{PATH}"
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    emulated = GcsArtifactService(fake.name, client=fake.client())
    with pytest.raises(UnsupportedOperationError, match="emulator"):
        await emulated.artifact_url(**NAME, expires_in=10)
    assert (await emulated.artifact_url(**NAME)).startswith("http://127.0.0.1:9/storage/v1/b/bucket/o/shop%2Fann%2F")


async def test_bey_7_references_of_google_adk_are_followed() -> None:
    """As its ``GcsArtifactService`` 2.13 writes them; circles, which only another writer can make, end in an error."""
    fake = FakeBucket()
    base = "artifact://apps/shop/users/ann"
    fake.put("shop/ann/s1/pic ä.png/0", b"p", "image/png", adkDisplayName="Bild")
    fake.put("shop/ann/s1/ref/0", b"", "image/png", adkFileUri=f"{base}/sessions/s1/artifacts/pic ä.png/versions/0")
    for one, other in (("a", "b"), ("b", "a"), ("self", "self")):
        fake.put(f"shop/ann/s1/{one}/0", b"", adkFileUri=f"{base}/sessions/s1/artifacts/{other}/versions/0")
    fake.put("shop/ann/s1/theirs/0", b"", adkFileUri="artifact://apps/shop/users/bob/artifacts/user:x/versions/0")
    fake.put("shop/bob/user/user:x/0", b"secret")
    service = service_on(fake)
    where = {name: value for name, value in KEY.items() if name != "filename"}
    assert await service.load_artifact(**where, filename="ref") == blob(b"p", name="Bild")
    for name in ("a", "b", "self"):
        with pytest.raises(ArtifactReferenceError) as circle:
            await service.load_artifact(**where, filename=name)
        assert circle.value.reason == "cycle"
    for ask in (service.load_artifact, service.open_artifact, service.artifact_url):
        with pytest.raises(ArtifactReferenceError) as scope:
            await ask(**where, filename="theirs")
        assert scope.value.reason == "scope"


async def test_bey_7_what_google_adk_reads_of_a_reference() -> None:
    """The URI and its type stand where its ``GcsArtifactService`` looks for them; the object is empty."""
    fake = FakeBucket()
    service = service_on(fake)
    await service.save_artifact(**KEY, artifact=blob(b"1", "image/jpeg"))
    uri = "artifact://apps/shop/users/ann/sessions/s1/artifacts/a.bin/versions/1"
    await service.save_artifact(**{**KEY, "filename": "ref"}, artifact=Part(file_data=FileData(file_uri=uri)))
    resource, data = fake.objects["shop/ann/s1/ref/1"]
    assert (data, resource["contentType"]) == (b"", "image/jpeg")
    assert resource["metadata"]["adkFileUri"] == uri
    assert resource["metadata"]["adkFileMimeType"] == "image/jpeg"
    assert "hookworkSha256" not in resource["metadata"]
