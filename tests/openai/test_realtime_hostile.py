"""Whole live runs against a Realtime service that behaves badly: they end typed or go on, and leave nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.openai.asking import KEY
from tests.openai.realtime_service import (
    A_CALL,
    HangUp,
    Hear,
    RealtimeService,
    Stay,
    Step,
    begun,
    called,
    ended,
    failure,
    text,
)

from hookwork import LiveRun, LiveRunConfig, Runner, Settings
from hookwork.errors import LiveConnectionClosed, ModelError
from hookwork.platform import use_sleep
from hookwork_llm import LlmAgent, tool
from hookwork_openai import OpenAIModel
from hookwork_testkit.suites.leftovers import no_tasks_left

ASKED = Hear("response.create")
BYE: Sequence[Step] = [begun(), text("bye"), ended(), Stay()]
GUARD = 30.0


@tool
async def look(n: int = 0) -> dict[str, Any]:
    """Look."""
    return {"seen": n}


async def run_against(*scripts: Sequence[Step]) -> tuple[LiveRun, list[str], RealtimeService]:
    """Say hello, close when the service said bye; the run, its whole events in short, the service."""
    told: list[str] = []
    async with RealtimeService(*scripts).running() as service:
        model = OpenAIModel("gpt-realtime-2", base_url=service.base_url, api_key=KEY)
        runner = Runner.in_memory(LlmAgent(name="voice", model=model, tools=[look]), settings=Settings())
        config = LiveRunConfig(response_modalities=("TEXT",), max_llm_calls=0)
        run = runner.run_live(user_id="u", session_id="s", config=config)
        try:
            with use_sleep(_at_once):
                async with asyncio.timeout(GUARD):
                    await run.send("hello")
                    async for event in run:
                        if event.partial:
                            continue
                        told += [f"{c.name}?" for c in event.function_calls]
                        told += [f"{r.name}!" for r in event.function_responses]
                        told += [event.error_code or event.text] if event.error_code or event.text else []
                        if event.text == "bye":
                            await run.close()
        finally:
            await model.close()
    return run, told, service


async def _at_once(_: float) -> None:
    await asyncio.sleep(0)


@pytest.mark.parametrize("code", [1000, 1001, None, 1008, 1011, 1012, 1013, 1014])
async def test_rt_4_after_these_codes_the_conversation_is_told_again(code: int | None) -> None:
    """LIVE-10; None: no close frame, 1006."""
    async with no_tasks_left("a lost line"):
        run, told, service = await run_against([ASKED, begun(), text("half of a wor"), HangUp(code)], [ASKED, *BYE])
    assert told == ["bye"]
    assert run.outcome is not None
    assert run.outcome.kind == "completed"
    assert len(service.heard) == 2


@pytest.mark.parametrize("code", [1002, 1003, 1007, 1009, 4000])
async def test_live_10_other_codes_end_it_with_that_code(code: int) -> None:
    async with no_tasks_left("a refused line"):
        with pytest.raises(LiveConnectionClosed) as caught:
            await run_against([ASKED, HangUp(code)])
    assert caught.value.close_code == code


async def test_live_10_a_service_that_dies_each_time_is_given_up_after_five_more() -> None:
    async with no_tasks_left("a service that dies"):
        with pytest.raises(ModelError) as caught:
            await run_against([ASKED, begun(), text("one"), ended(), HangUp(1011)], *[[HangUp(1011)]] * 6)
    assert (caught.value.kind, caught.value.code) == ("live", "1011")


@pytest.mark.parametrize(
    "frame",
    ["{half of a fra", "[1, 2]", "null", '"text"', "[" * 5000, '{"type": 3}', '{"type": "response.done"}',
     '{"type": "response.output_text.delta", "delta": NaN}', '{"type": "response.output_audio.delta", "delta": "%"}',
     '{"type": "error", "error": []}', '{"type": "response.done", "response": {"usage": {"input_tokens": "many"}}}'],
)  # fmt: skip
async def test_err_1_whatever_a_frame_holds_the_run_goes_on_or_ends_typed(frame: str) -> None:
    async with no_tasks_left("a service that babbles"):
        try:
            run, told, _ = await run_against([ASKED, frame, *BYE])
        except ModelError as error:
            assert error.kind == "invalid_response"  # noqa: PT017 - either way is right
            return
    assert told[-1] == "bye"
    assert run.outcome is not None
    assert run.outcome.kind == "completed"


async def test_rt_2_a_thousand_calls_of_one_response_are_answered_and_the_model_is_asked_once() -> None:
    count = 1000
    made = [called("look", f'{{"n": {n}}}', f"c{n}") for n in range(count)]
    run, told, service = await run_against([ASKED, begun(), *made, ended(), ASKED, *BYE])
    assert (told.count("look?"), told.count("look!"), told[-1]) == (count, count, "bye")
    outputs = [
        frame["item"]["call_id"]
        for frame in service.frames("conversation.item.create")
        if frame["item"]["type"] == "function_call_output"
    ]
    assert sorted(outputs) == sorted(f"c{n}" for n in range(count))
    assert len(service.frames("response.create")) == 2, "once for the user, once for all answers"
    assert run.usage.total.calls == 2


async def test_rt_3_calls_of_no_tool_twice_told_ends_and_errors_in_odd_orders() -> None:
    made = called("nothing_of_that_name", "{}")
    script = [ASKED, text("early "), ended(), begun(), made, made, ended("completed", A_CALL), ended(),
              failure("odd"), ASKED, *BYE]  # fmt: skip
    run, told, _ = await run_against(script)
    assert sorted(told) == sorted(["early ", "nothing_of_that_name?", "nothing_of_that_name!", "odd", "bye"])
    assert run.outcome is not None
    assert run.outcome.kind == "completed"
