"""Lines from stdin without blocking the event loop and without a thread that would outlive the command."""

from __future__ import annotations

import asyncio
import os
import sys

_STDIN = 0
_CHUNK = 65536


class Keyboard:
    """Reads lines from a file descriptor. What was typed ahead is kept for the next call."""

    def __init__(self, descriptor: int = _STDIN) -> None:
        self._descriptor = descriptor
        self._pending = b""

    async def line(self) -> str | None:
        """The next line without its end (CR, LF); None at end of input."""
        while b"\n" not in self._pending:
            chunk = await self._chunk()
            if not chunk:
                rest, self._pending = self._pending, b""
                return _text(rest) if rest else None
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        return _text(line)

    async def _chunk(self) -> bytes:
        if sys.platform == "win32":  # its event loop watches no console
            return await asyncio.to_thread(os.read, self._descriptor, _CHUNK)
        loop = asyncio.get_running_loop()
        readable: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not readable.done():
                readable.set_result(None)

        try:
            loop.add_reader(self._descriptor, wake)
        except PermissionError:  # a regular file, which epoll does not watch and which is always readable
            return os.read(self._descriptor, _CHUNK)
        try:
            await readable
        finally:
            loop.remove_reader(self._descriptor)
        return os.read(self._descriptor, _CHUNK)


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").decode("utf-8", errors="replace")
