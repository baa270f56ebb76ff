"""Small steps that the tests share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.vertexai.fake import FakeVertex

from hookwork.platform import use_random, use_sleep
from hookwork_testkit.suites.base import say
from hookwork_vertexai import VertexAiMemoryBankService, VertexAiSessionService

#: The engine that tests use, as its requests name it.
ENGINE = "projects/p/locations/us-central1/reasoningEngines/42"
KEY: dict[str, Any] = {"app_name": "42", "user_id": "u1", "session_id": "s-1"}
SESSION = f"{ENGINE}/sessions/s-1"


def sessions(fake: FakeVertex, **options: Any) -> VertexAiSessionService:
    """The sessions of project ``p``."""
    options = {"project": "p", "location": "us-central1", "token_source": lambda: "token", **options}
    return VertexAiSessionService(base_url=fake.url, **options)


def memory_bank(fake: FakeVertex, **options: Any) -> VertexAiMemoryBankService:
    """The memories of project ``p``."""
    options = {"project": "p", "location": "us-central1", "token_source": lambda: "token", **options}
    return VertexAiMemoryBankService(base_url=fake.url, **options)


@contextmanager
def waits() -> Iterator[list[float]]:
    """No wait takes time; the seconds that were asked for. Jitter is a half."""
    asked: list[float] = []

    async def note(seconds: float) -> None:
        asked.append(seconds)

    with use_sleep(note), use_random(lambda: 0.5):
        yield asked


async def until(condition: Callable[[], bool]) -> None:
    """Go on when something has happened in the server's thread."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def made(fake: FakeVertex, count: int) -> None:
    """A session of ``count`` events, a second apart, made by another process."""
    service = sessions(fake)
    session = await service.create_session(**KEY)
    for number in range(count):
        await service.append_event(session, say(str(number), at=number, delta={"n": number}))
    await service.close()
    fake.requests.clear()


def stored_texts(fake: FakeVertex) -> list[str]:
    """The texts that the service holds."""
    events = fake.engine(ENGINE).sessions["s-1"].events
    return [item["content"]["parts"][0]["text"] for _, item in events]
