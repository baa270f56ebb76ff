"""Agent skills for Hookwork. The public names are resolved on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork_skills.errors import (
        DuplicateSkill,
        InvalidFrontmatter,
        InvalidResourcePath,
        InvalidSkillName,
        ResourceNotFound,
        ResourceTooLarge,
        SkillError,
        SkillNotFound,
    )
    from hookwork_skills.frontmatter import Frontmatter, build, parse
    from hookwork_skills.merged import MergedSource
    from hookwork_skills.preload import preload_all, preload_frontmatters
    from hookwork_skills.source import SkillSource, read_resource
    from hookwork_skills.sources import ArtifactSource, FolderSource, PackageSource
    from hookwork_skills.toolset import SkillToolset

_HOMES = {
    "errors": (
        "DuplicateSkill",
        "InvalidFrontmatter",
        "InvalidResourcePath",
        "InvalidSkillName",
        "ResourceNotFound",
        "ResourceTooLarge",
        "SkillError",
        "SkillNotFound",
    ),
    "frontmatter": ("Frontmatter", "build", "parse"),
    "merged": ("MergedSource",),
    "preload": ("preload_all", "preload_frontmatters"),
    "source": ("SkillSource", "read_resource"),
    "sources": ("ArtifactSource", "FolderSource", "PackageSource"),
    "toolset": ("SkillToolset",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ArtifactSource",
    "DuplicateSkill",
    "FolderSource",
    "Frontmatter",
    "InvalidFrontmatter",
    "InvalidResourcePath",
    "InvalidSkillName",
    "MergedSource",
    "PackageSource",
    "ResourceNotFound",
    "ResourceTooLarge",
    "SkillError",
    "SkillNotFound",
    "SkillSource",
    "SkillToolset",
    "build",
    "parse",
    "preload_all",
    "preload_frontmatters",
    "read_resource",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'hookwork_skills' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"hookwork_skills.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
