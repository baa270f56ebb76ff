"""The sessions service passes the testkit's suite against the fake (services §8.1)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import httpx
import pytest
from tests.vertexai.fake import FakeVertex, Fault

from hookwork.platform import use_sleep
from hookwork.services import SessionService
from hookwork_testkit.suites import SessionServiceSuite
from hookwork_vertexai import VertexAiSessionService

_numbers = itertools.count(1)


async def _no_wait(seconds: float) -> None:
    """Back-off takes no time."""


class TestSessions(SessionServiceSuite):
    app_name = "42"
    other_app_name = "43"
    client_made_ids = False
    ids_per_user = False
    max_examples = 25

    @pytest.fixture(autouse=True)
    def server(self, fake: FakeVertex) -> None:
        self.fake = fake

    async def make_service(self) -> SessionService:
        """In a project of its own, so on an empty store."""
        return self._in_project(f"p-{next(_numbers)}")

    async def make_service_again(self, service: SessionService) -> SessionService:
        assert isinstance(service, VertexAiSessionService)
        return self._in_project(service.place.project)

    def _in_project(self, project: str) -> VertexAiSessionService:
        return VertexAiSessionService(
            project, "us-central1", base_url=self.fake.url, token_source=lambda: "token", timeout=20
        )

    def append_faults(self, service: SessionService) -> Mapping[str, Callable[[], AbstractContextManager[object]]]:
        """CS-27: before, at and after the write, and an answer that is lost for good."""
        lost = Fault(carried_out=True, drop=True)
        return {
            "refused": partial(self._failing, Fault(403)),
            "quota": partial(self._failing, Fault(429), Fault(429)),
            "not begun": partial(self._failing, Fault(503), Fault(503)),
            "dropped before": partial(self._failing, Fault(drop=True), Fault(drop=True)),
            "answer lost": partial(self._failing, lost, blind=True),
            "error after commit": partial(self._failing, Fault(500, carried_out=True), blind=True),
            "no connection": self._unreachable,
        }

    @contextmanager
    def _failing(self, *faults: Fault, blind: bool = False) -> Iterator[None]:
        self.fake.fail("append", *faults)
        if blind:  # nor can anybody look whether it was stored
            self.fake.fail("events", *([403] * 4))
        with use_sleep(_no_wait):
            yield
        self.fake.faults.clear()

    @contextmanager
    def _unreachable(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:

            async def refuse(*arguments: Any, **more: Any) -> Any:
                raise httpx.ConnectError("refused")

            patch.setattr(httpx.AsyncClient, "request", refuse)
            yield


class TestSessionsOfOneEngine(TestSessions):
    """One engine for every app (VTX-2); operations take a while, as they do in the service (FAKE-1)."""

    app_name = "shop"
    other_app_name = None
    max_examples = 4

    @pytest.fixture(autouse=True)
    def slow_operations(self, server: None) -> Iterator[None]:
        self.fake.create_polls = 1
        with use_sleep(_no_wait):
            yield

    def _in_project(self, project: str) -> VertexAiSessionService:
        return VertexAiSessionService(
            project, "us-central1", "42", base_url=self.fake.url, token_source=lambda: "token", timeout=20
        )
