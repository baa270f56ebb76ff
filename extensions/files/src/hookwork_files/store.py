"""The operations on a folder of artifacts, blocking (services §7.4). `service` runs them in threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO, TypeVar

from hookwork.artifact_contents import TEXT_TYPE
from hookwork.artifact_names import ArtifactKey, not_found
from hookwork.errors import ArtifactNotFoundError, BackendError
from hookwork.records.content import Blob, Part
from hookwork.records.frozen import freeze
from hookwork.services import ArtifactVersion
from hookwork_files.folder import ArtifactFolder, Version
from hookwork_files.staging import Staging
from hookwork_files.tree import Tree

T = TypeVar("T")

#: How often a version is read again that was replaced meanwhile.
_READS = 10


class FileStore:
    """Artifacts below the root of a `Tree`."""

    def __init__(self, tree: Tree, *, first_version: int, reuse_versions: bool, sync: bool) -> None:
        self._tree = tree
        self._first_version = first_version
        self._reuse_versions = reuse_versions
        self._sync = sync

    def staging(self, place: ArtifactKey) -> Staging:
        """A new save; nothing is done yet."""
        return Staging(lambda: self._tree.find_or_make(place), sync=self._sync)

    def load(self, place: ArtifactKey, version: int | None) -> Part:
        """A stored part. Raises ArtifactNotFoundError."""

        def part_of(found: Version) -> Part:
            data = found.payload.read_bytes()
            document = found.document
            if document.mime_type is None:
                return Part(text=data.decode())
            return Part(inline_data=Blob(data=data, mime_type=document.mime_type, display_name=document.display_name))

        try:
            return self._read(place, version, part_of)
        except UnicodeDecodeError as error:
            raise BackendError(
                f"{place.filename!r} is recorded as text but is not UTF-8; give its metadata.json a mimeType",
                code="not_utf8",
            ) from error

    def info(self, place: ArtifactKey, version: int | None) -> ArtifactVersion:
        """What is known of a version. Raises ArtifactNotFoundError."""
        return self._read(place, version, _info)

    def open(self, place: ArtifactKey, version: int | None, expected: ArtifactVersion | None = None) -> BinaryIO:
        """The payload, open for reading; of the version that is ``expected``. Raises ArtifactNotFoundError."""

        def payload(found: Version) -> BinaryIO:
            if expected is not None and _info(found) != expected:
                raise not_found(place.filename, found.number)
            return found.payload.open("rb")

        return self._read(place, version, payload)

    def versions(self, place: ArtifactKey) -> list[int]:
        """The numbers of the versions, ascending. Raises ArtifactNotFoundError."""
        folder = self._tree.find(place)
        numbers = [version.number for version in folder.finished() if not version.is_tombstone] if folder else []
        if not numbers:
            raise not_found(place.filename)
        return numbers[::-1]

    def names(self, app_name: str, user_id: str, session_id: str) -> list[str]:
        """The names of a session's and its user's artifacts, by code point."""
        names = set()
        for owner in (session_id, None):
            for name, folder in self._tree.artifacts(app_name, user_id, owner):
                newest = next(folder.finished(), None)
                if newest is not None and not newest.is_tombstone:
                    names.add(name)
        return sorted(names)

    def delete(self, place: ArtifactKey, version: int | None) -> None:
        """Remove a version, or all; an absent one is no error."""
        folder = self._tree.find(place)
        if folder is None:
            return
        number = self._wanted(folder, version)
        if not self._reuse_versions:
            folder.mark_used(place.filename, sync=self._sync)
        for taken in folder.numbers() if number is None else [number]:
            folder.remove(taken, sync=self._sync)
        folder.remove_if_empty(self._tree.scope_of(place))

    def _wanted(self, folder: ArtifactFolder, version: int | None) -> int | None:
        """The number asked for; 0 stands for the latest unless the file has a version 0 (ART-5, FIL-1)."""
        if version == 0 and self._first_version > 0 and 0 not in folder.numbers():
            return None
        return version

    def _find(self, place: ArtifactKey, version: int | None) -> Version:
        folder = self._tree.find(place)
        if folder is None:
            raise not_found(place.filename, version or None)
        number = self._wanted(folder, version)
        found = next(folder.finished(), None) if number is None else folder.version(number)
        if found is None or found.is_tombstone:
            raise not_found(place.filename, number)
        self._tree.check_inside(found.payload)
        return found

    def _read(self, place: ArtifactKey, version: int | None, take: Callable[[Version], T]) -> T:
        """``take`` of a version, again when the version was removed or replaced meanwhile."""
        for attempt in range(_READS):
            found = self._find(place, version)
            try:
                taken = take(found)
            except ArtifactNotFoundError:
                raise
            except FileNotFoundError:
                if found.is_unchanged() or attempt == _READS - 1:
                    raise
                continue
            if found.is_unchanged():
                return taken
            if hasattr(taken, "close"):
                taken.close()
        raise BackendError(
            f"{place.filename!r} was replaced {_READS} times while it was read; read it again",
            code="replaced",
            retryable=True,
        )


def _info(found: Version) -> ArtifactVersion:
    document = found.document
    custom = document.custom_metadata
    return ArtifactVersion(
        version=found.number,
        # Made anew: the recorded one is stale once the root was moved or mounted elsewhere.
        canonical_uri=found.payload.as_uri(),
        custom_metadata=freeze(custom, (None, "custom_metadata")) if custom else None,
        create_time=document.create_time,
        mime_type=document.mime_type or TEXT_TYPE,
    )
