"""Several processes on one SQLite file, and processes that are killed (spec DBP-2, DBP-3; services DB-10)."""

from __future__ import annotations

import signal
import sqlite3
from pathlib import Path

import pytest
from tests.database import processes, servers

from hookwork_database import session_service


@pytest.mark.parametrize("keys", ["disjoint", "common"])
async def test_db_13_two_processes_on_one_session(tmp_path: Path, keys: str) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    service = session_service(url)
    await processes.check_two_at_once(service, url, 1000, keys)
    await service.close()


async def test_bey_10_two_processes_count_by_rule(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    service = session_service(url)
    await processes.check_two_count_by_rule(service, url, 200)
    await service.close()


@pytest.mark.slow
async def test_db_13_shared_keys_of_two_sessions_are_all_kept(tmp_path: Path) -> None:
    """4,000 of 4,000 (spec §4)."""
    url = f"sqlite:///{tmp_path}/s.db"
    service, other = session_service(url), session_service(url)
    await servers.check_shared_keys_of_two_sessions_are_all_kept(service, other, 1000)
    await service.close()
    await other.close()


async def test_db_10_two_processes_start_on_no_file(tmp_path: Path) -> None:
    for number in range(3):
        await processes.check_both_start_on_nothing(f"sqlite:///{tmp_path}/{number}.db")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["normal", "full"])
async def test_dbp_3_what_was_reported_survives_kill_9(tmp_path: Path, mode: str) -> None:
    """Twelve times: the file is sound, holds every event that was reported, and no state without its event."""
    path = tmp_path / "s.db"
    url = f"sqlite:///{path}?synchronous={mode}"
    service = session_service(url)
    session = await service.create_session(app_name="app", user_id="user", session_id="s")
    for round_number in range(12):
        worker = await processes.start("endless", url, "s")
        assert worker.stdout is not None
        reported = -1
        for _ in range(5 + 7 * round_number):
            reported = int(await worker.stdout.readline())
        worker.send_signal(signal.SIGKILL)
        reported = max([reported, *map(int, (await worker.stdout.read()).split()[-1:])])
        await worker.wait()
        await service.refresh(session)
        texts = [event.text for event in session.events]
        assert texts == [str(number) for number in range(len(texts))]
        assert len(texts) > reported
        assert session.state["n"] == session.state["app:n"] == len(texts) - 1
    await service.close()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
