"""What an event must be before it is stored: complete, holdable, without ``temp:`` keys (services INM-4, SES-20)."""

from __future__ import annotations

from hookwork.errors import ValidationError
from hookwork.platform import new_uuid, timestamp
from hookwork.records.content import Content, Part
from hookwork.records.event import Event
from hookwork.records.frozen import FrozenList
from hookwork.records.session import without_temp
from hookwork.records.text import clean, report_cleaned

#: Text of an event that no record cleans on entry and that providers fill; a database would refuse NUL in it (EVT-12).
_TEXTS = ("error_code", "error_message")
#: 0001-01-01 and the last second of 9999, in epoch seconds: what a timestamp may be (EVT-6).
_FIRST, _LAST = -62135596800, 253402300799


def entered(event: Event) -> Event:
    """The event as it is stored; the same object when nothing had to change.

    An unset id becomes a UUID, an unset timestamp the current moment; other timestamps are rounded to microseconds.

    Raises:
        ValidationError: the timestamp is not a moment of the years 1 to 9999.
    """
    stored = without_temp(event) if event.actions.state_delta else event
    moment = event.timestamp
    if not moment:
        stored = stored.replace(timestamp=timestamp())
    else:
        if not _FIRST <= moment <= _LAST:  # false for NaN too
            raise ValidationError("event.timestamp must be epoch seconds of the years 1 to 9999", path="timestamp")
        exact = round(moment * 1e6) / 1e6
        if exact != moment:
            stored = stored.replace(timestamp=exact)
    if not event.id:
        stored = stored.replace(id=new_uuid())
    if event.error_message is not None or event.content is not None:
        return cleaned(stored)
    return stored


def cleaned(event: Event) -> Event:
    """The event with NUL and lone surrogates replaced in the typed text that records take as it is; one warning."""
    changes: dict[str, object] = {}
    paths: list[str] = []
    if event.error_message is not None:
        for name in _TEXTS:
            text = getattr(event, name)
            if text and (better := clean(text)) is not text:
                changes[name] = better
                paths.append(name)
    content = event.content
    if content is not None:
        for part in content.parts:
            if part.executable_code is not None or part.code_execution_result is not None:
                changes["content"] = _cleaned_content(content, paths)
                break
    if not paths:
        return event
    report_cleaned(paths[0], len(paths))
    return event.replace(**changes)


def _cleaned_content(content: Content, paths: list[str]) -> Content:
    parts = FrozenList([_cleaned_part(part, index, paths) for index, part in enumerate(content.parts)])
    return content.replace(parts=parts)


def _cleaned_part(part: Part, index: int, paths: list[str]) -> Part:
    code, result = part.executable_code, part.code_execution_result
    if code is not None and code.code and (better := clean(code.code)) is not code.code:
        paths.append(f"content.parts[{index}].executableCode.code")
        part = part.replace(executable_code=code.replace(code=better))
    if result is not None and result.output and (better := clean(result.output)) is not result.output:
        paths.append(f"content.parts[{index}].codeExecutionResult.output")
        part = part.replace(code_execution_result=result.replace(output=better))
    return part
