"""A Spanner server for tests: the real wire (gRPC), the published messages and statuses, and SQLite behind them.

It takes the client library as it is. Of GoogleSQL it knows what SQLite has in common with it, and these differences:
``INSERT OR UPDATE``, ``FOR UPDATE``, ``STRING(n)`` and ``TIMESTAMP`` columns, keys behind the columns. Transactions
that write come one after the other; Spanner's aborts are played when a test asks for them. A database is there as soon
as it is named.
"""

from __future__ import annotations

import builtins
import re
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import grpc
from google.cloud.spanner_admin_database_v1.types import UpdateDatabaseDdlMetadata, UpdateDatabaseDdlRequest
from google.cloud.spanner_v1.types import (
    BatchCreateSessionsRequest,
    BatchCreateSessionsResponse,
    BeginTransactionRequest,
    CommitRequest,
    CommitResponse,
    CreateSessionRequest,
    DeleteSessionRequest,
    ExecuteBatchDmlRequest,
    ExecuteBatchDmlResponse,
    ExecuteSqlRequest,
    PartialResultSet,
    ResultSet,
    ResultSetMetadata,
    ResultSetStats,
    RollbackRequest,
    Session,
    StructType,
    Transaction,
    TransactionSelector,
    Type,
    TypeCode,
)
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2, struct_pb2

_TABLE = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+) \((.*)\) PRIMARY KEY \(([^)]*)\)", re.IGNORECASE)
_COLUMN = re.compile(r"\s*(\w+) (STRING\((\d+|MAX)\)|TIMESTAMP|INT64)(.*)", re.IGNORECASE)
_COLUMNS_OF = "information_schema.columns"
#: Snapshots that nobody ends (a client never does) are given up from this many on.
_SNAPSHOTS = 64


