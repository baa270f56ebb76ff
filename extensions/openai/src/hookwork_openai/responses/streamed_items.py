"""The output items of a stream, put together from whatever tells of them (models OAI-33, OAI-35).

Fragments belong to an item by its id, else by its place in the output, else to the newest one of their kind. So the
order in which the fragments of different items arrive does not matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from hookwork.platform import new_uuid
from hookwork_openai.reading import count_in, objects_in, text_in


class StreamedItem:
    """One item of the output while it arrives.

    Attributes:
        kind: ``message``, ``reasoning``, ``function_call`` or a type that is only passed on.
        texts: (part of the item, index) → pieces; the part is ``output_text``, ``refusal``, ``content`` or ``summary``.
        arguments: the whole arguments where an event said them, else None.
        ended: the service said that nothing more of it comes.
    """

    __slots__ = (
        "_taken",
        "annotations",
        "arguments",
        "call_id",
        "ended",
        "id",
        "index",
        "kind",
        "name",
        "pieces",
        "said",
        "texts",
    )

    def __init__(self, kind: str, taken: set[str], item_id: str = "", index: int | None = None) -> None:
        self.kind = kind
        self._taken = taken
        self.id = item_id
        self.index = index
        self.call_id = ""
        self.name = ""
        self.texts: dict[tuple[str, int], list[str]] = {}
        self.annotations: list[Any] = []
        self.pieces: list[str] = []
        self.arguments: Any = None
        self.ended = False
        #: the item as the service gave it whole.
        self.said: Mapping[str, Any] = {}

    def take(self, item: Mapping[str, Any], *, whole: bool) -> None:
        """Learn from an item object: at its start, or once it is ``whole``."""
        self._name_call(text_in(item, "call_id"))
        self.name = self.name or text_in(item, "name")
        if whole:
            self.said = item
            self.ended = self.ended or item.get("status") != "incomplete"

    def add_text(self, part: str, index: Any, text: str) -> None:
        self.texts.setdefault((part, index if type(index) is int else 0), []).append(text)

    @property
    def wire_id(self) -> str:
        """The id under which a call is known, a made one where the service gives none (models AGG-23)."""
        self._name_call(self.id or f"adk-{new_uuid()}")
        return self.call_id

    def _name_call(self, call_id: str) -> None:
        """The first id stays; one that another call has is replaced (models MOD-14)."""
        if call_id and not self.call_id:
            self.call_id = call_id if call_id not in self._taken else f"adk-{new_uuid()}"
            self._taken.add(self.call_id)

    @property
    def raw_arguments(self) -> Any:
        """What the event said, else the item, else the fragments (models §8, streaming table)."""
        for whole in (self.arguments, self.said.get("arguments")):
            if whole or isinstance(whole, dict):
                return whole
        return "".join(self.pieces)

    def as_output(self) -> dict[str, Any]:
        """The item as it would stand in an unstreamed response."""
        if self.kind == "function_call":
            return self._call()
        if self.kind == "reasoning":
            return {**self.said, "type": "reasoning", **self._texts_of("content", "summary")}
        if self.kind == "message":
            return {**self.said, "type": "message", "content": self._message_content()}
        return dict(self.said)

    def _call(self) -> dict[str, Any]:
        call = {"type": "function_call", "id": self.id, "call_id": self.wire_id, "name": self.name}
        status = self.said.get("status") or ("completed" if self.ended else "incomplete")
        return {**call, "arguments": self.raw_arguments, "status": status}

    def _texts_of(self, *parts: str) -> dict[str, Any]:
        kinds = {"content": "reasoning_text", "summary": "summary_text"}
        return {
            part: objects_in(self.said, part)
            or [
                {"type": kinds[part], "text": "".join(pieces)}
                for (name, _), pieces in sorted(self.texts.items())
                if name == part
            ]
            for part in parts
        }

    def _message_content(self) -> Any:
        plain, said = text_in(self.said, "content"), objects_in(self.said, "content")
        if plain or any(text_in(piece, "text") or text_in(piece, "refusal") for piece in said):
            return plain or said
        content: list[dict[str, Any]] = []
        for (name, _), pieces in sorted(self.texts.items(), key=lambda entry: entry[0][1]):
            field = "refusal" if name == "refusal" else "text"
            content.append({"type": name, field: "".join(pieces)})
        if content and self.annotations:
            content[0]["annotations"] = self.annotations
        return content


class StreamedItems:
    """All items of one stream."""

    def __init__(self) -> None:
        self._items: list[StreamedItem] = []
        self._by_id: dict[str, StreamedItem] = {}
        self._by_index: dict[int, StreamedItem] = {}
        self._call_ids: set[str] = set()

    def of_event(self, event: Mapping[str, Any], kind: str) -> StreamedItem:
        """The item that an event tells of, a new one when it is the first to."""
        return self._find(text_in(event, "item_id"), count_in(event, "output_index"), kind)

    def started(self, event: Mapping[str, Any], item: Mapping[str, Any]) -> StreamedItem:
        """The item of an ``output_item.added`` event; without id and place it is always a new one."""
        item_id, index, kind = text_in(item, "id"), count_in(event, "output_index"), text_in(item, "type")
        found = self._find(item_id, index, kind) if item_id or index is not None else self._new(kind, "", None)
        found.take(item, whole=False)
        return found

    def ended(self, event: Mapping[str, Any], item: Mapping[str, Any]) -> StreamedItem:
        """The item of an ``output_item.done`` event."""
        found = self._find(text_in(item, "id"), count_in(event, "output_index"), text_in(item, "type"))
        found.take(item, whole=True)
        found.ended = True
        return found

    def reconcile(self, output: list[Any]) -> None:
        """Learn from the output of the terminal response; an item that never streamed is appended (models OAI-33)."""
        known = _Known(self._items)
        all_placed = all(item.index is not None for item in self._items)
        for index, item in enumerate(output):
            if not isinstance(item, Mapping):
                continue
            found = known.claim(item, index)
            if found is None:
                found = self._new(text_in(item, "type"), text_in(item, "id"), index if all_placed else None)
            found.take(item, whole=True)

    def as_output(self) -> list[dict[str, Any]]:
        """The output of an unstreamed response."""
        items = self._items
        if all(item.index is not None for item in items):
            items = sorted(items, key=lambda item: item.index or 0)
        return [item.as_output() for item in items if item.said or item.texts or item.kind == "function_call"]

    def _find(self, item_id: str, index: int | None, kind: str) -> StreamedItem:
        found = self._by_id.get(item_id) if item_id else None
        if found is None and index is not None:
            found = self._by_index.get(index)
        if found is None and not item_id and index is None:
            found = self._newest(kind)
        if found is None or found.kind != kind:
            found = self._new(kind, item_id, index)
        if item_id:
            found.id = found.id or item_id
            self._by_id[item_id] = found
        if index is not None and index not in self._by_index:
            self._by_index[index] = found
            found.index = index
        return found

    def _newest(self, kind: str) -> StreamedItem | None:
        """Where a fragment without id and place belongs: calls may be interrupted by other items, texts may not."""
        if kind == "function_call":
            return next((item for item in reversed(self._items) if item.kind == kind), None)
        newest = self._items[-1] if self._items else None
        return newest if newest is not None and newest.kind == kind else None

    def _new(self, kind: str, item_id: str, index: int | None) -> StreamedItem:
        item = StreamedItem(kind, self._call_ids, item_id, index)
        self._items.append(item)
        return item


class _Known:
    """The items that streamed, to be found again in the output that repeats them: each once."""

    def __init__(self, items: list[StreamedItem]) -> None:
        self._claimed: set[int] = set()
        self._by: dict[tuple[str, str, Any], StreamedItem] = {}
        self._loose: dict[str, deque[StreamedItem]] = {}
        for item in items:
            for how, key in (("id", item.id), ("call", item.call_id), ("place", item.index)):
                if key not in ("", None):
                    self._by.setdefault((item.kind, how, key), item)
            if not item.id and item.index is None:
                self._loose.setdefault(item.kind, deque()).append(item)

    def claim(self, item: Mapping[str, Any], index: int) -> StreamedItem | None:
        """The item that is meant: by id, by call id, by place, else the next of its kind that has none of them."""
        kind = text_in(item, "type")
        for how, key in (("id", text_in(item, "id")), ("call", text_in(item, "call_id")), ("place", index)):
            found = self._by.get((kind, how, key))
            if found is not None and id(found) not in self._claimed:
                self._claimed.add(id(found))
                return found
        loose = self._loose.get(kind)
        while loose:
            found = loose.popleft()
            if id(found) not in self._claimed:
                self._claimed.add(id(found))
                return found
        return None
