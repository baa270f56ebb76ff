"""The pytest plugin: recordings beside the tests that made them.

Its module imports nothing of the kit: that happens when the fixture is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hookwork_record_replay.plugin import RecordReplay

_MODES = ("replay", "record", "auto")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("hookwork").addoption(
        "--hookwork-record",
        choices=_MODES,
        default="replay",
        help="what the fixture `recordings` does: replay the files, record them anew, or record what is missing (auto)",
    )


@pytest.fixture
def recordings(request: pytest.FixtureRequest) -> Iterator[Callable[..., RecordReplay]]:
    """``recordings()``: a `RecordReplay` on ``recordings/<module>/<test>.jsonl`` beside the test's module.

    ``recordings("name", **options)`` takes another name and the options of the plugin. The mode is that of
    ``--hookwork-record``; in a replay all recordings have to be used by the end of the test.
    """
    from hookwork_record_replay.plugin import RecordReplay

    folder = Path(request.path).parent / "recordings" / Path(request.path).stem
    made: list[RecordReplay] = []

    def build(name: str = "", **options: Any) -> RecordReplay:
        file = folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name or request.node.name).strip('-')}.jsonl"
        plugin = RecordReplay(file, **{"mode": request.config.getoption("--hookwork-record"), **options})
        made.append(plugin)
        return plugin

    yield build
    for plugin in made:
        if plugin.mode == "replay":
            plugin.assert_all_used()
