"""Compensation: a workflow that fails for good is undone, newest first (workflow WB-23)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.workflow.flows import Meeting, answered, step

from hookwork import Event, Plugin, Runner
from hookwork.errors import GraphError, NothingToResume
from hookwork_llm import LlmAgent
from hookwork_testkit import ScriptedModel, call
from hookwork_workflow import (
    START,
    Join,
    NodeContext,
    OutputValidationError,
    RequestInput,
    Retry,
    RunawayGraph,
    Workflow,
    node,
    parallel,
    routed,
)


class Diary:
    """What was done and undone, in order; outlives processes."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def booking(self, name: str, *, undo_fails: bool = False, **settings: Any) -> Any:
        """A node that notes that it ran, and how it is undone."""

        async def book(value: Any) -> str:
            self.lines.append(name)
            return f"{name}-id"

        async def cancel(booked: str) -> None:
            self.lines.append(f"undo {booked}")
            if undo_fails:
                raise RuntimeError("no line")

        return node(name=name, undo=cancel, **settings)(book)

    def failing(self, name: str = "fail", fails: list[bool] | None = None) -> Any:
        async def body(value: Any) -> str:
            self.lines.append(name)
            if fails is None or fails.pop(0):
                raise OSError("sold out")
            return "fine"

        return node(name=name)(body)

    @property
    def undone(self) -> list[str]:
        return [line for line in self.lines if line.startswith("undo")]


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/s.db" if request.param == "sqlite" else ""


async def failed(lab: Any, message: Any = "go", **options: Any) -> Any:
    turn = await lab.run(message, **options)
    assert turn.error is not None
    return turn


async def test_wb_23_in_reverse_order_of_completion(kit: Any, url: str) -> None:
    """The run's error stays what it was; each undo gets the output, and is an activation at a place of its own."""
    diary = Diary()
    lab = kit.Lab(
        lambda: Workflow("wf", START >> diary.booking("a") >> diary.booking("b") >> diary.failing()).as_agent(), url=url
    )
    turn = await failed(lab)
    assert isinstance(turn.error, OSError)
    assert (turn.outcome.kind, diary.lines) == ("failed", ["a", "b", "fail", "undo b-id", "undo a-id"])
    ends = [e.path for e in await lab.events() if e.node_info and e.node_info.status == "completed"]
    assert ends == ["wf@1/b@1/undo@undo", "wf@1/a@1/undo@undo"]


async def test_wb_23_concurrent_nodes_by_completion(kit: Any) -> None:
    """Not in the order of the edges; who was cancelled beside the failure is not undone."""
    diary, meeting = Diary(), Meeting()

    def slow(name: str, after: str) -> Any:
        async def book(value: Any) -> str:
            if after:
                await meeting.event(after).wait()
                for _ in range(20):
                    await asyncio.sleep(0)
            meeting.event(name).set()
            return f"{name}-id"

        async def cancel(booked: str) -> None:
            diary.lines.append(f"undo {booked}")

        return node(name=name, undo=cancel)(book)

    async def fail(value: Any) -> None:
        await meeting.event("x").wait()
        for _ in range(20):
            await asyncio.sleep(0)
        raise OSError

    steps = (slow("x", "y"), slow("y", ""), slow("never", "nothing"), node(fail))
    turn = await failed(kit.Lab(Workflow("wf", START >> steps >> Join("all")).as_agent))
    assert isinstance(turn.error, OSError)
    assert diary.lines == ["undo x-id", "undo y-id"]


async def test_wb_23_not_at_a_pause_and_what_earlier_processes_did_too(kit: Any, url: str) -> None:
    diary = Diary()

    @node
    async def ask(value: Any, ctx: NodeContext) -> Any:
        return await ctx.request_input("q", "?")

    lab = kit.Lab(
        lambda: Workflow("wf", START >> diary.booking("a") >> ask >> diary.booking("b") >> diary.failing()).as_agent(),
        url=url,
    )
    turn = await lab.run("go")
    assert (turn.outcome.kind, diary.lines) == ("paused", ["a"])
    with pytest.raises(OSError, match="sold out"):
        await answered(lab, {turn.waits_for[0]: "yes"})
    assert diary.lines == ["a", "b", "fail", "undo b-id", "undo a-id"]


async def test_wb_23_not_when_it_is_stopped_or_limited(kit: Any) -> None:
    """Both can be continued by the invocation's id (RPL-9)."""
    diary = Diary()
    endless = step("again", give=lambda value: value)
    loop = node(name="loop")(lambda value: routed("x", value))
    flow = Workflow(
        "wf", START >> diary.booking("a") >> loop, loop.on({"x": endless}), endless >> loop, max_activations=9
    )
    turn = await failed(kit.Lab(flow.as_agent))
    assert isinstance(turn.error, RunawayGraph)

    @node
    async def hang(value: Any) -> None:
        await asyncio.Event().wait()

    flow = Workflow("wf", START >> diary.booking("b") >> hang)
    async with (
        Runner(flow.as_agent(), sessions="memory:") as runner,
        runner.run(user_id="u", session_id="s", message="go") as run,
    ):
        async for _ in run:
            break
    assert run.outcome.kind == "closed"
    assert diary.undone == []


