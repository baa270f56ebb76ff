"""A version in the making: written aside, then published with one rename (services FIL-2)."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from hookwork.errors import ArtifactVersionConflictError
from hookwork.platform import new_uuid
from hookwork_files.disk import TAKEN, remove_tree, same_bytes, sync_folder, write_file
from hookwork_files.document import METADATA, Document
from hookwork_files.folder import PENDING, ArtifactFolder, Version

#: How often a number is looked for. Each failure means that another save has succeeded, so this is never met in peace.
ATTEMPTS = 1000


class Abandoned(Exception):
    """The save was cancelled before it was published."""


class Staging:
    """One save. ``find`` gives the artifact's folder as it is now, made if need be; it may change until publishing.

    Every method but `abandon` does blocking I/O.
    """

    def __init__(self, find: Callable[[], ArtifactFolder], *, sync: bool) -> None:
        self._find = find
        self._sync = sync
        self._file: BinaryIO | None = None
        self._abandoned = threading.Event()
        self._path: Path | None = None
        self._payload = ""
        self._digest = hashlib.sha256()

    def open(self) -> None:
        """Make the folder and its empty payload; clear what stopped processes left beside it."""
        name = f".{new_uuid()}{PENDING}"
        for attempt in range(ATTEMPTS):
            try:
                folder = self._find()
                self._path = folder.versions / name
                self._path.mkdir()
                self._payload = folder.path.name
                self._file = (self._path / self._payload).open("xb")
            except FileNotFoundError:
                if attempt == ATTEMPTS - 1:
                    raise
                continue  # the artifact's last version was just deleted, and its folder with it
            folder.clear_remains(self._path.stat().st_mtime)
            return

    def write(self, data: bytes) -> None:
        """Append to the payload."""
        if self._file is None:
            raise ValueError("the staging is not open")
        self._file.write(data)
        self._digest.update(data)

    def publish(self, document: Document, first_version: int, *, reuse_identical: bool) -> int:
        """Give the payload the next number; the number, or that of the version that was saved under the same id.

        ``reuse_identical``: or that of the latest version, if it is the same.

        Raises:
            Abandoned: `abandon` was called in time.
            ArtifactVersionConflictError: other content was saved under the id, or the race was lost every time.
        """
        assert self._file is not None  # opened before
        assert self._path is not None
        self._file.flush()
        if self._sync:
            os.fsync(self._file.fileno())
        self._file.close()
        if document.file_uri is None:
            document = document._replace(sha256=self._digest.hexdigest())
        looked_at: set[int] = set()
        for _ in range(ATTEMPTS):
            folder = self._settle()
            numbers = folder.numbers()
            if numbers and self._find().versions != folder.versions:
                continue  # the folder was free when it was chosen, and another name has got it since
            repeated = self._saved_before(folder, document, [n for n in numbers if n not in looked_at])
            if repeated is None and reuse_identical:
                repeated = self._identical(folder, document)
            if repeated is not None:
                self.discard()
                return repeated
            looked_at.update(numbers)
            number = max([*numbers, folder.highest_used(), first_version - 1]) + 1
            if self._rename(folder, number, document):
                return number
        raise ArtifactVersionConflictError(
            f"{document.file_name!r}: other saves were faster {ATTEMPTS} times; save it again"
        )

    def _settle(self) -> ArtifactFolder:
        """The artifact's folder, with the staging in it: a folder that somebody else got first is left."""
        assert self._path is not None
        folder = self._find()
        if folder.versions != self._path.parent:
            left, moved = self._path.parent.parent, folder.versions / self._path.name
            self._path.rename(moved)
            ArtifactFolder(left).remove_if_empty(left.parent)
            self._path = moved
            (moved / self._payload).rename(moved / folder.path.name)
            self._payload = folder.path.name
        return folder

    def _saved_before(self, folder: ArtifactFolder, document: Document, numbers: list[int]) -> int | None:
        """The version with this save's id (ART-15)."""
        if document.save_id is None:
            return None
        for number in numbers:
            version = folder.version(number)
            if version is not None and version.document.save_id == document.save_id:
                if not self._same_content(version, document):
                    raise ArtifactVersionConflictError(
                        f"{document.file_name!r} was saved with other content under save_id {document.save_id!r}; "
                        "use a new id"
                    )
                return number
        return None

    def _identical(self, folder: ArtifactFolder, document: Document) -> int | None:
        """The latest version, if saving would only write it once more (services BEY-17)."""
        latest = next(folder.finished(), None)
        if latest is None or latest.is_tombstone:
            return None
        same = latest.document.same_metadata(document)
        return latest.number if same and self._same_content(latest, document) else None

    def _same_content(self, version: Version, document: Document) -> bool:
        assert self._path is not None
        return version.document.same_kind(document) and same_bytes(version.payload, self._path / self._payload)

    def _rename(self, folder: ArtifactFolder, number: int, document: Document) -> bool:
        """Publish as ``number``; False when it is taken. A rename onto a folder that holds something always fails."""
        assert self._path is not None
        target = folder.versions / str(number)
        uri = (target / self._payload).as_uri()
        write_file(self._path / METADATA, document.encode(number, uri), sync=self._sync)
        if self._sync:
            sync_folder(self._path)
        if self._abandoned.is_set():
            raise Abandoned
        try:
            self._path.rename(target)
        except OSError as error:
            if error.errno in TAKEN or target.exists():
                return False
            raise
        self._path = None
        if self._sync:
            sync_folder(folder.versions)
        return True

    def abandon(self) -> None:
        """Ask a `publish` in another thread not to."""
        self._abandoned.set()

    def discard(self) -> None:
        """Remove what was not published."""
        if self._file is not None:
            self._file.close()
        if self._path is not None:
            remove_tree(self._path)
            folder = self._path.parent.parent
            ArtifactFolder(folder).remove_if_empty(folder.parent)
            self._path = None
