"""The files of sessions in `hookwork sessions export` and `import` (services BEY-19, ART-4, ART-6)."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.console.session_files import event_line, file_of, session
from tests.console.test_sessions import filled as filled
from tests.console.test_sessions import here as here
from tests.console.test_sessions import words

from hookwork.errors import ValidationError
from hookwork.records.content import Blob, FileData, Part
from hookwork.services import ArtifactService
from hookwork_console.session_check import check
from hookwork_console.session_export import export_sessions
from hookwork_console.session_import import Imported, import_sessions
from hookwork_console.session_lines import by_session, entries
from hookwork_console.session_store import Place
from hookwork_files import FileArtifactService
from hookwork_inmemory import InMemoryArtifactService, InMemorySessionService

KEY: dict[str, Any] = {"app_name": "weather", "user_id": "u1", "session_id": "s1"}
PICTURE = Part(inline_data=Blob(data=b"\x89PNG\x00\xff", mime_type="image/png", display_name="Bild ä"))


class Stores:
    """A store of sessions and one of files, and what goes in and out."""

    def __init__(self, **options: Any) -> None:
        self.sessions = InMemorySessionService()
        self.files: ArtifactService = InMemoryArtifactService(**options)

    async def export(self) -> bytes:
        lines: list[bytes] = []
        place = Place(service=self.sessions, app_name="weather", user_id=None, name="store")
        async for done in export_sessions(self.sessions, await place.keys(), lines.append, self.files):
            assert not done.failure
        return b"".join(lines)

    async def import_file(self, stream: io.BytesIO, **how: Any) -> list[Imported]:
        checked = await check(self.sessions, stream, "file.jsonl")
        assert checked.problems == []
        done: list[Imported] = []
        stream.seek(0)
        await import_sessions(
            self.sessions,
            by_session(entries(stream)),
            checked.planned,
            artifacts=self.files,
            done=done.append,
            note=lambda text: None,
            **how,
        )
        return done

    async def versions(self, name: str) -> list[tuple[int, Part]]:
        numbers = await self.files.list_versions(**KEY, filename=name)
        return [(n, await self.files.load_artifact(**KEY, filename=name, version=n)) for n in numbers]


@pytest_asyncio.fixture
async def stores() -> AsyncIterator[Stores]:
    """Two sessions of one user: files with gaps, one of the user's, text and bytes."""
    made = Stores()
    for name in ("s1", "s2"):
        await made.sessions.create_session(**{**KEY, "session_id": name})
    for text in ("one", "two", "three"):
        await made.files.save_artifact(**KEY, filename="a.txt", artifact=Part(text=text), custom_metadata={"t": text})
    await made.files.delete_artifact(**KEY, filename="a.txt", version=2)
    await made.files.save_artifact(**KEY, filename="b.png", artifact=PICTURE)
    await made.files.save_artifact(**KEY, filename="b.png", artifact=PICTURE)
    await made.files.delete_artifact(**KEY, filename="b.png", version=1)
    await made.files.save_artifact(**KEY, filename="user:c.txt", artifact=Part(text=""))
    yield made


async def test_bey_19_files_go_out_and_in_with_their_numbers(stores: Stores) -> None:
    """Those of the user once, whatever his sessions; and what was imported exports the same again."""
    text = await stores.export()
    named = [json.loads(line) for line in text.splitlines()]
    files = [(line["artifact"], line["version"]) for line in named if "artifact" in line]
    assert files == [("a.txt", 1), ("a.txt", 3), ("b.png", 2), ("user:c.txt", 1)]
    copy = Stores()
    done = await copy.import_file(io.BytesIO(text))
    assert [(one.events, one.artifacts, one.kept) for one in done] == [(0, 4, ()), (0, 0, ())]
    assert await copy.versions("a.txt") == [(1, Part(text="one")), (3, Part(text="three"))]
    assert await copy.versions("b.png") == [(2, PICTURE)]
    assert await copy.versions("user:c.txt") == [(1, Part(text=""))]
    info = await copy.files.get_artifact_version(**KEY, filename="a.txt", version=3)
    assert info.custom_metadata == {"t": "three"}
    again = [line for line in (await copy.export()).splitlines() if b'"artifact"' in line]
    assert again == [line for line in text.splitlines() if b'"artifact"' in line]


async def test_bey_19_files_the_store_has_stay(stores: Stores) -> None:
    text = await stores.export()
    copy = Stores()
    await copy.files.save_artifact(**KEY, filename="user:c.txt", artifact=Part(text="mine"))
    (first, _) = await copy.import_file(io.BytesIO(text))
    assert (first.artifacts, first.kept) == (3, ("user:c.txt",))
    assert await copy.versions("user:c.txt") == [(1, Part(text="mine"))]