class Refusal(Exception):
    """A status to answer with."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class FakeSpanner:
    """A running server.

    Attributes:
        calls: the names of the calls that came in, without those that make sessions.
        statements: the SQL that came in.
        failures: (name of a call, status, whether it is carried out first); the first that fits the next call is used.
        aborting: every so many-th commit is aborted, as Spanner does when transactions meet, but none of the same work
            twice; 0: none is.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._columns: dict[tuple[str, str], list[tuple[str, str]]] = {}
        self._ids = count(1)
        self._open: OrderedDict[bytes, tuple[sqlite3.Connection, bool]] = OrderedDict()
        self._lock = threading.Lock()
        self.calls: list[str] = []
        self.statements: list[str] = []
        self.failures: list[tuple[str, grpc.StatusCode, bool]] = []
        self.aborting = self._commits = 0
        self._work: dict[int, tuple[Any, ...]] = {}
        self._aborted: set[tuple[Any, ...]] = set()
        self._server = grpc.server(ThreadPoolExecutor(64))
        self._server.add_generic_rpc_handlers((self._spanner(), self._admin()))
        self.host = f"localhost:{self._server.add_insecure_port('localhost:0')}"
        self._server.start()

    def stop(self) -> None:
        """Close what is open."""
        self._server.stop(None).wait()
        for db, _ in self._open.values():
            db.close()

    @contextmanager
    def failing(self, name: str, code: grpc.StatusCode, *, after: bool = False) -> Iterator[None]:
        """Let the next call of a name fail."""
        self.failures.append((name, code, after))
        yield
        assert (name, code, after) not in self.failures, f"no {name} came in"

    # --- the calls ----------------------------------------------------------------------------------------------------

    def _spanner(self) -> grpc.GenericRpcHandler:
        calls: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
            "CreateSession": (self._create_session, CreateSessionRequest, Session),
            "BatchCreateSessions": (self._batch_create, BatchCreateSessionsRequest, BatchCreateSessionsResponse),
            "BeginTransaction": (self._begin, BeginTransactionRequest, Transaction),
            "ExecuteBatchDml": (self._batch, ExecuteBatchDmlRequest, ExecuteBatchDmlResponse),
            "Commit": (self._commit, CommitRequest, CommitResponse),
        }
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                self._answering(name, work), request.deserialize, answer.serialize
            )
            for name, (work, request, answer) in calls.items()
        }
        handlers["ExecuteStreamingSql"] = grpc.unary_stream_rpc_method_handler(
            self._streaming, ExecuteSqlRequest.deserialize, PartialResultSet.serialize
        )
        for name, work, request in (
            ("Rollback", self._rollback, RollbackRequest),
            ("DeleteSession", lambda request: None, DeleteSessionRequest),
        ):
            handlers[name] = grpc.unary_unary_rpc_method_handler(
                self._answering(name, work), request.deserialize, lambda _: b""
            )
        return grpc.method_handlers_generic_handler("google.spanner.v1.Spanner", handlers)

    def _admin(self) -> grpc.GenericRpcHandler:
        handler = grpc.unary_unary_rpc_method_handler(
            self._answering("UpdateDatabaseDdl", self._ddl),
            UpdateDatabaseDdlRequest.deserialize,
            operations_pb2.Operation.SerializeToString,
        )
        service = "google.spanner.admin.database.v1.DatabaseAdmin"
        return grpc.method_handlers_generic_handler(service, {"UpdateDatabaseDdl": handler})

    def _answering(self, name: str, work: Callable[[Any], Any]) -> Callable[[Any, grpc.ServicerContext], Any]:
        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            try:
                return self._carried_out(name, work, request)
            except Refusal as refusal:
                context.abort(refusal.code, str(refusal))

        return answer

    def _streaming(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            yield self._carried_out("ExecuteStreamingSql", self._execute, request)
        except Refusal as refusal:
            context.abort(refusal.code, str(refusal))

    def _carried_out(self, name: str, work: Callable[[Any], Any], request: Any) -> Any:
        if "Session" not in name:
            self.calls.append(name)
        with self._lock:
            failure = next((failure for failure in self.failures if failure[0] == name), None)
            if failure is not None:
                self.failures.remove(failure)
        if failure is not None and not failure[2]:
            raise Refusal(failure[1], f"played: {failure[1].name}")
        answer = work(request)
        if failure is not None:
            raise Refusal(failure[1], f"played: {failure[1].name}, after the work was done")
        return answer

    def _create_session(self, request: Any) -> Any:
        name = f"{request.database}/sessions/{next(self._ids)}"
        return Session(name=name, multiplexed=request.session.multiplexed)

    def _batch_create(self, request: Any) -> Any:
        names = [f"{request.database}/sessions/{next(self._ids)}" for _ in range(request.session_count)]
        return BatchCreateSessionsResponse(session=[Session(name=name) for name in names])

    def _begin(self, request: Any) -> Any:
        return Transaction(id=self._started(_database(request), read_only="read_only" in request.options))

    def _commit(self, request: Any) -> Any:
        db = self._ended(request.transaction_id)
        self._commits += 1
        work = self._work.pop(id(db), ())
        if self.aborting and self._commits % self.aborting == 0 and work not in self._aborted:
            self._aborted.add(work)
            db.close()
            raise Refusal(grpc.StatusCode.ABORTED, "Transaction was aborted")
        db.execute("COMMIT")
        db.close()
        return CommitResponse(commit_timestamp=datetime.now(UTC))

    def _rollback(self, request: Any) -> Any:
        self._given_up(request.transaction_id)

    def _execute(self, request: Any) -> Any:
        db, began, single = self._selected(request)
        try:
            rows, names, changed = self._statement(db, _database(request), request)
        except Refusal:
            self._not_begun(began)
            raise
        finally:
            if single:
                self._work.pop(id(db), None)
                db.close()
        kinds = [
            next((_kind(row[place]) for row in rows if row[place] is not None), "STRING") for place in range(len(names))
        ]
        fields = [
            StructType.Field(name=name, type_=Type(code=TypeCode[kind]))
            for name, kind in zip(names, kinds, strict=True)
        ]
        metadata = ResultSetMetadata(row_type=StructType(fields=fields), transaction=Transaction(id=began or b""))
        answer = PartialResultSet(metadata=metadata)
        PartialResultSet.pb(answer).values.extend(_told(value) for row in rows for value in row)
        if changed is not None:
            answer.stats = ResultSetStats(row_count_exact=changed)
        return answer

    def _batch(self, request: Any) -> Any:
        db, began, _ = self._selected(request)
        sets: list[Any] = []
        answer = ExecuteBatchDmlResponse()
        for statement in request.statements:
            try:
                _, _, changed = self._statement(db, _database(request), statement)
            except Refusal as refusal:
                answer.status = {"code": refusal.code.value[0], "message": str(refusal)}
                break
            metadata = ResultSetMetadata(transaction=Transaction(id=began or b"")) if not sets else None
            sets.append(ResultSet(metadata=metadata, stats=ResultSetStats(row_count_exact=changed or 0)))
        if not sets:
            self._not_begun(began)
        answer.result_sets = sets
        return answer

    def _ddl(self, request: Any) -> Any:
        db = self._connection(request.database)
        db.execute("PRAGMA journal_mode=WAL")
        for statement in request.statements:
            db.execute(self._table(request.database, statement))
        db.close()
        operation = operations_pb2.Operation(name=f"{request.database}/operations/{next(self._ids)}", done=True)
        operation.response.Pack(empty_pb2.Empty())
        metadata = UpdateDatabaseDdlMetadata(database=request.database, statements=request.statements)
        operation.metadata.Pack(UpdateDatabaseDdlMetadata.pb(metadata))
        return operation

    # --- behind them --------------------------------------------------------------------------------------------------

    def _table(self, database: str, statement: str) -> str:
        """A table of Spanner's as SQLite makes it; the rest of DDL is common to both."""
        found = _TABLE.fullmatch(statement.strip())
        if found is None:
            return statement
        name, body, key = found.groups()
        columns, lines = [], []
        for piece in re.split(r",(?![^(]*\))", body):
            column = _COLUMN.fullmatch(piece)
            if column is None:
                lines.append(piece)
                continue
            title, kind, length, rest = column.groups()
            columns.append((title, kind.upper()))
            limit = f" CHECK (length({title}) <= {length})" if length and length != "MAX" else ""
            lines.append(f"{title} {'TEXT' if length else 'BLOB'}{rest}{limit}")
        self._columns.setdefault((database, name), columns)
        return f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(lines)}, PRIMARY KEY ({key}))"

    def _connection(self, database: str) -> sqlite3.Connection:
        path = self._folder / f"{database.replace('/', '-')}.db"
        db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30)
        db.execute("PRAGMA foreign_keys=ON")
        return db

    def _started(self, database: str, *, read_only: bool) -> bytes:
        db = self._connection(database)
        try:
            db.execute("BEGIN" if read_only else "BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise Refusal(grpc.StatusCode.ABORTED, str(error)) from error
        if read_only:
            db.execute("SELECT COUNT(*) FROM sqlite_master").fetchall()  # from here on it sees this moment
        with self._lock:
            id = b"t-%d" % next(self._ids)
            self._open[id] = db, read_only
            old = [key for key, (_, reads) in self._open.items() if reads][:-_SNAPSHOTS]
            for key in old:
                self._open.pop(key)[0].close()
        return id

    def _ended(self, id: bytes) -> sqlite3.Connection:
        with self._lock:
            found = self._open.pop(id, None)
        if found is None:
            raise Refusal(grpc.StatusCode.NOT_FOUND, "Transaction not found")
        return found[0]

    def _not_begun(self, id: bytes | None) -> None:
        """A transaction whose first statement fails has not begun: nobody is told its id."""
        if id is not None:
            self._given_up(id)

    def _given_up(self, id: bytes) -> None:
        db = self._ended(id)
        self._work.pop(builtins.id(db), None)
        db.close()

    def _selected(self, request: Any) -> tuple[sqlite3.Connection, bytes | None, bool]:
        """The connection of a call, the id of a transaction it began, and whether it is for this call alone."""
        selector = request.transaction
        kind = TransactionSelector.pb(selector).WhichOneof("selector")
        if kind == "id":
            with self._lock:
                found = self._open.get(selector.id)
            if found is None:
                raise Refusal(grpc.StatusCode.ABORTED, "Transaction was aborted")
            return found[0], None, False
        if kind == "begin":
            id = self._started(_database(request), read_only="read_only" in selector.begin)
            return self._open[id][0], id, False
        return self._connection(_database(request)), None, True

    def _statement(self, db: sqlite3.Connection, database: str, said: Any) -> tuple[list[Any], list[str], int | None]:
        """Rows, names of columns, and the number of changed rows of a statement that changes some."""
        sql, types = said.sql, said.param_types
        self.statements.append(sql)
        given = {name: _given(value, types[name].code) for name, value in (said.params or {}).items()}
        if _COLUMNS_OF in sql:
            return list(self._columns.get((database, given["p1"]), [])), ["column_name", "spanner_type"], None
        # What a transaction is about: the event it stores, else its last statement's first parameters.
        if "INSERT INTO events" in sql or id(db) not in self._work:
            self._work[id(db)] = (database, *(given.get(f"p{number}") for number in range(1, 5)))
        lite = sql.replace("INSERT OR UPDATE INTO", "INSERT OR REPLACE INTO").replace(" FOR UPDATE", "")
        try:
            cursor = db.execute(lite, given)
            rows = cursor.fetchall()
        except sqlite3.IntegrityError as error:
            raise _refused(error) from error
        except sqlite3.Error as error:
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, f"{error} in {sql}") from error
        if cursor.description is None:
            return [], [], cursor.rowcount
        return rows, [column[0] for column in cursor.description], None


