"""Writes ``google_adk_memory.sqlite`` next to it with google-adk's own SQLite memory; see ``make_google_adk.py``.

A full-text index cannot be kept as a dump of SQL text, so this one stays a file.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from pathlib import Path

from google.adk.events.event import Event
from google.adk.memory._sqlite_memory_service import SqliteMemoryService
from google.genai import types

TEXTS = ("The Quick brown fox", "我最喜欢的项目是北极星计划", "snake_case and Straße")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        service = SqliteMemoryService(path)
        events = [
            Event(
                id=f"evt-{number}",
                author="user",
                timestamp=1735689600.5 + number,
                content=types.Content(role="user", parts=[types.Part(text=text)]),
            )
            for number, text in enumerate(TEXTS)
        ]
        await service.add_events_to_memory(app_name="golden", user_id="u1", session_id="s", events=events)
        await service.close()
        target = Path(__file__).with_name("google_adk_memory.sqlite")
        target.unlink(missing_ok=True)
        db = sqlite3.connect(path)
        db.execute("VACUUM INTO ?", (str(target),))
        db.close()


if __name__ == "__main__":
    asyncio.run(main())
