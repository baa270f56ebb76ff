"""`hookwork sessions` on a terminal of its own: questions, and text that would steer the terminal (servers CLI-7)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.console.session_files import event

from hookwork_database import DatabaseSessionService

Start = Callable[..., Any]
STORE = ("--sessions", "sqlite:///chat.db", "--app", "weather")


@pytest.fixture
async def store(folder: Path) -> Path:
    """A session whose id, state and text hold control characters, and a plain one."""
    service = DatabaseSessionService(f"sqlite:///{folder / 'chat.db'}")
    for id in ("s1", "evil\x1b[2J"):
        handle = await service.create_session(
            app_name="weather", user_id="u1", session_id=id, state={"k\x9b": "\x1b]0;x\x07"}
        )
        await service.append_event(handle, event("e1", "red\x1b[31m\x9b5m"))
    await service.close()
    return folder


@pytest.mark.parametrize("name", ["list", "show s1", "list --json", "show s1 --json", "export --all"])
def test_stored_text_never_steers_the_terminal(name: str, store: Path, start: Start) -> None:
    console = start("sessions", *name.split(), *STORE, pipe=False)
    assert console.finish()[0] == 0
    assert "\x1b" not in console.shown.replace("\x1b[90m", "").replace("\x1b[0m", "")
    assert "\x9b" not in console.shown
    assert "\x07" not in console.shown
    if "json" in name or "export" in name:
        found = [json.loads(line) for line in console.shown.splitlines() if line.startswith("{")]
        assert found
        assert found[0]["state"] == {"k\x9b": "\x1b]0;x\x07"}


def test_delete_asks_and_no_is_the_default(store: Path, start: Start) -> None:
    console = start("sessions", "delete", "s1", *STORE, pipe=False)
    console.expect("s1 (user u1)")
    console.expect("Delete 1 session(s) of app weather? [y/N]")
    console.type("\n")
    console.expect("nothing was deleted")
    assert console.finish()[0] == 1
    console = start("sessions", "delete", "s1", *STORE, pipe=False)
    console.expect("[y/N]")
    console.type("y\n")
    console.expect("deleted s1 (user u1)")
    assert console.finish()[0] == 0


def test_ctrl_c_at_the_question_deletes_nothing(store: Path, start: Start) -> None:
    console = start("sessions", "delete", "s1", *STORE, pipe=False)
    console.expect("[y/N]")
    console.type("\x03")
    assert console.finish()[0] == 130
    console = start("sessions", "show", "s1", *STORE)
    assert console.finish()[1].startswith("session  s1")
