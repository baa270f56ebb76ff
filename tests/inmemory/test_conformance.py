"""The in-memory services pass the suites of the testkit (services §8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import pytest

import hookwork_inmemory.sessions as sessions_module
from hookwork.services import ArtifactService, MemoryService, SessionService
from hookwork_inmemory import InMemoryArtifactService, InMemoryMemoryService, InMemorySessionService
from hookwork_testkit.suites import ArtifactServiceSuite, MemoryServiceSuite, SessionServiceSuite


@contextmanager
def _failing(name: str) -> Iterator[None]:
    """Let one step of the append raise."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(f"{name} failed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions_module, name, fail)
        yield


class TestSessions(SessionServiceSuite):
    async def make_service(self) -> SessionService:
        return InMemorySessionService()

    async def make_refusing_service(self) -> SessionService:
        return InMemorySessionService(foreign_appends="refuse")

    def append_faults(self, service: SessionService) -> Mapping[str, Callable[[], AbstractContextManager[object]]]:
        return {name: lambda name=name: _failing(name) for name in ("entered",)}  # type: ignore[misc]


class TestArtifacts(ArtifactServiceSuite):
    async def make_service(self) -> ArtifactService:
        return InMemoryArtifactService()

    async def make_nested_service(self) -> ArtifactService:
        return InMemoryArtifactService(nested_names=True)

    async def make_keeping_service(self, keep_versions: int, max_age: float) -> ArtifactService:
        return InMemoryArtifactService(keep_versions=keep_versions, max_age=max_age)


class TestArtifactsFromZero(ArtifactServiceSuite):
    """The numbering of google-adk (ART-4)."""

    async def make_service(self) -> ArtifactService:
        return InMemoryArtifactService(first_version=0)


class TestMemory(MemoryServiceSuite):
    async def make_service(self) -> MemoryService:
        return InMemoryMemoryService()
