"""The file service passes the artifact suite of the testkit in each of its settings (services §8.3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookwork.services import ArtifactService
from hookwork_files import FileArtifactService
from hookwork_testkit.suites import ArtifactServiceSuite


class TestFiles(ArtifactServiceSuite):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.root = tmp_path / "not yet made"

    async def make_service(self) -> ArtifactService:
        return FileArtifactService(self.root)

    async def make_nested_service(self) -> ArtifactService:
        return FileArtifactService(self.root, nested_names=True)

    async def make_keeping_service(self, keep_versions: int, max_age: float) -> ArtifactService:
        return FileArtifactService(self.root, keep_versions=keep_versions, max_age=max_age)


class TestFilesFromZero(TestFiles):
    """The numbering of google-adk (ART-4)."""

    async def make_service(self) -> ArtifactService:
        return FileArtifactService(self.root, first_version=0, sync=False)
