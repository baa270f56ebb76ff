"""google-adk on a database that Hookwork wrote to; run by an interpreter that has google-adk 2.13.

    python adk_peer.py v1|sqlite PATH_OR_URL APP USER SESSION [append TEXT EPOCH KEY ...]
    python adk_peer.py tables URL APP USER SESSION      (only makes its tables)

Prints as JSON what google-adk reads, after appending one event if asked to.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types


async def main(kind: str, where: str, app: str, user: str, session_id: str, *rest: str) -> None:
    """Carry out one command line."""
    service: Any = SqliteSessionService(where) if kind == "sqlite" else DatabaseSessionService(where)
    key = {"app_name": app, "user_id": user, "session_id": session_id}
    session = await service.get_session(**key)
    if kind == "tables":
        print("{}")
        await service.close()
        return
    if rest:
        _, text, at, *names = rest
        event = Event(
            invocation_id="adk",
            author="user",
            content=types.Content(role="user", parts=[types.Part(text=text)]),
            timestamp=float(at),
        )
        event.actions.state_delta.update(dict.fromkeys(names, text))
        await service.append_event(session, event)
        session = await service.get_session(**key)
    events = [event.model_dump(mode="json", exclude_none=True, by_alias=True) for event in session.events]
    print(json.dumps({"state": session.state, "last_update_time": session.last_update_time, "events": events}))
    await service.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
