"""Memory in Vertex AI RAG corpora (services §6.4)."""

from __future__ import annotations

import asyncio
import logging
import re
import weakref
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from hookwork.errors import ValidationError
from hookwork.records.session import Session
from hookwork.records.text import clean
from hookwork.services import MemoryEntry, MemoryService
from hookwork_vertexai.api import READS, WRITES, Api, ApiError, typed
from hookwork_vertexai.identity import TokenSource, identity_of
from hookwork_vertexai.listing import PAGE, pages
from hookwork_vertexai.names import VERSION, Place, base_url_of, check_texts, checked_place, last_segment
from hookwork_vertexai.operations import failure, finished
from hookwork_vertexai.transcripts import Line, Owner, display_name, entry_of, lines_of, owner_of, transcript

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger("hookwork.vertexai")

#: How many pages of a corpus a search looks through for the files of a user (RAG-2).
SEARCHED_PAGES = 10

_CORPUS = re.compile(r"projects/([A-Za-z0-9_.:-]+)/locations/([a-z0-9-]+)/ragCorpora/([A-Za-z0-9_-]+)", re.ASCII)
_SHORT = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class VertexAiRagMemoryService(MemoryService):
    """Memory that keeps each session as a file in one or more corpora. One event loop for each service.

    Args:
        corpora: a corpus, or several of one project and location: resource names, or ids with ``project`` and
            ``location``.
        top_k: most pieces of text that a search takes, from 1; None: the service's own number.
        distance_threshold: pieces that are further from the query are not taken.
        base_url, credentials, token_source, client, timeout: as for `VertexAiSessionService`.

    Raises:
        ValidationError: an option has no valid value.
    """

    def __init__(
        self,
        corpora: str | Sequence[str],
        project: str | None = None,
        location: str | None = None,
        *,
        top_k: int | None = None,
        distance_threshold: float = 10.0,
        base_url: str | None = None,
        credentials: Any = None,
        token_source: TokenSource | None = None,
        client: httpx.AsyncClient | None = None,
        timeout: float = 60.0,
    ) -> None:
        if top_k is not None and (type(top_k) is not int or top_k < 1):
            raise ValidationError(f"top_k must be a whole number from 1 or None, not {top_k!r}", path="top_k")
        if not distance_threshold > 0:
            raise ValidationError("distance_threshold must be a positive number", path="distance_threshold")
        self.place, self.corpora = _corpora(corpora, project, location)
        self.top_k = top_k
        self.distance_threshold = float(distance_threshold)
        identity = identity_of(credentials, token_source, None)
        self._api = Api(base_url_of(base_url, self.place), identity, timeout=timeout, client=client)
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    # --- adding -------------------------------------------------------------------------------------------------------

    async def add_session_to_memory(self, session: Session) -> None:
        """See `MemoryService.add_session_to_memory`. The new file is there before the older ones go (RAG-3).

        Raises:
            ValidationError: the handle does not show the whole session; the rest would be forgotten.
        """
        self._api.check_open()
        if not isinstance(session, Session):
            raise ValidationError(f"session must be a Session, not {type(session).__name__}", path="session")
        if not session.complete:
            raise ValidationError(
                f"session {session.id!r} is shown in part; open it without num_recent_events, after and tail",
                path="session",
            )
        check_texts(app_name=session.app_name, user_id=session.user_id, session_id=session.id)
        name = display_name(Owner(session.app_name, session.user_id, session.id))
        text = transcript(session.live_events)
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            for corpus in self.corpora:
                try:
                    kept = await self._upload(corpus, name, text) if text else {}
                    await self._remove_older(corpus, name, kept)
                except ApiError as error:
                    raise typed(error) from error

    async def _upload(self, corpus: str, name: str, text: str) -> Mapping[str, Any]:
        described = msgspec.json.encode({"rag_file": {"display_name": name}})
        answer = await self._api.send(
            "POST",
            f"{self._api.base_url}/upload/{VERSION}/{corpus}/ragFiles:upload",
            retries=WRITES,
            headers={"x-goog-upload-protocol": "multipart"},
            files={
                "metadata": (None, described, "application/json"),
                "file": ("session.txt", text.encode(), "text/plain; charset=utf-8"),
            },
        )
        if answer.get("error"):
            raise failure(answer["error"], "the file could not be indexed")
        file = answer.get("ragFile")
        return file if isinstance(file, Mapping) else {}

    async def _remove_older(self, corpus: str, name: str, kept: Mapping[str, Any]) -> None:
        mine = _age(kept) if kept else None
        async with aclosing(pages(self._api, f"{corpus}/ragFiles", "ragFiles", {"pageSize": PAGE})) as stream:
            found = [file async for page in stream for file in page if file.get("displayName") == name]
        for file in found:
            id = last_segment(file.get("name"))
            if _SHORT.fullmatch(id) and (mine is None or _age(file) < mine):
                await self._remove(f"{corpus}/ragFiles/{id}")

    async def _remove(self, file: str) -> None:
        try:
            await finished(self._api, await self._api.request("DELETE", file))
        except ApiError as error:
            if error.status != 404:
                raise

    async def delete_user(self, *, app_name: str, user_id: str) -> int:
        """See `MemoryService.delete_user`: the files of the user's sessions in every corpus; how many."""
        self._api.check_open()
        check_texts(app_name=app_name, user_id=user_id)
        gone = 0
        try:
            for corpus in self.corpora:
                async with aclosing(pages(self._api, f"{corpus}/ragFiles", "ragFiles", {"pageSize": PAGE})) as stream:
                    found = [file async for page in stream for file in page]
                for file in found:
                    owner, id = owner_of(file.get("displayName")), last_segment(file.get("name"))
                    if owner is not None and owner[:2] == (app_name, user_id) and _SHORT.fullmatch(id):
                        await self._remove(f"{corpus}/ragFiles/{id}")
                        gone += 1
        except ApiError as error:
            raise typed(error) from error
        return gone

    # --- searching ----------------------------------------------------------------------------------------------------

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> list[MemoryEntry]:
        """See `MemoryService.search_memory`. Sessions come by their best piece, the entries of one by time; no scores:
        whether the service's are distances or likenesses depends on the corpus."""
        self._api.check_open()
        check_texts(app_name=app_name, user_id=user_id)
        if not isinstance(query, str):
            raise ValidationError(f"query must be text, not {type(query).__name__}", path="query")
        if not query.strip():
            return []
        try:
            resources = [found for corpus in self.corpora if (found := await self._files(corpus, app_name, user_id))]
            if not resources:
                return []  # never a search over everybody's files
            contexts = await self._contexts(resources, query)
        except ApiError as error:
            raise typed(error) from error
        sessions: dict[str, dict[Line, None]] = {}
        for context in contexts:
            owner = owner_of(context.get("sourceDisplayName"))
            if owner is not None and owner[:2] == (app_name, user_id):
                # Chunks overlap: a line counts once.
                sessions.setdefault(owner.session_id, {}).update(dict.fromkeys(lines_of(context.get("text"))))
        return [
            entry_of(session_id, line)
            for session_id, lines in sessions.items()
            for line in sorted(lines, key=lambda line: line.timestamp)
        ]

    async def _files(self, corpus: str, app_name: str, user_id: str) -> dict[str, Any] | None:
        """The files of a user in a corpus, of each session the newest; None when there is none."""
        newest: dict[str, Mapping[str, Any]] = {}
        seen = 0
        stream = pages(self._api, f"{corpus}/ragFiles", "ragFiles", {"pageSize": PAGE})
        async with aclosing(stream):
            async for page in stream:
                seen += 1
                if seen > SEARCHED_PAGES:
                    logger.warning(
                        "%s has more than %d files; those behind are not searched", corpus, SEARCHED_PAGES * PAGE
                    )
                    break
                for file in page:
                    name = file.get("displayName")
                    owner = owner_of(name)
                    if owner is not None and owner[:2] == (app_name, user_id):
                        known = newest.get(str(name))
                        if known is None or _age(known) < _age(file):
                            newest[str(name)] = file
        ids = [last_segment(file.get("name")) for file in newest.values()]
        return {"ragCorpus": corpus, "ragFileIds": ids} if ids else None

    async def _contexts(self, resources: list[dict[str, Any]], query: str) -> list[Mapping[str, Any]]:
        asked = {"text": clean(query), **({} if self.top_k is None else {"similarityTopK": self.top_k})}
        store = {"ragResources": resources, "vectorDistanceThreshold": self.distance_threshold}
        answer = await self._api.request(
            "POST",
            f"{self.place.prefix.rstrip('/')}:retrieveContexts",
            body={"vertexRagStore": store, "query": asked},
            retries=READS,
        )
        contexts = answer.get("contexts")
        found = contexts.get("contexts") if isinstance(contexts, Mapping) else None
        return [context for context in found or () if isinstance(context, Mapping)]

    async def close(self) -> None:
        """Close the connections; later calls raise."""
        await self._api.close()


def _age(file: Mapping[str, Any]) -> tuple[str, str]:
    """What orders the files of one display name; times of the service are all in one form."""
    return str(file.get("createTime") or ""), str(file.get("name") or "")


def _corpora(corpora: Any, project: str | None, location: str | None) -> tuple[Place, tuple[str, ...]]:
    given = (corpora,) if isinstance(corpora, str) else tuple(corpora)
    if not given:
        raise ValidationError("corpora must name at least one RAG corpus", path="corpora")
    places: set[Place] = set()
    names = []
    for corpus in given:
        match = _CORPUS.fullmatch(corpus) if isinstance(corpus, str) else None
        if match is not None:
            place, id = checked_place(match[1], match[2]), match[3]
        elif isinstance(corpus, str) and _SHORT.fullmatch(corpus):
            place, id = checked_place(project, location), corpus
        else:
            raise ValidationError(
                f"corpus {corpus!r} must be an id, or a name like projects/…/locations/…/ragCorpora/…", path="corpora"
            )
        places.add(place)
        names.append(f"{place.prefix}ragCorpora/{id}")
    if len(places) > 1:
        raise ValidationError("all corpora must be in one project and location; use a service for each", path="corpora")
    return places.pop(), tuple(names)
