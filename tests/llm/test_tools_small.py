"""exit_loop, examples and model-side tools (tools-plugins §4, BT-25, BT-30; models CAP-5)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork.errors import ConfigurationError
from hookwork.model import ModelCapabilities
from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part, text_content
from hookwork.records.request import ToolDeclaration
from hookwork_llm import (
    Example,
    ExampleTool,
    ExitLoopTool,
    GoogleSearchTool,
    LlmAgent,
    ModelTool,
    RequestInputTool,
    tool,
)
from hookwork_llm.tools.examples import examples_text
from hookwork_testkit import ScriptedModel, call
from hookwork_workflow import LoopAgent

# --- exit_loop --------------------------------------------------------------------------------------------------------


async def test_bt_exit_loop_ends_the_loop_and_the_agent_says_nothing_more(runner_factory: Any, play: Any) -> None:
    model: Any = ScriptedModel(["round one", call("exit_loop", "c1")])
    worker = LlmAgent(name="worker", model=model, tools=[ExitLoopTool()])
    async with runner_factory(LoopAgent(name="loop", sub_agents=[worker], max_iterations=5)) as runner:
        turn = await play(runner)
    response = next(event for event in turn.events if event.function_responses)
    assert response.function_responses[0].response == {}
    assert (response.actions.escalate, response.actions.skip_summarization) == (True, True)
    assert model.calls == 2
    assert model.requests[0].config.function_declarations()[0].name == "exit_loop"


# --- request_input ----------------------------------------------------------------------------------------------------


async def test_res_2_request_input_waits_for_the_persons_answer(runner_factory: Any) -> None:
    args = {"question": "Which colour?", "choices": ["blue", "red"]}
    model: Any = ScriptedModel([call("request_input", "c1", **args), "Blue it is."])
    agent = LlmAgent(name="root", model=model, tools=[RequestInputTool()])
    who = {"user_id": "u", "session_id": "s"}
    async with runner_factory(agent) as runner:
        paused = await runner.run(message="Paint it", **who).wait()
        assert (paused.kind, [(open_call.id, dict(open_call.args)) for open_call in paused.open_calls]) == (
            "paused",
            [("c1", args)],
        )
        answer = Part(function_response=FunctionResponse(id="c1", name="request_input", response={"answer": "blue"}))
        outcome = await runner.run(message=[answer], **who).wait()
    assert (outcome.kind, outcome.final_event.text) == ("completed", "Blue it is.")
    assert model.prompts[-1][-1].function_responses[0].response == {"answer": "blue"}


@pytest.mark.parametrize("args", [{}, {"question": " "}, {"question": 3}, {"question": "x", "choices": ["a", 1]}])
async def test_tl_21_a_question_that_says_nothing_is_an_error_for_the_model(
    runner_factory: Any, play: Any, args: dict[str, Any]
) -> None:
    model: Any = ScriptedModel([call("request_input", "c1", **args), "Sorry."])
    async with runner_factory(LlmAgent(name="root", model=model, tools=[RequestInputTool()])) as runner:
        turn = await play(runner)
    assert "request_input: /" in turn.events[1].function_responses[0].response["error"]
    assert turn.outcome.kind == "completed"


# --- example_tool -----------------------------------------------------------------------------------------------------

LISBON = Example(
    input=text_content("Weather in Lisbon?"),
    output=[
        Content(role="model", parts=[Part(function_call=FunctionCall(name="w", args={"z": "Lis'bon", "a": 1}))]),
        Content(role="user", parts=[Part(function_response=FunctionResponse(name="w", response={"sky": "clear"}))]),
        Content(role="model", parts=[Part(text="Clear."), Part(text="Warm.")]),
    ],
)
HELLO = Example(input=text_content("Hi"), output=[text_content("Hello!")])


def test_bt_25_the_form_of_the_examples() -> None:
    text = examples_text([LISBON, HELLO])
    assert text.splitlines()[0] == "<EXAMPLES>"
    assert text.splitlines()[2:] == [
        "EXAMPLE 1:",
        "[user]",
        "Weather in Lisbon?",
        "[model]",
        "```",
        'w(z="Lis\'bon", a=1)',
        "```",
        "[user]",
        "```",
        '{"sky": "clear"}',
        "```",
        "[model]",
        "Clear.",
        "Warm.",
        "END OF EXAMPLE 1",
        "EXAMPLE 2:",
        "[user]",
        "Hi",
        "[model]",
        "Hello!",
        "END OF EXAMPLE 2",
        "</EXAMPLES>",
    ]


def test_bt_25_fences_have_names_for_gemini_2() -> None:
    lines = examples_text([LISBON], "models/gemini-2.5-flash").splitlines()
    assert [line for line in lines if line.startswith("```")] == ["```tool_code", "```", "```tool_outputs", "```"]


def test_bt_25_an_example_cannot_close_the_block() -> None:
    text = examples_text([Example(input=text_content("a </EXAMPLES> b"), output=[text_content("< /examples>")])])
    assert text.count("</EXAMPLES>") == 1
    assert text.endswith("</EXAMPLES>")
    assert "a &lt;/EXAMPLES&gt; b" in text


async def test_bt_25_appended_to_the_instruction_and_no_tool(runner_factory: Any, play: Any) -> None:
    model: Any = ScriptedModel(["ok"])
    root = LlmAgent(name="a", model=model, instruction="Be kind.", tools=[ExampleTool([HELLO])])
    async with runner_factory(root) as runner:
        await play(runner)
    config = model.requests[0].config
    assert config.system_instruction.text.startswith("Be kind.\n\n")
    assert config.system_instruction.text.endswith("\n\n" + examples_text([HELLO]))
    assert config.function_declarations() == []


async def test_bt_25_a_provider_gets_the_users_text(runner_factory: Any, play: Any) -> None:
    asked: list[str] = []

    async def provide(query: str) -> list[Example]:
        asked.append(query)
        return [HELLO] if query == "hi" else []

    model: Any = ScriptedModel(["ok", "ok"])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[ExampleTool(provide)])) as runner:
        await play(runner, "hi")
        await play(runner, "bye")
    assert asked == ["hi", "bye"]
    assert ["<EXAMPLES>" in request.config.system_instruction.text for request in model.requests] == [True, False]


async def test_bt_25_nothing_without_text_in_the_first_part(runner_factory: Any, play: Any) -> None:
    message = Content(role="user", parts=[Part(text=""), Part(text="hi")])
    model: Any = ScriptedModel(["ok"])
    async with runner_factory(LlmAgent(name="a", model=model, tools=[ExampleTool([HELLO])])) as runner:
        await play(runner, message)
    assert "<EXAMPLES>" not in model.requests[0].config.system_instruction.text


@pytest.mark.parametrize("examples", [None, [], ["text"], 3])
def test_bt_25_other_things_are_no_examples(examples: Any) -> None:
    with pytest.raises(ConfigurationError, match="ExampleTool takes"):
        ExampleTool(examples)


# --- model-side tools -------------------------------------------------------------------------------------------------

SEARCHES = ModelCapabilities(builtin_tools=frozenset({"google_search", "url_context"}))


async def test_bt_google_search_is_added_and_not_run_here(runner_factory: Any, play: Any) -> None:
    model: Any = ScriptedModel(["ok"], capabilities=SEARCHES)
    async with runner_factory(LlmAgent(name="a", model=model, tools=[GoogleSearchTool()])) as runner:
        await play(runner)
    assert list(model.requests[0].config.tools) == [ToolDeclaration(google_search={})]


async def test_bt_the_record_is_sent_unchanged_beside_functions(runner_factory: Any, play: Any) -> None:
    @tool
    def other() -> str:
        """Other."""
        return "x"

    record = {"urlContext": {}, "futureTool": {"depth": 2}}
    capabilities = ModelCapabilities(
        builtin_tools=frozenset({"url_context", "future_tool"}), builtin_with_functions=True
    )
    model: Any = ScriptedModel([call("reader", "c1"), "ok"], capabilities=capabilities)
    root = LlmAgent(name="a", model=model, tools=[other, ModelTool("reader", "Reads pages.", record)])
    async with runner_factory(root) as runner:
        turn = await play(runner)
    functions, own = model.requests[0].config.tools
    assert [declaration.name for declaration in functions.function_declarations] == ["other"]
    assert own == ToolDeclaration(url_context={}, extra={"futureTool": {"depth": 2}})
    assert "the tools are: other" in turn.events[1].function_responses[0].response["error"]


@pytest.mark.parametrize(
    ("made", "kind"),
    [(GoogleSearchTool(), "google_search"), (ModelTool("maps", "", {"google_maps": {}}), "google_maps")],
)
async def test_cap_5_a_model_without_it_is_refused_by_name(
    runner_factory: Any, play: Any, made: Any, kind: str
) -> None:
    model: Any = ScriptedModel(["never"], name="plain", capabilities=ModelCapabilities())
    async with runner_factory(LlmAgent(name="a", model=model, tools=[made])) as runner:
        turn = await play(runner)
    assert isinstance(turn.error, ConfigurationError)
    for word in (repr(kind), "'plain'", "'a'"):
        assert word in str(turn.error)
    assert model.calls == 0


@pytest.mark.parametrize(("name", "record"), [("", {"url_context": {}}), ("x", {}), ("x", ToolDeclaration())])
def test_bt_a_model_tool_says_what_it_is(name: str, record: Any) -> None:
    with pytest.raises(ConfigurationError):
        ModelTool(name, "", record)
