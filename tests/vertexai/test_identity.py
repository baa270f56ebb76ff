"""Who we are to Google (crosscutting AUTH-6, AUTH-9, AUTH-21, AUTH-22; services VTX-1)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from google.auth.exceptions import RefreshError
from tests.vertexai.credentials import key_file
from tests.vertexai.fake import FakeVertex, Fault
from tests.vertexai.steps import KEY, memory_bank, sessions

from hookwork.errors import BackendError
from hookwork_vertexai import VertexAiSessionService
from hookwork_vertexai.identity import GoogleCredentials


class Expiring:
    """Credentials of google-auth that need one refresh."""

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


async def test_auth_6_a_token_is_refreshed_once_for_all_who_wait() -> None:
    credentials = Expiring()
    identity = GoogleCredentials(credentials)
    found = await asyncio.gather(*(identity.headers() for _ in range(5)))
    assert found == [{"authorization": "Bearer new", "x-goog-user-project": "billed"}] * 5
    assert credentials.refreshed == 1


@pytest.mark.parametrize("retryable", [True, False])
async def test_auth_9_a_refused_refresh_is_a_backend_error(fake: FakeVertex, retryable: bool) -> None:
    service = sessions(
        fake, token_source=None, credentials=Expiring(RefreshError("invalid_grant: secret", retryable=retryable))
    )
    with pytest.raises(BackendError) as refused:
        await service.get_session(**KEY)
    assert (refused.value.code, refused.value.retryable) == ("credentials", retryable)
    assert "secret" not in str(refused.value)
    assert fake.requests == []
    await service.close()


async def test_auth_22_application_default_credentials(
    fake: FakeVertex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real google-auth signs for a token, with the scope of VTX-1; the token serves many requests."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key_file(tmp_path, fake)))
    service, memory = sessions(fake, token_source=None), memory_bank(fake, token_source=None)
    await service.create_session(**KEY)
    await service.get_session(**KEY)
    (asked,) = fake.sent("token")
    assertion = parse_qs(asked.body.decode())["assertion"][0]
    claims = httpx.Response(200, content=_decoded(assertion.split(".")[1])).json()
    assert claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
    assert {request.headers["authorization"] for request in fake.requests if request is not asked} == {
        "Bearer fake-token"
    }
    await memory.search_memory(app_name="42", user_id="u1", query="x")
    assert fake.requests[-1].headers["authorization"] == "Bearer fake-token"
    await service.close()
    await memory.close()


async def test_without_credentials_the_error_says_what_to_do(
    fake: FakeVertex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "absent.json"))
    service = sessions(fake, token_source=None)
    for _ in range(2):  # a failure is not kept (AUTH-6)
        with pytest.raises(BackendError, match="GOOGLE_APPLICATION_CREDENTIALS") as refused:
            await service.get_session(**KEY)
        assert refused.value.code == "credentials"
    await service.close()


async def test_vtx_1_a_token_source_is_asked_for_every_request(fake: FakeVertex) -> None:
    tokens = iter(["one", "two", "three", "four"])

    async def later() -> str:
        return next(tokens)

    service = sessions(fake, token_source=later)
    await service.create_session(**KEY)
    assert [request.headers["authorization"] for request in fake.requests] == ["Bearer one", "Bearer two"]
    await service.close()
    for nothing in ("", None, 5):
        service = sessions(fake, token_source=lambda nothing=nothing: nothing)
        with pytest.raises(BackendError, match="token_source"):
            await service.get_session(**KEY)
        await service.close()


async def test_vtx_1_a_client_is_used_and_not_closed(fake: FakeVertex) -> None:
    async with httpx.AsyncClient(headers={"x-team": "blue"}) as client:
        service = VertexAiSessionService("p", "us-central1", base_url=fake.url, token_source=lambda: "t", client=client)
        await service.create_session(**KEY)
        await service.close()
        assert not client.is_closed
    assert {request.headers["x-team"] for request in fake.requests} == {"blue"}


async def test_auth_21_redirects_are_not_followed(fake: FakeVertex) -> None:
    """Even when the caller's client would: the token would go elsewhere."""
    async with httpx.AsyncClient(follow_redirects=True) as client:
        service = sessions(fake, client=client)
        fake.fail("get", Fault(307, headers=(("location", f"{fake.url}/v1beta1/elsewhere"),)))
        with pytest.raises(BackendError) as refused:
            await service.get_session(**KEY, num_recent_events=0)
        assert refused.value.status == 307
        assert [request.route for request in fake.requests] == ["get"]
        await service.close()


def _decoded(part: str) -> bytes:
    import base64

    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
