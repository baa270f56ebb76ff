"""Memory Bank of the fake. Where the service thinks, the fake is plain: each text of a source is a fact.

A fact that is there already in the same scope is updated and not doubled, which is what consolidation comes to. Two
texts are as far from each other as they have few words in common.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.vertexai.fake_sessions import EngineStore, page_of
from tests.vertexai.shapes import (
    GENERATE,
    INGEST,
    MEMORY,
    RETRIEVE,
    Refused,
    accepted,
    bad,
    camel,
    micros_of,
    shown_time,
)

if TYPE_CHECKING:
    from tests.vertexai.fake import FakeVertex

LIMIT = 8 * 1024 * 1024
ID = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")


class MemoryStore:
    """The memories of an engine, and the events of each stream that were not turned into facts yet."""

    def __init__(self, engine: EngineStore) -> None:
        self.engine = engine
        self.memories: dict[str, dict[str, Any]] = {}
        #: scope as JSON → schema id → profile.
        self.profiles: dict[str, dict[str, dict[str, Any]]] = {}
        self.streams: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}


def words(text: str) -> set[str]:
    """The lower-cased words of a text."""
    return set(re.findall(r"\w+", text.lower()))


def distance(query: str, text: str) -> float:
    """0 for texts of the same words, 1 for texts without a common one."""
    ours, theirs = words(query), words(text)
    return 1 - len(ours & theirs) / len(ours | theirs) if ours & theirs else 1.0


class Memories:
    """The methods of MemoryBankService."""

    def __init__(self, fake: FakeVertex) -> None:
        self.fake = fake

    def create(self, store: MemoryStore, _: Any, query: dict[str, str], body: Any) -> dict[str, Any]:
        memory = accepted(MEMORY, body)
        _check_scope(memory.get("scope"))
        id = query.get("memoryId") or self.fake.next_id()
        if "memoryId" in query and not ID.fullmatch(id):
            raise bad(f"Invalid memory id {id}.", "memory_id")
        if id in store.memories:
            raise Refused(409, "ALREADY_EXISTS", f"Memory {id} already exists.")
        made = self._store(store, id, memory)
        return self.fake.operation(f"{made['name']}/operations", "CreateMemory", response=made, kind="Memory")

    def _store(self, store: MemoryStore, id: str, memory: dict[str, Any]) -> dict[str, Any]:
        now = shown_time(self.fake.now())
        name = f"{store.engine.name}/memories/{id}"
        made = {**memory, "name": name, "createTime": now, "updateTime": now}
        store.memories[id] = made
        return made

    def _find(self, store: MemoryStore, id: str) -> dict[str, Any]:
        if id not in store.memories:
            raise Refused(404, "NOT_FOUND", f"The Memory {id} does not exist.")
        return store.memories[id]

    def get(self, store: MemoryStore, id: str, *_: Any) -> dict[str, Any]:
        return self._find(store, id)

    def update(self, store: MemoryStore, id: str, query: dict[str, str], body: Any) -> dict[str, Any]:
        memory = self._find(store, id)
        given = accepted(MEMORY, body)
        mask = {camel(name) for name in query.get("updateMask", "").split(",") if name} or set(given)
        memory.update({name: given[name] for name in mask if name in given and name != "scope"})
        memory["updateTime"] = shown_time(self.fake.now())
        return self.fake.operation(f"{memory['name']}/operations", "UpdateMemory", response=memory, kind="Memory")

    def delete(self, store: MemoryStore, id: str, *_: Any) -> dict[str, Any]:
        self._find(store, id)
        del store.memories[id]
        return self.fake.operation(f"{store.engine.name}/operations", "Delete", response={}, kind=None)

    def list(self, store: MemoryStore, _: Any, query: dict[str, str], body: Any) -> dict[str, Any]:
        memories = list(store.memories.values())
        match = re.fullmatch(r'scope=(?:"((?:[^"\\]|\\.)*)")', query.get("filter", ""))
        if match:
            wanted = json.loads(re.sub(r"\\(.)", r"\1", match[1]))
            memories = [memory for memory in memories if memory["scope"] == wanted]
        return page_of(memories, "memories", query)

    def profiles(self, store: MemoryStore, body: Any) -> dict[str, Any]:
        _check_scope(body.get("scope"))
        found = store.profiles.get(json.dumps(body["scope"], sort_keys=True), {})
        shown = {id: {"schemaId": id, "profile": profile} for id, profile in found.items()}
        return {"profiles": shown} if shown else {}

    def generate(self, store: MemoryStore, _: Any, query: dict[str, str], body: Any) -> dict[str, Any]:
        if len(json.dumps(body, ensure_ascii=False).encode()) > LIMIT:
            raise bad("The request is too large.")
        asked = accepted(GENERATE, body)
        texts, scope = self._source(store, asked)
        scope = asked.get("scope") or scope
        _check_scope(scope)
        generated = [self._consolidate(store, text, scope) for text in texts]
        return self.fake.operation(
            f"{store.engine.name}/operations",
            "GenerateMemories",
            response={"generatedMemories": generated} if generated else {},
            kind="GenerateMemoriesResponse",
            polls=self.fake.memory_polls,
        )

    def _source(self, store: MemoryStore, asked: dict[str, Any]) -> tuple[list[str], dict[str, str] | None]:
        if "vertexSessionSource" in asked:
            return self._of_session(store, asked["vertexSessionSource"])
        if "directContentsSource" in asked:
            events = asked["directContentsSource"].get("events") or []
            return [text for event in events for text in _texts(event.get("content"))], None
        facts = asked.get("directMemoriesSource", {}).get("directMemories") or []
        if not 1 <= len(facts) <= 5:
            raise bad("1 to 5 direct memories are needed.", "direct_memories_source")
        return [fact["fact"] for fact in facts], None

    def _of_session(self, store: MemoryStore, source: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
        engine, _, id = source.get("session", "").rpartition("/sessions/")
        if engine.rpartition("/")[2] != store.engine.name.rpartition("/")[2]:
            raise bad("The session belongs to another engine.", "vertex_session_source.session")
        session = self.fake.sessions.find(store.engine, id)
        start = micros_of(source["startTime"], "start_time") if "startTime" in source else None
        end = micros_of(source["endTime"], "end_time") if "endTime" in source else None
        events = [
            event
            for micros, event in session.events
            if (start is None or micros >= start) and (end is None or micros < end)
        ]
        return [text for event in events for text in _texts(event.get("content"))], {"user_id": session.user}

    def _consolidate(self, store: MemoryStore, fact: str, scope: dict[str, str]) -> dict[str, Any]:
        for memory in store.memories.values():
            if memory["scope"] == scope and words(memory.get("fact", "")) == words(fact):
                memory["updateTime"] = shown_time(self.fake.now())
                return {"memory": {"name": memory["name"]}, "action": "UPDATED"}
        made = self._store(store, self.fake.next_id(), {"fact": fact, "scope": dict(scope)})
        return {"memory": {"name": made["name"]}, "action": "CREATED"}

    def ingest(self, store: MemoryStore, _: Any, query: dict[str, str], body: Any) -> dict[str, Any]:
        asked = accepted(INGEST, body)
        _check_scope(asked.get("scope"))
        key = json.dumps(asked["scope"], sort_keys=True), asked.get("streamId", "")
        stream = store.streams.setdefault(key, {})
        for event in asked.get("directContentsSource", {}).get("events") or []:
            stream[event.get("eventId") or self.fake.next_id()] = event
        if asked.get("forceFlush"):
            for event in stream.values():
                for text in _texts(event.get("content")):
                    self._consolidate(store, text, asked["scope"])
            stream.clear()
        return self.fake.operation(
            f"{store.engine.name}/operations", "IngestEvents", response={}, kind="IngestEventsResponse"
        )

    def retrieve(self, store: MemoryStore, _: Any, query: dict[str, str], body: Any) -> dict[str, Any]:
        asked = accepted(RETRIEVE, body)
        if not asked.get("scope"):
            raise bad("The scope is required.", "scope")
        memories = [memory for memory in store.memories.values() if memory["scope"] == asked["scope"]]
        search = asked.get("similaritySearchParams")
        if search is None:
            return {"retrievedMemories": [{"memory": memory} for memory in memories[:3]]} if memories else {}
        if not search.get("searchQuery"):
            raise bad("The search query is required.", "similarity_search_params.search_query")
        ranked = [(distance(search["searchQuery"], memory.get("fact", "")), memory) for memory in memories]
        ranked = sorted((pair for pair in ranked if pair[0] < 1), key=lambda pair: pair[0])
        found = [{"memory": memory, "distance": far} for far, memory in ranked[: min(search.get("topK") or 3, 100)]]
        return {"retrievedMemories": found} if found else {}


def _texts(content: Any) -> list[str]:
    parts = (content or {}).get("parts") or []
    return [part["text"] for part in parts if part.get("text") and not part.get("thought") and words(part["text"])]


def _check_scope(scope: Any) -> None:
    if not scope:
        raise bad("The scope is required.", "scope")
    if any("*" in value for value in scope.values()):
        raise bad("A scope value must not hold '*'.", "scope")