def _database(request: Any) -> str:
    """The database that the session of a call is of."""
    return str(request.session).partition("/sessions/")[0]


def _refused(error: sqlite3.IntegrityError) -> Refusal:
    text = str(error)
    if text.startswith("UNIQUE"):
        return Refusal(grpc.StatusCode.ALREADY_EXISTS, f"Row already exists ({text})")
    if text.startswith("CHECK"):
        limit = re.search(r"length\((\w+)\) <= (\d+)", text)
        column, size = limit.groups() if limit else ("?", "?")
        return Refusal(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"New value exceeds the maximum size limit for this column: {column}, limit: {size}.",
        )
    return Refusal(grpc.StatusCode.FAILED_PRECONDITION, f"Foreign key constraint is violated ({text})")


def _given(value: Any, kind: Any) -> Any:
    """A parameter as SQLite takes it; times as bytes, so that they stay apart from text."""
    if kind == TypeCode.INT64:
        return int(value)
    return _nanos(value) if kind == TypeCode.TIMESTAMP else value


def _nanos(text: str) -> bytes:
    moment, _, fraction = text.removesuffix("Z").partition(".")
    return f"{moment}.{fraction.ljust(9, '0')}Z".encode()


def _kind(value: Any) -> str:
    return {int: "INT64", bytes: "TIMESTAMP"}.get(type(value), "STRING")


def _told(value: Any) -> struct_pb2.Value:
    """A value as the wire has it: whole numbers and times as text."""
    if value is None:
        return struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)
    return struct_pb2.Value(string_value=value.decode() if isinstance(value, bytes) else str(value))
