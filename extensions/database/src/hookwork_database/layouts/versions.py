"""Whether a database that has tables already is one to write to: the same words whatever it runs on (services DB-8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hookwork.errors import ConfigurationError

#: The version in ``adk_internal_metadata`` of the layout that is made and written.
VERSION = "1"


def check_version(rows: Iterable[Any], where: str) -> None:
    """Refuse a database that says it is of another schema version.

    Args:
        rows: of ``SELECT value … WHERE key = 'schema_version'``; none is version 1.
        where: names the database.

    Raises:
        ConfigurationError: it says something else.
    """
    for row in rows:
        if row[0] != VERSION:
            raise ConfigurationError(
                f"{where} says schema version {row[0]!r}; this release reads and writes version {VERSION!r}. Use a "
                "release that knows it, or copy the sessions with the tool that wrote them"
            )


def check_event_columns(columns: Iterable[str], where: str, product: str) -> None:
    """Refuse a server database whose table ``events`` is of another layout than google-adk's version 1.

    Raises:
        ConfigurationError: there is no column ``event_data``.
    """
    names = sorted(columns)
    if "event_data" not in names:
        raise ConfigurationError(
            f"{where}: the table events has the columns {', '.join(names)}; in {product} only google-adk's version 1 "
            "can be opened. Copy older sessions with hookwork migrate"
        )
