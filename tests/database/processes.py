"""Starting `worker` processes, and the laws that hold between them on any database (spec §4)."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from hookwork.services import SessionService

_WORKER = str(Path(__file__).with_name("worker.py"))


async def start(*arguments: str) -> asyncio.subprocess.Process:
    """A worker process."""
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(sys.executable, _WORKER, *arguments, stdout=pipe, stderr=pipe)


async def output(process: asyncio.subprocess.Process) -> str:
    """What a worker printed, once it has ended well."""
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode().strip()


async def check_two_at_once(service: SessionService, url: str, number: int, keys: str) -> None:
    """Two processes append to one session; every event is there once and no count is lost."""
    await service.create_session(app_name="app", user_id="user", session_id="s")
    workers = [await start("append", url, "s", str(number), keys, name) for name in ("a", "b")]
    told = [tuple(map(int, (await output(worker)).split())) for worker in workers]
    assert [done for done, _ in told] == [number, number]
    session = await service.get_session(app_name="app", user_id="user", session_id="s")
    texts = [event.text for event in session.events]
    assert sorted(texts) == sorted(f"{name} {n}" for name in ("a", "b") for n in range(number))
    for name in ("a", "b"):  # each writer's events stand in its own order
        assert [text for text in texts if text.startswith(name)] == [f"{name} {n}" for n in range(number)]
    if keys == "common":
        assert session.state["n"] == session.state["app:n"] == 2 * number
    else:
        assert [stale for _, stale in told] == [0, 0], "keys of their own never make stale"
        for name in ("a", "b"):
            assert session.state[f"n_{name}"] == session.state[f"app:n_{name}"] == number


async def check_two_count_by_rule(service: SessionService, url: str, number: int) -> None:
    """Two processes run an agent on one session; by the rules of the app every increment counts (services BEY-10)."""
    await service.create_session(app_name="app", user_id="user", session_id="s")
    workers = [await start("count", url, "s", str(number), name) for name in ("a", "b")]
    assert [await output(worker) for worker in workers] == ["done", "done"]
    state = (await service.get_session(app_name="app", user_id="user", session_id="s")).state
    assert state["count"] == state["app:count"] == 2 * number
    assert sorted(state["log"]) == ["a"] * number + ["b"] * number


async def check_both_start_on_nothing(url: str) -> None:
    """Two processes create the tables and one session at the same moment (services DB-10)."""
    workers = [await start("create", url, "s") for _ in range(2)]
    assert sorted([await output(worker) for worker in workers]) == ["created", "taken"]
