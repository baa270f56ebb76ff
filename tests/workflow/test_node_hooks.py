"""Hooks, effects, spans and context of node activations (workflow HK-2 … HK-6; tools-plugins ARD-5, EFF-3, EFF-8)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.workflow.flows import answers, outputs, run_flow, step

from hookwork import Event, NodeOutcome, Plugin, text_content
from hookwork.errors import PluginError
from hookwork_workflow import (
    MISSING,
    START,
    NodeConfig,
    NodeContext,
    RequestInput,
    Retry,
    Workflow,
    node,
    parallel,
)


class Journal(Plugin):
    """Writes down every node hook."""

    def __init__(self, name: str = "journal", **values: Any) -> None:
        self.name = name
        self.lines: list[str] = []
        self.outcomes: list[Any] = []
        self.values = values

    def _note(self, line: str, hook: str) -> Any:
        self.lines.append(line)
        value = self.values.get(hook)
        if isinstance(value, BaseException):
            raise value
        return value

    async def before_node(self, ctx: Any, input: Any) -> Any:
        return self._note(f"before {ctx.path} {input}", "before_node")

    async def after_node(self, ctx: Any, outcome: Any) -> Any:
        return self._note(f"after {ctx.path} {outcome.output}", "after_node")

    async def on_node_error(self, ctx: Any, error: Exception, attempt: int) -> Any:
        return self._note(f"error {ctx.path} {type(error).__name__} {attempt}", "on_node_error")

    async def on_pause(self, ctx: Any, open_calls: Any) -> None:
        self.lines.append(f"pause {ctx.path} {[call.id for call in open_calls]}")

    @asynccontextmanager
    async def around_node(self, ctx: Any, node: Any, input: Any, stage: Any) -> AsyncIterator[None]:
        self.lines.append(f"enter {ctx.path}")
        try:
            yield
        finally:
            self.lines.append(f"leave {ctx.path}")
            self.outcomes.append(stage.outcome)


async def test_hk_2_the_order_of_the_hooks(kit: Any) -> None:
    journal = Journal()

    @node
    async def work(value: str) -> str:
        journal.lines.append("body")
        return value.upper()

    await run_flow(kit, Workflow("wf", START >> work), plugins=[journal])
    assert journal.lines == ["enter wf@1/work@1", "before wf@1/work@1 hi", "body", "after wf@1/work@1 HI",
                             "leave wf@1/work@1"]  # fmt: skip
    outcome = journal.outcomes[0]
    assert (outcome.value.status, outcome.value.output, outcome.source) == ("completed", "HI", "default")


async def test_hk_2_before_node_counts_as_the_result(kit: Any) -> None:
    """Body and effect are skipped, ``after_node`` and the output check are not; ARD-11 names who decided."""
    journal = Journal(before_node=NodeOutcome(output=3))

    @node
    async def work(value: str) -> int:
        raise AssertionError("the body ran")

    turn = await run_flow(kit, Workflow("wf", START >> work), plugins=[journal])
    assert turn.outcome.output == 3
    assert "after wf@1/work@1 3" in journal.lines
    assert journal.outcomes[0].source == "journal"


async def test_hk_2_before_node_may_route(kit: Any) -> None:
    ran: list[str] = []

    class Router(Plugin):
        name = "router"

        async def before_node(self, ctx: Any, input: Any) -> Any:
            return NodeOutcome(routes=("b",)) if ctx.node.name == "triage" else None

    triage = step("triage")
    flow = Workflow("wf", START >> triage, triage.on({"a": step("a", ran), "b": step("b", ran)}))
    await run_flow(kit, flow, plugins=[Router()])
    assert ran == ["b"]


async def test_hk_2_after_node_replaces_before_validation_and_emission(kit: Any) -> None:
    journal = Journal(after_node=NodeOutcome(output="changed"))

    @node
    async def work(value: str) -> str:
        return value

    turn = await run_flow(kit, Workflow("wf", START >> work), plugins=[journal])
    assert outputs(turn.events) == {"wf@1/work@1": "changed"}
    bad = Journal(after_node=NodeOutcome(output=[1]))
    lab = kit.Lab(Workflow("wf", START >> work).as_agent)
    error = (await lab.run("hi", plugins=[bad])).error
    assert "output validation failed" in str(error)
    assert outputs(await lab.events()) == {}


async def test_hk_2_after_node_of_a_body_without_output(kit: Any) -> None:
    journal = Journal(after_node=NodeOutcome(output="made up"))

    @node
    async def silent(value: str) -> None:
        return None

    turn = await run_flow(kit, Workflow("wf", START >> silent), plugins=[journal])
    assert "after wf@1/silent@1 None" in journal.lines
    assert turn.outcome.output == "made up"


async def test_hk_2_on_node_error_comes_after_the_retries_and_may_answer(kit: Any) -> None:
    journal = Journal(on_node_error=NodeOutcome(output="instead"))
    tries: list[int] = []

    @node(retry=Retry(max_attempts=3, initial_delay=0))
    async def broken(value: str, ctx: NodeContext) -> str:
        tries.append(ctx.attempt)
        raise OSError("no")

    turn = await run_flow(kit, Workflow("wf", START >> broken >> step("after")), plugins=[journal])
    assert tries == [1, 2, 3]
    assert [line for line in journal.lines if "error" in line] == ["error wf@1/broken@1 OSError 3"]
    assert turn.outcome.output == "after(instead)"


@pytest.mark.parametrize("hook", ["before_node", "after_node"])
async def test_hk_2_a_raise_in_a_hook_is_the_nodes_failure_without_retry(kit: Any, hook: str) -> None:
    class Veto(Exception):
        pass

    ran: list[int] = []

    @node(retry=Retry(max_attempts=3, initial_delay=0))
    async def work(value: str) -> str:
        ran.append(1)
        return value

    journal = Journal(**{hook: Veto("no")})
    lab = kit.Lab(Workflow("wf", START >> work).as_agent)
    error = (await lab.run("hi", plugins=[journal])).error
    assert isinstance(error, Veto)
    assert len(ran) == (0 if hook == "before_node" else 1)
    assert [event.error_code for event in await lab.events() if event.error_code] == ["Veto"]
    assert journal.lines[-1] == "leave wf@1/work@1"
    assert journal.outcomes[0].error is error


async def test_hk_2_a_hook_that_gives_something_else_is_told(kit: Any) -> None:
    lab = kit.Lab(Workflow("wf", START >> step("a")).as_agent)
    error = (await lab.run("hi", plugins=[Journal(before_node={"output": 1})])).error
    assert isinstance(error, PluginError)
    assert "NodeOutcome" in str(error)


async def test_hk_2_not_for_fast_forwarded_nodes_nor_for_start(kit: Any) -> None:
    """RPL-4: what is answered from records meets no hook, no around hook, no effect."""

    @node
    async def ask(value: str) -> AsyncIterator[Any]:
        yield RequestInput(interrupt_id="q")

    flow = Workflow("wf", START >> step("a") >> ask >> step("b"))
    lab = kit.Lab(flow.as_agent)
    await lab.run("hi", plugins=[Journal()])
    journal = Journal()
    await lab.run(answers({"q": {"result": "yes"}}), plugins=[journal])
    assert {line.split()[1] for line in journal.lines} == {"wf@1/b@1"}


async def test_hk_2_and_plug_43_a_pause_is_told_once_and_gives_no_after_node(kit: Any) -> None:
    @node
    async def parent(value: str, ctx: NodeContext) -> str:
        return str(await ctx.run_node(asking))

    @node(name="asking")
    async def asking(value: Any, ctx: NodeContext) -> str:
        return f"{await ctx.request_input('k', 'sure?')}"

    lab = kit.Lab(Workflow("wf", START >> parent).as_agent)
    journal = Journal()
    turn = await lab.run("hi", plugins=[journal])
    question = turn.waits_for[0]
    assert [line for line in journal.lines if line.startswith(("pause", "after"))] == [
        f"pause wf@1/parent@1/asking@1 ['{question}']"
    ]
    assert [outcome.value.status for outcome in journal.outcomes] == ["paused", "paused"]
    again = Journal()
    assert (await lab.run("still there?", plugins=[again])).waits_for == [question]
    assert again.lines == []


async def test_ard_5_around_hooks_hold_all_attempts_and_nest(kit: Any) -> None:
    first, second = Journal("first"), Journal("second")
    second.lines = first.lines

    @node(retry=Retry(max_attempts=2, initial_delay=0))
    async def flaky(value: str, ctx: NodeContext) -> str:
        first.lines.append(f"attempt {ctx.attempt}")
        if ctx.attempt == 1:
            raise OSError("once")
        return "ok"

    await run_flow(kit, Workflow("wf", START >> flaky), plugins=[first, second])
    marks = [line for line in first.lines if line.split()[0] in ("enter", "leave", "attempt")]
    assert marks == ["enter wf@1/flaky@1"] * 2 + ["attempt 1", "attempt 2"] + ["leave wf@1/flaky@1"] * 2


async def test_hk_3_what_a_context_offers(kit: Any) -> None:
    seen: dict[str, Any] = {}

    @node
    async def look(value: str, ctx: NodeContext) -> str:
        seen.update(
            path=ctx.path,
            run_id=ctx.run_id,
            attempt=ctx.attempt,
            node_input=ctx.node_input,
            triggered_by=ctx.triggered_by,
            key=ctx.idempotency_key.removeprefix(ctx.invocation_id),
            interrupt=ctx.interrupt_id("k") == f"k:{ctx.invocation_id}:{ctx.path}",
            resumed=ctx.resumed_input("nothing"),
            inputs=ctx.resume_inputs,
            resuming=ctx.resuming,
            agent=ctx.agent_name,
            ephemeral=dict(ctx.ephemeral) if hasattr(ctx.ephemeral, "keys") else None,
        )
        ctx.state["k"] = 1
        seen["delta"] = dict(ctx.actions.state_delta)
        await ctx.emit(Event(content=text_content("progress")))
        return "done"

    turn = await run_flow(kit, Workflow("wf", START >> step("a") >> look))
    assert seen["path"] == "wf@1/look@1"
    assert (seen["run_id"], seen["attempt"], seen["node_input"], seen["triggered_by"]) == ("1", 1, "a(hi)", "a")
    assert seen["key"] == "/wf@1/look@1/node/1"
    assert seen["interrupt"] is True
    assert seen["resumed"] is MISSING
    assert (seen["inputs"], seen["resuming"], seen["agent"]) == ({}, False, "wf")
    assert seen["delta"] == {"k": 1}
    assert [event.text for event in turn.events if event.text] == ["progress"]


# --- spans ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(trace, "get_tracer", lambda *names, **more: provider.get_tracer(*names, **more))
    yield memory
    provider.shutdown()


async def test_hk_4_spans_of_a_workflow(kit: Any, exporter: InMemorySpanExporter) -> None:
    child = step("child")

    @node
    async def parent(value: str, ctx: NodeContext) -> list[Any]:
        await ctx.run_node(child, 1)
        return [1, 2]

    @node(emits_own_span=True)
    async def quiet(value: Any) -> None:
        return None

    @node(retry=Retry(max_attempts=2, initial_delay=0))
    async def item(value: int, ctx: NodeContext) -> int:
        if ctx.attempt == 1 and value == 2:
            raise OSError("once")
        return value

    await run_flow(kit, Workflow("wf", START >> parent >> parallel(item_without_retry(item), name="all", retry=Retry(
        max_attempts=2, initial_delay=0)) >> quiet))  # fmt: skip
    spans = exporter.get_finished_spans()
    by_id = {span.context.span_id: span for span in spans}
    names = sorted(span.name for span in spans if span.name.startswith("invoke_"))
    assert names == ["invoke_node all", "invoke_node child", "invoke_node item", "invoke_node item",
                     "invoke_node item", "invoke_node parent", "invoke_workflow wf"]  # fmt: skip
    root = next(span for span in spans if span.name == "invoke_workflow wf")
    assert root.attributes["gen_ai.operation.name"] == "invoke_workflow"
    assert root.attributes["gen_ai.workflow.name"] == "wf"
    assert root.attributes["gen_ai.conversation.id"] == "s"
    inner = next(span for span in spans if span.name == "invoke_node child")
    assert inner.attributes["gen_ai.node.name"] == "child"
    assert inner.attributes["gen_ai.operation.name"] == "invoke_node"
    assert by_id[inner.parent.span_id].name == "invoke_node parent"
    assert by_id[by_id[inner.parent.span_id].parent.span_id].name == "invoke_workflow wf"
    failed = [span for span in spans if not span.status.is_ok and span.status.status_code.name == "ERROR"]
    assert [span.name for span in failed] == ["invoke_node item"]


def item_without_retry(value: Any) -> Any:
    return value.replace(config=NodeConfig())


async def test_hk_4_a_pause_is_no_error(kit: Any, exporter: InMemorySpanExporter) -> None:
    @node
    async def ask(value: str, ctx: NodeContext) -> str:
        return str(await ctx.request_input("k"))

    await run_flow(kit, Workflow("wf", START >> ask))
    assert {span.status.status_code.name for span in exporter.get_finished_spans()} == {"UNSET"}


def test_hk_5_the_kernel_knows_no_graph() -> None:
    import hookwork.node_activation as activation

    assert not [name for name in vars(activation) if "graph" in name.lower() or "edge" in name.lower()]


async def test_dyn_20_a_hit_in_the_same_run_opens_a_span_a_replayed_one_does_not(
    kit: Any, exporter: InMemorySpanExporter
) -> None:
    @node
    async def parent(value: str, ctx: NodeContext) -> str:
        for _ in range(2):
            await ctx.run_node(step("child"), value, run_id="same")
        return str(await ctx.request_input("k"))

    lab = kit.Lab(Workflow("wf", START >> parent).as_agent)
    turn = await lab.run("hi")
    assert [span.name for span in exporter.get_finished_spans()].count("invoke_node child") == 2
    exporter.clear()
    await lab.run(answers({turn.waits_for[0]: {"result": "x"}}))
    names = [span.name for span in exporter.get_finished_spans()]
    assert (names.count("invoke_node child"), names.count("invoke_node parent")) == (0, 1)


async def test_dyn_1_an_agent_is_prepared_once_however_often_a_body_runs_it(kit: Any) -> None:
    from hookwork_llm import LlmAgent
    from hookwork_testkit import ScriptedModel

    copies: list[int] = []

    class Counted(LlmAgent):
        def as_node(self) -> Any:
            copies.append(1)
            return LlmAgent.as_node(self)

    agent = Counted(name="ag", model=ScriptedModel(lambda request: "said"))

    @node
    async def parent(value: str, ctx: NodeContext) -> list[Any]:
        return [await ctx.run_node(agent, number) for number in range(3)]

    assert (await run_flow(kit, Workflow("wf", START >> parent))).outcome.output == ["said"] * 3
    assert len(copies) == 1


async def test_hk_2_after_node_sees_the_output_of_a_sub_workflow_and_of_a_delegate(kit: Any) -> None:
    class Shout(Plugin):
        name = "shout"

        def __init__(self) -> None:
            self.seen: list[tuple[str, Any]] = []

        async def after_node(self, ctx: Any, outcome: Any) -> Any:
            self.seen.append((ctx.node.name, outcome.output))
            return NodeOutcome(output=f"{outcome.output}!") if ctx.node.name in ("inner", "parent") else None

    @node
    async def parent(value: str, ctx: NodeContext) -> None:
        await ctx.run_node(step("child"), value, use_as_output=True)

    shout = Shout()
    flow = Workflow("wf", START >> Workflow("inner", START >> step("a")) >> parent >> step("end"))
    turn = await run_flow(kit, flow, plugins=[shout])
    assert turn.outcome.output == "end(child(a(hi)!)!)"
    assert shout.seen[:2] == [("a", "a(hi)"), ("inner", "a(hi)")]
