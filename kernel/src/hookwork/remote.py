"""Effects described by JSON: carried out here for somebody else (EFF-10), and requests shown without being sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hookwork.context import InvocationContext
from hookwork.entry import decide
from hookwork.ephemeral import EphemeralScope
from hookwork.errors import ConfigurationError, SessionNotFoundError, UnsupportedInContext
from hookwork.invocation import Invocation, RunConfig
from hookwork.platform import new_uuid, now, timestamp
from hookwork.records.content import Content
from hookwork.records.event import Event, frozen_delta
from hookwork.records.session import EventLog, Session, split_state
from hookwork.telemetry import active_tracer, watched

if TYPE_CHECKING:
    from hookwork.model import ModelRequest
    from hookwork.runner import Runner


class EffectOrder(msgspec.Struct, kw_only=True):
    """What an `EffectCall` says of itself (`EffectCall.to_json`), read back."""

    kind: str
    key: str
    app_name: str
    user_id: str
    session_id: str
    invocation_id: str
    agent: str = ""
    branch: str = ""
    isolation_scope: str = ""
    path: str = ""
    state: dict[str, Any] = msgspec.field(default_factory=dict)


class DetachedSession(Session):
    """A session without its history: only ids and the state that the effect may read."""

    __slots__ = ()

    @property
    def events(self) -> Any:
        raise UnsupportedInContext("an effect that is carried out elsewhere has no history; only state can be read")

    @property
    def live_events(self) -> Any:
        return self.events


async def carry_out(runner: Runner, call: Mapping[str, Any], ephemeral: Mapping[str, Any] | None) -> dict[str, Any]:
    """See `Runner.carry_out`."""
    await runner.open()
    order = msgspec.convert(dict(call), EffectOrder, strict=False)
    if order.kind == "write":
        return await _write(runner, order, call)
    agent = runner.tree.find(order.agent)
    if agent is None:
        raise ConfigurationError(
            f"the effect {order.key!r} belongs to agent {order.agent!r}, which app {runner.app_name!r} does not have"
        )
    app, user, own = split_state(frozen_delta(order.state))
    session = DetachedSession(
        app_name=order.app_name,
        user_id=order.user_id,
        id=order.session_id,
        log=EventLog(),
        last_update_time=now(),
        revision="",
        app_state=app,
        user_state=user,
        session_state=own,
    )
    inv = Invocation(
        app_name=order.app_name,
        user_id=order.user_id,
        session=session,
        invocation_id=order.invocation_id,
        sessions=runner.sessions,
        artifacts=runner.artifacts,
        memory=runner.memory,
        config=runner.config,
        ephemeral=EphemeralScope(ephemeral),
        setup=runner.setup,
    )
    ctx = InvocationContext(inv, agent, order.branch, order.isolation_scope, order.path, place=f"{order.kind}/1")
    return await agent.carry_out(ctx, order.kind, call)


async def _write(runner: Runner, order: EffectOrder, call: Mapping[str, Any]) -> dict[str, Any]:
    from hookwork.records.codec import dump, load
    from hookwork.records.content import Part

    op, payload = call.get("op"), call.get("payload") or {}
    where: dict[str, Any] = {"app_name": order.app_name, "user_id": order.user_id, "session_id": order.session_id}
    tracer = active_tracer() if runner.config.trace_services else None
    sessions = watched(runner.sessions, "sessions", tracer)
    artifacts = watched(runner.artifacts, "artifacts", tracer)
    memory = watched(runner.memory, "memory", tracer)
    if op == "append_event":
        session = await sessions.get_session(**where)
        return {"payload": dump(await sessions.append_event(session, load(Event, payload), redelivery=True))}
    if op == "save_artifact" and artifacts is not None:
        wishes: dict[str, Any] = {"reuse_identical": True} if payload.get("reuseIdentical") else {}
        version = await artifacts.save_artifact(
            **where,
            filename=payload["filename"],
            artifact=load(Part, payload["artifact"]),
            custom_metadata=payload.get("customMetadata") or None,
            save_id=order.key,
            **wishes,
        )
        return {"payload": version}
    if op == "add_to_memory" and memory is not None:
        await memory.add_session_to_memory(await sessions.get_session(**where))
        return {"payload": None}
    if op == "add_events_to_memory" and memory is not None:
        wanted = set(payload.get("events") or ())
        events = [event for event in (await sessions.get_session(**where)).events if event.id in wanted]
        await memory.add_events_to_memory(**where, events=events, flush=bool(payload.get("flush")))
        return {"payload": None}
    raise ConfigurationError(f"this runner cannot carry out the write {op!r}: it is unknown, or its service is missing")


async def preview(
    runner: Runner, *, user_id: str, session_id: str | None, message: Content | None, config: RunConfig
) -> ModelRequest:
    """See `Runner.preview`."""
    await runner.open()
    key: dict[str, Any] = {"app_name": runner.app_name, "user_id": user_id}
    try:
        stored = await runner.sessions.get_session(**key, session_id=session_id) if session_id is not None else None
    except SessionNotFoundError:
        stored = None
    session = _as_if_said(runner, user_id, session_id or new_uuid(), stored, message)
    base = session.view(length=session.length - 1) if message is not None else session
    entry = decide(base, runner.tree, message, invocation_id=None, rerun=frozenset(), routing=runner.routing)
    inv = Invocation(
        app_name=runner.app_name,
        user_id=user_id,
        session=session,
        invocation_id=entry.invocation_id,
        sessions=runner.sessions,
        artifacts=runner.artifacts,
        memory=runner.memory,
        config=config,
        user_content=message,
        setup=runner.setup,
        known=entry.known,
    )
    return await entry.agent.preview(InvocationContext(inv, entry.agent, "", "", entry.path, place="agent/1"))


def _as_if_said(
    runner: Runner, user_id: str, session_id: str, stored: Session | None, message: Content | None
) -> Session:
    """A handle of its own on a copy of the log, with the message at its end; nothing is stored."""
    events = list(stored.events) if stored is not None else []
    if message is not None:
        events.append(Event(id=new_uuid(), timestamp=timestamp(), author="user", content=message))
    return Session(
        app_name=runner.app_name,
        user_id=user_id,
        id=session_id,
        log=EventLog(events),
        last_update_time=now(),
        revision="",
        app_state=stored.app_state if stored is not None else {},
        user_state=stored.user_state if stored is not None else {},
        session_state=stored.session_state if stored is not None else {},
    )
