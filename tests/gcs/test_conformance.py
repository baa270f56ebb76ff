"""The GCS service passes the artifact suite of the testkit on fake-gcs-server (services §8.3)."""

from __future__ import annotations

import itertools

import pytest
from tests.gcs.servers import make_bucket

from hookwork.services import ArtifactService
from hookwork_gcs import GcsArtifactService
from hookwork_testkit.suites import ArtifactServiceSuite

_numbers = itertools.count(1)


class TestGcs(ArtifactServiceSuite):
    @pytest.fixture(autouse=True)
    def bucket(self, gcs: str) -> None:
        self.name = f"suite-{next(_numbers)}"
        make_bucket(gcs, self.name)

    async def make_service(self) -> ArtifactService:
        return GcsArtifactService(self.name)

    async def make_nested_service(self) -> ArtifactService:
        return GcsArtifactService(self.name, nested_names=True)

    async def make_keeping_service(self, keep_versions: int, max_age: float) -> ArtifactService:
        return GcsArtifactService(self.name, keep_versions=keep_versions, max_age=max_age)


class TestGcsFromZero(TestGcs):
    """The numbering of google-adk (ART-4)."""

    async def make_service(self) -> ArtifactService:
        return GcsArtifactService(self.name, first_version=0)
