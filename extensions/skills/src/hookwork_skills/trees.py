"""Where the files of skills lie: a folder, a package's resources, a zip archive.

Blocking; sources call them in threads. A tree only ever opens regular files. Names and paths come in checked and in
normal form.
"""

from __future__ import annotations

import os
import stat
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import IO

from hookwork.errors import ConfigurationError
from hookwork_skills.errors import InvalidResourcePath, SkillError
from hookwork_skills.paths import ROOTS, SKILL_FILE

#: What reading a file may raise, a damaged archive included.
UNREADABLE = (OSError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error)
#: Opens one file for reading bytes.
Opener = Callable[[], IO[bytes]]
#: Entries of an archive that are looked at; a figure of ours, against archives made to exhaust memory.
MAX_ENTRIES = 10_000


class Tree(ABC):
    """Folders of skills, by name."""

    @abstractmethod
    def skills(self) -> list[str]:
        """Names of immediate folders that hold a SKILL.md, sorted."""

    @abstractmethod
    def file(self, skill: str, path: str) -> Opener | None:
        """How to open a regular file of a skill; None: there is none. Raises InvalidResourcePath: a link outside."""

    @abstractmethod
    def files(self, skill: str, folder: str) -> list[str] | None:
        """Regular files under a folder (or the file itself), relative to the skill; None when it does not exist."""


class FolderTree(Tree):
    """A folder on disk, read anew each time. Symbolic links that lead out of their skill are not followed."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def skills(self) -> list[str]:
        try:
            with os.scandir(self.root) as entries:
                names = [entry.name for entry in entries if entry.is_dir()]
        except OSError as error:
            raise ConfigurationError(f"the skill folder {str(self.root)!r} cannot be read: {error.strerror}") from error
        return sorted(name for name in names if (self.root / name / SKILL_FILE).is_file())

    def file(self, skill: str, path: str) -> Opener | None:
        inside = self._inside(skill, path)
        if inside is None or not inside.is_file():
            return None
        return lambda: inside.open("rb")

    def files(self, skill: str, folder: str) -> list[str] | None:
        start = self._inside(skill, folder)
        if start is None:
            return None
        if start.is_file():
            return [folder]
        if not start.is_dir():
            return None
        found = []
        for parent, _, names in os.walk(self.root / skill / folder, followlinks=False):
            for name in names:
                path = (Path(parent) / name).relative_to(self.root / skill).as_posix()
                if self._is_readable(skill, path):
                    found.append(path)
        return found

    def _is_readable(self, skill: str, path: str) -> bool:
        try:
            inside = self._inside(skill, path)
        except InvalidResourcePath:
            return False
        return inside is not None and inside.is_file()

    def _inside(self, skill: str, path: str) -> Path | None:
        """The real place of a path, None when there is none. Raises InvalidResourcePath: it lies outside the skill."""
        folder = self.root / skill
        try:
            real = (folder / path).resolve(strict=True)
            home = folder.resolve(strict=True)
        except (OSError, RuntimeError, ValueError):  # absent, a circle of links, a name too long
            return None
        if not real.is_relative_to(home):
            raise InvalidResourcePath(f"{path!r} of skill {skill!r} is a link that leads out of the skill")
        return real


class PackageTree(Tree):
    """Files inside an importable package, wherever it was imported from."""

    def __init__(self, root: Traversable) -> None:
        self.root = root

    def skills(self) -> list[str]:
        if not self.root.is_dir():
            raise ConfigurationError(f"the package has no folder {self.root.name!r}")
        folders = [entry for entry in self.root.iterdir() if entry.is_dir()]
        return sorted(entry.name for entry in folders if entry.joinpath(SKILL_FILE).is_file())

    def file(self, skill: str, path: str) -> Opener | None:
        found = self.root.joinpath(skill, *path.split("/"))
        return (lambda: found.open("rb")) if found.is_file() else None

    def files(self, skill: str, folder: str) -> list[str] | None:
        start = self.root.joinpath(skill, *folder.split("/"))
        if start.is_file():
            return [folder]
        return list(_walked(start, folder)) if start.is_dir() else None


def _walked(folder: Traversable, path: str) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walked(entry, f"{path}/{entry.name}")
        elif entry.is_file():
            yield f"{path}/{entry.name}"


class ZipTree(Tree):
    """A zip archive whose top folders are skills. Links and entries with odd names are left out."""

    def __init__(self, archive: IO[bytes]) -> None:
        try:
            self._archive = zipfile.ZipFile(archive)
            entries = self._archive.infolist()
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise SkillError(f"the skills are not a readable zip archive: {error}") from error
        if len(entries) > MAX_ENTRIES:
            raise SkillError(f"the archive of skills has {len(entries)} entries, {MAX_ENTRIES} are allowed")
        self._files = {entry.filename: entry for entry in entries if _is_plain(entry)}

    def skills(self) -> list[str]:
        parts = [name.split("/") for name in self._files]
        return sorted(part[0] for part in parts if len(part) == 2 and part[1] == SKILL_FILE)

    def file(self, skill: str, path: str) -> Opener | None:
        entry = self._files.get(f"{skill}/{path}")
        return (lambda: self._archive.open(entry)) if entry is not None else None

    def files(self, skill: str, folder: str) -> list[str] | None:
        if f"{skill}/{folder}" in self._files:
            return [folder]
        start = f"{skill}/{folder}/"
        found = [name.removeprefix(f"{skill}/") for name in self._files if name.startswith(start)]
        return found or None


def _is_plain(entry: zipfile.ZipInfo) -> bool:
    mode = entry.external_attr >> 16
    regular = not mode or stat.S_IFMT(mode) in (0, stat.S_IFREG)
    parts = entry.filename.split("/")
    return regular and not entry.is_dir() and not entry.flag_bits & 1 and not {"", ".", ".."} & set(parts)


def all_files(tree: Tree, skill: str, folder: str) -> list[str] | None:
    """The files under a folder, or under all resource folders for ``""``, sorted; None when the folder is absent."""
    if folder:
        found = tree.files(skill, folder)
        return sorted(found) if found is not None else None
    return sorted(path for root in ROOTS for path in tree.files(skill, root) or ())
