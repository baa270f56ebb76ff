"""A SkillToolset from settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookwork.errors import ConfigurationError
from hookwork_skills.source import SkillSource
from hookwork_skills.sources import FolderSource, PackageSource
from hookwork_skills.toolset import SkillToolset

_TEXTS = ("folder", "package", "name", "instruction")


def toolset_of(settings: Mapping[str, Any]) -> SkillToolset:
    """The toolset of a table.

    Keys: ``folder``, a path; or ``package``, an import name, with ``:folder/in/it`` unless that is ``skills``; and
    ``name``, ``instruction``, ``strict``.

    Raises:
        ConfigurationError: an unknown key, a value of another type, or not exactly one place.
    """
    for key, value in settings.items():
        if key not in (*_TEXTS, "strict"):
            raise ConfigurationError(f"toolset 'skills' has no setting {key!r}; it has {', '.join(_TEXTS)}, strict")
        if not isinstance(value, bool if key == "strict" else str):
            raise ConfigurationError(f"toolset 'skills': {key} is {'true or false' if key == 'strict' else 'text'}")
    folder, package = settings.get("folder"), settings.get("package")
    strict = settings.get("strict", False)
    if (folder is None) == (package is None):
        raise ConfigurationError("toolset 'skills' needs a folder or a package, one of the two")
    if folder is not None:
        source: SkillSource = FolderSource(folder, strict=strict)
    else:
        name, _, inside = str(package).partition(":")
        source = PackageSource(name, inside or "skills", strict=strict)
    return SkillToolset(source, settings.get("name", "SkillToolset"), settings.get("instruction"))
