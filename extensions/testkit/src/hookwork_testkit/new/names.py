"""One name, and the other names that are made from it."""

from __future__ import annotations

import re
from typing import NamedTuple

from hookwork.catalogue import COMMANDS, distributions
from hookwork.errors import ConfigurationError
from hookwork.plugins.entry_points import AGENTS, EXTENSIONS, PLUGINS, installed_version, read_entry_points
from hookwork.settings import KEYS

#: What can be written → the group of the entry point that it is found by.
KINDS = {"agent": AGENTS, "extension": EXTENSIONS, "plugin": PLUGINS}

#: Kind → the groups whose names it may not repeat: a plugin and an extension of one name would share a settings table.
_RIVALS = {"agent": (AGENTS,), "extension": (EXTENSIONS, PLUGINS), "plugin": (PLUGINS, EXTENSIONS)}

_PREFIX = "hookwork"
_FORM = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_MAX_LENGTH = 50


class Names(NamedTuple):
    """``word-count`` → entry point, agent and settings table ``word_count``; distribution, package and class."""

    name: str
    distribution: str
    package: str
    class_name: str


def names_of(given: str) -> Names:
    """The names of a new distribution. A leading ``hookwork-`` is dropped: every distribution gets it anyway.

    Args:
        given: lower-case words joined by ``-`` or ``_``, at most 50 characters.

    Raises:
        ConfigurationError: another form, a key of the settings, or a name that Hookwork itself uses.
    """
    words = re.split("[-_]", given) if len(given) <= _MAX_LENGTH and _FORM.fullmatch(given) else []
    if len(words) > 1 and words[0] == _PREFIX:
        words = words[1:]
    if not words or not words[0][0].isalpha():
        raise ConfigurationError(
            f"{given!r} is no usable name: write lower-case words joined by - or _, such as word-count, that begin "
            f"with a letter and have at most {_MAX_LENGTH} characters"
        )
    names = Names(
        name="_".join(words),
        distribution="-".join([_PREFIX, *words]),
        package="_".join([_PREFIX, *words]),
        class_name="".join(word.capitalize() for word in words),
    )
    if names.name in KEYS:
        raise ConfigurationError(
            f"{given!r} is a key of the settings, so no table can have that name; choose another one "
            f"(keys: {', '.join(KEYS)})"
        )
    # An app named "user" would clash with the author of a person's messages, and an extension named as a command with
    # the owner of that command.
    if names.name in ("user", "version", _PREFIX, *COMMANDS) or names.distribution in distributions():
        raise ConfigurationError(f"{given!r} is a name that Hookwork itself uses; choose another one")
    return names


def check_free(kind: str, names: Names) -> None:
    """Raise ConfigurationError when that distribution, or a rival of that name, is installed already."""
    version = installed_version(names.distribution)
    if version is not None:
        raise ConfigurationError(f"{names.distribution} {version} is installed already; choose another name")
    groups = {group: what for what, group in KINDS.items()}
    for group in _RIVALS[kind]:
        for point in read_entry_points()[group]:
            if point.name == names.name:
                raise ConfigurationError(
                    f"{groups[group]} {names.name!r} exists already in {point.distribution} {point.version}; choose "
                    "another name"
                )
