"""What comes into a run: the user's message on its way to the store, and what cannot be begun or gone on with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hookwork.artifacts import save_blobs
from hookwork.errors import InvocationNotFoundError, NothingToResume
from hookwork.node import Standing
from hookwork.platform import new_uuid, timestamp
from hookwork.plugins.dispatch import first
from hookwork.records.content import Content
from hookwork.records.event import NO_ACTIONS, Event, EventActions, NodeInfo
from hookwork.view import View

if TYPE_CHECKING:
    from hookwork.context import InvocationContext
    from hookwork.entry import Entry
    from hookwork.invocation import Invocation
    from hookwork.lifecycle import RunCore


async def take_message(core: RunCore, inv: Invocation, ctx: InvocationContext) -> list[Event]:
    """``on_user_message``, then the user's events are stored (RUN-14 … RUN-16)."""
    if core.message is not None and inv.hooks.on_user_message:
        replaced = await first(inv.hooks.on_user_message, "on_user_message", ctx, core.message)
        if replaced is not None:
            core.replace_message(inv, ctx, *replaced)
    assert core.entry is not None
    messages: list[tuple[str, Content | None]] = list(core.entry.messages)
    if not messages:
        if not core.state_delta:
            return []
        messages = [("", None)]
    events = []
    for number, (scope, content) in enumerate(messages):
        artifacts: dict[str, int] = {}
        if content is not None and core.config.save_input_blobs_as_artifacts and inv.artifacts is not None:
            content, artifacts = await save_blobs(inv, content, number)
        actions = NO_ACTIONS
        if artifacts or (core.state_delta and number == 0):
            actions = EventActions(
                state_delta=dict(core.state_delta or {}) if number == 0 else {}, artifact_delta=artifacts
            )
        event = Event(
            id=new_uuid(),
            timestamp=timestamp(),
            invocation_id=inv.invocation_id,
            author="user",
            content=content,
            actions=actions,
            isolation_scope=scope,
            node_info=NodeInfo(path=core.entry.address) if core.entry.address else None,
            custom_metadata=core.config.custom_metadata,
        )
        events.append(event)
    stored = await _stored(core, inv, events)
    if messages[0][1] is not None:
        inv.user_content = core.message if len(messages) > 1 else messages[0][1]
    return stored


async def _stored(core: RunCore, inv: Invocation, events: Sequence[Event]) -> list[Event]:
    """Store the events of one message: several belong together, and are there all or not at all (BEY-11).

    An engine carries each of them out as an effect of its own (EFF-9), and each is merged by itself (BEY-10).
    """
    if len(events) > 1 and not (inv.hooks.perform_write or inv.live.rules):
        assert inv.sessions is not None
        known, own = inv.session.length, {event.id for event in events}
        stored = await inv.sessions.append_events(inv.session, events)
        foreign = [event for event in inv.session.events[known:] if event.id not in own]
        for event in events:
            _check_first(foreign, event)
        return stored
    stored = []
    for event in events:
        known = inv.session.length
        stored.append(await core.append(inv, event))
        _check_first(inv.session.events[known:], event)
    return stored


def _check_first(foreign: Sequence[Event], event: Event) -> None:
    """Of two processes that store an answer to one call at the same moment, the first in the log acts on it (HITL-12).

    Raises:
        NothingToResume: a call that ``event`` answers was answered by one of ``foreign``, which came in just before it.
    """
    if not event.function_responses:
        return
    taken = {
        response.id
        for other in foreign
        if other.author == "user" and other.id != event.id
        for response in other.function_responses
    }
    repeated = [response.id or "" for response in event.function_responses if response.id in taken]
    if repeated:
        raise NothingToResume(
            f"the calls {repeated} were answered meanwhile by another run, which goes on with them; nothing ran here",
            repeated=repeated,
        )


def check_new_session(session_id: str, message: Content | None, invocation_id: str | None) -> None:
    """Refuse what a session without events cannot take, before one is created for it.

    Raises:
        InvocationNotFoundError, NothingToResume.
    """
    if message is None and invocation_id is not None:
        raise InvocationNotFoundError(
            f"session {session_id!r} does not exist, so it has no invocation {invocation_id!r} to continue"
        )
    if message is not None and message.parts and all(part.function_response for part in message.parts):
        unknown = [response.id or "" for response in message.function_responses]
        raise NothingToResume(
            f"session {session_id!r} does not exist, so no call waits for the answers {unknown}; nothing was stored",
            unknown=unknown,
        )


def check_resumable(inv: Invocation, entry: Entry) -> None:
    """A resume by id needs something that can go on (RES-10). Raises NothingToResume."""
    if not inv.known:
        return
    view = View(inv, inv.invocation_id, entry.path)
    standing = view.standing()
    if standing is Standing.DONE or (standing is Standing.WAITING and not view.news):
        waits = ", ".join(call.id for call in view.open_calls)
        if standing is Standing.DONE:
            why = "is completed"
        else:
            why = f"only waits for answers to: {waits}" if waits else "waits, and no question of it is open"
        raise NothingToResume(f"invocation {inv.invocation_id!r} {why}; nothing was run")
