"""Pictures of graphs and agents (WB-27): Mermaid text, read by a real Mermaid renderer, with the state of sessions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookwork import Agent, Event, FunctionResponse, NodeInfo, Part, Runner, text_content
from hookwork.cli import main
from hookwork.errors import ConfigurationError, InvocationNotFoundError
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, call
from hookwork_workflow import (
    DEFAULT,
    START,
    Edge,
    FunctionNode,
    GraphNode,
    Join,
    LoopAgent,
    ParallelAgent,
    RequestInput,
    SequentialAgent,
    Workflow,
    compile_graph,
    node,
)
from hookwork_workflow.picture import STYLES, rendered, to_mermaid
from hookwork_workflow.statuses import statuses_of


def named(name: str) -> FunctionNode[Any, Any, Any]:
    async def body(value: Any) -> Any:
        return value

    return FunctionNode(body, name=name)


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


def drawn(text: str) -> str:
    """The picture as a Mermaid renderer draws it: proof that it is Mermaid."""
    pytest.importorskip("mmdr", reason="the extra hookwork-workflow[picture] is not installed")
    return rendered(text, "svg").decode()


class Holder(GraphNode[Any, Any]):
    def __init__(self, name: str, **held: Any) -> None:
        self.name = name
        vars(self).update(held)

    async def run(self, ctx: Any, input: Any) -> Any:
        yield Event()


def test_wb_27_a_graph_as_mermaid() -> None:
    city, weather, tips, write, fix = (named(name) for name in ("city", "weather", "tips", "write", "fix"))
    edges = START >> city >> (weather, tips) >> Join("both") >> write
    text = to_mermaid(compile_graph("brief", [edges, write.on({"bug": fix, (1, True): city, DEFAULT: tips})]))
    assert lines(text) == [
        "flowchart TD",
        'START(["START"])',
        'city["city"]',
        'weather["weather"]',
        'tips["tips"]',
        'both{{"both"}}',
        'write["write"]',
        'fix["fix"]',
        "START --> city",
        "city --> weather",
        "city --> tips",
        "weather --> both",
        "tips --> both",
        "both --> write",
        'write --> |"bug"| fix',
        'write --> |"1 | true"| city',
        'write -.-> |"DEFAULT"| tips',
    ]
    svg = drawn(text)
    for label in ("START", "city", "both", "bug", "DEFAULT"):
        assert f">{label}<" in svg


def test_wb_27_optional_edges_and_directions() -> None:
    a, both = named("a"), Join("both")
    graph = compile_graph("g", [START >> a, Edge(a, both, "x", optional=True)])
    assert 'a -.-> |"x"| both' in lines(to_mermaid(graph, direction="LR"))
    assert lines(to_mermaid(graph, direction="LR"))[0] == "flowchart LR"
    with pytest.raises(ConfigurationError, match="direction of a picture"):
        to_mermaid(graph, direction="up")


def test_wb_27_a_workflow_inside_is_a_group_with_names_of_its_own() -> None:
    inner = Holder("inner", graph=compile_graph("inner", START >> named("a") >> named("b")))
    text = to_mermaid(compile_graph("outer", START >> named("a") >> inner))
    assert lines(text) == [
        "flowchart TD",
        'START(["START"])',
        'a["a"]',
        'subgraph inner["inner"]',
        'inner_START(["START"])',
        'inner_a["a"]',
        'b["b"]',
        "end",
        "inner_START --> inner_a",
        "inner_a --> b",
        "START --> a",
        "a --> inner",
    ]
    assert drawn(text).count(">a<") == 2


def test_wb_27_agents() -> None:
    @tool
    def look() -> str:
        """Looks."""
        return "seen"

    desk = LlmAgent(
        name="desk",
        model="offline",
        tools=[look],
        sub_agents=[
            SequentialAgent(
                name="work",
                sub_agents=[
                    ParallelAgent(name="ask", sub_agents=[agent("one"), agent("two")]),
                    LoopAgent(name="polish", sub_agents=[agent("write"), agent("judge")], max_iterations=3),
                ],
            )
        ],
    )
    text = to_mermaid(desk)
    assert lines(text) == [
        "flowchart TD",
        'desk[["desk"]]',
        'subgraph work["work"]',
        'subgraph ask["ask"]',
        'one[["one"]]',
        'two[["two"]]',
        "end",
        'subgraph polish["polish"]',
        'write[["write"]]',
        'judge[["judge"]]',
        "end",
        "end",
        'look[/"look"/]',
        "write --> judge",
        'judge -.-> |"up to 3 times"| write',
        "ask --> polish",
        'desk -.-> |"transfer"| work',
        "desk -.-> look",
    ]
    assert ">polish<" in drawn(text)


def test_wb_27_an_agent_as_node_is_drawn_with_what_it_holds() -> None:
    composed = SequentialAgent(name="seq", sub_agents=[agent("a"), agent("b")])
    text = to_mermaid(compile_graph("wf", START >> Holder("seq", agent=composed)))
    assert 'subgraph seq["seq"]' in lines(text)
    assert "START --> seq" in lines(text)
    assert "a --> b" in lines(text)


def test_wb_27_other_things_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="a picture is drawn of an agent, a node or a graph, not of 5"):
        to_mermaid(5)
    with pytest.raises(ConfigurationError, match="svg or png, not 'gif'"):
        rendered("flowchart TD", "gif")


def test_wb_27_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mmdr", None)
    with pytest.raises(ConfigurationError, match=r'pip install "hookwork-workflow\[picture\]"'):
        rendered("flowchart TD", "svg")


@pytest.mark.parametrize("name", ["end", "graph", "style", "default", "class", "click", "START_", "o", "x"])
def test_wb_27_names_that_mermaid_reserves(name: str) -> None:
    text = to_mermaid(compile_graph("g", START >> named(name) >> named("next")))
    assert f">{name}<" in drawn(text)


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12))
def test_wb_27_law_any_route_is_drawn(route: str) -> None:
    """A route is free text: whatever it is, the picture stays one, with the same boxes."""
    a, b = named("a"), named("b")
    text = to_mermaid(compile_graph("g", [START >> a, Edge(a, b, route)]))
    assert drawn(text).count(">a<") >= 1


def agent(name: str, *, fails: bool = False) -> Agent:
    async def body(ctx: Any) -> Any:
        if fails:
            raise OSError("no")
        yield Event(content=text_content(name), node_info=NodeInfo(status="completed"))

    return Agent(name=name, body=body)


@tool(require_confirmation=True)
def publish() -> str:
    """Publishes."""
    return "out"


async def test_wb_27_the_state_of_a_stored_session() -> None:
    """Done, waiting and failed, read off the events alone; after the answer again."""
    editor = LlmAgent(name="editor", model=ScriptedModel([call("publish"), "It is out."]), tools=[publish])
    both = ParallelAgent(name="both", sub_agents=[editor, agent("judge")])
    root = SequentialAgent(name="desk", sub_agents=[agent("draft"), both, agent("end")])
    async with Runner(root, sessions="memory:") as runner:
        ids = {"app_name": "desk", "user_id": "u", "session_id": "s"}
        outcome = await runner.run(user_id="u", session_id="s", message="hi").wait()
        session = await runner.sessions.get_session(**ids)
        found = statuses_of(session)
        assert found["desk", "draft"] == "done"
        assert found["desk", "both", "editor"] == "waiting"
        assert found["desk", "both", "judge"] == "done"
        assert found[("desk",)] == found["desk", "both"] == "waiting"
        assert ("desk", "end") not in found
        text = to_mermaid(root, session)
        assert "class draft,judge done" in lines(text)
        assert "class both,desk,editor waiting" in [_sorted(line) for line in lines(text)]
        assert f"classDef done {STYLES['done']}" in lines(text)
        assert STYLES["waiting"].split(",")[0].removeprefix("fill:") in drawn(text)
        [question] = outcome.open_calls
        answer = FunctionResponse(id=question.id, name=question.name, response={"confirmed": True})
        await runner.run(user_id="u", session_id="s", message=[Part(function_response=answer)]).wait()
        found = statuses_of(await runner.sessions.get_session(**ids))
        assert found["desk", "both", "editor"] == found["desk", "end"] == "done"
        with pytest.raises(InvocationNotFoundError, match="has no invocation 'other'"):
            statuses_of(session, "other")


def _sorted(line: str) -> str:
    head, _, tail = line.partition(" ")
    if head != "class":
        return line
    names, _, status = tail.rpartition(" ")
    return f"class {','.join(sorted(names.split(',')))} {status}"


async def test_wb_27_the_state_of_a_graph() -> None:
    """Done, waiting, failed, and what was begun beside a failure; an answered question is done without an event."""
    fails = True

    async def lookup(x: Any) -> str:
        if fails:
            raise OSError("the line is dead")
        return "found"

    async def first(x: Any) -> str:
        return "first"

    async def ask(x: Any) -> RequestInput:
        return RequestInput(interrupt_id="ask", message="?")

    async def after(x: Any) -> str:
        return f"after {x}"

    inner = Workflow("inner", START >> node(first) >> node(ask) >> node(after))
    flow = Workflow("flow", START >> inner >> node(lookup))
    ids = {"app_name": "flow", "user_id": "u", "session_id": "s"}
    async with Runner(flow.as_agent(), sessions="memory:") as runner:
        await runner.run(user_id="u", session_id="s", message="go").wait()
        waiting = statuses_of(await runner.sessions.get_session(**ids))
        assert waiting["flow", "inner", "first"] == "done"
        assert waiting["flow", "inner", "ask"] == waiting["flow", "inner"] == "waiting"
        assert ("flow", "lookup") not in waiting
        answer = Part(function_response=FunctionResponse(id="ask", name="adk_request_input", response={"result": "x"}))
        with pytest.raises(OSError, match="the line is dead"):
            await runner.run(user_id="u", session_id="s", message=[answer]).wait()
        session = await runner.sessions.get_session(**ids)
        failed = statuses_of(session)
        assert failed["flow", "inner", "ask"] == failed["flow", "inner", "after"] == failed["flow", "inner"] == "done"
        assert failed["flow", "lookup"] == "failed"
        assert "class lookup failed" in lines(flow.to_mermaid(session))
        fails = False
        await runner.run(user_id="u", session_id="s", invocation_id=session.events[0].invocation_id).wait()
        assert statuses_of(await runner.sessions.get_session(**ids))["flow", "lookup"] == "done"


async def test_wb_27_a_held_message_does_not_hide_the_run_that_waits() -> None:
    """ANS-7: it is an invocation of its own, in which nothing ran."""

    async def ask(x: Any) -> RequestInput:
        return RequestInput(interrupt_id="ask", message="?")

    flow = Workflow("flow", START >> node(ask))
    async with Runner(flow.as_agent(), sessions="memory:") as runner:
        for message in ("go", "hello?"):
            await runner.run(user_id="u", session_id="s", message=message).wait()
        session = await runner.sessions.get_session(app_name="flow", user_id="u", session_id="s")
        assert statuses_of(session)["flow", "ask"] == "waiting"


async def test_wb_27_an_empty_session_colours_nothing() -> None:
    root = agent("root")
    async with Runner(root, sessions="memory:") as runner:
        session = await runner.sessions.create_session(app_name="root", user_id="u")
        assert to_mermaid(root, session) == to_mermaid(root)


APP = """
from hookwork import Agent, Event, text_content
from hookwork_workflow import SequentialAgent

