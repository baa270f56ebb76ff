"""OpenAI models under an agent and a Runner, over the wire: the reported cases of cases.md."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.openai.asking import chat_model_on, model_on
from tests.openai.server import Json, Service, Sse
from tests.openai.wire import (
    Event as Wire,
)
from tests.openai.wire import (
    added,
    arguments_delta,
    arguments_done,
    chat_stream,
    completed,
    completion,
    created,
    function_call,
    incomplete,
    message,
    reasoning,
    response,
    stream,
    text_delta,
    tool_call,
    usage,
)

from hookwork import Event, GenerateContentConfig, RunConfig, Runner, Settings
from hookwork.errors import ModelError
from hookwork.platform import use_sleep
from hookwork_llm import AgentTool, LlmAgent, tool

STREAMS = pytest.mark.parametrize("streamed", [False, True])


def reply(streamed: bool, *output: Wire, **fields: Any) -> Json | Sse:
    """An answer of the Responses API, as a stream or not."""
    return Sse(stream(*output, **fields)) if streamed else Json(response(*output, **fields))


def chat_reply(streamed: bool, text: str, *calls: Wire) -> Json | Sse:
    return Sse(chat_stream(text, *calls), named=False, done=True) if streamed else Json(completion(text, *calls))


async def turn(runner: Runner, text: str, *, streamed: bool) -> list[Event]:
    """The events of one turn."""
    config = RunConfig(streaming_mode="sse" if streamed else "none")
    async with runner.run(user_id="u", session_id="s", message=text, config=config) as run:
        return [event async for event in run]


def runner_of(model: Any, **agent: Any) -> Runner:
    return Runner.in_memory(LlmAgent(name="helper", model=model, **agent), settings=Settings())


@tool
def weather(city: str) -> dict[str, Any]:
    """The weather of a city."""
    return {"city": city, "sky": "clear"}


@STREAMS
async def test_oai_34_reasoning_goes_back_before_the_calls_it_led_to(service: Service, streamed: bool) -> None:
    """CASE-STREAM-1 for this provider: three calls of one turn, reasoned about once."""
    calls = [function_call("weather", json.dumps({"city": c}), f"call_{c}", f"fc_{c}") for c in "ABC"]
    service.answers(
        reply(streamed, reasoning("three cities", encrypted="ENC"), *calls),
        reply(streamed, message("All clear.")),
        reply(streamed, message("Bye.")),
    )
    model = model_on(service, store=False)
    async with runner_of(model, tools=[weather]) as runner:
        await turn(runner, "weather?", streamed=streamed)
        await turn(runner, "bye", streamed=streamed)
    kinds = [item["type"] for item in service.body["input"]]
    assert kinds == [
        "message",
        "reasoning",
        *["function_call"] * 3,
        *["function_call_output"] * 3,
        "message",
        "message",
    ]
    again = service.body["input"][1]
    assert (again["id"], again["encrypted_content"]) == ("rs_1", "ENC")
    assert again["summary"] == [{"type": "summary_text", "text": "three cities"}]
    assert [item["call_id"] for item in service.body["input"][2:8]] == ["call_A", "call_B", "call_C"] * 2
    assert service.body["include"] == ["reasoning.encrypted_content"]


async def test_case_stream_2_interleaved_arguments_run_once_each(service: Service) -> None:
    events = [
        created(),
        added(function_call("f", "", "c1", "i1"), 0),
        added(function_call("g", "", "c2", "i2"), 1),
        arguments_delta('{"a":', "i1", 0),
        arguments_delta('{"b":', "i2", 1),
        arguments_delta("1}", "i1", 0),
        arguments_delta("2}", "i2", 1),
        arguments_done("", "i1", 0),
        arguments_done("", "i2", 1),
        completed(),
    ]
    service.answers(Sse(events), Sse(stream(message("done"))))
    ran: list[Any] = []

    @tool
    def f(a: int) -> dict[str, Any]:
        """F."""
        ran.append(("f", a))
        return {}

    @tool
    def g(b: int) -> dict[str, Any]:
        """G."""
        ran.append(("g", b))
        return {}

    async with runner_of(model_on(service), tools=[f, g]) as runner:
        found = await turn(runner, "go", streamed=True)
    assert sorted(ran) == [("f", 1), ("g", 2)]
    whole = next(event for event in found if event.function_calls and not event.partial)
    assert [(call.id, call.name) for call in whole.function_calls] == [("c1", "f"), ("c2", "g")]
    partial_ids = {call.id for event in found if event.partial for call in event.function_calls}
    assert partial_ids == {"c1", "c2"}


async def test_case_stream_3_printing_a_streamed_turn(service: Service) -> None:
    service.answers(
        Sse(stream(message("Let me look."), function_call("weather", '{"city": "A"}'))),
        Sse(stream(reasoning("hm"), message("It is 5."))),
    )
    async with runner_of(model_on(service), tools=[weather]) as runner:
        found = await turn(runner, "go", streamed=True)
    (final,) = [event for event in found if not event.partial and event.is_final_response()]
    assert final.text == "It is 5."
    assert "".join(event.text for event in found if event.partial and event.id == final.id) == "It is 5."


@STREAMS
async def test_case_hist_3_a_server_that_counts_calls_anew_in_each_turn(service: Service, streamed: bool) -> None:
    calls = [tool_call("weather", json.dumps({"city": city}), "call_0") for city in "AB"]
    service.answers(
        chat_reply(streamed, "", calls[0]),
        chat_reply(streamed, "one"),
        chat_reply(streamed, "", calls[1]),
        chat_reply(streamed, "two"),
        chat_reply(streamed, "three"),
    )
    async with runner_of(chat_model_on(service), tools=[weather]) as runner:
        for text in ("A?", "B?", "and?"):
            await turn(runner, text, streamed=streamed)
    said = service.body["messages"][1:]  # the first is the instruction
    assert [message["role"] for message in said] == [
        "user", "assistant", "tool", "assistant", "user", "assistant", "tool", "assistant", "user"
    ]  # fmt: skip
    first, second = said[1]["tool_calls"][0], said[5]["tool_calls"][0]
    assert first["id"] == said[2]["tool_call_id"] != second["id"] == said[6]["tool_call_id"]
    assert [json.loads(said[at]["content"])["city"] for at in (2, 6)] == ["A", "B"]


@STREAMS
async def test_case_hist_3_two_calls_of_one_turn_under_one_id(service: Service, streamed: bool) -> None:
    """MOD-14: both run, each gets its own answer."""
    calls = [tool_call("weather", json.dumps({"city": city}), "weather") for city in "AB"]
    service.answers(chat_reply(streamed, "", *calls), chat_reply(streamed, "done"))
    async with runner_of(chat_model_on(service), tools=[weather]) as runner:
        found = await turn(runner, "go", streamed=streamed)
    asked, *answers = service.body["messages"][2:]
    assert len({call["id"] for call in asked["tool_calls"]}) == 2
    by_id = {message["tool_call_id"]: json.loads(message["content"])["city"] for message in answers}
    assert [by_id[call["id"]] for call in asked["tool_calls"]] == ["A", "B"]
    whole = next(event for event in found if event.function_calls and not event.partial)
    partial_ids = {call.id for event in found if event.partial for call in event.function_calls}
    assert not streamed or partial_ids == {call.id for call in whole.function_calls}


@STREAMS
async def test_case_model_1_a_stop_with_nothing_said(service: Service, streamed: bool) -> None:
    service.answers(
        chat_reply(streamed, "", tool_call("weather", '{"city": "A"}')),
        chat_reply(streamed, ""),
        chat_reply(streamed, "again"),
    )
    async with runner_of(chat_model_on(service), tools=[weather], output_key="out") as runner:
        *_, last = await turn(runner, "go", streamed=streamed)
        assert (last.error_code, last.finish_reason, last.usage_metadata is not None) == (
            "EMPTY_RESPONSE",
            "STOP",
            True,
        )
        *_, after = await turn(runner, "and?", streamed=streamed)
    assert after.text == "again"
    assert all(message.get("content") or message.get("tool_calls") for message in service.body["messages"])


@pytest.mark.parametrize("chat", [False, True])
async def test_case_model_2_a_call_cut_by_the_limit_is_not_run(service: Service, chat: bool) -> None:
    ran: list[str] = []

    @tool
    def write(path: str, text: str) -> dict[str, Any]:
        """Write."""
        ran.append(path)
        return {}

    torso = '{"path": "/a", "te'
    if chat:
        cut = chat_stream("", tool_call("write", torso), finish="length")
        service.answers(Sse(cut, named=False, done=True), Sse(chat_stream("again"), named=False, done=True))
        model = chat_model_on(service)
    else:
        begun = [created(), added(function_call("write", "")), arguments_delta(torso)]
        service.answers(Sse([*begun, incomplete("max_output_tokens")]), Sse(stream(message("again"))))
        model = model_on(service)
    async with runner_of(model, tools=[write]) as runner:
        *_, last = await turn(runner, "go", streamed=True)
        assert (last.finish_reason, last.error_code, ran) == ("MAX_TOKENS", "MAX_TOKENS", [])
        *_, after = await turn(runner, "and?", streamed=True)
    assert after.text == "again", "the session stays usable"


@STREAMS
async def test_case_model_2_no_arguments_where_some_are_required(service: Service, streamed: bool) -> None:
    """The model is told what is wrong."""
    service.answers(reply(streamed, function_call("weather", "")), reply(streamed, message("Sorry.")))
    async with runner_of(model_on(service), tools=[weather]) as runner:
        *_, last = await turn(runner, "go", streamed=streamed)
    assert last.text == "Sorry."
    output = next(item for item in service.body["input"] if item["type"] == "function_call_output")
    assert "city" in json.loads(output["output"])["error"]


async def test_case_model_3_a_busy_provider(service: Service) -> None:
    service.answers(
        Json({"error": {"message": "x"}}, 429, {"Retry-After": "0"}),
        Json({"error": {"message": "x"}}, 503),
        Sse(stream(message("Hello"))),
        Sse([created(), text_delta("half")], breaks=True),
        Json({"error": {"message": "x"}}, 429),
    )

    async def at_once(seconds: float) -> None:
        return None

    async with runner_of(model_on(service, retry=True)) as runner:
        with use_sleep(at_once):
            found = await turn(runner, "hi", streamed=True)
            assert len(service.sent) == 3
            assert [event.text for event in found] == ["Hel", "lo", "Hello"]
            with pytest.raises(ModelError) as caught:
                await turn(runner, "more", streamed=True)
        assert (caught.value.retryable, caught.value.after_first_chunk, len(service.sent)) == (True, True, 4)
        session = await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")
        assert "half" not in [event.text for event in session.events]
    async with runner_of(model_on(service)) as runner:
        with pytest.raises(ModelError) as caught:
            await turn(runner, "hi", streamed=False)
    assert caught.value.status_code == 429


@STREAMS
async def test_case_usage_1_one_sum(service: Service, streamed: bool) -> None:
    service.answers(reply(streamed, message("a"), usage=usage(100, 60, 50, 20)))
    config = RunConfig(streaming_mode="sse" if streamed else "none")
    async with runner_of(model_on(service)) as runner:
        async with runner.run(user_id="u", session_id="s", message="hi", config=config) as run:
            async for _ in run:
                pass
        total = run.usage.total
    assert (total.prompt_token_count, total.cached_content_token_count) == (100, 60)
    assert (total.candidates_token_count, total.thoughts_token_count, total.total_token_count) == (30, 20, 150)


async def test_case_usage_1_what_an_agent_tool_spends_counts(service: Service) -> None:
    service.answers(
        Json(response(function_call("child", '{"request": "x"}'), usage=None)),
        Json(response(message("inner"), usage=usage(7, 0, 3, 0))),
        Json(response(message("outer"), usage=usage(10, 0, 5, 0))),
    )
    child = LlmAgent(name="child", description="Helps.", model=model_on(service))
    async with runner_of(model_on(service), tools=[AgentTool(child)]) as runner:
        async with runner.run(user_id="u", session_id="s", message="hi") as run:
            async for _ in run:
                pass
        spent = run.usage
    assert (spent.total.prompt_token_count, spent.total.candidates_token_count) == (17, 8)
    assert spent.by_agent["child"].prompt_token_count == 7


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["city", "n"],
}


async def test_out_1_a_schema_goes_to_the_service_in_strict_form(service: Service) -> None:
    service.answers(Json(response(message('{"city": "Rome", "n": 2}'))))
    async with runner_of(model_on(service), output_schema=SCHEMA, output_key="out") as runner:
        await turn(runner, "go", streamed=False)
        session = await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")
    assert session.state["out"] == {"city": "Rome", "n": 2}
    form = service.body["text"]["format"]
    assert (form["type"], form["strict"], form["schema"]["additionalProperties"]) == ("json_schema", True, False)


async def test_case_out_1_json_in_a_fence(service: Service) -> None:
    service.answers(
        Json(completion('<think>hm</think>```json\r\n{"city": "Rome", "n": 2}\r\n```')),
        Json(completion('{"city": 5}')),
        Json(completion('{"city": "Oslo", "n": 1}')),
    )
    async with runner_of(chat_model_on(service), output_schema=SCHEMA, output_key="out") as runner:
        for wanted in ({"city": "Rome", "n": 2}, {"city": "Oslo", "n": 1}):
            await turn(runner, "go", streamed=False)
            session = await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")
            assert session.state["out"] == wanted
    assert service.body["response_format"]["type"] == "json_schema"


async def test_out_2_a_schema_beside_tools_goes_through_a_tool_on_compatible_servers(service: Service) -> None:
    """llama.cpp, for one, takes a schema or tools."""
    service.answers(Json(completion(None, tool_call("set_model_response", '{"city": "Rome", "n": 2}'))))
    model = chat_model_on(service)
    async with runner_of(model, tools=[weather], output_schema=SCHEMA, output_key="out") as runner:
        await turn(runner, "go", streamed=False)
        session = await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")
    assert session.state["out"] == {"city": "Rome", "n": 2}
    assert "response_format" not in service.body
    assert {entry["function"]["name"] for entry in service.body["tools"]} == {"weather", "set_model_response"}


async def test_settings_of_the_agent_reach_the_wire(service: Service) -> None:
    service.answers(Json(response(message("a"))))
    config = GenerateContentConfig(max_output_tokens=7, thinking_config={"thinkingLevel": "LOW"})
    async with runner_of(model_on(service), instruction="Be brief.", generate_content_config=config) as runner:
        await turn(runner, "go", streamed=False)
    assert (service.body["max_output_tokens"], service.body["reasoning"]) == (7, {"effort": "low"})
    assert "Be brief." in service.body["instructions"]
