"""The frontmatter of a SKILL.md: reading, checking, writing (tools-plugins §6, SK-01, SK-02)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from hookwork_skills.errors import InvalidFrontmatter, InvalidSkillName

MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_COMPATIBILITY = 500
#: Characters of YAML that are parsed; a figure of ours, far above what the fields can need.
MAX_FRONTMATTER = 65_536

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
#: A line of exactly three dashes, YAML, and such a line again, which may end the file.
_DOCUMENT = re.compile(r"---\r?\n(.*?)^---(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_ODD_BREAKS = re.compile("[\x85\u2028\u2029\ufeff]")
_KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")


def check_skill_name(name: Any) -> str:
    """``name`` if it is a skill name: 1 to 64 of ``a-z 0-9 -``, no hyphen at an end, none doubled.

    Raises:
        InvalidSkillName: it is not.
    """
    if not isinstance(name, str) or len(name) > MAX_NAME or _NAME.fullmatch(name) is None:
        shown = repr(name[:80]) if isinstance(name, str) else type(name).__name__
        raise InvalidSkillName(
            f"{shown} is no skill name; use 1 to {MAX_NAME} of a-z, 0-9 and single hyphens between them"
        )
    return name


class Frontmatter(msgspec.Struct, frozen=True, kw_only=True):
    """What a skill says of itself. Lengths are in characters.

    Attributes:
        name: the name of the skill's folder.
        description: when the skill is of use, 1 to 1024.
        license, compatibility: optional texts, compatibility up to 500.
        metadata: texts by name.
        allowed_tools: names of tools; information only, nothing enforces it (SK-10).

    Raises:
        InvalidSkillName, InvalidFrontmatter: a value breaks its rule.
    """

    name: str
    description: str
    license: str = ""
    compatibility: str = ""
    metadata: dict[str, str] = {}
    allowed_tools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_skill_name(self.name)
        _check_text(self.name, "description", self.description, MAX_DESCRIPTION)
        if not self.description.strip():
            raise InvalidFrontmatter(f"skill {self.name!r}: description is required, 1 to {MAX_DESCRIPTION} characters")
        _check_text(self.name, "license", self.license)
        _check_text(self.name, "compatibility", self.compatibility, MAX_COMPATIBILITY)
        if not isinstance(self.metadata, dict):
            raise InvalidFrontmatter(f"skill {self.name!r}: metadata is a map of texts")
        for key, value in self.metadata.items():
            _check_text(self.name, "a key of metadata", key)
            _check_text(self.name, f"metadata {key!r}", value)
        for entry in self.allowed_tools:
            _check_text(self.name, "an entry of allowed-tools", entry)
            if not entry.strip():
                raise InvalidFrontmatter(f"skill {self.name!r}: allowed-tools has an empty entry")

    def to_dict(self) -> dict[str, Any]:
        """The frontmatter with its own keys, empty optional ones left out."""
        values: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "license": self.license,
            "compatibility": self.compatibility,
            "metadata": dict(self.metadata),
            "allowed-tools": list(self.allowed_tools),
        }
        return {key: value for key, value in values.items() if value}


def _check_text(skill: str, what: str, value: Any, limit: int | None = None) -> None:
    if not isinstance(value, str):
        raise InvalidFrontmatter(f"skill {skill!r}: {what} is text, not {type(value).__name__}")
    if limit is not None and len(value) > limit:
        raise InvalidFrontmatter(f"skill {skill!r}: {what} has {len(value)} characters, {limit} are allowed")


def parse(document: str | bytes) -> tuple[Frontmatter, str]:
    """The frontmatter of a SKILL.md and the instructions after it, as they are.

    Raises:
        InvalidFrontmatter: no frontmatter, or one that breaks a rule; InvalidSkillName: its name does.
    """
    if isinstance(document, bytes):
        try:
            document = document.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidFrontmatter(f"SKILL.md is not UTF-8: {error.reason} at byte {error.start}") from error
    document = document.removeprefix("\ufeff")
    found = _DOCUMENT.match(document)
    if found is None:
        raise InvalidFrontmatter(
            "SKILL.md does not begin with a frontmatter: a line of exactly '---', YAML, and a line of exactly '---'"
        )
    return _from_map(_yaml(found.group(1))), document[found.end() :]


def build(frontmatter: Frontmatter, body: str) -> str:
    """The text of a SKILL.md; `parse` gives both back equal."""
    import yaml

    values = frontmatter.to_dict()
    # The library writes these line breaks as they are and reads them back as blanks; escaped they survive.
    plain = _ODD_BREAKS.search("".join(_texts(values))) is None
    header = yaml.safe_dump(values, sort_keys=False, allow_unicode=plain, width=float("inf"))
    return f"---\n{header}---\n{body}"


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in (*value, *value.values()):
            yield from _texts(item)
    else:
        for item in value:
            yield from _texts(item)


def _yaml(text: str) -> Any:
    import yaml

    from hookwork_skills.texts import TextLoader

    if len(text) > MAX_FRONTMATTER:
        raise InvalidFrontmatter(f"the frontmatter has {len(text)} characters, {MAX_FRONTMATTER} are allowed")
    try:
        return yaml.load(text, TextLoader)
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidFrontmatter(f"the frontmatter is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise InvalidFrontmatter("the frontmatter is nested too deeply") from error


def _from_map(values: Any) -> Frontmatter:
    if not isinstance(values, dict):
        raise InvalidFrontmatter("the frontmatter is not a map of keys to values; it needs name and description")
    for key in values:
        if key not in _KEYS:
            near = difflib.get_close_matches(str(key), _KEYS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; the keys are {', '.join(_KEYS)}"
            raise InvalidFrontmatter(f"unknown key {str(key)[:80]!r} in the frontmatter{hint}")
    if values.get("name") is None:
        raise InvalidFrontmatter("the frontmatter has no name")
    name = check_skill_name(values["name"])
    given: dict[str, Any] = {key: value for key, value in values.items() if value is not None and key != "name"}
    if "description" not in given:
        raise InvalidFrontmatter(f"skill {name!r}: the frontmatter has no description")
    if "allowed-tools" in given:
        given["allowed_tools"] = allowed_tools(name, given.pop("allowed-tools"))
    return Frontmatter(name=name, **given)


def allowed_tools(skill: str, value: Any) -> tuple[str, ...]:
    """The entries of a list, or of one text: split at blanks and commas outside parentheses."""
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, str):
        raise InvalidFrontmatter(f"skill {skill!r}: allowed-tools is a list of texts or one text")
    entries, current, depth = [], "", 0
    for character in value:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
        if depth == 0 and (character.isspace() or character == ","):
            entries.append(current)
            current = ""
        else:
            current += character
    if depth != 0:
        raise InvalidFrontmatter(f"skill {skill!r}: the parentheses of allowed-tools do not match")
    return tuple(entry for entry in (*entries, current) if entry)
