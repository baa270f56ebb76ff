"""A bucket in this process that fails on demand (services GCS-9). It answers an httpx client in place of a server.

What only a real server can show is tested on fake-gcs-server; this one is for races and failures at a chosen moment.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email import message_from_bytes
from email.policy import HTTP
from typing import Any
from urllib.parse import unquote

import httpx

Resource = dict[str, Any]


class FakeBucket:
    """Objects by name.

    Attributes:
        page_size: most objects that one page of a listing holds.
        before_insert: awaited when an upload has come in, before it is looked at: the place for a race.
        failures: what is raised (an exception) or answered (a status) in place of the next requests of a method, or
            of "UPLOAD" and "MEDIA"; with ``after`` True the request is carried out first.
        requests: all that came in.
    """

    def __init__(self, name: str = "bucket", page_size: int = 1000) -> None:
        self.name = name
        self.page_size = page_size
        self.objects: dict[str, tuple[Resource, bytes]] = {}
        self.before_insert: Callable[[], Awaitable[None]] | None = None
        self.failures: list[tuple[str, Exception | int, bool]] = []
        self.requests: list[httpx.Request] = []
        self._generation = 1000

    def client(self) -> httpx.AsyncClient:
        """A client whose every request ends here."""
        return httpx.AsyncClient(transport=httpx.MockTransport(self._answer))

    def put(self, name: str, data: bytes, content_type: str = "application/octet-stream", **metadata: str) -> None:
        """An object that somebody else wrote."""
        self._generation += 1
        digest = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
        resource: Resource = {
            "kind": "storage#object",
            "name": name,
            "bucket": self.name,
            "generation": str(self._generation),
            "contentType": content_type,
            "size": str(len(data)),
            "md5Hash": digest,
            "timeCreated": datetime(2026, 1, 1, tzinfo=UTC).isoformat().replace("+00:00", "Z"),
        }
        self.objects[name] = ({**resource, "metadata": metadata} if metadata else resource, data)

    def uploads(self) -> list[httpx.Request]:
        """The uploads among the requests."""
        return [request for request in self.requests if request.url.path.startswith("/upload/")]

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        body = await request.aread()
        kind = self._kind(request)
        index = next((i for i, failure in enumerate(self.failures) if failure[0] in (kind, request.method)), None)
        failure = self.failures.pop(index) if index is not None else None
        if failure is None or failure[2]:
            answer = await self._carry_out(request, kind, body)
        if failure is None:
            return answer
        if isinstance(failure[1], Exception):
            raise failure[1]
        return _error(failure[1], "backendError")

    @staticmethod
    def _kind(request: httpx.Request) -> str:
        if request.method == "POST":
            return "UPLOAD"
        return "MEDIA" if request.url.params.get("alt") == "media" else request.method

    async def _carry_out(self, request: httpx.Request, kind: str, body: bytes) -> httpx.Response:
        match = re.fullmatch(
            rb"(?:/upload)?/storage/v1/b/([^/]+)/o(?:/([^/]+))?", request.url.raw_path.partition(b"?")[0]
        )
        if match is None or unquote(match[1].decode()) != self.name:
            return _error(404, "notFound")
        if kind == "UPLOAD":
            return await self._insert(request, body)
        if match[2] is None:
            return self._list(request.url.params)
        name = unquote(match[2].decode())
        found = self.objects.get(name)
        wanted = request.url.params.get("generation")
        if found is None or wanted not in (None, found[0]["generation"]):
            return _error(404, "notFound")
        if kind == "DELETE":
            del self.objects[name]
            return httpx.Response(204)
        return httpx.Response(200, content=found[1]) if kind == "MEDIA" else httpx.Response(200, json=found[0])

    async def _insert(self, request: httpx.Request, body: bytes) -> httpx.Response:
        if self.before_insert is not None:
            await self.before_insert()
        header = f"content-type: {request.headers['content-type']}\r\n\r\n".encode()
        described, media = (
            part.get_payload(decode=True) for part in message_from_bytes(header + body, policy=HTTP).iter_parts()
        )
        resource = json.loads(described)
        if request.url.params.get("ifGenerationMatch") == "0" and resource["name"] in self.objects:
            return _error(412, "conditionNotMet")
        self.put(resource["name"], media, resource["contentType"], **resource.get("metadata", {}))
        return httpx.Response(200, json=self.objects[resource["name"]][0])

    def _list(self, params: httpx.QueryParams) -> httpx.Response:
        prefix, delimiter = params.get("prefix", ""), params.get("delimiter")
        names = sorted(
            name
            for name in self.objects
            if name.startswith(prefix) and not (delimiter and delimiter in name[len(prefix) :])
        )
        start = int(params.get("pageToken", "0"))
        page = names[start : start + self.page_size]
        answer: dict[str, Any] = {"items": [self.objects[name][0] for name in page]} if page else {}
        if start + self.page_size < len(names):
            answer["nextPageToken"] = str(start + self.page_size)
        return httpx.Response(200, json=answer)


def _error(status: int, reason: str) -> httpx.Response:
    error = {"code": status, "message": f"said {reason}", "errors": [{"reason": reason}]}
    return httpx.Response(status, json={"error": error})
