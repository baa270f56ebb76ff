"""Artifacts in the process (services §7.1, §7.2). No method awaits anything, so none can be torn (see `sessions`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from hookwork.artifact_contents import content_hash, part_bytes, stored_metadata, stored_part
from hookwork.artifact_names import ArtifactKey, check_first_version, check_scope, not_found, wanted_version
from hookwork.artifact_references import Trail, artifact_uri, check_saved_reference
from hookwork.artifact_retention import Retention, prune_after_save
from hookwork.errors import ArtifactVersionConflictError, BackendError
from hookwork.platform import now
from hookwork.records.content import Part
from hookwork.services import ArtifactService, ArtifactVersion

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
        keep_versions: how many of the newest versions of a file stay behind a save; 0: all.
        max_age: seconds after which a save removes the older versions of its file; 0: never.

    Raises:
        ValidationError: an option has no valid value.
    """

    references = True

    def __init__(
        self,
        first_version: int = 1,
        nested_names: bool = False,
        reuse_versions: bool = True,
        keep_versions: int = 0,
        max_age: float = 0,
    ) -> None:
        self.first_version = check_first_version(first_version)
        self.nested_names = nested_names
        self.reuse_versions = reuse_versions
        self.retention = Retention.checked(keep_versions, max_age)
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
        reuse_identical: bool = False,
    ) -> int:
        """See `ArtifactService.save_artifact`."""
        key = self._key(app_name, user_id, session_id, filename, artifact=artifact)
        part, mime_type = stored_part(artifact)
        metadata, tombstone = stored_metadata(
            custom_metadata, empty=part.inline_data is not None and not part_bytes(part)
        )
        uri = check_saved_reference(key, part)
        if uri is not None:
            target = self._followed(Trail(key), uri)
            mime_type = (part.file_data and part.file_data.mime_type) or target.info.mime_type or mime_type
        owner = _owner(key)
        file = self._files.get(owner, {}).get(filename)
        known = _saved_before(file, filename, part, metadata, save_id, reuse_identical) if file is not None else None
        if known is not None:
            return known
        if file is None:
            file = self._files.setdefault(owner, {}).setdefault(filename, _File(self.first_version))
        number = next(reversed(file.versions), self.first_version - 1) + 1 if self.reuse_versions else file.next
        info = ArtifactVersion(
            version=number,
            canonical_uri=_uri(owner, filename, number),
            custom_metadata=metadata,
            create_time=now(),
            mime_type=mime_type,
            sha256=content_hash(part),
            file_uri=part.file_data.file_uri if part.file_data is not None else None,
        )
        file.versions[number] = _Version(part, info, save_id, tombstone)
        file.next = max(file.next, number + 1)
        await prune_after_save(self, key._asdict(), self.retention)
        return number

    async def load_artifact(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> Part:
        """See `ArtifactService.load_artifact`."""
        key = self._key(app_name, user_id, session_id, filename)
        found = self._version(key, version)
        uri = artifact_uri(found.part.file_data)
        return (found if uri is None else self._followed(Trail(key, found.info.version), uri)).part

    async def get_artifact_version(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> ArtifactVersion:
        """See `ArtifactService.get_artifact_version`."""
        return self._version(self._key(app_name, user_id, session_id, filename), version).info

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, session_id: str, filename: str
    ) -> list[ArtifactVersion]:
        """See `ArtifactService.list_artifact_versions`."""
        return [version.info for version in self._shown(self._key(app_name, user_id, session_id, filename))]

    async def list_artifacts(self, *, app_name: str, user_id: str, session_id: str) -> list[str]:
        """See `ArtifactService.list_artifacts`."""
        self._check_open()
        check_scope(app_name=app_name, user_id=user_id, session_id=session_id)
        owners: tuple[_Owner, ...] = ((app_name, user_id, session_id), (app_name, user_id, None))
        return sorted(
            name for owner in owners for name, file in self._files.get(owner, {}).items() if _latest(file) is not None
        )

    async def delete_artifact(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> None:
        """See `ArtifactService.delete_artifact`."""
        owner = _owner(self._key(app_name, user_id, session_id, filename))
        number = wanted_version(version, self.first_version)
        file = self._files.get(owner, {}).get(filename)
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
        return [version.info.version for version in self._shown(self._key(app_name, user_id, session_id, filename))]

    async def delete_user(self, *, app_name: str, user_id: str, session_ids: Iterable[str] = ()) -> int:
        """See `ArtifactService.delete_user`."""
        self._check_open()
        check_scope(app_name=app_name, user_id=user_id, session_id="-")
        owners = [owner for owner in self._files if owner[:2] == (app_name, user_id)]
        return sum(len(self._files.pop(owner)) for owner in owners)

    async def close(self) -> None:
        """Forget everything; later calls raise."""
        self._closed = True
        self._files.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise BackendError("the in-memory artifact service is closed; make a new one", code="closed")

    def _key(self, app_name: str, user_id: str, session_id: str, filename: str, **more: Any) -> ArtifactKey:
        """What names a file, checked. ``more`` holds values that must be given but are no text."""
        self._check_open()
        return ArtifactKey.checked(app_name, user_id, session_id, filename, nested=self.nested_names, **more)

    def _shown(self, key: ArtifactKey) -> list[_Version]:
        """The versions of a file but for tombstones, ascending. Raises ArtifactNotFoundError."""
        file = self._files.get(_owner(key), {}).get(key.filename)
        versions = [version for version in file.versions.values() if not version.tombstone] if file else []
        if not versions:
            raise not_found(key.filename, None)
        return versions

    def _version(self, key: ArtifactKey, version: int | None) -> _Version:
        number = wanted_version(version, self.first_version)
        file = self._files.get(_owner(key), {}).get(key.filename)
        if file is None:
            raise not_found(key.filename, number)
        found = _latest(file) if number is None else file.versions.get(number)
        if found is None or found.tombstone:
            raise not_found(key.filename, number)
        return found

    def _followed(self, trail: Trail, uri: str) -> _Version:
        """What a reference stands for in the end (BEY-7)."""
        while True:
            where, number = trail.step(uri)
            key = self._key(**where)
            file = self._files.get(_owner(key), {}).get(key.filename)
            found = file.versions.get(number) if file is not None else None
            if found is None or found.tombstone:
                raise trail.lost()
            further = artifact_uri(found.part.file_data)
            if further is None:
                return found
            uri = further


def _owner(key: ArtifactKey) -> _Owner:
    return key.app_name, key.user_id, None if key.is_users else key.session_id


def _saved_before(
    file: _File, filename: str, part: Part, metadata: Any, save_id: str | None, reuse_identical: bool
) -> int | None:
    """The version that a save would only repeat: it was made by the same one, or is the latest and identical."""
    if save_id is not None:
        for number, version in file.versions.items():
            if version.save_id == save_id:
                if version.part != part:
                    raise ArtifactVersionConflictError(
                        f"{filename!r} was saved with other content under save_id {save_id!r}; use a new id"
                    )
                return number
    latest = _latest(file) if reuse_identical else None
    if latest is not None and latest.part == part and (latest.info.custom_metadata or None) == (metadata or None):
        return latest.info.version
    return None


def _latest(file: _File) -> _Version | None:
    """The newest version, unless there is none or it is a tombstone."""
    if not file.versions:
        return None
    newest = file.versions[next(reversed(file.versions))]
    return None if newest.tombstone else newest


def _uri(owner: _Owner, filename: str, version: int) -> str:
    app_name, user_id, session_id = owner
    session = "" if session_id is None else f"sessions/{quote(session_id, safe='')}/"
    name = "/".join(quote(segment, safe="") for segment in filename.split("/"))
    return (
        f"memory://apps/{quote(app_name, safe='')}/users/{quote(user_id, safe='')}/{session}"
        f"artifacts/{name}/versions/{version}"
    )
