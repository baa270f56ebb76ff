"""Rows to BigQuery: the Storage Write API's default stream, in Arrow (tools-plugins SP-21).

Needs google-cloud-bigquery-storage and pyarrow: ``pip install 'hookwork-analytics[bigquery]'``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

from hookwork.errors import BackendError, ConfigurationError
from hookwork_analytics.arrow import flat, schema
from hookwork_analytics.rows import COLUMNS, Row

logger = logging.getLogger("hookwork.analytics")

SCOPES = ("https://www.googleapis.com/auth/bigquery",)
ENDPOINT = "https://bigquery.googleapis.com"
CLUSTERING = ("event_type", "agent", "user_id")

#: Bytes of one append. The API takes 10 MB a request (BigQuery quotas, "Storage Write API"); the rest is for its frame.
MAX_REQUEST = 9_500_000

#: Seconds that one append, or the making of the table, may take.
_TIMEOUT = 30.0


class BigQuerySink:
    """Appends rows to a table, which is made with the first rows if it is absent.

    Rows are written at least once: what is tried again after an error may be there twice.

    Args:
        project: Google Cloud project; None: that of the default credentials.
        dataset, table: where the rows go. The dataset must exist.
        clustering: columns by which a table that is made here is clustered; it is partitioned by day.
        client, session: a `BigQueryWriteClient` and an authorised requests session of your own; without a client both
            are made from the application default credentials when the first rows come. Without a session no table
            is made.
        endpoint: of the REST API that makes the table.

    Raises:
        ConfigurationError: the libraries are not installed.
    """

    def __init__(
        self,
        project: str | None = None,
        dataset: str = "agent_analytics",
        table: str = "events",
        *,
        clustering: Sequence[str] = CLUSTERING,
        client: Any = None,
        session: Any = None,
        endpoint: str = ENDPOINT,
    ) -> None:
        try:
            import pyarrow  # type: ignore[import-untyped] # noqa: F401
            from google.cloud import bigquery_storage_v1  # noqa: F401
        except ImportError as error:
            raise ConfigurationError(
                "BigQuery needs more libraries; try: pip install 'hookwork-analytics[bigquery]'"
            ) from error
        self._project = project
        self._dataset = dataset
        self._table = table
        self._clustering = tuple(clustering)
        self._client = client
        self._session = session
        self._endpoint = endpoint.rstrip("/")
        self._ready = False
        self._lock = threading.Lock()

    def write(self, rows: Sequence[Row]) -> None:
        """Append rows.

        Raises:
            BackendError: BigQuery refused them, or cannot be reached.
            ConfigurationError: no project is given and none is known.
        """
        import pyarrow

        with self._lock:
            self._connect()
        table = pyarrow.Table.from_pylist([flat(row) for row in rows], schema=schema(pyarrow, mark_json=True))
        self._append(table.combine_chunks())

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.transport.close()
            self._client = None
            self._ready = False

    # --- appending ----------------------------------------------------------------------------------------------------

    def _append(self, table: Any) -> None:
        """One request, or two halves where one would be too large."""
        import pyarrow

        if table.num_rows > 1 and table.nbytes > MAX_REQUEST:
            half = table.num_rows // 2
            self._append(table.slice(0, half))
            self._append(table.slice(half))
            return
        # A slice drags its whole buffer along; serialising copies what belongs to it.
        [batch] = pyarrow.Table.from_batches(table.to_batches(), table.schema).combine_chunks().to_batches()
        data = batch.serialize().to_pybytes()
        if len(data) > MAX_REQUEST:
            logger.warning("a row of %s bytes is larger than BigQuery takes and is left out", len(data))
            return
        self._send(table.schema.serialize().to_pybytes(), data)

    def _send(self, arrow_schema: bytes, data: bytes) -> None:
        from google.api_core.exceptions import GoogleAPICallError
        from google.cloud.bigquery_storage_v1 import types

        stream = f"projects/{self._project}/datasets/{self._dataset}/tables/{self._table}/_default"
        request = types.AppendRowsRequest(
            write_stream=stream,
            arrow_rows=types.AppendRowsRequest.ArrowData(
                writer_schema=types.ArrowSchema(serialized_schema=arrow_schema),
                rows=types.ArrowRecordBatch(serialized_record_batch=data),
            ),
            trace_id="hookwork-analytics",
        )
        routing = [("x-goog-request-params", f"write_stream={stream}")]
        try:
            # No retry by the client: it would send the rest of an iterator that has none. The queue tries again.
            answers = self._client.append_rows(iter([request]), retry=None, timeout=_TIMEOUT, metadata=routing)
            responses = list(answers)
        except GoogleAPICallError as error:
            raise BackendError(f"BigQuery cannot be written to: {error}", retryable=True) from error
        if not responses:
            raise BackendError("BigQuery did not acknowledge the rows", retryable=True)
        for response in responses:
            if response.error.code:
                rows = "; ".join(f"row {error.index}: {error.message}" for error in response.row_errors[:5])
                raise BackendError(f"BigQuery refused the rows: {response.error.message} {rows}".rstrip())

    # --- setting up ---------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        if self._ready:
            return
        if self._client is None:
            self._authorise()
        if not self._project:
            raise ConfigurationError("BigQuery needs a project; set `project`, or GOOGLE_CLOUD_PROJECT")
        if self._session is not None:
            self._make_table()
        self._ready = True

    def _authorise(self) -> None:
        import google.auth
        from google.auth.transport.requests import AuthorizedSession
        from google.cloud.bigquery_storage_v1 import BigQueryWriteClient

        credentials, project = google.auth.default(scopes=SCOPES)
        self._project = self._project or project
        self._client = BigQueryWriteClient(credentials=credentials)  # type: ignore[no-untyped-call]
        self._session = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]

    def _make_table(self) -> None:
        """Make the table if it is absent. That this fails is only logged: perhaps it is there, and only not ours."""
        url = f"{self._endpoint}/bigquery/v2/projects/{self._project}/datasets/{self._dataset}/tables"
        body = {
            "tableReference": {
                "projectId": self._project,
                "datasetId": self._dataset,
                "tableId": self._table,
            },
            "schema": {"fields": [_field(name) for name in COLUMNS]},
            "timePartitioning": {"type": "DAY", "field": "timestamp"},
            "clustering": {"fields": list(self._clustering)},
        }
        try:
            answer = self._session.post(url, json=body, timeout=_TIMEOUT)
        except OSError as error:  # what requests raises derives from it
            logger.warning("the BigQuery table %s was not made: %s", self._table, error)
            return
        if answer.status_code not in (200, 409):  # 409: it is there
            logger.warning("the BigQuery table %s was not made: %s %s", self._table, answer.status_code, answer.text)


def _field(name: str) -> dict[str, Any]:
    if name == "content_parts":
        return {"name": name, "type": "RECORD", "mode": "REPEATED", "fields": _PART_FIELDS}
    types = {"timestamp": "TIMESTAMP", "is_truncated": "BOOLEAN"}
    types |= dict.fromkeys(("content", "attributes", "latency_ms"), "JSON")
    return {"name": name, "type": types.get(name, "STRING"), "mode": "REQUIRED" if name == "timestamp" else "NULLABLE"}


def _nullable(name: str, kind: str = "STRING", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "mode": "NULLABLE", **more}


_REFERENCE_FIELDS = [_nullable("uri"), _nullable("version"), _nullable("authorizer"), _nullable("details", "JSON")]
_PART_FIELDS = [
    *(_nullable("mime_type"), _nullable("uri"), _nullable("object_ref", "RECORD", fields=_REFERENCE_FIELDS)),
    *(_nullable("text"), _nullable("part_index", "INTEGER"), _nullable("part_attributes"), _nullable("storage_mode")),
]
