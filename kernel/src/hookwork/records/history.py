"""The index of a log: who ran where, what ended, which calls are open (activations §1, core §3.3.1).

One pass over live events, extended by each append in O(depth of its path). Nothing here is ever stored; any process
builds the same index from the same events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from hookwork.records.content import FunctionCall, FunctionResponse
from hookwork.records.event import Event
from hookwork.records.frozen import FrozenDict

#: The function name of a wait for a moment or an event, which no person needs to answer (workflow WB-22).
WAIT = "hookwork_wait"
#: Key of the response to a call whose time ran out.
EXPIRED_KEY = "hookworkExpired"
KINDS = {
    "adk_request_confirmation": "confirmation",
    "adk_request_input": "input",
    WAIT: "input",
    "adk_request_credential": "credential",
}
#: Key of an event's actions: calls that wait for somebody's consent (crosscutting AUTH-30).
_CONSENTS = "requestedAuthConfigs"
#: `Event.custom_metadata` key: ids of long-running calls that this event closes (core PND-1, `Finished`).
CLOSED_CALLS = "hookwork_closed_calls"
#: `NodeInfo.status` of the event that records a node's failed attempt (workflow PER table).
NODE_FAILED = "failed"
#: The same for an agent that begins anew: nothing it said before counts for it (workflow RTY-5).
NODE_VOIDED = "voided"

_NO_ARGS = FrozenDict({})


class Response(msgspec.Struct):
    """One response to a call: where it stands and what it does to the call."""

    position: int
    author: str
    payload: Any
    closes: bool
    placeholder: bool


class Call(msgspec.Struct):
    """A function call of a live event and the responses to it. ``OpenCall`` of the spec is a call that is open.

    ``turn`` and ``number`` give its place: the model turn of its activation and its number in that event (from 1).
    """

    id: str
    name: str
    args: Any
    kind: str
    position: int
    number: int
    turn: int
    author: str
    branch: str
    isolation_scope: str
    path: str
    invocation_id: str
    event_id: str
    timestamp: float
    long_running: bool
    failed_event: bool
    occurrence: int
    responses: list[Response]
    closed_at: int | None = None
    message: str | None = None
    payload: Any = None
    response_schema: Any = None
    #: the newest request for a person's approval of this call.
    request: Call | None = None

    @property
    def is_open(self) -> bool:
        """Waits for an answer (PND-1). While a person is asked to approve the call, the request waits in its place."""
        if not self.long_running or self.failed_event or self.closed_at is not None:
            return False
        return self.request is None or not self.request.is_open

    @property
    def answer(self) -> Response | None:
        """The newest response by the user, if any."""
        return next((r for r in reversed(self.responses) if r.author == "user"), None)

    @property
    def last_response(self) -> Response | None:
        """The newest response of any kind."""
        return self.responses[-1] if self.responses else None

    @property
    def scope(self) -> str:
        """The isolation scope of a delegation by this call: its id, ``~n`` behind it when used before (ACT §4)."""
        return self.id if self.occurrence == 1 else f"{self.id}~{self.occurrence}"


class Record(msgspec.Struct):
    """What stored events say about one place (ACT-5). Positions are indices into the log; -1 = never.

    ``first``, ``newest*`` and ``waiting`` (unanswered or open calls) cover the subtree, ``own*`` and ``calls`` the
    place itself. ``turns`` counts its model turns. ``failed``: newest failure of a node, which undoes an end before it;
    ``voided``: one after which it began anew.
    """

    path: str
    invocation_id: str
    own: list[int]
    calls: list[Call]
    first: int
    branch: str = ""
    scope: str = ""
    newest: int = -1
    newest_answer: int = -1
    newest_message: int = -1
    own_message: int = -1
    end: int = -1
    output: Any = None
    failed: int = -1
    voided: int = -1
    handover: int = -1
    handover_target: str = ""
    escalated: bool = False
    escalated_below: bool = False
    turns: int = 0
    children: list[str] = msgspec.field(default_factory=list)
    waiting: dict[int, Call] = msgspec.field(default_factory=dict)

    @property
    def news(self) -> int:
        """Position of the newest answer or message for the subtree."""
        return max(self.newest_answer, self.newest_message)

    @property
    def spoke(self) -> int:
        """Position of the newest event of the place itself, or message for it."""
        return max(self.own_message, self.own[-1] if self.own else -1)


def parents(path: str) -> Iterator[str]:
    """The ancestors of a path, nearest first."""
    cut = path.rfind("/")
    while cut > 0:
        path = path[:cut]
        yield path
        cut = path.rfind("/")


def place_scope(invocation_id: str, path: str) -> str:
    """The isolation scope of a place that talks with the user apart from the rest, and that no call started."""
    return f"{path}:{invocation_id}"


class HistoryIndex:
    """See the module. ``length`` events of the log are taken in."""

    __slots__ = ("calls", "calls_by_id", "invocations", "length", "records", "scope_paths", "tasks", "unanswered")

    def __init__(self) -> None:
        self.length = 0
        self.calls: list[Call] = []
        self.calls_by_id: dict[str, list[Call]] = {}
        #: calls without a response of any kind, or that are open; pruned when they close.
        self.unanswered: dict[int, Call] = {}
        self.records: dict[tuple[str, str], Record] = {}
        #: invocation id → position of its first event.
        self.invocations: dict[str, int] = {}
        #: isolation scope → (invocation id, path) of the place that speaks in it, newest last.
        self.scope_paths: dict[str, tuple[str, str]] = {}
        #: invocation id → places that speak in a scope of their own.
        self.tasks: dict[str, list[Record]] = {}

    def extend(self, events: Sequence[Event], live: Sequence[int] | None) -> None:
        """Take in the events behind those known already; ``live`` limits them to what no rewind hides."""
        positions: Sequence[int] = range(self.length, len(events)) if live is None else live
        for position in positions:
            if position >= self.length:
                self._take(position, events[position])
        self.length = len(events)

    # --- reading ------------------------------------------------------------------------------------------------------

    def open_calls(self) -> dict[str, Call]:
        """id → newest open call of that id, in order of raising."""
        return {call.id: call for call in self.unanswered.values() if call.is_open}

    def open_delegations(self) -> list[Call]:
        """Unanswered calls that a later event's scope names."""
        return [
            call
            for call in self.unanswered.values()
            if not call.responses and (call.scope in self.scope_paths) and self.scope_paths[call.scope][1] != call.path
        ]

    def newest_call(self, call_id: str) -> Call | None:
        """The newest call of that id."""
        calls = self.calls_by_id.get(call_id)
        return calls[-1] if calls else None

    def record(self, invocation_id: str, path: str) -> Record | None:
        """What is known about a place."""
        return self.records.get((invocation_id, path))

    def open_below(self, invocation_id: str, path: str) -> list[Call]:
        """Open calls of a place and everything under it, in order of raising."""
        record = self.records.get((invocation_id, path))
        return [call for call in record.waiting.values() if call.is_open] if record is not None else []

    def open_tasks(self, invocation_id: str | None = None) -> list[Record]:
        """Places that speak in a scope of their own, without a delegating call, and have not ended (workflow WB-6)."""
        invocations = self.tasks.values() if invocation_id is None else [self.tasks.get(invocation_id, [])]
        return [task for tasks in invocations for task in tasks if task.end < 0]

    # --- building -----------------------------------------------------------------------------------------------------

    def _take(self, position: int, event: Event) -> None:
        if event.actions.compaction is not None:
            return  # its author is the user, but nobody spoke: it wakes no place and begins no invocation
        invocation = event.invocation_id
        self.invocations.setdefault(invocation, position)
        by_user = event.author == "user"
        path = event.path
        if not path and not by_user and event.author:
            path = f"{event.author}@1"  # hand-made, or by another ADK: the author's place at run ids 1 (ACT-7)
        if by_user:
            self._take_message(position, event, path)
        elif path:
            self._take_own(position, event, path)
        if event.isolation_scope and not by_user:
            if event.isolation_scope not in self.scope_paths:
                self._note_task(invocation, path, event.isolation_scope)
            self.scope_paths[event.isolation_scope] = (invocation, path)
        content = event.content
        if content is None:
            return
        number = 0
        turn = 0
        answered: dict[str, int] = {}
        for part in content.parts:
            if part.function_call is not None:
                if by_user:
                    continue  # a client cannot make an agent's call
                number += 1
                if number == 1 and (record := self.records.get((invocation, path))) is not None:
                    turn = record.turns
                self._take_call(position, event, path, part.function_call, number, turn)
            elif part.function_response is not None:
                self._take_response(position, event, part.function_response, answered)

    def _record(self, invocation: str, path: str, position: int) -> Record:
        record = self.records.get((invocation, path))
        if record is None:
            record = self.records[invocation, path] = Record(
                path=path, invocation_id=invocation, own=[], calls=[], first=position
            )
            cut = path.rfind("/")
            if cut > 0:
                self._record(invocation, path[:cut], position).children.append(path)
        return record

    def _take_own(self, position: int, event: Event, path: str) -> None:
        invocation = event.invocation_id
        record = self._record(invocation, path, position)
        if not record.own:
            record.branch, record.scope = event.branch, event.isolation_scope
        record.own.append(position)
        record.newest = position
        actions = event.actions
        if actions.escalate:
            record.escalated = record.escalated_below = True
        if actions.transfer_to_agent:
            record.handover, record.handover_target = position, actions.transfer_to_agent
        if is_model_turn(event):
            record.turns += 1
        self._take_end(position, event, record)
        for parent in parents(path):
            above = self._record(invocation, parent, position)
            above.newest = position
            if actions.escalate:
                above.escalated_below = True

    def _take_end(self, position: int, event: Event, record: Record) -> None:
        info = event.node_info
        status = info.status if info is not None else None
        if status in (NODE_FAILED, NODE_VOIDED):
            self._take_failure(position, event, record, voided=status == NODE_VOIDED)
            return
        output = event.output
        if output is None and info is not None and info.message_as_output:
            output = event.text
        if output is None and not event.routes and status != "completed":
            return
        _set_end(record, position, output)
        for path in (info.output_for or ()) if info is not None else ():
            if path != record.path:
                _set_end(self._record(event.invocation_id, path, position), position, output)

    def _take_failure(self, position: int, event: Event, record: Record, *, voided: bool) -> None:
        """A node's attempt failed: what it gave counts no longer, and the questions it names wait no longer (ASK-5)."""
        record.failed, record.end, record.output = position, -1, None
        closed = (event.custom_metadata or {}).get(CLOSED_CALLS) or ()
        for call in list(record.waiting.values()):
            if call.path == record.path and (voided or call.id in closed):
                call.closed_at = position if call.closed_at is None else call.closed_at
                self._settle(call)
        if voided:
            record.voided, record.handover = position, -1
            record.own.clear()
            record.calls.clear()

    def _note_task(self, invocation: str, path: str, scope: str) -> None:
        """Note whose own scope it is that is spoken in for the first time: that of the place, or of one above it."""
        for place in (path, *parents(path)):
            if scope == place_scope(invocation, place):
                self.tasks.setdefault(invocation, []).append(self.records[invocation, place])

    def _take_message(self, position: int, event: Event, path: str) -> None:
        """Words for a place; answers and the results of tasks are news by the calls they answer (ACT-25)."""
        if event.function_responses:
            return
        places: list[tuple[str, str]] = []
        if path:
            places.append((event.invocation_id, path))
        if event.isolation_scope in self.scope_paths:
            places.append(self.scope_paths[event.isolation_scope])
        for invocation, place in places:
            record = self._record(invocation, place, position)
            record.newest_message = record.own_message = position
            for parent in parents(place):
                self._record(invocation, parent, position).newest_message = position

    def _take_call(self, position: int, event: Event, path: str, call: FunctionCall, number: int, turn: int) -> None:
        call_id = call.id or ""
        args = call.args if isinstance(call.args, dict) else _NO_ARGS
        same = self.calls_by_id.setdefault(call_id, [])
        entry = Call(
            id=call_id,
            name=call.name or "",
            args=args,
            kind=KINDS.get(call.name or "", "tool"),
            position=position,
            number=number,
            turn=turn,
            author=event.author,
            branch=event.branch,
            isolation_scope=event.isolation_scope,
            path=path,
            invocation_id=event.invocation_id,
            event_id=event.id,
            timestamp=event.timestamp,
            long_running=call_id in event.long_running_tool_ids,
            failed_event=bool(event.error_code),
            occurrence=len(same) + 1,
            responses=[],
        )
        _describe(entry, event)
        if entry.kind in ("confirmation", "credential"):
            # Siblings may use one id at the same time: a request is about a call of its own activation.
            for asked_about in reversed(self.calls_by_id.get(_original_id(entry), ())):
                if asked_about.path == path:
                    asked_about.request = entry
                    break
        same.append(entry)
        self.calls.append(entry)
        self.unanswered[id(entry)] = entry
        if path:
            record = self._record(event.invocation_id, path, position)
            record.calls.append(entry)
            record.waiting[id(entry)] = entry
            for parent in parents(path):
                self._record(event.invocation_id, parent, position).waiting[id(entry)] = entry

    def _settle(self, call: Call) -> None:
        """A call neither lacks a response nor waits any more."""
        if self.unanswered.pop(id(call), None) is None or not call.path:
            return
        for path in (call.path, *parents(call.path)):
            record = self.records.get((call.invocation_id, path))
            if record is not None:
                record.waiting.pop(id(call), None)

    def _take_response(self, position: int, event: Event, response: FunctionResponse, answered: dict[str, int]) -> None:
        call = self._answered_call(position, response.id or "", event.author, event.path, answered)
        if call is None:
            return
        by_user = event.author == "user"
        confirmations = event.actions.requested_tool_confirmations or {}
        extra = event.actions.extra
        consents = extra.get(_CONSENTS) if extra else None
        placeholder = call.id in confirmations or (isinstance(consents, dict) and call.id in consents)
        payload = response.response
        closed_ids = (event.custom_metadata or {}).get(CLOSED_CALLS) or ()
        failed = isinstance(payload, dict) and "error" in payload
        closes = not placeholder and (by_user or (event.author == call.author and (failed or call.id in closed_ids)))
        call.responses.append(
            Response(position=position, author=event.author, payload=payload, closes=closes, placeholder=placeholder)
        )
        if closes and call.closed_at is None:
            call.closed_at = position
        if not call.is_open and not placeholder:
            self._settle(call)
        if by_user and call.path:
            record = self._record(call.invocation_id, call.path, position)
            record.newest_answer = position
            for parent in parents(call.path):
                self._record(call.invocation_id, parent, position).newest_answer = position
        if by_user and call.scope in self.scope_paths:
            self._close_scope(call.scope, position)
        if by_user and call.kind == "credential" and len(call.responses) == 1:
            self._share_consent(call)

    def _share_consent(self, answered: Call) -> None:
        """A consent is for all calls of one activation that wait for the credential of its key (AUTH-32)."""
        key = _credential_key(answered)
        for other in list(self.unanswered.values()):
            place = (other.kind, other.path, other.author, other.invocation_id)
            if place != (answered.kind, answered.path, answered.author, answered.invocation_id) or not other.is_open:
                continue
            if key and _credential_key(other) == key:
                other.responses.append(answered.responses[0])
                other.closed_at = answered.responses[0].position
                self._settle(other)

    def _close_scope(self, scope: str, position: int) -> None:
        """The response of a delegating call closes every open call of its scope (PND-1, ACT-26)."""
        for other in list(self.unanswered.values()):
            if other.isolation_scope == scope and other.closed_at is None:
                other.closed_at = position
                self._settle(other)

    def _answered_call(
        self, position: int, call_id: str, author: str, path: str, answered: dict[str, int]
    ) -> Call | None:
        """The newest earlier call of the id; the n-th response of an id in one event meets the n-th such call.

        A response under a path answers a call of that place, an agent's one of its own calls: siblings may use one id
        at the same time.
        """
        calls = self.calls_by_id.get(call_id)
        if not calls:
            return None
        newest = None
        if path:
            newest = next((call for call in reversed(calls) if call.path == path), None)
        if newest is None and author != "user":
            newest = next((call for call in reversed(calls) if call.author == author), None)
        if newest is None:
            newest = calls[-1]
        if newest.position >= position:
            return None
        group = [newest]
        for call in reversed(calls):
            if call.position < newest.position:
                break
            if call is not newest and call.position == newest.position:
                group.append(call)
        n = answered.get(call_id, 0)
        answered[call_id] = n + 1
        return group[max(-1 - n, -len(group))]


