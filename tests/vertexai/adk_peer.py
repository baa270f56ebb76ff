"""Run by an interpreter that has google-adk 2.13 with its client: its own services on the fake.

python adk_peer.py URL ENGINE read USER SESSION          prints {"state": …, "events": [camelCase JSON …]}
python adk_peer.py URL ENGINE append USER SESSION TEXT   appends an event, with TEXT as the state "theirs", then reads
python adk_peer.py URL ENGINE create USER SESSION        creates a session
python adk_peer.py URL ENGINE remember USER FACT         keeps a fact in Memory Bank for the app "shop"
python adk_peer.py URL ENGINE search USER QUERY          prints the facts that Memory Bank finds for it
"""

from __future__ import annotations

import asyncio
import json
import sys

import agentplatform
from google.adk.events import Event, EventActions
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.memory.vertex_ai_memory_bank_service import VertexAiMemoryBankService
from google.adk.sessions.vertex_ai_session_service import VertexAiSessionService
from google.genai import types
from google.oauth2.credentials import Credentials


def client_of(url):
    return agentplatform.Client(
        project="ours",
        location="us-central1",
        credentials=Credentials(token="token"),
        http_options=types.HttpOptions(base_url=url),
    ).aio


class Sessions(VertexAiSessionService):
    url = ""

    def _build_api_client(self):
        return client_of(self.url)


class Memories(VertexAiMemoryBankService):
    url = ""

    def _build_api_client(self):
        return client_of(self.url)


async def main(url, engine, what, user, *more):
    """Do it."""
    Sessions.url = Memories.url = url
    if what in ("remember", "search"):
        memories = Memories(project="ours", location="us-central1", agent_engine_id=engine)
        if what == "remember":
            content = types.Content(parts=[types.Part(text=more[0])], role="user")
            await memories.add_memory(app_name="shop", user_id=user, memories=[MemoryEntry(content=content)])
        found = await memories.search_memory(app_name="shop", user_id=user, query=more[0])
        print(json.dumps([entry.content.parts[0].text for entry in found.memories]))
        return
    service = Sessions(project="ours", location="us-central1", agent_engine_id=engine)
    key = {"app_name": engine, "user_id": user, "session_id": more[0]}
    if what == "create":
        await service.create_session(**key, state={"k": 1})
    session = await service.get_session(**key)
    if what == "append":
        content = types.Content(parts=[types.Part(text=more[1])], role="model")
        delta = EventActions(state_delta={"theirs": more[1]})
        await service.append_event(
            session, Event(author="agent", invocation_id="inv-theirs", content=content, actions=delta)
        )
        session = await service.get_session(**key)
    events = [event.model_dump(mode="json", by_alias=True, exclude_none=True) for event in session.events]
    print(json.dumps({"state": dict(session.state), "events": events}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
