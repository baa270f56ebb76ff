"""Text that every database can hold: NUL and lone surrogates become U+FFFD (services EVT-12)."""

from __future__ import annotations

import logging
import re

logger = logging.getLogger("hookwork.records")

_UNHOLDABLE = re.compile("[\x00\ud800-\udfff]")


def clean(text: str) -> str:
    """``text`` with each NUL and each lone surrogate replaced by U+FFFD; the same object when there is none."""
    if text.isascii():
        return text if "\x00" not in text else text.replace("\x00", "\ufffd")
    return text if _UNHOLDABLE.search(text) is None else _UNHOLDABLE.sub("\ufffd", text)


def report_cleaned(path: str, count: int) -> None:
    """Log the one warning of a payload whose text had to be replaced. The text itself is never logged."""
    logger.warning(
        "replaced text that no database can hold (NUL or lone surrogate) by U+FFFD at %s (%d place(s))",
        path or "the value",
        count,
    )
