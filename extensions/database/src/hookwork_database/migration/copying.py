"""The copy: read a session, check every event through the codec, write it, and report (services DB-9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hookwork.errors import BackendError, ConfigurationError, ValidationError
from hookwork.urls import redact_url
from hookwork_database.keys import MAX_ID, MAX_INVOCATION_ID, SessionKey, checked_id
from hookwork_database.migration.plans import Exported, all_keys, count_sessions, export_session, import_session
from hookwork_database.opening import dialect_of, service_options, store_of
from hookwork_database.options import split_url, sqlite_path
from hookwork_database.sealing import use_cipher
from hookwork_database.store import Store


class Report(NamedTuple):
    """What a migration did.

    Attributes:
        layout: of the source.
        sessions, events: how many were copied.
        rejected: what was not: (where it stood, why).
    """

    layout: str
    sessions: int
    events: int
    rejected: list[tuple[str, str]]


async def migrate(
    source: str,
    target: str,
    *,
    allow_pickles: bool = False,
    zone: str = "UTC",
    progress: Callable[[SessionKey], None] | None = None,
) -> Report:
    """Copy every session of a database into a fresh one. The source is never written to.

    Args:
        source, target: database URLs. Their option ``key_variable`` opens, and seals, what events and state hold.
        allow_pickles: read google-adk's version 0, whose events hold pickles; only google-adk's data classes are known
            and no code of the file's runs.
        zone: the time zone in which a version 0 file was written; google-adk 2 wrote UTC, older releases local time.
        progress: called with each session before it is copied.

    Raises:
        ConfigurationError: the target holds sessions already, or the source cannot be read.
    """
    opening, sealing = (service_options(url).get("cipher") for url in (source, target))
    reading = _source(source, allow_pickles=allow_pickles, zone=zone)
    writing = store_of(target, create_schema=True)
    try:
        layout = await reading.open()
        if layout.seals:  # in a layout of columns nothing is sealed
            use_cipher(layout, opening)
        use_cipher(await writing.open(), sealing)
        if await writing.carry(count_sessions, reading=True):
            raise ConfigurationError(
                f"{redact_url(target)!r} holds sessions already; a migration fills a fresh database, so name another"
            )
        sessions = events = 0
        rejected: list[tuple[str, str]] = []
        for key in await reading.carry(all_keys, reading=True):
            if progress is not None:
                progress(key)
            copied = await _copy(reading, writing, key, rejected)
            sessions += copied is not None
            events += copied or 0
        return Report(layout.name, sessions, events, rejected)
    finally:
        await writing.close()
        await reading.close()


def _source(url: str, *, allow_pickles: bool, zone: str) -> Store:
    if dialect_of(url) != "sqlite":
        return store_of(url, create_schema=False)
    from hookwork_database.sqlite.connecting import Connector
    from hookwork_database.sqlite.store import SqliteStore

    connector = Connector(sqlite_path(url, split_url(url)[1]), read_only=True)
    return SqliteStore(connector, create=False, pickles=zone if allow_pickles else None)


async def _copy(reading: Store, writing: Store, key: SessionKey, rejected: list[tuple[str, str]]) -> int | None:
    """Copy one session; how many of its events, None when none of it could be copied."""
    where = f"session {key.id!r} of user {key.user_id!r}, app {key.app_name!r}"
    try:
        found: Exported | None = await reading.carry(lambda layout: export_session(layout, key), reading=True)
        if found is None:
            return None
        for name, value in zip(("app_name", "user_id", "session_id"), key, strict=True):
            checked_id(name, value)
    except (BackendError, ValidationError) as error:
        rejected.append((where, str(error)))
        return None
    rejected += [(f"{where}, event {id!r}", why) for id, why in found.rejected]
    fitting = [(event, micros) for event, micros in found.events if len(event.id) <= MAX_ID]
    fitting = [(event, micros) for event, micros in fitting if len(event.invocation_id) <= MAX_INVOCATION_ID]
    kept = {event.id for event, _ in fitting}
    rejected += [
        (f"{where}, event {event.id!r}", "its id or invocation id is too long")
        for event, _ in found.events
        if event.id not in kept
    ]
    session = found._replace(events=fitting)
    copied: int = await writing.carry(lambda layout: import_session(layout, session), reading=False)
    return copied
