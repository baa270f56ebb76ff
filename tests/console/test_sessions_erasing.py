"""`hookwork sessions erase-user` (services BEY-14), and deleted keys in an export (BEY-13, BEY-19)."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.console.test_sessions import STORE, Hookwork, stored, words
from tests.console.test_sessions import filled as filled
from tests.console.test_sessions import here as here

from hookwork.records.content import Part
from hookwork.records.deleted import deleting
from hookwork.services import SessionService
from hookwork_database import DatabaseSessionService, memory_service
from hookwork_files import FileArtifactService
from hookwork_testkit.suites.base import say

KEY: dict[str, Any] = {"app_name": "weather", "user_id": "u1", "session_id": "s1"}


@pytest.fixture
def more(filled: Path, here: Path) -> list[str]:
    """Files and memories of u1 and u2 beside the sessions; the options that name the stores."""

    async def fill() -> None:
        files, memory = FileArtifactService(here / "files"), memory_service("sqlite:///memory.db")
        sessions = DatabaseSessionService(STORE)
        for user, session_id in (("u1", "s1"), ("u2", "s2")):
            key = {**KEY, "user_id": user, "session_id": session_id}
            handle = await sessions.get_session(**key)
            await sessions.append_event(handle, say("the secret", author="user"))
            await memory.add_session_to_memory(handle)
            for name in ("a.txt", "user:b.txt"):
                await files.save_artifact(**key, filename=name, artifact=Part(text="private"))
        for service in (files, memory, sessions):
            await service.close()

    asyncio.run(fill())
    return ["--artifacts", f"file://{here}/files", "--memory", "sqlite:///memory.db"]


async def _remembered(user: str) -> int:
    memory = memory_service("sqlite:///memory.db")
    try:
        return len(await memory.search_memory(app_name="weather", user_id=user, query="secret"))
    finally:
        await memory.close()


def test_bey_14_one_command_erases_a_user_everywhere(more: list[str], here: Path, hookwork: Hookwork) -> None:
    erase = words("erase-user", "u1", "--yes", *more)
    result = hookwork(*erase)
    assert (result.code, result.err) == (0, "")
    assert result.out == "erased user u1 of app weather: 1 session(s), 2 file(s), 3 memory entries\n"
    lines = [json.loads(line) for line in stored().splitlines()]
    assert [line["id"] for line in lines if "appName" in line] == ["s2"]
    assert sorted(path.name for path in (here / "files/apps/weather/users").iterdir()) == ["u2"]
    assert asyncio.run(_remembered("u1")) == 0
    assert asyncio.run(_remembered("u2")) == 1
    again = hookwork(*erase, "--json")
    assert again.code == 0
    assert json.loads(again.out) == {
        "userId": "u1",
        "appName": "weather",
        "sessions": 0,
        "artifacts": 0,
        "memories": 0,
    }


def test_bey_14_stores_of_the_settings_are_erased_too(more: list[str], here: Path, hookwork: Hookwork) -> None:
    (here / "hookwork.toml").write_text(
        f'sessions = "{STORE}"\nartifacts = "file://{here}/files"\nmemory = "sqlite:///memory.db"\n'
    )
    result = hookwork("sessions", "erase-user", "u2", "--app", "weather", "--yes")
    assert result.out == "erased user u2 of app weather: 1 session(s), 2 file(s), 1 memory entries\n"


def test_bey_14_erasing_asks_and_without_a_person_wants_yes(
    filled: Path, hookwork: Hookwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    before = stored()
    result = hookwork(*words("erase-user", "u1"))
    assert (result.code, stored()) == (64, before)
    assert "--yes" in result.err


def test_bey_14_what_a_store_cannot_erase_is_named(
    filled: Path, hookwork: Hookwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1; the rest is gone."""
    monkeypatch.setattr(DatabaseSessionService, "delete_user", SessionService.delete_user)

    async def remember() -> None:
        service = DatabaseSessionService(STORE)
        await service.append_event(await service.get_session(**KEY), say("x", delta={"user:name": "Ann"}))
        await service.close()

    asyncio.run(remember())
    result = hookwork(*words("erase-user", "u1", "--yes"))
    assert (result.code, result.out) == (1, "")
    assert "erased 1 sessions; not erased: state of the user (user: keys)" in result.err
    assert [json.loads(line)["id"] for line in stored().splitlines()] == ["s2"]


def test_bey_19_an_export_with_deleted_keys_comes_back_without_a_remark(
    filled: Path, here: Path, hookwork: Hookwork
) -> None:
    """The key is absent behind the import as it was before."""

    async def delete() -> None:
        service = DatabaseSessionService(STORE)
        session = await service.get_session(**KEY)
        await service.append_event(session, say("x", delta={"gone": 1, "kept": 1}))
        await service.append_event(session, deleting(say("x"), ["gone"]))
        await service.close()

    asyncio.run(delete())
    exported = hookwork(*words("export", "s1", "--output", "s1.jsonl"))
    assert exported.code == 0, exported.err
    result = hookwork("sessions", "import", "s1.jsonl", "--sessions", "sqlite:///copy.db")
    assert (result.code, result.err) == (0, "")

    async def read() -> dict[str, Any]:
        service = DatabaseSessionService("sqlite:///copy.db")
        try:
            return dict((await service.get_session(**KEY)).state)
        finally:
            await service.close()

    state = asyncio.run(read())
    assert "gone" not in state
    assert state["kept"] == 1
