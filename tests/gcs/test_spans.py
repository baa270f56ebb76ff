"""Retries stand on the span of a call (services BEY-18, GCS-2)."""

from __future__ import annotations

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.gcs.fake import FakeBucket
from tests.gcs.test_saving import KEY, PREFIX, blob, service_on
from tests.kernel.test_telemetry import exporter as exporter

from hookwork.platform import use_sleep
from hookwork.telemetry import active_tracer, watched


async def test_bey_18_lost_races_are_counted(exporter: InMemorySpanExporter) -> None:
    fake = FakeBucket()
    races = iter((1, 2))

    async def somebody_is_faster() -> None:
        number = next(races, None)
        if number is not None:
            fake.put(f"{PREFIX}{number}", b"theirs")

    async def at_once(seconds: float) -> None:
        assert seconds <= 1

    fake.before_insert = somebody_is_faster
    service = watched(service_on(fake), "artifacts", active_tracer())
    with use_sleep(at_once):
        assert await service.save_artifact(**KEY, artifact=blob(b"ours")) == 3
        assert await service.save_artifact(**KEY, artifact=blob(b"ours")) == 4
    spans = [dict(span.attributes or {}) for span in exporter.get_finished_spans()]
    assert [span["hookwork.service.retries"] for span in spans] == [2, 0]
    assert {span["hookwork.service.backend"] for span in spans} == {"GcsArtifactService"}
