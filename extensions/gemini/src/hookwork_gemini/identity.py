"""Who is calling, as the two identification headers of Google's APIs say it (models GEM-4)."""

from __future__ import annotations

import platform
from collections.abc import Mapping

from hookwork import __version__

IDENTITY = f"hookwork/{__version__} gl-python/{platform.python_version()}"
HEADERS = ("x-goog-api-client", "user-agent")


def without_identity(headers: Mapping[str, str]) -> dict[str, str]:
    """A caller's headers without the two that say who is calling."""
    return {name: value for name, value in headers.items() if name.lower() not in HEADERS}


def identified(headers: Mapping[str, str]) -> dict[str, str]:
    """A caller's headers with our name in place of theirs; the SDK puts its own before it."""
    return {**without_identity(headers), **dict.fromkeys(HEADERS, IDENTITY)}