async def test_wb_23_a_crash_undoes_nothing_and_the_rest_is_undone_after_one(kit: Any, tmp_path: Path) -> None:
    """Behind every stored event: each undo at most once, all in the end but one that was cut; nothing goes on."""

    def build(diary: Diary) -> Any:
        return Workflow("wf", START >> diary.booking("a") >> diary.booking("b") >> diary.failing()).as_agent()

    whole = kit.Lab(lambda: build(Diary()))
    await failed(whole)
    stored = len(await whole.events())
    for url in ("", f"sqlite:///{tmp_path}/"):
        for crash_after in range(1, stored + 1):
            diary = Diary()
            lab = kit.Lab(lambda diary=diary: build(diary), url=url and f"{url}{crash_after}.db")
            lab.store.crash_after = crash_after
            turn = await lab.run("go")
            before = list(diary.undone)
            for _ in range(3):
                if isinstance(turn.error, NothingToResume):
                    break
                lab.store.revive()
                turn = await lab.run(invocation_id=await lab.first_invocation())
            assert isinstance(turn.error, NothingToResume), crash_after
            begun = sum(
                1
                for e in await lab.events()
                if e.path.endswith("undo@undo") and "hookworkUndo" in (e.node_info.extra or {})
            )
            assert begun == 2
            assert len(set(diary.undone)) == len(diary.undone), (crash_after, before)
            assert set(diary.undone) <= {"undo a-id", "undo b-id"}
            assert len(diary.undone) >= 1
            assert diary.lines.index(diary.undone[0]) == len(diary.lines) - len(diary.undone)


async def test_wb_23_an_undo_that_fails_is_recorded_and_the_others_run(kit: Any) -> None:
    diary = Diary()
    lab = kit.Lab(
        lambda: Workflow(
            "wf", START >> diary.booking("a") >> diary.booking("b", undo_fails=True) >> diary.failing()
        ).as_agent()
    )
    turn = await failed(lab)
    assert isinstance(turn.error, OSError)
    assert diary.undone == ["undo b-id", "undo a-id"]
    errors = {e.path: e.error_code for e in await lab.events() if e.error_code}
    assert errors == {"wf@1/fail@1": "OSError", "wf@1/b@1/undo@undo": "RuntimeError"}


async def test_wb_23_an_undone_run_is_over_and_the_next_message_begins_anew(kit: Any, url: str) -> None:
    diary = Diary()
    fails = [True, False]
    lab = kit.Lab(
        lambda: Workflow("wf", START >> diary.booking("a") >> diary.failing(fails=fails) >> step("end")).as_agent(),
        url=url,
    )
    await failed(lab)
    again = await lab.run(invocation_id=await lab.first_invocation())
    assert isinstance(again.error, NothingToResume)
    turn = await lab.run("once more")
    assert turn.outcome.output == "end(fine)"
    assert diary.lines == ["a", "fail", "undo a-id", "a", "fail"]


async def test_wb_23_retries_come_first(kit: Any) -> None:
    """Of the failing node, and of a whole workflow: only a failure for good undoes (FAIL-5)."""
    diary = Diary()
    retry = Retry(max_attempts=2, initial_delay=0, jitter=0)
    flow = Workflow("wf", START >> diary.booking("a") >> diary.failing(fails=[True, False]), retry=retry)
    assert (await kit.Lab(flow.as_agent).run("go")).error is None
    assert diary.lines == ["a", "fail", "fail"]
    diary = Diary()
    flow = Workflow("wf", START >> diary.booking("a") >> diary.failing(), retry=retry)
    await failed(kit.Lab(flow.as_agent))
    assert diary.lines == ["a", "fail", "fail", "undo a-id"]
    diary = Diary()
    inner = Workflow("inner", START >> diary.booking("a") >> diary.failing(fails=[True, False]), retry=retry)
    await failed(kit.Lab(Workflow("wf", START >> inner >> diary.failing("last")).as_agent))
    assert diary.lines == ["a", "fail", "fail", "last", "undo a-id"]


async def test_wb_23_nested_items_and_children_are_undone(kit: Any, url: str) -> None:
    """Of inner workflows, of nodes for each item, and of what bodies started; a body's own undo comes before them."""
    diary = Diary()

    async def trip(value: Any, ctx: NodeContext) -> str:
        await ctx.run_node(diary.booking("hotel"))
        return await ctx.run_node(diary.booking("car"))

    async def cancel_trip(given: str) -> None:
        diary.lines.append(f"undo trip {given}")

    def build() -> Any:
        each = parallel(diary.booking("item"), max_workers=1, name="items")
        inner = Workflow("inner", START >> diary.booking("x") >> step("list", give=lambda value: [1, 2]) >> each)
        return Workflow("wf", START >> inner >> node(trip, undo=cancel_trip) >> diary.failing()).as_agent()

    lab = kit.Lab(build, url=url)
    await failed(lab)
    assert diary.undone == [
        *("undo trip car-id", "undo car-id", "undo hotel-id"),
        *("undo item-id", "undo item-id", "undo x-id"),
    ]


