"""References to files of a session that is stored under another app, user or id (services BEY-19, BEY-7).

An event names a file by the app, user and session it belongs to. Where an import puts the session under other names,
its files go with it, and so must what names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.artifact_references import ArtifactReference, artifact_uri
from hookwork.errors import ArtifactReferenceError

if TYPE_CHECKING:
    from hookwork.records.content import FileData, Part
    from hookwork.records.event import Event
    from hookwork_console.session_store import Key


def moved_event(event: Event, source: Key, target: Key) -> Event:
    """The event with references to files of ``source``, and of its user, that name those of ``target``.

    All others, and what is no reference, stay as they are.
    """
    if source == target or event.content is None:
        return event
    parts = [_moved_part(part, source, target) for part in event.content.parts]
    if all(new is old for new, old in zip(parts, event.content.parts, strict=True)):
        return event
    return event.replace(content=event.content.replace(parts=parts))


def _moved_part(part: Part, source: Key, target: Key) -> Part:
    part = _moved_file(part, source, target)
    response = part.function_response
    if response is None or not response.parts:
        return part
    parts = tuple(_moved_file(one, source, target) for one in response.parts)
    if all(new is old for new, old in zip(parts, response.parts, strict=True)):
        return part
    return part.replace(function_response=response.replace(parts=parts))


def _moved_file(part: Any, source: Key, target: Key) -> Any:
    file: FileData | None = part.file_data
    uri = artifact_uri(file)
    if file is None or uri is None:
        return part
    try:
        reference = ArtifactReference.parsed(uri)
    except ArtifactReferenceError:
        return part
    if (reference.app_name, reference.user_id) != (source.app_name, source.user_id):
        return part
    session_id = reference.session_id
    if session_id is not None:
        if session_id != source.session_id:
            return part
        session_id = target.session_id
    moved = reference._replace(app_name=target.app_name, user_id=target.user_id, session_id=session_id)
    return part.replace(file_data=file.replace(file_uri=moved.uri))
