"""``metadata.json``, the record beside a version's payload (services FIL-1): google-adk's keys and some of ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

METADATA = "metadata.json"
_SAVE_ID, _SHA256, _FILE_URI = "hookworkSaveId", "hookworkSha256", "hookworkFileUri"


class Document(NamedTuple):
    """What is recorded of a version. ``mime_type`` None: the payload is text (as google-adk has it).

    ``file_uri``: what a version stands for that has no bytes of its own (services BEY-7).
    """

    file_name: str
    mime_type: str | None = None
    custom_metadata: Mapping[str, Any] | None = None
    create_time: datetime | None = None
    display_name: str | None = None
    save_id: str | None = None
    sha256: str | None = None
    file_uri: str | None = None

    def same_kind(self, other: Document) -> bool:
        """Whether both describe the same content, apart from its bytes."""
        own = self.mime_type, self.display_name, self.file_uri
        return own == (other.mime_type, other.display_name, other.file_uri)

    def same_metadata(self, other: Document) -> bool:
        """Whether both have the same custom metadata."""
        return (self.custom_metadata or {}) == (other.custom_metadata or {})

    def encode(self, version: int, canonical_uri: str) -> bytes:
        """The JSON to store. google-adk takes ``createTime`` as epoch seconds only."""
        moment = self.create_time.timestamp() if self.create_time is not None else None
        fields = {
            "fileName": self.file_name,
            "version": version,
            "canonicalUri": canonical_uri,
            "mimeType": self.mime_type,
            "createTime": None if moment is None else round(moment, 6),
            "displayName": self.display_name,
            _SAVE_ID: self.save_id,
            _SHA256: self.sha256,
            _FILE_URI: self.file_uri,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        # google-adk refuses null here, so the key is always an object.
        return json.dumps({**given, "customMetadata": dict(self.custom_metadata or {})}, ensure_ascii=False).encode()


def read_document(version: Path) -> Document | None:
    """The record in a version's folder; None when there is none, or nothing that can be read as one.

    Raises:
        OSError: other than that the file is absent.
    """
    path = version / METADATA
    if path.is_symlink():  # it may lead anywhere
        return None
    try:
        raw = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        found = json.loads(raw)
    except ValueError:
        return None  # another kit was stopped while it wrote: the version was never finished
    if not isinstance(found, dict):
        return None
    custom = found.get("customMetadata")
    return Document(
        file_name=_text(found.get("fileName")) or "",
        mime_type=_text(found.get("mimeType")),
        custom_metadata=custom if isinstance(custom, dict) and custom else None,
        create_time=_moment(found.get("createTime")) or datetime.fromtimestamp(path.stat().st_mtime, UTC),
        display_name=_text(found.get("displayName")),
        save_id=_text(found.get(_SAVE_ID)),
        sha256=_text(found.get(_SHA256)),
        file_uri=_text(found.get(_FILE_URI)),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _moment(value: Any) -> datetime | None:
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(round(value, 6), UTC)
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        return None  # no moment of a year that can be shown; the file's own time stands in
    return None
