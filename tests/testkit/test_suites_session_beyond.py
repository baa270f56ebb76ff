"""The session suite catches backends that do more than the reference, and wrongly (services BEY-10, 11, 13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hookwork.errors import StaleSessionError
from hookwork.records.event import Event
from hookwork.records.session import Session
from hookwork.services import SessionService
from hookwork_inmemory import InMemorySessionService
from hookwork_testkit.suites import SessionServiceSuite
from hookwork_testkit.suites.broken import BrokenBackends, failures
from hookwork_testkit.suites.sessions import BEYOND

BROKEN = BrokenBackends(SessionServiceSuite)


class _Suite(SessionServiceSuite):
    """The suite against a broken backend."""

    def __init__(self, kind: type[InMemorySessionService]) -> None:
        self.kind = kind

    async def make_service(self) -> SessionService:
        return self.kind()


@BROKEN.breaks("test_bey_13_a_deleted_key_is_absent", "test_bey_13_a_deleted_key_can", "test_bey_11_a_batch_is")
class StoresNullForADeletedKey(InMemorySessionService):
    async def append_event(self, session: Session, event: Event, **more: Any) -> Event:
        return await super().append_event(session, event.replace(extra=None), **more)


@BROKEN.breaks("test_bey_13_a_deletion")
class DeletionsAreNoWrites(InMemorySessionService):
    def _check_foreign(self, record: Any, session: Session, delta: Any) -> None:
        try:
            super()._check_foreign(record, session, delta)
        except StaleSessionError:
            if not any(event.extra for event in record.log.events):
                raise


@BROKEN.breaks("test_bey_11_all_or_none", "test_bey_11_a_stale", "test_bey_11_a_repeated")
class AppendsOneAfterTheOther(InMemorySessionService):
    async def append_events(self, session: Session, events: Sequence[Event]) -> list[Event]:
        return await SessionService.append_events(self, session, events)


@BROKEN.breaks("test_bey_10_common")
class SaysStaleWithoutItsKeys(InMemorySessionService):
    def _check_foreign(self, record: Any, session: Session, delta: Any) -> None:
        try:
            super()._check_foreign(record, session, delta)
        except StaleSessionError as stale:
            raise StaleSessionError(str(stale), stored=stale.stored, local=stale.local) from stale


@BROKEN.breaks("test_bey_14_a_user", "test_bey_14_erasing")
class ErasesSessionsOnly(InMemorySessionService):
    async def delete_user(self, *, app_name: str, user_id: str) -> int:
        return await SessionService.delete_user(self, app_name=app_name, user_id=user_id)


@BROKEN.breaks("test_bey_14_a_user")
class ErasesByTheBeginningOfTheName(InMemorySessionService):
    async def delete_user(self, *, app_name: str, user_id: str) -> int:
        app = self._apps.get(app_name)
        for other in [name for name in (app.users if app is not None else ()) if name.startswith(user_id or "?")]:
            if other != user_id:
                await super().delete_user(app_name=app_name, user_id=other)
        return await super().delete_user(app_name=app_name, user_id=user_id)


@BROKEN.breaks("test_bey_14_another")
class ErasesTheUserOfEveryApp(InMemorySessionService):
    async def delete_user(self, *, app_name: str, user_id: str) -> int:
        return sum(
            [
                await super(ErasesTheUserOfEveryApp, self).delete_user(app_name=app, user_id=user_id)
                for app in list(self._apps)
            ]
        )


@BROKEN.breaks("test_bey_1")
class ShowsPrefixes(InMemorySessionService):
    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        state = await super().get_user_state(app_name=app_name, user_id=user_id)
        return {f"user:{key}": value for key, value in state.items()}


@pytest.mark.parametrize("name", list(BROKEN.kinds))
async def test_each_broken_backend_fails_its_lines(name: str) -> None:
    kind, tags = BROKEN.kinds[name]
    own = {line for line in (line for part in BEYOND for line in vars(part)) if line in BROKEN.lines}
    failed = await failures(_Suite(kind), sorted(own))
    assert BROKEN.expected(tags) <= set(failed), failed
