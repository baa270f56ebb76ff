"""Artifacts in Google Cloud Storage (services §7.1, §7.3)."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from hookwork.artifact_contents import guessed_type, part_bytes, stored_metadata, stored_part
from hookwork.artifact_names import check_first_version, check_scope, not_found, wanted_version
from hookwork.artifact_references import Trail, artifact_uri, check_saved_reference
from hookwork.artifact_retention import Retention, prune_after_save
from hookwork.errors import ArtifactNotFoundError, BackendError, UnsupportedOperationError, ValidationError
from hookwork.records.content import Part
from hookwork.services import ArtifactService, ArtifactVersion
from hookwork_gcs.bucket import Bucket, ObjectError
from hookwork_gcs.contents import Kind, Stored
from hookwork_gcs.layout import Place, filename_and_version, owner_prefix
from hookwork_gcs.payloads import Bytes, Payload, spooled
from hookwork_gcs.saving import save, versions_of
from hookwork_gcs.signing import authenticated_url, checked_lifetime, signed_url
from hookwork_gcs.together import settle
from hookwork_gcs.tokens import NoTokens, Tokens

if TYPE_CHECKING:
    import httpx

ENDPOINT = "https://storage.googleapis.com"
EMULATOR = "STORAGE_EMULATOR_HOST"
#: Requests of one `delete_artifact` at once (GCS-6).
DELETES = 16

_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")


def check_bucket(name: str) -> str:
    """The name of a bucket as it is. Raises ValidationError unless Cloud Storage takes such names."""
    if not isinstance(name, str) or not _BUCKET.fullmatch(name):
        raise ValidationError(
            f"bucket {name!r} must have 3 to 222 lower-case letters, digits, '-', '_' or '.'", path="bucket"
        )
    return name


class GcsArtifactService(ArtifactService):
    """Artifacts in a bucket, in the layout of ADK-Go and google-adk.

    ``STORAGE_EMULATOR_HOST`` names an emulator to use in place of Google, without credentials.

    Args:
        bucket: its name.
        first_version: number of a file's first version; 0 for buckets that google-adk writes too.
        nested_names: allow ``/`` between the segments of a file name.
        legacy_text: load ``text/plain`` objects without any mark, as older kits left them, as text and not as bytes.
        keep_versions: how many of the newest versions of a file stay behind a save; 0: all.
        max_age: seconds after which a save removes the older versions of its file; 0: never.
        timeout: seconds to wait for an answer, or for the next bytes of one.
        spool_folder: where a stream is kept until it is uploaded; None: the system's folder for temporary files.
        credentials: of google-auth; None: those of the environment.
        client: the connections to use; not closed with the service. None: ones of our own.

    Raises:
        ValidationError: an option has no valid value.
    """

    streaming = True
    references = True

    def __init__(
        self,
        bucket: str,
        *,
        first_version: int = 1,
        nested_names: bool = False,
        legacy_text: bool = False,
        keep_versions: int = 0,
        max_age: float = 0,
        timeout: float = 60.0,
        spool_folder: str | None = None,
        credentials: Any = None,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        if not timeout > 0:
            raise ValidationError(f"timeout must be a positive number of seconds, not {timeout!r}", path="timeout")
        self.bucket = check_bucket(bucket)
        self.first_version = check_first_version(first_version)
        self.nested_names = nested_names
        self.retention = Retention.checked(keep_versions, max_age)
        self.legacy_text = legacy_text
        self._spool_folder = spool_folder
        emulator = os.environ.get(EMULATOR, "")
        if emulator and "://" not in emulator:
            emulator = f"http://{emulator}"
        self._emulated = bool(emulator)
        self._tokens = NoTokens() if emulator else Tokens(credentials)
        self._bucket = Bucket(
            bucket,
            endpoint=(emulator or ENDPOINT).rstrip("/"),
            tokens=self._tokens,
            timeout=timeout,
            client=client,
        )
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
        """See `ArtifactService.save_artifact`. Metadata values that are no text are stored as JSON text."""
        place = self._place(app_name, user_id, session_id, filename, artifact=artifact)
        part, mime_type = stored_part(artifact)
        data, blob, file = part_bytes(part), part.inline_data, part.file_data
        metadata, _ = stored_metadata(custom_metadata, empty=blob is not None and not data)
        named = blob or file
        uri = check_saved_reference(place, part)
        if uri is not None:
            *_, target = await self._followed(Trail(place), uri)
            mime_type = (file and file.mime_type) or target.content_type
        kind = Kind(
            mime_type,
            is_text=named is None,
            display_name=named.display_name if named is not None else None,
            file_uri=file.file_uri if file is not None else None,
        )
        return await self._save(place, Bytes(data), kind, metadata, save_id, reuse_identical)

    async def save_artifact_stream(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        filename: str,
        source: AsyncIterable[bytes],
        mime_type: str | None = None,
        display_name: str | None = None,
        custom_metadata: Mapping[str, Any] | None = None,
        save_id: str | None = None,
        reuse_identical: bool = False,
    ) -> int:
        """See `ArtifactService.save_artifact_stream`. The source is kept in a temporary file until it is uploaded."""
        place = self._place(app_name, user_id, session_id, filename, source=source)
        metadata, _ = stored_metadata(custom_metadata)
        kind = Kind(guessed_type(filename, mime_type), display_name=display_name)
        async with spooled(source, self._spool_folder) as payload:
            return await self._save(place, payload, kind, metadata, save_id, reuse_identical)

    async def _save(
        self,
        place: Place,
        payload: Payload,
        kind: Kind,
        metadata: Mapping[str, Any] | None,
        save_id: str | None,
        reuse_identical: bool,
    ) -> int:
        version = await save(
            self._bucket,
            place,
            payload,
            kind,
            first_version=self.first_version,
            custom_metadata=metadata,
            save_id=save_id,
            reuse_identical=reuse_identical,
        )
        await prune_after_save(self, place._asdict(), self.retention)
        return version

    async def load_artifact(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> Part:
        """See `ArtifactService.load_artifact`."""
        place, number, stored = await self._content(self._place(app_name, user_id, session_id, filename), version)
        file = stored.file()
        if file is not None:
            return Part(file_data=file)
        async with aclosing(self._media(place, number, stored)) as chunks:
            data = b"".join([chunk async for chunk in chunks])
        return stored.part(data, legacy_text=self.legacy_text)

    async def open_artifact(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> tuple[ArtifactVersion, AsyncGenerator[bytes, None]]:
        """See `ArtifactService.open_artifact`."""
        asked = self._place(app_name, user_id, session_id, filename)
        number, stored = await self._stored(asked, version)
        info = stored.info(self.bucket, number)
        place, number, stored = await self._through(asked, number, stored)
        file = stored.file()
        if file is not None:
            raise UnsupportedOperationError(
                f"{filename!r} only names a file elsewhere, {file.file_uri!r}; fetch it there"
            )
        return info, self._media(place, number, stored)

    async def artifact_url(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        filename: str,
        version: int | None = None,
        expires_in: float | None = None,
    ) -> str:
        """See `ArtifactService.artifact_url`. Signed by the key of a service account, or by IAM in its name.

        Raises:
            UnsupportedOperationError: the credentials are no service account's, or there is an emulator: it signs not.
        """
        place, number, stored = await self._content(self._place(app_name, user_id, session_id, filename), version)
        if expires_in is not None:
            expires_in = checked_lifetime(expires_in)
        file = stored.file()
        if file is not None:
            if expires_in is None:
                return file.file_uri or ""
            raise UnsupportedOperationError(
                f"{filename!r} only names a file elsewhere, which cannot be signed for here; leave expires_in out"
            )
        name = place.object_name(number)
        if expires_in is not None:
            return await signed_url(self._tokens, self.bucket, name, expires_in)
        return self._bucket.media_url(name) if self._emulated else authenticated_url(self.bucket, name)

    async def get_artifact_version(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> ArtifactVersion:
        """See `ArtifactService.get_artifact_version`."""
        number, stored = await self._stored(self._place(app_name, user_id, session_id, filename), version)
        return stored.info(self.bucket, number)

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, session_id: str, filename: str
    ) -> list[ArtifactVersion]:
        """See `ArtifactService.list_artifact_versions`. One listing tells it all."""
        versions = await versions_of(self._bucket, self._place(app_name, user_id, session_id, filename))
        found = [stored.info(self.bucket, number) for number, stored in versions.items() if not stored.is_tombstone]
        if not found:
            raise not_found(filename)
        return found

    async def list_artifacts(self, *, app_name: str, user_id: str, session_id: str) -> list[str]:
        """See `ArtifactService.list_artifacts`."""
        self._check_open()
        check_scope(app_name=app_name, user_id=user_id, session_id=session_id)
        owners = (session_id, None)
        prefixes = [owner_prefix(app_name, user_id, owner) for owner in owners]
        found = await settle(
            partial(self._names, prefix, users=owner is None) for prefix, owner in zip(prefixes, owners, strict=True)
        )
        return sorted(set().union(*found))

    async def _names(self, prefix: str, *, users: bool) -> set[str]:
        newest: dict[str, tuple[int, Stored]] = {}
        for stored in await self._bucket.list(prefix, below=True):
            found = filename_and_version(stored.name[len(prefix) :], users=users, nested=self.nested_names)
            if found is not None:
                name, version = found
                if name not in newest or newest[name][0] < version:
                    newest[name] = version, stored
        return {name for name, (_, stored) in newest.items() if not stored.is_tombstone}

    async def list_versions(self, *, app_name: str, user_id: str, session_id: str, filename: str) -> list[int]:
        """See `ArtifactService.list_versions`."""
        versions = await versions_of(self._bucket, self._place(app_name, user_id, session_id, filename))
        numbers = [number for number, stored in versions.items() if not stored.is_tombstone]
        if not numbers:
            raise not_found(filename)
        return numbers

    async def delete_artifact(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> None:
        """See `ArtifactService.delete_artifact`. All versions: every one is tried, then the first error is raised."""
        place = self._place(app_name, user_id, session_id, filename)
        number = wanted_version(version, self.first_version)
        numbers = list(await versions_of(self._bucket, place)) if number is None else [number]
        await settle((partial(self._bucket.delete, place.object_name(taken)) for taken in numbers), at_once=DELETES)

    async def delete_user(self, *, app_name: str, user_id: str, session_ids: Iterable[str] = ()) -> int:
        """See `ArtifactService.delete_user`: every object of the user, whoever wrote it."""
        self._check_open()
        check_scope(app_name=app_name, user_id=user_id, session_id="-")
        found = await self._bucket.list(f"{app_name}/{user_id}/", below=True)
        await settle((partial(self._bucket.delete, stored.name) for stored in found), at_once=DELETES)
        return len({stored.name.rpartition("/")[0] for stored in found})

    async def close(self) -> None:
        """Close the connections; later calls raise. The objects stay."""
        self._closed = True
        await self._bucket.close()

    # --- what the operations share -----------------------------------------------------------------------------------

    async def _stored(self, place: Place, version: int | None) -> tuple[int, Stored]:
        """A version's number and what is known of it. Raises ArtifactNotFoundError."""
        number = wanted_version(version, self.first_version)
        if number is None:
            number = max(await versions_of(self._bucket, place), default=None)
            if number is None:
                raise not_found(place.filename)
        return number, await self._object(place, number)

    async def _object(self, place: Place, number: int) -> Stored:
        """What is known of the version of that number. Raises ArtifactNotFoundError."""
        try:
            stored = await self._bucket.get(place.object_name(number))
        except ObjectError as error:
            if error.status == 404:
                raise not_found(place.filename, number) from error
            raise
        if stored.is_tombstone:
            raise not_found(place.filename, number)
        return stored

    async def _content(self, place: Place, version: int | None) -> tuple[Place, int, Stored]:
        """The version asked for, or the one that it stands for in the end (BEY-7)."""
        return await self._through(place, *await self._stored(place, version))

    async def _through(self, place: Place, number: int, stored: Stored) -> tuple[Place, int, Stored]:
        uri = artifact_uri(stored.file())
        return (place, number, stored) if uri is None else await self._followed(Trail(place, number), uri)

    async def _followed(self, trail: Trail, uri: str) -> tuple[Place, int, Stored]:
        while True:
            where, number = trail.step(uri)
            place = self._place(**where)
            try:
                stored = await self._object(place, number)
            except ArtifactNotFoundError as error:
                raise trail.lost() from error
            further = artifact_uri(stored.file())
            if further is None:
                return place, number, stored
            uri = further

    async def _media(self, place: Place, number: int, stored: Stored) -> AsyncGenerator[bytes, None]:
        self._check_open()
        try:
            async with aclosing(self._bucket.media(stored)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except ObjectError as error:
            if error.status == 404:
                raise not_found(place.filename, number) from error
            raise

    def _check_open(self) -> None:
        if self._closed:
            raise BackendError("the GCS artifact service is closed; make a new one", code="closed")

    def _place(self, app_name: str, user_id: str, session_id: str, filename: str, **contents: Any) -> Place:
        self._check_open()
        return Place.checked(app_name, user_id, session_id, filename, nested=self.nested_names, **contents)
