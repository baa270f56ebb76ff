"""The event table of core §7, each row: plain, streaming, closed early, cancelled, restarted; in memory and on SQLite.

Every run is a program started anew on the store (activations ACT-41, core INV-1, INV-3).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.agent_lab import Lab, Scene, play, play_crashed, play_ended
from tests.acceptance.scenes_of_the_table import ROWS, spoken_text

ENDS = ["leave", "stop", "cancel", "any time"]


def anew(backend: Any, folder: Path, number: int) -> Any:
    """A store of its own of the same kind."""
    below = folder / str(number)
    below.mkdir()
    return type(backend)(backend.kind, below)


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("streaming", [False, True], ids=["plain", "streaming"])
async def test_evt_20_a_row_event_by_event(backend: Any, row: str, streaming: bool) -> None:
    scene = ROWS[row]()
    lab = await play(scene, backend, streaming=streaming)
    assert len(await lab.lines()) == len(scene.lines)


@pytest.mark.parametrize("by_id", [True, False], ids=["by-id", "by-answer"])
@pytest.mark.parametrize("row", ROWS)
async def test_act_41_a_row_after_a_restart_behind_every_event(
    backend: Any, tmp_path: Path, row: str, by_id: bool
) -> None:
    lines = ROWS[row]().lines
    for after in range(1, len(lines) + 1):
        if row == "long-running, fails" and lines[after - 1] == "ag@1 call wait#w1":
            continue  # ACT-41 (a): a crash before the body looks like waiting; see the test below
        await play_crashed(ROWS[row](), anew(backend, tmp_path, after), after, by_id=by_id)
    assert len(lines) > 3 or row == "SSE text"


async def test_act_41_a_a_long_running_call_whose_body_a_crash_left_out_waits_for_its_answer(
    backend: Any, tmp_path: Path
) -> None:
    lab = Lab(ROWS["long-running, fails"]().build, anew(backend, tmp_path, 0))
    lab.store.crash_after = 2
    await lab.run("hi")
    lab.store.revive()
    assert list((await lab.session()).open_calls) == ["w1"]
    turn = await lab.run(await lab.answer({"w1": {"error": "no line"}}))
    assert turn.outcome is not None
    assert turn.outcome.kind == "completed"
    assert await lab.lines() == ["U 'hi'", "ag@1 call wait#w1", "U response wait#w1", "ag@1 'sorry' ✓"]
    assert lab.world.ran == []


@pytest.mark.parametrize("way", ENDS)
@pytest.mark.parametrize("streaming", [False, True], ids=["plain", "streaming"])
@pytest.mark.parametrize("row", ROWS)
async def test_inv_3_a_row_ended_anywhere_goes_on_to_the_same_end(
    in_memory: Any, tmp_path: Path, row: str, streaming: bool, way: str
) -> None:
    assert await _ended_everywhere(ROWS[row], in_memory, tmp_path, way, streaming=streaming) > 1


@pytest.mark.parametrize("way", ["leave", "stop", "cancel"])
@pytest.mark.parametrize("row", ROWS)
async def test_inv_3_a_row_ended_behind_any_event_in_a_file(in_memory: Any, tmp_path: Path, row: str, way: str) -> None:
    pytest.importorskip("hookwork_database", reason="needs hookwork-database")
    assert await _ended_everywhere(ROWS[row], type(in_memory)("sqlite", tmp_path), tmp_path, way, streaming=True) > 1


async def _ended_everywhere(scene: Any, backend: Any, folder: Path, way: str, *, streaming: bool) -> int:
    over, after = False, 0
    while not over:
        after += 1
        over = await play_ended(scene(), anew(backend, folder, after), after, way, streaming=streaming)
    return after


async def test_inv_1_partial_texts_come_first_and_are_never_stored(backend: Any) -> None:
    """Row "SSE text": partials, then the full text; what is stored is what was yielded without the partials."""
    scene: Scene = spoken_text()
    lab = Lab(scene.build, backend)
    turn = await lab.run("hi", streaming=True)
    assert [(event.partial, event.text) for event in turn.events] == [
        (True, "he"),
        (True, "llo there"),
        (None, "hello there"),
    ]
    stored = (await lab.session()).events
    assert [event.text for event in stored] == ["hi", "hello there"]
    assert stored[1] == turn.events[2]
