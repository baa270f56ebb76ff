"""The soak: 100,000 turns over 1,000 sessions; what remains when the sessions were deleted (issue 3).

    python tests/benchmarks/soak.py                       # 100,000 turns over 1,000 sessions
    python tests/benchmarks/soak.py --turns 5000 --sessions 50 --waves 5

The sessions come in waves; each wave is run concurrently, then deleted. After each wave, with garbage collected, the
process must hold as much as after the first ones: memory, objects, tasks, asynchronous generators, open files. Turns
call a tool, stream, are left early, stopped and cancelled, in the proportions of `_WAYS`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import AsyncGeneratorType
from typing import Any

import msgspec

from hookwork import Content, FunctionCall, ModelResponse, Part, RunConfig, Runner, Settings
from hookwork.model import Model, ModelRequest
from hookwork_llm import LlmAgent

#: How the turns of a session go, in turn.
_WAYS = ("whole", "whole", "whole", "streamed", "whole", "left", "streamed", "stopped", "whole", "cancelled")
_USER = "soak"


class Left(msgspec.Struct):
    """What the process holds at one moment. ``memory``: resident bytes (0 where the system does not tell)."""

    memory: int
    objects: int
    tasks: int
    generators: int
    files: int

    def __str__(self) -> str:
        return (
            f"{self.memory / 1e6:8.1f} MB {self.objects:9d} objects {self.tasks:3d} tasks "
            f"{self.generators:3d} generators {self.files:3d} files"
        )


class Stub(Model):
    """Calls the tool when a person spoke, and answers when the tool did; holds nothing."""

    name = "stub"

    async def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        await asyncio.sleep(0)
        last = request.contents[-1]
        if last.function_responses:
            parts = [Part(text="The sky is clear.")]
        else:
            parts = [Part(function_call=FunctionCall(name="look", args={"at": "the sky"}))]
        if stream:
            for part in parts:
                yield ModelResponse(content=Content(role="model", parts=[part]), partial=True)
        yield ModelResponse(content=Content(role="model", parts=parts), finish_reason="STOP")


async def look(at: str) -> dict[str, str]:
    """Look at something."""
    await asyncio.sleep(0)
    return {at: "clear"}


def held() -> Left:
    """What the process holds now, garbage collected."""
    for _ in range(3):
        gc.collect()
    objects = gc.get_objects()
    statm = Path("/proc/self/statm")
    files = Path("/proc/self/fd")
    return Left(
        memory=int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0,
        objects=len(objects),
        tasks=len(asyncio.all_tasks()),
        generators=sum(isinstance(one, AsyncGeneratorType) for one in objects),
        files=len(list(files.iterdir())) if files.exists() else 0,
    )


async def turn(runner: Runner, session_id: str, number: int) -> None:
    """One turn, taken to its end or cut."""
    way = _WAYS[number % len(_WAYS)]
    config = RunConfig(streaming_mode="sse" if way == "streamed" else "none")
    run = runner.run(user_id=_USER, session_id=session_id, message=f"turn {number}", config=config)
    if way in ("whole", "streamed"):
        await run.wait()
    elif way == "cancelled":
        task = asyncio.create_task(run.wait())
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    else:
        async with run:
            await anext(aiter(run))
            if way == "stopped":
                await asyncio.create_task(run.stop())


async def session(runner: Runner, session_id: str, turns: int) -> None:
    """The turns of one session, and its end."""
    for number in range(turns):
        await turn(runner, session_id, number)
    await runner.sessions.delete_session(app_name=runner.app_name, user_id=_USER, session_id=session_id)


async def soak(
    *, turns: int = 100_000, sessions: int = 1_000, waves: int = 20, url: str = "memory:", quiet: bool = True
) -> list[Left]:
    """Run the soak; what the process held after each wave.

    Args:
        turns, sessions: how many in all; the turns are spread evenly.
        waves: how many groups of sessions run one after the other.
        url: the session service.

    Raises:
        ValueError: the numbers do not divide evenly.
    """
    if sessions % waves or turns % sessions:
        raise ValueError(f"{turns} turns, {sessions} sessions and {waves} waves do not divide evenly")
    agent = LlmAgent(name="soak", model=Stub(), instruction="Look when you are asked.", tools=[look])
    found: list[Left] = []
    gc.collect()
    gc.freeze()  # what the process held before is not counted: beside it, growth could not be seen
    try:
        await _waves(agent, found, turns=turns, sessions=sessions, waves=waves, url=url, quiet=quiet)
    finally:
        gc.unfreeze()
    return found


async def _waves(
    agent: LlmAgent, found: list[Left], *, turns: int, sessions: int, waves: int, url: str, quiet: bool
) -> None:
    async with Runner(agent, sessions=url, settings=Settings()) as runner:
        for wave in range(waves):
            ids = [f"w{wave}-{i}" for i in range(sessions // waves)]
            await asyncio.gather(*[session(runner, name, turns // sessions) for name in ids])
            found.append(held())
            if not quiet:
                print(f"wave {wave + 1:3d}: {found[-1]}", flush=True)


#: What other code of the process may add meanwhile: a session that was kept is hundreds of objects.
_NOISE = {"memory": 0, "objects": 200}


def faults(found: list[Left], *, slack: float = 0.02) -> list[str]:
    """What grew from the second wave (everything is loaded by then) to the last one; empty when nothing did.

    ``slack``: share by which memory and objects may differ: allocators and interned texts move a little.
    """
    first, last = found[1], found[-1]
    growing = [
        f"{name} grew from {getattr(first, name)} to {getattr(last, name)}"
        for name in ("memory", "objects")
        if getattr(last, name) > getattr(first, name) * (1 + slack) + _NOISE[name]
    ]
    return growing + [
        f"{getattr(last, name) - getattr(first, name)} more {name} than after the second wave"
        for name in ("tasks", "generators", "files")
        if getattr(last, name) > getattr(first, name)
    ]


def main() -> int:
    """Run it from the command line; 1 when something grew."""
    parser = argparse.ArgumentParser(description="Many turns over many sessions: what remains.")
    parser.add_argument("--turns", type=int, default=100_000)
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument("--waves", type=int, default=20)
    parser.add_argument("--url", default="memory:", help="session service, e.g. sqlite:///soak.db")
    chosen: Any = parser.parse_args()
    found = asyncio.run(
        soak(turns=chosen.turns, sessions=chosen.sessions, waves=chosen.waves, url=chosen.url, quiet=False)
    )
    grown = faults(found)
    print("\n".join(grown) or "flat")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
