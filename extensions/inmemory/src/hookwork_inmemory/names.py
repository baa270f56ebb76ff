"""Which names artifacts and their owners may have (services ART-1, ART-3)."""

from __future__ import annotations

import re
from typing import Any

from hookwork.errors import ValidationError

#: Longest file name, in bytes of UTF-8: what an object store still takes under its own limits for whole paths.
MAX_NAME_BYTES = 512
USER_PREFIX = "user:"

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def check_given(**values: Any) -> None:
    """Raise one `ValidationError` that names every missing value, in the order given (ART-1)."""
    missing = [name for name, value in values.items() if value is None or value == ""]
    if missing:
        raise ValidationError(f"{', '.join(missing)} must be given and not empty", path=missing[0])
    for name, value in values.items():
        if not isinstance(value, str):
            raise ValidationError(f"{name} must be text, not {type(value).__name__}", path=name)


def check_owner(*, app_name: str, user_id: str, session_id: str) -> None:
    """Raise `ValidationError` unless the ids can stand in a path on every backend."""
    for name, value in (("app_name", app_name), ("user_id", user_id), ("session_id", session_id)):
        fault = _segment_fault(value)
        if fault:
            raise ValidationError(f"{name} {value!r} {fault}", path=name)
    if session_id == "user":
        raise ValidationError(
            "session_id 'user' would share its files with the user's own; use another id", path="session_id"
        )


def check_filename(filename: str, *, nested: bool) -> None:
    """Raise `ValidationError` unless the name is legal; ``nested`` allows ``/`` between legal segments."""
    try:
        size = len(filename.encode())
    except UnicodeEncodeError:
        raise ValidationError("filename holds half of a surrogate pair; remove it", path="filename") from None
    if size > MAX_NAME_BYTES:
        raise ValidationError(f"filename has {size} bytes; at most {MAX_NAME_BYTES} are allowed", path="filename")
    bare = filename.removeprefix(USER_PREFIX)
    if not bare:
        raise ValidationError("filename 'user:' names no file; write a name behind the prefix", path="filename")
    segments = bare.split("/") if nested else [bare]
    for segment in segments:
        fault = _segment_fault(segment)
        if fault is None and len(segments) > 1 and (segment == "versions" or (segment.isascii() and segment.isdigit())):
            fault = f"has the segment {segment!r}, which stands for versions"
        if fault:
            raise ValidationError(f"filename {filename!r} {fault}", path="filename")


def _segment_fault(segment: str) -> str | None:
    if not segment:
        return "has an empty segment"
    if segment in (".", ".."):
        return "must not be or hold '.' or '..'"
    if "/" in segment or "\\" in segment:
        return "must not contain '/' or '\\'"
    if _CONTROL.search(segment):
        return "must not contain control characters"
    return None
