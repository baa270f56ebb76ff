"""What the cases share: both backends, and a program that is started anew on the same store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from hookwork import Event, Runner
from hookwork.records.content import Content, FunctionResponse, Part
from hookwork.settings import NO_SETTINGS
from hookwork_inmemory import InMemorySessionService

_no_database = pytest.mark.skipif(find_spec("hookwork_database") is None, reason="needs hookwork-database")
BACKENDS = ["memory", pytest.param("sqlite", marks=_no_database)]


class Backend:
    """Where the sessions of a case are kept. `runner` starts the program anew: a new service object on the store."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self._url = f"sqlite:///{folder}/case.db"
        self._memory = InMemorySessionService()

    @property
    def sessions(self) -> Any:
        """A session service object or a URL."""
        return self._memory if self.kind == "memory" else self._url

    def runner(self, agent: Any, **options: Any) -> Runner:
        """A runner on this store, with artifacts and memory in the process."""
        given: dict[str, Any] = {
            "artifacts": "memory:",
            "memory": "memory:",
            "settings": NO_SETTINGS,
            "app_name": "case",
        }
        return Runner(agent, sessions=self.sessions, **(given | options))


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Once in memory, once in a SQLite file."""
    return Backend(request.param, tmp_path)


@pytest.fixture
def in_memory(tmp_path: Path) -> Backend:
    """For cases that do not depend on the store."""
    return Backend("memory", tmp_path)


@pytest.fixture
def say() -> Callable[..., Any]:
    """``await say(runner, message)`` runs a turn of one session and gives its events and outcome."""

    async def turn(runner: Runner, message: Any = "hi", **arguments: Any) -> tuple[list[Event], Any]:
        async with runner.run(**({"user_id": "u", "session_id": "s", "message": message} | arguments)) as run:
            events = [event async for event in run]
        return events, run.outcome

    return turn


@pytest.fixture
def read() -> Callable[..., Any]:
    """``await read(runner)`` gives the stored session."""

    async def stored(runner: Runner, session_id: str = "s", user_id: str = "u") -> Any:
        await runner.open()
        return await runner.sessions.get_session(app_name=runner.app_name, user_id=user_id, session_id=session_id)

    return stored


@pytest.fixture
def replies() -> Callable[..., Content]:
    """``replies(("id", {"confirmed": True}), …)`` as the user's message."""

    def message(*pairs: tuple[str, Any], name: str = "adk_request_confirmation") -> Content:
        parts = [Part(function_response=FunctionResponse(id=i, name=name, response=value)) for i, value in pairs]
        return Content(role="user", parts=parts)

    return message


@pytest.fixture
def imported() -> Callable[..., Any]:
    """``async with imported(backend, agent, *events) as runner``: a runner whose session holds these events."""

    @asynccontextmanager
    async def run(backend: Backend, agent: Any, *events: Event, **options: Any) -> AsyncIterator[Runner]:
        async with backend.runner(agent, **options) as runner:
            session = await runner.sessions.create_session(app_name="case", user_id="u", session_id="s")
            for event in events:
                await runner.sessions.append_event(session, event)
        async with backend.runner(agent, **options) as runner:
            yield runner

    return run
