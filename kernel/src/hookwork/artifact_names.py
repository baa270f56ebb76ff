"""Which names artifacts and their owners may have, and which version is meant (services ART-1, ART-3, ART-5).

For artifact services: every backend refuses the same things before it does any I/O.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Self

from hookwork.errors import ArtifactNotFoundError, ValidationError

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
        if fault is None and len(segments) > 1 and (segment == "versions" or is_version(segment)):
            fault = f"has the segment {segment!r}, which stands for versions"
        if fault:
            raise ValidationError(f"filename {filename!r} {fault}", path="filename")


def check_scope(*, app_name: str, user_id: str, session_id: str) -> None:
    """Raise `ValidationError` unless the ids name an app, a user and a session."""
    check_given(app_name=app_name, user_id=user_id, session_id=session_id)
    check_owner(app_name=app_name, user_id=user_id, session_id=session_id)


def check_file(*, app_name: str, user_id: str, session_id: str, filename: str, nested: bool, **contents: Any) -> None:
    """Raise `ValidationError` unless all that names a file is given and legal.

    ``contents``: values that must be given too, whatever their type (``artifact=part``).
    """
    check_given(
        app_name=app_name,
        user_id=user_id,
        session_id=session_id,
        filename=filename,
        **{name: value if value is None else "given" for name, value in contents.items()},
    )
    check_owner(app_name=app_name, user_id=user_id, session_id=session_id)
    check_filename(filename, nested=nested)


class ArtifactKey(NamedTuple):
    """What names an artifact, checked: the arguments that every operation of a service takes."""

    app_name: str
    user_id: str
    session_id: str
    filename: str

    @property
    def is_users(self) -> bool:
        """Whether it belongs to the user and not to the session (ART-6)."""
        return self.filename.startswith(USER_PREFIX)

    @classmethod
    def checked(
        cls, app_name: str, user_id: str, session_id: str, filename: str, *, nested: bool, **contents: Any
    ) -> Self:
        """The key; raises what `check_file` raises."""
        scope = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
        check_file(**scope, filename=filename, nested=nested, **contents)
        return cls(app_name, user_id, session_id, filename)


def is_version(text: str) -> bool:
    """Whether a path segment is a version number: ASCII digits only."""
    return text.isascii() and text.isdigit()


def wanted_version(version: int | None, first_version: int) -> int | None:
    """The version asked for; None stands for the latest, or for all (ART-5).

    Raises:
        ValidationError: negative, or no whole number.
    """
    if version is None:
        return None
    if type(version) is not int or version < 0:
        raise ValidationError(f"version must be a whole number from 0 or None, not {version!r}", path="version")
    return None if version == 0 and first_version > 0 else version


def check_first_version(first_version: int) -> int:
    """The option ``first_version`` as it is. Raises ValidationError unless it is a whole number from 0 (ART-4)."""
    if type(first_version) is not int or first_version < 0:
        raise ValidationError(f"first_version must be a whole number from 0, not {first_version!r}")
    return first_version


def not_found(filename: str, version: int | None = None) -> ArtifactNotFoundError:
    """The error for an absent file or version (ART-9)."""
    what = "" if version is None else f", version {version}"
    return ArtifactNotFoundError(f"no artifact {filename!r}{what} here; list_artifacts shows what there is")


def _segment_fault(segment: str) -> str | None:
    if not segment:
        return "has an empty segment"
    if segment in (".", ".."):
        return "must not be or hold '.' or '..'"
    if "/" in segment or "\\" in segment:
        return "must not contain '/' or '\\'"
    if _CONTROL.search(segment):
        return "must not contain control characters"
    try:
        segment.encode()
    except UnicodeEncodeError:
        return "holds half of a surrogate pair; remove it"
    return None
