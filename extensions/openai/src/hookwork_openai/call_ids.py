"""Call ids as they stand on the wire: each call has one of its own, each response that of its call (models OAI-6…10).

Ids come from other models, from servers that count calls anew in each turn (CASE-HIST-3), or not at all.
"""

from __future__ import annotations

import re
from collections import deque

from hookwork_openai.call import Call

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
#: Longest call id of the Responses API, and of Chat Completions.
RESPONSES_LIMIT = 64
CHAT_LIMIT = 40


class CallIds:
    """Pairs the calls and responses of one request; make one per request."""

    __slots__ = ("_answered", "_call", "_count", "_limit", "_pending", "_used", "_waiting")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._limit = CHAT_LIMIT if call.chat else RESPONSES_LIMIT
        #: id on the wire → id in the history of calls without a response yet, oldest first.
        self._pending: dict[str, str] = {}
        #: id in the history → ids on the wire of its calls without a response, oldest first.
        self._waiting: dict[str, deque[str]] = {}
        #: id in the history → id on the wire of the newest call of that id that has a response.
        self._answered: dict[str, str] = {}
        self._used: set[str] = set()
        self._count = 0

    def of_call(self, call_id: str | None) -> str:
        """The wire id of the next call: its own where it can be sent and is new, else a made one."""
        own = call_id or ""
        wire = own if self._is_sendable(own) else self._made_up()
        self._used.add(wire)
        self._pending[wire] = own or wire
        self._waiting.setdefault(own or wire, deque()).append(wire)
        return wire

    def of_response(self, call_id: str | None, name: str | None) -> tuple[str, bool]:
        """(wire id, whether it was answered before) of the call that a response belongs to.

        Raises:
            ModelError: no call in these contents waits for it, nor was one of its id answered.
        """
        own = call_id or next(iter(self._pending.values()), "")
        waiting = self._waiting.get(own)
        if waiting:
            wire = waiting.popleft()
            del self._pending[wire]
            self._answered[own] = wire
            return wire, False
        if call_id and call_id in self._answered:
            return self._answered[call_id], True
        which = f"with id {call_id!r}" if call_id else "without an id"
        raise self._call.refused(
            "function_response_without_call",
            f"the contents hold a response of {name or 'a function'!r} {which}, but no call it could belong to; "
            "keep a call and its response together",
        )

    def _is_sendable(self, call_id: str) -> bool:
        return len(call_id) <= self._limit and call_id not in self._used and _PLAIN.fullmatch(call_id) is not None

    def _made_up(self) -> str:
        while True:
            wire = f"adk-openai-call-{self._count}"
            self._count += 1
            if wire not in self._used:
                return wire
