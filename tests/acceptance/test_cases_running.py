"""Cases CANCEL, CONC, TEL, USAGE and PKG: stopping, many users, spans, token accounts, import."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import random
import statistics
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hookwork import Plugin, RunConfig
from hookwork.context import ToolContext
from hookwork.model import Model, ModelRequest
from hookwork.records.content import Content, Part, text_content
from hookwork.records.metadata import ModelResponse, UsageMetadata
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, block, call, partial

SSE = RunConfig(streaming_mode="sse")


# --- CANCEL -----------------------------------------------------------------------------------------------------------


class Ended(Plugin):
    def __init__(self) -> None:
        self.kinds: list[tuple[str, str]] = []

    def after_run(self, outcome: Any) -> None:
        self.kinds.append((outcome.kind, outcome.reason))


@pytest.mark.parametrize("how", ["close", "cancel", "stop"])
async def test_case_cancel_1_the_stop_button(backend: Any, read: Any, say: Any, how: str) -> None:
    ended = Ended()
    model = ScriptedModel([[partial("Once "), partial("upon "), *block("a time")], "turn two"])
    agent = LlmAgent(name="a", model=model)
    async with backend.runner(agent, plugins=[ended], config=SSE) as runner:
        run = runner.run(user_id="u", session_id="s", message="tell me")
        seen: list[str] = []
        second = asyncio.Event()

        async def consume() -> None:
            async with run:
                async for event in run:
                    seen.append(event.text)
                    if len(seen) == 2:
                        second.set()
                        if how == "close":
                            return

        consumer = asyncio.create_task(consume())
        await second.wait()
        if how == "cancel":
            await model.wait_blocked()
            consumer.cancel()
            with pytest.raises(asyncio.CancelledError):
                await consumer
        else:
            if how == "stop":
                await model.wait_blocked()
                await run.stop()
            await consumer  # ends normally
        assert model.cut_short == 1  # the stream is closed by now
        assert [kind for kind, _ in ended.kinds] == ["closed"]
        assert run.outcome.reason == {"close": "left", "cancel": "cancelled", "stop": "stopped"}[how]
        model.release()
        await asyncio.sleep(0.05)
        assert [event.text for event in (await read(runner)).events] == ["tell me"]
        await say(runner, "again")
        assert [event.text for event in (await read(runner)).events] == ["tell me", "again", "turn two"]
    assert_valid_prompt(model.prompts[-1])


# --- CONC -------------------------------------------------------------------------------------------------------------


class Chat(Model):
    """Calls `who` once a turn, answers with random delays, and keeps every instruction it was given."""

    name = "chat"

    def __init__(self) -> None:
        self.instructions: list[tuple[str, str]] = []

    async def generate(self, request: ModelRequest, *, stream: bool = False) -> AsyncIterator[ModelResponse]:
        await asyncio.sleep(random.random() / 200)
        instruction = request.config.system_instruction
        first = request.contents[-1 if not request.contents[-1].function_responses else -3]
        self.instructions.append((instruction.text if instruction else "", first.text))
        if request.contents[-1].function_responses:
            if stream:
                yield partial("you are ")
            yield ModelResponse(content=text_content("you are served"))
        else:
            yield ModelResponse(content=Content(role="model", parts=[call("who", "c1")]))


async def test_case_conc_1_one_runner_two_hundred_users(in_memory: Any, read: Any) -> None:
    users = [f"user{n}" for n in range(200)]

    @tool
    async def who(ctx: ToolContext) -> str:
        """Say who it is."""
        ctx.state["user:seen"] = ctx.user_id
        await ctx.artifacts.save("note.txt", Part(text=ctx.user_id))
        return ctx.user_id

    model = Chat()
    agent = LlmAgent(name="a", model=model, tools=[who], instruction="You serve {user:name}.")
    snapshot = (agent.instruction, agent.tools, agent.model, agent.before_model, agent.output_key)

    async def turn(runner: Any, user: str, number: int) -> None:
        config = SSE if number % 2 else RunConfig()
        async with runner.run(
            user_id=user, session_id="s", message=f"I am {user}", state_delta={"user:name": user}, config=config
        ) as run:
            assert (await run.wait()).final_event.text == "you are served"

    async with in_memory.runner(agent) as runner:
        tasks_before = asyncio.all_tasks()
        await asyncio.gather(*(turn(runner, user, n) for n, user in enumerate(users)))
        assert asyncio.all_tasks() == tasks_before
        for user in users:
            session = await read(runner, user_id=user)
            assert len(session.events) == 4
            assert [event.author for event in session.events] == ["user", "a", "a", "a"]
            assert session.events[2].function_responses[0].response == {"result": user}
            assert session.state["user:seen"] == user
            note = await runner.artifacts.load_artifact(
                app_name="case", user_id=user, session_id="s", filename="note.txt"
            )
            assert note.text == user
    assert len(model.instructions) == 400
    for instruction, message in model.instructions:
        name = message.removeprefix("I am ")
        assert instruction.startswith(f"You serve {name}.\n")
    assert snapshot == (agent.instruction, agent.tools, agent.model, agent.before_model, agent.output_key)


# --- TEL --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An SDK tracer with an in-memory exporter, for this test only."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter


@tool
async def look() -> str:
    """Look."""
    return "seen"


async def test_case_tel_1_nesting_of_a_whole_run(in_memory: Any, say: Any, spans: Any) -> None:
    agent = LlmAgent(name="a", model=ScriptedModel([call("look"), "done"]), tools=[look])
    async with in_memory.runner(agent) as runner:
        events, _ = await say(runner)
    ended = spans.get_finished_spans()
    assert [span.name for span in ended] == [
        "generate_content scripted", "execute_tool look", "generate_content scripted", "invoke_agent a",
    ]  # fmt: skip
    outer = ended[-1].context.span_id
    assert {span.parent.span_id for span in ended[:-1]} == {outer}
    models = [span.attributes["gcp.vertex.agent.event_id"] for span in ended if span.name.startswith("generate")]
    assert models == [events[0].id, events[2].id]  # TEL-12


async def test_tel_12_a_response_of_a_before_model_hook_has_no_model_span(in_memory: Any, say: Any, spans: Any) -> None:
    agent = LlmAgent(
        name="a",
        model=ScriptedModel(),
        before_model=lambda ctx, request: ModelResponse(content=text_content("cached")),
    )
    async with in_memory.runner(agent) as runner:
        await say(runner)
    assert [span.name for span in spans.get_finished_spans()] == ["invoke_agent a"]


async def test_tl_26_a_tool_span_tells_errors_raised_and_errors_given_as_data(
    in_memory: Any, say: Any, spans: Any
) -> None:
    @tool
    async def raises() -> None:
        """Raise."""
        raise ValueError("broken")

    @tool
    async def tells() -> dict[str, Any]:
        """Tell."""
        return {"error": "not found"}

    model = ScriptedModel([call("look"), call("raises"), call("tells"), "done"])
    async with in_memory.runner(LlmAgent(name="a", model=model, tools=[look, raises, tells])) as runner:
        await say(runner)
    status = {
        span.name: (span.status.status_code.name, span.status.description)
        for span in spans.get_finished_spans()
        if span.name.startswith("execute_tool")
    }
    assert status == {
        "execute_tool look": ("UNSET", None),
        "execute_tool raises": ("ERROR", "broken"),
        "execute_tool tells": ("ERROR", "not found"),
    }


LEAVINGS = ["break", "return", "exception", "cancel", "drop"]


@pytest.mark.parametrize("how", LEAVINGS)
@pytest.mark.parametrize("at", [0, 1, 2])
async def test_case_tel_1_leaving_the_loop_early(
    in_memory: Any, spans: Any, caplog: pytest.LogCaptureFixture, how: str, at: int
) -> None:
    from opentelemetry import trace

    tracer = trace.get_tracer_provider().get_tracer("test")
    agent = LlmAgent(name="a", model=ScriptedModel([call("look"), "done"]), tools=[look])
    with caplog.at_level(logging.DEBUG):
        async with in_memory.runner(agent) as runner:
            with tracer.start_as_current_span("outer") as outer:

                async def leave() -> None:
                    position = 0
                    async for _ in runner.run(user_id="u", session_id="s", message="hi"):
                        assert trace.get_current_span() is outer
                        if position == at:
                            if how == "exception":
                                raise LookupError("of the consumer")
                            if how == "cancel":
                                task = asyncio.current_task()
                                assert task is not None
                                task.cancel()
                                await asyncio.sleep(0)
                            if how == "return":
                                return
                            break
                        position += 1

                with contextlib.suppress(LookupError, asyncio.CancelledError):
                    if how == "cancel":
                        await asyncio.create_task(leave())
                    else:
                        await leave()
                if how == "drop":
                    gc.collect()
                await asyncio.sleep(0)
                assert trace.get_current_span() is outer
                names = [span.name for span in spans.get_finished_spans()]
                assert "invoke_agent a" in names  # ended before the outer span
    ended = {span.name: span for span in spans.get_finished_spans()}
    assert ended["invoke_agent a"].parent.span_id == ended["outer"].context.span_id
    for span in spans.get_finished_spans():
        if span.name not in ("outer", "invoke_agent a"):
            assert span.parent.span_id == ended["invoke_agent a"].context.span_id
    assert [r for r in caplog.records if r.levelno >= logging.ERROR] == []


# --- USAGE ------------------------------------------------------------------------------------------------------------


async def test_case_usage_1_the_run_total_and_who_spent_it(in_memory: Any, say: Any) -> None:
    """The flow's part: a helper spends 7/3, the root 10/5. Adapters and agent tools come with their distributions."""

    def spending(prompt: int, candidates: int, *steps: Any) -> ScriptedModel:
        usage = UsageMetadata(prompt_token_count=prompt, candidates_token_count=candidates)
        return ScriptedModel(steps, usage=usage)

    helper = LlmAgent(name="helper", model=spending(7, 3, "done"))
    hand_over = call("transfer_to_agent", agent_name="helper")
    root = LlmAgent(name="root", model=spending(10, 5, hand_over), sub_agents=[helper])
    async with in_memory.runner(root, config=SSE) as runner:
        _, outcome = await say(runner)
    total = outcome.usage.total
    assert (total.prompt_token_count, total.candidates_token_count) == (17, 8)
    assert (total.thoughts_token_count, total.cached_content_token_count) == (None, None)  # not reported is not 0
    by_agent = {
        name: (one.prompt_token_count, one.candidates_token_count) for name, one in outcome.usage.by_agent.items()
    }
    assert by_agent == {"root": (10, 5), "helper": (7, 3)}


