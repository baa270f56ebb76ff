"""Bytes to upload, from memory or from a file, as often as it takes (services ART-16, GCS-2)."""

from __future__ import annotations

import base64
import errno
import hashlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import BinaryIO, TypeVar

from hookwork.errors import BackendError
from hookwork.threads import in_thread

T = TypeVar("T")

#: Bytes sent, read or written at once.
CHUNK = 1 << 20


class Payload(ABC):
    """Bytes of a known size.

    Attributes:
        size: in bytes.
        md5: their MD5 as the JSON API writes it; not for security, but to know a repeated save.
        sha256: their SHA-256 in hexadecimal.
    """

    size: int
    md5: str
    sha256: str

    @abstractmethod
    async def read(self, start: int) -> bytes:
        """Up to `CHUNK` bytes from a place on; none at the end."""


def _text(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


class Bytes(Payload):
    """Bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)
        self.md5 = _text(hashlib.md5(data, usedforsecurity=False).digest())
        self.sha256 = hashlib.sha256(data).hexdigest()

    async def read(self, start: int) -> bytes:
        """See `Payload.read`."""
        return self._data[start : start + CHUNK]


class Spooled(Payload):
    """Bytes in a temporary file. The source can be read only once, and an upload may take several attempts."""

    def __init__(self, file: BinaryIO, size: int, md5: str, sha256: str) -> None:
        self._file = file
        self.size = size
        self.md5 = md5
        self.sha256 = sha256

    async def read(self, start: int) -> bytes:
        """See `Payload.read`."""

        def read() -> bytes:
            self._file.seek(start)
            return self._file.read(CHUNK)

        return await _on_disk(read)


async def _on_disk(work: Callable[[], T]) -> T:
    try:
        return await in_thread(work)
    except OSError as error:
        raise BackendError(
            f"the temporary file of a stream failed: {error.strerror or error}; give the service another spool_folder",
            code=errno.errorcode.get(error.errno or 0, "OSError"),
        ) from error


@asynccontextmanager
async def spooled(source: AsyncIterable[bytes], folder: str | None) -> AsyncIterator[Spooled]:
    """A source, read to its end into a temporary file that is removed afterwards.

    Args:
        folder: where the file is; None: the system's folder for temporary files.
    """
    import tempfile

    made: list[BinaryIO] = []  # a cancelled caller gets no result, yet the file must be closed
    md5, sha256 = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    size, gathered = 0, bytearray()

    def flush() -> None:
        md5.update(gathered)
        sha256.update(gathered)
        made[0].write(gathered)
        gathered.clear()

    try:
        await _on_disk(lambda: made.append(tempfile.TemporaryFile(dir=folder)))  # noqa: SIM115 - closed below
        async for piece in source:
            gathered += piece
            size += len(piece)
            if len(gathered) >= CHUNK:
                await _on_disk(flush)
        await _on_disk(flush)
        yield Spooled(made[0], size, _text(md5.digest()), sha256.hexdigest())
    finally:
        for file in made:
            file.close()
