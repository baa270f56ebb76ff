"""The leading user content of an agent that does not see the conversation it was called from (core CON-9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookwork.records.content import Content, Part
from hookwork_llm.contents.relay import as_json
from hookwork_llm.contents.visibility import is_blank, shown_parts

if TYPE_CHECKING:
    from hookwork.records.history import Call, HistoryIndex
    from hookwork.records.session import Session

_NO_REPLY = Part(text="No user will reply to you. Finish the work in this turn, without asking back.")


def delegating_call(history: HistoryIndex, scope: str) -> Call | None:
    """The call whose isolation scope (its id, ``~n`` for the n-th use of it) is ``scope``."""
    first = history.calls_by_id.get(scope)
    if first:
        return first[0]
    call_id, _, number = scope.rpartition("~")
    calls = history.calls_by_id.get(call_id, ())
    n = int(number) if number.isdecimal() else 0
    return calls[n - 1] if 0 < n <= len(calls) else None


def stored_opening(session: Session, scope: str) -> Content | None:
    """What the delegating call says: its arguments as JSON, else the message it was made for. None: not to be found."""
    history = session.history()
    call = delegating_call(history, scope)
    if call is None:
        return None
    if call.args:
        return Content(role="user", parts=[Part(text=as_json(call.args))])
    first = history.invocations.get(call.invocation_id)
    if first is None:
        return None
    event = session.events[first]
    if event.author != "user" or event.content is None:
        return None
    return said(event.content)


def said(content: Content | None) -> Content | None:
    """A message as a leading content: without calls and answers to calls, None when nothing is left."""
    if content is None:
        return None
    parts = [
        part for part in shown_parts(content.parts) if part.function_response is None and part.function_call is None
    ]
    if is_blank(parts):
        return None
    return content if len(parts) == len(content.parts) and content.role == "user" else Content(role="user", parts=parts)


def with_no_reply_note(content: Content) -> Content:
    """The content with a part that says that no user reply will come."""
    return content.replace(parts=[*content.parts, _NO_REPLY])
