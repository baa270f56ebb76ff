"""One session whose id no file can be saved under does not stop the export of the others (services BEY-19)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.console.test_sessions_artifacts import KEY, Stores
from tests.console.test_sessions_artifacts import stores as stores

from hookwork_files import FileArtifactService


@pytest.mark.parametrize("odd", [{"session_id": "a/../b"}, {"user_id": "ann/home"}])
@pytest.mark.parametrize("on_disk", [False, True])
async def test_bey_19_ids_that_hold_no_files(
    stores: Stores, odd: dict[str, Any], on_disk: bool, tmp_path: Path
) -> None:
    await stores.sessions.create_session(**{**KEY, **odd})
    if on_disk:
        stores.files = FileArtifactService(tmp_path)
    lines = [json.loads(line) for line in (await stores.export()).splitlines()]
    assert len([line for line in lines if "artifact" not in line]) == 3
    assert len([line for line in lines if "artifact" in line]) == (0 if on_disk else 4)
