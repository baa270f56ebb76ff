"""A streamable-HTTP server that can misbehave: refuse, break off, hang, page in circles, list odd schemas."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

VERSION = "2025-06-18"


class Refusal(Exception):
    """Answer with this HTTP status."""

    def __init__(self, status: int) -> None:
        self.status = status


class HangUp(Exception):
    """Close the socket without an answer."""


class Raw(Exception):
    """Answer with this text as the body."""

    def __init__(self, text: str) -> None:
        self.text = text


class RpcError(Exception):
    """Answer with a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        self.error = {"code": code, "message": message}


class Seen:
    """One recorded request."""

    def __init__(self, verb: str, method: str, headers: dict[str, str]) -> None:
        self.verb = verb
        self.method = method
        self.session = headers.get("mcp-session-id", "")
        self.authorization = headers.get("authorization", "")
        self.headers = headers

    def __repr__(self) -> str:
        return f"{self.verb} {self.method} {self.session} {self.authorization}"


class FakeServer:
    """``answers``: JSON-RPC method → a function of the params, or a result; it may raise `Refusal` or `HangUp`."""

    def __init__(self, tools: list[dict[str, Any]] | None = None, **answers: Any) -> None:
        self.seen: list[Seen] = []
        self.live: set[str] = set()
        self.answers: dict[str, Any] = {
            "initialize": self._initialize,
            "tools/list": {
                "tools": tools if tools is not None else [{"name": "echo", "inputSchema": {"type": "object"}}]
            },
            "tools/call": lambda params: {"content": [{"type": "text", "text": json.dumps(params["arguments"])}]},
            "ping": {},
            **{name.replace("_", "/"): answer for name, answer in answers.items()},
        }
        self._count = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.url = ""

    async def __aenter__(self) -> FakeServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/mcp"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.close()
        await self._server.wait_closed()

    def methods(self) -> list[str]:
        """The JSON-RPC methods asked for, in order, discovery and notifications left out."""
        return [s.method for s in self.seen if s.method in self.answers and s.method != "server/discover"]

    def _initialize(self, _: Any) -> dict[str, Any]:
        info = {"name": "fake", "version": "1"}
        return {"protocolVersion": VERSION, "capabilities": {"tools": {}}, "serverInfo": info}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        verb = head[0].split()[0]
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        message = json.loads(body) if body else {}
        self.seen.append(Seen(verb, message.get("method", ""), headers))
        if verb == "DELETE":
            self.live.discard(headers.get("mcp-session-id", ""))
            return await self._write(writer, 200, {})
        if verb == "GET":
            return await self._write(writer, 405, {})
        if "id" not in message:
            return await self._write(writer, 202, None)
        try:
            result = await self._answer(message)
        except Refusal as refusal:
            return await self._write(writer, refusal.status, None)
        except HangUp:
            return False
        except Raw as raw:
            return await self._write_bytes(writer, 200, raw.text.encode())
        except RpcError as refused:
            reply = {"jsonrpc": "2.0", "id": message["id"], "error": refused.error}
            return await self._write(writer, 200, reply)
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        extra = ""
        if message["method"] == "initialize":
            self._count += 1
            self.live.add(f"s{self._count}")
            extra = f"mcp-session-id: s{self._count}\r\n"
        return await self._write(writer, 200, reply, extra)

    async def _answer(self, message: dict[str, Any]) -> Any:
        answer: Any = self.answers.get(message["method"])
        if answer is None:
            raise RpcError(-32601, "Method not found")
        if isinstance(answer, Callable):  # type: ignore[arg-type]
            answer = answer(message.get("params") or {})
        return await answer if asyncio.iscoroutine(answer) else answer

    async def _write(self, writer: asyncio.StreamWriter, status: int, body: Any, extra: str = "") -> bool:
        raw = b"" if body is None else json.dumps(body).encode()
        return await self._write_bytes(writer, status, raw, extra)

    async def _write_bytes(self, writer: asyncio.StreamWriter, status: int, raw: bytes, extra: str = "") -> bool:
        kind = "content-type: application/json\r\n" if raw else ""
        writer.write(f"HTTP/1.1 {status} X\r\n{kind}{extra}content-length: {len(raw)}\r\n\r\n".encode() + raw)
        await writer.drain()
        return True
