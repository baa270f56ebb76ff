"""The session suite against the client library and a server of our own (services §8.1); see `fake` for what that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial

import grpc
import pytest
from cryptography.fernet import Fernet
from tests.spanner.conftest import fresh_url
from tests.spanner.fake import FakeSpanner

from hookwork.services import SessionService
from hookwork_spanner import session_service
from hookwork_testkit.suites import SessionServiceSuite


class TestSpanner(SessionServiceSuite):
    max_examples = 5

    @pytest.fixture(autouse=True)
    def _server(self, spanner: FakeSpanner) -> None:
        self.server = spanner
        self.urls: dict[SessionService, str] = {}

    def build(self, url: str) -> SessionService:
        service = session_service(url)
        self.urls[service] = url
        return service

    async def make_service(self) -> SessionService:
        return self.build(fresh_url())

    async def make_service_again(self, service: SessionService) -> SessionService:
        return self.build(self.urls[service])

    async def make_refusing_service(self) -> SessionService:
        return self.build(fresh_url(foreign_appends="refuse"))

    def append_faults(self, service: SessionService) -> Mapping[str, Callable[[], AbstractContextManager[object]]]:
        refused = grpc.StatusCode.PERMISSION_DENIED
        return {name: partial(self.server.failing, name, refused) for name in ("ExecuteBatchDml", "Commit")}

    def batch_faults(self, service: SessionService) -> Mapping[str, Callable[[], AbstractContextManager[object]]]:
        refused = grpc.StatusCode.PERMISSION_DENIED
        return {name: partial(self.server.failing, name, refused) for name in ("ExecuteStreamingSql", "Commit")}


class TestAborts(TestSpanner):
    """Every third commit is aborted: whatever is asked is tried again, and nothing is lost or doubled (DB-12)."""

    max_examples = 2
    #: Many hundred appends, each third with a pause: `TestSpanner` has them.
    test_cs_13_nothing_is_lost_to_paging = None
    test_cs_46_a_turn_touches_as_many_events_whatever_the_length = None

    @pytest.fixture(autouse=True)
    def _aborts(self, _server: None) -> None:
        self.server.aborting = 3


class TestSealed(TestSpanner):
    """What events say and state holds is sealed by the key in the environment (BEY-16)."""

    max_examples = 2

    @pytest.fixture(autouse=True)
    def _keys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOOKWORK_TEST_KEYS", Fernet.generate_key().decode())

    async def make_service(self) -> SessionService:
        return self.build(fresh_url(key_variable="HOOKWORK_TEST_KEYS"))
