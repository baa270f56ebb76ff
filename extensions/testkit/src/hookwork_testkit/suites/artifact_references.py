"""Artifact lines of BEY-7 (references, files elsewhere, URLs, all versions at once) and BEY-17 (content hashes)."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from hookwork.errors import (
    ArtifactNotFoundError,
    ArtifactReferenceError,
    UnsupportedOperationError,
    ValidationError,
)
from hookwork.records.content import FileData, Part
from hookwork.services import ArtifactService
from hookwork_testkit.suites.artifact_base import ArtifactSuiteBase, blob, chunks

#: SHA-256 of "abc" (FIPS 180-2, appendix B.1) and of nothing.
ABC_HASH = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
EMPTY_HASH = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class ArtifactReferences(ArtifactSuiteBase):
    """See the module."""

    def uri(self, filename: str, version: int, *, session: str | None = "s-1", user: str = "u1", app: str = "") -> str:
        """The reference to a version, spelled as google-adk does (its ``artifact_util.get_artifact_uri``)."""
        owner = "" if session is None else f"sessions/{session}/"
        return f"artifact://apps/{app or self.app_name}/users/{user}/{owner}artifacts/{filename}/versions/{version}"

    async def refer(self, service: ArtifactService, filename: str, uri: str, **where: Any) -> int:
        """Save a reference under a name; its version."""
        part = Part(file_data=FileData(file_uri=uri))
        return await service.save_artifact(**self.at(filename, **where), artifact=part)

    async def test_bey_7_a_service_without_references_says_so(self, service: ArtifactService) -> None:
        if service.references:
            assert await self.refer(service, "far.pdf", "https://example.com/a.pdf") == service.first_version
            with pytest.raises(ValidationError):
                await self.refer(service, "nowhere", "")
            return
        with pytest.raises((UnsupportedOperationError, ValidationError)):
            await self.refer(service, "far.pdf", "https://example.com/a.pdf")
        await self.assert_absent(service, "far.pdf")

    async def test_bey_7_a_reference_gives_what_it_stands_for(self, service: ArtifactService) -> None:
        """Pinned to its version, for text and bytes, through another reference, in a stream as well."""
        self._needs_references(service)
        first = service.first_version
        picture = blob(b"abc", "image/png", "Bild ä.png")
        await self.save(service, "a b#ä.png", picture, b"newer")
        await self.save(service, "user:t.txt", Part(text="Ä"))
        assert await self.refer(service, "one", self.uri("a b#ä.png", first)) == first
        await self.refer(service, "two", self.uri("one", first))
        await self.refer(service, "user:three", self.uri("user:t.txt", first, session=None))
        assert await service.load_artifact(**self.at("one")) == picture
        assert await service.load_artifact(**self.at("two")) == picture
        for session in ("s-1", "s-2"):
            assert await service.load_artifact(**self.at("user:three", session=session)) == Part(text="Ä")
        info = await service.get_artifact_version(**self.at("two"))
        assert (info.version, info.mime_type, info.sha256) == (first, "image/png", None)
        assert info.file_uri == self.uri("one", first)
        assert await service.list_artifacts(**self.at()) == ["a b#ä.png", "one", "two", "user:t.txt", "user:three"]
        if service.streaming:
            opened, stream = await service.open_artifact(**self.at("two"))
            assert opened == info
            async with aclosing(stream):
                assert b"".join([piece async for piece in stream]) == b"abc"
        await service.delete_artifact(**self.at("one"))
        assert await self.load(service, "a b#ä.png") == b"newer"

    async def test_bey_7_a_reference_stays_in_its_scope(self, service: ArtifactService) -> None:
        """The same app and user; a session's file only from that session, never from a file of the user."""
        self._needs_references(service)
        first = service.first_version
        await self.save(service, "mine", b"1")
        await self.save(service, "user:mine", b"1")
        await self.save(service, "theirs", b"secret", user="u2")
        await self.save(service, "other", b"secret", session="s-2")
        for uri in (
            self.uri("theirs", first, user="u2"),
            self.uri("user:theirs", first, session=None, user="u2"),
            self.uri("mine", first, app="another"),
            self.uri("other", first, session="s-2"),
        ):
            await self._assert_no_reference(service, "scope", uri)
        await self._assert_no_reference(service, "scope", self.uri("mine", first), name="user:copy")
        await self.refer(service, "copy", self.uri("user:mine", first, session=None))
        await self.refer(service, "bare", self.uri("mine", first, session=None))
        assert await self.load(service, "bare") == b"1", "a user's file may be named without its prefix"

    async def test_bey_7_a_reference_of_another_form_is_refused(self, service: ArtifactService) -> None:
        self._needs_references(service)
        await self.save(service, "a", b"1")
        good = self.uri("a", service.first_version)
        for uri in ("artifact://", "artifact://a", good[:-1], f"{good}/x", f"{good}\n", good.replace("users/u1/", "")):
            await self._assert_no_reference(service, "malformed", uri)
        for name in ("..", "a/b", "a\\b", "a\x01b"):
            with pytest.raises(ValidationError):
                await self.refer(service, "copy", self.uri(name, service.first_version))
        await self.assert_absent(service, "copy")

    async def test_bey_7_a_missing_target_is_told_on_saving_and_on_loading(self, service: ArtifactService) -> None:
        self._needs_references(service)
        first = service.first_version
        for uri in (self.uri("absent", first), self.uri("copy", first)):
            with pytest.raises(ArtifactNotFoundError, match="stands for 'artifact://"):
                await self.refer(service, "copy", uri)
        await self.assert_absent(service, "copy")
        await self.save(service, "a", b"1")
        await self.refer(service, "copy", self.uri("a", first))
        await service.delete_artifact(**self.at("a"))
        with pytest.raises(ArtifactNotFoundError, match="stands for 'artifact://"):
            await service.load_artifact(**self.at("copy"))
        assert await service.list_versions(**self.at("copy")) == [first]

    async def test_bey_7_long_trails_are_errors(self, service: ArtifactService) -> None:
        """Five references may lead on from one to the next, as in google-adk; also where a number is used again."""
        self._needs_references(service)
        first = service.first_version
        await self.save(service, "n-0", b"1")
        for n in range(1, 6):
            await self.refer(service, f"n-{n}", self.uri(f"n-{n - 1}", first))
        assert await self.load(service, "n-5") == b"1"
        await self._assert_no_reference(service, "depth", self.uri("n-5", first), name="n-6")
        await service.delete_artifact(**self.at("n-0"))
        await self.save(service, "end", b"2")
        if await self.refer(service, "n-0", self.uri("end", first)) != first:
            return  # numbers are not used again here: no version ever leads further than when it was saved
        with pytest.raises(ArtifactReferenceError) as too_deep:
            await service.load_artifact(**self.at("n-5"))
        assert too_deep.value.reason == "depth"
        await service.delete_artifact(**self.at("n-0"))
        await self.save(service, "n-0", b"1")
        await self.refer(service, "end", self.uri("n-2", first))
        await service.delete_artifact(**self.at("n-0"))
        with pytest.raises(ArtifactNotFoundError):
            await self.refer(service, "n-0", self.uri("end", first + 1))

    async def test_bey_7_a_file_elsewhere_keeps_its_uri(self, service: ArtifactService) -> None:
        self._needs_references(service)
        file = FileData(file_uri="gs://bucket/pic ä.png", mime_type="image/png", display_name="Bild")
        await service.save_artifact(**self.at("far.png"), artifact=Part(file_data=file))
        await self.refer(service, "far.pdf", "https://example.com/a.pdf?x=1")
        assert await service.load_artifact(**self.at("far.png")) == Part(file_data=file)
        found = (await service.load_artifact(**self.at("far.pdf"))).file_data
        assert found is not None
        assert (found.file_uri, found.mime_type) == ("https://example.com/a.pdf?x=1", "application/pdf")
        info = await service.get_artifact_version(**self.at("far.pdf"))
        assert (info.file_uri, info.mime_type, info.sha256) == (found.file_uri, "application/pdf", None)
        await self.refer(service, "copy", self.uri("far.png", service.first_version))
        assert await service.load_artifact(**self.at("copy")) == Part(file_data=file)
        if service.streaming:
            for name in ("far.png", "copy"):
                with pytest.raises(UnsupportedOperationError, match="gs://bucket"):
                    await service.open_artifact(**self.at(name))

    async def test_bey_7_all_versions_at_once(self, service: ArtifactService) -> None:
        await service.save_artifact(**self.at("a.bin"), artifact=blob(b"1"), custom_metadata={"page": "1"})
        await self.save(service, "a.bin", b"2", b"3")
        first = service.first_version
        await service.delete_artifact(**self.at("a.bin"), version=first + 1)
        found = await service.list_artifact_versions(**self.at("a.bin"))
        assert found == [
            await service.get_artifact_version(**self.at("a.bin"), version=version) for version in (first, first + 2)
        ]
        assert found[0].custom_metadata == {"page": "1"}
        with pytest.raises(ArtifactNotFoundError):
            await service.list_artifact_versions(**self.at("absent"))
        with pytest.raises(ValidationError):
            await service.list_artifact_versions(**self.at("a/b"))

    async def test_bey_7_urls_for_others(self, service: ArtifactService) -> None:
        """A URL, or an error that says there is none; a signed one holds for a time that must make sense."""
        await self.save(service, "pic ä.png", b"1", b"2")
        try:
            url = await service.artifact_url(**self.at("pic ä.png"))
        except UnsupportedOperationError:
            with pytest.raises(UnsupportedOperationError):
                await service.artifact_url(**self.at("pic ä.png"), expires_in=60)
            return
        assert "://" in url
        assert url.isascii()
        assert url != await service.artifact_url(**self.at("pic ä.png"), version=service.first_version)
        for wrong in (self.at("absent"), {**self.at("pic ä.png"), "version": 99}):
            with pytest.raises(ArtifactNotFoundError):
                await service.artifact_url(**wrong)
        if service.references:
            await self.refer(service, "far.pdf", "https://example.com/a.pdf")
            assert await service.artifact_url(**self.at("far.pdf")) == "https://example.com/a.pdf"
            await self.refer(service, "copy", self.uri("pic ä.png", service.first_version + 1))
            assert await service.artifact_url(**self.at("copy")) == url
        for wrong_time in (0, -1, float("nan"), True, "60"):
            with pytest.raises((ValidationError, UnsupportedOperationError)):
                await service.artifact_url(**self.at("pic ä.png"), expires_in=wrong_time)  # type: ignore[arg-type]

    async def test_bey_17_a_version_knows_the_hash_of_its_bytes(self, service: ArtifactService) -> None:
        for name, part, expected in (
            ("abc.bin", blob(b"abc"), ABC_HASH),
            ("abc.txt", Part(text="abc"), ABC_HASH),
            ("empty.bin", blob(b""), EMPTY_HASH),
        ):
            await self.save(service, name, part)
            assert (await service.get_artifact_version(**self.at(name))).sha256 == expected, name
        assert (await service.list_artifact_versions(**self.at("abc.bin")))[0].sha256 == ABC_HASH
        if service.streaming:
            await service.save_artifact_stream(**self.at("stream"), source=chunks(b"a", b"", b"bc"))
            info, stream = await service.open_artifact(**self.at("stream"))
            await stream.aclose()
            assert info.sha256 == ABC_HASH

    async def test_bey_17_identical_content_is_not_saved_again_when_asked(self, service: ArtifactService) -> None:
        """The latest version counts, with its type, name and metadata; without the wish each save is a version."""
        first = service.first_version
        key = self.at("a.bin")

        async def save(part: Part, **more: Any) -> int:
            return await service.save_artifact(**key, artifact=part, reuse_identical=True, **more)

        assert await save(blob(b"1", "text/csv")) == first
        assert await save(blob(b"1", "text/csv")) == first
        assert await save(blob(b"1", "text/csv"), custom_metadata={}) == first
        assert await self.save(service, "a.bin", blob(b"1", "text/csv")) == [first + 1]
        assert await save(blob(b"2", "text/csv")) == first + 2
        assert await save(blob(b"1", "text/csv")) == first + 3, "an older version is not the latest one"
        assert await save(blob(b"1", "image/png")) == first + 4
        assert await save(blob(b"1", "image/png", "name")) == first + 5
        assert await save(blob(b"1", "image/png", "name"), custom_metadata={"k": "v"}) == first + 6
        assert await save(blob(b"1", "image/png", "name"), custom_metadata={"k": "v"}) == first + 6
        assert await save(Part(text="1")) == first + 7
        assert await save(Part(text="1")) == first + 7
        assert (
            await service.save_artifact(**key, artifact=Part(text="1"), save_id="e-1", reuse_identical=True)
            == first + 7
        )
        if service.streaming:
            for _ in range(2):
                version = await service.save_artifact_stream(
                    **self.at("b.csv"), source=chunks(b"a", b"b"), reuse_identical=True
                )
                assert version == first
            assert await service.save_artifact_stream(
                **self.at("b.csv"), source=chunks(b"a", b"c"), reuse_identical=True
            ) == first + 1  # fmt: skip

    async def test_bey_17_identical_saves_at_once_make_one_version(self, service: ArtifactService) -> None:
        versions = await asyncio.gather(
            *(
                service.save_artifact(**self.at("a.bin"), artifact=blob(b"same"), reuse_identical=True)
                for _ in range(10)
            )
        )
        assert set(versions) == {service.first_version}
        assert await service.list_versions(**self.at("a.bin")) == [service.first_version]

    async def test_bey_17_a_tombstone_is_not_identical_to_an_empty_file(self, service: ArtifactService) -> None:
        await self.save(service, "a.bin", b"")
        await service.save_artifact(
            **self.at("a.bin"), artifact=blob(b""), custom_metadata={"hookworkTombstone": "true"}
        )
        version = await service.save_artifact(**self.at("a.bin"), artifact=blob(b""), reuse_identical=True)
        assert version == service.first_version + 2
        assert await self.load(service, "a.bin") == b""

    async def _assert_no_reference(self, service: ArtifactService, reason: str, uri: str, name: str = "copy") -> None:
        with pytest.raises(ArtifactReferenceError) as refusal:
            await self.refer(service, name, uri)
        assert refusal.value.reason == reason, uri
        await self.assert_absent(service, name)

    def _needs_references(self, service: ArtifactService) -> None:
        if not service.references:
            pytest.skip("the backend stores no references")
