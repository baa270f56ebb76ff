"""Memory in Vertex AI Memory Bank (services §6.3)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal

from hookwork.errors import HookworkError, SessionNotFoundError, ValidationError
from hookwork.records.event import Event
from hookwork.records.session import Session
from hookwork.records.text import clean
from hookwork.services import MemoryEntry, MemoryService
from hookwork_vertexai.api import READS, Api, ApiError, typed
from hookwork_vertexai.facts import (
    batches,
    check_scope_keys,
    entry_of,
    fact_of,
    memory_ids,
    metadata_values,
    moment_micros,
    source_event,
)
from hookwork_vertexai.identity import TokenSource, identity_of
from hookwork_vertexai.listing import PAGE, pages, quoted
from hookwork_vertexai.loaded import LoadedSession, LooseSession
from hookwork_vertexai.names import base_url_of, check_texts, checked_engine, checked_place, engine_of, last_segment
from hookwork_vertexai.operations import finished
from hookwork_vertexai.wire import epoch_of_micros, rfc3339

if TYPE_CHECKING:
    import httpx

#: Seconds that memories may take to be generated, when that is waited for.
GENERATION_DEADLINE = 300.0
#: Most facts of one request (services §6.3).
FACTS = 5


class VertexAiMemoryBankService(MemoryService):
    """Memories that an Agent Engine instance draws from sessions. One event loop for each service.

    Args:
        project, location, engine, base_url, credentials, token_source, api_key, client, timeout: as for
            `VertexAiSessionService`.
        scope_keys: what memories are kept apart by: ``("app_name", "user_id")`` as google-adk does, or
            ``("user_id",)`` as ADK-Go does; also as text with a comma. One kind never sees the other's (VMB-2).
        top_k: most entries that a search gives, 1 to 100; None: the service's own number, 3.
        wait_for_completion: whether `add_session_to_memory` waits until the memories are generated.
        start_time_key: state key whose value, a time, epoch seconds or ISO text, is where in a session the source
            begins (VMB-3).
        source: ``session`` names the session where that lies in the same engine, and sends the events of others;
            ``events`` always sends the events.

    Raises:
        ValidationError: an option has no valid value.
    """

    def __init__(
        self,
        project: str | None = None,
        location: str | None = None,
        engine: str | None = None,
        *,
        scope_keys: str | Sequence[str] = ("app_name", "user_id"),
        top_k: int | None = None,
        wait_for_completion: bool = False,
        start_time_key: str | None = None,
        source: Literal["session", "events"] = "session",
        base_url: str | None = None,
        credentials: Any = None,
        token_source: TokenSource | None = None,
        api_key: str | None = None,
        client: httpx.AsyncClient | None = None,
        timeout: float = 60.0,
    ) -> None:
        if top_k is not None and (type(top_k) is not int or not 1 <= top_k <= 100):
            raise ValidationError(f"top_k must be a whole number from 1 to 100 or None, not {top_k!r}", path="top_k")
        if source not in ("session", "events"):
            raise ValidationError(f"source must be 'session' or 'events', not {source!r}", path="source")
        identity = identity_of(credentials, token_source, api_key)
        self.place = checked_place(project, location, express=api_key is not None)
        self.engine = None if engine is None else checked_engine(engine)
        self.scope_keys = check_scope_keys(scope_keys)
        self.top_k = top_k
        self.wait_for_completion = wait_for_completion
        self.start_time_key = start_time_key
        self.source = source
        self._api = Api(base_url_of(base_url, self.place), identity, timeout=timeout, client=client)

    # --- adding -------------------------------------------------------------------------------------------------------

    async def add_session_to_memory(self, session: Session) -> None:
        """See `MemoryService.add_session_to_memory`. The service merges what it knows already, so repeats are harmless.

        What a rewind hides is not remembered. Raises SessionNotFoundError when the engine does not know the session.
        """
        self._api.check_open()
        if not isinstance(session, Session):
            raise ValidationError(f"session must be a Session, not {type(session).__name__}", path="session")
        engine, scope = self._scope(session.app_name, session.user_id)
        start = self._start(session)
        if self._is_here(session, engine):
            source = {"session": session.backend.name, **({} if start is None else {"startTime": rfc3339(start)})}
            missing = SessionNotFoundError(f"no session {session.id!r} in {engine}; it cannot be remembered")
            await self._generate(engine, {"vertexSessionSource": source, "scope": scope}, missing)
            return
        since = None if start is None else epoch_of_micros(start)
        events = [event for event in session.live_events if since is None or event.timestamp >= since]
        for batch in batches(filter(None, map(source_event, events))):
            await self._generate(engine, {"directContentsSource": {"events": batch}, "scope": scope})

    def _is_here(self, session: Session, engine: str) -> bool:
        """Whether the engine holds the session, and what it holds is what the session shows (VMB-5)."""
        backend = session.backend
        if self.source == "events" or session.log.has_rewinds:
            return False
        return isinstance(backend, LoadedSession | LooseSession) and backend.name == f"{engine}/sessions/{session.id}"

    def _start(self, session: Session) -> int | None:
        key = self.start_time_key
        if key is None:
            return None
        if key not in session.state:
            raise ValidationError(f"state has no {key!r}, which is to say where the source begins", path=key)
        return moment_micros(session.state[key], key)

    async def _generate(self, engine: str, body: Mapping[str, Any], missing: HookworkError | None = None) -> None:
        try:
            operation = await self._api.request("POST", f"{engine}/memories:generate", body=body)
            if self.wait_for_completion or operation.get("done"):
                await finished(self._api, operation, deadline=GENERATION_DEADLINE)
        except ApiError as error:
            raise typed(error, missing=missing) from error

    async def add_events_to_memory(
        self, *, app_name: str, user_id: str, events: Sequence[Event], session_id: str = "", flush: bool = False
    ) -> None:
        """See `MemoryService.add_events_to_memory`: ``memories:ingestEvents`` with the session as stream (BEY-6).

        The service makes memories of a stream when it sees fit, or when it is flushed; an event id counts once in it.
        """
        engine, scope = self._scope(app_name, user_id)
        found = [source_event(event, identified=True) for event in events]
        sent = list(batches(filter(None, found))) or [[]]
        for number, batch in enumerate(sent, 1):
            body: dict[str, Any] = {"scope": scope, "directContentsSource": {"events": batch}}
            if session_id:
                body["streamId"] = session_id
            if flush and number == len(sent):
                body["forceFlush"] = True
            try:
                operation = await self._api.request("POST", f"{engine}/memories:ingestEvents", body=body)
                if self.wait_for_completion or operation.get("done"):
                    await finished(self._api, operation, deadline=GENERATION_DEADLINE)
            except ApiError as error:
                raise typed(error) from error

    async def add_memory(
        self, *, app_name: str, user_id: str, entries: list[MemoryEntry], consolidate: bool = False
    ) -> None:
        """See `MemoryService.add_memory`. An entry's text is kept as a fact; one of an id that exists is changed.

        Args:
            consolidate: let the service merge the facts with what it knows; ids and metadata are not kept then.

        Raises:
            ValidationError: an entry has no text, or its id is one of another scope.
        """
        engine, scope = self._scope(app_name, user_id)
        facts = [fact_of(entry) for entry in entries]
        if consolidate:
            for start in range(0, len(facts), FACTS):
                direct = [{"fact": fact} for fact in facts[start : start + FACTS]]
                await self._generate(engine, {"directMemoriesSource": {"directMemories": direct}, "scope": scope})
            return
        for entry, fact in zip(entries, facts, strict=True):
            await self._add(engine, scope, entry, fact)

    async def _add(self, engine: str, scope: Mapping[str, str], entry: MemoryEntry, fact: str) -> None:
        body = {"fact": fact, "scope": scope}
        metadata = metadata_values(entry.custom_metadata)
        if metadata:
            body["metadata"] = metadata
        ids = memory_ids(entry.id) if entry.id else [""]
        try:
            for id in ids[:-1]:  # one that the service made itself can only be changed
                if await self._changed(f"{engine}/memories/{id}", scope, fact):
                    return
            params = {"memoryId": ids[-1]} if ids[-1] else None
            try:
                await finished(
                    self._api, await self._api.request("POST", f"{engine}/memories", body=body, params=params)
                )
            except ApiError as error:
                taken = error.status == 409 or (error.status == 400 and "already exists" in str(error))
                if not (taken and params and await self._changed(f"{engine}/memories/{ids[-1]}", scope, fact)):
                    raise
        except ApiError as error:
            raise typed(error) from error

    async def _changed(self, name: str, scope: Mapping[str, str], fact: str) -> bool:
        """Give a memory another text; False when there is none of that name."""
        try:
            found = await self._api.get(name)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        if found.get("scope") != scope:
            raise ValidationError("the memory of that id is somebody else's; choose another id", path="entries")
        await finished(
            self._api, await self._api.request("PATCH", name, body={"fact": fact}, params={"updateMask": "fact"})
        )
        return True

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str) -> None:
        """See `MemoryService.delete_memory`. An absent one, or one of another scope, is no error and stays as it is."""
        engine, scope = self._scope(app_name, user_id)
        if not isinstance(memory_id, str) or not memory_id.strip():
            raise ValidationError("memory_id must be non-empty text", path="memory_id")
        for id in memory_ids(memory_id):
            try:
                if (await self._api.get(f"{engine}/memories/{id}")).get("scope") == scope:
                    await finished(self._api, await self._api.request("DELETE", f"{engine}/memories/{id}"))
                return
            except ApiError as error:
                if error.status != 404:
                    raise typed(error) from error

    async def delete_user(self, *, app_name: str, user_id: str) -> int:
        """See `MemoryService.delete_user`: every memory of exactly this scope (VMB-2)."""
        engine, scope = self._scope(app_name, user_id)
        params = {"filter": f"scope={quoted(json.dumps(scope, ensure_ascii=False))}", "pageSize": PAGE}
        try:
            async with aclosing(pages(self._api, f"{engine}/memories", "memories", params)) as stream:
                found = [memory async for page in stream for memory in page]
            # The filter is not trusted: what it let through by mistake is somebody else's (TRAP-15).
            ids = [last_segment(memory.get("name")) for memory in found if memory.get("scope") == scope]
            for id in ids:
                await self._forget(f"{engine}/memories/{id}")
        except ApiError as error:
            raise typed(error) from error
        return len(ids)

    async def _forget(self, name: str) -> None:
        try:
            await finished(self._api, await self._api.request("DELETE", name))
        except ApiError as error:
            if error.status != 404:
                raise

    # --- searching ----------------------------------------------------------------------------------------------------

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> list[MemoryEntry]:
        """See `MemoryService.search_memory`. ``score`` is 1 less the distance that the service found."""
        engine, scope = self._scope(app_name, user_id)
        if not isinstance(query, str):
            raise ValidationError(f"query must be text, not {type(query).__name__}", path="query")
        if not query.strip():
            return []
        search = {"searchQuery": clean(query), **({} if self.top_k is None else {"topK": self.top_k})}
        body = {"scope": scope, "similaritySearchParams": search}
        try:
            answer = await self._api.request("POST", f"{engine}/memories:retrieve", body=body, retries=READS)
        except ApiError as error:
            raise typed(error) from error
        found = answer.get("retrievedMemories") or []
        entries = (entry_of(item) for item in found if isinstance(item, Mapping) and _scope_of(item) in (None, scope))
        return [entry for entry in entries if entry is not None]

    async def retrieve_profiles(self, *, app_name: str, user_id: str) -> dict[str, dict[str, Any]]:
        """The structured profiles of a user: id of the engine's schema → profile (services BEY-6). Empty when none.

        The form is that of the Agent Platform client's ``retrieve_profiles``: a look-up by scope, not a search.
        """
        engine, scope = self._scope(app_name, user_id)
        try:
            answer = await self._api.request(
                "POST", f"{engine}/memories:retrieveProfiles", body={"scope": scope}, retries=READS
            )
        except ApiError as error:
            raise typed(error) from error
        profiles = answer.get("profiles")
        found = profiles.items() if isinstance(profiles, Mapping) else ()
        return {
            str(id): dict(item["profile"])
            for id, item in found
            if isinstance(item, Mapping) and isinstance(item.get("profile"), Mapping)
        }

    # --- what the operations share ------------------------------------------------------------------------------------

    def _scope(self, app_name: Any, user_id: Any) -> tuple[str, dict[str, str]]:
        """The engine that serves an app, and whose memories are meant (VMB-2)."""
        self._api.check_open()
        given = {"app_name": app_name, "user_id": user_id}
        check_texts(**given)
        for name, value in given.items():
            if "*" in value and name in self.scope_keys:
                raise ValidationError(f"{name} must not hold '*'; Memory Bank takes it for a wildcard", path=name)
        return engine_of(app_name, self.place, self.engine), {name: given[name] for name in self.scope_keys}

    async def close(self) -> None:
        """Close the connections; later calls raise."""
        await self._api.close()


def _scope_of(item: Mapping[str, Any]) -> Any:
    """The scope that a found memory says it has; None when it says nothing."""
    memory = item.get("memory")
    return memory.get("scope") if isinstance(memory, Mapping) else None
