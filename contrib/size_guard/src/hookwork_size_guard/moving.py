"""Inline data out to the artifact service and back: content with references in place of bytes (services BEY-15)."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from hookwork import Blob, Content, FileData, FunctionResponse, Part
from hookwork.artifact_references import artifact_uri
from hookwork.errors import ArtifactNotFoundError, ArtifactReferenceError
from hookwork.records.content import FunctionResponseBlob, FunctionResponsePart

if TYPE_CHECKING:
    from hookwork.artifacts import Artifacts

logger = logging.getLogger("hookwork.size_guard")

#: Stands in a prompt for a file that is not there any more.
GONE = "[This file is no longer available.]"

#: Gives the part that a reference stands for; None when that cannot be had.
Load = Callable[[FileData], Awaitable[Part | None]]


def artifact_name(data: bytes) -> str:
    """The name of moved bytes: the same bytes have the same name."""
    return f"inline_{hashlib.sha256(data).hexdigest()[:32]}"


class Mover:
    """Moves the inline data of one run's contents.

    Attributes:
        versions: artifact name → version of what was moved.
    """

    def __init__(self, artifacts: Artifacts, limit: int) -> None:
        self._artifacts = artifacts
        self._limit = limit
        self.versions: dict[str, int] = {}

    async def moved(self, content: Content | None) -> Content | None:
        """The content with references for large inline data; None when it has none."""
        if content is None or not any(map(self._is_large_part, content.parts)):
            return None
        return content.replace(parts=[await self._part(part) for part in content.parts])

    def _is_large(self, blob: Blob | FunctionResponseBlob | None) -> bool:
        return blob is not None and blob.data is not None and len(blob.data) > self._limit

    def _is_large_part(self, part: Part) -> bool:
        response = part.function_response
        inside = response.parts if response is not None and response.parts else ()
        return self._is_large(part.inline_data) or any(self._is_large(one.inline_data) for one in inside)

    async def _part(self, part: Part) -> Part:
        if not self._is_large_part(part):
            return part
        if part.inline_data is not None:
            return part.replace(inline_data=None, file_data=await self._saved(part.inline_data))
        response = part.function_response
        assert response is not None
        parts = [
            FunctionResponsePart(file_data=await self._saved(one.inline_data))
            if one.inline_data is not None and self._is_large(one.inline_data)
            else one
            for one in response.parts or ()
        ]
        return part.replace(function_response=response.replace(parts=tuple(parts)))

    async def _saved(self, blob: Blob | FunctionResponseBlob) -> FileData:
        name = artifact_name(blob.data or b"")
        kept = Part(inline_data=Blob(data=blob.data, mime_type=blob.mime_type, display_name=blob.display_name))
        version = await self._artifacts.save(name, kept, reuse_identical=True)
        self.versions[name] = version
        reference = self._artifacts.reference(
            name, version, mime_type=blob.mime_type, display_name=blob.display_name
        ).file_data
        assert reference is not None
        return reference


def has_references(contents: list[Content]) -> bool:
    """Whether some part stands for an artifact."""
    return any(
        artifact_uri(part.file_data) is not None
        or (part.function_response is not None and _refers(part.function_response))
        for content in contents
        for part in content.parts
    )


def _refers(response: FunctionResponse) -> bool:
    return any(artifact_uri(one.file_data) is not None for one in response.parts or ())


async def resolved(content: Content, load: Load) -> Content:
    """The content with what its references stand for."""
    if not has_references([content]):
        return content
    return content.replace(parts=[await _resolved_part(part, load) for part in content.parts])


async def _resolved_part(part: Part, load: Load) -> Part:
    if part.file_data is not None and artifact_uri(part.file_data) is not None:
        found = await load(part.file_data)
        if found is None:
            return Part(text=GONE)
        return part.replace(file_data=found.file_data, inline_data=found.inline_data, text=found.text)
    response = part.function_response
    if response is None or not _refers(response):
        return part
    parts = [await _resolved_media(one, load) for one in response.parts or ()]
    return part.replace(function_response=response.replace(parts=tuple(one for one in parts if one is not None)))


async def _resolved_media(one: FunctionResponsePart, load: Load) -> FunctionResponsePart | None:
    if one.file_data is None or artifact_uri(one.file_data) is None:
        return one
    found = await load(one.file_data)
    blob = found.inline_data if found is not None else None
    if blob is None:
        return None
    return FunctionResponsePart(
        inline_data=FunctionResponseBlob(data=blob.data, mime_type=blob.mime_type, display_name=blob.display_name)
    )


async def loaded(artifacts: Artifacts, file: FileData) -> Part | None:
    """What a reference stands for; None, and a warning, when it is gone or somebody else's."""
    try:
        return await artifacts.resolve(Part(file_data=file))
    except (ArtifactNotFoundError, ArtifactReferenceError) as error:
        logger.warning("a file of the conversation cannot be shown to the model: %s", error)
        return None
