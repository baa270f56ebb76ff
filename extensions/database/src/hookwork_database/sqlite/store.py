"""The SQLite store: a writing and a reading thread over one file (spec DBP-2 … DBP-4)."""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from hookwork.errors import BackendError
from hookwork.records.frozen import FrozenDict
from hookwork_database.keys import SessionKey
from hookwork_database.layouts.base import Layout
from hookwork_database.plans import (
    Created,
    Listed,
    Plan,
    carried_out,
    create_session,
    delete_session,
    list_sessions,
    merge_app,
    merge_user,
)
from hookwork_database.reading import Known, Snapshot, Want, read_session
from hookwork_database.sqlite.connecting import Connector
from hookwork_database.sqlite.schema import create_tables, layout_of
from hookwork_database.sqlite.worker import Worker
from hookwork_database.store import Done, Store
from hookwork_database.writing import Appended, AppendRequest, Outcome, append_fully

T = TypeVar("T")

#: After how many appends, or characters of events, the reading thread moves the write-ahead log into the file.
_CHECKPOINT_APPENDS, _CHECKPOINT_SIZE = 250, 4_000_000
#: Pages of the write-ahead log (of 4 KB) from which on it has to start over.
_LONG_LOG = 2000


class SqliteStore(Store):
    """Sessions in one SQLite file.

    Args:
        connector: how connections are made.
        create: whether absent tables are created at first use.
        pickles: open google-adk's version 0 too, its times in this zone; for the migration, which only reads.
    """

    def __init__(self, connector: Connector, *, create: bool = True, pickles: str | None = None) -> None:
        self._create = create
        self._pickles = pickles
        self._in_memory = connector.in_memory
        where = connector.where
        self._writer = Worker(connector, where, writes=True)
        self._reader = self._writer if connector.in_memory else Worker(connector, where, writes=False)
        # In memory both kinds of jobs share one connection, hence the writer's transactions.
        self._own_snapshot = not connector.in_memory
        self._where = where
        self._layout: Layout | None = None
        self._appends = self._size = 0
        self._checkpointing = False
        self._abandoned = weakref.finalize(self, _stop, self._writer, self._reader)

    async def open(self) -> Layout:
        """See `Store.open`."""
        if self._layout is None:
            create, where, pickles = self._create, self._where, self._pickles
            opener = self._writer if create or self._in_memory else self._reader
            if opener is not self._reader:
                self._reader.submit(_ignore_db, _ignore)  # the reading thread connects meanwhile
            self._layout = await opener.call(lambda db: layout_of(db, where, create=create, pickles=pickles))
        return self._layout

    async def create_schema(self) -> None:
        """See `Store.create_schema`."""
        await self._writer.call(create_tables)

    async def create(
        self, key: SessionKey, micros: int, app: Mapping[str, Any], user: Mapping[str, Any], own: Mapping[str, Any]
    ) -> Created | None:
        """See `Store.create`."""
        layout = await self.open()

        def run(db: sqlite3.Connection) -> Created | None:
            try:
                return carried_out(create_session(layout, key, micros, app, user, own), _execute(db))
            except sqlite3.IntegrityError:
                return None  # the first statement failed, so nothing was written

        return await self._writer.call(run)

    async def read(self, key: SessionKey, known: Known | None, want: Want) -> Snapshot | None:
        """See `Store.read`."""
        layout = await self.open()
        return await self._reader.call(self._snapshot(lambda: read_session(layout, key, known, want)))

    async def list(self, app_name: str, user_id: str | None) -> list[Listed]:
        """See `Store.list`."""
        layout = await self.open()
        return await self._reader.call(self._snapshot(lambda: list_sessions(layout, app_name, user_id)))

    async def user_state(self, app_name: str, user_id: str) -> FrozenDict:
        """See `Store.user_state`."""
        layout = await self.open()

        def run(db: sqlite3.Connection) -> FrozenDict:
            row = db.execute(layout.user_state, (app_name, user_id)).fetchone()
            return layout.state(row[0] if row else None, f"table user_states: user {user_id!r}")

        return await self._reader.call(run)

    async def delete(self, key: SessionKey) -> None:
        """See `Store.delete`."""
        layout = await self.open()
        await self._writer.call(lambda db: carried_out(delete_session(layout, key), _execute(db)))

    async def carry(self, plan: Callable[[Layout], Plan[T]], *, reading: bool) -> T:
        """See `Store.carry`."""
        layout = await self.open()
        if reading:
            found: T = await self._reader.call(self._snapshot(lambda: plan(layout)))
            return found
        return await self._writer.call(lambda db: carried_out(plan(layout), _execute(db)))

    def append(self, request: AppendRequest, done: Done) -> None:
        """See `Store.append`. The layout is known: the event was encoded for it."""
        layout = self._layout
        assert layout is not None, "append before open"
        self._writer.submit(lambda db: append(db, layout, request), done)
        if self._in_memory:
            return
        self._appends += 1
        self._size += sum(len(column) for column in request.entered.data if isinstance(column, str | bytes))
        self._appends += len(request.more)
        due = self._appends >= _CHECKPOINT_APPENDS or self._size >= _CHECKPOINT_SIZE
        if due and not self._checkpointing:
            self._checkpointing = True
            self._appends = self._size = 0
            self._reader.submit(_checkpoint, self._checkpointed)

    def _checkpointed(self, found: Any, error: BaseException | None) -> None:
        """The reading thread has moved the log as far as it stood. It starts over only when nobody writes meanwhile, so
        one that has grown long is finished by the writing thread: little is left to move then.

        A checkpoint that failed is tried again later; the log only stays longer.
        """
        self._checkpointing = False
        if error is None and found[1] >= _LONG_LOG:
            try:
                self._writer.submit(_checkpoint, _ignore, alone=True)
            except BackendError:
                pass  # closed meanwhile: closing moves the log

    def _snapshot(self, plan: Callable[[], Any]) -> Callable[[sqlite3.Connection], Any]:
        """A job that carries out a plan of reads in one snapshot."""
        if not self._own_snapshot:
            return lambda db: carried_out(plan(), _execute(db))

        def run(db: sqlite3.Connection) -> Any:
            db.execute("BEGIN")
            try:
                return carried_out(plan(), _execute(db))
            finally:
                db.execute("COMMIT")

        return run

    async def close(self) -> None:
        """See `Store.close`. The last connection moves the write-ahead log into the file."""
        await self._reader.close()
        if self._writer is not self._reader:
            await self._writer.close()
        self._abandoned.detach()


