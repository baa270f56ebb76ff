"""Live sessions under bad circumstances: floods of calls, odd orders, withdrawals, censors, slow consumers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.llm.live_talks import Talk, brief, shown

from hookwork import Event, LiveRunConfig, ModelCapabilities, ModelResponse, Plugin
from hookwork.live import CANCELLED_CALLS
from hookwork.records.content import FunctionResponse, Part
from hookwork_llm import tool
from hookwork_testkit import Cut, Hear, call
from hookwork_testkit.live import audio, calls, handle, interrupted, said, spoke, turn_complete

UNLIMITED = LiveRunConfig(max_llm_calls=0)


def answers(talk: Talk) -> dict[str | None, Any]:
    return {response.id: response.response for line in talk.connections for response in line.responses}


class Censor(Plugin):
    """Nothing that a tool gives is to leave it as it is."""

    name = "censor"

    def on_event(self, event: Event) -> Event | None:
        content = event.content
        if content is None or not event.function_responses:
            return None
        hidden = [
            part.replace(function_response=FunctionResponse(id=r.id, name=r.name, response={"hidden": True}))
            if (r := part.function_response) is not None
            else part
            for part in content.parts
        ]
        return event.replace(content=content.replace(parts=hidden))


@pytest.mark.parametrize("together", [True, False])
async def test_run_20_the_model_hears_what_on_event_left_however_many_tools_end_at_once(together: bool) -> None:
    """A response goes to the model as it was stored; a redacting plugin must not be outrun."""
    count, running, gate = 300, 0, asyncio.Event()

    @tool
    async def look(n: int) -> dict[str, Any]:
        """Look."""
        nonlocal running
        running += 1
        if running == count:
            gate.set()
        await gate.wait()
        return {"secret": n}

    made = [call("look", f"c{n}", n=n) for n in range(count)]
    script = [Hear(1), *([calls(*made)] if together else [calls(one) for one in made])]
    script += [Hear(1 if together else count), turn_complete()]
    talk = await Talk(script, tools=[look], plugins=[Censor()], config=UNLIMITED).hold("go")
    assert answers(talk) == {f"c{n}": {"hidden": True} for n in range(count)}


async def test_live_14_a_thousand_calls_at_once_are_each_answered_once() -> None:
    at_once = most = 0

    @tool
    async def look(n: int) -> dict[str, Any]:
        """Look."""
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        for _ in range(20):
            await asyncio.sleep(0)
        at_once -= 1
        return {"n": n}

    made = [call("look", f"c{n}", n=n) for n in range(1000)]
    talk = await Talk([Hear(1), *[calls(one) for one in made], Hear(1000), turn_complete()], tools=[look],
                      config=UNLIMITED).hold("go")  # fmt: skip
    assert [response.id for response in talk.line.responses].count("c999") == 1
    assert answers(talk) == {f"c{n}": {"n": n} for n in range(1000)}
    assert most > 1
    stored = await talk.stored()
    assert sum(len(event.function_responses) for event in stored) == 1000
    at_once = most = 0
    bounded = ModelCapabilities(provider="scripted", live=True, max_parallel_live_tools=8)
    script = [Hear(1), calls(*made), Hear(1), turn_complete()]
    await Talk(script, tools=[look], config=UNLIMITED, capabilities=bounded).hold("go")
    assert most == 8, "models CAP-5: max_parallel_live_tools"


async def test_case_hist_3_one_id_for_every_call_still_means_as_many_calls() -> None:
    @tool
    async def look(n: int) -> dict[str, Any]:
        """Look."""
        return {"n": n}

    made = [call("look", "call_0", n=n) for n in range(5)]
    talk = await Talk([Hear(1), calls(*made[:3]), *[calls(one) for one in made[3:]], Hear(3), turn_complete()],
                      tools=[look]).hold("go")  # fmt: skip
    stored = await talk.stored()
    asked = [c.id for event in stored for c in event.function_calls]
    given = [r.id for event in stored for r in event.function_responses]
    assert len(set(asked)) >= 3
    assert sorted(map(str, asked)) == sorted(map(str, given))
    heard = [response for line in talk.connections for response in line.responses]
    assert [response.id for response in heard] == ["call_0"] * 5, "the server hears its own id"
    assert sorted((response.response or {})["n"] for response in heard) == [0, 1, 2, 3, 4]


async def test_live_7_withdrawals_of_calls_that_are_unknown_over_or_withdrawn_already_do_nothing(caplog: Any) -> None:
    ended: list[str] = []
    started = asyncio.Event()

    @tool
    async def forever() -> dict[str, Any]:
        """Take for ever."""
        started.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("forever")
        return {}

    @tool
    async def quick() -> dict[str, Any]:
        """Be quick."""
        return {"done": True}

    async def until_started(_: Any) -> None:
        await started.wait()

    def gone(*ids: str) -> ModelResponse:
        return ModelResponse(partial=True, custom_metadata={CANCELLED_CALLS: list(ids)})

    script = [Hear(1), gone("c9"), calls(call("quick", "c1")), Hear(1), gone("c1"), calls(call("forever", "c2"))]
    script += [until_started, gone("c2"), gone("c2", "c9"), "well", turn_complete(), Hear(1), turn_complete()]
    talk = Talk(script, tools=[quick, forever])
    async with asyncio.timeout(20):
        await talk.run.send("go")
        async for event in talk.run:
            talk.events.append(event)
            if brief(event) == "forever!":
                await talk.run.send("go on")
    assert answers(talk) == {"c1": {"done": True}}
    assert ended == ["forever"]
    assert "nobody asked for" not in caplog.text
    [cut] = [r for event in await talk.stored() for r in event.function_responses if r.name == "forever"]
    assert "withdrew" in (cut.response or {})["error"]


async def test_live_6_messages_in_odd_orders_end_in_a_session_that_can_go_on() -> None:
    script = [
        *(turn_complete(), interrupted(), spoke("late"), handle("h"), turn_complete(), turn_complete(), said("you")),
        *(audio(), interrupted(), "text", said("more"), handle("h2"), interrupted(), turn_complete(), Hear(1), "yes"),
        turn_complete(),
    ]
    talk = await Talk(script).hold("hi")
    stored = shown(await talk.stored())
    for once in ("voice: spoke late", "voice: heard you", "voice: heard more", "voice: text interrupted", "voice: yes"):
        assert stored.count(once) == 1, stored
    talk.model.add("typed")
    assert await talk.runner.ask(user_id="u", session_id="s", message="and now?") == "typed"


async def test_live_13_a_consumer_that_is_slow_and_then_stops_leaves_nothing() -> None:
    before = asyncio.all_tasks()
    talk = Talk([Hear(1), *[audio() for _ in range(500)], call("nope", "c1"), Cut(1006)], close=False)
    await talk.hold_until("sound", "hi")
    for _ in range(100):
        await asyncio.sleep(0)
    await talk.run.stop()
    assert talk.model.open_connections == 0
    assert asyncio.all_tasks() == before


async def test_live_12_a_flood_of_sound_waits_for_room_and_all_of_it_arrives_in_order() -> None:
    from hookwork import Blob

    count = 5000
    talk = Talk([Hear(0, count), turn_complete()])
    reading = asyncio.create_task(talk.hold())
    for n in range(count):
        await talk.run.send(Blob(data=n.to_bytes(2, "big"), mime_type="audio/pcm"))
    await reading
    assert [blob.data for blob in talk.line.realtime if isinstance(blob, Blob)] == [
        n.to_bytes(2, "big") for n in range(count)
    ]


async def test_mod_5_parts_of_kinds_nobody_expects_are_kept_and_break_nothing() -> None:
    odd = [Part(), Part(text=""), Part(thought_signature=b"x"), Part(text="fine", thought_signature=b"y")]
    script = [Hear(1), ModelResponse(content=calls(*odd).content, partial=True), turn_complete()]
    talk = await Talk(script).hold("hi")
    assert "fine" in "".join(event.text for event in await talk.stored())
