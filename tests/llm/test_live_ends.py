"""How live sessions end, and what they leave behind: nothing (models LIVE-13, core INV-3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.llm.live_talks import Talk

from hookwork import LiveRunConfig, Plugin, Runner, Settings, ToolContext
from hookwork.errors import ConfigurationError, LiveConnectionClosed, ModelError, PluginError
from hookwork.platform import use_sleep
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import Cut, Hear, ScriptedConnection, ScriptedLiveModel, call
from hookwork_testkit.live import audio, turn_complete


class Clock:
    """Notes every wait and takes no time."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> Any:
    clock = Clock()
    with use_sleep(clock.sleep):
        yield clock


def _tasks() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


@pytest.mark.parametrize("way", ["close", "stop", "leave", "cancel", "error", "history"])
async def test_live_13_no_task_and_no_line_outlives_the_session(way: str) -> None:
    before = _tasks()
    ended: list[str] = []
    started = asyncio.Event()

    async def until_started(_: Any) -> None:
        await started.wait()

    @tool
    async def forever() -> dict[str, Any]:
        """Take for ever."""
        started.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("forever")
        return {}

    script = [Hear(1), call("forever", "c1"), until_started, "text"]
    talk = Talk(script, close=False, tools=[forever], responses=["typed"])
    if way == "history":
        async for _ in talk.runner.run(user_id="u", session_id="s", message="before"):
            pass
        talk = Talk([], close=False, options={"sessions": talk.runner.sessions})
        await _breaks_in_history(talk)
        assert talk.line.closed
        assert _tasks() == before
        return

    async def hold() -> None:
        async with talk.run:
            await talk.run.send("go")
            async for event in talk.run:
                if event.partial:
                    if way == "close":
                        await talk.run.close()
                    elif way == "leave":
                        break
                    elif way == "stop":
                        asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(talk.run.stop()))
                    elif way == "error":
                        talk.line.cut(1007)

    holding = asyncio.create_task(hold())
    if way == "cancel":
        await started.wait()
        holding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holding
    elif way == "error":
        with pytest.raises(LiveConnectionClosed):
            await holding
    else:
        await holding
    assert talk.run.outcome is not None
    kinds = {"close": "completed", "error": "failed"}
    assert talk.run.outcome.kind == kinds.get(way, "closed")
    assert ended == ["forever"]
    assert talk.line.closed
    for _ in range(3):
        await asyncio.sleep(0)
    assert _tasks() == before


async def _breaks_in_history(talk: Talk) -> None:
    from hookwork_testkit import ScriptedConnection

    async def broken(self: ScriptedConnection, contents: Any) -> None:
        raise ModelError("history refused", kind="invalid_request")

    original = ScriptedConnection.send_history
    ScriptedConnection.send_history = broken  # type: ignore[method-assign]
    try:
        with pytest.raises(ModelError, match="history refused"):
            await talk.hold()
    finally:
        ScriptedConnection.send_history = original  # type: ignore[method-assign]


async def test_live_13_a_stray_cancellation_of_the_client_is_a_lost_line(clock: Clock) -> None:
    talk = await Talk([Hear(1), asyncio.CancelledError()], [Hear(1), "yes", turn_complete()]).hold("hi")
    assert len(talk.connections) == 2
    assert [event.text for event in await talk.stored() if event.content] == ["hi", "yes"]


async def test_live_10_closing_while_there_is_no_line_ends_the_session_at_once() -> None:
    async def never(_: float) -> None:
        await talk.run.close()
        await asyncio.get_running_loop().create_future()

    talk = Talk([Hear(1), "a", turn_complete(), Cut(1006)], close=False)
    with use_sleep(never):
        await talk.hold("hi")
    assert talk.run.outcome is not None
    assert talk.run.outcome.kind == "completed"
    assert len(talk.connections) == 1


async def test_run_20_an_on_event_that_raises_ends_the_run_and_closes_the_line() -> None:
    class Strict(Plugin):
        name = "strict"

        def on_event(self, event: Any) -> None:
            if event.text == "bad":
                raise ValueError("not allowed")

    talk = Talk([Hear(1), "good", turn_complete(), "bad", turn_complete()], close=False, plugins=[Strict()])
    with pytest.raises(ValueError, match="not allowed"):
        await talk.hold("hi")
    assert talk.line.closed
    assert [event.text for event in await talk.stored() if event.content] == ["hi", "good"]


async def test_run_14_an_on_user_message_that_raises_ends_the_run_and_nothing_is_sent() -> None:
    class Strict(Plugin):
        name = "strict"

        def on_user_message(self, message: Any) -> None:
            raise ValueError("not allowed")

    talk = Talk([], close=False, plugins=[Strict()])
    with pytest.raises(ValueError, match="not allowed"):
        await talk.hold("hi")
    assert talk.line.closed
    assert talk.line.contents == []
    assert [event.author for event in await talk.stored()] == []


