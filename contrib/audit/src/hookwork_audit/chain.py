"""The file: JSON Lines, each record sealed with a hash that covers it and the hash of the one before.

``hash`` is the SHA-256, in lower-case hex, of the record without ``hash`` as canonical JSON: keys sorted, no blanks,
ASCII with ``\\u`` escapes. ``prev`` is the hash of the record before, 64 zeros in the first one; ``seq`` counts from 1.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hookwork.errors import ConfigurationError

try:
    import fcntl
except ImportError:  # Windows: one process for each file there
    fcntl = None  # type: ignore[assignment]

#: ``prev`` of the first record.
GENESIS = "0" * 64
#: Bytes read from the end of a file in the search for its last record; doubled until one is found.
_BLOCK = 65536


def canonical(value: Any) -> bytes:
    """The one JSON text of a value that is hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def digest(value: Any) -> str:
    """SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(canonical(value)).hexdigest()


def sealed(record: dict[str, Any], prev: str) -> dict[str, Any]:
    """A record with its ``prev`` and ``hash``."""
    linked = {**record, "prev": prev}
    return {**linked, "hash": digest(linked)}


class AuditFile:
    """Appends sealed records to a file. Threads and, on POSIX systems, processes may share one.

    The file is opened for every record, so it may be moved away at any time: the next record begins a new chain.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        #: (inode, size) after our last record: as long as they are the same, `_last` is the file's last record.
        self._seen: tuple[int, int] | None = None
        self._last = (0, GENESIS)

    def append(self, record: dict[str, Any]) -> None:
        """Seal and write a record; it gets its ``seq`` here.

        Raises:
            OSError: the file cannot be opened or written.
            ConfigurationError: the file holds something else than audit records.
        """
        with self._lock, self._opened() as file:
            torn = self._catch_up(file)
            seq, prev = self._last
            full = sealed({**record, "seq": seq + 1}, prev)
            line = json.dumps(full, ensure_ascii=False, allow_nan=False).encode() + b"\n"
            self._seen = None  # until the write has come to its end
            _write(file, b"\n" + line if torn else line)
            self._last = (seq + 1, full["hash"])
            state = os.fstat(file)
            self._seen = (state.st_ino, state.st_size)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Readable by its owner alone: it holds what users said.
        file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)

    def _catch_up(self, file: int) -> bool:
        """Find the last record if somebody else wrote; True when the file ends in the middle of a line."""
        state = os.fstat(file)
        if (state.st_ino, state.st_size) == self._seen:
            return False
        self._last, torn = _last_record(file, state.st_size, self.path)
        return torn


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _last_record(file: int, size: int, path: Path) -> tuple[tuple[int, str], bool]:
    """((seq, hash) of the last whole record, whether a piece of a line follows it)."""
    if size == 0:
        return (0, GENESIS), False
    length = _BLOCK
    while True:
        start = max(0, size - length)
        os.lseek(file, start, os.SEEK_SET)
        data = b""
        while len(data) < size - start and (piece := os.read(file, size - start - len(data))):
            data += piece
        for line in reversed(data.split(b"\n")[1 if start else 0 :]):
            record = _parsed(line)
            if record is not None and isinstance(record.get("seq"), int) and isinstance(record.get("hash"), str):
                return (record["seq"], record["hash"]), not data.endswith(b"\n")
        if start == 0:
            raise ConfigurationError(f"{path} holds no audit records; name another file, or move this one away")
        length *= 2


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


@dataclass(frozen=True)
class Verdict:
    """What `verify` found.

    ``records``: whole records before the first fault. ``head``: the hash of the last of them. ``line``: number of the
    first broken line, counted from 1, None when none is. ``problem``: what is wrong, empty when nothing is.
    """

    records: int
    head: str
    line: int | None = None
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Nothing is wrong."""
        return not self.problem


def verify(lines: Iterable[bytes], contains: str = "") -> Verdict:
    """Check a chain from its first record on; stops at the first broken line.

    ``contains``: a hash that was noted down elsewhere; that no record has it is a fault too. It is the only way to
    notice that the last records were cut off, or the whole file was made anew.
    """
    seq, head, missing = 0, GENESIS, bool(contains)
    for number, line in enumerate(lines, 1):
        problem = _problem(line, seq + 1, head)
        if problem:
            return Verdict(seq, head, number, problem)
        seq, head = seq + 1, json.loads(line)["hash"]
        missing = missing and head != contains
    problem = f"no record has the hash {contains}: records were cut off, or the file was replaced" if missing else ""
    return Verdict(seq, head, None, problem)


def _problem(line: bytes, seq: int, prev: str) -> str:
    if not line.endswith(b"\n"):
        return "the line has no end: the last write was cut off"
    record = _parsed(line)
    if record is None:
        return "the line is no JSON object"
    found = record.pop("hash", None)
    try:
        expected = digest(record)
    except ValueError:  # NaN and infinities, which no writer of ours makes
        return "the record holds a value that is no JSON"
    if found != expected:
        return "the record was changed: its hash does not fit"
    if record.get("seq") != seq:
        return f"seq is {record.get('seq')!r}, not {seq}: records are missing, repeated or out of order"
    if record.get("prev") != prev:
        return "prev is not the hash of the record before: records were replaced"
    return ""
