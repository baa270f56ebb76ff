"""Cases of graphs: FLOW-3, and PLUG-1 with a workflow as root."""

from __future__ import annotations

from typing import Any

from hookwork import Event, FunctionResponse, Part, Plugin, text_content
from hookwork_workflow import START, Join, NodeContext, RequestInput, Workflow, node


def answer(**given: Any) -> list[Part]:
    """A message that answers calls by id."""
    return [
        Part(function_response=FunctionResponse(id=call_id, name="adk_request_input", response={"result": value}))
        for call_id, value in given.items()
    ]


async def test_case_plug_1_an_early_answer_passes_the_event_hook_of_a_workflow(
    in_memory: Any, say: Any, read: Any
) -> None:
    ended: list[str] = []

    class Guard(Plugin):
        def before_run(self, ctx: Any) -> Any:
            return text_content("secret-42")

        def after_run(self, outcome: Any) -> None:
            ended.append(outcome.kind)

    class Redactor(Plugin):
        def on_event(self, event: Event) -> Event | None:
            return event.replace(content=text_content(event.text.replace("secret-42", "***")))

    ran: list[str] = []

    @node
    async def step(text: str) -> str:
        ran.append(text)
        return text

    root = Workflow("a", START >> step).as_agent()
    async with in_memory.runner(root, plugins=[Guard(), Redactor()]) as runner:
        events, _ = await say(runner)
        session = await read(runner)
    assert [(event.author, event.text) for event in events] == [("a", "***")]
    assert (session.events[-1].id, session.events[-1].text) == (events[0].id, "***")
    assert (ran, ended) == ([], ["completed"])


async def test_case_flow_3_answered_questions_stay_answered(backend: Any, say: Any, read: Any) -> None:
    ran: list[str] = []

    def root() -> Any:
        @node
        async def A(text: str) -> RequestInput:
            ran.append("A")
            return RequestInput(interrupt_id="a", message="A?")

        @node
        async def charge(text: str) -> str:
            ran.append("charge")
            return "charged"

        @node
        async def B(text: str, ctx: NodeContext) -> list[Any]:
            ran.append("B")
            paid = await ctx.run_node(charge, text)
            return [paid, await ctx.request_input("q1", "1?"), await ctx.request_input("q2", "2?")]

        @node
        async def end(both: dict[str, Any]) -> dict[str, Any]:
            ran.append("end")
            return both

        return Workflow("wf", START >> (A, B) >> Join("both") >> end).as_agent()

    async def turn(message: Any) -> tuple[list[Event], list[str]]:
        async with backend.runner(root()) as runner:  # a new process each time
            events, outcome = await say(runner, message)
            return events, [call.id for call in outcome.open_calls]

    _, waits = await turn("go")
    assert sorted(ran) == ["A", "B", "charge"]
    [q1] = [call_id for call_id in waits if call_id.startswith("q1:")]
    assert set(waits) == {"a", q1}

    _, waits = await turn(answer(**{"a": "yes", q1: "one"}))
    [q2] = waits
    assert q2.startswith("q2:")
    assert ran.count("A") == 1

    before = list(ran)
    events, waits = await turn("is it done?")
    assert ran == before
    assert waits == [q2]
    assert [event for event in events if event.path.startswith("wf@1")] == []

    events, waits = await turn(answer(**{q2: "two"}))
    assert waits == []
    assert (ran.count("A"), ran.count("B"), ran.count("charge"), ran.count("end")) == (1, 3, 1, 1)
    assert events[-1].output == {"A": "yes", "B": ["charged", "one", "two"]}

    async with backend.runner(root()) as runner:
        session = await read(runner)
    raised = [call_id for event in session.events for call_id in event.long_running_tool_ids]
    assert sorted(raised) == sorted({"a", q1, q2})
