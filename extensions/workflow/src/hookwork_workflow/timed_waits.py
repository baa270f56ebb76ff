"""Answers to waits for moments and events: what is due, and the calls that give them (workflow WB-22).

Nothing here keeps time by itself but `keep_time`: a scheduler or webhook asks `due_waits` or calls `send_event`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from hookwork import platform
from hookwork.errors import NothingToResume
from hookwork.records.content import FunctionResponse, Part
from hookwork.records.frozen import thaw
from hookwork.records.history import WAIT
from hookwork.timed import DEFAULT_ANSWER, EVENT, EXPIRES_AT, EXPIRY, UNTIL, epoch
from hookwork_workflow.json_form import to_json

if TYPE_CHECKING:
    from hookwork.records.history import Call
    from hookwork.records.session import Session
    from hookwork.run import RunOutcome
    from hookwork.runner import Runner


class DueWait(NamedTuple):
    """An open call that a timer answers.

    ``at``: the moment, seconds since 1970 UTC. ``answer``: the response: to a sleeper that the moment has come, to a
    question with a deadline its default answer or that it expired.
    """

    call: Call
    at: float
    answer: FunctionResponse


def timed_waits(session: Session) -> list[DueWait]:
    """All open calls of a session that a timer answers some time, soonest first."""
    found = []
    for call in session.open_calls.values():
        until = call.args.get(UNTIL) if call.name == WAIT else None
        at = until if until is not None else call.args.get(EXPIRES_AT)
        if isinstance(at, int | float):
            found.append(DueWait(call, float(at), _timed_answer(call, sleeps=until is not None)))
    return sorted(found, key=lambda wait: wait.at)


def _timed_answer(call: Call, *, sleeps: bool) -> FunctionResponse:
    if sleeps:
        response: dict[str, Any] = {"result": None}
    elif DEFAULT_ANSWER in call.args:
        response = {"result": thaw(call.args[DEFAULT_ANSWER])}
    else:
        response = dict(EXPIRY)
    return FunctionResponse(id=call.id, name=call.name, response=response)


def due_waits(session: Session, now: datetime | float | None = None) -> list[DueWait]:
    """The open calls whose moment has come, soonest first. ``now``: None: by the platform's clock."""
    moment = platform.now().timestamp() if now is None else epoch(now)
    return [wait for wait in timed_waits(session) if wait.at <= moment]


def next_due(session: Session) -> datetime | None:
    """The moment at which the next open call of a session is due; None when none waits for a moment."""
    waits = timed_waits(session)
    return datetime.fromtimestamp(waits[0].at, UTC) if waits else None


async def answer_due(runner: Runner, *, user_id: str, session_id: str) -> list[RunOutcome]:
    """Give the answers that are due in a session: one run for each invocation that waits for some.

    Returns:
        Its outcomes; empty when nothing was due, or another process was quicker.
    """
    waits = due_waits(await _session(runner, user_id, session_id))
    return await _answer(runner, user_id, session_id, [(wait.call, wait.answer) for wait in waits])


async def send_event(
    runner: Runner, event: str, payload: Any = None, *, user_id: str, session_id: str
) -> list[RunOutcome]:
    """Send an event to whoever waits for it in a session: one run for each invocation that does.

    Args:
        event: what was given to ``ctx.wait_event``. payload: what that gives; JSON, or what can be written as such.

    Raises:
        NothingToResume: nobody waits for it; nothing was stored.
        InvalidResumeResponse: the payload does not fit what is waited for; nothing was stored.
    """
    session = await _session(runner, user_id, session_id)
    waiting = [
        (call, FunctionResponse(id=call.id, name=call.name, response={"result": to_json(payload)}))
        for call in session.open_calls.values()
        if call.name == WAIT and call.args.get(EVENT) == event
    ]
    if not waiting:
        raise NothingToResume(f"nobody waits for the event {event!r} in session {session_id!r}; nothing was stored")
    return await _answer(runner, user_id, session_id, waiting)


async def keep_time(runner: Runner, *, user_id: str, session_id: str) -> RunOutcome | None:
    """Answer what becomes due in a session, as long as something waits for a moment.

    A timer for one process: it sleeps by the platform's clock and ends when its task is cancelled. What is due when a
    process begins is answered at once.

    Returns:
        The outcome of the last run; None when nothing waited for a moment.
    """
    last: RunOutcome | None = None
    while (due := next_due(await _session(runner, user_id, session_id))) is not None:
        seconds = (due - platform.now()).total_seconds()
        if seconds > 0:
            await platform.sleep(seconds)
        for outcome in await answer_due(runner, user_id=user_id, session_id=session_id):
            last = outcome
    return last


async def _session(runner: Runner, user_id: str, session_id: str) -> Session:
    await runner.open()
    return await runner.sessions.get_session(app_name=runner.app_name, user_id=user_id, session_id=session_id)


async def _answer(
    runner: Runner, user_id: str, session_id: str, answers: Sequence[tuple[Call, FunctionResponse]]
) -> list[RunOutcome]:
    by_invocation: dict[str, list[Part]] = {}
    for call, answer in answers:
        by_invocation.setdefault(call.invocation_id, []).append(Part(function_response=answer))
    outcomes = []
    for parts in by_invocation.values():
        try:
            outcomes.append(await runner.run(user_id=user_id, session_id=session_id, message=parts).wait())
        except NothingToResume:  # answered meanwhile
            continue
    return outcomes
