"""Code execution in runs: what is stored, what the model is shown, bounds, hooks (core §4.2 stage 10, B-7)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hookwork import Content, Event, ModelResponse, Part, Plugin, RunConfig, Runner, hookimpl, text_content
from hookwork.errors import ConfigurationError
from hookwork.records.content import CodeExecutionResult, ExecutableCode
from hookwork.records.request import GenerateContentConfig, ToolDeclaration
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import CodeExecutor, LlmAgent, LocalSubprocessExecutor
from hookwork_testkit import ScriptedModel, assert_valid_prompt
from hookwork_testkit.steps import call

BLOCK = "```python\n{}\n```"


class Fake(CodeExecutor):
    """Answers from a list; remembers what it was to run."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.ran: list[str] = []
        self.contexts: list[Any] = []

    async def execute(self, ctx: Any, code: ExecutableCode) -> CodeExecutionResult:
        self.ran.append(code.code or "")
        self.contexts.append(ctx)
        answer = self.answers.pop(0) if self.answers else "ok"
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, str):
            return CodeExecutionResult(outcome="OUTCOME_OK", output=answer)
        return answer  # type: ignore[no-any-return]


def block(code: str) -> str:
    return BLOCK.format(code)


async def talk(
    model: ScriptedModel, executor: Any, *, message: str = "count", plugins: Any = (), **options: Any
) -> list[Event]:
    agent = LlmAgent(name="root", model=model, code_executor=executor, **options)
    async with Runner.in_memory(agent, plugins=list(plugins)) as runner:
        return [event async for event in runner.run(user_id="u", message=message)]


def shown(model: ScriptedModel, number: int = -1) -> list[tuple[str | None, list[str | None]]]:
    prompt = model.prompts[number]
    assert_valid_prompt(prompt)
    return [(content.role, [part.text for part in content.parts]) for content in prompt]


async def test_b_7_code_in_an_answer_is_run_and_the_model_goes_on() -> None:
    model = ScriptedModel([f"I count.\n\n{block('print(2 + 2)')}\nIt is 5.", "It is 4."])
    executor = Fake("4")
    events = await talk(model, executor)
    assert executor.ran == ["print(2 + 2)"]
    code = ExecutableCode(code="print(2 + 2)", language="PYTHON")
    assert [event.content for event in events] == [
        Content(role="model", parts=[Part(text="I count."), Part(executable_code=code)]),
        Content(role="user", parts=[Part(code_execution_result=CodeExecutionResult(outcome="OUTCOME_OK", output="4"))]),
        text_content("It is 4."),
    ]
    assert [event.author for event in events] == ["root"] * 3
    assert [event.is_final_response() for event in events[1:]] == [False, True]
    assert shown(model) == [
        ("user", ["count"]),
        ("model", ["I count.", "```python\nprint(2 + 2)\n```"]),
        ("user", ["```tool_output\n4\n```"]),
    ]
    assert executor.contexts[0].function_call_id


async def test_b_7_a_code_part_is_run_under_its_id() -> None:
    code = Part(executable_code=ExecutableCode(id="x1", code="1", language="PYTHON"))
    model = ScriptedModel([Content(role="model", parts=[code]), "done"])
    events = await talk(model, Fake("one"))
    result = CodeExecutionResult(id="x1", outcome="OUTCOME_OK", output="one")
    assert events[1].content == Content(role="user", parts=[Part(code_execution_result=result)])


async def test_without_an_executor_code_is_only_shown() -> None:
    model = ScriptedModel([block("print(1)")])
    events = await talk(model, None)
    assert [event.text for event in events] == [block("print(1)")]


async def test_an_answer_with_calls_runs_its_calls() -> None:
    def look() -> dict[str, int]:
        """Look."""
        return {"seen": 1}

    model = ScriptedModel([[text_content(block("print(1)")).parts[0], call("look", id="c1")], "done"])
    executor = Fake()
    events = await talk(model, executor, tools=[look])
    assert executor.ran == []
    assert [bool(event.function_responses) for event in events] == [False, True, False]


async def test_failures_are_told_and_bounded() -> None:
    failed = CodeExecutionResult(outcome="OUTCOME_FAILED", output="Traceback: no")
    model = ScriptedModel(lambda request: block("print(1)"))
    executor = Fake(failed, ValueError("broken"), failed, "never")
    events = await talk(model, executor)
    assert len(executor.ran) == 3
    results = [p.code_execution_result for e in events if e.content for p in e.content.parts if p.code_execution_result]
    assert [(result.outcome, result.output) for result in results] == [
        ("OUTCOME_FAILED", "Traceback: no"),
        ("OUTCOME_FAILED", "ValueError: broken"),
        ("OUTCOME_FAILED", "Traceback: no"),
    ]
    assert events[-1].text == block("print(1)")  # shown as it is, and not run
    assert events[-1].is_final_response()
    assert model.calls == 4


async def test_a_success_between_failures_starts_the_count_anew() -> None:
    failed = CodeExecutionResult(outcome="OUTCOME_FAILED", output="no")
    executor = Fake(failed, failed, "fine", failed, failed, "fine")
    model = ScriptedModel([*[block("print(1)")] * 6, "done"])
    events = await talk(model, executor)
    assert len(executor.ran) == 6
    assert events[-1].text == "done"


async def test_rounds_are_bounded() -> None:
    executor = Fake()
    executor.max_rounds = 3
    model = ScriptedModel(lambda request: block("print(1)"))
    events = await talk(model, executor)
    assert len(executor.ran) == 3
    assert model.calls == 4
    assert events[-1].text == block("print(1)")