async def test_case_usage_1_a_provider_that_reports_nothing_gives_none(in_memory: Any, say: Any) -> None:
    async with in_memory.runner(LlmAgent(name="a", model=ScriptedModel(["hi"]))) as runner:
        _, outcome = await say(runner)
    assert outcome.usage.total.prompt_token_count is None
    assert outcome.usage.total.calls == 1


# --- PKG --------------------------------------------------------------------------------------------------------------

FORBIDDEN = (
    "sqlalchemy", "mcp", "a2a", "openai", "fastapi", "starlette", "uvicorn", "google.cloud", "opentelemetry.sdk",
    "numpy",
)  # fmt: skip
IMPORTS = """
    import sys, time
    began = time.process_time()
    import hookwork
    from hookwork import Agent, App, Plugin, RunConfig, Runner
    from hookwork_llm import LlmAgent, tool
    from hookwork_inmemory import InMemorySessionService
    spent = time.process_time() - began
"""
LIBRARIES = """
    import importlib, sys, time
    began = time.process_time()
    for name in {names!r}:
        try:
            importlib.import_module(name)
        except ImportError:
            pass
    spent = time.process_time() - began
"""
PRINTED = "    import json; print(json.dumps(spent))\n"


def python(code: str, **environ: str) -> Any:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("HOOKWORK_")}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**clean, "HOOKWORK_CONFIG": "none", **environ},
    )
    return json.loads(done.stdout)


