"""What a run does, told while it runs: calls with their time, remarks, transfers (stderr), and the live text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookwork.records.history import KINDS
from hookwork_console.answers import compact

if TYPE_CHECKING:
    from hookwork.records.content import FunctionCall, FunctionResponse
    from hookwork.records.event import Event
    from hookwork.run import RunOutcome
    from hookwork_console.terminal import Terminal

_WIDTH = 200


class Transcript:
    """Shows events as they come.

    On a terminal (``live``) text is written to stdout as it streams, every character once (core HND-6); elsewhere
    stdout is left to the final text, and what is said on the way goes to stderr.
    """

    def __init__(self, terminal: Terminal, root: str, *, live: bool) -> None:
        self._terminal = terminal
        self._root = root
        self._live = live
        self._started: dict[str, float] = {}
        #: author → text shown of the response that streams now.
        self._shown: dict[str, str] = {}
        self._open_line = ""
        self._held: tuple[str, str] | None = None

    def show(self, event: Event) -> None:
        """Show one event."""
        if event.partial:
            if self._live and event.text:
                self._write(event.author, event.text)
            return
        if event.text:
            self._tell(event)
        self._shown.pop(event.author, None)
        for call in event.function_calls:
            self._call(event, call)
        for response in event.function_responses:
            self._response(event, response)
        if event.actions.transfer_to_agent:
            self._note(event.author, f"→ {event.actions.transfer_to_agent}")
        if event.error_code:
            self._note(event.author, f"{event.error_code}: {event.error_message or ''}".rstrip(": "), style="red")

    def finish(self, outcome: RunOutcome | None) -> None:
        """The run is over: end a line that is still open, and tell a text that did not become the result."""
        self._end_line()
        if self._held is not None and (outcome is None or outcome.kind not in ("completed", "ended")):
            self._note(*self._held)

    def _end_line(self) -> None:
        if self._open_line:
            self._terminal.result("")
            self._open_line = ""

    def _tell(self, event: Event) -> None:
        if self._live:
            shown = self._shown.get(event.author, "")
            rest = event.text[len(shown) :] if event.text.startswith(shown) else event.text
            if rest:
                self._write(event.author, rest)
            self._end_line()
        elif not event.is_final_response():
            self._note(event.author, event.text)
        else:
            # Stdout gets the last final text only; an earlier one turns out to have been said on the way.
            if self._held is not None:
                self._note(*self._held)
            self._held = (event.author, event.text)

    def _write(self, author: str, text: str) -> None:
        if self._open_line != author:
            self._end_line()
            if author != self._root:
                self._terminal.note(f"[{author}]", style="cyan")
            self._open_line = author
        self._terminal.result(text, newline=False)
        self._shown[author] = self._shown.get(author, "") + text

    def _call(self, event: Event, call: FunctionCall) -> None:
        if call.name in KINDS:
            return
        self._started[call.id or ""] = event.timestamp
        arguments = ", ".join(f"{key}={compact(value)}" for key, value in (call.args or {}).items())
        self._note(event.author, f"{call.name}({_short(arguments)})")

    def _response(self, event: Event, response: FunctionResponse) -> None:
        if response.name in KINDS:
            return
        started = self._started.pop(response.id or "", None)
        took = f"  {max(event.timestamp - started, 0.0):.2f} s" if started is not None else ""
        failed = isinstance(response.response, dict) and set(response.response) == {"error"}
        text = f"{response.name} → {_short(compact(response.response))}{took}"
        self._note(event.author, text, style="red" if failed else None)

    def _note(self, author: str, text: str, *, style: Any = "bright_black") -> None:
        self._end_line()
        speaker = "" if author == self._root else f"[{author}] "
        self._terminal.note(f"{speaker}{text}", style=style)


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
