"""A TCP proxy that counts round trips: how often the client speaks after the server has answered (spec §4)."""

from __future__ import annotations

import asyncio
from typing import Self


class RoundTrips:
    """Stands between a client and ``host:port`` on a port of its own.

    Attributes:
        port: where clients connect.
        flights: round trips so far, all connections together.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self.port = 0
        self.flights = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in self._writers), return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(*self._target)
        self._writers += [writer, server_writer]
        answered = [True]
        for source, sink, from_client in ((reader, server_writer, True), (server_reader, writer, False)):
            task = asyncio.ensure_future(self._pump(source, sink, answered, from_client))
            self._tasks.add(task)

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, answered: list[bool], from_client: bool
    ) -> None:
        while data := await source.read(1 << 16):
            if from_client and answered[0]:
                self.flights += 1
                answered[0] = False
            elif not from_client:
                answered[0] = True
            sink.write(data)
            await sink.drain()
        sink.close()
