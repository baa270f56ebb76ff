"""What the session suites share: how a service is made and closed, and the small steps that every test takes."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from typing import Any

import pytest_asyncio
from hypothesis import settings

from hookwork.records.content import Content, Part
from hookwork.records.event import Event, EventActions, new_event
from hookwork.records.session import Session
from hookwork.services import SessionService

#: 2025-01-01T00:00:00Z in epoch seconds, the start of the suites' histories.
BASE_TIME = 1735689600.0


class SessionSuiteBase(ABC):
    """Settings and steps.

    Attributes:
        app_name, other_app_name: two apps of the backend; ``other_app_name`` may be None where there is only one.
        client_made_ids: whether missing session ids are taken from `hookwork.platform.new_uuid` (CS-2).
        ids_per_user: whether two users of an app may have sessions of one id (services SES-7).
        max_examples: how many random histories each property test tries; a slow backend may want fewer.
    """

    app_name: str = "suite"
    other_app_name: str | None = "suite-other"
    client_made_ids: bool = True
    ids_per_user: bool = True
    max_examples: int = 60

    @abstractmethod
    async def make_service(self) -> SessionService:
        """A service on an empty store. Called once a test, and more often (in fresh event loops) by property tests."""

    async def make_service_again(self, service: SessionService) -> SessionService | None:
        """A second service on the same store, as another process would have; None where there can be none."""
        return None

    async def make_refusing_service(self) -> SessionService | None:
        """A service with ``foreign_appends="refuse"``; None where the backend has no such option."""
        return None

    def append_faults(self, service: SessionService) -> Mapping[str, Callable[[], AbstractContextManager[object]]]:
        """Named ways to make the next append fail half-way (CS-27); each is entered around one append."""
        return {}

    def property_settings(self, **more: Any) -> settings:
        """The Hypothesis settings of the property tests: no deadline, no files written."""
        return settings(**{"max_examples": self.max_examples, "deadline": None, "database": None, **more})

    @pytest_asyncio.fixture
    async def service(self) -> AsyncIterator[SessionService]:
        """The service under test."""
        service = await self.make_service()
        yield service
        await service.close()

    async def create(
        self, service: SessionService, *, user: str = "u1", name: str = "s-1", state: Mapping[str, Any] | None = None
    ) -> Session:
        """A new session, under the given id where the backend lets us choose."""
        chosen = name if service.capabilities.user_provided_session_id else None
        return await service.create_session(app_name=self.app_name, user_id=user, session_id=chosen, state=state)

    async def reopen(self, service: SessionService, session: Session, **filters: Any) -> Session:
        """A new handle on the same session."""
        return await service.get_session(
            app_name=session.app_name, user_id=session.user_id, session_id=session.id, **filters
        )

    async def delete(self, service: SessionService, session: Session) -> None:
        """Remove the session behind a handle."""
        await service.delete_session(app_name=session.app_name, user_id=session.user_id, session_id=session.id)


def say(
    text: str,
    *,
    at: float | None = None,
    delta: Mapping[str, Any] | None = None,
    author: str = "agent",
    invocation: str = "inv-1",
    **fields: Any,
) -> Event:
    """An event with one text; ``at`` is its time in seconds after `BASE_TIME` (default: now)."""
    if at is not None:
        fields["timestamp"] = BASE_TIME + at
    if delta is not None:
        fields["actions"] = EventActions(state_delta=dict(delta))
    content = Content(role="user" if author == "user" else "model", parts=[Part(text=text)])
    return new_event(invocation, author=author, content=content).replace(**fields)


def texts(session: Session) -> list[str]:
    """The texts of the events of a handle, in order."""
    return [event.text for event in session.events]


def comparable(event: Event, service: SessionService) -> Event:
    """The event with what the backend says it does not keep set to defaults."""
    capabilities = service.capabilities
    blank = Event()
    names = set(capabilities.dropped_event_fields) | ({"id"} if capabilities.server_assigned_event_id else set())
    return event.replace(**{name: getattr(blank, name) for name in names})


def assert_same_events(service: SessionService, found: list[Event], expected: list[Event]) -> None:
    """Assert that two histories are equal, as far as the backend keeps events."""
    got = [comparable(event, service) for event in found]
    wanted = [comparable(event, service) for event in expected]
    assert got == wanted, f"events differ:\n{got}\n{wanted}"


class Snapshot:
    """Everything a handle shows at one moment, to assert later that nothing of it changed."""

    def __init__(self, session: Session) -> None:
        self.events = list(session.events)
        self.state = {key: value for key, value in session.state.items() if not key.startswith("temp:")}
        self.time = session.last_update_time
        self.revision = session.revision

    def assert_unchanged(self, session: Session, why: str) -> None:
        """Assert that the handle shows what it showed (SES-16); ``temp:`` keys do not count."""
        now = Snapshot(session)
        assert now.events == self.events, f"{why}: the handle's events changed"
        assert now.state == self.state, f"{why}: the handle's state changed"
        assert now.time == self.time, f"{why}: the handle's update time changed"
        assert now.revision == self.revision, f"{why}: the handle's revision changed"


async def in_own_loop(check: Callable[[], None]) -> None:
    """Run a blocking property test, which drives event loops of its own, beside the loop of the test."""
    await asyncio.to_thread(check)


def drive(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run one coroutine in a fresh event loop."""
    with asyncio.Runner() as runner:
        runner.run(work())
