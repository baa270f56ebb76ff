"""Files of a session and its user, as a call site sees them (services ART-13), and those of a message (RUN-15)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hookwork.effects import WriteResult, perform
from hookwork.errors import ConfigurationError, PluginError
from hookwork.records.content import Content, Part

if TYPE_CHECKING:
    from hookwork.context import CallbackContext
    from hookwork.invocation import Invocation
    from hookwork.services import ArtifactVersion


class Artifacts:
    """The artifact service, bound to a run's app, user and session; saves go into the writer's delta (ART-13)."""

    __slots__ = ("_ctx",)

    def __init__(self, ctx: CallbackContext) -> None:
        self._ctx = ctx

    def _service(self) -> Any:
        service = self._ctx._inv.artifacts
        if service is None:
            raise ConfigurationError(
                "this runner has no artifact service; give it one, e.g. Runner(..., artifacts='memory:')"
            )
        return service

    def _scope(self) -> dict[str, str]:
        inv = self._ctx._inv
        return {"app_name": inv.app_name, "user_id": inv.user_id, "session_id": inv.session_id}

    async def save(
        self,
        filename: str,
        artifact: Part,
        custom_metadata: Mapping[str, Any] | None = None,
        *,
        reuse_identical: bool = False,
    ) -> int:
        """Save a part with text, inline data or the URI of a file; the new version.

        ``reuse_identical``: the latest version instead, if it is the same (services BEY-17).
        """
        save = self._service().save_artifact
        content: dict[str, Any] = {
            "filename": filename,
            "artifact": artifact,
            "custom_metadata": custom_metadata,
            **_wishes(reuse_identical),
        }
        if not self._ctx._inv.hooks.perform_write:
            return self._noted(filename, await save(**self._scope(), **content))
        from hookwork.records.codec import dump

        described: dict[str, Any] = {
            "filename": filename,
            "artifact": dump(artifact),
            "customMetadata": dict(custom_metadata or {}),
        }
        if reuse_identical:
            described["reuseIdentical"] = True
        return self._noted(filename, await self._saved_as_effect("save_artifact", described, save, content))

    async def save_stream(
        self,
        filename: str,
        source: AsyncIterable[bytes],
        *,
        mime_type: str | None = None,
        display_name: str | None = None,
        custom_metadata: Mapping[str, Any] | None = None,
        reuse_identical: bool = False,
    ) -> int:
        """Save bytes that come in chunks, never all in memory; the new version (ART-16).

        ``mime_type``: guessed from the file name when absent. ``reuse_identical`` as for `save`. Raises
        UnsupportedOperationError where the service cannot stream.
        """
        save = self._service().save_artifact_stream
        described = {"mime_type": mime_type, "display_name": display_name, "custom_metadata": custom_metadata}
        content = {"filename": filename, "source": source, **described, **_wishes(reuse_identical)}
        if not self._ctx._inv.hooks.perform_write:
            return self._noted(filename, await save(**self._scope(), **content))
        # The bytes are no part of the description: who carries the write out elsewhere calls the default for them.
        described = {"filename": filename, "mimeType": mime_type, "customMetadata": dict(custom_metadata or {})}
        return self._noted(filename, await self._saved_as_effect("save_artifact_stream", described, save, content))

    def _noted(self, filename: str, version: Any) -> int:
        if self._ctx._buffer is not None:
            self._ctx._buffer.note_artifact(filename, version)
        return int(version)

    async def _saved_as_effect(self, op: str, described: dict[str, Any], save: Any, content: dict[str, Any]) -> int:
        key = self._ctx._write_key(op)
        return await _saved_as_effect(
            self._ctx, key, {"op": op, "payload": described}, lambda: save(**self._scope(), **content, save_id=key)
        )

    async def open(
        self, filename: str, version: int | None = None
    ) -> tuple[ArtifactVersion, AsyncGenerator[bytes, None]]:
        """What is known of a version, and its bytes in chunks; close the stream when you leave early (ART-16).

        Raises:
            ArtifactNotFoundError. UnsupportedOperationError: the service cannot stream.
        """
        return await self._service().open_artifact(**self._scope(), filename=filename, version=version)  # type: ignore[no-any-return]

    async def load(self, filename: str, version: int | None = None) -> Part:
        """The newest version, or the given one. Raises ArtifactNotFoundError."""
        return await self._service().load_artifact(**self._scope(), filename=filename, version=version)  # type: ignore[no-any-return]

    async def load_version(self, filename: str, version: int) -> Part:
        """The given version."""
        return await self.load(filename, version)

    async def resolve(self, part: Part) -> Part:
        """What an ``artifact://`` reference in a part stands for; any other part as it is (services BEY-7).

        Raises:
            ArtifactReferenceError: it is another session's or user's, or cannot be followed.
            ArtifactNotFoundError: it is gone.
        """
        if part.file_data is None:
            return part
        from hookwork.artifact_names import ArtifactKey
        from hookwork.artifact_references import ArtifactReference, artifact_uri

        uri = artifact_uri(part.file_data)
        if uri is None:
            return part
        reference = ArtifactReference.parsed(uri)
        where = reference.seen_from(ArtifactKey(**self._scope(), filename="(this session)"))
        return await self._service().load_artifact(**where, version=reference.version)  # type: ignore[no-any-return]

    def reference(self, filename: str, version: int, **fields: Any) -> Part:
        """A part that stands for a version of a file of this session or user.

        ``fields``: ``mime_type`` and ``display_name`` of the file.
        """
        from hookwork.artifact_names import ArtifactKey
        from hookwork.artifact_references import reference_part

        return reference_part(ArtifactKey(**self._scope(), filename=filename), version, **fields)

    async def url(self, filename: str, version: int | None = None, *, expires_in: float | None = None) -> str:
        """A URL from which others fetch the bytes, where the service has such; see `ArtifactService.artifact_url`."""
        return await self._service().artifact_url(  # type: ignore[no-any-return]
            **self._scope(), filename=filename, version=version, expires_in=expires_in
        )

    async def list(self) -> list[str]:
        """File names of this session and user."""
        return await self._service().list_artifacts(**self._scope())  # type: ignore[no-any-return]

    async def versions(self, filename: str) -> Sequence[int]:
        """All versions of a file, ascending."""
        return await self._service().list_versions(**self._scope(), filename=filename)  # type: ignore[no-any-return]

    async def describe(self, filename: str, version: int | None = None) -> ArtifactVersion:
        """What is known of a version."""
        return await self._service().get_artifact_version(**self._scope(), filename=filename, version=version)  # type: ignore[no-any-return]

    async def describe_all(self, filename: str) -> Sequence[ArtifactVersion]:
        """What is known of each version, ascending."""
        return await self._service().list_artifact_versions(**self._scope(), filename=filename)  # type: ignore[no-any-return]


def _wishes(reuse_identical: bool) -> dict[str, Any]:
    """Arguments that a service which knows them not is spared unless they are wanted."""
    return {"reuse_identical": True} if reuse_identical else {}


async def save_blobs(inv: Invocation, content: Content, number: int = 0) -> tuple[Content, dict[str, int]]:
    """Inline data of message ``number`` of a run as artifacts, on a copy of the message (RUN-15)."""
    assert inv.artifacts is not None
    parts: list[Part] = []
    versions: dict[str, int] = {}
    for i, part in enumerate(content.parts):
        if part.inline_data is None:
            parts.append(part)
            continue
        name = f"artifact_{inv.invocation_id}_{i}"
        versions[name] = await _save_blob(inv, name, part, f"{inv.invocation_id}/save_artifact/{number}/{i}")
        parts.append(Part(text=f"Uploaded file: {name}. It is saved as an artifact."))
    return content.replace(parts=parts), versions


async def _save_blob(inv: Invocation, name: str, part: Part, key: str) -> int:
    """Save a part of the message, through the write effect when a plugin carries effects out (services GEN-8)."""
    assert inv.artifacts is not None
    save = partial(
        inv.artifacts.save_artifact,
        app_name=inv.app_name,
        user_id=inv.user_id,
        session_id=inv.session_id,
        filename=name,
        artifact=part,
    )
    if not inv.hooks.perform_write:
        return int(await save())
    from hookwork.context import InvocationContext
    from hookwork.records.codec import dump

    described = {"filename": name, "artifact": dump(part), "customMetadata": {}}
    ctx = InvocationContext(inv, None, "", "", "", place="run")
    return await _saved_as_effect(ctx, key, {"op": "save_artifact", "payload": described}, partial(save, save_id=key))


async def _saved_as_effect(
    ctx: CallbackContext, key: str, data: dict[str, Any], save: Callable[[], Awaitable[int]]
) -> int:
    """The version that the write effect gave."""

    async def default() -> WriteResult:
        return WriteResult(payload=await save())

    result, plugin = await perform(
        ctx._inv.hooks.perform_write,
        "perform_write",
        lambda then: ctx._effect("write", key, data, then),
        default,
    )
    if type(result.payload) is not int:
        raise PluginError(f"plugin {plugin!r}: 'perform_write' gave {result.payload!r} as the version of an artifact")
    return result.payload
