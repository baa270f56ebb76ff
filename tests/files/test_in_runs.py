"""Runs whose artifacts lie in a folder (services ART-13, URL-9; core REW-4)."""

from __future__ import annotations

from pathlib import Path

from tests.files.runs import check_runs


async def test_art_13_rew_4_runs_and_rewinds_on_files(tmp_path: Path) -> None:
    await check_runs(tmp_path.as_uri())
    assert list(tmp_path.iterdir()) == [tmp_path / "apps"]
