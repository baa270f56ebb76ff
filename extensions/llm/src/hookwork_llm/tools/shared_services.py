"""A parent run's artifacts and memory, as a child run of an agent tool sees them (tools-plugins BT-01, BT-04).

The child has an app name and a session of its own. Files and memories are those of the parent: whatever scope is asked
for, the parent's is used.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hookwork.services import ArtifactService, ArtifactVersion, MemoryEntry, MemoryService

if TYPE_CHECKING:
    from hookwork.invocation import Invocation
    from hookwork.records.content import Part
    from hookwork.records.event import Event
    from hookwork.records.session import Session


class ParentArtifacts(ArtifactService):
    """The files of the parent's session and user."""

    passes_on = True

    def __init__(self, service: ArtifactService, parent: Invocation) -> None:
        self._service = service
        self._scope: Any = {"app_name": parent.app_name, "user_id": parent.user_id, "session_id": parent.session_id}
        self.first_version = service.first_version
        self.streaming = service.streaming
        self.references = service.references

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
        **options: Any,
    ) -> int:
        content: Any = {"artifact": artifact, "custom_metadata": custom_metadata, "save_id": save_id}
        return await self._service.save_artifact(**self._scope, filename=filename, **content, **options)

    async def load_artifact(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> Part:
        return await self._service.load_artifact(**self._scope, filename=filename, version=version)

    async def list_artifacts(self, *, app_name: str, user_id: str, session_id: str) -> list[str]:
        return await self._service.list_artifacts(**self._scope)

    async def delete_artifact(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> None:
        await self._service.delete_artifact(**self._scope, filename=filename, version=version)

    async def list_versions(self, *, app_name: str, user_id: str, session_id: str, filename: str) -> list[int]:
        return await self._service.list_versions(**self._scope, filename=filename)

    async def get_artifact_version(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> ArtifactVersion:
        return await self._service.get_artifact_version(**self._scope, filename=filename, version=version)

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, session_id: str, filename: str
    ) -> list[ArtifactVersion]:
        return await self._service.list_artifact_versions(**self._scope, filename=filename)

    async def artifact_url(self, *, app_name: str, user_id: str, session_id: str, filename: str, **options: Any) -> str:
        return await self._service.artifact_url(**self._scope, filename=filename, **options)

    async def open_artifact(
        self, *, app_name: str, user_id: str, session_id: str, filename: str, version: int | None = None
    ) -> tuple[ArtifactVersion, AsyncGenerator[bytes, None]]:
        return await self._service.open_artifact(**self._scope, filename=filename, version=version)

    async def save_artifact_stream(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        filename: str,
        source: AsyncIterable[bytes],
        **options: Any,
    ) -> int:
        return await self._service.save_artifact_stream(**self._scope, filename=filename, source=source, **options)


class ParentMemory(MemoryService):
    """What the parent's app remembers of the user."""

    passes_on = True

    def __init__(self, service: MemoryService, parent: Invocation) -> None:
        self._service = service
        self._app_name = parent.app_name

    async def add_session_to_memory(self, session: Session) -> None:
        view = session.view()
        view.app_name = self._app_name  # else the parent would never find it
        await self._service.add_session_to_memory(view)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> list[MemoryEntry]:
        return await self._service.search_memory(app_name=self._app_name, user_id=user_id, query=query)

    async def add_events_to_memory(self, *, app_name: str, user_id: str, events: Sequence[Event], **more: Any) -> None:
        await self._service.add_events_to_memory(app_name=self._app_name, user_id=user_id, events=events, **more)

    async def add_memory(self, *, app_name: str, user_id: str, entries: list[MemoryEntry]) -> None:
        await self._service.add_memory(app_name=self._app_name, user_id=user_id, entries=entries)

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str) -> None:
        await self._service.delete_memory(app_name=self._app_name, user_id=user_id, memory_id=memory_id)
