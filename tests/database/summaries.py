"""A cold ``tail="summary"`` on every database: it reads the records and the window, and finds the window of a warm one
(services LOG-8)."""

from __future__ import annotations

from typing import Any

from hookwork.records.content import Content, FunctionCall, Part
from hookwork.records.event import Event, EventActions, EventCompaction, new_event
from hookwork_database import DatabaseSessionService
from hookwork_testkit.suites.base import BASE_TIME, say


def compacted(start: float, end: float, **fields: Any) -> Event:
    """A record of a compaction from ``start`` to ``end`` seconds after `BASE_TIME`."""
    summary = Content(role="model", parts=[Part(text="summary")])
    span = EventCompaction(start_timestamp=BASE_TIME + start, end_timestamp=BASE_TIME + end, compacted_content=summary)
    return new_event("c", author="user", actions=EventActions(compaction=span)).replace(**fields)


def about_compaction(at: int) -> Event:
    """A call with an argument named like the key of a compaction record."""
    call = Part(function_call=FunctionCall(id="c", name="squeeze", args={"compaction": {"ratio": 2}}))
    return say("", at=at, invocation="inv-odd").replace(content=Content(role="model", parts=[call]))


async def check_a_cold_summary_reads_its_window(
    service: DatabaseSessionService, fresh: DatabaseSessionService, key: dict[str, Any]
) -> None:
    """``fresh`` is another service on the same database; ``key`` names the session to make."""
    session = await service.create_session(**key)
    for number in range(200):
        await service.append_event(session, say(str(number), at=number, invocation=f"inv-{number}"))
    await service.append_event(session, about_compaction(at=200))
    await service.append_event(session, compacted(0, 150))
    await service.append_event(session, compacted(0, 199))
    for number in range(201, 206):
        await service.append_event(session, say(str(number), at=number, invocation=f"inv-{number}"))
    decoded = []
    layout = await fresh.open()
    read = layout.decode
    layout.decode = lambda *given: decoded.append(1) or read(*given)  # type: ignore[method-assign, func-returns-value]
    cold = await fresh.get_session(**key, tail="summary")
    warm = await service.get_session(**key, tail="summary")
    assert [event.id for event in cold.events] == [event.id for event in warm.events]
    assert [call.name for call in cold.events[0].function_calls] == ["squeeze"], "it is no record, and not covered"
    assert len(decoded) < 40, "the records and the window, not the two hundred"
