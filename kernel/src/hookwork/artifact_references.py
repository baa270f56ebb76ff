"""Artifacts that stand for others: ``artifact://`` URIs, spelled as google-adk spells them (services BEY-7).

A version may hold, in place of bytes, the URI of a version of another file. Loading it gives what that one holds. The
segments of a URI are the exact names, nothing is percent-encoded: buckets and folders are shared with google-adk.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Self

from hookwork.artifact_names import USER_PREFIX, ArtifactKey
from hookwork.errors import ArtifactNotFoundError, ArtifactReferenceError
from hookwork.records.content import FileData, Part

SCHEME = "artifact://"
#: Most references that are followed from one version on.
MAX_DEPTH = 5

_URI = r"artifact://apps/([^/]+)/users/([^/]+)/(?:sessions/([^/]+)/)?artifacts/(.+)/versions/([0-9]{1,18})"


class ArtifactReference(NamedTuple):
    """A version of an artifact, as a URI names it. ``session_id`` None: a file of the user."""

    app_name: str
    user_id: str
    session_id: str | None
    filename: str
    version: int

    @property
    def uri(self) -> str:
        """``artifact://apps/…/users/…/[sessions/…/]artifacts/…/versions/…``."""
        session = "" if self.session_id is None else f"sessions/{self.session_id}/"
        return (
            f"{SCHEME}apps/{self.app_name}/users/{self.user_id}/{session}"
            f"artifacts/{self.filename}/versions/{self.version}"
        )

    @classmethod
    def to(cls, key: ArtifactKey, version: int) -> Self:
        """The reference to a version of an artifact."""
        return cls(key.app_name, key.user_id, None if key.is_users else key.session_id, key.filename, version)

    @classmethod
    def parsed(cls, uri: str) -> Self:
        """The reference that a URI spells; a user's file may come without ``user:``.

        Raises:
            ArtifactReferenceError: it has another form.
        """
        match = re.fullmatch(_URI, uri)  # compiled when the first reference is met: re keeps it
        if match is None:
            raise ArtifactReferenceError(
                f"{uri!r} names no version of an artifact; the form is {SCHEME}apps/APP/users/USER/sessions/SESSION/"
                "artifacts/NAME/versions/NUMBER",
                reason="malformed",
            )
        app_name, user_id, session_id, filename, version = match.groups()
        if session_id is None and not filename.startswith(USER_PREFIX):
            filename = USER_PREFIX + filename
        return cls(app_name, user_id, session_id, filename, int(version))

    def seen_from(self, key: ArtifactKey) -> dict[str, str]:
        """The arguments that name the file it points to, for one who may see what ``key`` names.

        Raises:
            ArtifactReferenceError: it is another app's, another user's or another session's.
        """
        if (self.app_name, self.user_id) != (key.app_name, key.user_id):
            raise ArtifactReferenceError(
                f"artifact {key.filename!r} cannot stand for {self.uri!r}: that belongs to another app or user",
                reason="scope",
            )
        if self.session_id is not None and self.session_id != key.session_id:
            raise ArtifactReferenceError(
                f"artifact {key.filename!r} cannot stand for {self.uri!r}: that belongs to another session; a file "
                "that several sessions share is the user's, 'user:NAME'",
                reason="scope",
            )
        if self.session_id is None and not self.filename.startswith(USER_PREFIX):  # made by hand
            raise ArtifactReferenceError(f"{self.uri!r} names a session's file without its session", reason="malformed")
        return {**key._asdict(), "filename": self.filename}


class Trail:
    """The references that are followed from one artifact on.

    Args:
        start: whose content is wanted.
        version: the number of that version; None for one that is being saved.
    """

    def __init__(self, start: ArtifactKey, version: int | None = None) -> None:
        self._start = start
        self._passed = [] if version is None else [ArtifactReference.to(start, version).uri]
        self._steps = 0

    def step(self, uri: str) -> tuple[dict[str, str], int]:
        """Where the next reference leads: the arguments that name a file, and the number of its version.

        Raises:
            ArtifactReferenceError: the URI is malformed or out of scope, or the references go in a circle or on and on.
        """
        reference = ArtifactReference.parsed(uri)
        where = reference.seen_from(self._start)
        if reference.uri in self._passed:
            raise ArtifactReferenceError(
                f"artifact {self._start.filename!r}: its references go in a circle, by way of {reference.uri!r}",
                reason="cycle",
            )
        if self._steps == MAX_DEPTH:
            raise ArtifactReferenceError(
                f"artifact {self._start.filename!r}: more than {MAX_DEPTH} references lead on from one to the next; "
                "refer to the file itself",
                reason="depth",
            )
        self._steps += 1
        self._passed.append(reference.uri)
        return where, reference.version

    def lost(self) -> ArtifactNotFoundError:
        """The error for a version that a reference points to and that is not there."""
        return ArtifactNotFoundError(
            f"artifact {self._start.filename!r} stands for {self._passed[-1]!r}, which is not here (any more)"
        )


def artifact_uri(file: FileData | None) -> str | None:
    """The URI of a version of another artifact, when a file is one; None for a file that is anywhere else."""
    uri = file.file_uri if file is not None else None
    return uri if uri is not None and uri.startswith(SCHEME) else None


def check_saved_reference(key: ArtifactKey, part: Part) -> str | None:
    """The ``artifact://`` URI of a part that is about to be saved; None when it stands for no artifact.

    Raises:
        ArtifactReferenceError: malformed, or out of scope; so is a session's file for a file of the user, which other
            sessions see as well.
    """
    uri = artifact_uri(part.file_data)
    if uri is None:
        return None
    reference = ArtifactReference.parsed(uri)
    reference.seen_from(key)
    if key.is_users and reference.session_id is not None:
        raise ArtifactReferenceError(
            f"artifact {key.filename!r} is the user's and cannot stand for {uri!r}, a file of one session",
            reason="scope",
        )
    return uri


def reference_part(key: ArtifactKey, version: int, **fields: Any) -> Part:
    """A part that names a version of an artifact; ``fields``: ``mime_type`` and ``display_name``."""
    return Part(file_data=FileData(file_uri=ArtifactReference.to(key, version).uri, **fields))
