"""What the artifact suites share: how a service is made, and the small steps that every test takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from hookwork.errors import ArtifactNotFoundError
from hookwork.records.content import Blob, Part
from hookwork.services import ArtifactService


def blob(data: bytes, mime_type: str = "application/octet-stream", name: str | None = None) -> Part:
    """A part of bytes."""
    return Part(inline_data=Blob(data=data, mime_type=mime_type, display_name=name))


async def chunks(*pieces: bytes, error: Exception | None = None) -> AsyncIterator[bytes]:
    """A source of bytes that may fail at its end."""
    for piece in pieces:
        yield piece
    if error is not None:
        raise error


class ArtifactSuiteBase(ABC):
    """Settings and steps.

    Attributes:
        app_name: the app of all tests.
        large_stream: bytes of the stream that must pass through little memory (CA-21).
        stream_memory: most bytes of memory that the stream may take meanwhile.
    """

    app_name: str = "suite"
    large_stream: int = 200 << 20
    stream_memory: int = 50 << 20

    @abstractmethod
    async def make_service(self) -> ArtifactService:
        """A service on an empty store, with the backend's defaults."""

    async def make_nested_service(self) -> ArtifactService | None:
        """A service with ``nested_names=True``; None where the backend has no such option."""
        return None

    async def make_keeping_service(self, keep_versions: int, max_age: float) -> ArtifactService | None:
        """A service with these options; None where the backend has no retention."""
        return None

    @pytest_asyncio.fixture
    async def service(self) -> AsyncIterator[ArtifactService]:
        """The service under test."""
        service = await self.make_service()
        yield service
        await service.close()

    def at(self, filename: str | None = None, *, session: str = "s-1", user: str = "u1", **more: Any) -> dict[str, Any]:
        """The arguments that name a file, or a session when no file name is given."""
        scope: dict[str, Any] = {"app_name": self.app_name, "user_id": user, "session_id": session, **more}
        return scope if filename is None else {**scope, "filename": filename}

    async def save(self, service: ArtifactService, filename: str, *contents: bytes | Part, **where: Any) -> list[int]:
        """Save several versions of a file; their numbers."""
        return [
            await service.save_artifact(
                **self.at(filename, **where), artifact=content if isinstance(content, Part) else blob(content)
            )
            for content in contents
        ]

    async def load(self, service: ArtifactService, filename: str, **where: Any) -> bytes | None:
        """The bytes of a file."""
        part = await service.load_artifact(**self.at(filename, **where))
        assert part.inline_data is not None
        return part.inline_data.data

    async def assert_absent(self, service: ArtifactService, filename: str, **where: Any) -> None:
        """Assert that there is no such file, in any way of asking."""
        key = self.at(filename, **where)
        for ask in (service.load_artifact, service.get_artifact_version, service.list_versions):
            with pytest.raises(ArtifactNotFoundError):
                await ask(**key)
        key.pop("filename")
        assert filename not in await service.list_artifacts(**key)
