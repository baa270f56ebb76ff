"""A thread that owns one SQLite connection and carries out jobs in the order in which they were handed in.

One hop costs a queue and one wake-up of the event loop. Jobs that wait together share a transaction on a writing
worker, so that many sessions pay for one commit (group commit, spec DBP-2).
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from hookwork.errors import BackendError
from hookwork_database.sqlite.connecting import Connector
from hookwork_database.sqlite.faults import backend_error

T = TypeVar("T")

Run = Callable[[sqlite3.Connection], Any]
Finish = Callable[[Any, BaseException | None], None]

#: Most jobs in one transaction: bounds how long the first of them waits for its commit.
_BATCH = 128


class _Job:
    __slots__ = ("alone", "error", "finish", "loop", "result", "run")

    def __init__(self, run: Run, loop: asyncio.AbstractEventLoop, finish: Finish, alone: bool) -> None:
        self.run = run
        self.alone = alone
        self.loop = loop
        self.finish = finish
        self.result: Any = None
        self.error: BaseException | None = None


class _End:
    """The last thing in a queue; who waits for the thread's end is told in his loop."""

    __slots__ = ("ended", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = loop
        self.ended: asyncio.Future[None] | None = None if loop is None else loop.create_future()

    def tell(self) -> None:
        """Called by the thread."""
        if self.loop is not None and self.ended is not None:
            try:
                self.loop.call_soon_threadsafe(_resolve, self.ended)
            except RuntimeError:
                pass  # that loop is closed: nobody waits


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Worker:
    """See the module.

    Args:
        connector: makes the connection, in the thread, before the first job (when that fails, the next job tries
            again), and ends it.
        where: names the database in errors.
        writes: jobs run inside a transaction, several at a time.
    """

    def __init__(self, connector: Connector, where: str, *, writes: bool) -> None:
        self._connector = connector
        self._where = where
        self._writes = writes
        self._jobs: queue.SimpleQueue[_Job | _End] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, run: Run, finish: Finish, *, alone: bool = False) -> None:
        """Hand in a job; ``finish(result, error)`` is called in the running loop. ``alone``: in no transaction."""
        if self._closed:
            raise BackendError(f"{self._where}: the service is closed; make a new one", code="closed")
        if self._thread is None:
            # A daemon: a service that nobody closed must not keep the process alive, and all it reported is committed.
            arguments = (self._jobs, self._connector, self._where, self._writes)
            self._thread = threading.Thread(target=_work, args=arguments, name="hookwork-sqlite", daemon=True)
            self._thread.start()
        self._jobs.put(_Job(run, asyncio.get_running_loop(), finish, alone))

    async def call(self, run: Callable[[sqlite3.Connection], T]) -> T:
        """The result of a job. When the caller is cancelled the job is carried out all the same."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def finish(result: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.submit(run, finish)
        return await future

    async def close(self) -> None:
        """Carry out what was handed in, then close the connection and end the thread."""
        if self._closed:
            return
        self._closed = True
        if self._thread is not None:
            end = _End(asyncio.get_running_loop())
            self._jobs.put(end)
            assert end.ended is not None
            await end.ended

    def stop(self) -> None:
        """Let the thread end when it has done what was handed in; nothing is waited for."""
        self._closed = True
        self._jobs.put(_End())


def _work(jobs: queue.SimpleQueue[_Job | _End], connector: Connector, where: str, writes: bool) -> None:
    """The thread's body. It must not know its `Worker`, or a forgotten one would never be collected."""
    db: sqlite3.Connection | None = None
    while True:
        job = jobs.get()
        if isinstance(job, _End):
            end = job
            break
        batch = [job]
        last = _take_more(jobs, batch) if writes else None
        try:
            if db is None:
                db = connector.connect()
            _carry_out(db, batch, writes)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the callers get it and the thread lives on
            for failed in batch:
                failed.error = error
        _deliver(batch, where)
        del job, batch
        if last is not None:
            end = last
            break
    if db is not None:
        connector.disconnect(db)
    end.tell()


def _take_more(jobs: queue.SimpleQueue[_Job | _End], batch: list[_Job]) -> _End | None:
    """Take what waits as well; the end, when it was among it."""
    while len(batch) < _BATCH:
        try:
            job = jobs.get_nowait()
        except queue.Empty:
            return None
        if isinstance(job, _End):
            return job
        batch.append(job)
    return None


def _carry_out(db: sqlite3.Connection, batch: list[_Job], writes: bool) -> None:
    together = [job for job in batch if writes and not job.alone]
    if together and not _in_one_transaction(db, together) and len(together) > 1:
        # One of them failed and took the others' writes with it: each by itself then.
        for job in together:
            job.result = job.error = None
            _in_one_transaction(db, [job])
    for job in batch:
        if job.alone or not writes:
            try:
                job.result = job.run(db)
            except BaseException as error:  # noqa: BLE001 - it belongs to the job's caller
                job.error = error


def _in_one_transaction(db: sqlite3.Connection, batch: list[_Job]) -> bool:
    """Run jobs and commit; on any failure nothing of them is stored, and each has an error."""
    job = None
    try:
        db.execute("BEGIN IMMEDIATE")
        for job in batch:
            job.result = job.run(db)
        db.execute("COMMIT")
    except BaseException as error:  # noqa: BLE001 - it belongs to the jobs' callers
        if db.in_transaction:
            db.execute("ROLLBACK")
        for job in batch:
            job.error = error
        return False
    return True


def _deliver(batch: list[_Job], where: str) -> None:
    """Wake each event loop once and let it finish its jobs."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in batch:
        if isinstance(job.error, sqlite3.Error):
            job.error = backend_error(job.error, where)
        by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_finish, jobs)
        except RuntimeError:
            pass  # that loop is closed: nobody is left to be told


def _finish(jobs: list[_Job]) -> None:
    for job in jobs:
        try:
            job.finish(job.result, job.error)
        except Exception as error:  # noqa: BLE001 - one job's fault must not keep the others from being finished
            job.loop.call_exception_handler({"message": "finishing a SQLite job failed", "exception": error})
