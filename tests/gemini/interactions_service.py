"""A local server that speaks the wire format of the Interactions API, as google-genai 3.6 publishes it in its types.

It keeps its interactions, so a request may go on from one of them; one it does not know is a 404.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.gemini.service import Failure, error_body

Json = dict[str, Any]
USAGE = {
    "total_input_tokens": 100,
    "total_cached_tokens": 60,
    "total_output_tokens": 30,
    "total_thought_tokens": 20,
    "total_tool_use_tokens": 5,
    "total_tokens": 155,
    "input_tokens_by_modality": [{"modality": "text", "tokens": 100}],
}


def user_step(*content: dict[str, Any]) -> dict[str, Any]:
    return {"type": "user_input", "content": list(content)}


def output(*texts: str, **fields: Any) -> Json:
    return {"type": "model_output", "content": [{"type": "text", "text": text} for text in texts], **fields}


def thought(summary: str = "", signature: str = "") -> Json:
    step: Json = {"type": "thought"}
    if signature:
        step["signature"] = signature
    if summary:
        step["summary"] = [{"type": "text", "text": summary}]
    return step


def call(name: str, arguments: Json, id: str = "c1") -> Json:
    return {"type": "function_call", "id": id, "name": name, "arguments": arguments}


class Answer(NamedTuple):
    """What an interaction is answered with.

    ``events``: instead of those that stream the steps; ``pieces``: how the bytes of a stream are cut; ``breaks``: the
    line is cut at the end; ``hangs``: it stays open until the client leaves; ``fields``: of the interaction.
    """

    steps: Sequence[Json] = ()
    status: str = "completed"
    events: Sequence[Json] | None = None
    pieces: Callable[[bytes], Sequence[bytes]] | None = None
    breaks: bool = False
    hangs: bool = False
    fields: Json = {}  # noqa: RUF012 - never changed


class Sent(NamedTuple):
    path: str
    headers: dict[str, str]
    body: Json


def events_of(interaction: Json, size: int = 4) -> list[Json]:
    """The events that stream an interaction, its texts in pieces of a size."""
    head = {"id": interaction["id"], "model": interaction["model"]}
    events: list[Json] = [{"event_type": "interaction.created", "interaction": {**head, "status": "in_progress"}}]
    for index, step in enumerate(interaction["steps"]):
        kind = step["type"]
        place = {"event_type": "step.delta", "index": index}
        started: Json = {"type": kind}
        deltas: list[Json] = []
        if kind == "model_output":
            for content in step.get("content", ()):
                if content["type"] == "text":
                    deltas += [{"type": "text", "text": piece} for piece in _pieces(content["text"], size)]
                    if content.get("annotations"):
                        deltas.append({"type": "text_annotation_delta", "annotations": content["annotations"]})
                else:
                    deltas.append(content)
            if "error" in step:
                started["error"] = step["error"]
        elif kind == "thought":
            for content in step.get("summary", ()):
                for piece in _pieces(content["text"], size):
                    deltas.append({"type": "thought_summary", "content": {"type": "text", "text": piece}})
            if "signature" in step:
                deltas.append({"type": "thought_signature", "signature": step["signature"]})
        elif kind == "function_call":
            started |= {"id": step["id"], "name": step["name"], "arguments": {}}
            text = json.dumps(step["arguments"])
            deltas = [{"type": "arguments_delta", "arguments": piece} for piece in _pieces(text, size)]
        else:
            started = step
        events.append({"event_type": "step.start", "index": index, "step": started})
        events += [{**place, "delta": delta} for delta in deltas]
        events.append({"event_type": "step.stop", "index": index})
    told = {name: value for name, value in interaction.items() if name != "steps"}
    return [*events, {"event_type": "interaction.completed", "interaction": told}]


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


class InteractionsService:
    """The server's side. ``script``: one answer per request; when none is left, the number of known steps is said."""

    def __init__(self) -> None:
        self.url = ""
        self.script: list[Answer | Failure] = []
        #: what answers when the script is at its end.
        self.always: Callable[[Json], Answer | Failure] | None = None
        self.sent: list[Sent] = []
        self.kept: dict[str, list[Json]] = {}
        self.left = threading.Event()

    def reset(self) -> None:
        url = self.url
        InteractionsService.__init__(self)
        self.url = url

    @property
    def body(self) -> Json:
        return self.sent[-1].body

    def chained(self) -> list[tuple[str | None, int]]:
        """(previous interaction, number of steps) of each request."""
        return [(sent.body.get("previous_interaction_id"), len(sent.body.get("input", ()))) for sent in self.sent]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        asked = json.loads(body)
        self.sent.append(Sent(scope["path"], headers, asked))
        answer = self._answer(asked)
        if isinstance(answer, Failure):
            await self._fail(answer, send)
            return
        number = len(self.kept) + 1
        interaction = {
            "id": f"v1_{number}",
            "object": "interaction",
            "model": asked["model"],
            "status": answer.status,
            "steps": list(answer.steps),
            "usage": USAGE,
            **answer.fields,
        }
        self.kept[interaction["id"]] = [*self._heard(asked), *answer.steps]
        if not asked.get("stream"):
            await self._send(send, 200, json.dumps(interaction).encode())
        else:
            await self._stream(answer, events_of(interaction), receive, send)

    def _heard(self, asked: Json) -> list[Json]:
        return [*self.kept.get(asked.get("previous_interaction_id", ""), ()), *asked.get("input", ())]

    def _answer(self, asked: Json) -> Answer | Failure:
        previous = asked.get("previous_interaction_id")
        if previous is not None and previous not in self.kept:
            return Failure(404, error_body(404, "NOT_FOUND", f"interaction {previous} not found"))
        if self.script:
            return self.script.pop(0)
        if self.always is not None:
            return self.always(asked)
        return Answer([output(f"heard {len(self._heard(asked))}")])

    async def _fail(self, failure: Failure, send: Any) -> None:
        body = failure.body if failure.body is not None else error_body(failure.status, "UNKNOWN")
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self._send(send, failure.status, data, failure.content_type, failure.headers)

    async def _send(self, send: Any, status: int, data: bytes, kind: str = "application/json", more: Any = ()) -> None:
        headers = [(b"content-type", kind.encode()), *((n.encode(), v.encode()) for n, v in more)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": data})

    async def _stream(self, answer: Answer, events: Sequence[Json], receive: Any, send: Any) -> None:
        told = answer.events if answer.events is not None else events
        data = "".join(f"event: {one['event_type']}\ndata: {json.dumps(one)}\n\n" for one in told).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for piece in answer.pieces(data) if answer.pieces is not None else [data]:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if answer.hangs:
            while (await receive())["type"] != "http.disconnect":
                pass
            self.left.set()
            return
        if answer.breaks:
            raise ConnectionAbortedError("the script says so")
        await send({"type": "http.response.body", "body": b""})
