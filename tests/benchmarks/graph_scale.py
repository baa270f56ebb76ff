"""Graphs by size, beside the peers: a line, a fan-out into a join, and the resume of a long run (issue 8, S9).

    python tests/benchmarks/graph_scale.py [--line N …] [--fan N …] [--resume N …]
    PEERS_DIR=<folder of environments> python tests/benchmarks/graph_scale.py --peers adk,langgraph,pydantic_ai

Prints microseconds a node, the median of a few runs, each cell in a fresh process; the columns take turns, so that all
figures are of one stretch of time. ``resume``: a run of N nodes that stopped for a person at its end goes on. A peer
without environment in ``PEERS_DIR`` is left out; the environments are those of the peer benchmark.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

#: Runs of one cell; the median counts. Long ones run once.
RUNS = 5
Go = Callable[[], Awaitable[int]]


class Absent(Exception):
    """The peer has no such thing."""


async def hookwork(kind: str, size: int) -> Go:
    from hookwork import FunctionResponse, Part, Runner
    from hookwork_workflow import START, Join, RequestInput, Workflow, chain, node

    async def first(text: str) -> int:
        return 1

    async def step(x: int) -> int:
        return x + 1

    async def total(found: dict[str, Any]) -> int:
        return len(found) + 1

    async def ask(x: int) -> RequestInput:
        return RequestInput(message="go on?")

    async def last(answer: int) -> int:
        return answer

    steps = [node(step, name=f"n{i}") for i in range(1, size)]
    head = node(first, name="n0")
    if kind == "fan":
        edges = START >> head >> tuple(steps) >> Join("all") >> node(total)
    else:
        edges = chain(START, head, *steps, *([node(ask), node(last)] if kind == "resume" else []))
    runner = Runner(Workflow("flow", edges, max_activations=size + 10).as_agent(), sessions="memory:")

    async def run(message: Any, session_id: str) -> tuple[int, Any]:
        output = 0
        async with runner.run(user_id="u", session_id=session_id, message=message) as events:
            async for event in events:
                output = event.output
        return output, events.outcome

    if kind != "resume":

        async def go() -> int:
            return (await run("x", uuid.uuid4().hex))[0]

        return go
    waiting = []
    for _ in range(RUNS):
        session_id = uuid.uuid4().hex
        _, outcome = await run("x", session_id)
        waiting.append((session_id, outcome.open_calls[0]))

    async def resume() -> int:
        session_id, call = waiting.pop()
        answer = FunctionResponse(id=call.id, name=call.name, response={"result": size})
        return (await run([Part(function_response=answer)], session_id))[0]

    return resume


async def adk(kind: str, size: int) -> Go:
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService
    from google.adk.workflow import START, FunctionNode, JoinNode, Workflow
    from google.genai import types

    def first(node_input: types.Content) -> int:
        return 1

    def step(node_input: int) -> int:
        return node_input + 1

    def total(node_input: dict) -> int:
        return len(node_input) + 1

    if kind == "resume":
        raise Absent
    steps = [FunctionNode(func=step, name=f"n{i}") for i in range(1, size)]
    head = FunctionNode(func=first, name="n0")
    if kind == "fan":
        edges = [(START, head, tuple(steps), JoinNode(name="all"), FunctionNode(func=total, name="total"))]
    else:
        edges = [(START, head, *steps)]
    service = InMemorySessionService()
    runner = Runner(app_name="bench", node=Workflow(name="flow", edges=edges), session_service=service)

    async def go() -> int:
        session = await service.create_session(app_name="bench", user_id="u")
        message = types.Content(role="user", parts=[types.Part(text="x")])
        output = 0
        async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message):
            output = event.output if event.output is not None else output
        return output

    return go


async def langgraph(kind: str, size: int) -> Go:
    from operator import add
    from typing import Annotated, TypedDict

    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Command, interrupt

    State = TypedDict("State", {"x": Annotated[int, add]})  # noqa: UP013 - the annotations of a local class stay text
    graph = StateGraph(State)

    async def step(state: Any) -> dict[str, int]:
        return {"x": 1}

    async def ask(state: Any) -> dict[str, int]:
        interrupt("go on?")
        return {"x": 0}

    names = [f"n{i}" for i in range(size)]
    for name in names:
        graph.add_node(name, step)
    if kind == "fan":
        graph.add_edge(START, "n0")
        for name in names[1:]:
            graph.add_edge("n0", name)
            graph.add_edge(name, END)
    else:
        ends = [*names, "ask"] if kind == "resume" else names
        if kind == "resume":
            graph.add_node("ask", ask)
        for before, after in zip([START, *ends], [*ends, END], strict=True):
            graph.add_edge(before, after)
    app = graph.compile(checkpointer=InMemorySaver())

    def config() -> dict[str, Any]:
        return {"configurable": {"thread_id": uuid.uuid4().hex}, "recursion_limit": size + 100}

    async def go() -> int:
        return (await app.ainvoke({"x": 0}, config()))["x"]

    if kind != "resume":
        return go
    waiting = [config() for _ in range(RUNS)]
    for one in waiting:
        await app.ainvoke({"x": 0}, one)

    async def resume() -> int:
        return (await app.ainvoke(Command(resume=1), waiting.pop()))["x"]

    return resume


async def pydantic_ai(kind: str, size: int) -> Go:
    from pydantic_graph import GraphBuilder, StepContext

    if kind != "line":
        raise Absent
    builder = GraphBuilder(state_type=type(None), input_type=int, output_type=int)
    steps = []
    for i in range(size):

        async def step(ctx: StepContext[None, None, int]) -> int:
            return ctx.inputs + 1

        steps.append(builder.step(step, node_id=f"n{i}"))
    ends = [builder.start_node, *steps, builder.end_node]
    builder.add(*(builder.edge_from(before).to(after) for before, after in pairwise(ends)))
    graph = builder.build()

    async def go() -> int:
        return await graph.run(inputs=0)

    return go


COLUMNS = {"hookwork": hookwork, "adk": adk, "langgraph": langgraph, "pydantic_ai": pydantic_ai}


async def measure(column: str, kind: str, size: int) -> float | None:
    """Microseconds a node; None when the peer has no such thing."""
    try:
        go = await COLUMNS[column](kind, size)
    except Absent:
        return None
    taken = []
    for _ in range(RUNS):
        start = time.perf_counter()
        output = await go()
        taken.append(time.perf_counter() - start)
        assert output == size, (output, size)
        if sum(taken) > 10:
            break
    return statistics.median(taken) / size * 1e6


def cell(python: str, column: str, kind: str, size: int) -> float | None:
    done = subprocess.run(
        [python, __file__, "--cell", column, kind, str(size)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return None
    found: float | None = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--line", type=int, nargs="*", default=[100, 1000, 10_000])
    parser.add_argument("--fan", type=int, nargs="*", default=[100, 1000])
    parser.add_argument("--resume", type=int, nargs="*", default=[100, 1000])
    parser.add_argument("--peers", default="", help="columns beside Hookwork's, by comma")
    parser.add_argument("--cell", nargs=3, metavar=("COLUMN", "KIND", "SIZE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cell:
        column, kind, size = given.cell
        print(json.dumps(asyncio.run(measure(column, kind, int(size)))))
        return
    peers = Path(os.environ.get("PEERS_DIR", "."))
    pythons = {"hookwork": sys.executable}
    for name in filter(None, given.peers.split(",")):
        pythons[name] = str(peers / name / "bin" / "python")
    print(f"{'':>12}" + "".join(f"{name:>14}" for name in pythons))
    for kind in ("line", "fan", "resume"):
        for size in getattr(given, kind):
            cells = {name: cell(python, name, kind, size) for name, python in pythons.items()}
            shown = (f"{value:>11.1f} µs" if value is not None else f"{'–':>14}" for value in cells.values())
            print(f"{kind + ' ' + str(size):>12}" + "".join(shown), flush=True)


if __name__ == "__main__":
    main()
