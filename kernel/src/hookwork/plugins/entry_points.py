"""The entry points of Hookwork's three groups, read from the metadata of the installed distributions.

Importing `importlib.metadata` costs a start-up about 15 ms of CPU time (measured on CPython 3.11), mostly for the
e-mail and archive parsers that it needs for other questions. Ours is answered by one listing of each folder on
``sys.path`` and one small file for each distribution. Where distributions are found by other means (archives, eggs,
foreign finders), the library is asked.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import msgspec

from hookwork.errors import ConfigurationError

#: Extension modules, lifecycle plugins by name, agents and Apps by name (tools-plugins EXT-1).
EXTENSIONS, PLUGINS, AGENTS = "hookwork", "hookwork.plugins", "hookwork.agents"
GROUPS = (EXTENSIONS, PLUGINS, AGENTS)

_ENTRY = re.compile(r"(?P<name>[^=]+)=\s*(?P<module>[\w.]+)\s*(?::\s*(?P<attribute>[\w.]+))?\s*(?:\[.*\])?\s*$")
_STANDARD_FINDERS = frozenset({"_frozen_importlib_external", "importlib_metadata"})


class EntryPoint(msgspec.Struct, frozen=True):
    """One named object of an installed distribution; nothing is imported before `load`.

    ``distribution`` is the normalised name. ``others``: further distributions that claim the same name.
    """

    name: str
    group: str
    module: str
    attribute: str
    distribution: str
    version: str
    others: tuple[str, ...] = ()

    @property
    def value(self) -> str:
        """``module:attribute`` or ``module``."""
        return f"{self.module}:{self.attribute}" if self.attribute else self.module

    def load(self) -> Any:
        """The object that the entry point names.

        Raises:
            ConfigurationError: more than one distribution claims the name.
            Exception: whatever the import raises.
        """
        if self.others:
            raise ConfigurationError(
                f"the name {self.name!r} of group {self.group!r} is claimed by {self.distribution} and by "
                f"{', '.join(self.others)}; uninstall all but one"
            )
        found: Any = import_module(self.module)
        for part in self.attribute.split(".") if self.attribute else ():
            found = getattr(found, part)
        return found


def normalised(name: str) -> str:
    """A distribution's name in the one form that indexes compare (lower case, runs of ``-_.`` as one dash)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_entry_points() -> dict[str, tuple[EntryPoint, ...]]:
    """Group → its entry points, ordered by (distribution, name); a fresh look at ``sys.path`` on every call."""
    found: list[EntryPoint] = []
    for distribution, version, text in _distributions():
        found += _parse(text, normalised(distribution), version)
    found.sort(key=lambda point: (point.distribution, point.name))
    return {group: tuple(point for point in found if point.group == group) for group in GROUPS}


def by_name(points: Iterable[EntryPoint]) -> dict[str, EntryPoint]:
    """Name → entry point; one that several distributions claim lists the later ones in ``others``."""
    table: dict[str, EntryPoint] = {}
    for point in points:
        first = table.get(point.name)
        if first is None:
            table[point.name] = point
        else:
            table[point.name] = msgspec.structs.replace(first, others=(*first.others, point.distribution))
    return table


def installed_version(distribution: str) -> str | None:
    """The version of an installed distribution, None when it is not installed."""
    wanted = normalised(distribution)
    for folder, stem in _metadata_folders():
        if normalised(stem) == wanted:
            return _identity(folder, stem)[1]
    return None


def _parse(text: str, distribution: str, version: str) -> Iterator[EntryPoint]:
    group = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif line and not line.startswith("#") and group in GROUPS:
            match = _ENTRY.match(line)
            if match is not None:
                yield EntryPoint(
                    name=match["name"].strip(),
                    group=group,
                    module=match["module"],
                    attribute=match["attribute"] or "",
                    distribution=distribution,
                    version=version,
                )


def _distributions() -> Iterator[tuple[str, str, str]]:
    """(name, version, text of entry_points.txt) of every distribution with entry points of ours."""
    if _needs_library():
        from importlib_metadata import distributions

        seen: set[str] = set()
        for distribution in distributions():
            name = normalised(distribution.name or "")
            text = distribution.read_text("entry_points.txt")
            if name not in seen and text and "[hookwork" in text:
                yield name, distribution.version, text
            seen.add(name)
        return
    for folder, stem in _metadata_folders():
        try:
            with open(os.path.join(folder, "entry_points.txt"), encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        if "[hookwork" in text:
            yield *_identity(folder, stem), text


def _needs_library() -> bool:
    """True when distributions may lie elsewhere than in plain folders on the path."""
    for finder in sys.meta_path:
        kind = finder if isinstance(finder, type) else type(finder)
        if hasattr(finder, "find_distributions") and kind.__module__ not in _STANDARD_FINDERS:
            return True
    standard_archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    return any(
        entry.endswith(".egg") or (entry and os.path.isfile(entry) and os.path.basename(entry) != standard_archive)
        for entry in sys.path
    )


def _metadata_folders() -> Iterator[tuple[str, str]]:
    """(metadata folder, name part of its file name); a distribution nearer the front of the path hides later ones."""
    seen: set[str] = set()
    for entry in dict.fromkeys(sys.path):
        root = entry or os.curdir
        try:
            names = sorted(os.listdir(root))
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                stem = name.rpartition(".")[0].partition("-")[0]
                if stem.lower() not in seen:
                    seen.add(stem.lower())
                    yield os.path.join(root, name), stem


def _identity(folder: str, stem: str) -> tuple[str, str]:
    """Name and version from the head of the metadata file; the folder's name and ``?`` where it has none."""
    name, version = stem, "?"
    for file_name in ("METADATA", "PKG-INFO"):
        try:
            with open(os.path.join(folder, file_name), encoding="utf-8", errors="replace") as file:
                for line in file:
                    key, _, value = line.partition(":")
                    if not line.strip():
                        break
                    if key.lower() == "name":
                        name = value.strip()
                    elif key.lower() == "version":
                        version = value.strip()
            break
        except OSError:
            continue
    return name, version
