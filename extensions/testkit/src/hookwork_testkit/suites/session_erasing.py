"""Session lines BEY-1 and BEY-14: the state of a user, and erasing a user."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hookwork.errors import PartlyErasedError, SessionNotFoundError, UnsupportedOperationError, ValidationError
from hookwork.services import SessionService
from hookwork_testkit.suites.base import SessionSuiteBase, say, texts


class SessionErasing(SessionSuiteBase):
    """See the module."""

    async def erase(self, service: SessionService, user: str = "u1") -> int:
        """Erase a user; of a service that cannot erase state, how many sessions it erased."""
        try:
            return await service.delete_user(app_name=self.app_name, user_id=user)
        except PartlyErasedError as partly:
            found = partly
        assert not service.capabilities.erases_users
        assert found.kept, "it says what is left"
        return found.erased["sessions"]

    async def test_bey_1_the_state_of_a_user_is_read_without_a_session(self, service: SessionService) -> None:
        """Keys without prefix, frozen; empty for a user that never was; or a typed error, as the backend declares."""
        key = {"app_name": self.app_name, "user_id": "u1"}
        if not service.capabilities.supports_user_state_read:
            with pytest.raises(UnsupportedOperationError):
                await service.get_user_state(**key)
            return
        session = await self.create(service, state={"user:k": {"inner": [1]}, "app:k": 1, "k": 1})
        await service.append_event(session, say("x", delta={"user:j": 2}))
        state: Any = await service.get_user_state(**key)
        assert dict(state) == {"k": {"inner": [1]}, "j": 2}
        with pytest.raises(TypeError):
            state["k"]["inner"].append(2)
        await self.delete(service, session)
        assert dict(await service.get_user_state(**key)) == {"k": {"inner": [1]}, "j": 2}
        assert dict(await service.get_user_state(**{**key, "user_id": "nobody"})) == {}
        await self.erase(service)
        left = {} if service.capabilities.erases_users else {"k": {"inner": [1]}, "j": 2}
        assert dict(await service.get_user_state(**key)) == left

    async def test_bey_14_a_user_is_erased_and_nobody_else(self, service: SessionService) -> None:
        """Sessions, events and state; ids that only differ in case, accents or length are other people's."""
        mine = [await self.create(service, name=f"s-{n}", state={"k": n, "user:k": 1, "app:k": 1}) for n in range(2)]
        await service.append_event(mine[0], say("private", delta={"user:other": 2}))
        others = ["U1", "u10", "u", "ú1", "u%", "u_"]
        kept = [
            await self.create(service, user=user, name=f"s-{3 + n}", state={"user:k": user})
            for n, user in enumerate(others)
        ]
        for session in kept:
            await service.append_event(session, say("kept"))
        assert await self.erase(service) == 2
        assert await service.list_sessions(app_name=self.app_name, user_id="u1") == []
        for session in mine:
            with pytest.raises(SessionNotFoundError):
                await self.reopen(service, session)
            with pytest.raises(SessionNotFoundError):
                await service.append_event(session, say("late", delta={"user:k": 9}))
        for session in kept:
            again = await self.reopen(service, session)
            assert texts(again) == ["kept"]
            assert dict(again.state) == {"user:k": session.user_id, "app:k": 1}
        fresh = await self.create(service)
        assert texts(fresh) == []
        left = {} if service.capabilities.erases_users else {"user:k": 1, "user:other": 2}
        assert dict(fresh.state) == {"app:k": 1, **left}
        assert dict((await self.reopen(service, fresh)).state) == {"app:k": 1, **left}

    async def test_bey_14_another_app_keeps_its_user(self, service: SessionService) -> None:
        if self.other_app_name is None:
            pytest.skip("the backend has one app only")
        await self.create(service, state={"user:k": 1})
        key: dict[str, Any] = {"app_name": self.other_app_name, "user_id": "u1"}
        other = await service.create_session(**key, state={"user:k": 2})
        await self.erase(service)
        assert dict((await self.reopen(service, other)).state) == {"user:k": 2}

    async def test_bey_14_erasing_twice_is_no_error(self, service: SessionService) -> None:
        """Nor a user that never was; a blank one is."""
        await self.create(service, state={"user:k": 1})
        assert await self.erase(service) == 1
        assert await self.erase(service) == 0
        assert await self.erase(service, "nobody") == 0
        for wrong in ("", " "):
            with pytest.raises(ValidationError):
                await service.delete_user(app_name=self.app_name, user_id=wrong)

    async def test_bey_14_appends_meanwhile_leave_nothing_behind(self, service: SessionService) -> None:
        """A write that is under way is stored before and erased, or finds its session gone."""
        sessions = [await self.create(service, name=f"s-{n}") for n in range(3)]
        results = await asyncio.gather(
            *(
                service.append_event(session, say(str(n), delta={"user:k": n}))
                for n in range(5)
                for session in sessions
            ),
            self.erase(service),
            return_exceptions=True,
        )
        failures = [result for result in results if isinstance(result, BaseException)]
        assert all(isinstance(failure, SessionNotFoundError) for failure in failures), failures
        assert await service.list_sessions(app_name=self.app_name, user_id="u1") == []
        if service.capabilities.erases_users:
            assert dict((await self.create(service)).state) == {}
