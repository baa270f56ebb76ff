"""Laws of the loop over random turns: tools of every kind, answers in any order, a new process each time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hookwork import Runner
from hookwork.context import ToolContext
from hookwork.errors import ToolError
from hookwork.records.content import Content, FunctionCall, FunctionResponse, Part
from hookwork.settings import NO_SETTINGS
from hookwork.tool import Finished
from hookwork_inmemory import InMemorySessionService
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt

KINDS = ("plain", "gated", "asks", "waits", "status", "finishes", "fails", "invented")
TURNS = st.lists(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4), min_size=1, max_size=4)


class World:
    """Tools that count, a model that plays the turns and then talks, a store."""

    def __init__(self, turns: list[list[str]], repeated_ids: bool) -> None:
        self.sessions = InMemorySessionService()
        self.ran: Counter[str] = Counter()
        self.made: Counter[str] = Counter()
        self.approved: Counter[str] = Counter()
        self._model = ScriptedModel(chain(self._turns(turns, repeated_ids), repeat("ok")))
        self.agent = LlmAgent(name="a", model=self._model, tools=self._tools(), output_key="out")

    def _turns(self, turns: list[list[str]], repeated_ids: bool) -> Iterator[list[Part]]:
        for number, kinds in enumerate(turns):
            parts = []
            for k, kind in enumerate(kinds):
                call_id = f"call_{k}" if repeated_ids else f"c{number}-{k}"
                parts.append(Part(function_call=FunctionCall(id=call_id, name=kind, args={"n": number * 10 + k})))
                self.made[f"{kind} {number * 10 + k}"] += 1
            yield parts

    def _tools(self) -> list[Any]:
        def body(kind: str, result: Any, **options: Any) -> Any:
            @tool(name=kind, **options)
            async def run(ctx: ToolContext, n: int) -> Any:
                """Count."""
                self.ran[f"{kind} {n}"] += 1
                ctx.state[f"{kind} {n}"] = self.ran[f"{kind} {n}"]
                if kind == "asks" and ctx.tool_confirmation is None:
                    ctx.request_confirmation("?")
                if kind == "fails":
                    raise ToolError("no")
                return result

            return run

        return [
            body("plain", {"ok": 1}),
            body("gated", {"ok": 1}, require_confirmation=True),
            body("asks", {"ok": 1}),
            body("waits", None, long_running=True),
            body("status", {"status": "on it"}, long_running=True),
            body("finishes", Finished({"ok": 1}), long_running=True),
            body("fails", None, long_running=True),
        ]

    async def turn(self, message: Any) -> Any:
        """One run in a new process; the model's prompts are valid, what was yielded is what is stored."""
        runner = Runner(self.agent, sessions=self.sessions, settings=NO_SETTINGS)
        prompts = len(self._model.prompts)
        async with runner.run(user_id="u", session_id="s", message=message) as run:
            events = [event async for event in run]
            live = dict(run.session.state) if run.session is not None else {}
        for prompt in self._model.prompts[prompts:]:
            assert_valid_prompt(prompt)
        session = await self.sessions.get_session(app_name="a", user_id="u", session_id="s")
        assert [event.id for event in session.events[-len(events) :]] == [event.id for event in events]
        assert dict(session.state) == live
        assert list(session.open_calls) == [one.id for one in run.session.open_calls.values()]  # type: ignore[union-attr]
        return run.outcome, session


def reply(call: Any, approve: bool) -> Part:
    payload = {"confirmed": approve} if call.kind == "confirmation" else {"done": approve}
    return Part(function_response=FunctionResponse(id=call.id, name=call.name, response=payload))


@settings(max_examples=150, deadline=None)
@given(data=st.data(), turns=TURNS, repeated_ids=st.booleans())
async def test_whatever_is_called_and_however_it_is_answered(data: Any, turns: Any, repeated_ids: bool) -> None:
    """All prompts are valid, no body runs without its approval or twice, and in the end nothing is open."""
    world = World(turns, repeated_ids)
    outcome, session = await world.turn("hi")
    small_talk = data.draw(st.integers(0, 3))
    while True:
        waiting = list(session.open_calls.values())
        assert (outcome.kind == "paused") >= bool(outcome.open_calls)
        if not waiting:
            break
        if small_talk and data.draw(st.booleans()):
            small_talk -= 1
            outcome, session = await world.turn("meanwhile")
            continue
        first = data.draw(st.sampled_from(waiting))
        together = [one for one in waiting if one.invocation_id == first.invocation_id]
        chosen = data.draw(st.lists(st.sampled_from(together), min_size=1, unique_by=lambda one: one.id))
        parts = []
        for one in chosen:
            approve = data.draw(st.booleans())
            parts.append(reply(one, approve))
            if one.kind == "confirmation" and approve:
                original = one.args["originalFunctionCall"]
                world.approved[f"{original['name']} {original['args']['n']}"] += 1
        outcome, session = await world.turn(Content(role="user", parts=parts))
    assert session.open_calls == {}
    assert outcome.kind == "completed"
    for one, times in world.ran.items():
        kind = one.partition(" ")[0]
        if kind == "gated":
            assert times == world.approved[one] == 1
        elif kind == "asks":
            assert times == 1 + world.approved[one]
        else:
            assert times == 1, one
    for one in world.made:
        if one.partition(" ")[0] not in ("gated", "invented"):
            assert world.ran[one] >= 1, one