async def test_bey_19_a_failure_leaves_no_file_of_the_session(stores: Stores) -> None:
    """A store that counts from 1 cannot take google-adk's version 0: the session goes again, with its files."""
    lines = [session(), event_line("e1"), {"artifact": "a.txt", "version": 1, "part": {"text": "x"}}]
    zero = {"artifact": "z.txt", "version": 0, "part": {"text": "x"}}
    copy = Stores()
    with pytest.raises(ValidationError, match="first_version=0"):
        await copy.import_file(file_of(*lines, zero))
    assert await copy.files.list_artifacts(**KEY) == []
    assert await copy.sessions.list_sessions(app_name="weather") == []
    from_zero = Stores(first_version=0)
    (done,) = await from_zero.import_file(file_of(*lines, zero))
    assert done.artifacts == 2
    assert await from_zero.versions("a.txt") == [(1, Part(text="x"))]
    assert await from_zero.versions("z.txt") == [(0, Part(text="x"))]


async def test_bey_19_a_session_under_a_new_id_has_its_files_there(stores: Stores) -> None:
    text = await stores.export()
    (done, _) = await stores.import_file(io.BytesIO(text), on_conflict="new-id")
    assert done.stored_as not in (None, "s1")
    key = {**KEY, "session_id": done.stored_as}
    assert await stores.files.list_versions(**key, filename="a.txt") == [1, 3]
    assert done.kept == ("user:c.txt",)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (
            [{"artifact": "a", "version": 1, "part": {"text": "x"}}],
            "line 1: an artifact stands before the first session",
        ),
        ([session(), {"artifact": "", "version": 1, "part": {"text": "x"}}], "line 2: Artifact at artifact"),
        ([session(), {"artifact": "a", "version": -1, "part": {"text": "x"}}], "line 2: Artifact at version"),
        ([session(), {"artifact": "a", "version": "one", "part": {"text": "x"}}], "line 2: Artifact at version"),
        ([session(), {"artifact": "a", "version": 1}], "line 2: Artifact at part"),
        (
            [session(), *[{"artifact": "a", "version": n, "part": {"text": "x"}} for n in (2, 1)]],
            "line 3: version 1 of 'a' stands behind version 2",
        ),
    ],
)
async def test_cod_7_a_broken_line_is_told_before_anything_is_stored(lines: list[Any], problem: str) -> None:
    checked = await check(InMemorySessionService(), file_of(*lines), "file.jsonl")
    assert len(checked.problems) == 1
    assert problem in checked.problems[0]


def test_the_commands_take_a_store_of_files(filled: Path, hookwork: Any, here: Path) -> None:
    """Without it files are left out, and import says so."""
    import asyncio

    async def save() -> None:
        files = FileArtifactService(here / "files")
        await files.save_artifact(**KEY, filename="a.txt", artifact=Part(text="hello"))
        await files.close()

    asyncio.run(save())
    out = hookwork(*words("export", "--all", "-o", "all.jsonl"), "--artifacts", (here / "files").as_uri())
    assert (out.code, out.err) == (0, "2 session(s), 2 event(s), 1 version(s) of artifacts in all.jsonl\n")
    into = ("sessions", "import", "all.jsonl", "--sessions", "sqlite:///copy.db")
    out = hookwork(*into)
    assert (out.code, out.err) == (0, "1 version(s) of artifacts are left out; --artifacts URL stores them too\n")
    (here / "copy.db").unlink()
    out = hookwork(*into, "--artifacts", (here / "copied").as_uri())
    assert (out.code, out.err) == (0, "")
    assert "imported s1 (user u1): 2 event(s), 1 version(s) of artifacts" in out.out

    async def load() -> Part:
        return await FileArtifactService(here / "copied").load_artifact(**KEY, filename="a.txt")

    assert asyncio.run(load()) == Part(text="hello")
    out = hookwork(*into, "--artifacts", "memory:")
    assert out.code == 1
    assert "artifacts in memory end with the process" in out.err


async def test_bey_19_a_file_elsewhere_and_a_reference_go_along() -> None:
    """BEY-7: the one keeps its URI, the other becomes what it stands for."""
    one, other = Stores(), Stores()
    await one.sessions.create_session(**KEY)
    far = Part(file_data=FileData(file_uri="https://example.com/a.pdf", mime_type="application/pdf"))
    await one.files.save_artifact(**KEY, filename="far.pdf", artifact=far)
    await one.files.save_artifact(**KEY, filename="pic.png", artifact=PICTURE)
    uri = "artifact://apps/weather/users/u1/sessions/s1/artifacts/pic.png/versions/1"
    await one.files.save_artifact(**KEY, filename="copy.png", artifact=Part(file_data=FileData(file_uri=uri)))
    await other.import_file(io.BytesIO(await one.export()))
    assert await other.files.load_artifact(**KEY, filename="far.pdf") == far
    assert await other.files.load_artifact(**KEY, filename="copy.png") == PICTURE
    assert (await other.files.get_artifact_version(**KEY, filename="copy.png")).file_uri is None
