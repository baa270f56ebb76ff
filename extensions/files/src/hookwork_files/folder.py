"""The folder of one artifact: ``versions/{number}/`` with a payload and its record each (services FIL-1, FIL-2)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hookwork.artifact_contents import TOMBSTONE
from hookwork.artifact_names import is_version
from hookwork.platform import new_uuid
from hookwork_files.disk import UNNAMEABLE, newest_change, remove_tree, sync_folder, write_file
from hookwork_files.document import Document, read_document

#: Seconds after which what a stopped process left behind is removed.
REMAINS_AGE = 3600.0
PENDING, DELETED, _USED = ".pending", ".deleted", ".used"


#: Device, inode and time of the last new entry: tells a folder from one that was put in its place.
_Mark = tuple[int, int, int]


def _mark(folder: Path) -> _Mark | None:
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


class Version(NamedTuple):
    """A finished version. ``mark`` was taken before anything was read."""

    number: int
    path: Path
    document: Document
    mark: _Mark | None

    @property
    def payload(self) -> Path:
        """The file with its bytes: named like the artifact's folder."""
        return self.path / self.path.parent.parent.name

    @property
    def is_tombstone(self) -> bool:
        """Whether it stands for "no file" (ART-17)."""
        if TOMBSTONE not in (self.document.custom_metadata or {}):
            return False
        try:
            return self.payload.stat().st_size == 0
        except FileNotFoundError:
            return True  # just removed

    def is_unchanged(self) -> bool:
        """Whether what was read belongs together: the version was not removed, nor another one put in its place."""
        return self.mark is not None and self.mark == _mark(self.path)


class ArtifactFolder:
    """One artifact's folder, which may not exist yet. Every method does blocking I/O and raises `OSError`."""

    __slots__ = ("path", "versions")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.versions = path / "versions"

    def numbers(self) -> list[int]:
        """Numbers that are taken, ascending; other kits' unfinished versions too."""
        return sorted(int(name) for name in self._entries() if is_version(name) and str(int(name)) == name)

    def _entries(self) -> list[str]:
        try:
            return os.listdir(self.versions)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            if error.errno in UNNAMEABLE:
                return []  # this file system cannot have a folder of that name
            raise

    def version(self, number: int) -> Version | None:
        """A finished version. A link is none: it may lead anywhere."""
        path = self.versions / str(number)
        mark = _mark(path)
        document = None if path.is_symlink() else read_document(path)
        return None if document is None else Version(number, path, document, mark)

    def finished(self) -> Iterator[Version]:
        """The finished versions, newest first."""
        for number in reversed(self.numbers()):
            version = self.version(number)
            if version is not None:
                yield version

    def owner(self) -> str | None:
        """The recorded name of the artifact in this folder; ``""`` when it has no record, None when nobody is here."""
        for version in self.finished():
            return version.document.file_name
        for name in self._used_names():
            try:
                recorded = json.loads((self.versions / name).read_bytes())
            except FileNotFoundError:
                continue  # a higher mark has just taken its place
            return str(recorded["fileName"])
        return None

    # --- numbers that are not given again (TRAP-28) ------------------------------------------------------------------

    def _used_names(self) -> list[str]:
        return [name for name in self._entries() if name.startswith(".") and name.endswith(_USED)]

    def highest_used(self) -> int:
        """The highest number that was ever marked as used; -1 when none was."""
        numbers = [name[1 : -len(_USED)] for name in self._used_names()]
        return max((int(number) for number in numbers if is_version(number)), default=-1)

    def mark_used(self, filename: str, *, sync: bool) -> None:
        """Note the highest number, so that it is not given again once its version is gone.

        One file a number, never changed: whoever marks at the same time, the highest mark stays.
        """
        highest = max([*self.numbers(), self.highest_used()], default=-1)
        if highest < 0:
            return
        mark = self.versions / f".{highest}{_USED}"
        if not mark.exists():
            staged = self.versions / f".{new_uuid()}{PENDING}"
            write_file(staged, json.dumps({"fileName": filename}).encode(), sync=sync)
            staged.replace(mark)
        for name in self._used_names():
            number = name[1 : -len(_USED)]
            if is_version(number) and int(number) < highest:
                (self.versions / name).unlink(missing_ok=True)

    # --- removing ----------------------------------------------------------------------------------------------------

    def remove(self, number: int, *, sync: bool) -> None:
        """Remove a version in one step; an absent one is no error."""
        away = self.versions / f".{new_uuid()}{DELETED}"
        try:
            (self.versions / str(number)).rename(away)
        except FileNotFoundError:
            return
        if sync:
            sync_folder(self.versions)
        remove_tree(away)

    def remove_if_empty(self, stop: Path) -> None:
        """Remove the folder and those above it, below ``stop``, as far as they are empty."""
        folder = self.versions
        while folder != stop:
            try:
                folder.rmdir()
            except OSError:
                return  # not empty, or being filled by somebody: it stays
            folder = folder.parent

    def clear_remains(self, now: float) -> None:
        """Remove what processes that were stopped left behind more than an hour before ``now``.

        ``now`` is the time of a file just written: the file system's clock may not be ours.
        """
        for name in self._entries():
            if name.startswith(".") and name.endswith((PENDING, DELETED)):
                left = self.versions / name
                is_folder = left.is_dir() and not left.is_symlink()
                try:
                    if now - (newest_change(left) if is_folder else left.lstat().st_mtime) <= REMAINS_AGE:
                        continue
                    if not is_folder:
                        left.unlink()
                        continue
                except FileNotFoundError:
                    continue  # its writer was alive and has published or removed it
                remove_tree(left)
