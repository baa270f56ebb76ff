"""The files of sessions in an export: a line for each version, behind the events of their session (services BEY-19).

Numbers of versions stay what they are, since events name files by them: where a number is missing in the file, the
store is given an empty version that is removed again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import msgspec

from hookwork.artifact_names import USER_PREFIX
from hookwork.errors import ArtifactNotFoundError, ValidationError
from hookwork.records.base import Record
from hookwork.records.codec import dump_json
from hookwork.records.content import Part

if TYPE_CHECKING:
    from hookwork.services import ArtifactService
    from hookwork_console.session_store import Key

_PLACEHOLDER = Part(text="")


class ArtifactLine(Record):
    """One version of a file. When it was saved is not kept: the store it goes to sets that.

    Attributes:
        artifact: its name, with ``user:`` in front when it is the user's.
        part: the content: text or bytes; of a version that names a file elsewhere, its URI. A reference to another
            artifact is given as what it stands for.
    """

    artifact: str = msgspec.field(default_factory=str)
    version: int = msgspec.field(default_factory=int)
    part: Part | None = None
    custom_metadata: dict[str, Any] | None = None


def checked_artifact(line: ArtifactLine) -> str:
    """What is wrong with a line; ``""`` when it can be stored."""
    if not line.artifact:
        return "Artifact at artifact: expected a name"
    if line.version < 0:
        return "Artifact at version: expected a whole number from 0"
    part = line.part
    if part is None or (part.text is None and part.inline_data is None and part.file_data is None):
        return "Artifact at part: expected text, inlineData or fileData"
    return ""


async def artifact_lines(
    service: ArtifactService, key: Key, users: set[tuple[str, str]]
) -> AsyncGenerator[bytes, None]:
    """The files of a session as lines with their end, version by version.

    Args:
        users: (app, user) whose own files were written already; those of this user join them.
    """
    scope = key._asdict()
    theirs = (key.app_name, key.user_id)
    try:
        listed = await service.list_artifacts(**scope)
    except ValidationError:  # an id that sessions may have and files may not (a slash): nothing was ever saved under it
        return
    names = [name for name in listed if not (name.startswith(USER_PREFIX) and theirs in users)]
    users.add(theirs)
    for name in names:
        for version in await service.list_versions(**scope, filename=name):
            at = {**scope, "filename": name, "version": version}
            try:
                part = await service.load_artifact(**at)
                info = await service.get_artifact_version(**at)
            except ArtifactNotFoundError:  # removed since it was listed
                continue
            line = ArtifactLine(artifact=name, version=version, part=part, custom_metadata=info.custom_metadata or None)
            yield dump_json(line) + b"\n"


class ArtifactWriter:
    """Stores the files of one session.

    Args:
        scope: ``app_name``, ``user_id`` and ``session_id`` in the store.
    """

    def __init__(self, service: ArtifactService, scope: dict[str, Any]) -> None:
        self._service = service
        self._scope = scope
        self._next: dict[str, int] = {}
        self._empty: list[tuple[str, int]] = []
        self._kept: set[str] = set()

    async def save(self, line: ArtifactLine) -> bool:
        """Store a version under its number; False when the store has the file already, which then stays as it is.

        Raises:
            ValidationError: the store numbers from further on than the file does, or takes no such name or content.
        """
        name = line.artifact
        if name in self._kept or not await self._begun(name):
            return False
        while self._next[name] < line.version:
            number = await self._service.save_artifact(**self._scope, filename=name, artifact=_PLACEHOLDER)
            self._empty.append((name, number))
            self._next[name] = number + 1
        if self._next[name] > line.version:
            raise ValidationError(
                f"artifact {name!r} has a version {line.version}, but this store counts from {self._next[name]}; "
                "open it with the option first_version=0"
            )
        assert line.part is not None, "the file was looked through"
        number = await self._service.save_artifact(
            **self._scope, filename=name, artifact=line.part, custom_metadata=line.custom_metadata
        )
        self._next[name] = number + 1
        return True

    async def _begun(self, name: str) -> bool:
        """Whether the file is ours to write: it is not there yet, or we began it."""
        if name in self._next:
            return True
        try:
            await self._service.list_versions(**self._scope, filename=name)
        except ArtifactNotFoundError:
            self._next[name] = self._service.first_version
            return True
        self._kept.add(name)
        return False

    async def finish(self) -> None:
        """Remove what only held numbers free."""
        for name, number in self._empty:
            await self._service.delete_artifact(**self._scope, filename=name, version=number)

    async def abandon(self) -> None:
        """Remove every file that was begun."""
        for name in self._next:
            await self._service.delete_artifact(**self._scope, filename=name)
