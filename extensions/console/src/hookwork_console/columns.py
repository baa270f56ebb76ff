"""Text in aligned columns."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from hookwork_console.terminal import printable


def cell(text: str) -> str:
    """A text on one line: control characters, tabs and line ends too, are shown as escapes."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def width(text: str) -> int:
    """How many columns of a terminal a text takes: wide characters take two, combining ones none."""
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def aligned(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The rows as lines whose columns begin below each other, two blanks between them."""
    shown = [[cell(text) for text in row] for row in rows]
    widths = [max(width(text) for text in column) for column in zip(*shown, strict=True)]
    for row in shown:
        yield "  ".join(text + " " * (wide - width(text)) for text, wide in zip(row, widths, strict=True)).rstrip()
