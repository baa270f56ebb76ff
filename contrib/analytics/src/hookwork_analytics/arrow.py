"""Rows in the form of Apache Arrow, for Parquet files and for BigQuery (tools-plugins SP-22)."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from hookwork_analytics.rows import COLUMNS, Row

#: Columns that hold any JSON; in Arrow they are text.
JSON_COLUMNS = ("content", "attributes", "latency_ms")

#: How BigQuery marks an Arrow text that is JSON.
_JSON = {"ARROW:extension:name": "google:sqlType:json"}


def flat(row: Row) -> Row:
    """A row for the schema: a real timestamp, JSON as text."""
    made = {**row, "timestamp": datetime.fromisoformat(row["timestamp"])}
    for column in JSON_COLUMNS:
        made[column] = _text(row[column])
    made["content_parts"] = [_flat_part(part) for part in row["content_parts"]]
    return made


def _flat_part(part: Row) -> Row:
    reference = part["object_ref"]
    if reference is not None:
        reference = {**reference, "details": _text(reference["details"])}
    return {**part, "object_ref": reference, "part_attributes": _text(part["part_attributes"])}


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def schema(pyarrow: Any, *, mark_json: bool = False) -> Any:
    """The Arrow schema of the columns. ``mark_json``: with BigQuery's mark on JSON texts."""
    text = pyarrow.string()
    mark = _JSON if mark_json else None
    names = ("uri", "version", "authorizer")
    reference = pyarrow.struct(
        [*(pyarrow.field(name, text) for name in names), pyarrow.field("details", text, metadata=mark)]
    )
    part = pyarrow.struct(
        [
            *(("mime_type", text), ("uri", text), ("object_ref", reference), ("text", text)),
            *(("part_index", pyarrow.int64()), ("part_attributes", text), ("storage_mode", text)),
        ]
    )
    kinds = {
        "timestamp": pyarrow.timestamp("us", tz="UTC"),
        "content_parts": pyarrow.list_(part),
        "is_truncated": pyarrow.bool_(),
    }
    return pyarrow.schema(
        [
            pyarrow.field(name, kinds.get(name, text), metadata=mark if name in JSON_COLUMNS else None)
            for name in COLUMNS
        ]
    )
