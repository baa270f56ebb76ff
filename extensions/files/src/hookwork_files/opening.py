"""A service from a ``file:`` URL (services URL-2, URL-6)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hookwork.errors import ConfigurationError
from hookwork.service_options import SECONDS, SWITCH, WHOLE_NUMBER, Option, options_of
from hookwork.urls import redact_url

if TYPE_CHECKING:
    from hookwork_files.service import FileArtifactService

OPTIONS: Mapping[str, Option] = {
    "first_version": WHOLE_NUMBER,
    "nested_names": SWITCH,
    "reuse_versions": SWITCH,
    "keep_versions": WHOLE_NUMBER,
    "max_age": SECONDS,
    "sync": SWITCH,
}


def artifact_service(url: str, *, settings: Mapping[str, Any] | None = None) -> FileArtifactService:
    """The service of ``file:///abs/dir?option=value``; no I/O is done.

    Args:
        settings: the table ``[tool.hookwork.files]``; the URL's options win.

    Raises:
        ConfigurationError: a host, a relative path, or a wrong option.
        ValidationError: an option has no valid value.
    """
    from hookwork_files.service import FileArtifactService

    body, _, query = url.partition(":")[2].partition("?")
    options = options_of(query, settings, OPTIONS, extension="files", at=f"artifacts URL {redact_url(url)!r}")
    return FileArtifactService(_folder(url, body), **options)


def _folder(url: str, body: str) -> str:
    from urllib.parse import unquote
    from urllib.request import url2pathname

    host, slash, path = ("", "", body)
    if body.startswith("//"):
        host, slash, path = body[2:].partition("/")
        path = slash + path
    if host.lower() not in ("", "localhost"):
        raise ConfigurationError(
            f"artifacts URL {redact_url(url)!r} names the host {host!r}; a folder's URL has three slashes before its "
            "absolute path: file:///folder"
        )
    if not path.startswith("/") or path.strip("/") == "":
        raise ConfigurationError(
            f"artifacts URL {redact_url(url)!r} needs the absolute path of a folder: file:///folder"
        )
    if "#" in path:
        raise ConfigurationError(f"artifacts URL {redact_url(url)!r} has a '#'; in a path it is written %23")
    folder = url2pathname(path) if sys.platform == "win32" else unquote(path)
    if "\x00" in folder:
        raise ConfigurationError(f"artifacts URL {redact_url(url)!r}: a path cannot hold NUL")
    return folder
