"""Names of objects, shared with ADK-Go and google-adk (services GCS-1, GCS-5, GCS-7)."""

from __future__ import annotations

from urllib.parse import quote

from hookwork.artifact_names import USER_PREFIX, ArtifactKey, check_filename, is_version
from hookwork.errors import ValidationError

#: Longest name of an object, in bytes of UTF-8 (Cloud Storage, "Object name requirements").
MAX_OBJECT_NAME = 1024
#: Characters of an object's name that stay as they are in its URI.
_PLAIN = "/:@!$&'()*+,;="


class Place(ArtifactKey):
    """What names an artifact, and its objects."""

    __slots__ = ()

    @property
    def prefix(self) -> str:
        """What the names of the artifact's versions begin with, up to the number."""
        owner = "user" if self.is_users else self.session_id
        return f"{self.app_name}/{self.user_id}/{owner}/{self.filename}/"

    def object_name(self, version: int) -> str:
        """The name of a version's object. Raises ValidationError when it is too long."""
        name = f"{self.prefix}{version}"
        size = len(name.encode())
        if size > MAX_OBJECT_NAME:
            raise ValidationError(
                f"the object of {self.filename!r} would have a name of {size} bytes; Cloud Storage takes at most "
                f"{MAX_OBJECT_NAME}: shorten the ids or the file name",
                path="filename",
            )
        return name


def owner_prefix(app_name: str, user_id: str, session_id: str | None) -> str:
    """What the names of all objects of a session, or of a user's own files, begin with."""
    return f"{app_name}/{user_id}/{'user' if session_id is None else session_id}/"


def version_of(segment: str) -> int | None:
    """The version that the last segment of an object's name stands for; None for strangers' objects."""
    return int(segment) if is_version(segment) and str(int(segment)) == segment else None


def filename_and_version(rest: str, *, users: bool, nested: bool) -> tuple[str, int] | None:
    """What follows an `owner_prefix`, taken apart; None when it is no artifact that a call could name."""
    filename, _, last = rest.rpartition("/")
    version = version_of(last)
    if version is None or filename.startswith(USER_PREFIX) != users:
        return None
    try:
        check_filename(filename, nested=nested)
    except ValidationError:
        return None
    return filename, version


def uri_of(bucket: str, object_name: str) -> str:
    """``gs://bucket/object``, in ASCII and without blanks."""
    return f"gs://{bucket}/{quote(object_name, safe=_PLAIN)}"
