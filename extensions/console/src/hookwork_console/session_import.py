"""Store the sessions of a file that `hookwork_console.session_check` found sound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from hookwork.errors import HookworkError
from hookwork.platform import new_uuid
from hookwork_console.session_artifacts import ArtifactLine, ArtifactWriter
from hookwork_console.session_references import moved_event
from hookwork_console.session_store import Key

if TYPE_CHECKING:
    from hookwork.records.event import Event
    from hookwork.records.session import Session
    from hookwork.services import ArtifactService, SessionService
    from hookwork_console.session_check import Planned
    from hookwork_console.session_lines import SessionLine

OnConflict = Literal["refuse", "skip", "new-id"]

_SHARED = ("app:", "user:")


class Imported(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What became of one session of a file.

    Attributes:
        id: in the file.
        stored_as: in the store; None when it was skipped.
        events, artifacts: how many were stored, of files each version.
        kept: files of the user that the store had already, and which stay as they are.
    """

    id: str
    app_name: str
    user_id: str
    stored_as: str | None
    events: int
    artifacts: int = 0
    kept: tuple[str, ...] = ()


async def import_sessions(
    service: SessionService,
    sessions: Iterator[tuple[SessionLine, Iterator[Event | ArtifactLine]]],
    planned: Sequence[Planned],
    *,
    artifacts: ArtifactService | None = None,
    on_conflict: OnConflict = "refuse",
    done: Callable[[Imported], None],
    note: Callable[[str], None],
) -> None:
    """Store sessions of a file, one after the other and event by event.

    Values that the store already has under ``app:`` and ``user:`` keys stay: they belong to others too. When it is
    stopped or fails, the session being written is removed again; those before it stay, whole.

    Args:
        sessions: what `by_session` reads; as many are taken as are planned.
        planned: what `check` found of these.
        artifacts: where their files go; None: these are passed over.
        on_conflict: of a session that exists: ``refuse`` lets the store raise, ``skip`` leaves it out, ``new-id``
            stores it under a fresh id.
        done: called after each session.
        note: told what a person has to know when a session could not be removed again.

    Raises:
        SessionAlreadyExistsError: ``refuse``, and somebody made the session since the check.
        HookworkError: what the store raises.
    """
    for plan in planned:
        line, items = next(sessions)
        if plan.exists and on_conflict == "skip":
            done(_imported(plan, None, 0))
            continue
        writer = _Writer(service, plan, artifacts, fresh=plan.exists and on_conflict == "new-id")
        try:
            await writer.begin(line)
            for item in items:
                await (writer.save(item) if isinstance(item, ArtifactLine) else writer.append(item))
            stored = await writer.finish()
        except BaseException:
            await writer.abandon(note)
            raise
        done(stored)


def _imported(plan: Planned, stored_as: str | None, events: int) -> Imported:
    return Imported(id=plan.id, app_name=plan.app_name, user_id=plan.user_id, stored_as=stored_as, events=events)


