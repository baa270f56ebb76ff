"""A request's contents as turns: what the person said, what was called and answered since, what others said."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hookwork.records.content import Content, FunctionCall, FunctionResponse
from hookwork_offline.values import read_json

#: How relayed text of other agents begins (core CON-4), and where remembered conversations stand (tools-plugins BT-20).
RELAY_LEAD = "For context:"
MEMORY_LEAD = "<PAST_CONVERSATIONS"
#: How the note begins that a single-turn agent gets beside its task (core CON-9): no words of a person.
NO_REPLY_LEAD = "No user will reply"
_RELAYED = re.compile(r"^\[([^\]\n]+)\] (said: )?([\s\S]*)$")


@dataclass(frozen=True, slots=True)
class Result:
    """One call of this turn with its answer (None: no answer is known)."""

    name: str
    args: dict[str, Any]
    response: dict[str, Any] | None
    attachments: int = 0

    @property
    def status(self) -> str:
        """``ok``, ``error``, ``pending`` or ``interrupted``."""
        response = self.response
        if response is None:
            return "pending"
        if response.get("status") in ("pending", "interrupted") and set(response) <= {"status", "message", "error"}:
            return str(response["status"])
        error = response.get("error")
        return "error" if error not in (None, "", False) else "ok"


@dataclass(slots=True)
class Turn:
    """What follows one message of the person, up to the next one."""

    message: str
    results: list[Result] = field(default_factory=list)
    relayed: list[tuple[str, str]] = field(default_factory=list)
    speakers: set[str] = field(default_factory=set)
    answered: bool = False


def last_turns(contents: Sequence[Content], limit: int) -> list[Turn]:
    """The newest turns, oldest first; always at least one. Older contents are not looked at."""
    turns: list[Turn] = []
    end = len(contents)
    for i in range(len(contents) - 1, -1, -1):
        if is_message(contents, i):
            turns.append(_turn(_message_text(contents[i]), contents[i:end]))
            end = i
            if len(turns) == limit:
                break
    if len(turns) < limit and end > 0:
        opening = _turn("", contents[:end])
        if not turns:
            # No person spoke to this agent (a pipeline with include_contents=none): what others said is the task.
            opening.message = "\n".join(text for _, text in opening.relayed)
            turns.append(opening)
    if not turns:
        turns.append(Turn(""))
    return turns[::-1]


def is_message(contents: Sequence[Content], i: int) -> bool:
    """Whether a content is what a person said, not a relay, a memory, or material that a tool put there."""
    content = contents[i]
    if content.role == "model" or is_relay(content):
        return False
    text = _plain_text(content)
    if text.startswith(MEMORY_LEAD) or (not text and not _has_media(content)):
        return False
    before = contents[i - 1] if i else None
    return before is None or not any(response.name == "load_artifacts" for response in before.function_responses)


def is_relay(content: Content) -> bool:
    """Whether a content carries what another agent said or did."""
    return content.role != "model" and _first_text(content).startswith(RELAY_LEAD)


def _first_text(content: Content) -> str:
    return next((part.text for part in content.parts if part.text), "").lstrip()


def _plain_text(content: Content) -> str:
    texts = (part.text.strip() for part in content.parts if part.text and not part.thought)
    return "\n".join(text for text in texts if text and not text.startswith(NO_REPLY_LEAD))


def _has_media(content: Content) -> bool:
    return any(part.inline_data is not None or part.file_data is not None for part in content.parts)


def _message_text(content: Content) -> str:
    """The words of a message; of a JSON object, as a delegated task sends it (core CON-9), its values."""
    first = _first_text(content).strip()
    if first.startswith("{"):
        try:
            values = read_json(first)
        except ValueError:
            return _plain_text(content)
        if isinstance(values, dict) and values:
            texts = [value for value in values.values() if isinstance(value, str)]
            if len(texts) == len(values) == 1:
                return texts[0]
            named = (
                f"{key}: {value if isinstance(value, str) else json.dumps(value)}" for key, value in values.items()
            )
            return "\n".join(named)
    return _plain_text(content)


def _turn(message: str, contents: Sequence[Content]) -> Turn:
    turn = Turn(message)
    calls: list[FunctionCall] = []
    responses: list[FunctionResponse] = []
    for content in contents:
        if is_relay(content):
            _read_relay(turn, content)
        elif content.role == "model":
            calls += content.function_calls
            turn.answered = turn.answered or bool(content.text.strip())
        else:
            responses += content.function_responses
    turn.results = _pair(calls, responses)
    return turn


def _read_relay(turn: Turn, content: Content) -> None:
    for part in content.parts:
        match = _RELAYED.match(part.text or "")
        if match is not None:
            turn.speakers.add(match.group(1))
            if match.group(2):
                turn.relayed.append((match.group(1), match.group(3).strip()))


def _pair(calls: list[FunctionCall], responses: list[FunctionResponse]) -> list[Result]:
    """Each call with its response: by id where both have one, else by name and order (core CON-12)."""
    left = list(responses)
    results = []
    for call in calls:
        by_id = (r for r in left if call.id and r.id == call.id)
        by_name = (r for r in left if r.name == call.name and not (call.id and r.id))
        found = next(by_id, None) or next(by_name, None)
        if found is not None:
            left = [response for response in left if response is not found]
        results.append(
            Result(
                name=call.name or "",
                args=dict(call.args or {}),
                response=None if found is None else dict(found.response or {}),
                attachments=0 if found is None else len(found.parts or ()),
            )
        )
    return results
