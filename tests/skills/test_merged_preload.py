"""Merged and preloaded sources (tools-plugins SK-07, SK-08)."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from hookwork.errors import ConfigurationError
from hookwork_skills import (
    DuplicateSkill,
    FolderSource,
    Frontmatter,
    InvalidFrontmatter,
    InvalidResourcePath,
    MergedSource,
    ResourceNotFound,
    ResourceTooLarge,
    SkillNotFound,
    SkillSource,
    preload_all,
    preload_frontmatters,
    read_resource,
)

MIB = 1024 * 1024


class Fixed(SkillSource):
    """A source of given names that counts its calls; everything else of it fails with one error."""

    def __init__(self, *names: str, error: Exception | None = None) -> None:
        self.names = names
        self.error = error
        self.calls = 0

    async def list_frontmatters(self) -> list[Frontmatter]:
        self.calls += 1
        return [Frontmatter(name=name, description=f"{name}!") for name in self.names]

    async def _one(self, name: str) -> str:
        self.calls += 1
        if self.error is not None:
            raise self.error
        if name not in self.names:
            raise SkillNotFound(name)
        return name

    async def load_frontmatter(self, name: str) -> Frontmatter:
        return Frontmatter(name=await self._one(name), description=f"{name}!")

    async def load_instructions(self, name: str) -> str:
        return f"{await self._one(name)} of {self.names}"

    async def load_resource(self, name: str, path: str) -> AsyncGenerator[bytes, None]:
        await self._one(name)
        raise ResourceNotFound(path)

    async def list_resources(self, name: str, subpath: str = "") -> list[str]:
        await self._one(name)
        return []


# --- merged -----------------------------------------------------------------------------------------------------------


async def test_sk_07_listing_in_the_order_of_the_sources() -> None:
    merged = MergedSource(Fixed("b", "a"), Fixed("c"))
    assert [found.name for found in await merged.list_frontmatters()] == ["b", "a", "c"]


async def test_sk_07_a_name_of_two_sources_is_a_duplicate() -> None:
    with pytest.raises(DuplicateSkill, match="'a'"):
        await MergedSource(Fixed("a"), Fixed("b", "a")).list_frontmatters()


async def test_sk_07_the_first_source_that_has_the_skill_answers() -> None:
    merged = MergedSource(Fixed("a"), Fixed("b"), Fixed("b", "c"))
    assert await merged.load_instructions("b") == "b of ('b',)"
    assert (await merged.load_frontmatter("c")).name == "c"
    for attempt in (merged.load_frontmatter("d"), merged.list_resources("d"), merged.load_resource("d", "assets/x")):
        with pytest.raises(SkillNotFound, match="'d'"):
            await attempt


async def test_sk_07_any_other_error_ends_the_search() -> None:
    last = Fixed("a")
    merged = MergedSource(Fixed(), Fixed(error=InvalidFrontmatter("bad")), last)
    with pytest.raises(InvalidFrontmatter):
        await merged.load_instructions("a")
    with pytest.raises(ResourceNotFound):
        await MergedSource(Fixed("a"), last).load_resource("a", "assets/x")
    assert last.calls == 0


def test_sk_07_only_sources_are_merged() -> None:
    with pytest.raises(ConfigurationError):
        MergedSource("skills")  # type: ignore[arg-type]


# --- preloaded --------------------------------------------------------------------------------------------------------


async def test_sk_08_frontmatters_are_kept_sorted_and_the_rest_is_asked_for() -> None:
    base = Fixed("b", "a")
    source, reload = await preload_frontmatters(base)
    assert [found.name for found in await source.list_frontmatters()] == ["a", "b"]
    assert (await source.load_frontmatter("b")).description == "b!"
    assert base.calls == 1
    assert await source.load_instructions("a") == "a of ('b', 'a')"
    base.names = ("c",)
    with pytest.raises(SkillNotFound):
        await source.load_frontmatter("c")
    await reload()
    assert [found.name for found in await source.list_frontmatters()] == ["c"]


@pytest.mark.parametrize("preload", [preload_frontmatters, preload_all])
async def test_sk_08_duplicates_are_errors_and_a_failing_reload_changes_nothing(preload: Any) -> None:
    with pytest.raises(DuplicateSkill):
        await preload(Fixed("a", "a"))
    base = Fixed("a")
    source, reload = await preload(base)
    base.names = ("b", "b")
    with pytest.raises(DuplicateSkill):
        await reload()
    assert [found.name for found in await source.list_frontmatters()] == ["a"]


async def test_sk_08_a_full_preload_never_asks_the_base_again(skills: Path) -> None:
    source, reload = await preload_all(FolderSource(skills))
    shutil.rmtree(skills)
    assert await source.load_instructions("alpha") == "Do it.\n"
    assert await read_resource(source, "alpha", "scripts/run.py") == b"print(1)"
    assert await source.list_resources("alpha", "references/deep") == ["references/deep/more.md"]
    with pytest.raises(ResourceNotFound):
        await source.list_resources("alpha", "references/absent")
    with pytest.raises(InvalidResourcePath):
        await source.list_resources("alpha", "..")
    with pytest.raises(ConfigurationError):
        await reload()
    assert [found.name for found in await source.list_frontmatters()] == ["alpha", "beta"]


async def test_sk_08_each_file_has_at_most_10_mib(skills: Path) -> None:
    place = skills / "alpha" / "assets" / "big.bin"
    place.write_bytes(b"x" * (10 * MIB))
    source, reload = await preload_all(FolderSource(skills))
    assert len(await read_resource(source, "alpha", "assets/big.bin")) == 10 * MIB
    place.write_bytes(b"x" * (10 * MIB + 1))
    with pytest.raises(ResourceTooLarge, match=r"big\.bin"):
        await reload()
