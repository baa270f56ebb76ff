"""Names of artifacts and their owners as names of folders (services FIL-3)."""

from __future__ import annotations

import hashlib
import re
import sys

#: Longest name of a folder, in bytes of UTF-8, on the file systems in use.
MAX_FOLDER_BYTES = 255

# What Windows and the FAT family refuse. Elsewhere they are ordinary characters, and google-adk writes them as such.
_UNPORTABLE = re.compile(r'[<>:"|?*]')
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(?:\.|$)", re.IGNORECASE)
_NO_NAMES = frozenset({"", ".", ".."})
_OURS = frozenset({"metadata.json", "versions"})


def _encoded(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


def _everywhere(segment: str) -> str:
    """Without what is dropped or has a meaning of its own: trailing dots and blanks, devices, the layout's names."""
    if segment.lower() in _OURS or _DEVICE.match(segment):
        segment = _encoded(segment[0]) + segment[1:]
    if segment.endswith((".", " ")):
        segment = segment[:-1] + _encoded(segment[-1])
    return segment


def _portable(segment: str) -> str:
    return _UNPORTABLE.sub(lambda match: _encoded(match[0]), _everywhere(segment))


def _hashed(segment: str) -> str:
    """A name of its own for whatever spelling: cut to fit, with 16 digits of the SHA-256 of the whole."""
    suffix = f"~{hashlib.sha256(segment.encode()).hexdigest()[:16]}"
    kept = _portable(segment).encode()[: MAX_FOLDER_BYTES - len(suffix)]
    return kept.decode(errors="ignore") + suffix


def _fits(segment: str) -> bool:
    return len(segment.encode()) <= MAX_FOLDER_BYTES


def owner_folder(name: str) -> str:
    """The folder of an app, a user or a session."""
    folder = _portable(name) if sys.platform == "win32" else _everywhere(name)
    return folder if _fits(folder) else _hashed(name)


def other_owner_folder(name: str) -> str:
    """The folder of an app, a user or a session whose own one stands for another spelling of its name."""
    return _hashed(name)


def artifact_folders(name: str) -> list[str]:
    """The relative folders in which an artifact may be, in the order in which a new one tries them.

    The exact spelling where the file system takes it; the portable one; the one with a hash, for names that another
    artifact's folder stands in the way of (``A.txt`` beside ``a.txt`` where case is folded). ``name`` comes without
    ``user:``; each of its segments becomes a folder.
    """
    *parents, last = name.split("/")
    above = "".join(f"{owner_folder(parent)}/" for parent in parents)
    first = [] if sys.platform == "win32" else [_everywhere(last)]
    fitting = [folder for folder in (*first, _portable(last)) if _fits(folder)]
    return [above + folder for folder in dict.fromkeys([*fitting, _hashed(last)])]


def legacy_folder(name: str) -> str | None:
    """Where google-adk puts a name that we spell otherwise: blanks around it are cut off. None: it does the same."""
    plain = name.strip()
    segments = plain.split("/")
    if plain == artifact_folders(name)[0] or not all(
        segment not in _NO_NAMES and _fits(segment) for segment in segments
    ):
        return None
    return plain
