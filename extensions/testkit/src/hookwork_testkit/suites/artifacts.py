"""The artifact suite: services §8.3, the lines that hold on every backend."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from hookwork.errors import (
    ArtifactNotFoundError,
    ArtifactVersionConflictError,
    HookworkError,
    ValidationError,
)
from hookwork.platform import use_clock
from hookwork.records.content import Blob, FunctionCall, Part
from hookwork.services import ArtifactService
from hookwork_testkit.suites.artifact_base import blob
from hookwork_testkit.suites.artifact_references import ArtifactReferences
from hookwork_testkit.suites.artifact_streams import ArtifactStreams

#: The names of CASE-ART-1, in code-point order.
PEOPLES_NAMES = [
    ".env",
    "A.txt",
    "Bericht März 50%.pdf",
    "a#b?c.txt",
    "a.txt",
    "user:profil bild.png",
    "数据.csv",
]


class ArtifactServiceSuite(ArtifactStreams, ArtifactReferences):
    """Subclass it in a test module and say how a service is made; options: `ArtifactSuiteBase`."""

    async def test_ca_01_versions_count_up(self, service: ArtifactService) -> None:
        first = service.first_version
        assert await self.save(service, "a.bin", b"1", b"2", b"3") == [first, first + 1, first + 2]
        assert await self.save(service, "b.bin", b"1") == [first]
        assert await self.save(service, "a.bin", b"1", session="s-2") == [first]
        assert await self.save(service, "a.bin", b"1", user="u2") == [first]

    async def test_ca_02_load_latest_and_by_version(self, service: ArtifactService) -> None:
        first = service.first_version
        await self.save(service, "a.bin", b"1", b"2", b"3")
        assert await self.load(service, "a.bin") == b"3"
        assert await self.load(service, "a.bin", version=first) == b"1"
        assert await self.load(service, "a.bin", version=first + 1) == b"2"
        assert await self.load(service, "a.bin", version=0) == (b"3" if first > 0 else b"1")
        await self.save(service, "t.txt", Part(text="hello"))
        assert await service.load_artifact(**self.at("t.txt")) == Part(text="hello")

    async def test_ca_03_lists_are_sorted_and_complete(self, service: ArtifactService) -> None:
        """ART-7, ART-8: names by code point, versions ascending."""
        for name in ("b.bin", "a.bin", "user:c.bin", "Z.bin", "a.bin"):
            await self.save(service, name, b"1")
        assert await service.list_artifacts(**self.at()) == ["Z.bin", "a.bin", "b.bin", "user:c.bin"]
        first = service.first_version
        assert await service.list_versions(**self.at("a.bin")) == [first, first + 1]
        assert await service.list_artifacts(**self.at(session="s-2")) == ["user:c.bin"]

    async def test_ca_04_deleting_the_newest_frees_its_number(self, service: ArtifactService) -> None:
        first = service.first_version
        await self.save(service, "a.bin", b"1", b"2", b"3")
        await service.delete_artifact(**self.at("a.bin"), version=first + 2)
        assert await self.load(service, "a.bin") == b"2"
        assert await service.list_versions(**self.at("a.bin")) == [first, first + 1]
        assert await self.save(service, "a.bin", b"4") == [first + 2]
        await service.delete_artifact(**self.at("a.bin"), version=first + 1)
        assert await service.list_versions(**self.at("a.bin")) == [first, first + 2]
        assert await self.save(service, "a.bin", b"5") == [first + 3]

    async def test_ca_05_deleting_all(self, service: ArtifactService) -> None:
        """ART-7, ART-8, ART-9: the name disappears, and asking for its versions is an error."""
        await self.save(service, "a.bin", b"1", b"2")
        await service.delete_artifact(**self.at("a.bin"))
        await self.assert_absent(service, "a.bin")
        assert await self.save(service, "a.bin", b"3") == [service.first_version]

    async def test_ca_06_user_files_are_seen_from_every_session(self, service: ArtifactService) -> None:
        """ART-6: the name keeps its prefix everywhere."""
        first = service.first_version
        name = "user:notes.txt"
        assert await self.save(service, name, b"1", session="s-1") == [first]
        assert await self.save(service, name, b"2", session="s-2") == [first + 1]
        assert await self.save(service, "notes.txt", b"session", session="s-1") == [first]
        assert await self.load(service, name, session="s-3") == b"2"
        assert await self.load(service, name, session="s-4", version=first) == b"1"
        assert await service.list_versions(**self.at(name, session="s-5")) == [first, first + 1]
        assert await service.list_artifacts(**self.at(session="s-1")) == ["notes.txt", name]
        assert await service.list_artifacts(**self.at(session="s-6")) == [name]
        assert (await service.get_artifact_version(**self.at(name, session="s-7"))).version == first + 1
        await self.assert_absent(service, name, user="u2")
        await service.delete_artifact(**self.at(name, session="s-8"))
        await self.assert_absent(service, name)
        assert await self.load(service, "notes.txt") == b"session"

    async def test_bey_14_a_users_files_are_erased_and_nobody_elses(self, service: ArtifactService) -> None:
        """Those of sessions and of the user, all versions; a second call, and a user that never was, are no error."""
        for session in ("s-1", "s-2"):
            await self.save(service, "a.txt", b"1", b"2", session=session)
        await self.save(service, "user:b.txt", b"3")
        others = [{"user": user} for user in ("u10", "u", "ú1", "u%")] + [{"user": "u1", "app_name": "suite-other"}]
        for other in others:
            await self.save(service, "a.txt", b"kept", **other)
            await self.save(service, "user:b.txt", b"kept", **other)
        user: dict[str, Any] = {"app_name": self.app_name, "user_id": "u1"}
        assert await service.delete_user(**user, session_ids=["s-1", "s-2", "without/files"]) == 3
        for session in ("s-1", "s-2", "s-3"):
            assert await service.list_artifacts(**self.at(session=session)) == []
            await self.assert_absent(service, "a.txt", session=session)
            await self.assert_absent(service, "user:b.txt", session=session)
        for other in others:
            assert (
                await self.load(service, "a.txt", **other) == await self.load(service, "user:b.txt", **other) == b"kept"
            )
        assert await service.delete_user(**user, session_ids=["s-1"]) == 0
        assert await service.delete_user(app_name=self.app_name, user_id="nobody") == 0
        assert await self.save(service, "a.txt", b"again") == [service.first_version]
        for wrong in ("", ".."):
            with pytest.raises(ValidationError):
                await service.delete_user(app_name=self.app_name, user_id=wrong)

    async def test_ca_07_an_empty_store(self, service: ArtifactService) -> None:
        """ART-7, ART-9: an empty list, and nothing to delete is no error."""
        await self.assert_absent(service, "a.bin")
        assert await service.list_artifacts(**self.at()) == []
        await service.delete_artifact(**self.at("a.bin"))

    async def test_ca_08_deleting_a_missing_version_succeeds(self, service: ArtifactService) -> None:
        await self.save(service, "a.bin", b"1")
        await service.delete_artifact(**self.at("a.bin"), version=99)
        assert await self.load(service, "a.bin") == b"1"

    async def test_ca_09_what_is_known_of_a_version(self, service: ArtifactService) -> None:
        first = service.first_version
        with use_clock(lambda: datetime(2025, 1, 1, tzinfo=UTC)):
            await self.save(service, "pic ä.png", blob(b"1", "image/png"), blob(b"2", "image/jpeg"))
            await self.save(service, "t.txt", Part(text="t"))
        latest = await service.get_artifact_version(**self.at("pic ä.png"))
        older = await service.get_artifact_version(**self.at("pic ä.png"), version=first)
        assert (latest.version, latest.mime_type) == (first + 1, "image/jpeg")
        assert (older.version, older.mime_type) == (first, "image/png")
        assert latest.create_time is not None
        assert latest.create_time.tzinfo is not None
        assert "://" in latest.canonical_uri
        assert latest.canonical_uri != older.canonical_uri
        assert " " not in latest.canonical_uri
        assert latest.canonical_uri.isascii()
        assert latest.custom_metadata in (None, {})
        assert (await service.get_artifact_version(**self.at("t.txt"))).mime_type == "text/plain"
        for name, version in (("pic ä.png", 99), ("absent", None), ("absent", 1)):
            with pytest.raises(ArtifactNotFoundError):
                await service.get_artifact_version(**self.at(name), version=version)
            with pytest.raises(ArtifactNotFoundError):
                await service.load_artifact(**self.at(name), version=version)

    async def test_ca_10_missing_fields_are_named_in_order(self, service: ArtifactService) -> None:
        whole = {**self.at("a.bin"), "artifact": blob(b"1")}
        order = ["app_name", "user_id", "session_id", "filename", "artifact"]
        for missing in ([name] for name in order):
            await self._assert_names_missing(service, whole, missing)
        await self._assert_names_missing(service, whole, ["app_name", "session_id", "artifact"])
        await self._assert_names_missing(service, whole, order)
        with pytest.raises(ValidationError):
            await service.list_artifacts(app_name="", user_id="u1", session_id="s-1")

    async def _assert_names_missing(self, service: ArtifactService, whole: dict[str, Any], missing: list[str]) -> None:
        blanked = {**whole, **{name: None if name == "artifact" else "" for name in missing}}
        with pytest.raises(ValidationError) as refusal:
            await service.save_artifact(**blanked)
        text = str(refusal.value)
        places = [text.find(name) for name in missing]
        assert min(places) >= 0, text
        assert places == sorted(places), text
        assert not [name for name in whole if name not in missing and name in text]

    async def test_ca_10_what_is_no_file(self, service: ArtifactService) -> None:
        """ART-2: text or bytes; the URI of a file is BEY-7."""
        call = Part(function_call=FunctionCall(id="c", name="f"))
        for part in (Part(), call):
            with pytest.raises(ValidationError):
                await service.save_artifact(**self.at("a.bin"), artifact=part)
        assert await service.list_artifacts(**self.at()) == []

    async def test_ca_10_names_and_ids_that_are_refused(self, service: ArtifactService) -> None:
        names = ["a/b", "a\\b", ".", "..", "user:", "user:..", "user:a/b", "a\x00b", "a\nb", "a\x7fb", "x" * 513]
        for name in [*names, "ä" * 257, "x/y.txt", "a/versions/3", "half \ud83d"]:
            await self._assert_refused(service, self.at(name))
        for wrong in ("..", ".", "a/b", "a\\b", "a\x01"):
            for field in ("app_name", "user_id", "session_id"):
                await self._assert_refused(service, {**self.at("a.bin"), field: wrong})
        await self._assert_refused(service, self.at("a.bin", session="user"))
        assert await service.list_artifacts(**self.at()) == []

    async def _assert_refused(self, service: ArtifactService, key: dict[str, Any]) -> None:
        calls: list[Callable[[], Any]] = [
            lambda: service.save_artifact(**key, artifact=blob(b"1")),
            lambda: service.load_artifact(**key),
            lambda: service.get_artifact_version(**key),
            lambda: service.list_versions(**key),
            lambda: service.delete_artifact(**key),
        ]
        for call in calls:
            with pytest.raises(ValidationError):
                await call()

    async def test_ca_11_versions_are_numbers_not_text(self, service: ArtifactService) -> None:
        """ART-8: ascending as numbers."""
        first = service.first_version
        versions = await self.save(service, "a.bin", *(b"%d" % n for n in range(12)))
        assert versions == list(range(first, first + 12))
        assert await service.list_versions(**self.at("a.bin")) == versions
        assert await self.load(service, "a.bin") == b"11"

    async def test_ca_12_contents_come_back_exact(self, service: ArtifactService) -> None:
        """ART-2, ART-11: an empty text is a file as well."""
        for number, data in enumerate((b"", bytes(range(256)), b"\x00" * (8 << 20))):
            part = blob(data, "image/png", "Bild ä.png")
            await self.save(service, f"{number}.png", part)
            found = await service.load_artifact(**self.at(f"{number}.png"))
            assert found == part, f"{len(data)} bytes"
        for text in ("", "Zeile\nÄ 🎈"):
            await self.save(service, "t.txt", Part(text=text))
            assert await service.load_artifact(**self.at("t.txt")) == Part(text=text)
        await self.save(service, "untyped", Part(inline_data=Blob(data=b"1")))
        found = await service.load_artifact(**self.at("untyped"))
        assert found.inline_data is not None
        assert found.inline_data.mime_type == (await service.get_artifact_version(**self.at("untyped"))).mime_type
        assert found.inline_data.mime_type

    async def test_ca_13_ten_concurrent_saves(self, service: ArtifactService) -> None:
        """ART-12: each has its number, without a gap."""
        contents = [b"%d" % n for n in range(10)]
        versions = await asyncio.gather(
            *(service.save_artifact(**self.at("a.bin"), artifact=blob(data)) for data in contents)
        )
        first = service.first_version
        assert sorted(versions) == list(range(first, first + 10))
        for version, data in zip(versions, contents, strict=True):
            assert await self.load(service, "a.bin", version=version) == data

    async def test_ca_14_no_aliasing(self, service: ArtifactService) -> None:
        """ART-11, ART-14: neither the caller's part nor a loaded one is the stored one."""
        data: Any = bytearray(b"original")
        metadata: dict[str, Any] = {"source": "one"}
        await service.save_artifact(**self.at("a.bin"), artifact=blob(data), custom_metadata=metadata)
        data[:] = b"changed!"
        metadata["source"] = "two"
        part: Any = await service.load_artifact(**self.at("a.bin"))
        info: Any = await service.get_artifact_version(**self.at("a.bin"))
        for attempt in (
            lambda: setattr(part.inline_data, "data", b"forged"),
            lambda: setattr(part, "inline_data", None),
            lambda: info.custom_metadata.update(source="forged"),
        ):
            with pytest.raises((TypeError, AttributeError, HookworkError)):
                attempt()
        assert await self.load(service, "a.bin") == b"original"
        assert (await service.get_artifact_version(**self.at("a.bin"))).custom_metadata == {"source": "one"}

    async def test_ca_15_negative_versions_are_refused(self, service: ArtifactService) -> None:
        """ART-5, ART-14."""
        await self.save(service, "a.bin", b"1")
        for ask in (service.load_artifact, service.get_artifact_version, service.delete_artifact):
            with pytest.raises(ValidationError):
                await ask(**self.at("a.bin"), version=-1)
        assert await self.load(service, "a.bin") == b"1"

    async def test_ca_16_names_people_use(self, service: ArtifactService) -> None:
        """CASE-ART-1."""
        long = ["x" * 512, "ä" * 256]
        for name in [*reversed(PEOPLES_NAMES), *long, "versions", "3", " blank "]:
            await self.save(service, name, name.encode(), name.encode() + b"!")
        names = await service.list_artifacts(**self.at())
        assert [name for name in names if name in PEOPLES_NAMES] == PEOPLES_NAMES
        assert names == sorted([*PEOPLES_NAMES, *long, "versions", "3", " blank "])
        first = service.first_version
        for name in names:
            assert await self.load(service, name) == name.encode() + b"!", name
            assert await service.list_versions(**self.at(name)) == [first, first + 1], name

    async def test_ca_16_nested_names(self) -> None:
        service = await self.make_nested_service()
        if service is None:
            pytest.skip("the backend has no option nested_names")
        for name in ("x/y.txt", "x", "user:x/y.txt"):
            await self.save(service, name, name.encode())
        assert await service.list_artifacts(**self.at()) == ["user:x/y.txt", "x", "x/y.txt"]
        assert await self.load(service, "x/y.txt") == b"x/y.txt"
        assert await self.load(service, "x") == b"x"
        assert await service.list_versions(**self.at("x")) == [service.first_version]
        for name in ("a/versions/3", "a/3", "a//b", "/a", "a/", "a/../b", "..", "a/./b", "user:a/../b", "a\\b"):
            await self._assert_refused(service, self.at(name))
        await service.close()

    async def test_ca_17_custom_metadata(self, service: ArtifactService) -> None:
        await service.save_artifact(
            **self.at("a.bin"), artifact=blob(b"1"), custom_metadata={"source": "camera", "Ünï": "ä"}
        )
        info = await service.get_artifact_version(**self.at("a.bin"))
        assert info.custom_metadata == {"source": "camera", "Ünï": "ä"}
        for key in ("adkIsText", "hookworkSaveId", "adk"):
            with pytest.raises(ValidationError):
                await service.save_artifact(**self.at("b.bin"), artifact=blob(b"1"), custom_metadata={key: "x"})
        await self.assert_absent(service, "b.bin")

    async def test_art_17_a_tombstone_hides_the_file(self, service: ArtifactService) -> None:
        first = service.first_version
        await self.save(service, "a.bin", b"1")
        tomb = await service.save_artifact(
            **self.at("a.bin"), artifact=blob(b""), custom_metadata={"hookworkTombstone": "true"}
        )
        assert tomb == first + 1
        for version in (None, tomb):
            with pytest.raises(ArtifactNotFoundError):
                await service.load_artifact(**self.at("a.bin"), version=version)
            with pytest.raises(ArtifactNotFoundError):
                await service.get_artifact_version(**self.at("a.bin"), version=version)
        assert await service.list_artifacts(**self.at()) == []
        assert await self.save(service, "a.bin", b"3") == [first + 2]
        assert await self.load(service, "a.bin") == b"3"
        assert await service.list_artifacts(**self.at()) == ["a.bin"]
        await self.save(service, "empty.bin", b"")
        assert await self.load(service, "empty.bin") == b"", "an empty file is no tombstone"

    async def test_ca_20_save_ids_make_a_save_repeatable(self, service: ArtifactService) -> None:
        """ART-15: a repeat writes nothing, other content is a conflict."""
        first = service.first_version
        key = self.at("a.bin")
        assert await service.save_artifact(**key, artifact=blob(b"1"), save_id="e-1") == first
        assert await service.save_artifact(**key, artifact=blob(b"2"), save_id="e-2") == first + 1
        assert await service.save_artifact(**key, artifact=blob(b"1"), save_id="e-1") == first
        with pytest.raises(ArtifactVersionConflictError):
            await service.save_artifact(**key, artifact=blob(b"other"), save_id="e-1")
        assert await service.list_versions(**key) == [first, first + 1]
        assert (await service.get_artifact_version(**key)).custom_metadata in (None, {})
        assert await service.save_artifact(**self.at("b.bin"), artifact=blob(b"1"), save_id="e-1") == first

    async def test_gen_4_use_after_close_raises(self) -> None:
        service = await self.make_service()
        await self.save(service, "a.bin", b"1")
        await service.close()
        await service.close()
        with pytest.raises(HookworkError):
            await self.load(service, "a.bin")
        with pytest.raises(HookworkError):
            await self.save(service, "a.bin", b"2")
