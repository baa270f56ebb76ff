"""What of a part and its metadata an artifact service keeps (services ART-2, ART-11, ART-16, ART-17, BEY-7, BEY-17)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookwork.errors import ValidationError
from hookwork.records.content import Blob, FileData, Part
from hookwork.records.frozen import FrozenDict, freeze

#: Metadata key of an empty version that stands for "no file".
TOMBSTONE = "hookworkTombstone"
#: MIME type of bytes of which nothing is known.
UNKNOWN_TYPE = "application/octet-stream"
#: MIME type of text parts.
TEXT_TYPE = "text/plain"

_RESERVED = ("adk", "hookwork")


def stored_part(artifact: Part) -> tuple[Part, str]:
    """The part as it is kept and its MIME type: text, bytes or a URI and nothing else, as on every backend.

    A URI without a type gets what its ending tells.

    Raises:
        ValidationError: the part holds none of them.
    """
    if not isinstance(artifact, Part):
        raise ValidationError(f"artifact must be a Part, not {type(artifact).__name__}", path="artifact")
    blob = artifact.inline_data
    if blob is not None:
        mime_type = blob.mime_type or UNKNOWN_TYPE
        # bytes() copies a bytearray that its owner may go on changing.
        data = blob.data if type(blob.data) is bytes else bytes(blob.data or b"")
        return Part(inline_data=Blob(data=data, mime_type=mime_type, display_name=blob.display_name)), mime_type
    if artifact.text is not None:
        return Part(text=artifact.text), TEXT_TYPE
    file = artifact.file_data
    if file is not None and file.file_uri:
        mime_type = guessed_type(file.file_uri.partition("?")[0].partition("#")[0], file.mime_type)
        # What another artifact is, its service knows (`artifact_references`).
        known = file.mime_type if file.file_uri.startswith("artifact://") else mime_type
        kept = FileData(file_uri=file.file_uri, mime_type=known, display_name=file.display_name)
        return Part(file_data=kept), mime_type
    raise ValidationError(
        "artifact must have text, inline_data or file_data with a file_uri; other kinds of parts are no files",
        path="artifact",
    )


def part_bytes(part: Part) -> bytes:
    """The bytes of a `stored_part`; text as UTF-8, none of one that only names a file."""
    if part.inline_data is not None:
        return part.inline_data.data or b""
    return (part.text or "").encode()


def content_hash(part: Part) -> str | None:
    """The SHA-256 of the bytes of a `stored_part` in hexadecimal; None of one that only names a file (BEY-17)."""
    if part.file_data is not None:
        return None
    import hashlib

    return hashlib.sha256(part_bytes(part)).hexdigest()


def stored_metadata(custom: Mapping[str, Any] | None, *, empty: bool = False) -> tuple[FrozenDict | None, bool]:
    """The metadata to keep, frozen, and whether they make the version a tombstone (only an ``empty`` one can be).

    Raises:
        ValidationError: a key with a reserved prefix, or a value JSON cannot hold.
    """
    if not custom:
        return None, False
    metadata = freeze(custom, (None, "custom_metadata"))
    tombstone = empty and TOMBSTONE in metadata
    for key in metadata:
        if key.startswith(_RESERVED) and not (tombstone and key == TOMBSTONE):
            raise ValidationError(
                f"custom_metadata key {key!r} starts with a reserved prefix ({', '.join(_RESERVED)}); rename it",
                path="custom_metadata",
            )
    return metadata, tombstone


def guessed_type(filename: str, mime_type: str | None = None) -> str:
    """``mime_type``, else what the file name's ending tells, else ``application/octet-stream``."""
    if mime_type:
        return mime_type
    from mimetypes import guess_type

    return guess_type(filename.rpartition("/")[2], strict=False)[0] or UNKNOWN_TYPE
