"""What it costs to open a SQLite session of 1,000 turns whose log nobody has loaded (budgets S6).

    python tests/benchmarks/session_open.py

Each figure is a median over fresh processes, which open either the newest 50 events or all 2,000. ``first`` is the
first open of its process, with the connection, the threads and the codec's readers made on the way. Before ``next``
another session was opened, so that only the log is cold.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TURNS, TAIL, PROCESSES = 1000, 50, 9
QUESTION = "What is the weather in Tokyo today, and should I take an umbrella?"
ANSWER = "It rains in Tokyo until the evening, with a light wind from the sea; take an umbrella and a warm coat along."
KEY: dict[str, Any] = {"app_name": "bench", "user_id": "u"}


async def fill(path: str) -> None:
    """Two sessions of 1,000 turns, each made by runs as any."""
    from hookwork import App, Runner
    from hookwork_llm import LlmAgent
    from hookwork_testkit import ScriptedModel

    agent = LlmAgent(name="root", model=ScriptedModel(lambda _: ANSWER), instruction="Answer briefly.")
    async with Runner(App(name=KEY["app_name"], root=agent), sessions=f"sqlite:///{path}") as runner:
        for session in ("a", "b"):
            for _ in range(TURNS):
                async for _event in runner.run(user_id=KEY["user_id"], session_id=session, message=QUESTION):
                    pass


async def measure(path: str, tail: int | None) -> dict[str, float]:
    """Milliseconds of both opens in this process."""
    from hookwork_database import session_service

    service = session_service(f"sqlite:///{path}")
    found: dict[str, float] = {}
    for label, session in (("first", "a"), ("next", "b")):
        start = time.perf_counter()
        opened = await service.get_session(**KEY, session_id=session, tail=tail)
        found[label] = (time.perf_counter() - start) * 1e3
        assert len(opened.events) == (tail or 2 * TURNS), len(opened.events)
    await service.close()
    return found


def main() -> None:
    """Print milliseconds, and for whole logs microseconds an event."""
    if len(sys.argv) > 1:
        tail = int(sys.argv[2])
        print(json.dumps(asyncio.run(measure(sys.argv[1], tail or None))))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "bench.db")
        asyncio.run(fill(path))
        for tail in (TAIL, 0):
            command = [sys.executable, __file__, path, str(tail)]
            runs = [json.loads(subprocess.check_output(command, text=True)) for _ in range(PROCESSES)]
            for label in ("first", "next"):
                ms = statistics.median(run[label] for run in runs)
                each = "" if tail else f", {ms * 1e3 / (2 * TURNS):.1f} µs an event"
                print(f"{f'tail of {tail}' if tail else 'everything':12} {label:6} {ms:6.2f} ms{each}")


if __name__ == "__main__":
    main()
