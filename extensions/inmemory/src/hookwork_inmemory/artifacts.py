"""Artifacts in the process (services §7.1, §7.2). No method awaits anything, so none can be torn (see `sessions`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from hookwork.errors import ArtifactNotFoundError, ArtifactVersionConflictError, BackendError, ValidationError
from hookwork.platform import now
from hookwork.records.content import Blob, Part
from hookwork.records.frozen import FrozenDict, freeze
from hookwork.services import ArtifactService, ArtifactVersion
from hookwork_inmemory.names import USER_PREFIX, check_filename, check_given, check_owner

#: Metadata key of an empty version that stands for "no file" (ART-17).
TOMBSTONE = "hookworkTombstone"
_RESERVED = ("adk", "hookwork")
_NO_TYPE = "application/octet-stream"

#: (app, user, session), or (app, user, None) for ``user:`` files.
_Owner = tuple[str, str, str | None]


class _Version:
    """One stored version."""

    __slots__ = ("info", "part", "save_id", "tombstone")

    def __init__(self, part: Part, info: ArtifactVersion, save_id: str | None, tombstone: bool) -> None:
        self.part = part
        self.info = info
        self.save_id = save_id
        self.tombstone = tombstone


class _File:
    """The versions of one file, by number, ascending; ``next`` is the number that was never used."""

    __slots__ = ("next", "versions")

    def __init__(self, first: int) -> None:
        self.versions: dict[int, _Version] = {}
        self.next = first


class InMemoryArtifactService(ArtifactService):
    """Artifacts that live as long as the process.

    Args:
        first_version: number of a file's first version; with 0, version 0 is a version and not "the latest".
        nested_names: allow ``/`` between the segments of a file name.
        reuse_versions: the number of a deleted newest version is given again (as in every object store); False keeps
            a counter, so that an older ``artifact_delta`` never points at other content.

    Raises:
        ValidationError: an option has no valid value.
    """

    def __init__(self, first_version: int = 1, nested_names: bool = False, reuse_versions: bool = True) -> None:
        if type(first_version) is not int or first_version < 0:
            raise ValidationError(f"first_version must be a whole number from 0, not {first_version!r}")
        self.first_version = first_version
        self.nested_names = nested_names
        self.reuse_versions = reuse_versions
        self._files: dict[_Owner, dict[str, _File]] = {}
        self._closed = False

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        filename: str,
        artifact: Part,
        custom_metadata: Mapping[str, Any] | None = None,
        save_id: str | None = None,
    ) -> int:
        """See `ArtifactService.save_artifact`."""
        self._check_open()
        owner = self._owner(app_name, user_id, session_id, filename, artifact=artifact)
        part, mime_type = _stored_part(artifact)
        metadata, tombstone = _metadata(custom_metadata, part)
        file = self._files.get(owner, {}).get(filename)
        if file is not None and save_id is not None:
            for number, version in file.versions.items():
                if version.save_id == save_id:
                    if version.part != part:
                        raise ArtifactVersionConflictError(
                            f"{filename!r} was saved with other content under save_id {save_id!r}; use a new id"
                        )
                    return number
        if file is None:
            file = self._files.setdefault(owner, {}).setdefault(filename, _File(self.first_version))
        number = next(reversed(file.versions), self.first_version - 1) + 1 if self.reuse_versions else file.next
        info = ArtifactVersion(
            version=number,
            canonical_uri=_uri(owner, filename, number),
            custom_metadata=metadata,
            create_time=now(),
            mime_type=mime_type,
        )
        file.versions[number] = _Version(part, info, save_id, tombstone)
        file.next = max(file.next, number + 1)
        return number

    async def load_artifact(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> Part:
        """See `ArtifactService.load_artifact`."""
        return self._version(app_name, user_id, session_id, filename, version).part

    async def get_artifact_version(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> ArtifactVersion:
        """See `ArtifactService.get_artifact_version`."""
        return self._version(app_name, user_id, session_id, filename, version).info

    async def list_artifacts(self, *, app_name: str, user_id: str, session_id: str) -> list[str]:
        """See `ArtifactService.list_artifacts`."""
        self._check_open()
        check_given(app_name=app_name, user_id=user_id, session_id=session_id)
        check_owner(app_name=app_name, user_id=user_id, session_id=session_id)
        owners: tuple[_Owner, ...] = ((app_name, user_id, session_id), (app_name, user_id, None))
        return sorted(
            name for owner in owners for name, file in self._files.get(owner, {}).items() if _latest(file) is not None
        )

    async def delete_artifact(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> None:
        """See `ArtifactService.delete_artifact`."""
        owner, file = self._file(app_name, user_id, session_id, filename)
        number = self._number(version)
        if file is None:
            return
        if number is None:
            file.versions.clear()
        else:
            file.versions.pop(number, None)
        if not file.versions and self.reuse_versions:
            files = self._files[owner]
            del files[filename]
            if not files:
                del self._files[owner]

    async def list_versions(self, *, app_name: str, user_id: str, session_id: str, filename: str) -> list[int]:
        """See `ArtifactService.list_versions`."""
        _, file = self._file(app_name, user_id, session_id, filename)
        numbers = [number for number, version in file.versions.items() if not version.tombstone] if file else []
        if not numbers:
            raise _not_found(filename, None)
        return numbers

    async def close(self) -> None:
        """Forget everything; later calls raise."""
        self._closed = True
        self._files.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise BackendError("the in-memory artifact service is closed; make a new one", code="closed")

    def _owner(self, app_name: str, user_id: str, session_id: str, filename: str, **more: Any) -> _Owner:
        """The checked scope of a file. ``more`` holds values that must be given but are no text."""
        given: dict[str, Any] = {
            "app_name": app_name,
            "user_id": user_id,
            "session_id": session_id,
            "filename": filename,
        }
        check_given(**given, **{name: value if value is None else "given" for name, value in more.items()})
        check_owner(app_name=app_name, user_id=user_id, session_id=session_id)
        check_filename(filename, nested=self.nested_names)
        return app_name, user_id, None if filename.startswith(USER_PREFIX) else session_id

    def _file(self, app_name: str, user_id: str, session_id: str, filename: str) -> tuple[_Owner, _File | None]:
        self._check_open()
        owner = self._owner(app_name, user_id, session_id, filename)
        return owner, self._files.get(owner, {}).get(filename)

    def _number(self, version: int | None) -> int | None:
        """The version asked for; None stands for the latest, or for all (ART-5)."""
        if version is None:
            return None
        if type(version) is not int or version < 0:
            raise ValidationError(f"version must be a whole number from 0 or None, not {version!r}", path="version")
        return None if version == 0 and self.first_version > 0 else version

    def _version(self, app_name: str, user_id: str, session_id: str, filename: str, version: int | None) -> _Version:
        _, file = self._file(app_name, user_id, session_id, filename)
        number = self._number(version)
        if file is None:
            raise _not_found(filename, number)
        found = _latest(file) if number is None else file.versions.get(number)
        if found is None or found.tombstone:
            raise _not_found(filename, number)
        return found


def _latest(file: _File) -> _Version | None:
    """The newest version, unless there is none or it is a tombstone."""
    if not file.versions:
        return None
    newest = file.versions[next(reversed(file.versions))]
    return None if newest.tombstone else newest


def _stored_part(artifact: Part) -> tuple[Part, str]:
    """The part as it is kept and its MIME type: text or bytes and nothing else, as on every backend (ART-11)."""
    if not isinstance(artifact, Part):
        raise ValidationError(f"artifact must be a Part, not {type(artifact).__name__}", path="artifact")
    blob = artifact.inline_data
    if blob is not None:
        mime_type = blob.mime_type or _NO_TYPE
        # bytes() copies a bytearray that its owner may go on changing.
        data = blob.data if type(blob.data) is bytes else bytes(blob.data or b"")
        return Part(inline_data=Blob(data=data, mime_type=mime_type, display_name=blob.display_name)), mime_type
    if artifact.text is not None:
        return Part(text=artifact.text), "text/plain"
    raise ValidationError("artifact must have text or inline_data; other kinds of parts are no files", path="artifact")


def _metadata(custom: Mapping[str, Any] | None, part: Part) -> tuple[FrozenDict | None, bool]:
    """The metadata to keep, and whether they make the version a tombstone."""
    if not custom:
        return None, False
    metadata = freeze(custom, (None, "custom_metadata"))
    tombstone = TOMBSTONE in metadata and part.inline_data is not None and not part.inline_data.data
    for key in metadata:
        if key.startswith(_RESERVED) and not (tombstone and key == TOMBSTONE):
            raise ValidationError(
                f"custom_metadata key {key!r} starts with a reserved prefix ({', '.join(_RESERVED)}); rename it",
                path="custom_metadata",
            )
    return metadata, tombstone


def _uri(owner: _Owner, filename: str, version: int) -> str:
    app_name, user_id, session_id = owner
    session = "" if session_id is None else f"sessions/{quote(session_id, safe='')}/"
    name = "/".join(quote(segment, safe="") for segment in filename.split("/"))
    return (
        f"memory://apps/{quote(app_name, safe='')}/users/{quote(user_id, safe='')}/{session}"
        f"artifacts/{name}/versions/{version}"
    )


def _not_found(filename: str, version: int | None) -> ArtifactNotFoundError:
    what = "" if version is None else f", version {version}"
    return ArtifactNotFoundError(f"no artifact {filename!r}{what} here; list_artifacts shows what there is")
