"""Writes the golden databases next to it, with google-adk itself.

Run it in an environment of its own that has google-adk 2.13 and aiosqlite, never in the project's:

    python make_google_adk.py

Both of google-adk's services write the same three sessions; each database is kept as a dump of SQL text. Beside them
stands ``google_adk.json``: what google-adk reads back from its own database.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.schemas import v0
from google.adk.sessions.session import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types
from sqlalchemy import create_engine, orm

HERE = Path(__file__).parent
START = 1735689600.123456


def text(value: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=value)])


def events() -> list[Event]:
    """Events of every kind that google-adk's own flow writes."""
    call = types.FunctionCall(
        id="adk-c1", name="get_weather", args={"city": "Zürich", "days": 3, "stateDelta": {"a_b": None}}
    )
    answer = types.FunctionResponse(id="adk-c1", name="get_weather", response={"result": {"t": 21.5, "ok": True}})
    signed = types.Part(function_call=call, thought_signature=b"\xfb\xff\xfe-_")
    delta = {"city": "Zürich", "app:count": 1, "user:lang": "de", "none": None, "f": 0.1 + 0.2, "big": 10**17}
    compaction = EventCompaction(start_timestamp=START, end_timestamp=START + 2, compacted_content=text("summary"))
    made = [
        Event(author="user", content=text("What is the weather? 🌤 数据")),
        Event(
            author="weather_agent",
            content=types.Content(role="model", parts=[signed]),
            long_running_tool_ids={"adk-c1"},
            usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=11, candidates_token_count=0),
            finish_reason=types.FinishReason.STOP,
            model_version="gemini-test",
            custom_metadata={"snake_key": [0, "", None]},
            branch="root.weather_agent",
        ),
        Event(
            author="weather_agent",
            content=types.Content(role="user", parts=[types.Part(function_response=answer)]),
            actions=EventActions(
                state_delta=delta,
                artifact_delta={"a.png": 0},
                requested_tool_confirmations={"adk-c1": ToolConfirmation(hint="sure?", payload={"n": 1})},
                transfer_to_agent="other",
                escalate=True,
            ),
        ),
        Event(
            author="weather_agent",
            content=types.Content(
                role="model",
                parts=[
                    types.Part(text="thinking", thought=True),
                    types.Part(inline_data=types.Blob(data=bytes(range(256)), mime_type="image/png")),
                    types.Part(file_data=types.FileData(file_uri="gs://b/o", mime_type="video/mp4")),
                    types.Part(text="21.5 °C"),
                ],
            ),
            grounding_metadata=types.GroundingMetadata(web_search_queries=["weather"]),
            turn_complete=True,
        ),
        Event(author="weather_agent", error_code="MALFORMED_FUNCTION_CALL", error_message="x" * 20000),
        Event(
            author="user",
            actions=EventActions(compaction=compaction),
        ),
    ]
    for number, event in enumerate(made):
        event.id = f"evt-{number}"
        event.invocation_id = f"inv-{number // 4}"
        event.timestamp = round(START + number * 0.5, 6)
    made[4].timestamp = made[3].timestamp  # two events of one time
    return made


async def fill(service: Any) -> None:
    """Three sessions: full, empty, and one whose clock ran backwards."""
    full = await service.create_session(
        app_name="golden",
        user_id="u1",
        session_id="full",
        state={"i": {"n": [1]}, "app:name": "golden", "user:tz": "CET"},
    )
    full.last_update_time = 9e9  # google-adk's SQLite service compares with it; the events below carry old times
    for event in events():
        full.last_update_time = 9e9
        await service.append_event(full, event)
    await service.create_session(app_name="golden", user_id="u2", session_id="empty")
    back = await service.create_session(app_name="golden", user_id="u1", session_id="backwards")
    for number, at in enumerate((5.0, 1.0, 3.0)):
        back.last_update_time = 9e9
        event = Event(id=f"b-{number}", invocation_id="inv", author="user", content=text(str(at)), timestamp=START + at)
        event.actions.state_delta["at"] = at
        await service.append_event(back, event)


async def read(service: Any) -> dict[str, Any]:
    """What google-adk finds in its own database."""
    found: dict[str, Any] = {}
    for user, name in (("u1", "full"), ("u2", "empty"), ("u1", "backwards")):
        session = await service.get_session(app_name="golden", user_id=user, session_id=name)
        found[name] = {
            "state": session.state,
            "last_update_time": session.last_update_time,
            "events": [event.model_dump(mode="json", exclude_none=True, by_alias=True) for event in session.events],
        }
    return found


def dump(path: Path, name: str) -> None:
    """Keep a database as text."""
    with sqlite3.connect(path) as db:
        (HERE / name).write_text("\n".join(db.iterdump()) + "\n", encoding="utf-8")
    db.close()


def fill_version_0(path: Path) -> None:
    """The same events in the tables of schema version 0, whose actions are pickles."""
    engine = create_engine(f"sqlite:///{path}")
    v0.Base.metadata.create_all(engine)
    at = datetime.fromtimestamp(START, UTC).replace(tzinfo=None)
    key = {"app_name": "golden", "user_id": "u1"}
    with orm.Session(engine) as db:
        db.add(v0.StorageSession(**key, id="full", state={"city": "Zürich"}, create_time=at, update_time=at))
        db.add(v0.StorageAppState(app_name="golden", state={"count": 1}, update_time=at))
        db.add(v0.StorageUserState(**key, state={"lang": "de"}, update_time=at))
        for event in events():
            db.add(v0.StorageEvent.from_event(Session(**key, id="full"), event))
        db.commit()
    engine.dispose()


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, kind in (("google_adk_v1", "v1"), ("google_adk_sqlite", "sqlite")):
            path = Path(folder) / f"{name}.db"
            service: Any
            if kind == "v1":
                service = DatabaseSessionService(f"sqlite+aiosqlite:///{path}")
            else:
                service = SqliteSessionService(str(path))
            await fill(service)
            found = await read(service)
            await service.close()
            dump(path, f"{name}.sql")
            (HERE / f"{name}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        path = Path(folder) / "v0.db"
        fill_version_0(path)
        dump(path, "google_adk_v0.sql")


if __name__ == "__main__":
    asyncio.run(main())