async def test_flow_4_the_call_limit_counts_rounds_too() -> None:
    model = ScriptedModel(lambda request: block("print(1)"))
    agent = LlmAgent(name="root", model=model, code_executor=Fake())
    async with Runner.in_memory(agent, config=RunConfig(max_llm_calls=2)) as runner:
        run = runner.run(user_id="u", message="go")
        with pytest.raises(Exception, match="max_llm_calls"):
            await run.wait()
    assert run.outcome is not None
    assert run.outcome.kind == "limit"


async def test_str_2_streamed_code_is_run_from_the_whole_answer() -> None:
    pieces = [
        ModelResponse(content=text_content(piece), partial=True) for piece in ("go\n```py", "thon\nprint(1)\n", "```\n")
    ]
    model = ScriptedModel([pieces, "done"])
    executor = Fake("1")
    agent = LlmAgent(name="root", model=model, code_executor=executor)
    async with Runner.in_memory(agent, config=RunConfig(streaming_mode="sse")) as runner:
        events = [event async for event in runner.run(user_id="u", message="go")]
    assert executor.ran == ["print(1)"]
    assert [event.partial for event in events[:3]] == [True] * 3
    assert len({event.id for event in events[:4]}) == 1


async def test_a_model_that_runs_code_itself_is_left_alone() -> None:
    code = Part(executable_code=ExecutableCode(code="1", language="PYTHON"))
    result = Part(code_execution_result=CodeExecutionResult(outcome="OUTCOME_OK", output="1"))
    own = Content(role="model", parts=[code, result, Part(text="It is 1.")])
    config = GenerateContentConfig(tools=(ToolDeclaration(code_execution={}),))
    model = ScriptedModel([own, "again"])
    executor = Fake()
    agent = LlmAgent(name="root", model=model, code_executor=executor, generate_content_config=config)
    async with Runner.in_memory(agent) as runner:
        await runner.ask("a", session_id="s")
        await runner.ask("b", session_id="s")
    assert executor.ran == []
    assert model.prompts[1][1] == own


class Guard(Plugin):
    """Forbids code that has a word in it, and writes down what it sees."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    @hookimpl
    async def before_tool(self, ctx: Any, tool: Any, args: dict[str, Any]) -> dict[str, Any] | None:
        self.seen.append((tool.name, dict(args)))
        if "os" in args["code"]:
            return {"error": "not allowed"}
        args["code"] = args["code"].replace("1", "2")
        return None

    @hookimpl
    async def after_tool(self, ctx: Any, tool: Any, args: Any, result: Any, error: Any) -> None:
        ctx.state["last"] = result


async def test_case_plug_2_tool_hooks_see_code_and_may_forbid_it() -> None:
    model = ScriptedModel([block("import os"), block("print(1)"), "done"])
    executor, guard = Fake("2"), Guard()
    agent = LlmAgent(name="root", model=model, code_executor=executor)
    async with Runner.in_memory(agent, plugins=[guard]) as runner:
        run = runner.run(user_id="u", message="go")
        events = [event async for event in run]
    assert executor.ran == ["print(2)"]
    assert guard.seen[0] == ("code_execution", {"code": "import os", "language": "PYTHON"})
    forbidden = events[1].content
    assert forbidden is not None
    assert forbidden.parts[0].code_execution_result == CodeExecutionResult(
        outcome="OUTCOME_FAILED", output="not allowed"
    )
    assert events[0].content is not None
    assert events[2].content is not None
    assert events[2].content.parts[-1].executable_code == ExecutableCode(code="print(1)", language="PYTHON")
    assert run.session is not None
    assert run.session.state["last"] == {"outcome": "OUTCOME_OK", "output": "2"}


async def test_the_code_tool_is_never_offered_to_the_model() -> None:
    model = ScriptedModel([block("print(1)"), "done"])
    await talk(model, Fake())
    assert [request.tools for request in model.requests] == [(), ()]
    assert [request.declared for request in model.requests] == [[], []]


async def test_res_10_a_run_that_ended_between_code_and_answer_goes_on() -> None:
    """Closed at the code, and closed at its result: the model is called again, nothing is run twice."""
    for stop_at in (1, 2):
        model = ScriptedModel([block("print(1)"), "done"])
        executor, sessions = Fake("1"), InMemorySessionService()
        runner = Runner(LlmAgent(name="root", model=model, code_executor=executor), sessions=sessions)
        async with runner.run(user_id="u", session_id="s", message="go") as run:
            for _ in range(stop_at):
                await anext(run)
        async with runner.run(user_id="u", session_id="s", invocation_id=run.invocation_id) as again:
            outcome = await again.wait()
        assert outcome.final_event is not None
        assert outcome.final_event.text == "done"
        assert len(executor.ran) == stop_at - 1


async def test_cancellation_reaches_the_executor() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    class Endless(CodeExecutor):
        async def execute(self, ctx: Any, code: ExecutableCode) -> CodeExecutionResult:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            raise AssertionError("never")

    task = asyncio.create_task(talk(ScriptedModel([block("print(1)")]), Endless()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


@pytest.mark.parametrize("value", [3, "local", LocalSubprocessExecutor])
def test_what_is_no_executor_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="agent 'root': code_executor is an object with execute"):
        LlmAgent(name="root", code_executor=value)


async def test_end_to_end_with_a_real_process() -> None:
    model = ScriptedModel([block("print(sum(range(11)))"), lambda request: f"It is {request.contents[-1].text}"])
    events = await talk(model, LocalSubprocessExecutor(allow_unsandboxed=True))
    assert events[-1].text == "It is ```tool_output\n55\n```"
