"""Where a chat's lines come from: prompt_toolkit on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from hookwork_console.keyboard import Keyboard

if TYPE_CHECKING:
    from hookwork_console.terminal import Terminal


class End(Enum):
    """Why there is no line."""

    INPUT = "end of input"
    INTERRUPT = "Ctrl-C"


class Reader(Protocol):
    """Reads what a person says."""

    async def message(self) -> str | End:
        """A message or command, of one or several lines."""

    async def answer(self) -> str | End:
        """One line that answers a question."""


class PlainReader:
    """Lines from a pipe, after the prompt of the reference console (servers CON-1)."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._keyboard = Keyboard()

    async def message(self) -> str | End:
        self._terminal.result("\nUser -> ", newline=False)
        return await self.answer()

    async def answer(self) -> str | End:
        line = await self._keyboard.line()
        return End.INPUT if line is None else line


class PromptReader:
    """A line editor with history: Enter sends, Alt-Enter or a backslash before Enter starts a new line."""

    def __init__(self, commands: Iterable[str], said_before: Iterable[str] = ()) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.history import InMemoryHistory

        # What was typed stays in the session's own store: no history file that could keep a secret.
        self._session: PromptSession[str] = PromptSession(
            history=InMemoryHistory(list(said_before)),
            completer=WordCompleter(sorted(commands), sentence=True),
            complete_while_typing=False,
            multiline=True,
            key_bindings=_keys(),
            prompt_continuation="     … ",
        )
        self._answers: PromptSession[str] = PromptSession(history=InMemoryHistory())

    async def message(self) -> str | End:
        return await self._read(self._session, "User -> ")

    async def answer(self) -> str | End:
        return await self._read(self._answers, "User -> ")

    async def _read(self, session: Any, prompt: str) -> str | End:
        try:
            return str(await session.prompt_async(prompt))
        except EOFError:
            return End.INPUT
        except KeyboardInterrupt:
            return End.INTERRUPT


def _keys() -> Any:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def send(event: Any) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def new_line(event: Any) -> None:
        event.current_buffer.insert_text("\n")

    return keys
