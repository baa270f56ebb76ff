"""Going back to before an invocation (core §3.3.2). History is not edited: a rewind is one more event."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hookwork.artifact_contents import TOMBSTONE
from hookwork.errors import ArtifactNotFoundError, ArtifactReferenceError, InvocationNotFoundError
from hookwork.invocation import Invocation
from hookwork.platform import new_uuid, timestamp
from hookwork.policy import locks_of
from hookwork.records.content import Blob, Part
from hookwork.records.deleted import delta_of, with_delta
from hookwork.records.event import Event, EventActions
from hookwork.storing import append_event
from hookwork.telemetry import active_tracer, watched

if TYPE_CHECKING:
    from hookwork.records.session import Session
    from hookwork.runner import Runner
    from hookwork.services import ArtifactService, SessionService


logger = logging.getLogger("hookwork.rewind")


class _Rewind:
    """Takes the session's place in the line of runs (core POL-1)."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id


async def rewind(runner: Runner, *, user_id: str, session_id: str, before_invocation_id: str) -> Session:
    """Append the event that hides an invocation and all later ones; state and artifacts are put back (REW-1 … REW-4).

    Raises:
        InvocationNotFoundError: no live event belongs to that invocation.
        SessionNotFoundError: no such session.
    """
    await runner.open()
    key = (runner.app_name, user_id, session_id)
    locks = locks_of(runner.sessions)
    holder = _Rewind(session_id)
    await locks.acquire(key, holder, runner.session_policy)
    try:
        tracer = active_tracer() if runner.config.trace_services else None
        sessions: SessionService = watched(runner.sessions, "sessions", tracer)
        session = await sessions.get_session(app_name=key[0], user_id=user_id, session_id=session_id)
        live = list(session.live_events)
        first = next((i for i, event in enumerate(live) if event.invocation_id == before_invocation_id), None)
        if first is None:
            raise InvocationNotFoundError(
                f"session {session_id!r} shows no event of invocation {before_invocation_id!r}; nothing was changed"
            )
        kept, hidden = live[:first], live[first:]
        inv = Invocation(
            app_name=runner.app_name,
            user_id=user_id,
            session=session,
            invocation_id=f"e-{new_uuid()}",
            sessions=sessions,
            artifacts=watched(runner.artifacts, "artifacts", tracer),
            hooks=runner.hooks,
            setup=runner.setup,
        )
        actions = EventActions(
            rewind_before_invocation_id=before_invocation_id,
            artifact_delta=await _artifacts_before(inv, kept, hidden),
        )
        event = Event(
            id=new_uuid(), timestamp=timestamp(), invocation_id=inv.invocation_id, author="user", actions=actions
        )
        await append_event(inv, with_delta(event, _state_before(kept, hidden)))
        return session
    finally:
        locks.release(key, holder)


def _state_before(kept: Sequence[Event], hidden: Sequence[Event]) -> dict[str, Any]:
    """Session keys that hidden events wrote, with the last value a kept event gave, else None (REW-3)."""
    delta: dict[str, Any] = {
        key: None
        for event in hidden
        for key in event.actions.state_delta
        if not key.startswith(("app:", "user:", "temp:"))
    }
    for event in kept:
        for key, value in delta_of(event).items():
            if key in delta:
                delta[key] = value
    return delta


async def _artifacts_before(inv: Invocation, kept: Sequence[Event], hidden: Sequence[Event]) -> dict[str, int]:
    """Session files that hidden events changed: the old version saved again, new files marked as gone (REW-4)."""
    service = inv.artifacts
    if service is None:
        return {}
    names = {name for event in hidden for name in event.actions.artifact_delta if not name.startswith("user:")}
    versions: dict[str, int] = {}
    for event in kept:
        versions.update({name: v for name, v in event.actions.artifact_delta.items() if name in names})
    return {name: await _put_back(service, inv, name, versions.get(name)) for name in sorted(names)}


async def _put_back(service: ArtifactService, inv: Invocation, name: str, version: int | None) -> int:
    where: dict[str, Any] = {
        "app_name": inv.app_name,
        "user_id": inv.user_id,
        "session_id": inv.session_id,
        "filename": name,
    }
    if version is not None:
        try:
            old = await service.load_artifact(**where, version=version)
            known = await service.get_artifact_version(**where, version=version)
            return await service.save_artifact(**where, artifact=old, custom_metadata=known.custom_metadata or None)
        except (ArtifactNotFoundError, ArtifactReferenceError) as error:
            # Removed by somebody, or too old to be kept: what came after it must not stay in its place.
            logger.warning("rewind: version %d of %r cannot be put back, so the file is gone: %s", version, name, error)
    gone = Part(inline_data=Blob(data=b"", mime_type="application/octet-stream"))
    return await service.save_artifact(**where, artifact=gone, custom_metadata={TOMBSTONE: True})
