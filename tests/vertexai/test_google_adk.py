"""google-adk's own services and ours share sessions and memories on the fake (services §5.3, VMB-2, TRAP-18)."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.vertexai.fake import FakeVertex

from hookwork.records.codec import load
from hookwork.records.event import Event, EventCompaction, ExcludedEvent
from hookwork_testkit.suites.base import BASE_TIME, say
from hookwork_testkit.suites.samples import every_event_field, every_part
from hookwork_vertexai import VertexAiMemoryBankService, VertexAiSessionService

SCRIPT = Path(__file__).with_name("adk_peer.py")
#: An interpreter that has google-adk 2.13 and google-cloud-agentplatform.
PEER = os.environ.get("GOOGLE_ADK_PYTHON", "")
pytestmark = pytest.mark.skipif(not PEER, reason="GOOGLE_ADK_PYTHON names no interpreter with google-adk")


async def peer(fake: FakeVertex, *words: str) -> Any:
    """What google-adk prints."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        PEER, "-W", "ignore", str(SCRIPT), fake.url, "42", *words, stdout=pipe, stderr=pipe
    )
    out, err = await process.communicate()
    if b"ModuleNotFoundError: No module named 'agentplatform'" in err:
        pytest.skip("that google-adk is installed without google-cloud-agentplatform")
    assert process.returncode == 0, err.decode()
    return json.loads(out.splitlines()[-1])


def as_adk_reads(document: dict[str, Any]) -> Event:
    """The event of google-adk's own JSON, without the empty maps it always writes."""
    for key in ("requestedAuthConfigs", "requestedToolConfirmations"):
        if not document["actions"].get(key):
            document["actions"].pop(key, None)
    return load(Event, document)


async def test_google_adk_and_hookwork_take_turns(fake: FakeVertex) -> None:
    await peer(fake, "create", "u", "s-1")
    service = VertexAiSessionService("ours", "us-central1", "42", base_url=fake.url, token_source=lambda: "t")
    session = await service.get_session(app_name="42", user_id="u", session_id="s-1")
    assert dict(session.state) == {"k": 1}
    for number in range(2):
        await service.append_event(session, say(f"ours {number}", delta={"ours": number, "user:ours": number}))
        found = await peer(fake, "append", "u", "s-1", f"theirs {number}")
        assert await service.refresh(session) == 1
        assert found["state"] == dict(session.state)
        assert [as_adk_reads(document) for document in found["events"]] == list(session.events)
    assert [event.text for event in session.events] == ["ours 0", "theirs 0", "ours 1", "theirs 1"]
    await service.close()


async def test_act_3_google_adk_opens_a_session_with_every_field_that_we_write(fake: FakeVertex) -> None:
    """TRAP-20: one unknown key in the actions would make it fail on the whole session."""
    service = VertexAiSessionService("ours", "us-central1", "42", base_url=fake.url, token_source=lambda: "t")
    session = await service.create_session(app_name="42", user_id="u", session_id="s-1")
    event = every_event_field()
    # google-adk knows these only in forms of its own.
    plain = event.actions.replace(requested_tool_confirmations=None)
    await service.append_event(session, event.replace(actions=plain, requested_input=None))
    record = EventCompaction(
        start_timestamp=BASE_TIME,
        end_timestamp=BASE_TIME + 1,
        compacted_content=say("summary").content,
        excluded_events=(ExcludedEvent(invocation_id="inv-0", timestamp=BASE_TIME),),
    )
    await service.append_event(session, say("x", at=2).replace(actions=plain.replace(compaction=record)))
    content = say("").content
    assert content is not None
    await service.append_event(session, say("", at=1).replace(content=content.replace(parts=every_part())))
    found = await peer(fake, "read", "u", "s-1")
    assert [document["id"] for document in found["events"]] == [event.id for event in session.events]
    assert found["events"][0]["usageMetadata"]["candidatesTokenCount"] == 5
    assert found["events"][1]["actions"]["compaction"]["startTimestamp"] == BASE_TIME
    await service.close()


async def test_vmb_2_google_adk_and_hookwork_see_the_same_memories(fake: FakeVertex) -> None:
    assert await peer(fake, "remember", "u", "likes green tea") == ["likes green tea"]
    memory = VertexAiMemoryBankService("ours", "us-central1", "42", base_url=fake.url, token_source=lambda: "t")
    (entry,) = await memory.search_memory(app_name="shop", user_id="u", query="tea")
    assert entry.content is not None
    assert entry.content.text == "likes green tea"
    await memory.add_memory(
        app_name="shop", user_id="u", entries=[entry.replace(id="", content=say("has a cat").content)]
    )
    assert await peer(fake, "search", "u", "cat") == ["has a cat"]
    await memory.close()
