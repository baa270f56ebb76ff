"""What only the in-memory artifact service promises (services ART-10, TRAP-28)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from hookwork.errors import ArtifactNotFoundError, BackendError, ValidationError
from hookwork.platform import use_clock
from hookwork.records.content import Blob, Part
from hookwork.services import ArtifactVersion
from hookwork_inmemory import InMemoryArtifactService

KEY: dict[str, Any] = {"app_name": "my app", "user_id": "u/1".replace("/", "@"), "session_id": "s"}
PART = Part(inline_data=Blob(data=b"1", mime_type="image/png"))


async def test_art_10_all_five_fields_and_the_uri() -> None:
    service = InMemoryArtifactService(nested_names=True)
    with use_clock(lambda: datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)):
        await service.save_artifact(**KEY, filename="a b/ä#?%.png", artifact=PART, custom_metadata={"k": "v"})
        await service.save_artifact(**KEY, filename="user:x y", artifact=PART)
    assert await service.get_artifact_version(**KEY, filename="a b/ä#?%.png") == ArtifactVersion(
        version=1,
        canonical_uri=("memory://apps/my%20app/users/u%401/sessions/s/artifacts/a%20b/%C3%A4%23%3F%25.png/versions/1"),
        custom_metadata={"k": "v"},
        create_time=datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        mime_type="image/png",
        sha256="6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",  # of "1": sha256sum
    )
    info = await service.get_artifact_version(**KEY, filename="user:x y")
    assert info.canonical_uri == "memory://apps/my%20app/users/u%401/artifacts/user%3Ax%20y/versions/1"


async def test_trap_28_numbers_can_be_kept_from_coming_back() -> None:
    service = InMemoryArtifactService(reuse_versions=False)
    for expected in (1, 2):
        assert await service.save_artifact(**KEY, filename="a", artifact=PART) == expected
    await service.delete_artifact(**KEY, filename="a", version=2)
    assert await service.save_artifact(**KEY, filename="a", artifact=PART) == 3
    await service.delete_artifact(**KEY, filename="a")
    with pytest.raises(ArtifactNotFoundError):
        await service.load_artifact(**KEY, filename="a")
    assert await service.list_artifacts(**KEY) == []
    assert await service.save_artifact(**KEY, filename="a", artifact=PART) == 4


async def test_art_11_a_file_is_text_or_bytes_and_nothing_else() -> None:
    """Other fields of a part do not survive a durable backend, so they do not survive here."""
    service = InMemoryArtifactService()
    await service.save_artifact(**KEY, filename="a", artifact=Part(text="t", thought=True, part_metadata={"x": 1}))
    assert await service.load_artifact(**KEY, filename="a") == Part(text="t")
    await service.save_artifact(**KEY, filename="b", artifact=Part(inline_data=Blob()))
    found = await service.load_artifact(**KEY, filename="b")
    assert found == Part(inline_data=Blob(data=b"", mime_type="application/octet-stream"))


async def test_art_10_metadata_json_cannot_hold_is_refused() -> None:
    service = InMemoryArtifactService()
    with pytest.raises(ValidationError, match="custom_metadata"):
        await service.save_artifact(**KEY, filename="a", artifact=PART, custom_metadata={"k": object()})
    with pytest.raises(ValidationError, match="artifact"):
        await service.save_artifact(**KEY, filename="a", artifact="text")  # type: ignore[arg-type]
    assert await service.list_artifacts(**KEY) == []


async def test_no_empty_boxes_are_left_behind() -> None:
    service = InMemoryArtifactService()
    await service.save_artifact(**KEY, filename="a", artifact=PART)
    await service.delete_artifact(**KEY, filename="a")
    assert service._files == {}


async def test_bey_14_a_save_that_cannot_prune_is_a_save(caplog: pytest.LogCaptureFixture) -> None:
    """What was saved is saved: older versions that stay are a warning."""

    class Stuck(InMemoryArtifactService):
        async def delete_artifact(self, **key: Any) -> None:
            raise BackendError("the disk is read-only")

    service = Stuck(keep_versions=1)
    for text in ("one", "two"):
        await service.save_artifact(**KEY, filename="a.txt", artifact=Part(text=text))
    assert await service.list_versions(**KEY, filename="a.txt") == [1, 2]
    assert [record.getMessage() for record in caplog.records] == [
        "older versions of artifact 'a.txt' could not be removed: the disk is read-only"
    ]


async def test_bey_14_a_save_prunes_by_age() -> None:
    service = InMemoryArtifactService(max_age=3600)
    moments = [datetime(2026, 1, 1, hour, minute, tzinfo=UTC) for hour, minute in ((0, 0), (0, 30), (1, 15), (9, 0))]
    found = []
    for moment in moments:
        with use_clock(lambda moment=moment: moment):  # type: ignore[misc]
            await service.save_artifact(**KEY, filename="a.txt", artifact=Part(text="x"))
        found.append(await service.list_versions(**KEY, filename="a.txt"))
    assert found == [[1], [1, 2], [2, 3], [4]]
