"""Messages while a custom root waits (core RES-11): held, whatever kind of agent the root is."""

from __future__ import annotations

from typing import Any

from hookwork import Agent, Content, Event, FunctionCall, Part, Pause, Runner, RunOutcome
from hookwork_inmemory import InMemorySessionService


async def _ask(ctx: Any) -> Any:
    if not ctx.view.calls:
        call = FunctionCall(id="q1", name="adk_request_input", args={})
        yield Event(content=Content(role="model", parts=[Part(function_call=call)]), long_running_tool_ids=("q1",))
    raise Pause


async def _say(service: Any, message: str) -> tuple[list[Event], RunOutcome]:
    async with Runner(Agent(name="root", body=_ask), sessions=service) as runner:
        run = runner.run(user_id="u", session_id="s", message=message)
        events = [event async for event in run]
        assert run.outcome is not None
        return events, run.outcome


async def test_res_11_a_plain_message_is_stored_and_runs_nothing() -> None:
    service = InMemorySessionService()
    first, waits = await _say(service, "hi")
    held, outcome = await _say(service, "hello?")
    assert (len(first), waits.kind) == (1, "paused")
    assert (held, outcome.kind) == ([], "paused")
    assert [call.id for call in outcome.open_calls] == ["q1"]
    stored = (await service.get_session(app_name="root", user_id="u", session_id="s")).events
    assert [event.author for event in stored] == ["user", "root", "user"]
    assert stored[2].invocation_id == outcome.invocation_id != stored[0].invocation_id


async def test_res_11_an_agent_may_ask_to_be_started_again() -> None:
    class Eager(Agent):
        @property
        def on_message_while_waiting(self) -> str:
            return "restart"

    service = InMemorySessionService()
    for _ in range(2):
        async with Runner(Eager(name="root", body=_ask), sessions=service) as runner:
            outcome = await runner.run(user_id="u", session_id="s", message="hi").wait()
    assert outcome.kind == "paused"
    stored = (await service.get_session(app_name="root", user_id="u", session_id="s")).events
    assert [event.author for event in stored] == ["user", "root", "user", "root"]