async def test_wb_23_a_workflow_as_a_tool_is_undone_when_the_call_fails(kit: Any) -> None:
    """The model is told of the error; its next call is another one."""
    diary = Diary()

    def respond(request: Any) -> Any:
        done = [p.function_response for c in request.contents for p in c.parts if p.function_response is not None]
        return "sorry" if done else call("wf", input="go")

    def build() -> Any:
        flow = Workflow("wf", START >> diary.booking("a") >> diary.failing(), description="Books.")
        return LlmAgent(name="root", model=ScriptedModel(respond), tools=[flow.as_tool()])

    turn = await kit.Lab(build).run("book")
    assert turn.error is None
    assert turn.events[-1].text == "sorry"
    assert diary.lines == ["a", "fail", "undo a-id"]


async def test_wb_23_an_inner_failure_that_a_body_handles_undoes_nothing(kit: Any) -> None:
    diary = Diary()

    @node
    async def careful(value: Any, ctx: NodeContext) -> str:
        try:
            return await ctx.run_node(Workflow("inner", START >> diary.booking("a") >> diary.failing()))
        except Exception:
            return "otherwise"

    turn = await kit.Lab(Workflow("wf", START >> careful).as_agent).run("go")
    assert turn.outcome.output == "otherwise"
    assert diary.undone == []


async def test_wb_23_an_answer_handed_off_is_undone_with_it(kit: Any) -> None:
    diary = Diary()

    async def take_back(answer: Any) -> None:
        diary.lines.append(f"undo {answer}")

    async def ask(value: Any) -> RequestInput:
        return RequestInput(interrupt_id="q", message="?")

    lab = kit.Lab(lambda: Workflow("wf", START >> node(ask, undo=take_back) >> diary.failing()).as_agent())
    await lab.run("go")
    with pytest.raises(OSError, match="sold out"):
        await answered(lab, {"q": "yes"})
    assert diary.undone == ["undo yes"]


async def test_wb_23_a_bad_output_of_the_whole_workflow_undoes(kit: Any) -> None:
    """NODE-4: it fails after its last node has run."""
    diary = Diary()
    flow = Workflow("wf", START >> diary.booking("a") >> Join("one"), output_schema=int)
    turn = await failed(kit.Lab(flow.as_agent))
    assert isinstance(turn.error, OutputValidationError)
    assert diary.lines == ["a", "undo a-id"]


async def test_hk_2_an_undo_is_a_node_with_hooks(kit: Any) -> None:
    """A node of its own may say how it is tried again."""
    seen: list[str] = []
    tries: list[int] = []

    class Watch(Plugin):
        async def before_node(self, ctx: NodeContext, input: Any) -> None:
            seen.append(f"{ctx.path} {input}")

    @node(retry=Retry(initial_delay=0, jitter=0))
    async def cancel(given: str) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise OSError

    @node(undo=cancel)
    async def book(value: str) -> str:
        return "id"

    @node
    async def fail(value: str) -> None:
        raise ValueError("no")

    turn = await kit.Lab(Workflow("wf", START >> book >> fail).as_agent).run("go", plugins=[Watch()])
    assert isinstance(turn.error, ValueError)
    assert seen == ["wf@1/book@1 go", "wf@1/fail@1 id", "wf@1/book@1/undo@undo id"]
    assert len(tries) == 3


async def test_wb_23_without_undo_a_failed_run_goes_on_by_its_id(kit: Any) -> None:
    """Nothing is added to what is stored."""
    diary = Diary()
    fails = [True, False]
    lab = kit.Lab(lambda: Workflow("wf", START >> step("a") >> diary.failing(fails=fails)).as_agent())
    await failed(lab)
    events: list[Event] = await lab.events()
    assert [event.path for event in events] == ["", "wf@1/a@1", "wf@1/fail@1"]
    turn = await lab.run(invocation_id=await lab.first_invocation())
    assert turn.outcome.output == "fine"


def test_wb_23_what_undoes_is_a_function_or_a_node() -> None:
    with pytest.raises(GraphError, match="undo of a node"):
        node(name="x", undo=3)(lambda value: value)


async def test_wb_27_a_picture_shows_what_was_undone(kit: Any) -> None:
    from hookwork_workflow.statuses import statuses_of

    diary = Diary()
    flow = Workflow(
        "wf", START >> diary.booking("a") >> diary.booking("b", undo_fails=True) >> step("c") >> diary.failing()
    )
    lab = kit.Lab(flow.as_agent)
    await failed(lab)
    session = await lab.session()
    found = {names[-1]: status for names, status in statuses_of(session).items() if len(names) == 2}
    assert found == {"a": "undone", "b": "failed", "c": "done", "fail": "failed"}
    assert "class a undone" in flow.to_mermaid(session)
