"""Runs whose artifacts lie in a bucket (services ART-13, URL-9; core REW-4)."""

from __future__ import annotations

from tests.files.runs import check_runs
from tests.gcs.servers import make_bucket

from hookwork_gcs import GcsArtifactService


async def test_art_13_rew_4_runs_and_rewinds_on_a_bucket(gcs: str) -> None:
    make_bucket(gcs, "in-runs")
    await check_runs("gs://in-runs")
    service = GcsArtifactService("in-runs")
    assert await service.list_versions(app_name="echo", user_id="u", session_id="s", filename="last.txt") == [1, 2, 3]
    await service.close()
