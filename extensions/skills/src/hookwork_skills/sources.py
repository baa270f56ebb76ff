"""Skills in a folder, in a package, in an artifact (tools-plugins SK-04 … SK-06)."""

from __future__ import annotations

import asyncio
import io
import logging
from abc import abstractmethod
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

from hookwork.errors import ConfigurationError
from hookwork_skills.errors import InvalidFrontmatter, InvalidSkillName, ResourceNotFound, SkillError, SkillNotFound
from hookwork_skills.frontmatter import Frontmatter, check_skill_name, parse
from hookwork_skills.paths import MAX_BYTES, SKILL_FILE, resource_folder, resource_path
from hookwork_skills.source import SkillSource
from hookwork_skills.trees import UNREADABLE, FolderTree, Opener, PackageTree, Tree, ZipTree, all_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from hookwork.services import ArtifactService

logger = logging.getLogger("hookwork.skills")

_CHUNK = 65_536
T = TypeVar("T")


class _TreeSource(SkillSource):
    """A source over a tree; everything that touches files happens in a worker thread."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self._warned: set[str] = set()

    @abstractmethod
    async def _tree(self) -> Tree:
        """The files as they are now."""

    async def _read(self, work: Callable[[Tree], T]) -> T:
        return await asyncio.to_thread(work, await self._tree())

    async def list_frontmatters(self) -> list[Frontmatter]:
        """Sorted by name. A skill that breaks a rule is skipped with one warning, or raised by a strict source."""
        return await self._read(self._listed)

    async def load_frontmatter(self, name: str) -> Frontmatter:
        check_skill_name(name)
        return (await self._read(lambda tree: _document(tree, name)))[0]

    async def load_instructions(self, name: str) -> str:
        check_skill_name(name)
        return (await self._read(lambda tree: _document(tree, name)))[1]

    async def load_resource(self, name: str, path: str) -> AsyncGenerator[bytes, None]:
        check_skill_name(name)
        normal = resource_path(path)
        opener = await self._read(lambda tree: _opener(tree, name, normal))
        return _chunks(opener, f"{normal!r} of skill {name!r}")

    async def list_resources(self, name: str, subpath: str = "") -> list[str]:
        check_skill_name(name)
        folder = resource_folder(subpath)
        return await self._read(lambda tree: _resources(tree, name, folder))

    def _listed(self, tree: Tree) -> list[Frontmatter]:
        found = []
        for name in tree.skills():
            try:
                found.append(_document(tree, name)[0])
            except SkillError as error:
                if self.strict:
                    raise
                if name not in self._warned:
                    self._warned.add(name)
                    logger.warning("skill %r is left out: %s", name, error)
        return found


class FolderSource(_TreeSource):
    """The skills in the immediate subfolders of a folder, read from disk at each call.

    Args:
        folder: where the skill folders lie.
        strict: True raises for a skill that breaks a rule instead of leaving it out of the listing with one warning.
    """

    def __init__(self, folder: str | Path, *, strict: bool = False) -> None:
        super().__init__(strict)
        self.folder = Path(folder)

    async def _tree(self) -> Tree:
        return FolderTree(self.folder)


class PackageSource(_TreeSource):
    """The skills that an importable package brings along as data files.

    Args:
        package: the package's import name; it is imported at the first use.
        folder: where in the package the skill folders lie, with slashes.
        strict: as in `FolderSource`.
    """

    def __init__(self, package: str, folder: str = "skills", *, strict: bool = False) -> None:
        super().__init__(strict)
        self.package = package
        self.folder = folder

    async def _tree(self) -> Tree:
        return await asyncio.to_thread(self._located)

    def _located(self) -> Tree:
        from importlib.resources import files

        try:
            root = files(self.package)
        except ImportError as error:
            raise ConfigurationError(f"the package {self.package!r} of skills cannot be imported: {error}") from error
        for name in filter(None, self.folder.split("/")):
            root = root.joinpath(name)
        return FolderTree(root) if isinstance(root, Path) else PackageTree(root)


class ArtifactSource(_TreeSource):
    """The skills in one artifact: a zip archive whose top folders are skills. Its newest version is read at each call.

    Args:
        service: the artifact service.
        app_name, user_id, session_id, filename: which artifact; ``user:`` files need no particular session.
        strict: as in `FolderSource`.
    """

    def __init__(
        self,
        service: ArtifactService,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str = "skills",
        strict: bool = False,
    ) -> None:
        super().__init__(strict)
        self._service = service
        self._scope = (app_name, user_id, session_id, filename)

    async def _tree(self) -> Tree:
        app_name, user_id, session_id, filename = self._scope
        part = await self._service.load_artifact(
            app_name=app_name, user_id=user_id, session_id=session_id, filename=filename
        )
        data = part.inline_data.data if part.inline_data is not None else None
        if data is None:
            raise SkillError(f"the artifact {filename!r} is no zip archive of skills")
        return await asyncio.to_thread(ZipTree, io.BytesIO(data))


def _document(tree: Tree, name: str) -> tuple[Frontmatter, str]:
    """SKILL.md, read and checked against its folder."""
    document = _skill_file(tree, name)
    try:
        with document() as file:
            content = _limited(file, name)
    except UNREADABLE as error:
        raise InvalidFrontmatter(f"{SKILL_FILE} of skill {name!r} cannot be read: {error}") from error
    frontmatter, body = parse(content)
    if frontmatter.name != name:
        raise InvalidSkillName(
            f"the skill in folder {name!r} calls itself {frontmatter.name!r}; give both the same name"
        )
    return frontmatter, body


def _skill_file(tree: Tree, name: str) -> Opener:
    found = tree.file(name, SKILL_FILE)
    if found is None:
        raise SkillNotFound(f"there is no skill {name!r}")
    return found


def _limited(file: IO[bytes], name: str) -> bytes:
    content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise InvalidFrontmatter(f"{SKILL_FILE} of skill {name!r} has more than {MAX_BYTES} bytes")
    return content


def _opener(tree: Tree, name: str, path: str) -> Opener:
    _skill_file(tree, name)
    found = tree.file(name, path)
    if found is None:
        raise ResourceNotFound(f"skill {name!r} has no file {path!r}")
    return found


def _resources(tree: Tree, name: str, folder: str) -> list[str]:
    _skill_file(tree, name)
    found = all_files(tree, name, folder)
    if found is None:
        raise ResourceNotFound(f"skill {name!r} has no folder {folder!r}")
    return found


async def _chunks(opener: Opener, what: str) -> AsyncGenerator[bytes, None]:
    try:
        file = await asyncio.to_thread(opener)
        try:
            while chunk := await asyncio.to_thread(file.read, _CHUNK):
                yield chunk
        finally:
            file.close()
    except UNREADABLE as error:
        raise SkillError(f"{what} cannot be read: {error}") from error
