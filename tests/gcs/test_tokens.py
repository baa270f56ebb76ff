"""Credentials and emulators (services GCS-8)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from google.auth.exceptions import RefreshError
from tests.gcs.fake import FakeBucket
from tests.gcs.test_saving import KEY, blob

from hookwork.errors import BackendError, ValidationError
from hookwork_gcs import GcsArtifactService
from hookwork_gcs.tokens import Tokens


class Expiring:
    """Credentials that need one refresh."""

    quota_project_id = "billed"

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.valid = False
        self.token = "old"
        self.refreshed = 0

    def refresh(self, request: Any) -> None:
        self.refreshed += 1
        if self.error is not None:
            raise self.error
        self.token, self.valid = "new", True  # in this order: others look meanwhile


async def test_a_token_is_refreshed_once_for_all_who_wait() -> None:
    credentials = Expiring()
    tokens = Tokens(credentials)
    found = await asyncio.gather(*(tokens.headers() for _ in range(5)))
    assert found == [{"authorization": "Bearer new", "x-goog-user-project": "billed"}] * 5
    assert credentials.refreshed == 1


@pytest.mark.parametrize("retryable", [True, False])
async def test_a_refused_refresh_is_a_backend_error(retryable: bool) -> None:
    fake = FakeBucket()
    credentials = Expiring(RefreshError("invalid_grant: secret", retryable=retryable))
    service = GcsArtifactService("bucket", client=fake.client(), credentials=credentials)
    with pytest.raises(BackendError) as refusal:
        await service.save_artifact(**KEY, artifact=blob(b"1"))
    assert (refusal.value.code, refusal.value.retryable) == ("credentials", retryable)
    assert "secret" not in str(refusal.value)
    assert fake.requests == []


async def test_without_credentials_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "absent.json"))
    service = GcsArtifactService("bucket", client=FakeBucket().client())
    with pytest.raises(BackendError, match="GOOGLE_APPLICATION_CREDENTIALS") as refusal:
        await service.load_artifact(**KEY)
    assert refusal.value.code == "credentials"


@pytest.mark.parametrize("host", ["http://127.0.0.1:9", "127.0.0.1:9", "http://127.0.0.1:9/"])
async def test_gcs_8_an_emulator_is_asked_without_credentials(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", host)
    fake = FakeBucket()
    service = GcsArtifactService("bucket", client=fake.client())
    assert await service.save_artifact(**KEY, artifact=blob(b"1")) == 1
    assert {str(request.url.copy_with(query=None, path="/")) for request in fake.requests} == {"http://127.0.0.1:9/"}
    assert not [request for request in fake.requests if "authorization" in request.headers]


async def test_google_is_asked_over_https(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    fake, credentials = FakeBucket(), Expiring()
    service = GcsArtifactService("bucket", client=fake.client(), credentials=credentials)
    assert await service.save_artifact(**KEY, artifact=blob(b"1")) == 1
    assert {request.url.host for request in fake.requests} == {"storage.googleapis.com"}
    assert {request.url.scheme for request in fake.requests} == {"https"}


@pytest.mark.parametrize(
    "options", [{"timeout": 0}, {"timeout": -1.0}, {"timeout": float("nan")}, {"first_version": -1}, {"bucket": "x"}]
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        GcsArtifactService(**{"bucket": "bucket", **options})