def test_case_pkg_1_import_is_light() -> None:
    seen = python(IMPORTS + "    import json; print(json.dumps(sorted(sys.modules)))\n")
    assert [name for name in FORBIDDEN if name in seen] == []


def test_case_pkg_1_own_share_of_the_import_is_small() -> None:
    """Processor time beside that of the libraries we lean on, in one run: how fast the machine is does not count."""
    loaded = python(IMPORTS + "    import json; print(json.dumps(list(sys.modules)))\n")
    libraries = LIBRARIES.format(names=[name for name in loaded if not name.startswith(("hookwork", "__main__"))])
    ratios = [python(IMPORTS + PRINTED) / python(libraries + PRINTED) for _ in range(5)]
    assert statistics.median(ratios) < 2.5


def test_case_pkg_1_ten_more_plugins_add_no_import(tmp_path: Path) -> None:
    for n in range(10):
        info = tmp_path / f"extra_{n}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: extra-{n}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[hookwork.plugins]\nextra{n} = extra_module_{n}:Extra\n")
        (tmp_path / f"extra_module_{n}.py").write_text(
            f"from hookwork import Plugin\n\nclass Extra(Plugin):\n    name = 'extra{n}'\n"
        )
    code = """
        import asyncio, json, sys
        from hookwork import Runner
        from hookwork_llm import LlmAgent
        async def main(plugins):
            async with Runner(LlmAgent(name="a", model="offline"), plugins=plugins) as runner:
                await runner.ask("hello")
            return [name for name in sys.modules if name.startswith("extra_module_")]
        print(json.dumps([asyncio.run(main([])), asyncio.run(main(["extra3"]))]))
    """
    before, after = python(code, PYTHONPATH=str(tmp_path))
    assert (before, after) == ([], ["extra_module_3"])
