"""The loop of `hookwork chat`: a message, a turn, the questions it raised, the next message (servers CON-1 … CON-6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.errors import SessionNotFoundError
from hookwork_console.commands import COMMANDS, run_command
from hookwork_console.reader import End, PlainReader, PromptReader, Reader
from hookwork_console.terminal import Terminal
from hookwork_console.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from hookwork.invocation import RunConfig
    from hookwork.records.history import Call
    from hookwork.records.session import Session
    from hookwork.runner import Runner

DONE, INTERRUPTED = 0, 130


class ChatTerminal(Terminal):
    """A terminal whose questions are answered where messages are typed, pipes included."""

    reader: Reader

    def __init__(self) -> None:
        super().__init__()
        self.edits = self.interactive and self.live
        self.interactive = True
        #: how input ended while a question was open; the loop then ends, too.
        self.ended: End | None = None

    def question(self, author: str, lines: Sequence[str]) -> None:
        if self.edits:
            super().question(author, lines)
        else:
            self.result("\n".join([f"\nAgent -> {lines[0]}", *lines[1:]]))

    async def ask(self, prompt: str) -> str | None:
        if not self.edits:
            self.result(f"\n{prompt}", newline=False)
        line = await self.reader.answer()
        if isinstance(line, End):
            self.ended = line
            return None
        return line


class Chat:
    """One person talking to one agent in one session.

    ``session_id`` is None until the first turn of a new session.
    """

    def __init__(
        self,
        runner: Runner,
        terminal: ChatTerminal,
        *,
        user_id: str,
        session_id: str | None,
        config: RunConfig,
        state: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> None:
        self.runner = runner
        self.terminal = terminal
        self.user_id = user_id
        self.session_id = session_id
        self._config = config
        self._state = dict(state or {})
        self._timeout = timeout

    async def talk(self) -> int:
        """Until /quit, end of input (0) or Ctrl-C at the prompt (130)."""
        session = await self.session()
        self._greet(session)
        self.terminal.reader = self._reader(session)
        if session is not None and session.open_calls:
            await self.answer(list(session.open_calls.values()))
        while True:
            if self.terminal.ended is not None:
                return self._leave(self.terminal.ended)
            line = await self.terminal.reader.message()
            if isinstance(line, End):
                return self._leave(line)
            if not line.strip():
                continue
            if line.startswith("/") and not line.startswith("//"):
                if not await run_command(self, line):
                    return DONE
                continue
            await self.say(line.removeprefix("/") if line.startswith("//") else line)

    async def replay(self, messages: Sequence[str]) -> int:
        """Say these messages, one after another."""
        self.terminal.interactive = False
        for message in messages:
            self.terminal.result(f"\nUser -> {message}")
            await self.say(message)
        return DONE

    async def say(self, message: str) -> None:
        """One turn; a failure is told and the chat goes on."""
        turn = self._turn()
        if not self.terminal.edits:
            self.terminal.result("\nAgent -> ", newline=False)
        state, self._state = self._state, {}
        await self._told(turn, turn.run(message, state))

    async def answer(self, calls: Sequence[Call]) -> None:
        """Ask what is open, and go on with the answers."""
        turn = self._turn()
        await self._told(turn, turn.answer_open(calls))

    async def _told(self, turn: Turn, running: Awaitable[None]) -> None:
        try:
            await running
        except Exception as error:  # noqa: BLE001 - CON-4: whatever a turn raises is told, and the loop goes on
            turn.error = error
        self._tell_end(turn)

    async def session(self) -> Session | None:
        """The stored session as it is now; None when there is none yet."""
        if self.session_id is None:
            return None
        try:
            return await self.runner.sessions.get_session(
                app_name=self.runner.app_name, user_id=self.user_id, session_id=self.session_id
            )
        except SessionNotFoundError:
            return None

    def _turn(self) -> Turn:
        return Turn(
            self.runner,
            self.terminal,
            user_id=self.user_id,
            session_id=self.session_id,
            root=self.runner.tree.root.name,
            config=self._config,
            live=True,
            timeout=self._timeout,
            interruptible=True,
        )

    def _tell_end(self, turn: Turn) -> None:
        self.session_id = turn.session_id
        outcome = turn.outcome
        if turn.error is not None:
            self.terminal.note(f"\nAGENT_ERROR: {turn.error}", style="red")
        elif outcome is None:
            return
        elif turn.timed_out:
            self.terminal.note("stopped: the time limit is over; the session is kept", style="yellow")
        elif outcome.kind == "closed":
            self.terminal.note(f"stopped ({outcome.reason}); the session is kept", style="yellow")
        elif outcome.kind == "ended":
            self.terminal.note(f"ended{f': {outcome.reason}' if outcome.reason else ''}", style="bright_black")
        elif outcome.kind == "paused":
            waiting = len(outcome.open_calls) or len(outcome.open_delegations)
            if waiting:  # else a node talks with the user: what is typed next goes to it
                self.terminal.note(f"{waiting} question(s) open; /open shows them", style="yellow")

    def _reader(self, session: Session | None) -> Reader:
        if not self.terminal.edits:
            return PlainReader(self.terminal)
        said = [event.text for event in session.live_events if event.author == "user" and event.text] if session else []
        return PromptReader([f"/{name}" for name in COMMANDS], said)

    def _greet(self, session: Session | None) -> None:
        if not self.terminal.edits:
            return
        root = self.runner.tree.root
        what = f": {root.description}" if root.description else ""
        self.terminal.note(f"{root.name}{what}  (/help lists commands)", style="bright_black")
        if session is not None:
            self.terminal.note(f"session {session.id} goes on with {len(session.events)} events", style="bright_black")

    def _leave(self, end: End) -> int:
        if end is End.INTERRUPT:
            return INTERRUPTED
        self.terminal.result("\nEOF detected, exiting...")
        return DONE
