"""A process of its own for the tests: appends to a session and says what was stored.

python worker.py append URL SESSION COUNT common|disjoint NAME
python worker.py count URL SESSION COUNT NAME
python worker.py create URL SESSION
python worker.py endless URL SESSION
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from itertools import count

from hookwork import Agent, App, CallbackContext, InvocationContext, Runner, Settings
from hookwork.errors import SessionAlreadyExistsError, StaleSessionError
from hookwork.records.content import user_content
from hookwork.records.event import Event, EventActions, new_event
from hookwork_database import DatabaseSessionService, session_service

APP, USER = "app", "user"


def event_of(text: str, **delta: object) -> Event:
    """An event with one text and a delta."""
    actions = EventActions(state_delta={key.replace("__", ":"): value for key, value in delta.items()})
    return new_event("inv", author="agent", content=user_content(text), actions=actions)


async def append(service: DatabaseSessionService, session_id: str, number: int, keys: str, name: str) -> None:
    """Append ``number`` events, redoing what was stale; a counter per process, or one that all share."""
    session = await service.get_session(app_name=APP, user_id=USER, session_id=session_id)
    key = "n" if keys == "common" else f"n_{name}"
    shared = f"app__{key}"
    done = stale = 0
    while done < number:
        value = int(session.state.get(key, 0)) + 1
        try:
            await service.append_event(session, event_of(f"{name} {done}", **{key: value, shared: value}))
            done += 1
        except StaleSessionError:
            stale += 1
            await service.refresh(session)
    print(done, stale, flush=True)


async def count_up(service: DatabaseSessionService, session_id: str, number: int, name: str) -> None:
    """Run an agent ``number`` times that adds one, appends its name and keeps a maximum (services BEY-10)."""

    def before(ctx: CallbackContext) -> None:
        ctx.state["count"] = ctx.state.get("count", 0) + 1
        ctx.state["app:count"] = ctx.state.get("app:count", 0) + 1
        ctx.state["log"] = [*ctx.state.get("log", []), name]

    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        yield event_of(name)

    root = Agent(name="root", body=body, before_agent=before)
    rules = {"count": "add", "app:count": "add", "log": "append"}
    async with Runner(App(APP, root, state_merge=rules), sessions=service, settings=Settings()) as runner:
        for _ in range(number):
            async for _ in runner.run(user_id=USER, session_id=session_id, message="go"):
                pass
    print("done", flush=True)


async def endless(service: DatabaseSessionService, session_id: str) -> None:
    """Append until killed; each number is told once it is stored."""
    session = await service.get_session(app_name=APP, user_id=USER, session_id=session_id)
    for number in count(len(session.events)):
        await service.append_event(session, event_of(str(number), n=number, app__n=number))
        print(number, flush=True)


async def create(service: DatabaseSessionService, session_id: str) -> None:
    """Create a session on whatever is there; the other process may be faster."""
    try:
        await service.create_session(app_name=APP, user_id=USER, session_id=session_id)
        print("created", flush=True)
    except SessionAlreadyExistsError:
        print("taken", flush=True)


async def main(verb: str, url: str, session_id: str, *rest: str) -> None:
    """Carry out one command line."""
    service = session_service(url)
    if verb == "append":
        number, keys, name = rest
        await append(service, session_id, int(number), keys, name)
    elif verb == "count":
        await count_up(service, session_id, int(rest[0]), rest[1])
    elif verb == "endless":
        await endless(service, session_id)
    else:
        await create(service, session_id)
    await service.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
