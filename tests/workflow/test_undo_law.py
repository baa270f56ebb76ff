"""Random graphs that fail for good somewhere, with pauses and crashes, against what their events say (WB-23, WB-6)."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.workflow.random_graphs import NESTED, Plan, World, answer, build, plans

from hookwork import Agent, Content, Event, FunctionResponse, Part
from hookwork.errors import NodeFailed, NothingToResume
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call
from hookwork_workflow import START, Edge, FunctionNode, GraphNode, Join, Workflow, chain

LAW = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

#: Joins have no undo; agents and workflows have ends that are not told by one event.
NOT_TOLD = tuple(f"wf@1/{kind}" for kind in ("join", "stream", "doom", "agent", *NESTED))


def doomed(plan: Plan, world: World, behind: int, undone: list[str]) -> Agent:
    """The workflow of a plan with nodes that can be undone, and one behind another that fails."""

    async def take_back(given: Any) -> None:
        undone.append(repr(given))

    async def doom(value: Any) -> None:
        for _ in range(world.random.randrange(6)):
            await asyncio.sleep(0)
        raise ValueError("doomed")

    edges = build(plan, world).workflow.edges  # type: ignore[attr-defined]
    known: dict[int, Any] = {}

    def undoable(node: Any) -> Any:
        if not isinstance(node, GraphNode) or isinstance(node, Join):
            return node
        if id(node) not in known:
            known[id(node)] = node.replace(undo=take_back)
        return known[id(node)]

    changed = [Edge(undoable(edge.source), undoable(edge.target), edge.route) for edge in edges]
    nodes = {edge.target.name: edge.target for edge in changed}
    return Workflow(
        "wf",
        changed,
        Edge(nodes[plan.name(behind)], FunctionNode(doom, name="doom")),
        max_concurrency=plan.max_concurrency,
    ).as_agent()


def ends_of(events: list[Event]) -> dict[str, int]:
    """Path of a node of the graph → position of its newest end: an output, a route, a marker, or the last answer."""
    found: dict[str, int] = {}
    asked: dict[str, set[str]] = {}
    for position, event in enumerate(events):
        info = event.node_info
        if event.author == "user":
            for response in event.function_responses:
                for path, ids in asked.items():
                    if response.id in ids:
                        ids.discard(response.id or "")
                        if path.startswith("wf@1/hand") and not ids:
                            found[path] = position
            continue
        for request in event.function_calls:
            asked.setdefault(event.path, set()).add(request.id or "")
        ended = event.output is not None or event.routes or (info is not None and info.status == "completed")
        if ended or (info is not None and info.message_as_output):
            for path in {event.path, *((info.output_for or ()) if info is not None else ())}:
                if path.count("/") == 1:
                    found[path] = position
    return found


@LAW
@given(
    plan=plans(max_steps=6),
    behind=st.integers(0, 5),
    crashes=st.lists(st.integers(1, 12), max_size=3),
    data=st.data(),
)
async def test_wb_23_all_that_was_done_is_undone_once_newest_first(
    kit: Any, plan: Plan, behind: int, crashes: list[int], data: st.DataObject
) -> None:
    """Whatever waited or crashed before; a run that does not reach its doom undoes nothing."""
    world, undone = World(data.draw(st.integers(0, 1000))), list[str]()
    number = behind % len(plan.steps)
    lab = kit.Lab(lambda: doomed(plan, world, number, undone))
    arguments: dict[str, Any] = {"message": "go"}
    failed = False
    for _ in range(60):
        lab.store.revive()
        lab.store.crash_after = lab.store.stored + crashes.pop() if crashes else None
        turn = await lab.run(**arguments)
        arguments = {"invocation_id": await lab.first_invocation()}
        if isinstance(turn.error, NothingToResume) and not (await lab.session()).open_calls:
            break
        failed = failed or (isinstance(turn.error, ValueError) and not isinstance(turn.error, NothingToResume))
        if isinstance(turn.error, kit.Crash | OSError | NodeFailed) or failed:
            if isinstance(turn.error, NothingToResume):
                break
            continue
        if waiting := list((await lab.session()).open_calls):
            arguments = {"message": answers(world, [data.draw(st.sampled_from(waiting))])}
        elif turn.error is None:
            break
    events = await lab.events()
    begun = [e.path.removesuffix("/undo@undo") for e in events if is_begun(e) and e.path.endswith("/undo@undo")]
    assert len(begun) == len(set(begun)), "undone twice"
    first = next((position for position, event in enumerate(events) if is_begun(event)), None)
    if first is None:
        assert not undone
        return
    ends = {path: position for path, position in ends_of(events[:first]).items() if not path.startswith(NOT_TOLD)}
    graph_level = [path for path in begun if path.count("/") == 1 and not path.startswith(NOT_TOLD)]
    assert graph_level == sorted(ends, key=lambda path: ends[path], reverse=True)
    assert len(undone) <= len(begun)


def is_begun(event: Event) -> bool:
    info = event.node_info
    return info is not None and bool(info.extra) and (info.extra or {}).get("hookworkUndo") == "begun"


def answers(world: World, ids: list[str]) -> Content:
    parts = []
    for call_id in ids:
        approval = call_id.startswith("wf_tool_confirmation:")
        payload = {"confirmed": True} if approval else {"result": answer(*world.asked[call_id])}
        parts.append(Part(function_response=FunctionResponse(id=call_id, name="adk_request_input", response=payload)))
    return Content(role="user", parts=parts)


@LAW
@given(
    questions=st.lists(st.integers(0, 3), min_size=1, max_size=4),
    parallel=st.booleans(),
    crashes=st.lists(st.integers(1, 10), max_size=3),
)
async def test_wb_6_every_talk_comes_to_its_end_whatever_crashes(
    kit: Any, questions: list[int], parallel: bool, crashes: list[int]
) -> None:
    """Tasks in a row or side by side, each with its own number of questions; nobody's words go to two of them."""

    def talker(number: int) -> LlmAgent:
        def respond(request: Any) -> Any:
            said = [p.text for c in request.contents[1:] if c.role == "user" for p in c.parts if p.text]
            if len(said) < questions[number]:
                return f"question {len(said)}"
            return call("finish_task", result=" ".join(said) or "nothing")

        return LlmAgent(name=f"t{number}", mode="task", model=ScriptedModel(respond))

    def make() -> Agent:
        tasks = [talker(number) for number in range(len(questions))]
        if parallel:
            return Workflow("wf", START >> tuple(tasks) >> Join("all")).as_agent()
        return Workflow("wf", chain(START, *tasks)).as_agent()

    lab = kit.Lab(make)
    left = sum(questions)
    message: Any = "go"
    for words in range(40):
        lab.store.revive()
        lab.store.crash_after = lab.store.stored + crashes.pop() if crashes else None
        before = len(await lab.events()) if words else 0
        turn = await lab.run(message)
        if isinstance(turn.error, kit.Crash):
            stored = await lab.events()
            lab.store.revive()
            if len(stored) > before:
                turn = await lab.run(invocation_id=await lab.first_invocation())
        if isinstance(turn.error, NothingToResume):
            if not (await lab.session()).open_tasks:
                break
        elif turn.error is None and turn.outcome.kind == "completed":
            break
        message = f"w{words}"
    else:
        raise AssertionError("not at its end")
    events = await lab.events()
    assert len({event.invocation_id for event in events}) == 1
    said = [event.text for event in events if event.author == "user" and event.text.startswith("w")]
    assert len(said) == left
    results = {e.path: e.output for e in events if e.output is not None and e.path.startswith("wf@1/t")}
    assert {path: len([w for w in out.split() if w.startswith("w")]) for path, out in results.items()} == {
        f"wf@1/t{number}@1": count for number, count in enumerate(questions)
    }
    heard = [word for output in results.values() for word in output.split() if word.startswith("w")]
    assert sorted(heard) == sorted(said)
