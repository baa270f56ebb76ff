"""Retries stand on the span of a call (services BEY-18, DB-12)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.kernel.test_telemetry import exporter as exporter

from hookwork.errors import BackendError
from hookwork.platform import use_sleep
from hookwork.telemetry import active_tracer, watched
from hookwork_database import session_service
from hookwork_testkit.suites.base import say

KEY = {"app_name": "app", "user_id": "u", "session_id": "s"}


async def test_bey_18_waits_for_a_lock_are_counted(tmp_path: Path, exporter: InMemorySpanExporter) -> None:
    """Of appends, which go on in a task of their own, and of the other operations."""
    service = session_service(f"sqlite:///{tmp_path}/s.db?busy_timeout=20")
    traced = watched(service, "sessions", active_tracer())

    async def at_once(seconds: float) -> None:
        assert seconds <= 0.5

    session = await traced.create_session(**KEY)
    other = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with use_sleep(at_once):
        with pytest.raises(BackendError):
            await traced.append_event(session, say("x"))
        with pytest.raises(BackendError):
            await traced.delete_session(**KEY)
    other.execute("COMMIT")
    other.close()
    await traced.append_event(session, say("y"))
    await service.close()
    spans = {span.name: dict(span.attributes or {}) for span in exporter.get_finished_spans()[1:3]}
    assert {name: span["hookwork.service.retries"] for name, span in spans.items()} == {
        "sessions append_event": 5,
        "sessions delete_session": 5,
    }
    assert {span["hookwork.service.outcome"] for span in spans.values()} == {"error"}
    last = dict(exporter.get_finished_spans()[-1].attributes or {})
    assert (last["hookwork.service.retries"], last["hookwork.service.outcome"]) == (0, "ok")
