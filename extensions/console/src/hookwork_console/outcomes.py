"""A run's outcome for programs (a JSON line) and for people (what is open and how to answer)."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import msgspec

from hookwork.records.codec import dump, dump_json
from hookwork.records.frozen import thaw
from hookwork.urls import redact_url
from hookwork_console.answers import question
from hookwork_console.options import DEFAULT_USER, Options

if TYPE_CHECKING:
    from hookwork.records.event import Event
    from hookwork.records.history import Call
    from hookwork.run import RunOutcome

DONE, FAILED, PAUSED = 0, 1, 2

_CALL_FIELDS = {
    "id": "id",
    "name": "name",
    "args": "args",
    "kind": "kind",
    "message": "message",
    "payload": "payload",
    "responseSchema": "response_schema",
    "author": "author",
    "branch": "branch",
    "isolationScope": "isolation_scope",
    "path": "path",
    "invocationId": "invocation_id",
    "eventId": "event_id",
    "timestamp": "timestamp",
}


def exit_code(outcome: RunOutcome | None) -> int:
    """The command's exit code (servers CLI-6). An answer that is an error is a failure, too."""
    if outcome is None:
        return FAILED
    if outcome.kind == "paused":
        return PAUSED
    if outcome.kind == "completed":
        final = outcome.final_event
        return FAILED if final is not None and final.error_code else DONE
    return DONE if outcome.kind == "ended" else FAILED


def final_text(outcome: RunOutcome) -> str | None:
    """What stdout gets: the final event's text, else the output (text as it is, else JSON), else None (CON-4)."""
    if outcome.final_event is not None and outcome.final_event.text:
        return outcome.final_event.text
    output = outcome.output
    if output is None:
        return None
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def event_line(event: Event) -> str:
    """An event as one line of JSON, in the REST wire form."""
    return dump_json(event).decode()


def outcome_line(
    outcome: RunOutcome | None, *, user_id: str, session_id: str | None, error: BaseException | None = None
) -> str:
    """``{"outcome": {...}}``: the fields of RunOutcome in camelCase, and whose session it was. None is left out."""
    failure = (outcome.error if outcome is not None else None) or error
    fields: dict[str, Any] = {"kind": outcome.kind if outcome is not None else "failed"}
    if outcome is not None:
        final = outcome.final_event
        fields |= {
            "invocationId": outcome.invocation_id or None,
            "finalEvent": dump(final) if final is not None else None,
            "output": thaw(outcome.output),
            "openCalls": [_call(call) for call in outcome.open_calls],
            "openDelegations": [_call(call) for call in outcome.open_delegations],
            "openTasks": list(outcome.open_tasks) or None,
            "reason": outcome.reason or None,
            "usage": _usage(outcome.usage),
        }
    if failure is not None:
        fields["error"] = {"type": type(failure).__name__, "message": str(failure)}
    fields |= {"userId": user_id, "sessionId": session_id}
    return json.dumps(
        {"outcome": {key: value for key, value in fields.items() if value is not None}}, ensure_ascii=False
    )


def _call(call: Call) -> dict[str, Any]:
    fields = {wire: thaw(getattr(call, name)) for wire, name in _CALL_FIELDS.items()}
    return {wire: value for wire, value in fields.items() if value is not None and value != ""}


def _usage(usage: Any) -> dict[str, Any] | None:
    if usage is None:
        return None
    return {
        "total": _count(usage.total),
        "byAgent": {name: _count(count) for name, count in usage.by_agent.items()},
        "byModel": {name: _count(count) for name, count in usage.by_model.items()},
    }


def _count(count: Any) -> dict[str, int]:
    fields = msgspec.structs.asdict(count)
    return {_camel(name): value for name, value in fields.items() if value is not None}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def paused_lines(
    outcome: RunOutcome, options: Options, *, agent: str | None, session_id: str, stored: bool
) -> list[str]:
    """What waits, and how to answer it. ``stored``: whether the session outlives this command."""
    calls, tasks = outcome.open_calls, [call.name for call in outcome.open_delegations]
    tasks += [path.rpartition("/")[2].partition("@")[0] for path in outcome.open_tasks]
    lines = [f"paused: session {session_id} waits for {len(calls) or len(tasks)} answer(s)"]
    for call in calls:
        lines += [f"  {call.id}  ({call.kind})", *(f"    {line}" for line in question(call))]
    lines += [f"  task {name} waits for a message" for name in tasks]
    again = _command(options, agent, session_id)
    if not stored:
        lines.append("the session was in memory and is gone; run it with --sessions sqlite:///FILE.db to answer later")
    elif calls:
        answers = " ".join(f"--answer {shlex.quote(f'{call.id}={_example(call)}')}" for call in calls)
        lines.append(f"answer with: {again} {answers}")
    else:
        lines.append(f"answer with: {again} 'your message'")
    return lines


def _example(call: Call) -> str:
    return "yes" if call.kind == "confirmation" else '{"result": "…"}' if call.kind == "tool" else "…"


def _command(options: Options, agent: str | None, session_id: str) -> str:
    words = ["hookwork", "run", *([agent] if agent else [])]
    if options.sessions:
        words += ["--sessions", redact_url(options.sessions)]
    if options.user != DEFAULT_USER:
        words += ["--user", options.user]
    return shlex.join([*words, "--session", session_id])
