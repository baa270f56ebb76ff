"""Where an LLM agent's activation stands, and what it has to run first when it is entered again (ACT-20, ACT-21)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hookwork.confirmation import REQUEST_CONFIRMATION, read_confirmation
from hookwork.credentials import REQUEST_CREDENTIAL
from hookwork.node import Standing
from hookwork.records.event import Event, ToolConfirmation
from hookwork.records.history import Call, Record, Response
from hookwork.view import default_standing, segment_name
from hookwork_llm.task_places import task_end, task_segment

if TYPE_CHECKING:
    from hookwork.context import InvocationContext
    from hookwork.view import View
    from hookwork_llm.agent import LlmAgent


#: Standings of a place that goes on when it is entered; None: a hand-over was taken and its target not yet entered.
_GOES_ON = (Standing.PENDING, None)


class Pending:
    """The calls of an activation, sorted (ACT-20).

    ``answered``: (request, call, decision) in request order; a consent has the decision of an earlier approval.
    ``unasked``: calls with a placeholder whose request event is missing (a crash between the two). ``unrun``: ordinary
    calls without a response, and what the run was told to run again (ACT-43). ``waiting``: what a person has to answer.
    ``on_child``: calls without a response because what they started waits, open delegations and tasks behind them
    included. ``tasks``: delegations that can be started, gone on with, or answered.
    """

    __slots__ = ("answered", "on_child", "tasks", "unasked", "unrun", "waiting")

    def __init__(self) -> None:
        self.answered: list[tuple[Call, Call, ToolConfirmation | None]] = []
        self.unasked: list[Call] = []
        self.unrun: list[Call] = []
        self.waiting: list[Call] = []
        self.on_child: list[Call] = []
        self.tasks: list[Call] = []

    @property
    def executable(self) -> bool:
        return bool(self.answered or self.unasked or self.unrun or self.tasks)


def original_id(request: Call) -> str:
    """The id of the call that a request for approval or consent is about, ``""`` when it holds none."""
    if request.kind == "credential":
        return str(request.args.get("functionCallId") or "")
    original = request.args.get("originalFunctionCall")
    return str(original.get("id", "")) if isinstance(original, dict) else ""


def sort_calls(view: View, agent: LlmAgent | None = None, ctx: InvocationContext | None = None) -> Pending:
    """Sort the calls of an activation's own stored model events, and the delegations of ``agent`` from anywhere.

    Events of other authors, branches or scopes under its path are no source of calls: a remote peer could forge one
    (CNF-4, HITL-09). A request for an own call that stands elsewhere is refused when it is used (HITL-11).
    """
    pending = Pending()
    name = segment_name(view.path)
    children = agent.sub_agents if agent is not None else ()
    tasks = {child.name for child in children if child.delegate}
    called = {child.name for child in children if getattr(child, "effective_mode", "") == "single_turn"}
    calls = [call for call in view.calls if call.author == name]
    record = view.record
    where = (record.branch, record.scope) if record is not None else ("", "")
    requests = [call for call in calls if call.name in (REQUEST_CONFIRMATION, REQUEST_CREDENTIAL)]
    #: model turns of which a call waits without a response: their tasks are not begun (MODE-11, RES-3).
    held_turns: set[int] = set()
    for call in calls:
        if call.kind != "tool" or call.failed_event or (call.name in tasks and not call.responses):
            continue
        if (call.branch, call.isolation_scope) != where:
            continue
        last = call.last_response
        waits = False
        if last is not None and last.placeholder:
            waits = _sort_gated(pending, call, _request_for(call, calls, requests), requests)
        elif not call.responses:
            waits = _sort_unanswered(pending, call, view, is_agent=call.name in called)
        elif call.is_open:
            (pending.unrun if call.id in view.rerun else pending.waiting).append(call)
        if waits:
            held_turns.add(call.turn)
    if tasks:
        _sort_tasks(pending, view, name, tasks, ctx, held_turns)
    order = {id(request): position for position, request in enumerate(requests)}
    pending.answered.sort(key=lambda entry: order[id(entry[0])])
    return pending


def _sort_tasks(
    pending: Pending, view: View, name: str, tasks: set[str], ctx: InvocationContext | None, held_turns: set[int]
) -> None:
    """Unanswered task calls of this agent in its scope, whatever invocation made them (ACT-20, ACT-26).

    They are carried out in order: one that was not begun stays behind one that waits (MODE-8, MODE-9). In its own
    invocation a call is the place's that made it: one that was transferred away and back to has several (ACT-17).
    """
    record = view.record
    scope = ctx.isolation_scope if ctx is not None else record.scope if record is not None else ""
    behind = False
    for call in view.unanswered(name):
        if call.name not in tasks or call.failed_event or call.isolation_scope != scope:
            continue
        if call.invocation_id == view.invocation_id and call.path != view.path:
            continue
        if (task := view.scope_record(call.scope)) is None:
            here = call.path == view.path and call.invocation_id == view.invocation_id
            (pending.on_child if behind or (here and call.turn in held_turns) else pending.tasks).append(call)
        elif _task_goes_on(view, call, task):
            pending.tasks.append(call)
        else:
            pending.on_child.append(call)
            behind = True


def _task_goes_on(view: View, call: Call, task: Record) -> bool:
    """Whether a task that was begun has a result to deliver, or neither waits nor ended where it spoke last.

    An answer may also be for where it spoke in this invocation, when it went on in another one meanwhile.
    """
    if task_end(view, task, call.name) is not None:
        return True
    if view.at(task).standing() in _GOES_ON:
        return True
    here = view.child(task_segment(call.name, call.id, call.occurrence))
    return here.record is not None and here.standing() in _GOES_ON


def _sort_unanswered(pending: Pending, call: Call, view: View, *, is_agent: bool) -> bool:
    """Sort a call without a response; whether it waits."""
    started = view.child(f"{call.name}@{call.turn}-{call.number}")
    if started.record is not None and (started.standing() is Standing.WAITING if is_agent else _children_wait(started)):
        pending.on_child.append(call)
        return True
    if call.long_running and started.record is None and call.id not in view.rerun:
        pending.waiting.append(call)
        return True
    pending.unrun.append(call)
    return False


def _children_wait(started: View) -> bool:
    """Whether something that a tool started waits, and nothing came for it (ACT-13)."""
    return bool(started.open_calls or started.open_delegations or started.holds_task) and not started.news


def _request_for(call: Call, calls: Sequence[Call], requests: Sequence[Call]) -> Call | None:
    """The newest request to approve a call; an id may come again in a later turn (PND-3)."""
    again = min((c.position for c in calls if c.id == call.id and c.position > call.position), default=None)
    placeholder = call.responses[-1].position
    for request in reversed(requests):
        in_time = request.position > placeholder and (again is None or request.position < again)
        if in_time and original_id(request) == call.id:
            return request
    return None


def _sort_gated(pending: Pending, call: Call, request: Call | None, requests: Sequence[Call]) -> bool:
    """A call that was answered by a placeholder: asked and answered, asked and waiting, or never asked."""
    if request is None:
        pending.unasked.append(call)
        return True
    answer = next((r for r in request.responses if r.author == "user"), None)
    if answer is None:
        pending.waiting.append(request)
        return True
    decision = _approval(call, requests) if request.kind == "credential" else _decision(request, answer)
    pending.answered.append((request, call, decision))
    return False


def _decision(request: Call, answer: Response) -> ToolConfirmation:
    return read_confirmation(answer.payload, call_id=request.id)


def _approval(call: Call, requests: Sequence[Call]) -> ToolConfirmation | None:
    """What a person decided about a call that then needed a consent as well; None when nobody was asked."""
    for request in reversed(requests):
        answer = request.answer
        if request.kind == "confirmation" and answer is not None and original_id(request) == call.id:
            return _decision(request, answer) if request.position > call.position else None
    return None


def hand_over_is_due(view: View) -> bool:
    """Whether a transfer was decided and no message to this agent came since (ACT-18)."""
    record = view.record
    return record is not None and record.handover > record.own_message


def _plainly_done(record: Record, agent: LlmAgent | None) -> bool:
    """The usual end: a stamp on the newest event, and nothing of this place ever waited for anything."""
    return (
        not record.calls
        and record.end == record.newest >= 0
        and record.end > record.news
        and record.handover < 0
        and (agent is None or not any(child.delegate for child in agent.sub_agents))
    )


def standing(view: View, agent: LlmAgent | None = None) -> Standing:
    """First match of ACT-21; pure."""
    record = view.record
    if record is None:
        return Standing.PENDING
    if _plainly_done(record, agent):
        return Standing.DONE
    pending = sort_calls(view, agent)
    if pending.executable:
        return Standing.PENDING
    if pending.on_child:
        return Standing.WAITING
    own_open = [call for call in view.calls if call.is_open]
    if hand_over_is_due(view) and not pending.waiting and not own_open:
        return Standing.HANDED
    if view.news:
        return Standing.PENDING
    if _model_turn_is_due(view):
        return Standing.PENDING
    if pending.waiting or own_open or view.open_calls:
        return Standing.WAITING
    found = default_standing(view)
    if agent is not None and agent.delegate:
        return Standing.WAITING if found is Standing.PENDING and _spoke(view) else found
    return Standing.DONE if found is Standing.PENDING and _unstamped_end(view) else found


def _is_about_code(event: Event) -> bool:
    """Code that is being run, or its result: the model has not seen what it gave."""
    last = event.content.parts[-1] if event.content is not None and event.content.parts else None
    return last is not None and (last.code_execution_result is not None or last.executable_code is not None)


def _model_turn_is_due(view: View) -> bool:
    """The last thing said is a tool response that nothing followed, with every call of the turn answered (5)."""
    record = view.record
    assert record is not None
    newest = _newest_with_content(view.events)
    if newest is None or not (newest.function_responses or _is_about_code(newest)):
        return False
    if record.end >= 0 and record.own and record.end >= record.own[-1]:
        return False
    if newest.node_info is not None and newest.node_info.status == "completed":
        return False
    turn = max((call.turn for call in view.calls if call.kind == "tool"), default=0)
    last_turn = [call for call in view.calls if call.turn == turn and call.kind == "tool"]
    if all(call.responses for call in last_turn):
        return True
    made_at = max((call.position for call in last_turn), default=-1)
    return record.newest_answer > made_at


def _newest_with_content(events: Sequence[Event]) -> Event | None:
    return next((event for event in reversed(events) if event.content is not None and event.content.parts), None)


def _spoke(view: View) -> bool:
    """A task that said something without finishing asks, and waits for an answer (7)."""
    newest = _newest_with_content(view.events)
    return newest is not None and not newest.function_calls and not newest.function_responses


def _unstamped_end(view: View) -> bool:
    """A final answer in a log of another ADK, which writes no stamps (ACT-15)."""
    newest = _newest_with_content(view.events)
    if newest is None or newest.error_code or not newest.is_final_response() or newest.long_running_tool_ids:
        return False
    assert newest.content is not None
    record = view.record
    assert record is not None
    return any(not part.thought for part in newest.content.parts) and record.newest_answer < record.newest
