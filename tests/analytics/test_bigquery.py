"""The BigQuery sink over its real wires: gRPC for rows, HTTP for the table (tools-plugins SP-21).

The servers are local ones that keep what they are sent; the client is Google's own.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc  # type: ignore[import-untyped]
import pyarrow  # type: ignore[import-untyped]
import pytest
import requests
from google.cloud.bigquery_storage_v1 import BigQueryWriteClient, types
from google.cloud.bigquery_storage_v1.services.big_query_write.transports import BigQueryWriteGrpcTransport

from hookwork import Runner
from hookwork.errors import BackendError, ConfigurationError
from hookwork_analytics import Analytics, BigQuerySink
from hookwork_analytics import bigquery as module
from hookwork_analytics.rows import COLUMNS, Row, make_row
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call, make_context

APPEND = "/google.cloud.bigquery.storage.v1.BigQueryWrite/AppendRows"
STREAM = "projects/p/datasets/agent_analytics/tables/events/_default"


def client_of(channel: Any) -> Any:
    """Google's client on a channel of ours."""
    transport = BigQueryWriteGrpcTransport(channel=channel)
    return BigQueryWriteClient(transport=transport)  # type: ignore[no-untyped-call]


class BigQuery(grpc.GenericRpcHandler):  # type: ignore[misc]
    """The two servers. ``answers``: what appends are answered with, in order; afterwards all are accepted."""

    def __init__(self) -> None:
        self.appends: list[Any] = []
        self.routing: list[Any] = []
        self.tables: list[tuple[str, dict[str, Any]]] = []
        self.table_status = 200
        self.answers: list[Any] = []
        self.grpc = grpc.server(futures.ThreadPoolExecutor(2))
        self.grpc.add_generic_rpc_handlers((self,))
        port = self.grpc.add_insecure_port("127.0.0.1:0")
        self.grpc.start()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self._rest())
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        self.thread.start()

    def service(self, details: Any) -> Any:
        if details.method != APPEND:
            return None
        self.routing += [v for k, v in details.invocation_metadata if k == "x-goog-request-params" and v]
        return grpc.stream_stream_rpc_method_handler(
            self._append,
            request_deserializer=types.AppendRowsRequest.deserialize,
            response_serializer=types.AppendRowsResponse.serialize,
        )

    def _append(self, stream: Iterable[Any], context: Any) -> Iterator[Any]:
        for request in stream:
            answer = self.answers.pop(0) if self.answers else types.AppendRowsResponse(append_result={})
            if isinstance(answer, grpc.StatusCode):
                context.abort(answer, "not now")
            if not answer.error.code:
                self.appends.append(request)
            yield answer

    def _rest(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.tables.append((self.path, body))
                self.send_response(server.table_status)
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing is printed."""

        return Handler

    def sink(self, **options: Any) -> BigQuerySink:
        client = client_of(self.channel)
        endpoint = f"http://127.0.0.1:{self.http.server_port}"
        given: dict[str, Any] = {"client": client, "session": self.session, "endpoint": endpoint, **options}
        return BigQuerySink("p", **given)

    def rows(self) -> list[Row]:
        """All rows that were accepted, read from the Arrow bytes of the requests."""
        found: list[Row] = []
        for request in self.appends:
            arrow = request.arrow_rows
            schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(arrow.writer_schema.serialized_schema))
            batch = pyarrow.ipc.read_record_batch(pyarrow.py_buffer(arrow.rows.serialized_record_batch), schema)
            found += batch.to_pylist()
        return found

    def __enter__(self) -> BigQuery:
        self.session = requests.Session()
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()
        self.channel.close()
        self.grpc.stop(None).wait()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def server() -> Iterator[BigQuery]:
    with BigQuery() as running:
        yield running


def some_rows(count: int, text: str = "x") -> list[Row]:
    ctx = make_context("callback")
    return [make_row("EVENT", ctx, limit=10**8, content={"n": n, "text": text}) for n in range(count)]


async def test_sp_21_a_runs_rows_arrive_in_the_default_stream(
    server: BigQuery, runner_factory: Any, fixed_time: Any
) -> None:
    def look() -> dict[str, Any]:
        """Look."""
        return {"seen": 1}

    agent = LlmAgent(name="seeker", model=ScriptedModel([call("look"), "Done."]), tools=[look])
    runner: Runner = runner_factory(agent, plugins=[Analytics(sink=server.sink(), custom_tags={"team": "a"})])
    async with runner:
        await runner.ask("Look")
    assert {request.write_stream for request in server.appends} == {STREAM}
    assert set(server.routing) == {f"write_stream={STREAM}"}
    rows = server.rows()
    assert [row["event_type"] for row in rows][:4] == [
        "INVOCATION_START",
        "USER_MESSAGE",
        "AGENT_START",
        "MODEL_REQUEST",
    ]
    assert len(rows) == 14
    ended = next(row for row in rows if row["event_type"] == "TOOL_END")
    assert json.loads(ended["content"]) == {"tool": "look", "result": {"seen": 1}}
    assert json.loads(ended["attributes"])["custom_tags"] == {"team": "a"}
    assert ended["timestamp"].isoformat() == "2026-01-01T00:00:00+00:00"


def test_sp_21_json_columns_are_marked_for_bigquery(server: BigQuery) -> None:
    server.sink().write(some_rows(1))
    schema_bytes = server.appends[0].arrow_rows.writer_schema.serialized_schema
    schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(schema_bytes))
    marked = [f.name for f in schema if (f.metadata or {}).get(b"ARROW:extension:name") == b"google:sqlType:json"]
    assert marked == ["content", "attributes", "latency_ms"]
    assert tuple(schema.names) == COLUMNS


def test_sp_21_the_table_is_made_once_partitioned_and_clustered(server: BigQuery) -> None:
    sink = server.sink()
    sink.write(some_rows(1))
    sink.write(some_rows(1))
    [(path, table)] = server.tables
    assert path == "/bigquery/v2/projects/p/datasets/agent_analytics/tables"
    assert table["tableReference"] == {"projectId": "p", "datasetId": "agent_analytics", "tableId": "events"}
    assert table["clustering"] == {"fields": ["event_type", "agent", "user_id"]}
    assert table["timePartitioning"] == {"type": "DAY", "field": "timestamp"}
    fields = {field["name"]: field for field in table["schema"]["fields"]}
    assert tuple(fields) == COLUMNS
    assert (fields["content"]["type"], fields["timestamp"]["mode"]) == ("JSON", "REQUIRED")
    parts = fields["content_parts"]
    assert (parts["type"], parts["mode"]) == ("RECORD", "REPEATED")
    assert [field["name"] for field in parts["fields"]] == [
        *("mime_type", "uri", "object_ref", "text", "part_index", "part_attributes", "storage_mode"),
    ]


@pytest.mark.parametrize(("status", "warned"), [(200, False), (409, False), (403, True)])
def test_sp_21_a_table_that_cannot_be_made_is_only_logged(
    server: BigQuery, caplog: pytest.LogCaptureFixture, status: int, warned: bool
) -> None:
    server.table_status = status
    server.sink().write(some_rows(2))
    assert len(server.rows()) == 2
    assert ("was not made" in caplog.text) is warned


def test_sp_21_a_rest_api_that_is_not_there_is_only_logged(server: BigQuery, caplog: pytest.LogCaptureFixture) -> None:
    server.sink(endpoint="http://127.0.0.1:1").write(some_rows(1))
    assert "was not made" in caplog.text
    assert len(server.rows()) == 1


def test_sp_21_what_bigquery_refuses_is_an_error_that_names_the_rows(server: BigQuery) -> None:
    refused = types.AppendRowsResponse(
        error={"code": 3, "message": "Errors found."},
        row_errors=[types.RowError(index=1, message="bad timestamp")],
    )
    server.answers = [refused, grpc.StatusCode.UNAVAILABLE]
    sink = server.sink()
    with pytest.raises(BackendError, match=r"refused the rows: Errors found\. row 1: bad timestamp"):
        sink.write(some_rows(2))
    with pytest.raises(BackendError, match="cannot be written to") as unavailable:
        sink.write(some_rows(2))
    assert unavailable.value.retryable
    sink.write(some_rows(2))  # the same sink goes on
    assert len(server.rows()) == 2


def test_sp_21_a_batch_that_is_too_large_is_sent_in_pieces(
    server: BigQuery, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MAX_REQUEST", 20_000)
    rows = [*some_rows(8, "y" * 6000), *some_rows(1, "z" * 30_000)]
    server.sink().write(rows)
    found = [json.loads(row["content"]) for row in server.rows()]
    assert [content["n"] for content in found] == list(range(8))
    assert len(server.appends) > 2
    assert all(len(request.arrow_rows.rows.serialized_record_batch) <= 20_000 for request in server.appends)
    assert "is left out" in caplog.text


def test_sp_21_close_closes_the_connection(server: BigQuery) -> None:
    sink = server.sink()
    sink.write(some_rows(1))
    sink.close()
    sink.close()
    with pytest.raises(ValueError, match="closed channel"):
        server.channel.unary_unary("/x")(b"")


def test_a_project_is_needed(server: BigQuery) -> None:
    client = client_of(server.channel)
    with pytest.raises(ConfigurationError, match="needs a project"):
        BigQuerySink(client=client).write(some_rows(1))


def test_without_the_libraries_the_pip_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.cloud.bigquery_storage_v1", None)
    monkeypatch.delattr("google.cloud.bigquery_storage_v1", raising=False)
    with pytest.raises(ConfigurationError, match=r"pip install 'hookwork-analytics\[bigquery\]'"):
        Analytics(format="bigquery", project="p")
