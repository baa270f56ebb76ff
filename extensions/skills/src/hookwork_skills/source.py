"""The contract of skill sources (tools-plugins SK-03)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing

from hookwork_skills.errors import ResourceTooLarge
from hookwork_skills.frontmatter import Frontmatter
from hookwork_skills.paths import MAX_BYTES


class SkillSource(ABC):
    """Where skills come from. Safe for concurrent use; names and paths are checked before anything is read.

    All methods raise `InvalidSkillName` for a name that breaks the rule and `SkillNotFound` for one that is not there.
    """

    @abstractmethod
    async def list_frontmatters(self) -> list[Frontmatter]:
        """Every skill on offer. Raises the first error of a source that is strict about its skills."""

    @abstractmethod
    async def load_frontmatter(self, name: str) -> Frontmatter:
        """What one skill says of itself. Raises InvalidFrontmatter."""

    @abstractmethod
    async def load_instructions(self, name: str) -> str:
        """The text of SKILL.md after the frontmatter, as it is."""

    @abstractmethod
    async def load_resource(self, name: str, path: str) -> AsyncGenerator[bytes, None]:
        """The bytes of a file, in chunks. Nothing is held open before the first one; close it (``aclosing``).

        Raises:
            InvalidResourcePath: the path leads out of the resource folders; ResourceNotFound: no such file.
        """

    @abstractmethod
    async def list_resources(self, name: str, subpath: str = "") -> list[str]:
        """The files under a folder of the skill, relative to the skill, sorted; ``""`` or ``.``: all of them.

        Raises:
            InvalidResourcePath: the path leads out of the resource folders; ResourceNotFound: no such folder.
        """


async def read_resource(source: SkillSource, name: str, path: str, limit: int = MAX_BYTES) -> bytes:
    """A file as a whole. Raises ResourceTooLarge: it has more than ``limit`` bytes."""
    content = bytearray()
    async with aclosing(await source.load_resource(name, path)) as chunks:
        async for chunk in chunks:
            content += chunk
            if len(content) > limit:
                raise ResourceTooLarge(f"{path!r} of skill {name!r} has more than {limit} bytes")
    return bytes(content)
