"""`build_contents` and the prompt cache on the session's log (core CON-16, services LOG-12)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hookwork.records.content import Content
from hookwork.records.event import Event
from hookwork.records.session import live_positions
from hookwork_llm.contents.builder import Transcript
from hookwork_llm.contents.compaction import CompactionPlan, plan_compaction
from hookwork_llm.contents.current_turn import others_words, turn_start
from hookwork_llm.contents.kept import Kept
from hookwork_llm.contents.opening import delegating_call, said, stored_opening, with_no_reply_note
from hookwork_llm.contents.sequence import PromptContents
from hookwork_llm.contents.visibility import has_tool_parts

if TYPE_CHECKING:
    from hookwork.records.session import Session
    from hookwork.view import View

_SLOT = "hookwork_llm.contents"
_RELAYED = "hookwork_llm.relayed"
_KEPT = "hookwork_llm.kept"
#: Entries a log keeps. More than a tree of agents on a few branches needs; scopes of finished tasks make room.
_MAX_ENTRIES = 64


def build_contents(
    session: Session,
    *,
    agent: Any,
    agent_name: str,
    branch: str = "",
    isolation_scope: str = "",
    include_contents: str = "default",
    pairs_by_id: bool = False,
    compaction: bool = False,
    user_content: Content | None = None,
    single_turn: bool = False,
    place: View | None = None,
    began_anew: View | None = None,
    extra: Sequence[Content] = (),
    anew: bool = False,
) -> PromptContents:
    """The contents of the next request of ``agent``, always a valid prompt (core §4.5).

    Args:
        session: the run's handle; read at its own range, never changed.
        agent: the agent object, part of the cache's key (compared by identity).
        agent_name: the author name of its events.
        branch: the activation's branch. isolation_scope: its scope.
        include_contents: ``"default"`` (visible history) or ``"none"`` (the current turn, CON-30).
        pairs_by_id: whether the model pairs calls by id; if not, ids that the kit made up are left out (CON-8).
        compaction: honour compaction records (CMP-9).
        user_content: leading content of a scoped or single-turn agent whose delegating call says nothing (CON-9).
        single_turn: add to the leading content that no user reply will come.
        place: the activation of a single-turn agent: only what was said there counts, and nothing of attempts that
            failed (workflow RTY-5).
        began_anew: an activation that a failed attempt came before: what that said is left out (workflow RTY-5).
        extra: contents of this request alone (preloaded memory, a correction); they go last.
        anew: look at the whole history, and keep nothing of it for the next request.

    Returns:
        A read-only sequence. Cost: O(events since the agent's last request on this log), whatever the log's length;
        O(what no summary stands for and events with calls) after a new compaction record; O(events) for the first
        request, after a rewind, in a scope after a new record, and for a handle behind the log.
    """
    if place is not None:
        transcript = _at_place(session, place, agent_name, branch, isolation_scope, pairs_by_id)
    elif include_contents == "none":
        transcript = _current_turn(
            session, agent_name, branch, isolation_scope, pairs_by_id, compaction, alone=single_turn
        )
    elif anew or began_anew is not None:
        transcript = _from_history(
            session, agent_name, branch, isolation_scope, pairs_by_id, compaction, without=began_anew
        )
    else:
        transcript = _cached(session, agent, agent_name, branch, isolation_scope, pairs_by_id, compaction)
    if not isolation_scope and not single_turn:
        return transcript.view(session, extra=extra)
    head = _head(session, transcript, isolation_scope, user_content, single_turn)
    return transcript.view(session, head=head, extra=extra)


def rebuild_contents(session: Session, **arguments: Any) -> PromptContents:
    """`build_contents` without the cache: the reference that the cached prompt must equal."""
    return build_contents(session, anew=True, **arguments)


def _cached(
    session: Session, agent: Any, name: str, branch: str, scope: str, pairs_by_id: bool, compaction: bool
) -> Transcript:
    log = session.log
    entries = log.slots.get(_SLOT)
    if entries is None:
        entries = log.slots[_SLOT] = {}
    key = (agent, name, branch, scope, pairs_by_id, compaction)
    transcript: Transcript | None = entries.get(key)
    length = session.length
    if transcript is not None and transcript.start == session.start:
        if transcript.position > length:  # an older view of the log: an answer of its own, the entry stays
            return _whole(session, name, branch, scope, pairs_by_id, compaction)
        if transcript.position == length or _extend(transcript, session, compaction):
            return transcript
    transcript = _whole(session, name, branch, scope, pairs_by_id, compaction)
    entries.pop(key, None)
    while len(entries) >= _MAX_ENTRIES:
        del entries[next(iter(entries))]
    entries[key] = transcript
    return transcript


def _extend(transcript: Transcript, session: Session, compaction: bool) -> bool:
    """Take in what is new; False when something new changes what was taken in already."""
    if transcript.scope and not transcript.begin and _begin(session, transcript.scope):
        return False  # the call that opened the scope came after events that bear its id
    events, start, length = session.log.events, session.start, session.length
    if session.log.has_rewinds or compaction:
        for position in range(transcript.position, length):
            actions = events[start + position].actions
            if actions.rewind_before_invocation_id or (compaction and actions.compaction is not None):
                return False
    take = transcript.take
    for position in range(transcript.position, length):
        take(position, events[start + position])
    transcript.position = length
    return True


def _empty(session: Session, name: str, branch: str, scope: str, pairs_by_id: bool) -> Transcript:
    relayed = session.log.slots.setdefault(_RELAYED, {})
    return Transcript(
        name=name, branch=branch, scope=scope, pairs_by_id=pairs_by_id, start=session.start, relayed=relayed
    )


def _whole(session: Session, name: str, branch: str, scope: str, pairs_by_id: bool, compaction: bool) -> Transcript:
    """A transcript of all live events of the handle."""
    if not compaction or scope or not session.is_current:
        return _from_history(session, name, branch, scope, pairs_by_id, compaction)
    transcript = _empty(session, name, branch, scope, pairs_by_id)
    events = session.events[:]
    _take_kept(transcript, events, _kept(session, branch))
    transcript.position = len(events)
    return transcript


def _from_history(
    session: Session,
    name: str,
    branch: str,
    scope: str,
    pairs_by_id: bool,
    compaction: bool,
    *,
    without: View | None = None,
) -> Transcript:
    """The same with nothing known but the events."""
    transcript = _empty(session, name, branch, scope, pairs_by_id)
    events = session.events[:]
    transcript.begin = _begin(session, scope)
    positions = live_positions(events) if session.log.has_rewinds else range(transcript.begin, len(events))
    if without is not None and without.record is not None:
        positions = _without_attempts(events, positions, without, without.record.voided)
    plan = plan_compaction(events, positions, branch=branch, scope=scope) if compaction else None
    _take_all(transcript, events, positions, plan)
    transcript.position = len(events)
    return transcript


def _take_kept(transcript: Transcript, events: Sequence[Event], kept: Kept) -> None:
    for item in kept.items():
        if isinstance(item, int):
            transcript.take(item, events[item], covered=item in kept.covered)
        else:
            transcript.insert((item.content,))


def _kept(session: Session, branch: str) -> Kept:
    """What prompts of a branch are made of, carried on from the last time; for a handle that shows the log's end."""
    entries: dict[str, Kept] = session.log.slots.setdefault(_KEPT, {})
    found = entries.pop(branch, None) or Kept(branch)
    if found.position < session.length:
        events = session.events[:]
        fresh = found.position == 0 and session.log.has_rewinds
        found.extend(events, live_positions(events) if fresh else range(found.position, len(events)))
    while len(entries) >= _MAX_ENTRIES:
        del entries[next(iter(entries))]
    entries[branch] = found
    return found


def _begin(session: Session, scope: str) -> int:
    """Where the events of a scope begin at the earliest: at the call that opened it."""
    call = delegating_call(session.history(), scope) if scope else None
    return call.position if call is not None else 0


def _current_turn(
    session: Session, name: str, branch: str, scope: str, pairs_by_id: bool, compaction: bool, *, alone: bool
) -> Transcript:
    """A transcript of the current turn only (CON-30); ``alone``: without what others said while the agent waited."""
    transcript = _empty(session, name, branch, scope, pairs_by_id)
    events = session.events[:]
    positions: Sequence[int] = live_positions(events) if session.log.has_rewinds else range(len(events))
    positions = positions[turn_start(events, positions, name=name, branch=branch, scope=scope) :]
    if alone and branch:
        positions = _without_talk(events, positions, name, branch)
    plan = None
    if compaction:
        plan = plan_compaction(events, positions, branch=branch, scope=scope, whole=False)
    _take_all(transcript, events, positions, plan)
    return transcript


def _at_place(session: Session, place: View, name: str, branch: str, scope: str, pairs_by_id: bool) -> Transcript:
    """A transcript of what an activation and what it started have said since it began (anew), with answers to it."""
    transcript = _empty(session, name, branch, scope, pairs_by_id)
    record = place.record
    if record is None:
        return transcript
    below = f"{place.path}/"
    first = max(record.first, record.voided + 1)
    for position, event in enumerate(session.events[first:], first):
        if event.invocation_id != place.invocation_id:
            continue
        answer = event.author == "user" and not event.path and event.function_responses
        if answer or event.path == place.path or event.path.startswith(below):
            transcript.take(position, event)
    return transcript


def _without_attempts(events: Sequence[Event], positions: Sequence[int], place: View, voided: int) -> list[int]:
    """The positions without what an activation, and what it started, said up to the end of its last failed attempt."""
    below = f"{place.path}/"
    return [
        position
        for position in positions
        if position > voided
        or events[position].invocation_id != place.invocation_id
        or not (events[position].path == place.path or events[position].path.startswith(below))
    ]


def _without_talk(events: Sequence[Event], positions: Sequence[int], name: str, branch: str) -> list[int]:
    """The positions without others' words behind the agent's first own event: a called agent hears nobody (MODE-7)."""
    kept: list[int] = []
    begun = False
    for position in positions:
        event = events[position]
        begun = begun or (event.author == name and event.branch == branch)
        if not begun or not others_words(event, name, branch):
            kept.append(position)
    return kept


def _take_all(
    transcript: Transcript, events: Sequence[Event], positions: Iterable[int], plan: CompactionPlan | None
) -> None:
    if plan is None or not plan.summaries:
        for position in positions:
            transcript.take(position, events[position])
        return
    summaries, covered = plan.summaries, plan.covered
    for position in positions:
        if position in summaries:
            transcript.insert(summaries[position])
        event = events[position]
        if position not in covered:
            transcript.take(position, event)
        elif has_tool_parts(event):
            transcript.take(position, event, covered=True)  # what comes later may be about its calls


def _head(
    session: Session, transcript: Transcript, scope: str, user_content: Content | None, single_turn: bool
) -> tuple[Content, ...]:
    """The leading content of a scoped or single-turn agent, if there is one."""
    opening = transcript.opening
    if opening is None and scope:
        opening = transcript.opening = stored_opening(session, scope)
    if opening is None:
        opening = said(user_content)
    if opening is None:
        return ()
    return (with_no_reply_note(opening) if single_turn else opening,)
