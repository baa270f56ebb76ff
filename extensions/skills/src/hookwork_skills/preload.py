"""Skills kept in memory, with a way to read them anew (tools-plugins SK-08)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Generic, TypeVar

import msgspec

from hookwork_skills.errors import ResourceNotFound, SkillNotFound
from hookwork_skills.frontmatter import Frontmatter, check_skill_name
from hookwork_skills.merged import check_unique
from hookwork_skills.paths import resource_folder, resource_path
from hookwork_skills.source import SkillSource, read_resource

#: Reads everything anew. What was kept before stays until all is read, and stays for good when that fails.
Reload = Callable[[], Awaitable[None]]

T = TypeVar("T")


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """One skill as a whole; ``resources`` by path."""

    frontmatter: Frontmatter
    instructions: str
    resources: dict[str, bytes]


async def preload_frontmatters(source: SkillSource) -> tuple[SkillSource, Reload]:
    """A source that keeps the frontmatters, sorted by name; instructions and files still come from ``source``.

    Raises:
        DuplicateSkill, and what ``source`` raises.
    """
    kept = await _Kept.read(lambda: _frontmatters(source))
    return _WithFrontmatters(source, kept), kept.reload


async def preload_all(source: SkillSource) -> tuple[SkillSource, Reload]:
    """A source that keeps everything and never asks ``source`` again, except to reload.

    Raises:
        DuplicateSkill; ResourceTooLarge: a file above 10 MiB; and what ``source`` raises.
    """
    kept = await _Kept.read(lambda: _skills(source))
    return _InMemory(kept), kept.reload


class _Kept(Generic[T]):
    """Values by skill name, replaced as a whole."""

    def __init__(self, read: Callable[[], Awaitable[Mapping[str, T]]]) -> None:
        self._read = read
        self._lock = asyncio.Lock()
        self.values: Mapping[str, T] = {}

    @classmethod
    async def read(cls, read: Callable[[], Awaitable[Mapping[str, T]]]) -> _Kept[T]:
        kept = cls(read)
        await kept.reload()
        return kept

    async def reload(self) -> None:
        async with self._lock:  # a slow reload must not overwrite a newer one
            self.values = await self._read()

    def get(self, name: str) -> T:
        check_skill_name(name)
        try:
            return self.values[name]
        except KeyError:
            raise SkillNotFound(f"there is no skill {name!r}") from None


async def _frontmatters(source: SkillSource) -> dict[str, Frontmatter]:
    listed = await source.list_frontmatters()
    check_unique(listed)
    return {frontmatter.name: frontmatter for frontmatter in sorted(listed, key=lambda found: found.name)}


async def _skills(source: SkillSource) -> dict[str, Skill]:
    skills = {}
    for name, frontmatter in (await _frontmatters(source)).items():
        paths = await source.list_resources(name)
        skills[name] = Skill(
            frontmatter=frontmatter,
            instructions=await source.load_instructions(name),
            resources={path: await read_resource(source, name, path) for path in paths},
        )
    return skills


class _WithFrontmatters(SkillSource):
    def __init__(self, source: SkillSource, kept: _Kept[Frontmatter]) -> None:
        self._source = source
        self._kept = kept

    async def list_frontmatters(self) -> list[Frontmatter]:
        return list(self._kept.values.values())

    async def load_frontmatter(self, name: str) -> Frontmatter:
        return self._kept.get(name)

    async def load_instructions(self, name: str) -> str:
        return await self._source.load_instructions(name)

    async def load_resource(self, name: str, path: str) -> AsyncGenerator[bytes, None]:
        return await self._source.load_resource(name, path)

    async def list_resources(self, name: str, subpath: str = "") -> list[str]:
        return await self._source.list_resources(name, subpath)


class _InMemory(SkillSource):
    def __init__(self, kept: _Kept[Skill]) -> None:
        self._kept = kept

    async def list_frontmatters(self) -> list[Frontmatter]:
        return [skill.frontmatter for skill in self._kept.values.values()]

    async def load_frontmatter(self, name: str) -> Frontmatter:
        return self._kept.get(name).frontmatter

    async def load_instructions(self, name: str) -> str:
        return self._kept.get(name).instructions

    async def load_resource(self, name: str, path: str) -> AsyncGenerator[bytes, None]:
        check_skill_name(name)
        normal = resource_path(path)
        content = self._kept.get(name).resources.get(normal)
        if content is None:
            raise ResourceNotFound(f"skill {name!r} has no file {normal!r}")
        return _one_chunk(content)

    async def list_resources(self, name: str, subpath: str = "") -> list[str]:
        check_skill_name(name)
        folder = resource_folder(subpath)
        paths = self._kept.get(name).resources
        found = sorted(path for path in paths if not folder or path == folder or path.startswith(f"{folder}/"))
        if folder and not found:
            raise ResourceNotFound(f"skill {name!r} has no folder {folder!r}")
        return found


async def _one_chunk(content: bytes) -> AsyncGenerator[bytes, None]:
    yield content
