"""Events as lines of text for a summarizer (core CMP-12).

One line a part, whatever the part holds: line breaks are written as escapes, so the output of a tool or the words of a
person can never look like a further turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from hookwork.records.content import Part
from hookwork.records.event import Event, is_compaction

#: Characters shown of one part, and of all together (CMP-12).
MAX_PART_CHARS = 2_000
MAX_CHARS = 200_000

# What JSON leaves as it is and some reader takes for the end of a line.
_BREAKS = re.compile("[\x7f-\x9f\u2028\u2029]")


def one_line(value: Any, limit: int) -> str:
    """A JSON value on one line, cut at ``limit`` characters of its content."""
    more = ""
    if isinstance(value, str) and len(value) > limit:
        more = f" ({len(value) - limit} more characters)"
        value = value[:limit]
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = _BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    if not isinstance(value, str) and len(text) > limit:
        more = f" ({len(text) - limit} more characters)"
        text = text[:limit]
    return text + more


def lines_of(event: Event, max_part_chars: int = MAX_PART_CHARS) -> Iterator[str]:
    """The lines of one event; thoughts and empty parts give none."""
    if is_compaction(event):
        yield f"Summary of what came before: {one_line(event.text, MAX_CHARS)}"
        return
    who = one_line(event.author, 200)[1:-1]
    for said in (event.input_transcription, event.output_transcription):
        if event.content is None and said is not None and said.text:
            yield f"{who} said: {one_line(said.text, max_part_chars)}"
    for part in event.content.parts if event.content is not None else ():
        told = _told(part, max_part_chars)
        if told:
            yield f"{who} {told}"


def _told(part: Part, limit: int) -> str:
    call, response = part.function_call, part.function_response
    if part.thought:
        return ""
    if call is not None:
        return f"called {one_line(call.name, 200)} with {one_line(call.args or {}, limit)}"
    if response is not None:
        return f"got from {one_line(response.name, 200)}: {one_line(response.response, limit)}"
    if part.executable_code is not None:
        return f"wrote code: {one_line(part.executable_code.code or '', limit)}"
    if part.code_execution_result is not None:
        return f"ran code, it gave: {one_line(part.code_execution_result.output or '', limit)}"
    if part.inline_data is not None:
        size = len(part.inline_data.data or b"")
        return f"attached a file: {one_line(part.inline_data.mime_type or 'unknown type', 200)}, {size} bytes"
    if part.file_data is not None:
        return f"attached a file: {one_line(part.file_data.file_uri or '', limit)}"
    if part.text and not part.text.isspace():
        return f"said: {one_line(part.text, limit)}"
    return ""


def transcript(events: Iterable[Event], max_part_chars: int = MAX_PART_CHARS) -> str:
    """All lines of the events, in order."""
    return "\n".join(line for event in events for line in lines_of(event, max_part_chars))
