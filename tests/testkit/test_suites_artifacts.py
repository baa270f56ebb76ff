"""The artifact suite catches backends that break one rule each (services §8.3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from typing import Any

import pytest

from hookwork.artifact_contents import guessed_type, part_bytes
from hookwork.errors import ArtifactNotFoundError, HookworkError, UnsupportedOperationError, ValidationError
from hookwork.records.content import Blob, Part
from hookwork.services import ArtifactService, ArtifactVersion
from hookwork_inmemory import InMemoryArtifactService
from hookwork_testkit.suites import ArtifactServiceSuite
from hookwork_testkit.suites.artifact_base import blob
from hookwork_testkit.suites.broken import BrokenBackends

BROKEN = BrokenBackends(ArtifactServiceSuite)

#: Lines that ask whether a file is absent after a reference to it was refused.
ABSENT_REFERENCES = (
    "test_bey_7_a_reference_stays",
    "test_bey_7_a_reference_of",
    "test_bey_7_a_missing",
    "test_bey_7_long",
)
#: Lines of a service that takes references.
WITH_REFERENCES = (*ABSENT_REFERENCES, "test_bey_7_a_reference_gives", "test_bey_7_a_file_elsewhere")
#: Lines on the hash of a stream.
STREAMED_HASHES = ("test_bey_17_a_version", "test_bey_17_identical_content")


class _Suite(ArtifactServiceSuite):
    """The suite against a broken backend."""

    large_stream = 16 << 20
    stream_memory = 12 << 20

    def __init__(self, kind: type[InMemoryArtifactService]) -> None:
        self.kind = kind

    async def make_service(self) -> ArtifactService:
        return self.kind()

    async def make_nested_service(self) -> ArtifactService:
        return self.kind(nested_names=True)

    async def make_keeping_service(self, keep_versions: int, max_age: float) -> ArtifactService:
        return self.kind(keep_versions=keep_versions, max_age=max_age)


def _loads(change: Callable[[Part], Part]) -> type[InMemoryArtifactService]:
    """A backend that gives back something else than it was given."""

    class Loading(InMemoryArtifactService):
        async def load_artifact(self, **key: Any) -> Part:
            return change(await super().load_artifact(**key))

    return Loading


@BROKEN.breaks("test_ca_01", "test_ca_06")
class CountsForAllUsers(InMemoryArtifactService):
    def _key(self, app_name: str, user_id: str, *more: Any, **rest: Any) -> Any:
        return super()._key(app_name, "u1" if user_id == "u2" else user_id, *more, **rest)


@BROKEN.breaks("test_ca_02")
class LoadsTheFirstForVersionZero(InMemoryArtifactService):
    async def load_artifact(self, **key: Any) -> Part:
        return await super().load_artifact(**{**key, "version": 1 if key.get("version") == 0 else key.get("version")})


@BROKEN.breaks("test_ca_03", "test_ca_06", "test_ca_16_names", "test_ca_16_nested")
class ListsInOrderOfSaving(InMemoryArtifactService):
    async def list_artifacts(self, **key: Any) -> list[str]:
        names = set(await super().list_artifacts(**key))
        return [name for files in self._files.values() for name in files if name in names]


@BROKEN.breaks("test_ca_04", "test_ca_05")
class NeverReusesANumber(InMemoryArtifactService):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options, reuse_versions=False)


@BROKEN.breaks("test_ca_05", "test_ca_06")
class DeletesTheLatestOnly(InMemoryArtifactService):
    async def delete_artifact(self, **key: Any) -> None:
        if key.get("version") is None:
            try:
                key["version"] = (await self.list_versions(**key))[-1]
            except ArtifactNotFoundError:
                return
        await super().delete_artifact(**key)


@BROKEN.breaks("test_bey_14_a_users", "test_ca_07", "test_ca_05", "test_ca_06", "test_ca_17", *ABSENT_REFERENCES)
class ListsNoVersionsOfNothing(InMemoryArtifactService):
    async def list_versions(self, **key: Any) -> list[int]:
        try:
            return await super().list_versions(**key)
        except ArtifactNotFoundError:
            return []


@BROKEN.breaks("test_ca_08")
class InsistsOnTheVersionToDelete(InMemoryArtifactService):
    async def delete_artifact(self, **key: Any) -> None:
        if (key.get("version") or 0) > 0:
            await self.get_artifact_version(**key)
        await super().delete_artifact(**key)


@BROKEN.breaks("test_ca_09", "test_bey_7_all")
class KnowsNoTimes(InMemoryArtifactService):
    async def get_artifact_version(self, **key: Any) -> ArtifactVersion:
        return (await super().get_artifact_version(**key)).replace(create_time=None)


@BROKEN.breaks("test_ca_10_missing")
class NamesOneMissingField(InMemoryArtifactService):
    async def save_artifact(self, **key: Any) -> int:
        for name, value in key.items():
            if value in ("", None):
                raise ValidationError(f"{name} must be given")
        return await super().save_artifact(**key)


@BROKEN.breaks("test_ca_10_what")
class TakesAnyPart(InMemoryArtifactService):
    async def save_artifact(self, **key: Any) -> int:
        part = key["artifact"]
        if isinstance(part, Part) and part.text is None and part.inline_data is None and part.file_data is None:
            key["artifact"] = Part(text="")
        return await super().save_artifact(**key)


@BROKEN.breaks("test_ca_10_names", "test_ca_16_nested", "test_bey_7_a_reference_of")
class TakesDots(InMemoryArtifactService):
    def _key(self, app_name: str, user_id: str, session_id: str, filename: str, **more: Any) -> Any:
        safe = "dots" if filename == ".." else filename
        return super()._key(app_name, user_id, session_id, safe, **more)


@BROKEN.breaks("test_ca_11")
class SortsVersionsAsText(InMemoryArtifactService):
    async def list_versions(self, **key: Any) -> list[int]:
        return sorted(await super().list_versions(**key), key=str)


@BROKEN.breaks("test_ca_13")
class ChoosesANumberBeforeItWaits(InMemoryArtifactService):
    async def save_artifact(self, **key: Any) -> int:
        count = len(self._files.get((key["app_name"], key["user_id"], key["session_id"]), {}))
        await asyncio.sleep(0)
        version = await super().save_artifact(**key)
        return version if count else min(version, 9)


@BROKEN.breaks("test_ca_14")
class KeepsTheCallersBytes(InMemoryArtifactService):
    async def save_artifact(self, **key: Any) -> int:
        version = await super().save_artifact(**key)
        blob = key["artifact"].inline_data
        if blob is not None and not isinstance(blob.data, bytes):
            self._files[key["app_name"], key["user_id"], key["session_id"]][key["filename"]].versions[
                version
            ].part = key["artifact"]
        return version


@BROKEN.breaks("test_ca_15")
class TakesNegativeVersionsAsLatest(InMemoryArtifactService):
    def _version(self, key: Any, version: int | None) -> Any:
        return super()._version(key, None if version is not None and version < 0 else version)


@BROKEN.breaks("test_ca_16_names")
class FoldsTheCaseOfNames(InMemoryArtifactService):
    def _version(self, key: Any, version: int | None) -> Any:
        return super()._version(key._replace(filename="a.txt") if key.filename == "A.txt" else key, version)


@BROKEN.breaks("test_ca_16_nested")
class NestsVersionsToo(InMemoryArtifactService):
    def _key(self, app_name: str, user_id: str, session_id: str, filename: str, **more: Any) -> Any:
        if self.nested_names and filename == "a/versions/3":
            filename = "a/other"
        return super()._key(app_name, user_id, session_id, filename, **more)


@BROKEN.breaks("test_ca_17")
class TakesReservedMetadata(InMemoryArtifactService):
    async def save_artifact(self, **key: Any) -> int:
        metadata = key.pop("custom_metadata", None) or {}
        kept = {name: value for name, value in metadata.items() if name == "hookworkTombstone" or name[:3] != "adk"}
        return await super().save_artifact(**key, custom_metadata=kept or None)


@BROKEN.breaks("test_art_17")
class TakesEveryEmptyFileForATombstone(InMemoryArtifactService):
    async def load_artifact(self, **key: Any) -> Part:
        part = await super().load_artifact(**key)
        if key["filename"] == "empty.bin":
            raise ArtifactNotFoundError("empty")
        return part


@BROKEN.breaks("test_ca_20_save_ids_make")
class IgnoresSaveIds(InMemoryArtifactService):
    async def save_artifact(self, **key: Any) -> int:
        return await super().save_artifact(**{**key, "save_id": None})


@BROKEN.breaks("test_gen_4")
class NeverCloses(InMemoryArtifactService):
    async def close(self) -> None:
        pass


class Streaming(InMemoryArtifactService):
    """Streams by the letter, but keeps whole files in memory: it fails that line alone."""

    streaming = True

    async def open_artifact(self, **key: Any) -> tuple[ArtifactVersion, AsyncGenerator[bytes, None]]:
        part = await self.load_artifact(**key)
        if part.file_data is not None:
            raise UnsupportedOperationError(f"fetch it from {part.file_data.file_uri}")
        info = await self.get_artifact_version(**key)

        async def stream() -> AsyncGenerator[bytes, None]:
            yield part_bytes(part)

        return info, stream()

    async def save_artifact_stream(self, **key: Any) -> int:
        source, mime_type, name = key.pop("source"), key.pop("mime_type", None), key.pop("display_name", None)
        self._key(*(key[part] for part in ("app_name", "user_id", "session_id", "filename")), source=source)
        data = await self.collect(source)
        mime_type = guessed_type(key["filename"], mime_type)
        return await self.save_artifact(
            **key, artifact=Part(inline_data=Blob(data=data, mime_type=mime_type, display_name=name))
        )

    async def collect(self, source: AsyncIterator[bytes]) -> bytes:
        return b"".join([piece async for piece in source])


@BROKEN.breaks("test_bey_14_older")
class PrunesTheNewestToo(InMemoryArtifactService):
    async def prune_artifacts(self, *, filename: str | None = None, **scope: Any) -> int:
        removed = await super().prune_artifacts(filename=filename, **scope)
        if removed and filename is not None:
            key = {name: scope[name] for name in ("app_name", "user_id", "session_id")}
            newest = (await self.list_versions(**key, filename=filename))[-1]
            await self.delete_artifact(**key, filename=filename, version=newest)
        return removed


@BROKEN.breaks("test_bey_14_a_save")
class ForgetsToPrune(InMemoryArtifactService):
    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "keep_versions": 0})


@BROKEN.breaks("test_ca_21_a_large")
class KeepsWholeStreamsInMemory(Streaming):
    pass


@BROKEN.breaks("test_art_16", "test_ca_20_save_ids_of_streams", "test_ca_21_a_large", *STREAMED_HASHES)
class StreamsTheFirstPieceOnly(Streaming):
    async def collect(self, source: AsyncIterator[bytes]) -> bytes:
        pieces = [piece async for piece in source]
        return pieces[0] if pieces else b""


@BROKEN.breaks("test_ca_21")
class KeepsWhatCameBeforeTheError(Streaming):
    async def collect(self, source: AsyncIterator[bytes]) -> bytes:
        data = b""
        try:
            async for piece in source:
                data += piece
        except LookupError:
            pass
        return data


def _text_as_bytes(part: Part) -> Part:
    if part.text is None:
        return part
    return Part(inline_data=Blob(data=part.text.encode(), mime_type="text/plain"))


def _without_name(part: Part) -> Part:
    blob = part.inline_data
    return part if blob is None else Part(inline_data=blob.replace(display_name=None))


BROKEN.breaks("test_ca_02", "test_ca_12", "test_bey_7_a_reference_gives")(
    type("GivesTextAsBytes", (_loads(_text_as_bytes),), {})
)
BROKEN.breaks("test_ca_12", "test_bey_7_a_reference_gives")(type("LosesDisplayNames", (_loads(_without_name),), {}))


# --- references, files elsewhere, URLs (BEY-7) -----------------------------------------------------------------------


@BROKEN.breaks("test_bey_7_a_service_without", *WITH_REFERENCES)
class ClaimsReferencesItRefuses(InMemoryArtifactService):
    async def save_artifact(self, **key: Any) -> int:
        if isinstance(key["artifact"], Part) and key["artifact"].file_data is not None:
            raise UnsupportedOperationError("no references here")
        return await super().save_artifact(**key)


@BROKEN.breaks("test_bey_7_a_reference_gives")
class FollowsToTheLatest(InMemoryArtifactService):
    def _followed(self, trail: Any, uri: str) -> Any:
        return super()._followed(trail, f"{uri[:-1]}2" if "a b#" in uri and uri.endswith("/1") else uri)


@BROKEN.breaks("test_bey_7_a_reference_stays")
class RefersToOtherSessions(InMemoryArtifactService):
    async def save_artifact(self, **key: Any) -> int:
        file = getattr(key["artifact"], "file_data", None)
        if file is not None and "sessions/s-2" in (file.file_uri or ""):
            return await super().save_artifact(**{**key, "artifact": Part(text="")})
        return await super().save_artifact(**key)


@BROKEN.breaks("test_bey_7_a_missing")
class SavesReferencesToNothing(InMemoryArtifactService):
    def _followed(self, trail: Any, uri: str) -> Any:
        try:
            return super()._followed(trail, uri)
        except ArtifactNotFoundError as error:
            raise ArtifactNotFoundError("gone") from error


@BROKEN.breaks("test_bey_7_long")
class FollowsForEver(InMemoryArtifactService):
    def _followed(self, trail: Any, uri: str) -> Any:
        trail._steps = -10
        return super()._followed(trail, uri)


@BROKEN.breaks("test_bey_7_a_file_elsewhere")
class LosesTheNamesOfFilesElsewhere(InMemoryArtifactService):
    async def load_artifact(self, **key: Any) -> Part:
        part = await super().load_artifact(**key)
        return part if part.file_data is None else part.replace(file_data=part.file_data.replace(display_name=None))


@BROKEN.breaks("test_bey_7_all")
class ListsTheNewestVersionFirst(InMemoryArtifactService):
    async def list_artifact_versions(self, **key: Any) -> list[ArtifactVersion]:
        return (await super().list_artifact_versions(**key))[::-1]


@BROKEN.breaks("test_bey_7_urls")
class GivesOneUrlForAllVersions(InMemoryArtifactService):
    async def artifact_url(self, **key: Any) -> str:
        return f"https://example.com/{len(key)}"


# --- hashes (BEY-17) -------------------------------------------------------------------------------------------------


@BROKEN.breaks("test_bey_17_a_version")
class KnowsNoHashes(InMemoryArtifactService):
    async def get_artifact_version(self, **key: Any) -> ArtifactVersion:
        return (await super().get_artifact_version(**key)).replace(sha256=None)

    async def list_artifact_versions(self, **key: Any) -> list[ArtifactVersion]:
        return [info.replace(sha256=None) for info in await super().list_artifact_versions(**key)]


@BROKEN.breaks("test_bey_17_identical")
class SavesIdenticalContentAgain(InMemoryArtifactService):
    async def save_artifact(self, **key: Any) -> int:
        return await super().save_artifact(**{**key, "reuse_identical": False})


@BROKEN.breaks("test_bey_17_a_tombstone")
class TakesATombstoneForAnEmptyFile(InMemoryArtifactService):
    async def save_artifact(self, **key: Any) -> int:
        if key.get("reuse_identical") and key["artifact"] == blob(b""):
            return 2
        return await super().save_artifact(**key)


@BROKEN.breaks("test_bey_14_a_users")
class ErasesByTheBeginningOfTheName(InMemoryArtifactService):
    async def delete_user(self, *, app_name: str, user_id: str, session_ids: Iterable[str] = ()) -> int:
        for owner in [owner for owner in self._files if owner[1].startswith(user_id) and owner[1] != user_id]:
            del self._files[owner]
        return await super().delete_user(app_name=app_name, user_id=user_id, session_ids=session_ids)


@pytest.mark.parametrize("name", list(BROKEN.kinds))
async def test_each_broken_backend_fails_its_line_and_no_other(name: str) -> None:
    await BROKEN.assert_caught(name, _Suite)


def test_every_line_is_failed_by_some_broken_backend() -> None:
    assert BROKEN.uncaught(BROKEN.lines) == []


def test_errors_of_the_contract_are_of_one_family() -> None:
    """GEN-6: a caller can catch all of them at once."""
    assert issubclass(ArtifactNotFoundError, HookworkError)
    assert issubclass(ArtifactNotFoundError, FileNotFoundError)