class _Writer:
    """Writes one session, and gives ``app:`` and ``user:`` keys the value they are to have after it.

    A session is made with the state it ends with, so that keys no event wrote are there and all keep their order. Its
    events then write their deltas again; of a shared key that another session changed last, an older value. Such keys
    are set once more at the end. The one way to set a shared key without adding to a history is a session's initial
    state, which stays when the session is deleted (services SES-3, SES-10).
    """

    def __init__(
        self, service: SessionService, plan: Planned, artifacts: ArtifactService | None, *, fresh: bool
    ) -> None:
        self._service = service
        self._plan = plan
        own_ids = service.capabilities.user_provided_session_id
        self._id = (new_uuid() if fresh else plan.id) if own_ids else None
        self._place = {"app_name": plan.app_name, "user_id": plan.user_id}
        self._handle: Session | None = None
        self._source = Key(plan.app_name, plan.user_id, plan.id)
        self._artifacts = artifacts
        self._files: ArtifactWriter | None = None
        self._events = self._versions = 0
        self._kept: dict[str, None] = {}
        self._before: Mapping[str, Any] = {}
        self._wanted: Mapping[str, Any] = {}
        self._written: dict[str, Any] = {}

    async def begin(self, line: SessionLine) -> None:
        """Make the session."""
        self._source = Key(line.app_name, line.user_id, line.id)
        own = {key: value for key, value in line.state.items() if not key.startswith((*_SHARED, "temp:"))}
        await _whole(self._create(own))
        handle = self._opened()
        self._before = {key: value for key, value in handle.state.items() if key.startswith(_SHARED)}
        shared = {key: value for key, value in line.state.items() if key.startswith(_SHARED)}
        missing = {key: value for key, value in shared.items() if key not in self._before}
        self._wanted = {**missing, **self._before}
        await self._share(missing)

    async def _create(self, state: Mapping[str, Any]) -> None:
        self._handle = await self._service.create_session(**self._place, session_id=self._id, state=state)

    def _opened(self) -> Session:
        assert self._handle is not None, "begin() comes first"
        return self._handle

    async def append(self, event: Event) -> None:
        """Store an event; a partial one is passed over."""
        if event.partial:
            return
        self._written.update((k, v) for k, v in event.actions.state_delta.items() if k.startswith(_SHARED))
        target = Key(**self._place, session_id=self._opened().id)
        await self._service.append_event(self._opened(), moved_event(event, self._source, target))
        self._events += 1

    async def save(self, line: ArtifactLine) -> None:
        """Store a version of a file, where files are wanted."""
        if self._artifacts is None:
            return
        if self._files is None:
            self._files = ArtifactWriter(self._artifacts, {**self._place, "session_id": self._opened().id})
        if await self._files.save(line):
            self._versions += 1
        else:
            self._kept[line.artifact] = None

    async def finish(self) -> Imported:
        """Set shared keys right, and the files."""
        await self._put_back(self._wanted)
        if self._files is not None:
            await self._files.finish()
        done = _imported(self._plan, self._opened().id, self._events)
        return msgspec.structs.replace(done, artifacts=self._versions, kept=tuple(self._kept))

    async def abandon(self, note: Callable[[str], None]) -> None:
        """Remove what was begun."""
        if self._handle is None:
            return
        try:
            if self._files is not None:
                await self._files.abandon()
            await self._service.delete_session(**self._place, session_id=self._handle.id)
            await self._put_back(self._before)
        except (HookworkError, asyncio.CancelledError) as error:
            note(
                f"{self._plan} is stored in part, with {self._events} event(s), and could not be removed ({error}); "
                f"delete it before you import again: {self._plan.deletion(self._handle.id)}"
            )
            if isinstance(error, asyncio.CancelledError):
                raise

    async def _put_back(self, values: Mapping[str, Any]) -> None:
        """Set those shared keys to ``values`` that an event gave another one."""
        await self._share({k: values[k] for k, v in self._written.items() if k in values and not _same(values[k], v)})

    async def _share(self, state: Mapping[str, Any]) -> None:
        if state:
            await _whole(self._set_shared(state))

    async def _set_shared(self, state: Mapping[str, Any]) -> None:
        own_ids = self._service.capabilities.user_provided_session_id
        name = f"hookwork-import-{new_uuid()}" if own_ids else None
        made = await self._service.create_session(**self._place, session_id=name, state=state)
        await self._service.delete_session(**self._place, session_id=made.id)


async def _whole(step: Coroutine[Any, Any, None]) -> None:
    """Do a step to its end, even if the task is cancelled meanwhile; then the cancellation passes."""
    task = asyncio.ensure_future(step)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: ``true`` is not ``1``, and ``1`` not ``1.0``."""
    return bool(msgspec.json.encode(one) == msgspec.json.encode(other))