async def test_run_21_an_append_that_fails_ends_the_run() -> None:
    talk = Talk([Hear(1), "yes", turn_complete()], close=False)

    async def full(*_: Any, **__: Any) -> Any:
        raise OSError("disk full")

    await talk.hold_until("~yes", "hi")
    talk.runner.sessions.append_event = full  # type: ignore[method-assign]
    with pytest.raises(OSError, match="disk full"):
        await anext(talk.run)
    assert talk.line.closed


async def test_live_6_a_slow_consumer_slows_the_server_down() -> None:
    talk = Talk([Hear(1), *[audio() for _ in range(1000)], turn_complete()])
    await talk.run.send("hi")
    events = aiter(talk.run)
    await anext(events)
    for _ in range(3000):
        await asyncio.sleep(0)
    left = len(talk.line._script)
    assert left > 800, "the server was read far ahead of the consumer"
    rest = 1
    while (await anext(talk.run, None)) is not None:
        rest += 1
    assert rest == 1001


async def test_inv_1_a_tool_sees_its_own_call_in_the_session() -> None:
    seen: list[list[str]] = []

    @tool
    def look(tool_context: ToolContext) -> dict[str, Any]:
        """Look."""
        seen.append([c.name or "" for event in tool_context.session.events for c in event.function_calls])
        return {}

    await Talk([Hear(1), call("look", "c1"), Hear(1), turn_complete()], tools=[look]).hold("hi")
    assert seen == [["look"]]


async def test_conc_1_many_live_runs_on_one_runner_are_independent() -> None:
    model = ScriptedLiveModel(*([[Hear(1), _echo, turn_complete()]] * 50))
    runner = Runner.in_memory(LlmAgent(name="voice", model=model), settings=Settings())

    async def one(number: int) -> str:
        run = runner.run_live(user_id="u", session_id=f"s{number}", config=LiveRunConfig())
        await run.send(f"n{number}")
        texts = []
        async for event in run:
            if event.turn_complete:
                await run.close()
            elif not event.partial and event.content is not None:
                texts.append(event.text)
        return "".join(texts)

    assert await asyncio.gather(*(one(number) for number in range(50))) == [f"you said n{i}" for i in range(50)]
    assert model.open_connections == 0


def _echo(connection: Any) -> str:
    return f"you said {connection.texts[-1]}"


async def test_tel_12_a_connection_is_a_span_of_its_own() -> None:
    trace = pytest.importorskip("opentelemetry.sdk.trace", reason="the OpenTelemetry SDK is not installed")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), trace.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    talk = Talk([Hear(1), call("nope", "c1"), Hear(1), "yes", turn_complete()])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hookwork.lifecycle.active_tracer", lambda: provider.get_tracer("test"))
        await talk.hold("hi")
    spans: dict[str, Any] = {span.name: span for span in exporter.get_finished_spans()}
    assert {"invoke_agent voice", "generate_content scripted-live", "execute_tool nope"} <= set(spans)
    agent = spans["invoke_agent voice"].context.span_id
    assert spans["generate_content scripted-live"].parent.span_id == agent
    assert spans["execute_tool nope"].parent.span_id == agent


def _raises(*_: Any) -> Any:
    raise ValueError("mine")


@pytest.mark.parametrize("hook", ["before_model", "after_model"])
async def test_mcb_2_what_a_hook_raises_ends_the_run_and_on_model_error_is_not_asked(hook: str) -> None:
    asked: list[Any] = []
    hooks: dict[str, Any] = {hook: _raises, "on_model_error": lambda *given: asked.append(given)}
    talk = Talk([Hear(1), "yes", turn_complete()], close=False, **hooks)
    with pytest.raises(ValueError, match="mine"):
        await talk.hold("hi")
    assert asked == []
    assert talk.model.open_connections == 0


async def test_mcb_3_whatever_a_connection_raises_is_on_model_errors_to_answer() -> None:
    asked: list[str] = []

    def answer(ctx: Any, request: Any, error: Exception) -> None:
        asked.append(repr(error))

    talk = Talk([Hear(1), KeyError("a bug")], close=False, on_model_error=answer)
    with pytest.raises(KeyError, match="a bug"):
        await talk.hold("hi")
    assert asked == ["KeyError('a bug')"]


async def test_mcb_2_a_hook_that_gives_something_else_is_named() -> None:
    talk = Talk([Hear(1)], close=False, before_model=lambda ctx, request: "hello")
    with pytest.raises(PluginError, match="before_model returned str"):
        await talk.hold("hi")


async def test_mod_2_a_connection_that_gives_something_else_is_named() -> None:
    class Odd(ScriptedConnection):
        def receive(self) -> Any:
            async def odd() -> Any:
                yield "text"

            return odd()

    talk = Talk([], close=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hookwork_testkit.live.ScriptedConnection", Odd)
        with pytest.raises(ConfigurationError, match="yielded str"):
            await talk.hold("hi")
    assert talk.line.closed
