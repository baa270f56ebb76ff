"""A fake of Vertex AI's session, memory and RAG services, built from the published definitions, as an HTTP server.

Validated by the vendor's own client: test_official_client.py.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import uvicorn
from starlette.types import Receive, Scope, Send
from tests.vertexai.fake_memories import Memories, MemoryStore
from tests.vertexai.fake_rag import Rag
from tests.vertexai.fake_sessions import EngineStore, Sessions
from tests.vertexai.shapes import Refused, shown_time

#: Answers name projects by number; this is the first one's.
NUMBER = 123456789012
_TYPE = "type.googleapis.com/google.cloud.aiplatform.v1beta1."
_ENGINE = r"(?P<engine>(?:projects/[^/]+/locations/[^/]+/)?reasoningEngines/[^/:]+)"
_CORPUS = r"(?P<corpus>projects/[^/]+/locations/[^/]+/ragCorpora/[^/:]+)"


class Request(NamedTuple):
    """What was asked."""

    route: str
    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]


class Fault(NamedTuple):
    """What goes wrong with one request.

    Attributes:
        status: answered in place of the right answer; 0: none.
        carried_out: the request takes effect all the same.
        drop: the connection is closed before the answer is complete.
        text: a body that is sent in place of the answer.
        delay: seconds before anything happens.
        headers: of the answer.
    """

    status: int = 0
    carried_out: bool = False
    drop: bool = False
    text: str | None = None
    delay: float = 0.0
    headers: tuple[tuple[str, str], ...] = ()


class FakeVertex:
    """The state of the services and the switches of a test; `reset` forgets all of it."""

    def __init__(self) -> None:
        self.url = ""
        self.reset()

    def reset(self) -> None:
        self.projects: dict[str, str] = {}
        self.engines: dict[str, EngineStore] = {}
        self.memory_stores: dict[str, MemoryStore] = {}
        self.requests: list[Request] = []
        #: route → what goes wrong with its next requests; ``*`` is every route.
        self.faults: dict[str, deque[Fault]] = defaultdict(deque)
        #: How often a create operation, or one that generates memories, is asked for until it is done.
        self.create_polls = 0
        self.memory_polls = 0
        #: The error that the next operations end with: (code of google.rpc.Code, message).
        self.operation_error: tuple[int, str] | None = None
        self.operations: dict[str, tuple[int, dict[str, Any]]] = {}
        self.sessions = Sessions(self)
        self.memories = Memories(self)
        self.rag = Rag(self)
        self._serial = 7000
        self._clock = 0

    # --- what the services share --------------------------------------------------------------------------------------

    def now(self) -> int:
        """Microseconds; no two are equal."""
        import time

        self._clock = max(time.time_ns() // 1000, self._clock + 1)
        return self._clock

    def next_id(self) -> str:
        """A decimal id."""
        self._serial += 1
        return str(self._serial)

    def operation(self, parent: str, method: str, *, response: Any, kind: str | None, polls: int = 0) -> dict[str, Any]:
        """A new operation; it is done when it was asked for ``polls`` times."""
        now = shown_time(self.now())
        type_name = "type.googleapis.com/google.protobuf.Empty" if kind is None else _TYPE + kind
        done: dict[str, Any] = {
            "name": f"{parent}/{self.next_id()}",
            "metadata": {
                "@type": f"{_TYPE}{method}OperationMetadata",
                "genericMetadata": {"createTime": now, "updateTime": now},
            },
            "done": True,
        }
        if self.operation_error is not None:
            code, message = self.operation_error
            done["error"] = {"code": code, "message": message}
        else:
            done["response"] = {"@type": type_name, **response}
        self.operations[done["name"]] = polls, done
        return self._shown(done["name"])

    def _shown(self, name: str) -> dict[str, Any]:
        polls, done = self.operations[name]
        return done if polls <= 0 else {"name": name, "metadata": done["metadata"]}

    def is_pending(self, parent: str) -> bool:
        """Whether an operation below ``parent`` is not done yet."""
        return any(name.startswith(f"{parent}/") and polls > 0 for name, (polls, _) in self.operations.items())

    def poll(self, name: str) -> dict[str, Any]:
        name = self.numbered(name)
        if name not in self.operations:
            raise Refused(404, "NOT_FOUND", f"The operation {name} does not exist.")
        polls, done = self.operations[name]
        self.operations[name] = polls - 1, done
        return self._shown(name)

    def engine(self, name: str) -> EngineStore:
        """The engine of a name; a name without a project (express mode) stands for one of the key's own project."""
        if not name.startswith("projects/"):
            name = f"projects/express/locations/us-central1/{name}"
        name = self.numbered(name)
        return self.engines.setdefault(name, EngineStore(name))

    def numbered(self, name: str) -> str:
        """A name with the project's number in place of its id."""
        project = name.split("/")[1]
        if project not in self.projects:
            number = str(NUMBER + len(self.projects) // 2)
            self.projects[project] = self.projects[number] = number
        return name.replace(f"projects/{project}/", f"projects/{self.projects[project]}/", 1)

    def memory_store(self, name: str) -> MemoryStore:
        """The memories of an engine."""
        engine = self.engine(name)
        return self.memory_stores.setdefault(engine.name, MemoryStore(engine))

    # --- what tests ask -----------------------------------------------------------------------------------------------

    def fail(self, route: str, *faults: Fault | int) -> None:
        """What goes wrong with the next requests of a route, one after the other; a number is a status."""
        self.faults[route].extend(Fault(fault) if isinstance(fault, int) else fault for fault in faults)

    def sent(self, route: str) -> list[Request]:
        """The requests of a route."""
        return [request for request in self.requests if request.route == route]


def _routes(fake: FakeVertex) -> list[tuple[str, str, str, Callable[..., Any]]]:
    """(name, method, path, what answers it)."""
    sessions, memories, rag = fake.sessions, fake.memories, fake.rag
    one = _ENGINE + r"/sessions/(?P<id>[^/:]+)"
    memory = _ENGINE + r"/memories/(?P<id>[^/:]+)"
    file = _CORPUS + r"/ragFiles/(?P<id>[^/:]+)"

    def of(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda match, query, body: call(fake.engine(match["engine"]), query, body)

    def of_one(call: Callable[..., Any], *, query_too: bool = False, body_too: bool = False) -> Callable[..., Any]:
        def answer(match: re.Match[str], query: dict[str, str], body: Any) -> Any:
            more = [*([query] if query_too else []), *([body] if body_too else [])]
            return call(fake.engine(match["engine"]), match["id"], *more)

        return answer

    def of_memories(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda match, query, body: call(
            fake.memory_store(match["engine"]), match.groupdict().get("id"), query, body
        )

    def of_rag(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda match, query, body: call(match["corpus"], match.groupdict().get("id"), query, body)

    return [
        ("token", "POST", "/token", lambda match, query, body: {"access_token": "fake-token", "expires_in": 3600}),
        ("poll", "GET", r"/v1beta1/(?P<name>.+/operations/[^/:]+)", lambda match, *_: fake.poll(match["name"])),
        ("wait", "POST", r"/v1beta1/(?P<name>.+/operations/[^/:]+):wait", lambda match, *_: fake.poll(match["name"])),
        ("create", "POST", f"/v1beta1/{_ENGINE}/sessions", of(sessions.create)),
        ("list", "GET", f"/v1beta1/{_ENGINE}/sessions", of(lambda engine, query, _: sessions.list(engine, query))),
        ("get", "GET", f"/v1beta1/{one}", of_one(sessions.get)),
        ("update", "PATCH", f"/v1beta1/{one}", of_one(sessions.update, query_too=True, body_too=True)),
        ("delete", "DELETE", f"/v1beta1/{one}", of_one(sessions.delete)),
        ("append", "POST", f"/v1beta1/{one}:appendEvent", of_one(sessions.append, body_too=True)),
        ("events", "GET", f"/v1beta1/{one}/events", of_one(sessions.events, query_too=True)),
        ("memory.create", "POST", f"/v1beta1/{_ENGINE}/memories", of_memories(memories.create)),
        ("memory.list", "GET", f"/v1beta1/{_ENGINE}/memories", of_memories(memories.list)),
        ("memory.get", "GET", f"/v1beta1/{memory}", of_memories(memories.get)),
        ("memory.update", "PATCH", f"/v1beta1/{memory}", of_memories(memories.update)),
        ("memory.delete", "DELETE", f"/v1beta1/{memory}", of_memories(memories.delete)),
        ("memory.generate", "POST", f"/v1beta1/{_ENGINE}/memories:generate", of_memories(memories.generate)),
        ("memory.ingest", "POST", f"/v1beta1/{_ENGINE}/memories:ingestEvents", of_memories(memories.ingest)),
        ("memory.retrieve", "POST", f"/v1beta1/{_ENGINE}/memories:retrieve", of_memories(memories.retrieve)),
        (
            "memory.profiles",
            "POST",
            f"/v1beta1/{_ENGINE}/memories:retrieveProfiles",
            lambda match, query, body: memories.profiles(fake.memory_store(match["engine"]), body),
        ),
        ("rag.upload", "POST", f"/upload/v1beta1/{_CORPUS}/ragFiles:upload", of_rag(rag.upload)),
        ("rag.list", "GET", f"/v1beta1/{_CORPUS}/ragFiles", of_rag(rag.list)),
        ("rag.get", "GET", f"/v1beta1/{file}", of_rag(rag.get)),
        ("rag.delete", "DELETE", f"/v1beta1/{file}", of_rag(rag.delete)),
        (
            "rag.retrieve",
            "POST",
            r"/v1beta1/(?P<corpus>projects/[^/]+/locations/[^/:]+):retrieveContexts",
            of_rag(rag.retrieve),
        ),
    ]


class FakeApp:
    """The ASGI application in front of a fake."""

    def __init__(self, fake: FakeVertex) -> None:
        self.fake = fake

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.requests import Request as HttpRequest

        assert scope["type"] == "http"
        request = HttpRequest(scope, receive)
        raw = await request.body()
        path = request.scope["path"]
        body: Any = raw
        if "multipart" not in request.headers.get("content-type", "") and path != "/token":
            body = json.loads(raw or b"{}")
        query = {key: value for key, value in request.query_params.items() if not key.startswith("$")}
        found = self._find(request.method, path)
        route = found[0] if found else "?"
        asked = Request(route, request.method, path, query, body, dict(request.headers))
        self.fake.requests.append(asked)
        faults = self.fake.faults[route] or self.fake.faults["*"]
        fault = faults.popleft() if faults else Fault()
        if fault.delay:
            await asyncio.sleep(fault.delay)
        status, answer = 404, b"not found"
        if found and ((not fault.status and not fault.drop) or fault.carried_out):
            status, answer = self._answer(found, asked)
        await self._send(send, status, answer, fault)

    def _find(self, method: str, path: str) -> tuple[str, Callable[..., Any], re.Match[str]] | None:
        for name, verb, pattern, call in _routes(self.fake):
            match = re.fullmatch(pattern, path)
            if verb == method and match:
                return name, call, match
        return None

    @staticmethod
    def _answer(found: tuple[str, Callable[..., Any], re.Match[str]], asked: Request) -> tuple[int, bytes]:
        _, call, match = found
        try:
            if asked.route == "rag.upload":
                return 200, json.dumps(call(match, asked.headers, asked.body)).encode()
            return 200, json.dumps(call(match, asked.query, asked.body)).encode()
        except Refused as refused:
            return refused.code, json.dumps(refused.body).encode()

    @staticmethod
    async def _send(send: Send, status: int, answer: bytes, fault: Fault) -> None:
        if fault.status:
            error = {"code": fault.status, "message": f"Fault {fault.status}.", "status": "FAULT"}
            status, answer = fault.status, json.dumps({"error": error}).encode()
        if fault.text is not None:
            status, answer = fault.status or 200, fault.text.encode()
        length = len(answer) + (1 if fault.drop else 0)  # one byte that never comes
        headers = [("content-type", "application/json"), ("content-length", str(length)), *fault.headers]
        encoded = [(name.encode(), value.encode()) for name, value in headers]
        await send({"type": "http.response.start", "status": status, "headers": encoded})
        await send({"type": "http.response.body", "body": answer})


@contextmanager
def running(fake: FakeVertex) -> Iterator[FakeVertex]:
    """Serve a fake on a port of its own while entered; ``fake.url`` says where."""
    config = uvicorn.Config(
        FakeApp(fake), host="127.0.0.1", port=0, log_config=None, lifespan="off", ws="none", http="h11"
    )
    server = uvicorn.Server(config)
    started = threading.Event()
    startup: Callable[..., Awaitable[None]] = server.startup

    async def announced(*arguments: Any, **more: Any) -> None:
        await startup(*arguments, **more)
        started.set()

    server.startup = announced  # type: ignore[method-assign]
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        assert started.wait(30), "the fake does not start"
        host, port = server.servers[0].sockets[0].getsockname()[:2]
        fake.url = f"http://{host}:{port}"
        yield fake
    finally:
        server.should_exit = True
        thread.join(30)
