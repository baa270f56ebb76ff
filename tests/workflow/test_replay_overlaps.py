"""Nodes that overlap differently in every run are replayed as they ran (workflow RPL-5, PATH-3, SCH-5, JOIN-1)."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.workflow.graphs import build, check_stored, random_plan

from hookwork.errors import NothingToResume


async def go_to_the_end(lab: Any, rng: random.Random, crash_class: type[BaseException]) -> int:
    """Run, crash behind some stored event, go on, answer what is asked; the number of processes it took."""
    processes = 0
    message: Any = "hi"
    invocation_id: str | None = None
    while processes < 200:
        processes += 1
        stored = lab.store.stored
        lab.store.crash_after = stored + rng.randint(1, 12)
        turn = await lab.run(message, invocation_id=invocation_id)
        if isinstance(turn.error, crash_class):
            lab.store.revive()
            message, invocation_id = None, await lab.first_invocation()
            if (await lab.session()).open_calls and rng.random() < 0.5:
                message, invocation_id = await some_answers(lab, rng), None
            continue
        lab.store.revive()
        if isinstance(turn.error, NothingToResume):
            if not (await lab.session()).open_calls:
                return processes  # it had crashed behind its last event
            message, invocation_id = await some_answers(lab, rng), None
            continue
        if turn.error is not None:
            raise turn.error
        assert turn.outcome is not None
        if turn.outcome.kind == "completed":
            return processes
        assert turn.outcome.kind == "paused"
        message, invocation_id = await some_answers(lab, rng), None
    raise AssertionError("it never came to an end")


async def some_answers(lab: Any, rng: random.Random) -> Any:
    open_calls = list((await lab.session()).open_calls)
    chosen = rng.sample(open_calls, rng.randint(1, len(open_calls)))
    return await lab.answer({call_id: {"result": {"me": f"answer-{call_id}"}} for call_id in chosen})


@pytest.mark.parametrize("seed", range(80))
async def test_rpl_5_crashes_anywhere_lose_and_repeat_no_trigger(kit: Any, seed: int) -> None:
    """SCH-4, JOIN-1: after any crashes each completion went to each successor exactly once."""
    rng = random.Random(seed)
    plan = random_plan(seed, size=rng.randint(3, 9 if seed % 2 == 0 else 12), asks=seed % 2 == 0, inner=seed % 3 == 0)
    ran: list[str] = []
    lab = kit.Lab(lambda: build(plan, rng, ran))
    await go_to_the_end(lab, rng, kit.Crash)
    check_stored(plan, await lab.events())
    with pytest.raises(NothingToResume):
        raise (await lab.run(invocation_id=await lab.first_invocation())).error
