"""Scenes of delegations, single-turn calls, tools with children and approvals, crashed after every event (ACT §6).

Each is played in one go, plain and streamed, in memory and on SQLite; then with a crash behind every stored event; then
left, stopped and cancelled everywhere. Every run is a program started anew. The end is always the same (but ACT-41 a).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance import scenes_of_calls as calls
from tests.acceptance import scenes_of_tasks as tasks
from tests.acceptance.agent_lab import Scene, play, play_crashed, play_ended

SCENES: dict[str, Callable[[], Scene]] = {
    "s1": lambda: calls.s1(rejected=False),
    "s1-rejected": lambda: calls.s1(rejected=True),
    "s5": tasks.s5,
    "s5-sequence": tasks.s5_in_a_sequence,
    "s5-transfer": tasks.s5_behind_a_transfer,
    "s5-approval": lambda: tasks.s5_with_an_approval(rejected=False),
    "s5-rejection": lambda: tasks.s5_with_an_approval(rejected=True),
    "s5-parallel": tasks.s5_in_parallel,
    "s5-twice": tasks.s5_twice,
    "task-hands-over-and-back": tasks.task_hands_over_and_back,
    "task-guarded": lambda: tasks.task_answered_by_a_guard("chat"),
    "task-guarded-in-sequence": lambda: tasks.task_answered_by_a_guard("sequence"),
    "task-asks-after-hand-over": lambda: tasks.task_asks_after_a_hand_over("chat"),
    "task-asks-after-hand-over-below": lambda: tasks.task_asks_after_a_hand_over("below"),
    "task-asks-after-hand-over-in-sequence": lambda: tasks.task_asks_after_a_hand_over("sequence"),
    "two-tasks": tasks.two_tasks,
    "task-in-a-task": tasks.task_in_a_task,
    "task-beside-approval": tasks.waits_inside_a_task_and_beside_it,
    "s6": calls.s6,
    "s6-two": calls.two_children_wait,
    "s8": calls.s8,
    "approval-and-transfer": calls.approval_beside_a_transfer,
    "one-id": calls.one_id_again_and_again,
    "single-turn-twice": calls.single_turn_in_single_turn,
    "task-in-single-turn": tasks.task_in_a_single_turn,
}


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("streaming", [False, True], ids=["plain", "streaming"])
async def test_scene_as_stored_event_by_event(backend: Any, name: str, streaming: bool) -> None:
    scene = SCENES[name]()
    lab = await play(scene, backend, streaming=streaming)
    assert len(await lab.lines()) == len(scene.lines)


@pytest.mark.parametrize("by_id", [True, False], ids=["by-id", "by-answer"])
@pytest.mark.parametrize("name", SCENES)
async def test_act_41_a_scene_crashed_after_every_event_comes_to_the_same_end(
    backend: Any, tmp_path: Path, name: str, by_id: bool
) -> None:
    count = len(SCENES[name]().lines)
    for crash_after in range(1, count + 1):
        folder = tmp_path / str(crash_after)
        folder.mkdir()
        await play_crashed(SCENES[name](), type(backend)(backend.kind, folder), crash_after, by_id=by_id)
    assert count > 3


@pytest.mark.parametrize("way", ["leave", "stop", "cancel", "any time"])
@pytest.mark.parametrize("streaming", [False, True], ids=["plain", "streaming"])
@pytest.mark.parametrize("name", SCENES)
async def test_inv_3_a_scene_ended_anywhere_goes_on_to_the_same_end(
    in_memory: Any, name: str, streaming: bool, way: str
) -> None:
    over, after = False, 0
    while not over:
        after += 1
        over = await play_ended(SCENES[name](), type(in_memory)("memory", Path()), after, way, streaming=streaming)
    assert after > 2
