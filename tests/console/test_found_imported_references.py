"""Files that events refer to are found where an import puts their session (services BEY-19, BEY-7)."""

from __future__ import annotations

import io
from typing import Any

import pytest

from hookwork.artifact_references import artifact_uri
from hookwork.records.content import Content, FileData, FunctionResponse, FunctionResponsePart, Part
from hookwork.records.event import new_event
from hookwork_console.session_check import check
from hookwork_console.session_export import export_sessions
from hookwork_console.session_import import import_sessions
from hookwork_console.session_lines import by_session, entries
from hookwork_console.session_store import Key
from hookwork_inmemory import InMemoryArtifactService, InMemorySessionService

SOURCE = Key("weather", "ann", "s")
#: References that are somebody else's, or none.
FOREIGN = (
    "artifact://apps/weather/users/eve/sessions/s/artifacts/a/versions/0",
    "artifact://apps/weather/users/ann/sessions/other/artifacts/a/versions/0",
    "artifact://broken",
    "https://example.org/a",
)


def own(key: Key) -> tuple[str, str]:
    user = f"artifact://apps/{key.app_name}/users/{key.user_id}"
    return f"{user}/sessions/{key.session_id}/artifacts/scan.png/versions/0", f"{user}/artifacts/user:me/versions/0"


async def exported(files: InMemoryArtifactService) -> tuple[InMemorySessionService, bytes]:
    sessions = InMemorySessionService()
    session = await sessions.create_session(**SOURCE._asdict())
    for name in ("scan.png", "user:me"):
        await files.save_artifact(**SOURCE._asdict(), filename=name, artifact=Part(text=name))
    scan, me = own(SOURCE)
    media = [FunctionResponsePart(file_data=FileData(file_uri=scan, mime_type="image/png"))]
    response = FunctionResponse(id="c", name="t", response={"ok": True}, parts=media)
    parts = [Part(file_data=FileData(file_uri=uri, mime_type="image/png")) for uri in (scan, me, *FOREIGN)]
    content = Content(role="user", parts=[Part(text="look"), *parts, Part(function_response=response)])
    await sessions.append_event(session, new_event("i", author="user", content=content))
    lines: list[bytes] = []
    async for done in export_sessions(sessions, [SOURCE], lines.append, files):
        assert not done.failure
    return sessions, b"".join(lines)


@pytest.mark.parametrize(
    "where", [{}, {"user_id": "bob"}, {"app_name": "rain"}, {"app_name": "rain", "user_id": "bob"}, {"new": True}]
)
async def test_bey_19_references_follow_the_session(where: dict[str, Any]) -> None:
    files = InMemoryArtifactService(first_version=0)
    sessions, text = await exported(files)
    new, where = "new" in where, {key: value for key, value in where.items() if key != "new"}
    if not new:
        sessions, files = InMemorySessionService(), InMemoryArtifactService(first_version=0)
    stream, done = io.BytesIO(text), []
    checked = await check(sessions, stream, "file.jsonl", **{"app_name": None, "user_id": None, **where})
    stream.seek(0)
    await import_sessions(
        sessions,
        by_session(entries(stream)),
        checked.planned,
        artifacts=files,
        on_conflict="new-id",
        done=done.append,
        note=lambda text: None,
    )
    target = Key(where.get("app_name", "weather"), where.get("user_id", "ann"), done[0].stored_as)
    assert (target.session_id != "s") == new

    session = await sessions.get_session(**target._asdict())
    [event] = session.events
    assert event.content is not None
    uris = [part.file_data.file_uri for part in event.content.parts if part.file_data is not None]
    assert tuple(uris) == (*own(target), *FOREIGN)
    [part] = event.function_responses[0].parts or ()
    assert artifact_uri(part.file_data) == own(target)[0]