def _set_end(record: Record, position: int, output: Any) -> None:
    if output is None and record.end > record.newest_answer:
        output = record.output  # a route or marker behind an output of the same entry
    record.end, record.output = position, output


def is_model_turn(event: Event) -> bool:
    """Whether an own event is one of its activation's model turns (tools-plugins EFF-2)."""
    content = event.content
    if content is None:
        failed_node = event.node_info is not None and event.node_info.status in (NODE_FAILED, NODE_VOIDED)
        return bool(event.error_code) and not failed_node
    if content.role != "model":
        return False
    return not any(part.function_call is not None and part.function_call.name in KINDS for part in content.parts)


def _original_id(request: Call) -> str:
    """The id of the call that a request for approval or consent is about."""
    if request.kind == "credential":
        return str(request.args.get("functionCallId") or "")
    original = request.args.get("originalFunctionCall")
    return str(original.get("id") or "") if isinstance(original, dict) else ""


def _credential_key(request: Call) -> str:
    config = request.args.get("authConfig")
    return str(config.get("credentialKey") or "") if isinstance(config, dict) else ""


def _describe(call: Call, event: Event) -> None:
    """What a person has to know to answer the call."""
    if call.kind == "confirmation":
        asked = call.args.get("toolConfirmation")
        if isinstance(asked, dict):
            call.message, call.payload = asked.get("hint"), asked.get("payload")
    elif call.kind == "credential":
        config = call.args.get("authConfig")
        shown = config.get("exchangedAuthCredential") if isinstance(config, dict) else None
        oauth2 = shown.get("oauth2") if isinstance(shown, dict) else None
        uri = oauth2.get("authUri") if isinstance(oauth2, dict) else None
        call.message = f"Please consent at {uri}" if uri else None
        call.payload = config
    elif call.kind == "input":
        asked_input = event.requested_input
        if asked_input is not None:
            call.message, call.payload = asked_input.message, asked_input.payload
            call.response_schema = asked_input.response_schema
        else:
            call.message, call.payload = call.args.get("message"), call.args.get("payload")
            call.response_schema = call.args.get("responseSchema", call.args.get("response_schema"))
