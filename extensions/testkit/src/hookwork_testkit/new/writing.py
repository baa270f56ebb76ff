"""From templates to files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from string import Template

from hookwork.errors import ConfigurationError
from hookwork.version import VERSION
from hookwork_testkit.new.names import Names

_SUFFIX = ".tmpl"


def rendered(kind: str, names: Names, *, version: str = VERSION) -> dict[PurePosixPath, str]:
    """The files of a new distribution: relative path → text, in the order of their paths.

    Args:
        kind: a key of `hookwork_testkit.new.names.KINDS`.
        names: what the distribution and its parts are called.
        version: version of the kernel whose series the distribution asks for.
    """
    values = {**names._asdict(), "series": series(version)}
    found = dict(_templates(files(__package__) / "templates" / kind, PurePosixPath()))
    return {
        PurePosixPath(str(path).replace("PACKAGE", names.package)): Template(text).substitute(values)
        for path, text in sorted(found.items())
    }


def series(version: str) -> str:
    """The requirement for the releases that keep a version's contracts: ``0.1.4`` → ``>=0.1,<0.2``."""
    major, minor = (int(part) for part in re.findall(r"\d+", version)[:2])
    return f">={major}.{minor},<{major + 1}" if major else f">=0.{minor},<0.{minor + 1}"


def write(folder: Path, contents: Mapping[PurePosixPath, str]) -> None:
    """Write files below a folder, which is made where it is missing. Nothing is overwritten.

    Raises:
        ConfigurationError: one of the files exists, or cannot be written. If one exists, nothing was written.
    """
    present = [str(path) for path in contents if (folder / path).exists()]
    if present:
        raise ConfigurationError(
            f"{folder} has {', '.join(present)} already, and nothing is overwritten; choose another --folder"
        )
    try:
        for path, text in contents.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
    except OSError as error:
        raise ConfigurationError(f"{error.filename or folder} cannot be written: {error.strerror or error}") from error


def _templates(folder: Traversable, path: PurePosixPath) -> list[tuple[PurePosixPath, str]]:
    """(path without its suffix, text) of the templates in a folder and below."""
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _templates(entry, path / entry.name)
        elif entry.name.endswith(_SUFFIX):
            found.append((path / entry.name.removesuffix(_SUFFIX), entry.read_text(encoding="utf-8")))
    return found
