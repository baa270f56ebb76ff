"""Conversations that the service keeps: only what is new is sent, after ``previous_response_id`` (models Beyond).

A response is known by what led to it and what it said, in the form in which both would be sent in full. So a history
that was compacted, rewound or edited, one of another process, and one that the service has forgotten, go out in full.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from hookwork.errors import ModelError
from hookwork.records.content import Content
from hookwork.records.frozen import thaw
from hookwork.records.metadata import ModelResponse
from hookwork_openai.call import Call
from hookwork_openai.responses.items import input_items

#: `custom_metadata` key that names the response a request went on from.
PREVIOUS = "openai_previous_response_id"
_FIELD = "previous_response_id"
#: Responses that are remembered; each takes some hundred bytes.
_REMEMBERED = 2000

Json = dict[str, Any]


class Chains:
    """The responses of one model that a later request may go on from. Safe from several threads."""

    def __init__(self) -> None:
        #: what was said up to the end of a response → its id; the least recently used goes first.
        self._known: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def shortened(self, body: Json) -> Json | None:
        """The request that sends only what is new; None when nothing of it is known."""
        items = body["input"]
        marks = _marks(body["model"], items)
        with self._lock:
            for length in range(len(items) - 1, 0, -1):
                known = self._known.get(marks[length - 1])
                if known is not None:
                    self._known.move_to_end(marks[length - 1])
                    return {**body, "input": items[length:], _FIELD: known}
        return None

    def remember(self, call: Call, contents: Sequence[Content], response: ModelResponse) -> None:
        """Note a whole answer, unless it cannot be gone on from: cut off, filtered or without an id."""
        response_id = (response.custom_metadata or {}).get("openai_response_id")
        if not response_id or response.error_code or response.finish_reason != "STOP" or response.content is None:
            return
        try:
            items = input_items(call, [*contents, response.content])
        except ModelError:
            return  # it cannot be sent back, so it is not asked for in this form either
        mark = _marks(call.model, items)[-1]
        with self._lock:
            self._known[mark] = str(response_id)
            self._known.move_to_end(mark)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)

    def forget(self, response_id: str) -> None:
        """The service has it no more."""
        with self._lock:
            for mark in [mark for mark, known in self._known.items() if known == response_id]:
                del self._known[mark]


def noted(response: ModelResponse, response_id: str) -> ModelResponse:
    """A response that says which one it went on from."""
    return response.replace(custom_metadata={**thaw(response.custom_metadata or {}), PREVIOUS: response_id})


def is_forgotten(error: Exception) -> bool:
    """Whether the service says that it does not have the response a request wants to go on from."""
    status, code = getattr(error, "status_code", None), getattr(error, "code", None)
    param = getattr(error, "param", None)
    return status in (400, 404) and (code == "previous_response_not_found" or param == _FIELD)


def may_chain(body: Json, extra_body: Json) -> bool:
    """Whether the caller leaves it to us what a request goes on from."""
    return not ({_FIELD, "conversation"} & extra_body.keys()) and bool(body["input"])


def _marks(model: str, items: Sequence[Json]) -> list[str]:
    """A fingerprint of each beginning of the input, the whole included."""
    running = hashlib.sha256(model.encode())
    marks: list[str] = []
    for item in items:
        running.update(json.dumps(item, sort_keys=True).encode())
        running.update(b"\n")
        marks.append(running.hexdigest())
    return marks
