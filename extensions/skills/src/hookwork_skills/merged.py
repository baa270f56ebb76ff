"""Several sources as one (tools-plugins SK-07)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from hookwork.errors import ConfigurationError
from hookwork_skills.errors import DuplicateSkill, SkillNotFound
from hookwork_skills.frontmatter import Frontmatter
from hookwork_skills.source import SkillSource

T = TypeVar("T")


class MergedSource(SkillSource):
    """The skills of several sources, in their order.

    A skill is looked up in one source after the other until one has it; any other error ends the search. A name that
    two sources list is an error of the listing.
    """

    def __init__(self, *sources: SkillSource) -> None:
        for source in sources:
            if not isinstance(source, SkillSource):
                raise ConfigurationError(f"MergedSource takes skill sources, not {source!r}")
        self.sources = sources

    async def list_frontmatters(self) -> list[Frontmatter]:
        """Raises DuplicateSkill."""
        listed = [frontmatter for source in self.sources for frontmatter in await source.list_frontmatters()]
        check_unique(listed)
        return listed

    async def load_frontmatter(self, name: str) -> Frontmatter:
        return await self._first(name, lambda source: source.load_frontmatter(name))

    async def load_instructions(self, name: str) -> str:
        return await self._first(name, lambda source: source.load_instructions(name))

    async def load_resource(self, name: str, path: str) -> AsyncGenerator[bytes, None]:
        return await self._first(name, lambda source: source.load_resource(name, path))

    async def list_resources(self, name: str, subpath: str = "") -> list[str]:
        return await self._first(name, lambda source: source.list_resources(name, subpath))

    async def _first(self, name: str, lookup: Callable[[SkillSource], Awaitable[T]]) -> T:
        for source in self.sources:
            try:
                return await lookup(source)
            except SkillNotFound:
                continue
        raise SkillNotFound(f"there is no skill {name!r}")


def check_unique(frontmatters: list[Frontmatter]) -> None:
    """Raise DuplicateSkill for the first name that comes twice."""
    seen: set[str] = set()
    for frontmatter in frontmatters:
        if frontmatter.name in seen:
            raise DuplicateSkill(f"two skills are named {frontmatter.name!r}; rename one of them")
        seen.add(frontmatter.name)
