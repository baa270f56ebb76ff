"""The operations on a folder of artifacts, blocking (services §7.4). `service` runs them in threads."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from typing import BinaryIO, NamedTuple, TypeVar

from hookwork.artifact_contents import TEXT_TYPE
from hookwork.artifact_names import ArtifactKey, not_found
from hookwork.artifact_references import Trail, artifact_uri
from hookwork.errors import ArtifactNotFoundError, BackendError, UnsupportedOperationError
from hookwork.records.content import Blob, FileData, Part
from hookwork.records.frozen import freeze
from hookwork.services import ArtifactVersion
from hookwork_files.document import Document
from hookwork_files.folder import ArtifactFolder, Version
from hookwork_files.staging import Staging
from hookwork_files.tree import Tree

T = TypeVar("T")

#: What is wanted of a version; the first argument names its file.
Take = Callable[[ArtifactKey, Version], T]

#: How often a version is read again that was replaced meanwhile.
_READS = 10

#: How often an erased user's folder is emptied while somebody still saves into it.
_TRIES = 5


class FileStore:
    """Artifacts below the root of a `Tree`."""

    def __init__(self, tree: Tree, *, nested: bool, first_version: int, reuse_versions: bool, sync: bool) -> None:
        self._tree = tree
        self._nested = nested
        self._first_version = first_version
        self._reuse_versions = reuse_versions
        self._sync = sync

    def staging(self, place: ArtifactKey) -> Staging:
        """A new save; nothing is done yet."""
        return Staging(lambda: self._tree.find_or_make(place), sync=self._sync)

    def identical(self, place: ArtifactKey, document: Document) -> int | None:
        """The latest version, if it has the same record and hash: there is nothing to write then (services BEY-17)."""
        folder = self._tree.find(place)
        latest = next(folder.finished(), None) if folder is not None else None
        if latest is None or latest.is_tombstone or latest.document.sha256 != document.sha256:
            return None
        same = latest.document.same_metadata(document) and latest.document.same_kind(document)
        return latest.number if same else None

    def load(self, place: ArtifactKey, version: int | None) -> Part:
        """A stored part; of a reference, the one it stands for. Raises ArtifactNotFoundError."""
        try:
            return self._through(place, version, lambda _, found: _part(found))
        except UnicodeDecodeError as error:
            raise BackendError(
                f"{place.filename!r} is recorded as text but is not UTF-8; give its metadata.json a mimeType",
                code="not_utf8",
            ) from error

    def info(self, place: ArtifactKey, version: int | None) -> ArtifactVersion:
        """What is known of a version. Raises ArtifactNotFoundError."""
        return self._read(place, version, _info)

    def infos(self, place: ArtifactKey) -> list[ArtifactVersion]:
        """What is known of each version, ascending. Raises ArtifactNotFoundError."""
        folder = self._tree.find(place)
        found = [_info(version) for version in folder.finished() if not version.is_tombstone] if folder else []
        if not found:
            raise not_found(place.filename)
        return found[::-1]

    def source(self, place: ArtifactKey, info: ArtifactVersion) -> Callable[[], BinaryIO]:
        """What opens the payload of a version, or of the one that it stands for.

        Raises:
            ArtifactNotFoundError: it was replaced since, or what it stands for is gone; the same on opening.
            UnsupportedOperationError: it only names a file elsewhere.
        """

        def known(key: ArtifactKey, found: Version) -> tuple[ArtifactKey, ArtifactVersion]:
            if found.document.file_uri is not None:
                raise UnsupportedOperationError(
                    f"{place.filename!r} only names a file elsewhere, {found.document.file_uri!r}; fetch it there"
                )
            return key, _info(found)

        key, expected = self._through(place, info.version, known)
        if key == place and expected != info:
            raise not_found(place.filename, info.version)

        def payload(found: Version) -> BinaryIO:
            if _info(found) != expected:
                raise not_found(key.filename, found.number)
            return found.payload.open("rb")

        return lambda: self._read(key, expected.version, payload, exact=True)

    def url(self, place: ArtifactKey, version: int | None) -> str:
        """The URL of a payload, or of the file elsewhere that a version names. Raises ArtifactNotFoundError."""
        return self._through(place, version, lambda _, found: found.document.file_uri or found.payload.as_uri())

    def target_type(self, place: ArtifactKey, uri: str) -> str:
        """The MIME type of what a reference leads to that is about to be saved. Raises what `Trail` does."""
        return self._beyond(Trail(place), uri, lambda _, found: found.document.mime_type or TEXT_TYPE)

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

    def delete_user(self, app_name: str, user_id: str) -> int:
        """Remove the folder of a user, with those of the sessions; how many artifacts it held."""
        folder = self._tree.scope(app_name, user_id, None).parent
        self._tree.check_inside(folder)
        held = sum(1 for path in folder.rglob("versions") if path.is_dir() and not path.is_symlink())
        for _ in range(_TRIES):  # a save may put a file in while its folder is being emptied
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break
        else:
            shutil.rmtree(folder)
        return held

    def _wanted(self, folder: ArtifactFolder, version: int | None) -> int | None:
        """The number asked for; 0 stands for the latest unless the file has a version 0 (ART-5, FIL-1)."""
        if version == 0 and self._first_version > 0 and 0 not in folder.numbers():
            return None
        return version

    def _find(self, place: ArtifactKey, version: int | None, *, exact: bool) -> Version:
        folder = self._tree.find(place)
        if folder is None:
            raise not_found(place.filename, version or None)
        number = version if exact else self._wanted(folder, version)
        found = next(folder.finished(), None) if number is None else folder.version(number)
        if found is None or found.is_tombstone:
            raise not_found(place.filename, number)
        self._tree.check_inside(found.payload)
        return found

    def _read(self, place: ArtifactKey, version: int | None, take: Callable[[Version], T], *, exact: bool = False) -> T:
        """``take`` of a version, again when the version was removed or replaced meanwhile.

        ``exact``: 0 is the number of a version, whatever numbers the file has.
        """
        for attempt in range(_READS):
            found = self._find(place, version, exact=exact)
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

    def _through(self, place: ArtifactKey, version: int | None, take: Take[T]) -> T:
        """``take`` of a version, or of the one that it stands for in the end (services BEY-7)."""
        taken = self._read(place, version, partial(_reference_or, take, place))
        return self._beyond(Trail(place), taken.uri, take) if isinstance(taken, _Reference) else taken

    def _beyond(self, trail: Trail, uri: str, take: Take[T]) -> T:
        """``take`` of what a reference leads to."""
        while True:
            where, number = trail.step(uri)
            key = ArtifactKey.checked(**where, nested=self._nested)
            try:
                taken = self._read(key, number, partial(_reference_or, take, key), exact=True)
            except ArtifactNotFoundError as error:
                raise trail.lost() from error
            if not isinstance(taken, _Reference):
                return taken
            uri = taken.uri


class _Reference(NamedTuple):
    """A version that stands for another one."""

    uri: str


def _reference_or(take: Take[T], key: ArtifactKey, found: Version) -> T | _Reference:
    uri = artifact_uri(_file_of(found.document))
    return take(key, found) if uri is None else _Reference(uri)


def _file_of(document: Document) -> FileData | None:
    if document.file_uri is None:
        return None
    return FileData(file_uri=document.file_uri, mime_type=document.mime_type, display_name=document.display_name)


def _part(found: Version) -> Part:
    document = found.document
    if document.file_uri is not None:
        return Part(file_data=_file_of(document))
    data = found.payload.read_bytes()
    if document.mime_type is None:
        return Part(text=data.decode())
    return Part(inline_data=Blob(data=data, mime_type=document.mime_type, display_name=document.display_name))


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
        sha256=document.sha256,
        file_uri=document.file_uri,
    )
