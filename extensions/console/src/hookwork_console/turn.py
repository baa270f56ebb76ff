"""One turn of an agent at the command line: run, ask what it waits for, run again with the answers (servers CON-7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hookwork.errors import InvalidResumeResponse, NothingToResume
from hookwork_console.answers import answer_from_line, answers_content, question
from hookwork_console.outcomes import event_line, final_text, outcome_line
from hookwork_console.stopping import stopped_after, stopped_by_interrupt
from hookwork_console.transcript import Transcript

if TYPE_CHECKING:
    from hookwork.invocation import RunConfig
    from hookwork.records.content import Content
    from hookwork.records.event import Event
    from hookwork.records.history import Call
    from hookwork.run import RunOutcome
    from hookwork.runner import Runner
    from hookwork_console.terminal import Terminal

Answers = dict[str, "tuple[Call, dict[str, Any]]"]


class Turn:
    """Drives a runner for one message, and for the answers to what that message makes the agents ask.

    Args:
        session_id: None: a new session.
        live: write text to stdout as it streams.
        as_json: one event a line on stdout instead of a transcript; nobody is asked then.
        timeout: seconds after which a run is stopped; None: never.
        interruptible: Ctrl-C stops the run and nothing else; without it ends the command.

    Attributes:
        outcome: how the last run ended; None before.
        error: what that run raised.
        timed_out: whether the time limit stopped it.
    """

    def __init__(
        self,
        runner: Runner,
        terminal: Terminal,
        *,
        user_id: str,
        session_id: str | None,
        root: str,
        config: RunConfig,
        live: bool = False,
        as_json: bool = False,
        timeout: float | None = None,
        interruptible: bool = False,
    ) -> None:
        self.session_id = session_id
        self.outcome: RunOutcome | None = None
        self.error: Exception | None = None
        self.timed_out = False
        self._runner = runner
        self._terminal = terminal
        self._user_id = user_id
        self._root = root
        self._config = config
        self._live = live
        self._as_json = as_json
        self._timeout = timeout
        self._interruptible = interruptible

    async def run(self, message: str | Content, state_delta: Mapping[str, Any] | None = None) -> None:
        """Run, and go on as long as a person answers what is open; then print the result."""
        await self._drive(message, state_delta)
        await self._go_on(self._open_calls())
        self._print_result()

    async def answer_open(self, calls: Sequence[Call]) -> None:
        """Ask what a session waits for, go on with the answers, and print the result."""
        await self._go_on(calls)
        self._print_result()

    async def _go_on(self, calls: Sequence[Call]) -> None:
        left_open: set[str] = set()
        while calls := [call for call in calls if call.id not in left_open]:
            answers = await self._ask(calls)
            left_open |= {call.id for call in calls if call.id not in answers}
            if not answers:
                return
            outcome = self.outcome
            await self._drive(answers_content(answers))
            if isinstance(self.error, InvalidResumeResponse):
                # Nothing was stored and the calls are still open: say why and ask again.
                self._terminal.note(str(self.error), style="red")
                self.outcome, self.error = outcome, None
            else:
                calls = self._open_calls()

    async def answers(self, given: Iterable[tuple[str, str]], text: str | None = None) -> Content:
        """The message that answers open calls by id, each as a person would type it.

        Raises:
            NothingToResume: the session waits for no such id.
            SessionNotFoundError: there is no such session.
        """
        open_calls = {
            call.id: call
            for call in await self._runner.open_calls(user_id=self._user_id, session_id=self.session_id or "")
        }
        answers: Answers = {}
        for call_id, line in given:
            call = open_calls.get(call_id)
            if call is None:
                raise NothingToResume(
                    f"session {self.session_id!r} waits for no call {call_id!r}; it waits for: "
                    f"{', '.join(open_calls) or 'nothing'}",
                    unknown=[call_id],
                )
            response = answer_from_line(call, line)
            if response is not None:
                answers[call_id] = (call, response)
        return answers_content(answers, text)

    # --- one run ------------------------------------------------------------------------------------------------------

    async def _drive(self, message: str | Content, state_delta: Mapping[str, Any] | None = None) -> None:
        transcript = Transcript(self._terminal, self._root, live=self._live)
        run = self._runner.run(
            user_id=self._user_id,
            session_id=self.session_id,
            message=message,
            state_delta=dict(state_delta) if state_delta else None,
            config=self._config,
        )
        self.session_id = run.session_id
        self.error = None
        try:
            async with run, stopped_after(run, self._timeout) as limit, stopped_by_interrupt(run, self._interruptible):
                async for event in run:
                    self._show(transcript, event)
            self.timed_out = limit.reached
        except Exception as error:  # noqa: BLE001 - a run may raise anything; the command reports it and its exit code
            self.error = error
        finally:
            self.outcome = run.outcome
            transcript.finish(run.outcome)
            if self._as_json:
                self._terminal.result(
                    outcome_line(run.outcome, user_id=self._user_id, session_id=self.session_id, error=self.error)
                )

    def _show(self, transcript: Transcript, event: Event) -> None:
        if self._as_json:
            self._terminal.result(event_line(event))
        else:
            transcript.show(event)

    # --- people -------------------------------------------------------------------------------------------------------

    def _open_calls(self) -> Sequence[Call]:
        """What a person may be asked now."""
        outcome = self.outcome
        if outcome is None or outcome.kind != "paused" or self._as_json or not self._terminal.interactive:
            return ()
        return outcome.open_calls

    async def _ask(self, calls: Sequence[Call]) -> Answers:
        """Ask for each open call in turn; end of input leaves the rest open."""
        answers: Answers = {}
        for call in calls:
            self._terminal.question(call.author, question(call))
            typed = await self._terminal.ask("User -> ")
            if typed is None:
                break
            response = answer_from_line(call, typed)
            if response is not None:
                answers[call.id] = (call, response)
        return answers

    def _print_result(self) -> None:
        outcome = self.outcome
        if outcome is None or self._as_json or self.error is not None or outcome.kind not in ("completed", "ended"):
            return
        text = final_text(outcome)
        shown_already = self._live and outcome.final_event is not None and bool(outcome.final_event.text)
        if text is not None and not shown_already:
            self._terminal.result(text)
