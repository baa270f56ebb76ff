"""Writing to a terminal or a pipe: results on stdout, everything else on stderr (servers CLI-7)."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

import click

from hookwork_console.keyboard import Keyboard

# Control characters other than tab and newline: what a model or a tool says must not steer the terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """The text with control characters shown as escapes, for a terminal."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text.replace("\r\n", "\n"))


class Terminal:
    """The two output streams and the keyboard of a command.

    ``interactive``: a person can be asked, i.e. stdin and stderr are terminals.
    """

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self.interactive = sys.stdin.isatty() and sys.stderr.isatty()
        self._keyboard = Keyboard()
        self._coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR")

    def result(self, text: str, *, newline: bool = True) -> None:
        """Write to stdout, at once."""
        click.echo(printable(text) if self.live else text, nl=newline)

    def result_row(self, label: str, text: str, *, style: str) -> None:
        """A line of a report on stdout, its label in colour on a terminal unless NO_COLOR is set."""
        shown = f"{label:<8}"
        coloured = self.live and not os.environ.get("NO_COLOR")
        click.echo(f"{click.style(shown, fg=style) if coloured else shown}{printable(text) if self.live else text}")

    def note(self, text: str = "", *, style: str | None = None) -> None:
        """Write a line to stderr; ``style`` is a colour name, used on a terminal unless NO_COLOR is set."""
        click.secho(printable(text), err=True, fg=style if self._coloured else None)

    def question(self, author: str, lines: Sequence[str]) -> None:
        """Show what an agent asks."""
        self.note(f"{author or 'Agent'} -> {lines[0]}", style="yellow")
        for line in lines[1:]:
            self.note(line)

    async def ask(self, prompt: str) -> str | None:
        """Show a prompt and take a line from the keyboard, without its end; None at end of input."""
        click.echo(prompt, nl=False, err=True)
        line = await self._keyboard.line()
        if line is None:
            self.note()
        return line
