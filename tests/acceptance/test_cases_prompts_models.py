"""Cases HIST, STREAM, MODEL and INSTR: what a model is shown, and what it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookwork import Event, RunConfig
from hookwork.model import Model, ModelRequest
from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part, text_content
from hookwork.records.event import new_event
from hookwork.records.metadata import ModelResponse, UsageMetadata
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call, partial, stream, thought

SSE = RunConfig(streaming_mode="sse")


def by_user(text: str) -> Event:
    return new_event("e-1", author="user", content=text_content(text, role="user"))


def by_agent(*parts: Part, role: str = "model", **fields: Any) -> Event:
    return new_event("e-1", author="a", content=Content(role=role, parts=list(parts)), **fields)


def response(call_id: str, name: str, payload: Any) -> Part:
    return Part(function_response=FunctionResponse(id=call_id, name=name, response=payload))


# --- HIST -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answered", [True, False], ids=["one answered", "none answered"])
async def test_case_hist_1_the_session_that_could_never_speak_again(
    backend: Any, say: Any, read: Any, imported: Any, answered: bool
) -> None:
    ran: list[str] = []

    @tool
    async def f() -> None:
        """Never run again."""
        ran.append("f")

    @tool
    async def g() -> None:
        """Never run again."""
        ran.append("g")

    events = [by_user("go"), by_agent(call("f", "c1"), call("g", "c2"))]
    if answered:
        events.append(by_agent(response("c2", "g", {"ok": 1}), role="user"))
    model = ScriptedModel(["fine"])
    async with imported(backend, LlmAgent(name="a", model=model, tools=[f, g]), *events) as runner:
        await say(runner, "and now?")
        session = await read(runner)
    prompt = model.prompts[0]
    assert_valid_prompt(prompt)
    assert [content.role for content in prompt] == ["user", "model", "user", "user"]
    first, second = prompt[2].function_responses
    assert (first.id, second.id) == ("c1", "c2")  # call order, one content
    interrupted = dict(first.response or {})
    assert interrupted["status"] == "interrupted"
    assert "no result" in interrupted["error"]
    assert second.response == ({"ok": 1} if answered else interrupted)
    assert prompt[3].text == "and now?"
    assert ran == []
    assert [event.id for event in session.events[: len(events)]] == [event.id for event in events]
    assert [event.text for event in session.events[len(events) :]] == ["and now?", "fine"]


async def test_case_hist_1_a_call_that_waits_is_shown_as_pending(in_memory: Any, say: Any) -> None:
    @tool(long_running=True)
    async def wait() -> None:
        """Wait."""

    model = ScriptedModel([call("wait", "c1"), "noted"])
    async with in_memory.runner(LlmAgent(name="a", model=model, tools=[wait])) as runner:
        await say(runner)
        await say(runner, "and now?")
    assert_valid_prompt(model.prompts[1])
    assert [(r.response or {})["status"] for c in model.prompts[1] for r in c.function_responses] == ["pending"]


async def test_case_hist_2_history_off_but_inside_a_parallel_agent(in_memory: Any, say: Any) -> None:
    workflow = pytest.importorskip("hookwork_workflow")
    b_called, b_done = asyncio.Event(), asyncio.Event()
    steps = 0

    @tool
    async def look(who: str) -> dict[str, Any]:
        """Look; a's result comes only after b's call."""
        if who == "a":
            await b_called.wait()
        else:
            b_called.set()
        return {"seen by": who}

    async def instruction(ctx: Any) -> str:
        """Keeps a's second request back until b's text is stored."""
        nonlocal steps
        steps += 1
        if steps == 2:
            await b_done.wait()
        return "Look."

    a_model = ScriptedModel([call("look", who="a"), "a done"])
    b_model = ScriptedModel([call("look", who="b"), "b done"])
    a = LlmAgent(name="a", model=a_model, tools=[look], include_contents="none", instruction_provider=instruction)
    b = LlmAgent(name="b", model=b_model, tools=[look], include_contents="none", after_agent=lambda ctx: b_done.set())
    async with in_memory.runner(workflow.ParallelAgent(name="both", sub_agents=[a, b])) as runner:
        events, _ = await say(runner, "go")
    for model, name in ((a_model, "a"), (b_model, "b")):
        prompt = model.prompts[1]
        assert_valid_prompt(prompt)
        assert prompt[0].text == "go"
        assert [dict(c.args or {}) for content in prompt for c in content.function_calls] == [{"who": name}]
        assert [r.response for content in prompt for r in content.function_responses] == [{"seen by": name}]
        assert len(prompt) == 3
    assert {event.text for event in events if event.text} == {"a done", "b done"}


async def test_case_hist_3_the_same_call_id_in_two_turns(backend: Any, say: Any) -> None:
    @tool
    async def w(city: str) -> dict[str, Any]:
        """Weather."""
        return {"t": {"A": 1, "B": 2, "C": 3}[city]}

    model = ScriptedModel(
        [
            call("w", "call_0", city="A"), "one",
            call("w", "call_0", city="B"), "two",
            [call("w", "w", city="A"), call("w", "w", city="C")], "three",
            "four",
        ]
    )  # fmt: skip
    agent = LlmAgent(name="a", model=model, tools=[w])
    for text in ("1", "2", "3", "4"):
        async with backend.runner(agent) as runner:
            events, outcome = await say(runner, text)
            assert outcome.open_calls == ()
            if text == "3":
                assert [r.response for r in events[1].function_responses] == [{"t": 1}, {"t": 3}]
    prompt = model.prompts[-1]
    assert_valid_prompt(prompt)
    made = [(c.args or {})["city"] for content in prompt for c in content.function_calls]
    given = [(r.response or {})["t"] for content in prompt for r in content.function_responses]
    assert list(zip(made, given, strict=True)) == [("A", 1), ("B", 2), ("A", 1), ("C", 3)]


# --- STREAM -----------------------------------------------------------------------------------------------------------


async def test_case_stream_1_signature_on_the_first_of_three_calls(backend: Any, say: Any) -> None:
    @tool
    async def f(n: int) -> dict[str, Any]:
        """Do f."""
        return {"n": n}

    signed = call("f", "c1", n=1).replace(thought_signature=b"\x01\xff")
    thinking = thought("let me think").replace(thought_signature=b"\x07")
    model = ScriptedModel(
        [stream(thinking, signed, call("f", "c2", n=2), call("f", "c3", n=3)), stream("do", "ne"), "again"]
    )
    agent = LlmAgent(name="a", model=model, tools=[f])
    async with backend.runner(agent, config=SSE) as runner:
        await say(runner)
    async with backend.runner(agent, config=SSE) as runner:
        await say(runner, "and now?")
    prompt = model.prompts[-1]
    assert_valid_prompt(prompt)
    (turn,) = [content for content in prompt if content.function_calls]
    assert [(c.id, dict(c.args or {})) for c in turn.function_calls] == [
        ("c1", {"n": 1}),
        ("c2", {"n": 2}),
        ("c3", {"n": 3}),
    ]
    assert [(part.thought, part.thought_signature) for part in turn.parts] == [
        (True, b"\x07"),
        (None, b"\x01\xff"),
        (None, None),
        (None, None),
    ]


async def test_case_stream_2_three_complete_calls_in_one_chunk(in_memory: Any, say: Any) -> None:
    """The flow's part of the case; fragments of arguments are the adapters' (issue 7)."""
    ran: list[int] = []

    @tool
    async def f(n: int) -> dict[str, Any]:
        """Do f."""
        ran.append(n)
        return {"n": n}

    shown = ModelResponse(
        content=Content(role="model", parts=[call("f", n=1), call("f", n=2), call("f", n=3)]), partial=True
    )
    model = ScriptedModel([[shown], "done"])
    async with in_memory.runner(LlmAgent(name="a", model=model, tools=[f]), config=SSE) as runner:
        events, _ = await say(runner)
    assert sorted(ran) == [1, 2, 3]
    assert [r.response for r in events[2].function_responses] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert [c.id for c in events[0].function_calls] == [c.id for c in events[1].function_calls]


async def test_case_stream_3_printing_a_streamed_turn_without_doubles(in_memory: Any, say: Any) -> None:
    @tool
    async def look() -> dict[str, Any]:
        """Look."""
        return {"n": 5}

    def script() -> list[Any]:
        return [
            [partial("Let me "), partial("look."), call("look")],
            [partial(thought("hm")), partial("It is "), partial("5.")],
        ]

    agent = LlmAgent(name="a", model=ScriptedModel([*script(), *script()]), tools=[look])
    async with in_memory.runner(agent, config=SSE) as runner:
        events, _ = await say(runner)
        async with runner.run(user_id="u", session_id="s2", message="hi") as run:
            printed = [piece async for piece in run.text()]
    finals = [event for event in events if event.is_final_response()]
    assert [event.text for event in finals] == ["It is 5."]
    for final in [event for event in events if not event.partial and event.text]:
        pieces = [event.text for event in events if event.partial and event.id == final.id]
        assert "".join(pieces) == final.text
    (remark,) = [event for event in events if not event.partial and event.text == "Let me look."]
    assert remark.function_calls
    assert not remark.is_final_response()
    assert printed == ["Let me ", "look.", "It is ", "5."]


# --- MODEL ------------------------------------------------------------------------------------------------------------


async def test_case_model_1_stop_with_nothing_said(in_memory: Any, say: Any, read: Any) -> None:
    saved: list[str] = []

    @tool
    async def save() -> dict[str, Any]:
        """Save."""
        saved.append("saved")
        return {}

    usage = UsageMetadata(prompt_token_count=10, candidates_token_count=0)
    empty = ModelResponse(content=Content(role="model", parts=[]), finish_reason="STOP", usage_metadata=usage)
    model = ScriptedModel([call("save"), empty, "next"])
    async with in_memory.runner(LlmAgent(name="a", model=model, tools=[save], output_key="out")) as runner:
        events, outcome = await say(runner, state_delta={"out": "old"})
        assert (model.calls, saved, outcome.kind) == (2, ["saved"], "completed")
        last = events[-1]
        assert (last.error_code, last.finish_reason, last.usage_metadata) == ("EMPTY_RESPONSE", "STOP", usage)
        assert (await read(runner)).state["out"] == "old"
        await say(runner, "again")
    assert_valid_prompt(model.prompts[-1])


async def test_case_model_1_a_retry_plugin_can_act_on_it(in_memory: Any, say: Any) -> None:
    from hookwork.plugins.plugin import FunctionPlugin

    async def perform_model(call: Any) -> Any:
        for _ in range(2):
            result = await call.default()
            if result.content is not None and result.content.parts:
                break
        return result

    model = ScriptedModel([Content(role="model", parts=[]), "second try"])
    plugins = [FunctionPlugin("again", perform_model=perform_model)]
    async with in_memory.runner(LlmAgent(name="a", model=model), plugins=plugins) as runner:
        events, outcome = await say(runner)
    assert [event.text for event in events] == ["second try"]
    assert outcome.usage.total.calls >= 1


class CutOff(Model):
    """What an adapter gives when the output limit hits inside a call: the call is left out (models AGG-32)."""

    name = "cut"

    async def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        if stream:
            yield partial("I write ")
        yield ModelResponse(
            content=text_content("I write "),
            finish_reason="MAX_TOKENS",
            error_code="MAX_TOKENS",
            error_message="the output limit cut the call of 'write'",
        )


async def test_case_model_2_cut_off_inside_a_call(in_memory: Any, say: Any) -> None:
    ran: list[str] = []

    @tool
    async def write(path: str) -> None:
        """Write."""
        ran.append(path)

    async with in_memory.runner(LlmAgent(name="a", model=CutOff(), tools=[write]), config=SSE) as runner:
        events, outcome = await say(runner)
        assert (events[-1].finish_reason, events[-1].error_code) == ("MAX_TOKENS", "MAX_TOKENS")
        assert (outcome.kind, ran) == ("completed", [])
        model = ScriptedModel([Part(function_call=FunctionCall(name="write", args={})), "sorry"])
        async with in_memory.runner(LlmAgent(name="a", model=model, tools=[write])) as next_runner:
            events, _ = await say(next_runner, "go on")
    assert "/path" in events[1].function_responses[0].response["error"]  # empty arguments never reach the body
    assert ran == []
    assert_valid_prompt(model.prompts[-1])


# --- INSTR ------------------------------------------------------------------------------------------------------------

TEMPLATE = 'In {city}: {{city}}, ${expr}, \\{x}, {"a": {"b": 1}}, fn({ page }) , {missing?}, {user:lang?}'
RENDERED = 'In Rome: {city}, ${expr}, {x}, {"a": {"b": 1}}, fn({ page }) , , '


@pytest.mark.parametrize(("templating", "expected"), [(True, RENDERED), (False, TEMPLATE)], ids=["on", "off"])
async def test_case_instr_1_braces_that_are_not_placeholders(
    in_memory: Any, say: Any, templating: bool, expected: str
) -> None:
    model = ScriptedModel(["done"])
    agent = LlmAgent(name="a", model=model, instruction=TEMPLATE, templating=templating)
    async with in_memory.runner(agent) as runner:
        await say(runner, state_delta={"city": "Rome"})
    assert model.requests[0].instruction.split("\n\n")[0] == expected


async def test_case_instr_1_a_missing_value_says_how_to_escape(in_memory: Any, say: Any) -> None:
    async with in_memory.runner(LlmAgent(name="writer", model=ScriptedModel(), instruction="{missing}")) as runner:
        with pytest.raises(KeyError) as raised:
            await say(runner)
    text = str(raised.value)
    assert "'missing'" in text
    assert "'writer'" in text
    assert "{{missing}}" in text
