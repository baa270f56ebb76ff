"""The usual stored event, read in one look: text by text, as a chat in a database mostly consists of (services COD-9).

msgspec's typed decoder takes a snake_case document that has nothing but these few keys, of the right types; the records
are built from what it gives. Whatever else a document has, or has otherwise, it refuses, and the walker reads it. Both
give equal records; this way takes half the time, and less to get ready for.
"""

from __future__ import annotations

import msgspec

from hookwork.records.content import Content, Part
from hookwork.records.event import Event, NodeInfo
from hookwork.records.metadata import UsageMetadata
from hookwork.records.times import whole_epoch


class _Part(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    text: str | None = None
    thought: bool | None = None


class _Content(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    parts: list[_Part] = []
    role: str | None = None


class _Usage(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    total_token_count: int | None = None
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None


class _Node(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    path: str = ""
    status: str | None = None


class _Event(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    id: str
    timestamp: float
    invocation_id: str
    author: str
    content: _Content | None = None
    turn_complete: bool | None = None
    finish_reason: str | None = None
    usage_metadata: _Usage | None = None
    model_version: str | None = None
    branch: str = ""
    node_info: _Node | None = None


_decode = msgspec.json.Decoder(_Event).decode


def plain_event(data: str | bytes) -> Event | None:
    """The event of a snake_case document that is a plain one, else None. The text holds no escaped NUL."""
    try:
        read = _decode(data)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None  # the walker reads it, or names the fault
    if not whole_epoch(read.timestamp):
        return None
    content, usage, node = read.content, read.usage_metadata, read.node_info
    return Event(
        id=read.id,
        timestamp=read.timestamp,
        invocation_id=read.invocation_id,
        author=read.author,
        content=None if content is None else _content(content),
        turn_complete=read.turn_complete,
        finish_reason=read.finish_reason,
        usage_metadata=None if usage is None else _usage(usage),
        model_version=read.model_version,
        branch=read.branch,
        node_info=None if node is None else NodeInfo(path=node.path, status=node.status),
    )


def _content(read: _Content) -> Content:
    return Content(role=read.role, parts=[Part(text=part.text, thought=part.thought) for part in read.parts])


def _usage(read: _Usage) -> UsageMetadata:
    return UsageMetadata(
        prompt_token_count=read.prompt_token_count,
        candidates_token_count=read.candidates_token_count,
        total_token_count=read.total_token_count,
        thoughts_token_count=read.thoughts_token_count,
        cached_content_token_count=read.cached_content_token_count,
    )