def _stop(writer: Worker, reader: Worker) -> None:
    reader.stop()
    writer.stop()


def _execute(db: sqlite3.Connection) -> Callable[[str, tuple[Any, ...]], Any]:
    return lambda sql, parameters: db.execute(sql, parameters).fetchall()


def _checkpoint(db: sqlite3.Connection) -> Any:
    """Move what of the write-ahead log can be moved: (blocked, pages in the log, pages moved)."""
    return db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()


def _ignore_db(_: sqlite3.Connection) -> None:
    """A job that only wants a connection to be there."""


def _ignore(_: object, __: BaseException | None) -> None:
    """Nobody waits for it."""


def append(db: sqlite3.Connection, layout: Layout, request: AppendRequest) -> Outcome:
    """Store an event, inside the caller's transaction: the fast path, and the full one when it does not apply (DBP-4).

    The event goes in first: a taken id or an absent session ends that statement alone, and nothing has to be undone.
    """
    if request.more:
        return carried_out(append_fully(layout, request), _execute(db))
    key, entered = request.key, request.entered
    event, marker = entered.event, request.known.marker
    raw = layout.time(request.mark)
    try:
        cursor = db.execute(layout.insert_event, (*key, event.id, event.invocation_id, raw, *entered.data))
    except sqlite3.IntegrityError:
        return carried_out(append_fully(layout, request), _execute(db))
    tie = event.id if layout.last_tie is None else cursor.lastrowid
    unchanged = (*key, marker.updated_raw, marker.created_raw, *key, marker.updated_raw, marker.last_id)
    if request.state is None:
        cursor = db.execute(layout.fast_row, (raw, *unchanged))
    else:
        cursor = db.execute(layout.fast_state, (raw, layout.encode_state(request.state), *unchanged))
    if not cursor.rowcount:
        db.execute(layout.delete_event, (*key, event.id))
        return carried_out(append_fully(layout, request), _execute(db))
    app = user = None
    if entered.app:
        app = carried_out(merge_app(layout, key, entered.app, raw), _execute(db))
    if entered.user:
        user = carried_out(merge_user(layout, key, entered.user, raw), _execute(db))
    return Appended(request.mark, raw, tie, None, app, user)
