"""Artifact checklist lines CA-20, CA-21 and ART-16 of streams, and BEY-14: what is kept of many versions."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime

import pytest

from hookwork.errors import (
    ArtifactNotFoundError,
    ArtifactVersionConflictError,
    UnsupportedOperationError,
    ValidationError,
)
from hookwork.platform import use_clock
from hookwork.services import ArtifactService
from hookwork_testkit.suites.artifact_base import ArtifactSuiteBase, blob, chunks


class ArtifactStreams(ArtifactSuiteBase):
    """See the module."""

    async def test_bey_14_older_versions_are_pruned_on_demand(self, service: ArtifactService) -> None:
        """By number and by age; the newest stays, numbers go on, and a user's files are found from any session."""
        first = service.first_version
        for day in range(1, 6):
            with use_clock(lambda day=day: datetime(2025, 1, day, tzinfo=UTC)):  # type: ignore[misc]
                await self.save(service, "a.bin", b"%d" % day)
        await self.save(service, "user:b.bin", b"1", b"2", b"3")
        await self.save(service, "c.bin", b"1")
        scope = self.at()
        assert await service.prune_artifacts(**scope) == 0
        assert await service.prune_artifacts(**scope, filename="a.bin", keep_versions=4) == 1
        assert await service.list_versions(**self.at("a.bin")) == [first + n for n in (1, 2, 3, 4)]
        made = (await service.get_artifact_version(**self.at("a.bin"), version=first + 1)).create_time
        if made == datetime(2025, 1, 2, tzinfo=UTC):  # else the server's clock counts, and all are young
            with use_clock(lambda: datetime(2025, 1, 6, tzinfo=UTC)):
                assert await service.prune_artifacts(**scope, filename="a.bin", max_age=2.5 * 86400) == 2
            with use_clock(lambda: datetime(2026, 1, 1, tzinfo=UTC)):
                assert await service.prune_artifacts(**scope, filename="a.bin", max_age=1) == 1
        assert await service.prune_artifacts(**self.at(session="s-9"), keep_versions=1) == 2
        await service.prune_artifacts(**scope, keep_versions=1)
        assert await service.list_versions(**self.at("a.bin")) == [first + 4]
        assert await self.load(service, "a.bin") == b"5"
        assert await service.list_versions(**self.at("user:b.bin")) == [first + 2]
        assert await self.save(service, "a.bin", b"6") == [first + 5]
        assert await service.prune_artifacts(**scope, filename="absent", keep_versions=1) == 0
        for wrong in ({"keep_versions": -1}, {"keep_versions": True}, {"max_age": -1.0}, {"max_age": float("nan")}):
            with pytest.raises(ValidationError):
                await service.prune_artifacts(**scope, **wrong)

    async def test_bey_14_a_save_prunes_its_file(self) -> None:
        service = await self.make_keeping_service(2, 0)
        if service is None:
            pytest.skip("the backend has no retention")
        first = service.first_version
        versions = await self.save(service, "a.bin", b"1", b"2", b"3", b"4")
        assert versions == [first, first + 1, first + 2, first + 3]
        assert await service.list_versions(**self.at("a.bin")) == versions[2:]
        if service.streaming:
            key = self.at("a.bin")
            assert await service.save_artifact_stream(**key, source=chunks(b"5")) == first + 4
            assert await service.list_versions(**key) == [first + 3, first + 4]
        await self.save(service, "b.bin", b"1")
        assert await service.list_versions(**self.at("b.bin")) == [first]
        await service.close()

    async def test_art_16_streams_and_parts_are_the_same_files(self, service: ArtifactService) -> None:
        key = self.at("pic ä.png")
        if not service.streaming:
            with pytest.raises(UnsupportedOperationError):
                await service.open_artifact(**key)
            with pytest.raises(UnsupportedOperationError):
                await service.save_artifact_stream(**key, source=chunks(b"1"))
            return
        first = service.first_version
        assert await service.save_artifact_stream(**key, source=chunks(b"ab", b"", b"c"), display_name="Ä") == first
        assert await service.load_artifact(**key) == blob(b"abc", "image/png", "Ä")
        metadata = {"source": "camera"}
        typed = await service.save_artifact_stream(
            **key, source=chunks(), mime_type="text/csv", custom_metadata=metadata
        )
        assert typed == first + 1
        assert await service.load_artifact(**key) == blob(b"", "text/csv")
        assert await self.save(service, "pic ä.png", b"whole") == [first + 2]
        for version, expected in ((None, b"whole"), (first, b"abc"), (first + 1, b"")):
            info, stream = await service.open_artifact(**key, version=version)
            assert info == await service.get_artifact_version(**key, version=version)
            async with aclosing(stream):
                assert b"".join([piece async for piece in stream]) == expected
        assert (await service.get_artifact_version(**key, version=typed)).custom_metadata == metadata
        await service.save_artifact_stream(**self.at("unknown"), source=chunks(b"1"))
        assert await service.load_artifact(**self.at("unknown")) == blob(b"1", "application/octet-stream")
        for wrong in (self.at("absent"), {**key, "version": 99}):
            with pytest.raises(ArtifactNotFoundError):
                await service.open_artifact(**wrong)
        for refused in ({**self.at("a/b"), "source": chunks(b"1")}, {**key, "source": None}):
            with pytest.raises(ValidationError):
                await service.save_artifact_stream(**refused)

    async def test_ca_20_save_ids_of_streams(self, service: ArtifactService) -> None:
        if not service.streaming:
            pytest.skip("the backend has no streams")
        key, first = self.at("a.bin"), service.first_version
        for _ in range(2):
            assert await service.save_artifact_stream(**key, source=chunks(b"1", b"2"), save_id="e-1") == first
        assert await service.save_artifact(**key, artifact=blob(b"12"), save_id="e-1") == first
        with pytest.raises(ArtifactVersionConflictError):
            await service.save_artifact_stream(**key, source=chunks(b"12", b"3"), save_id="e-1")
        assert await service.list_versions(**key) == [first]

    async def test_ca_21_a_failing_source_leaves_no_version(self, service: ArtifactService) -> None:
        if not service.streaming:
            pytest.skip("the backend has no streams")
        for name in ("a.bin", "user:a.bin"):
            with pytest.raises(LookupError, match="half-way"):
                await service.save_artifact_stream(
                    **self.at(name), source=chunks(b"x" * (3 << 20), error=LookupError("half-way"))
                )
            await self.assert_absent(service, name)
        assert await self.save(service, "a.bin", b"1") == [service.first_version]

    async def test_ca_21_a_large_stream_takes_little_memory(self, service: ArtifactService) -> None:
        if not service.streaming:
            pytest.skip("the backend has no streams")
        step, number = 1 << 20, self.large_stream >> 20

        async def source() -> AsyncIterator[bytes]:
            for index in range(number):
                yield bytes([index % 256]) * step

        tracemalloc.start()
        try:
            version = await service.save_artifact_stream(**self.at("large.bin"), source=source())
            _, stream = await service.open_artifact(**self.at("large.bin"), version=version)
            size, ends = 0, b""
            async with aclosing(stream):
                async for piece in stream:
                    ends = (ends or piece[:1]) + piece[-1:]
                    size += len(piece)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (size, ends[0], ends[-1]) == (number * step, 0, (number - 1) % 256)
        assert peak < self.stream_memory, f"{peak >> 20} MiB of memory were used"