async def body(ctx):
    yield Event(content=text_content("done"))

root = SequentialAgent(name="desk", sub_agents=[Agent(name="draft", body=body), Agent(name="send", body=body)])
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "desk_app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path  # type: ignore[misc]
    sys.modules.pop("desk_app", None)


def test_wb_27_hookwork_graph_prints_mermaid(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "desk_app:root", "--direction", "LR"]) == 0
    out = capsys.readouterr().out
    assert lines(out)[0] == "flowchart LR"
    assert "draft --> send" in lines(out)


def test_wb_27_hookwork_graph_writes_pictures(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mmdr", reason="the extra hookwork-workflow[picture] is not installed")
    assert main(["graph", "desk_app:root", "--svg", "flow.svg", "--png", "flow.png"]) == 0
    assert capsys.readouterr().out == ""
    assert b"<svg" in (project / "flow.svg").read_bytes()[:200]
    assert (project / "flow.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_wb_27_hookwork_graph_shows_a_session(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import asyncio

    url = f"sqlite:///{project / 's.db'}"

    async def run() -> None:
        from hookwork.resolve import load_agent

        async with Runner(load_agent("desk_app:root"), sessions=url) as runner:
            await runner.run(user_id="console_user", session_id="s1", message="hi").wait()

    asyncio.run(run())
    assert main(["graph", "desk_app:root", "--sessions", url, "--session", "s1"]) == 0
    assert "class draft,send done" in lines(capsys.readouterr().out)
    assert main(["graph", "desk_app:root", "--sessions", url, "--session", "other"]) == 1
    assert "other" in capsys.readouterr().err


def test_wb_27_an_invocation_needs_its_session(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "desk_app:root", "--invocation", "e1"]) == 64
    assert "--invocation needs --session" in capsys.readouterr().err
