"""Files of a session and its user, as a call site sees them (services ART-13), and those of a message (RUN-15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

    async def save(self, filename: str, artifact: Part, custom_metadata: Mapping[str, Any] | None = None) -> int:
        """Save a text or inline-data part; the new version."""
        ctx = self._ctx
        service = self._service()
        chain = ctx._inv.hooks.perform_write
        if not chain:
            version = await service.save_artifact(
                **self._scope(), filename=filename, artifact=artifact, custom_metadata=custom_metadata
            )
        else:
            version = await self._save_as_effect(service, filename, artifact, custom_metadata)
        if ctx._buffer is not None:
            ctx._buffer.note_artifact(filename, version)
        return int(version)

    async def _save_as_effect(
        self, service: Any, filename: str, artifact: Part, custom_metadata: Mapping[str, Any] | None
    ) -> int:
        from hookwork.records.codec import dump

        ctx = self._ctx
        key = ctx._write_key("save_artifact")

        async def default() -> WriteResult:
            return WriteResult(
                payload=await service.save_artifact(
                    **self._scope(), filename=filename, artifact=artifact, custom_metadata=custom_metadata, save_id=key
                )
            )

        payload = {"filename": filename, "artifact": dump(artifact), "customMetadata": dict(custom_metadata or {})}
        result, plugin = await perform(
            ctx._inv.hooks.perform_write,
            "perform_write",
            lambda then: ctx._effect("write", key, {"op": "save_artifact", "payload": payload}, then),
            default,
        )
        if type(result.payload) is not int:
            raise PluginError(
                f"plugin {plugin!r}: 'perform_write' gave {result.payload!r} as the version of an artifact"
            )
        return result.payload

    async def load(self, filename: str, version: int | None = None) -> Part:
        """The newest version, or the given one. Raises ArtifactNotFoundError."""
        return await self._service().load_artifact(**self._scope(), filename=filename, version=version)  # type: ignore[no-any-return]

    async def load_version(self, filename: str, version: int) -> Part:
        """The given version."""
        return await self.load(filename, version)

    async def list(self) -> list[str]:
        """File names of this session and user."""
        return await self._service().list_artifacts(**self._scope())  # type: ignore[no-any-return]

    async def versions(self, filename: str) -> Sequence[int]:
        """All versions of a file, ascending."""
        return await self._service().list_versions(**self._scope(), filename=filename)  # type: ignore[no-any-return]

    async def describe(self, filename: str, version: int | None = None) -> ArtifactVersion:
        """What is known of a version."""
        return await self._service().get_artifact_version(**self._scope(), filename=filename, version=version)  # type: ignore[no-any-return]


async def save_blobs(inv: Invocation, content: Content) -> tuple[Content, dict[str, int]]:
    """Inline data of the message as artifacts, on a copy of the message (RUN-15)."""
    assert inv.artifacts is not None
    parts: list[Part] = []
    versions: dict[str, int] = {}
    for i, part in enumerate(content.parts):
        if part.inline_data is None:
            parts.append(part)
            continue
        name = f"artifact_{inv.invocation_id}_{i}"
        versions[name] = await inv.artifacts.save_artifact(
            app_name=inv.app_name, user_id=inv.user_id, session_id=inv.session_id, filename=name, artifact=part
        )
        parts.append(Part(text=f"Uploaded file: {name}. It is saved as an artifact."))
    return content.replace(parts=parts), versions
