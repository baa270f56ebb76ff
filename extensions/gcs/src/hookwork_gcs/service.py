"""Artifacts in Google Cloud Storage (services §7.1, §7.3)."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from hookwork.artifact_contents import guessed_type, part_bytes, stored_metadata, stored_part
from hookwork.artifact_names import check_first_version, check_scope, not_found, wanted_version
from hookwork.artifact_retention import Retention, prune_after_save
from hookwork.errors import BackendError, ValidationError
from hookwork.records.content import Part
from hookwork.services import ArtifactService, ArtifactVersion
from hookwork_gcs.bucket import Bucket, ObjectError
from hookwork_gcs.contents import Kind, Stored
from hookwork_gcs.layout import Place, filename_and_version, owner_prefix
from hookwork_gcs.payloads import Bytes, Payload, spooled
from hookwork_gcs.saving import save, versions_of
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
        self._bucket = Bucket(
            bucket,
            endpoint=(emulator or ENDPOINT).rstrip("/"),
            tokens=NoTokens() if emulator else Tokens(credentials),
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
    ) -> int:
        """See `ArtifactService.save_artifact`. Metadata values that are no text are stored as JSON text."""
        place = self._place(app_name, user_id, session_id, filename, artifact=artifact)
        part, mime_type = stored_part(artifact)
        data, blob = part_bytes(part), part.inline_data
        metadata, _ = stored_metadata(custom_metadata, empty=blob is not None and not data)
        kind = Kind(mime_type, is_text=blob is None, display_name=None if blob is None else blob.display_name)
        return await self._save(place, Bytes(data), kind, metadata, save_id)

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
    ) -> int:
        """See `ArtifactService.save_artifact_stream`. The source is kept in a temporary file until it is uploaded."""
        place = self._place(app_name, user_id, session_id, filename, source=source)
        metadata, _ = stored_metadata(custom_metadata)
        kind = Kind(guessed_type(filename, mime_type), display_name=display_name)
        async with spooled(source, self._spool_folder) as payload:
            return await self._save(place, payload, kind, metadata, save_id)

    async def _save(
        self, place: Place, payload: Payload, kind: Kind, metadata: Mapping[str, Any] | None, save_id: str | None
    ) -> int:
        version = await save(
            self._bucket,
            place,
            payload,
            kind,
            first_version=self.first_version,
            custom_metadata=metadata,
            save_id=save_id,
        )
        await prune_after_save(self, place._asdict(), self.retention)
        return version

    async def load_artifact(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> Part:
        """See `ArtifactService.load_artifact`. Objects of google-adk that only name a file give a `file_data` part."""
        place = self._place(app_name, user_id, session_id, filename)
        number, stored = await self._stored(place, version)
        reference = stored.reference()
        if reference is not None:
            return reference
        async with aclosing(self._media(place, number, stored)) as chunks:
            data = b"".join([chunk async for chunk in chunks])
        return stored.part(data, legacy_text=self.legacy_text)

    async def open_artifact(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> tuple[ArtifactVersion, AsyncGenerator[bytes, None]]:
        """See `ArtifactService.open_artifact`."""
        place = self._place(app_name, user_id, session_id, filename)
        number, stored = await self._stored(place, version)
        return stored.info(self.bucket, number), self._media(place, number, stored)

    async def get_artifact_version(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> ArtifactVersion:
        """See `ArtifactService.get_artifact_version`."""
        number, stored = await self._stored(self._place(app_name, user_id, session_id, filename), version)
        return stored.info(self.bucket, number)

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
        try:
            stored = await self._bucket.get(place.object_name(number))
        except ObjectError as error:
            if error.status == 404:
                raise not_found(place.filename, number) from error
            raise
        if stored.is_tombstone:
            raise not_found(place.filename, number)
        return number, stored

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
