"""The fake that the races run against answers as a real server does (services GCS-8, GCS-9)."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from tests.gcs.fake import FakeBucket
from tests.gcs.servers import make_bucket

BUCKET = "fake-agrees"
#: What both must say alike. Each server has its own times and generations.
_SAME = ("name", "contentType", "size", "md5Hash", "metadata")


def _upload(name: str, data: str, **metadata: str) -> dict[str, Any]:
    described = json.dumps({"name": name, "contentType": "text/x", "metadata": metadata})
    body = f"--b\r\ncontent-type: application/json\r\n\r\n{described}\r\n--b\r\ncontent-type: text/x\r\n\r\n{data}"
    return {
        "method": "POST",
        "url": f"/upload/storage/v1/b/{BUCKET}/o",
        "params": {"uploadType": "multipart", "ifGenerationMatch": "0"},
        "headers": {"content-type": "multipart/related; boundary=b"},
        "content": f"{body}\r\n--b--",
    }


def _read(method: str, path: str, **params: str) -> dict[str, Any]:
    return {"method": method, "url": f"/storage/v1/b/{BUCKET}/o{path}", "params": params}


_REQUESTS = [
    _read("GET", ""),
    _upload("a/b/1", "one", k="v"),
    _upload("a/b/1", "another"),
    _upload("a/b/2", "two"),
    _upload("a/b/c/1", "deep"),
    _read("GET", "", prefix="a/b/"),
    _read("GET", "/a%2Fb%2F1"),
    _read("GET", "/a%2Fb%2F1", alt="media"),
    _read("GET", "/a%2Fb%2F9"),
    _read("DELETE", "/a%2Fb%2F9"),
    _read("DELETE", "/a%2Fb%2F1"),
    _read("GET", "/a%2Fb%2F1", alt="media"),
]


async def _said(client: httpx.AsyncClient, base: str) -> list[Any]:
    """Status and what matters of each answer."""
    found: list[Any] = []
    for request in _REQUESTS:
        answer = await client.request(**{**request, "url": f"{base}{request['url']}"})
        told: Any = None
        if answer.is_success and request["params"].get("alt") == "media":
            told = answer.content
        elif answer.is_success and answer.content:
            resource = answer.json() or {}
            items = resource.get("items") or [resource]
            told = [{key: item[key] for key in _SAME if item.get(key)} for item in items if item.get("name")] or None
        found.append((answer.status_code, told))
    return found


async def test_gcs_9_the_fake_says_what_the_server_says(gcs: str) -> None:
    make_bucket(gcs, BUCKET)
    async with httpx.AsyncClient() as client:
        real = await _said(client, gcs)
    async with FakeBucket(BUCKET).client() as client:
        faked = await _said(client, "https://storage.googleapis.com")
    for number, request in enumerate(_REQUESTS):
        status, told = real[number]
        if request["method"] == "DELETE" and status == 200:
            real[number] = (204, told)  # which Cloud Storage itself answers (GCS-8)
    assert real == faked
    assert [status for status, _ in faked] == [200, 200, 412, 200, 200, 200, 200, 200, 404, 404, 204, 404]


async def test_gcs_9_pages_races_and_failures_come_when_they_are_asked_for() -> None:
    fake = FakeBucket(BUCKET, page_size=1)
    races: list[int] = []

    async def race() -> None:
        races.append(len(fake.objects))
        fake.put("a/1", b"theirs")

    async with fake.client() as client:
        base = "https://storage.googleapis.com"
        fake.before_insert = race
        lost = await client.request(**{**_upload("a/1", "ours"), "url": f"{base}/upload/storage/v1/b/{BUCKET}/o"})
        assert (lost.status_code, races, fake.objects["a/1"][1]) == (412, [0], b"theirs")
        fake.put("a/2", b"x")
        first = (await client.get(f"{base}/storage/v1/b/{BUCKET}/o", params={"prefix": "a/"})).json()
        assert [item["name"] for item in first["items"]] == ["a/1"]
        token = first["nextPageToken"]
        rest = (await client.get(f"{base}/storage/v1/b/{BUCKET}/o", params={"prefix": "a/", "pageToken": token})).json()
        assert ([item["name"] for item in rest["items"]], "nextPageToken" in rest) == (["a/2"], False)
        fake.failures.append(("GET", 503, False))
        assert (await client.get(f"{base}/storage/v1/b/{BUCKET}/o")).status_code == 503
        fake.failures.append(("GET", httpx.ReadError("lost"), True))
        with pytest.raises(httpx.ReadError):
            await client.get(f"{base}/storage/v1/b/{BUCKET}/o")
        assert (await client.get(f"{base}/storage/v1/b/{BUCKET}/o")).status_code == 200
