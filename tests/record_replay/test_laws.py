"""Whatever a run did, its replay does too: a law over random turns (SP-30, CONF-8)."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hookwork import Event, ModelResponse, Part, RunConfig, Runner, Settings, ToolContext, text_content
from hookwork.errors import ModelError
from hookwork_llm import LlmAgent
from hookwork_record_replay import AdkRecorder, AdkReplayer, RecordReplay
from hookwork_testkit import ScriptedModel, call, stream

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=4), inner, max_size=3),
    max_leaves=5,
)
TEXT = st.text(min_size=1, max_size=12).filter(lambda text: bool(text.strip()) and "\x00" not in text)
CALLS = st.lists(st.tuples(TEXT, JSON), min_size=1, max_size=3)
#: A turn: how often tools are called before the answer, and the answer in its pieces.
TURNS = st.lists(st.tuples(st.lists(CALLS, max_size=2), st.lists(TEXT, min_size=1, max_size=3)), min_size=1, max_size=3)
LAW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def script_of(turns: list[Any]) -> list[Any]:
    steps: list[Any] = []
    for batches, pieces in turns:
        steps += [[call("store", key=key, value=value) for key, value in batch] for batch in batches]
        steps.append(stream(*pieces))
    return steps


def agent_of(script: list[Any], ran: list[str]) -> LlmAgent:
    def store(ctx: ToolContext, key: str, value: Any = None) -> dict[str, Any]:
        """Store a value."""
        ran.append(key)
        if len(key) == 3:
            raise ValueError(f"no: {key}")
        ctx.state["last"] = value
        return {"stored": value}

    return LlmAgent(name="store", model=ScriptedModel(script, name="m"), instruction="Store.", tools=[store])


def seen(event: Event) -> Any:
    parts = event.content.parts if event.content is not None else ()
    shown = [(part.text, part.function_call and (part.function_call.name, part.function_call.args),
              part.function_response and part.function_response.response) for part in parts]  # fmt: skip
    return event.author, bool(event.partial), event.error_code, shown


async def play(agent: LlmAgent, plugins: list[Any], turns: int, mode: str, **delta: Any) -> tuple[list[Any], Any]:
    """What users see of the runs, and the state behind them."""
    runs: list[Any] = []
    async with Runner.in_memory(agent, plugins=plugins, settings=Settings(tables={})) as runner:
        for index in range(turns):
            state = {key: {**value, "user_message_index": index} for key, value in delta.items()}
            run = runner.run(
                user_id="u",
                session_id="s",
                message=f"turn {index}",
                state_delta=state or None,
                config=RunConfig(streaming_mode=mode),
            )
            async with run:
                runs.append([seen(event) async for event in run])
        session = await runner.sessions.get_session(app_name=runner.app_name, user_id="u", session_id="s")
        return runs, session.state.get("last")


@given(turns=TURNS, recorded=st.sampled_from(["none", "sse"]))
@LAW
def test_a_replay_shows_what_the_recording_showed(turns: list[Any], recorded: str) -> None:
    async def both(file: Path) -> None:
        ran: list[str] = []
        count = len(turns)
        record = RecordReplay(file, mode="record", tools=True)
        first = await play(agent_of(script_of(turns), ran), [record], count, recorded)
        before = list(ran)
        replay = RecordReplay(file, tools=True)
        assert await play(agent_of([], ran), [replay], count, recorded) == first
        replay.assert_all_used()
        assert ran == before, "no tool ran again"

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(both(Path(folder) / "tape.jsonl"))


@given(turns=TURNS, mode=st.sampled_from(["none", "sse"]))
@LAW
def test_a_replay_in_google_adks_form_shows_the_same_texts(turns: list[Any], mode: str) -> None:
    """That form has neither errors nor what tools did to state, so tools that raise are left out here."""
    kept = [([[one for one in batch if len(one[0]) != 3] for batch in batches], pieces) for batches, pieces in turns]
    kept = [([batch for batch in batches if batch], pieces) for batches, pieces in kept]

    async def both(folder: Path) -> None:
        plugins: Any = [AdkRecorder(folder), AdkReplayer(folder)]
        place, count = {"dir": "case", "streaming_mode": mode}, len(kept)
        first, _ = await play(agent_of(script_of(kept), []), plugins, count, mode, _adk_recordings_config=place)
        again, _ = await play(agent_of([], []), plugins, count, mode, _adk_replay_config=place)
        assert again == first

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(both(Path(folder)))


@given(answer=TEXT, signature=st.binary(max_size=6), fails=st.booleans())
@LAW
def test_parts_and_errors_survive(answer: str, signature: bytes, fails: bool) -> None:
    response = ModelResponse(
        content=text_content(answer).replace(
            role="model", parts=[Part(text="hm", thought=True, thought_signature=signature), Part(text=answer)]
        ),
        finish_reason="STOP",
    )
    error = ModelError(answer, provider="p", kind="unavailable", retryable=True, status_code=503)
    script: list[Any] = [error if fails else response]

    async def one(file: Path, mode: str, steps: list[Any]) -> Any:
        agent = LlmAgent(name="a", model=ScriptedModel(steps, name="m"))
        try:
            return await play(agent, [RecordReplay(file, mode=mode)], 1, "none")
        except ModelError as raised:
            return raised.kind, raised.status_code, raised.retryable, str(raised)

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tape.jsonl"
        first = asyncio.run(one(file, "record", script))
        assert asyncio.run(one(file, "replay", [])) == first
