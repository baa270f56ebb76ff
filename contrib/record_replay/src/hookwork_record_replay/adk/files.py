"""The YAML files of recordings (crosscutting CONF-2, CONF-4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hookwork.errors import ConfigurationError

Json = dict[str, Any]
#: Line breaks of Unicode beside those of ASCII, and the byte order mark.
_LINE_BREAKS = frozenset("\x85\u2028\u2029\ufeff")


def read_recordings(file: Path) -> list[Json]:
    """The entries of a file, in order.

    Raises:
        ConfigurationError: no such file, or it holds something else.
    """
    tree = read_yaml(file)
    entries = tree.get("recordings") if isinstance(tree, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigurationError(f"{file} holds no list of recordings")
    return entries


def read_yaml(file: Path) -> Any:
    """What a file of a test case holds.

    Raises:
        ConfigurationError: no such file, or no YAML.
    """
    yaml = _yaml()
    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigurationError(f"there is no {file}; record the case first") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{file} cannot be read: {type(error).__name__}") from error


def write_yaml(file: Path, tree: Any) -> None:
    """Write a file of a test case, whole or not at all. Raises OSError."""
    yaml = _yaml()

    class Dumper(yaml.SafeDumper):  # type: ignore[misc,name-defined]
        """PyYAML writes these line breaks bare and reads them back as blanks; in double quotes it escapes them."""

    def quoted(dumper: Any, value: str) -> Any:
        odd = not _LINE_BREAKS.isdisjoint(value)
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"' if odd else None)

    Dumper.add_representer(str, quoted)
    text = yaml.dump(tree, Dumper=Dumper, sort_keys=False, allow_unicode=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(file)  # a reader sees the old file or the new one


def write_recordings(file: Path, index: int, entries: list[Json]) -> None:
    """Put the entries of one message into a file, in place of those it had; others stay.

    Raises:
        OSError: it cannot be written. ConfigurationError: the file that is there cannot be read.
    """
    kept = read_recordings(file) if file.exists() else []
    before = [entry for entry in kept if entry.get("user_message_index", 0) < index]
    behind = [entry for entry in kept if entry.get("user_message_index", 0) > index]
    write_yaml(file, {"recordings": [*before, *entries, *behind]})


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise ConfigurationError(
            "recordings of google-adk's form need PyYAML: pip install 'hookwork-record-replay[adk]'"
        ) from error
    return yaml
