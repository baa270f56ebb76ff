"""Artifacts in a folder (services §7.1, §7.4)."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from hookwork.artifact_contents import content_hash, guessed_type, part_bytes, stored_metadata, stored_part
from hookwork.artifact_names import ArtifactKey, check_first_version, check_scope, wanted_version
from hookwork.artifact_references import check_saved_reference
from hookwork.artifact_retention import Retention, prune_after_save
from hookwork.errors import BackendError, UnsupportedOperationError, ValidationError
from hookwork.platform import now
from hookwork.records.content import Part
from hookwork.services import ArtifactService, ArtifactVersion
from hookwork.threads import in_thread
from hookwork_files.disk import as_backend_errors
from hookwork_files.document import Document
from hookwork_files.staging import Staging
from hookwork_files.store import FileStore
from hookwork_files.tree import Tree

T = TypeVar("T")

#: Bytes of a stream that are read, or gathered before they are written, at once.
CHUNK = 1 << 20


class FileArtifactService(ArtifactService):
    """Artifacts in a folder that any number of processes share, google-adk's among them.

    Args:
        root: the folder; made at the first save. A relative one is taken from the current working directory, once.
        first_version: number of a file's first version; with 0, version 0 is a version and not "the latest". A file
            that has a version 0 goes on in its own numbering whatever this says.
        nested_names: allow ``/`` between the segments of a file name.
        reuse_versions: the number of a deleted newest version is given again; False keeps a mark, so that an older
            ``artifact_delta`` never points at other content.
        keep_versions: how many of the newest versions of a file stay behind a save; 0: all.
        max_age: seconds after which a save removes the older versions of its file; 0: never.
        sync: wait until saves are on the disk; False is faster, and a loss of power may lose the newest ones.

    Raises:
        ValidationError: an option has no valid value.
    """

    streaming = True
    references = True

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        first_version: int = 1,
        nested_names: bool = False,
        reuse_versions: bool = True,
        keep_versions: int = 0,
        max_age: float = 0,
        sync: bool = True,
    ) -> None:
        if not os.fspath(root):
            raise ValidationError("root must name a folder", path="root")
        self.root = Path(root).expanduser().absolute()
        self.first_version = check_first_version(first_version)
        self.nested_names = nested_names
        self.retention = Retention.checked(keep_versions, max_age)
        self._store = FileStore(
            Tree(self.root, nested=nested_names, sync=sync),
            nested=nested_names,
            first_version=first_version,
            reuse_versions=reuse_versions,
            sync=sync,
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
        """See `ArtifactService.save_artifact`. The disk is full: BackendError with the code ``ENOSPC``."""
        place = self._place(app_name, user_id, session_id, filename, artifact=artifact)
        part, mime_type = stored_part(artifact)
        data = part_bytes(part)
        named = part.inline_data or part.file_data
        document = Document(
            file_name=filename,
            mime_type=None if named is None else mime_type,
            custom_metadata=stored_metadata(custom_metadata, empty=part.inline_data is not None and not data)[0],
            create_time=now(),
            display_name=None if named is None else named.display_name,
            save_id=save_id,
            sha256=content_hash(part),
            file_uri=part.file_data.file_uri if part.file_data is not None else None,
        )
        uri = check_saved_reference(place, part)
        if uri is not None and part.file_data is not None:
            led_to = await self._run(lambda: self._store.target_type(place, uri))
            document = document._replace(mime_type=part.file_data.mime_type or led_to)
        staging = self._store.staging(place)

        def save() -> int:
            known = self._store.identical(place, document) if reuse_identical and save_id is None else None
            if known is not None:
                return known
            try:
                staging.open()
                staging.write(data)
                return staging.publish(document, self.first_version, reuse_identical=reuse_identical)
            finally:
                staging.discard()

        version = await self._run(save, on_cancel=staging.abandon)
        await prune_after_save(self, place._asdict(), self.retention)
        return version

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
        """See `ArtifactService.save_artifact_stream`."""
        place = self._place(app_name, user_id, session_id, filename, source=source)
        document = Document(
            file_name=filename,
            mime_type=guessed_type(filename, mime_type),
            custom_metadata=stored_metadata(custom_metadata)[0],
            create_time=now(),
            display_name=display_name,
            save_id=save_id,
        )
        staging = self._store.staging(place)

        def publish() -> int:
            return staging.publish(document, self.first_version, reuse_identical=reuse_identical)

        try:
            await self._run(staging.open)
            await self._fill(staging, source)
            version = await self._run(publish, on_cancel=staging.abandon)
        finally:
            await in_thread(staging.discard)
        await prune_after_save(self, place._asdict(), self.retention)
        return version

    async def _fill(self, staging: Staging, source: AsyncIterable[bytes]) -> None:
        """Write a source, gathered to chunks: a hop to a thread costs more than writing some bytes."""
        gathered = bytearray()
        async for piece in source:
            gathered += piece
            if len(gathered) >= CHUNK:
                await self._run(lambda data=bytes(gathered): staging.write(data))  # type: ignore[misc]
                gathered.clear()
        if gathered:
            await self._run(lambda: staging.write(bytes(gathered)))

    async def load_artifact(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> Part:
        """See `ArtifactService.load_artifact`."""
        place, number = self._place(app_name, user_id, session_id, filename), self._number(version)
        return await self._run(lambda: self._store.load(place, number))

    async def open_artifact(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> tuple[ArtifactVersion, AsyncGenerator[bytes, None]]:
        """See `ArtifactService.open_artifact`."""
        place, number = self._place(app_name, user_id, session_id, filename), self._number(version)
        info = await self._run(lambda: self._store.info(place, number))
        source = await self._run(lambda: self._store.source(place, info))
        return info, self._stream(source)

    async def _stream(self, source: Callable[[], BinaryIO]) -> AsyncGenerator[bytes, None]:
        opened: list[BinaryIO] = []  # a cancelled caller gets no result, yet the file must be closed
        try:
            await self._run(lambda: opened.append(source()))
            file = opened[0]
            while data := await self._run(lambda: file.read(CHUNK)):
                yield data
        finally:
            for file in opened:
                file.close()

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
        """See `ArtifactService.artifact_url`: a ``file:`` URL, for programs on this machine. It cannot expire."""
        place, number = self._place(app_name, user_id, session_id, filename), self._number(version)
        if expires_in is not None:
            raise UnsupportedOperationError(
                "the URL of a local file cannot expire; leave expires_in out, or keep artifacts in Cloud Storage"
            )
        return await self._run(lambda: self._store.url(place, number))

    async def get_artifact_version(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> ArtifactVersion:
        """See `ArtifactService.get_artifact_version`."""
        place, number = self._place(app_name, user_id, session_id, filename), self._number(version)
        return await self._run(lambda: self._store.info(place, number))

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, session_id: str, filename: str
    ) -> list[ArtifactVersion]:
        """See `ArtifactService.list_artifact_versions`."""
        place = self._place(app_name, user_id, session_id, filename)
        return await self._run(lambda: self._store.infos(place))

    async def list_artifacts(self, *, app_name: str, user_id: str, session_id: str) -> list[str]:
        """See `ArtifactService.list_artifacts`."""
        self._check_open()
        check_scope(app_name=app_name, user_id=user_id, session_id=session_id)
        return await self._run(lambda: self._store.names(app_name, user_id, session_id))

    async def list_versions(self, *, app_name: str, user_id: str, session_id: str, filename: str) -> list[int]:
        """See `ArtifactService.list_versions`."""
        place = self._place(app_name, user_id, session_id, filename)
        return await self._run(lambda: self._store.versions(place))

    async def delete_artifact(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> None:
        """See `ArtifactService.delete_artifact`."""
        place, number = self._place(app_name, user_id, session_id, filename), self._number(version)
        await self._run(lambda: self._store.delete(place, number))

    async def delete_user(self, *, app_name: str, user_id: str, session_ids: Iterable[str] = ()) -> int:
        """See `ArtifactService.delete_user`: the user's whole folder."""
        self._check_open()
        check_scope(app_name=app_name, user_id=user_id, session_id="-")
        return await self._run(lambda: self._store.delete_user(app_name, user_id))

    async def close(self) -> None:
        """Later calls raise. Nothing is held open, and the files stay."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise BackendError("the file artifact service is closed; make a new one", code="closed")

    def _place(self, app_name: str, user_id: str, session_id: str, filename: str, **contents: Any) -> ArtifactKey:
        self._check_open()
        return ArtifactKey.checked(app_name, user_id, session_id, filename, nested=self.nested_names, **contents)

    def _number(self, version: int | None) -> int | None:
        """A legal version number as it is; what 0 means depends on the file (FIL-1)."""
        wanted_version(version, self.first_version)
        return version

    async def _run(self, work: Callable[[], T], *, on_cancel: Callable[[], None] | None = None) -> T:
        with as_backend_errors(self.root):
            return await in_thread(work, on_cancel=on_cancel)
