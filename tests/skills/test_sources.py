"""Skill sources (tools-plugins SK-03 … SK-06): reading, and what an attacker may try."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import stat
import sys
import zipfile
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from hookwork.errors import ArtifactNotFoundError, ConfigurationError
from hookwork.records.content import Blob, Part
from hookwork_inmemory import InMemoryArtifactService
from hookwork_skills import (
    ArtifactSource,
    FolderSource,
    InvalidFrontmatter,
    InvalidResourcePath,
    InvalidSkillName,
    PackageSource,
    ResourceNotFound,
    ResourceTooLarge,
    SkillError,
    SkillNotFound,
    SkillSource,
    preload_all,
    read_resource,
)
from hookwork_skills.trees import MAX_ENTRIES

SCOPE: Any = {"app_name": "app", "user_id": "u", "session_id": "skills", "filename": "user:skills.zip"}
MIB = 1024 * 1024


def zipped(folder: Path) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder).as_posix())
    return target.getvalue()


async def in_artifact(data: bytes) -> ArtifactSource:
    service = InMemoryArtifactService()
    await service.save_artifact(**SCOPE, artifact=Part(inline_data=Blob(mime_type="application/zip", data=data)))
    return ArtifactSource(service, app_name="app", user_id="u", filename="user:skills.zip")


@pytest.fixture(params=["folder", "package", "zipped package", "artifact", "preloaded"])
async def source(request: pytest.FixtureRequest, skills: Path, monkeypatch: pytest.MonkeyPatch) -> SkillSource:
    """The same skills from every kind of source."""
    if request.param == "artifact":
        return await in_artifact(zipped(skills))
    if request.param.endswith("package"):
        name = f"pkg_{request.param.split()[0]}_{id(skills):x}"
        package = skills.parent / "lib" / name
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        skills.rename(package / "skills")
        root = package.parent
        if request.param == "zipped package":
            root = root.parent / "lib.zip"
            root.write_bytes(zipped(package.parent))
        monkeypatch.syspath_prepend(str(root))
        monkeypatch.delitem(sys.modules, name, raising=False)
        return PackageSource(name)
    folder = FolderSource(skills)
    return (await preload_all(folder))[0] if request.param == "preloaded" else folder


# --- reading ----------------------------------------------------------------------------------------------------------


async def test_sk_04_immediate_folders_with_a_skill_file(source: SkillSource) -> None:
    listed = await source.list_frontmatters()
    assert [(found.name, found.description) for found in listed] == [
        ("alpha", "Does things."),
        ("beta", "Bakes & brews."),
    ]
    assert await source.load_frontmatter("beta") == listed[1]
    assert await source.load_instructions("alpha") == "Do it.\n"


async def test_sk_06_resources_relative_to_the_skill(source: SkillSource) -> None:
    everything = [
        "assets/blob.bin",
        "assets/logo.png",
        "references/deep/more.md",
        "references/guide.md",
        "scripts/run.py",
    ]
    assert await source.list_resources("alpha") == everything
    assert await source.list_resources("alpha", ".") == everything
    assert await source.list_resources("alpha", "references") == everything[2:4]
    assert await source.list_resources("alpha", "references/deep/../deep/") == ["references/deep/more.md"]
    assert await source.list_resources("beta") == []


@pytest.mark.parametrize(
    ("subpath", "error"),
    [
        ("references/absent", ResourceNotFound),
        ("notes", InvalidResourcePath),
        ("..", InvalidResourcePath),
        ("/references", InvalidResourcePath),
        ("references/..", InvalidResourcePath),
    ],
)
async def test_sk_06_other_folders(source: SkillSource, subpath: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        await source.list_resources("alpha", subpath)


async def test_sk_03_a_resource_is_a_stream(source: SkillSource) -> None:
    async with aclosing(await source.load_resource("alpha", "references/guide.md")) as chunks:
        assert b"".join([chunk async for chunk in chunks]) == "# Guide ü".encode()
    assert await read_resource(source, "alpha", "./references/../assets/blob.bin") == b"\xff\xfe\x00"


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("references/absent.md", ResourceNotFound),
        ("references/deep", ResourceNotFound),
        ("", InvalidResourcePath),
        ("references", InvalidResourcePath),
        ("references/", InvalidResourcePath),
        ("SKILL.md", InvalidResourcePath),
        ("references/../SKILL.md", InvalidResourcePath),
        ("secret.txt", InvalidResourcePath),
        ("../beta/SKILL.md", InvalidResourcePath),
        ("references/../../beta/references/x", InvalidResourcePath),
        ("/etc/passwd", InvalidResourcePath),
        ("references\\..\\SKILL.md", InvalidResourcePath),
        ("references/a\x00b", InvalidResourcePath),
        ("C:/x", InvalidResourcePath),
        ("references/" + "x" * 5000, ResourceNotFound),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_sk_05_paths_stay_inside_the_three_folders(
    source: SkillSource, path: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await source.load_resource("alpha", path)


@pytest.mark.parametrize("name", ["..", "../skills/alpha", "Alpha", "", "alpha/../beta", "/etc", "a\x00"])
async def test_sk_05_names_are_checked_before_anything_is_read(source: SkillSource, name: str) -> None:
    for attempt in (
        source.load_frontmatter(name),
        source.load_instructions(name),
        source.load_resource(name, "references/x"),
        source.list_resources(name),
    ):
        with pytest.raises(InvalidSkillName):
            await attempt


@pytest.mark.parametrize("name", ["gamma", "notes"])
async def test_sk_03_a_folder_without_a_skill_file_is_no_skill(source: SkillSource, name: str) -> None:
    for attempt in (
        source.load_frontmatter(name),
        source.load_instructions(name),
        source.load_resource(name, "references/x"),
        source.list_resources(name),
    ):
        with pytest.raises(SkillNotFound):
            await attempt


async def test_sk_03_concurrent_use(source: SkillSource) -> None:
    reads = [read_resource(source, "alpha", "references/guide.md") for _ in range(20)]
    lists = [source.list_frontmatters() for _ in range(20)]
    contents = await asyncio.gather(*reads)
    assert set(contents) == {"# Guide ü".encode()}
    assert {len(listed) for listed in await asyncio.gather(*lists)} == {2}


# --- bad skills -------------------------------------------------------------------------------------------------------


async def test_sk_04_a_bad_skill_is_left_out_with_one_warning(
    skills: Path, write_skill: Any, caplog: pytest.LogCaptureFixture
) -> None:
    write_skill("broken", text="no frontmatter")
    write_skill("renamed", text="---\nname: other\ndescription: d\n---\n")
    source = FolderSource(skills)
    with caplog.at_level(logging.WARNING, logger="hookwork.skills"):
        for _ in range(2):
            assert [found.name for found in await source.list_frontmatters()] == ["alpha", "beta"]
    assert [record.getMessage().split("'")[1] for record in caplog.records] == ["broken", "renamed"]
    with pytest.raises(InvalidFrontmatter):
        await source.load_frontmatter("broken")


async def test_sk_04_a_strict_source_raises(skills: Path, write_skill: Any) -> None:
    write_skill("renamed", text="---\nname: other\ndescription: d\n---\n")
    with pytest.raises(InvalidSkillName, match=r"'renamed'.*'other'"):
        await FolderSource(skills, strict=True).list_frontmatters()


async def test_sk_04_the_disk_is_read_at_each_call(skills: Path, write_skill: Any) -> None:
    source = FolderSource(skills)
    await source.list_frontmatters()
    write_skill("gamma", body="New.")
    assert len(await source.list_frontmatters()) == 3
    assert await source.load_instructions("gamma") == "New."


async def test_an_absent_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nowhere"):
        await FolderSource(tmp_path / "nowhere").list_frontmatters()
    with pytest.raises(ConfigurationError, match="no_such_package"):
        await PackageSource("no_such_package_at_all").list_frontmatters()


# --- attacks on folders -----------------------------------------------------------------------------------------------


async def test_sk_05_links_out_of_the_skill_are_refused(skills: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "key.pem").write_text("secret")
    references = skills / "alpha" / "references"
    (references / "key.md").symlink_to(outside / "key.pem")
    (references / "up").symlink_to(outside, target_is_directory=True)
    (references / "sibling.md").symlink_to(skills / "beta" / "SKILL.md")
    (references / "loop.md").symlink_to(references / "loop.md")
    (references / "own.md").symlink_to(references / "guide.md")
    source = FolderSource(skills)
    for path in ("references/key.md", "references/up/key.pem", "references/sibling.md"):
        with pytest.raises(InvalidResourcePath):
            await source.load_resource("alpha", path)
    with pytest.raises(InvalidResourcePath):
        await source.list_resources("alpha", "references/up")
    with pytest.raises(ResourceNotFound):
        await source.load_resource("alpha", "references/loop.md")
    assert await read_resource(source, "alpha", "references/own.md") == "# Guide ü".encode()
    listed = await source.list_resources("alpha", "references")
    assert listed == ["references/deep/more.md", "references/guide.md", "references/own.md"]


async def test_sk_05_a_skill_file_that_leads_outside_is_refused(skills: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.md"
    elsewhere.write_text("---\nname: beta\ndescription: d\n---\nsecret")
    (skills / "beta" / "SKILL.md").unlink()
    (skills / "beta" / "SKILL.md").symlink_to(elsewhere)
    source = FolderSource(skills)
    with pytest.raises(InvalidResourcePath):
        await source.load_instructions("beta")
    assert [found.name for found in await source.list_frontmatters()] == ["alpha"]


async def test_sk_05_a_pipe_is_no_file(skills: Path) -> None:
    os.mkfifo(skills / "alpha" / "references" / "pipe.md")
    source = FolderSource(skills)
    with pytest.raises(ResourceNotFound):
        await source.load_resource("alpha", "references/pipe.md")
    assert "references/pipe.md" not in await source.list_resources("alpha")


async def test_sk_08_10_mib_are_the_most_that_is_read_at_once(skills: Path) -> None:
    place = skills / "alpha" / "assets" / "big.bin"
    source = FolderSource(skills)
    place.write_bytes(b"x" * (10 * MIB))
    assert len(await read_resource(source, "alpha", "assets/big.bin")) == 10 * MIB
    place.write_bytes(b"x" * (10 * MIB + 1))
    with pytest.raises(ResourceTooLarge):
        await read_resource(source, "alpha", "assets/big.bin")


async def test_a_huge_skill_file_is_refused(skills: Path) -> None:
    with (skills / "beta" / "SKILL.md").open("ab") as file:
        file.truncate(10 * MIB + 1)
    with pytest.raises(InvalidFrontmatter, match="more than"):
        await FolderSource(skills).load_instructions("beta")


# --- attacks on archives ----------------------------------------------------------------------------------------------

SKILL = "---\nname: a\ndescription: d\n---\n"


async def archive(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> ArtifactSource:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a/SKILL.md", SKILL)
        for name, content in entries:
            made.writestr(name, content)
    return await in_artifact(target.getvalue())


async def test_sk_05_odd_entries_of_an_archive_are_left_out() -> None:
    link = zipfile.ZipInfo("a/references/link.md")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    source = await archive(
        (link, b"/etc/passwd"), ("a/references/../../b/SKILL.md", b"x"), ("/a/assets/x", b"x"), ("a/assets/y", b"y")
    )
    assert await source.list_resources("a") == ["assets/y"]
    assert [found.name for found in await source.list_frontmatters()] == ["a"]
    with pytest.raises(ResourceNotFound):
        await source.load_resource("a", "references/link.md")


async def test_sk_08_an_archive_that_unpacks_without_end_is_cut_off() -> None:
    source = await archive(("a/assets/zeros", b"\x00" * (11 * MIB)))
    with pytest.raises(ResourceTooLarge):
        await read_resource(source, "a", "assets/zeros")


async def test_an_archive_of_very_many_entries_is_refused() -> None:
    source = await archive(*((f"a/assets/{number}", b"") for number in range(MAX_ENTRIES)))
    with pytest.raises(SkillError, match="entries"):
        await source.list_frontmatters()


async def test_a_damaged_archive_is_a_skill_error() -> None:
    with pytest.raises(SkillError, match="archive"):
        await (await in_artifact(b"PK no archive")).list_frontmatters()
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as made:
        made.writestr("a/SKILL.md", SKILL)
        made.writestr("a/assets/x", b"intact")
    source = await in_artifact(target.getvalue().replace(b"intact", b"broken"))
    with pytest.raises(SkillError, match=r"assets/x.*cannot be read"):
        await read_resource(source, "a", "assets/x")


async def test_an_absent_artifact_is_told_as_such() -> None:
    source = ArtifactSource(InMemoryArtifactService(), app_name="app", user_id="u", filename="none.zip")
    with pytest.raises(ArtifactNotFoundError):
        await source.list_frontmatters()
