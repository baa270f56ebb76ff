"""RAG corpora of the fake: files that were uploaded, cut into chunks, found by their words."""

from __future__ import annotations

import json
import re
from email.parser import BytesParser
from email.policy import HTTP
from typing import TYPE_CHECKING, Any

from tests.vertexai.fake_memories import distance
from tests.vertexai.fake_sessions import page_of
from tests.vertexai.shapes import RAG_UPLOAD, RETRIEVE_CONTEXTS, Refused, accepted, bad, shown_time

if TYPE_CHECKING:
    from tests.vertexai.fake import FakeVertex


class Rag:
    """The methods of VertexRagDataService and VertexRagService that a memory needs."""

    def __init__(self, fake: FakeVertex) -> None:
        self.fake = fake
        #: corpus → id → (RagFile, text).
        self.corpora: dict[str, dict[str, tuple[dict[str, Any], str]]] = {}
        #: Lines of a chunk, and how many of them the next chunk repeats.
        self.chunk_lines, self.chunk_overlap = 3, 1
        #: What the next upload answers in place of a file, with status 200 as the service does.
        self.indexing_error: str | None = None

    def make(self, corpus: str) -> None:
        """An empty corpus."""
        self.corpora[corpus] = {}

    def _corpus(self, name: str) -> dict[str, tuple[dict[str, Any], str]]:
        if name not in self.corpora:
            raise Refused(404, "NOT_FOUND", f"The RagCorpus {name} does not exist.")
        return self.corpora[name]

    def upload(self, corpus: str, _: Any, headers: dict[str, str], body: bytes) -> dict[str, Any]:
        files = self._corpus(corpus)
        if headers.get("x-goog-upload-protocol") != "multipart":
            raise bad("Only multipart uploads are known.")
        head = f"content-type: {headers['content-type']}\r\n\r\n".encode()
        parts = {
            str(part.get_param("name", header="content-disposition")): part.get_payload(decode=True)
            for part in BytesParser(policy=HTTP).parsebytes(head + body).iter_parts()
        }
        if self.indexing_error is not None:
            message, self.indexing_error = self.indexing_error, None
            return {"error": {"code": 13, "message": message}}
        described = accepted(RAG_UPLOAD, json.loads(parts["metadata"]))
        id = self.fake.next_id()
        now = shown_time(self.fake.now())
        file = {"name": f"{corpus}/ragFiles/{id}", **described["ragFile"], "createTime": now, "updateTime": now}
        files[id] = file, parts["file"].decode()
        return {"ragFile": file}

    def list(self, corpus: str, _: Any, query: dict[str, str], body: Any) -> dict[str, Any]:
        return page_of([file for file, _ in self._corpus(corpus).values()], "ragFiles", query)

    def get(self, corpus: str, id: str, *_: Any) -> dict[str, Any]:
        return self._find(corpus, id)[0]

    def _find(self, corpus: str, id: str) -> tuple[dict[str, Any], str]:
        files = self._corpus(corpus)
        if id not in files:
            raise Refused(404, "NOT_FOUND", f"The RagFile {id} does not exist.")
        return files[id]

    def delete(self, corpus: str, id: str, *_: Any) -> dict[str, Any]:
        self._find(corpus, id)
        del self.corpora[corpus][id]
        return self.fake.operation(f"{corpus}/operations", "Delete", response={}, kind=None)

    def retrieve(self, parent: str, _: Any, query: dict[str, str], body: Any) -> dict[str, Any]:
        asked = accepted(RETRIEVE_CONTEXTS, body)
        text = asked.get("query", {}).get("text", "")
        if not text:
            raise bad("The query is required.", "query.text")
        found = []
        for resource in asked.get("vertexRagStore", {}).get("ragResources") or []:
            wanted = resource.get("ragFileIds")
            for id, (file, content) in self._corpus(resource["ragCorpus"]).items():
                if not wanted or id in wanted:
                    found += [
                        (distance(text, re.sub(r"[^\w]+", " ", chunk)), file, chunk) for chunk in self._chunks(content)
                    ]
        limit = asked["vertexRagStore"].get("vectorDistanceThreshold", 1.0)
        found = sorted((one for one in found if one[0] < min(limit, 1.0)), key=lambda one: one[0])
        contexts = [
            {"sourceUri": file["name"], "sourceDisplayName": file["displayName"], "text": chunk, "score": far}
            for far, file, chunk in found[: asked["query"].get("similarityTopK") or 10]
        ]
        return {"contexts": {"contexts": contexts} if contexts else {}}

    def _chunks(self, content: str) -> list[str]:
        lines = content.split("\n")
        step = self.chunk_lines - self.chunk_overlap
        last = max(len(lines) - self.chunk_overlap, 1)
        return ["\n".join(lines[start : start + self.chunk_lines]) for start in range(0, last, step)]
