"""Paths of resources inside a skill (tools-plugins SK-05, SK-06)."""

from __future__ import annotations

import posixpath

from hookwork_skills.errors import InvalidResourcePath

SKILL_FILE = "SKILL.md"
#: The only folders of a skill that are read.
ROOTS = ("references", "assets", "scripts")
#: Bytes of one file that are read into memory, inclusive (SK-08).
MAX_BYTES = 10 * 1024 * 1024


def resource_path(path: str) -> str:
    """The normal form of a path of a file: relative, strictly inside one of the three folders.

    Raises:
        InvalidResourcePath: it leads elsewhere, or is no path.
    """
    normal = _normal(path)
    root, slash, rest = normal.partition("/")
    if root not in ROOTS or not slash or not rest:
        raise InvalidResourcePath(_outside(path))
    return normal


def resource_folder(path: str) -> str:
    """The normal form of a path to list; ``""``: all three folders. Raises InvalidResourcePath."""
    if path in ("", "."):
        return ""
    normal = _normal(path)
    if normal.partition("/")[0] not in ROOTS:
        raise InvalidResourcePath(_outside(path))
    return normal


def _normal(path: str) -> str:
    if not isinstance(path, str) or not path:
        raise InvalidResourcePath("a resource path is non-empty text")
    if "\\" in path or path.startswith("/") or any(ord(character) < 32 for character in path):
        raise InvalidResourcePath(f"{path[:200]!r} is no resource path; write it relative and with slashes")
    return posixpath.normpath(path)


def _outside(path: str) -> str:
    return f"{path[:200]!r} is not inside {', '.join(f'{root}/' for root in ROOTS)}, the folders of a skill's resources"
