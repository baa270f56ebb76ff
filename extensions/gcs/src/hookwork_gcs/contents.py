"""Parts and versions as objects: content type and metadata, shared with google-adk (services GCS-3, GCS-4, GCS-7).

An object that only names a file elsewhere, or stands for another artifact, is empty and has the URI in its metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from hookwork.artifact_contents import TEXT_TYPE, TOMBSTONE, UNKNOWN_TYPE
from hookwork.errors import BackendError, ValidationError
from hookwork.records.content import Blob, FileData, Part
from hookwork.records.frozen import freeze
from hookwork.services import ArtifactVersion
from hookwork_gcs.layout import uri_of

#: Most bytes of custom metadata that an object can have (Cloud Storage, "Quotas and limits").
MAX_METADATA = 8192

IS_TEXT, DISPLAY_NAME = "adkIsText", "adkDisplayName"
FILE_URI, FILE_TYPE = "adkFileUri", "adkFileMimeType"
SAVE_ID, SHA256 = "hookworkSaveId", "hookworkSha256"
_RESERVED = ("adk", "hookwork")


class Kind(NamedTuple):
    """What an object holds, apart from its bytes. ``file_uri``: what it names in place of bytes (BEY-7)."""

    content_type: str
    is_text: bool = False
    display_name: str | None = None
    file_uri: str | None = None

    def metadata(self, custom: Mapping[str, Any] | None, save_id: str, sha256: str) -> dict[str, str]:
        """The object's metadata: google-adk's marks, ours, and the user's as text.

        Raises:
            ValidationError: more than Cloud Storage keeps, or a content type that no header can hold.
        """
        if not (self.content_type.isascii() and self.content_type.isprintable()):
            raise ValidationError("mime_type must be printable ASCII, as in 'image/png'", path="mime_type")
        found = {key: value if isinstance(value, str) else json.dumps(value) for key, value in (custom or {}).items()}
        if self.is_text:
            found[IS_TEXT] = "true"
        if self.display_name:
            found[DISPLAY_NAME] = self.display_name
        if self.file_uri is not None:
            found[FILE_URI], found[FILE_TYPE] = self.file_uri, self.content_type
        else:
            found[SHA256] = sha256
        found[SAVE_ID] = save_id
        size = sum(len(key.encode()) + len(value.encode()) for key, value in found.items())
        if size > MAX_METADATA:
            raise ValidationError(
                f"the metadata have {size} bytes; Cloud Storage keeps at most {MAX_METADATA} with an object",
                path="custom_metadata",
            )
        return found


class Stored(NamedTuple):
    """An object as the service describes it: the resource of the JSON API."""

    resource: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its name in the bucket."""
        return str(self.resource["name"])

    @property
    def generation(self) -> str:
        """Which writing of that name it is."""
        return str(self.resource.get("generation", ""))

    @property
    def metadata(self) -> Mapping[str, str]:
        """Its metadata, ours among them."""
        return self.resource.get("metadata") or {}

    @property
    def content_type(self) -> str:
        """Its content type; unknown for objects without one."""
        return self.resource.get("contentType") or UNKNOWN_TYPE

    @property
    def is_tombstone(self) -> bool:
        """Whether it stands for "no file" (ART-17)."""
        return TOMBSTONE in self.metadata and int(self.resource.get("size") or 0) == 0

    def is_text(self, *, legacy: bool) -> bool:
        """Whether it holds a text part. ``legacy``: so do plain texts of writers that set no mark at all."""
        if IS_TEXT in self.metadata:
            return self.metadata[IS_TEXT] == "true"
        return legacy and SAVE_ID not in self.metadata and self.content_type == TEXT_TYPE

    def holds(self, kind: Kind, md5: str) -> bool:
        """Whether it is what a save with these would have written."""
        return (
            self.resource.get("md5Hash") == md5
            and self.content_type == kind.content_type
            and self.is_text(legacy=False) == kind.is_text
            and self.metadata.get(DISPLAY_NAME) == (kind.display_name or None)
            and self.metadata.get(FILE_URI) == kind.file_uri
        )

    def custom(self) -> dict[str, str]:
        """The user's metadata."""
        return {key: value for key, value in self.metadata.items() if not key.startswith(_RESERVED)}

    def file(self) -> FileData | None:
        """What an object names that has no bytes of its own, as google-adk writes them; None for others."""
        uri = self.metadata.get(FILE_URI)
        if not uri:
            return None
        return FileData(
            file_uri=uri,
            mime_type=self.metadata.get(FILE_TYPE) or self.content_type,
            display_name=self.metadata.get(DISPLAY_NAME),
        )

    def part(self, data: bytes, *, legacy_text: bool) -> Part:
        """The stored part. Raises BackendError when a text is no UTF-8."""
        if not self.is_text(legacy=legacy_text):
            name = self.metadata.get(DISPLAY_NAME)
            return Part(inline_data=Blob(data=data, mime_type=self.content_type, display_name=name))
        try:
            return Part(text=data.decode())
        except UnicodeDecodeError as error:
            raise BackendError(f"{self.name!r} is marked as text but is not UTF-8", code="not_utf8") from error

    def info(self, bucket: str, version: int) -> ArtifactVersion:
        """What is known of the version."""
        custom = self.custom()
        created = self.resource.get("timeCreated")
        return ArtifactVersion(
            version=version,
            canonical_uri=uri_of(bucket, self.name),
            custom_metadata=freeze(custom, (None, "custom_metadata")) if custom else None,
            create_time=datetime.fromisoformat(created) if created else None,
            mime_type=self.content_type,
            sha256=self.metadata.get(SHA256),
            file_uri=self.metadata.get(FILE_URI) or None,
        )
