"""Gemini models under an agent and a Runner, over the wire: the reported cases of cases.md."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from tests.gemini.live_service import Line, live_server
from tests.gemini.making import api_model, vertex_model, whole_of
from tests.gemini.service import Failure, Reply, Service, chunk, error_body

from hookwork import (
    Event,
    FunctionDeclaration,
    GenerateContentConfig,
    LiveRunConfig,
    ModelResponse,
    Plugin,
    RunConfig,
    Runner,
    Settings,
    Tool,
    text_content,
)
from hookwork.errors import ModelError
from hookwork.live import SessionResumption
from hookwork.platform import use_sleep
from hookwork.records.codec import dump
from hookwork_llm import GoogleSearchTool, LlmAgent, tool

BACKENDS = pytest.mark.parametrize("make", [api_model, vertex_model])
STREAMS = pytest.mark.parametrize("stream", [False, True])


async def turn(runner: Runner, message: str, *, stream: bool) -> list[Event]:
    """The events of one turn."""
    config = RunConfig(streaming_mode="sse" if stream else "none")
    async with runner.run(user_id="u", session_id="s", message=message, config=config) as run:
        return [event async for event in run]


def runner_of(model: Any, **agent: Any) -> Runner:
    return Runner.in_memory(LlmAgent(name="helper", model=model, **agent), settings=Settings())


@tool
def weather(city: str) -> dict[str, Any]:
    """The weather of a city."""
    return {"city": city, "sky": "clear"}


@BACKENDS
@STREAMS
async def test_case_stream_1_a_signature_stays_on_the_first_of_three_calls(
    service: Service, make: Any, stream: bool
) -> None:
    calls = [{"functionCall": {"name": "weather", "args": {"city": city}}} for city in ("A", "B", "C")]
    service.scripts = [
        Reply(
            chunk({"text": "three ", "thought": True}),
            chunk({"text": "cities", "thought": True}),
            chunk({**calls[0], "thoughtSignature": "Af8="}, *calls[1:], finish="STOP"),
        ),
        Reply(chunk({"text": "All clear."}, finish="STOP")),
        Reply(chunk({"text": "Bye."}, finish="STOP")),
    ]
    model = make(service)
    async with runner_of(model, tools=[weather]) as runner:
        await turn(runner, "weather?", stream=stream)
        await turn(runner, "bye", stream=stream)
    await model.close()
    contents = service.received[-1].body["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user", "model", "user"]
    thought, *called = contents[1]["parts"]
    assert thought == {"text": "three cities", "thought": True}
    assert [part["functionCall"]["args"]["city"] for part in called] == ["A", "B", "C"]
    assert [part.get("thoughtSignature") for part in called] == ["Af8=", None, None]
    assert all("id" not in part["functionCall"] for part in called), "ids that we made up stay at home (CON-8)"
    answers = [part["functionResponse"]["response"]["city"] for part in contents[2]["parts"]]
    assert answers == ["A", "B", "C"]


async def test_case_model_2_a_call_that_was_cut_off_is_not_run(service: Service) -> None:
    ran: list[str] = []

    @tool
    def write(path: str, text: str) -> str:
        """Write a file."""
        ran.append(path)
        return "done"

    cut = {"functionCall": {"name": "write", "willContinue": True,
                            "partialArgs": [{"jsonPath": "$.path", "stringValue": "/a"}]}}  # fmt: skip
    service.scripts = [
        Reply(chunk({"text": "I write."}), chunk(cut), chunk({}, finish="MAX_TOKENS")),
        Reply(chunk({"text": "Still here."}, finish="STOP")),
    ]
    model = vertex_model(service)
    async with runner_of(model, tools=[write]) as runner:
        events = await turn(runner, "write it", stream=True)
        assert (events[-1].error_code, events[-1].finish_reason) == ("MAX_TOKENS", "MAX_TOKENS")
        assert "'write'" in (events[-1].error_message or "")
        assert ran == []
        assert (await turn(runner, "go on", stream=True))[-1].text == "Still here."
    await model.close()


async def test_case_model_3_a_busy_provider(service: Service) -> None:
    async def sleep(seconds: float) -> None:
        pass

    service.scripts = [
        Failure(429, error_body(429, "RESOURCE_EXHAUSTED"), (("Retry-After", "0"),)),
        Failure(503, error_body(503, "UNAVAILABLE")),
        Reply(chunk({"text": "good "}), chunk({"text": "answer"}, finish="STOP")),
        Reply(chunk({"text": "half"}), breaks=True),
    ]
    model = api_model(service, retry=True)
    with use_sleep(sleep):
        async with runner_of(model) as runner:
            events = await turn(runner, "hello", stream=True)
            assert [(event.text, bool(event.partial)) for event in events if event.author == "helper"] == [
                ("good ", True),
                ("answer", True),
                ("good answer", False),
            ]
            assert len(service.received) == 3
            with pytest.raises(ModelError) as caught:
                await turn(runner, "again", stream=True)
            session = await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")
            assert [event.text for event in session.events] == ["hello", "good answer", "again"]
    assert (caught.value.retryable, caught.value.kind, caught.value.provider) == (True, "stream", "gcp.gemini")
    await model.close()


@STREAMS
async def test_case_usage_1_one_sum_whatever_the_route(service: Service, stream: bool) -> None:
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    service.always = Reply(
        chunk({"text": "a"}, usageMetadata={"promptTokenCount": 10}),
        chunk({"text": "b"}, finish="STOP", usageMetadata=usage),
    )
    model = api_model(service)
    config = RunConfig(streaming_mode="sse" if stream else "none")
    async with runner_of(model) as runner, runner.run(user_id="u", session_id="s", message="x", config=config) as run:
        async for _ in run:
            pass
        total = run.usage.total
        assert (total.prompt_token_count, total.candidates_token_count, total.thoughts_token_count) == (10, 5, None)
        assert run.usage.total.calls == 1
    await model.close()


@STREAMS
async def test_mod_14_calls_without_an_id_get_one_that_the_prompt_does_not_show(service: Service, stream: bool) -> None:
    """MOD-15: all partial events of a response and its final one share one event id."""
    call = {"functionCall": {"name": "weather", "args": {"city": "A"}}}
    service.scripts = [
        Reply(chunk({"text": "I "}), chunk({"text": "look."}, call, call, finish="STOP")),
        Reply(chunk({"text": "done"}, finish="STOP")),
    ]
    model = api_model(service)
    async with runner_of(model, tools=[weather]) as runner:
        events = await turn(runner, "x", stream=stream)
    await model.close()
    called = next(event for event in events if event.function_calls and not event.partial)
    ids = [call.id for call in called.function_calls]
    assert len(set(ids)) == 2
    assert all(call_id and call_id.startswith("adk-") for call_id in ids)
    assert "adk-" not in str(service.received[-1].body)
    if stream:
        partials = [event for event in events if event.partial and event.id == called.id]
        assert [event.text for event in partials] == ["I ", "look."]
        assert [call.id for event in partials for call in event.function_calls] == ids


async def test_err_3_an_error_passes_the_hook_that_may_answer(service: Service) -> None:
    service.always = Failure(503, error_body(503, "UNAVAILABLE"))
    seen: list[BaseException] = []

    class Excuse(Plugin):
        name = "excuse"

        async def on_model_error(self, ctx: Any, request: Any, error: BaseException) -> ModelResponse:
            seen.append(error)
            return ModelResponse(content=text_content("Later, please."))

    model = api_model(service)
    agent = LlmAgent(name="helper", model=model)
    async with Runner.in_memory(agent, plugins=[Excuse()], settings=Settings()) as runner:
        assert await runner.ask(user_id="u", session_id="s", message="x") == "Later, please."
    await model.close()
    assert [(type(error), error.kind) for error in seen] == [(ModelError, "unavailable")]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Reply({"candidates": [{"finishReason": "SAFETY"}]}), "SAFETY"),
        (Reply({"promptFeedback": {"blockReason": "OTHER"}}), "OTHER"),
        (Reply({"candidates": [{"finishReason": "MAX_TOKENS"}]}), "MAX_TOKENS"),
        (
            Reply({"candidates": [{"content": {"role": "model", "parts": []}, "finishReason": "STOP"}]}),
            "EMPTY_RESPONSE",
        ),
    ],
)
async def test_err_4_a_result_that_is_none_has_an_error_code(service: Service, answer: Reply, code: str) -> None:
    """CASE-MODEL-1: an empty STOP is told from an answer."""
    service.always = answer
    model = vertex_model(service)
    async with runner_of(model) as runner:
        events = await turn(runner, "x", stream=False)
    await model.close()
    assert (events[-1].error_code, events[-1].text) == (code, "")


async def test_mod_11_what_a_call_changes_never_reaches_the_agent(service: Service) -> None:
    """MOD-6: a hook changes the request's config, the agent's stays; MOD-12: what is unset is not written."""

    class Hotter(Plugin):
        name = "hotter"

        async def before_model(self, ctx: Any, request: Any) -> None:
            request.update_config(temperature=(request.config.temperature or 0) + 1)

    model = api_model(service)
    config = GenerateContentConfig(temperature=0.5)
    agent = LlmAgent(name="helper", model=model, generate_content_config=config)
    async with Runner.in_memory(agent, plugins=[Hotter()], settings=Settings()) as runner:
        for _ in range(2):
            await turn(runner, "x", stream=False)
    answer = await whole_of(api_model(service))
    await model.close()
    assert [received.body["generationConfig"] for received in service.received[:2]] == [{"temperature": 1.5}] * 2
    assert config.temperature == 0.5
    assert set(dump(answer)) == {"content", "finishReason", "modelVersion", "turnComplete"}


class Odd(Tool):
    """A tool with a schema as an MCP server writes it."""

    name = "odd"
    description = "Odd."

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.got: list[Any] = []

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name=self.name, description="Odd.", parameters_json_schema=self.schema)

    async def run(self, ctx: Any, args: dict[str, Any]) -> Any:
        self.got.append(dict(args))
        return {"ok": True}


async def test_case_mcp_4_a_rewritten_tool_is_called(service: Service) -> None:
    schema = {
        "type": "object",
        "$defs": {"K": {"const": "k"}},
        "properties": {"kind": {"$ref": "#/$defs/K"}, "n": {"type": ["integer", "null"]}},
        "required": ["kind"],
    }
    odd = Odd(schema)
    service.scripts = [
        Reply(chunk({"functionCall": {"name": "odd", "args": {"kind": "k", "n": None}}}, finish="STOP")),
        Reply(chunk({"text": "done"}, finish="STOP")),
    ]
    model = api_model(service)
    async with runner_of(model, tools=[odd]) as runner:
        events = await turn(runner, "x", stream=False)
    await model.close()
    assert odd.got == [{"kind": "k", "n": None}]
    assert events[-1].text == "done"
    sent = service.received[0].body["tools"][0]["functionDeclarations"][0]["parameters"]
    assert sent["properties"]["n"] == {"type": "INTEGER", "nullable": True}


async def test_mod_1_a_model_of_a_name_is_closed_with_the_runner(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """REG-1, MOD-1: the runner makes the model of a name and closes it; its client goes with it."""
    from hookwork_gemini.client import CLIENTS

    monkeypatch.setenv("GEMINI_API_KEY", "k")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", service.url)
    before = CLIENTS.count()
    async with runner_of("gemini-2.5-flash") as runner:
        assert await runner.ask(user_id="u", session_id="s", message="hi") == "Hello."
        assert CLIENTS.count() == before + 1
    assert CLIENTS.count() == before


class Answer(BaseModel):
    sky: str
    degrees: int | None = None


async def test_cap_3_schema_and_tools_together_on_vertex_ai(service: Service) -> None:
    service.scripts = [
        Reply(chunk({"functionCall": {"name": "weather", "args": {"city": "A"}}}, finish="STOP")),
        Reply(chunk({"text": '{"sky": "clear", "degrees": 21}'}, finish="STOP")),
    ]
    model = vertex_model(service)
    async with runner_of(model, tools=[weather], output_schema=Answer, output_key="out") as runner:
        await turn(runner, "x", stream=False)
        session = await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")
    await model.close()
    body = service.received[0].body
    assert [one["name"] for one in body["tools"][0]["functionDeclarations"]] == ["weather"]
    assert body["generationConfig"]["responseMimeType"] == "application/json"
    assert body["generationConfig"]["responseJsonSchema"]["properties"]["sky"]["type"] == "string"
    assert session.state["out"] == {"sky": "clear", "degrees": 21}


async def test_cap_3_schema_and_tools_by_a_tool_on_the_gemini_api(service: Service) -> None:
    service.scripts = [
        Reply(chunk({"functionCall": {"name": "set_model_response", "args": {"sky": "clear"}}}, finish="STOP")),
    ]
    model = api_model(service)
    async with runner_of(model, tools=[weather], output_schema=Answer, output_key="out") as runner:
        await turn(runner, "x", stream=False)
        session = await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")
    await model.close()
    body = service.received[0].body
    names = [one["name"] for one in body["tools"][0]["functionDeclarations"]]
    assert sorted(names) == ["set_model_response", "weather"]
    assert not body.get("generationConfig")
    assert session.state["out"]["sky"] == "clear"


async def test_cap_5_a_built_in_tool_is_the_services(service: Service) -> None:
    found = {"webSearchQueries": ["q"], "groundingChunks": [{"web": {"uri": "u", "title": "t"}}]}
    service.always = Reply(chunk({"text": "found"}, finish="STOP", groundingMetadata=found))
    model = api_model(service)
    async with runner_of(model, tools=[GoogleSearchTool()]) as runner:
        events = await turn(runner, "x", stream=True)
    await model.close()
    assert service.received[0].body["tools"] == [{"googleSearch": {}}]
    assert events[-1].grounding_metadata is not None
    assert events[-1].grounding_metadata.web_search_queries == ("q",)


# --- live -------------------------------------------------------------------------------------------------------------


@BACKENDS
async def test_case_live_1_the_ten_minute_line_cut(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """LIVE-9, LIVE-10, LIVE-11: handles, bounded attempts, no history on a resumed connection."""

    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with live_server(monkeypatch) as server:
        frames: list[dict[str, Any]] = []

        async def first(line: Line) -> None:
            frames.append(await line.get())
            await line.send(sessionResumptionUpdate={"newHandle": "h1", "resumable": True})
            await line.say("It is five.")
            await line.send(goAway={"timeLeft": "1s"})
            await line.close(1011)

        async def second(line: Line) -> None:
            await line.send(sessionResumptionUpdate={"newHandle": "h2", "resumable": True})
            await line.cut()

        server.talks = [first, second, *[Line.cut] * 5]
        model = make(server, "gemini-2.0-flash-live-001")
        events: list[Event] = []
        async with runner_of(model) as runner:
            config = LiveRunConfig(session_resumption=SessionResumption())
            run = runner.run_live(user_id="u", session_id="s", config=config)
            await run.send("what time is it?")

            async def read() -> None:
                async for event in run:
                    events.append(event)

            with use_sleep(sleep), pytest.raises(ModelError) as caught:
                await read()
            server.talks = [Line.hang_up]
            again = runner.run_live(
                user_id="u", session_id="s", config=LiveRunConfig(session_resumption=SessionResumption(handle="h2"))
            )
            await again.close()
            async for _ in again:
                pass
        await model.close()
        resumed = [setup["sessionResumption"] for setup in server.setups]
        vertex = make is vertex_model
        marked = {"transparent": True} if vertex else {}
        assert resumed[:3] == [{}, {"handle": "h1", **marked}, {"handle": "h2", **marked}]
        assert resumed[-1] == {"handle": "h2", **marked}, "a new run goes on where its caller says"
        assert len(frames) == 1, "no history is sent to a session that resumes"
        assert (caught.value.kind, caught.value.code) == ("live", "1006")
        assert waits == sorted(waits)
        assert waits[-1] > waits[0]
        handles = [event.session_resumption_handle for event in events if event.session_resumption_handle]
        assert handles == ["h1", "h2"]
        assert any(event.text == "It is five." and not event.partial for event in events)


async def test_live_14_tools_run_beside_the_talk(monkeypatch: pytest.MonkeyPatch) -> None:
    async with live_server(monkeypatch) as server:
        answers: list[dict[str, Any]] = []

        async def talk(line: Line) -> None:
            await line.get()
            await line.send(toolCall={"functionCalls": [{"id": "c1", "name": "weather", "args": {"city": "Rome"}}]})
            answers.append(await line.get())
            await line.say("Clear.")
            await line.hang_up()

        server.talks = [talk]
        model = api_model(server, "gemini-2.0-flash-live-001")  # type: ignore[arg-type]
        async with (
            runner_of(model, tools=[weather]) as runner,
            runner.run_live(user_id="u", session_id="s", config=LiveRunConfig()) as run,
        ):
            await run.send("weather in Rome?")
            async for event in run:
                if event.turn_complete:
                    await run.close()
        await model.close()
        (response,) = answers[0]["toolResponse"]["functionResponses"]
        assert (response["id"], response["name"], response["response"]["sky"]) == ("c1", "weather", "clear")
