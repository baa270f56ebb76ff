"""Erasing a user from all services of a runner (services BEY-14); each service's part is in its suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.kernel.running import runner_of, said

from hookwork import Event, InvocationContext, Part, Runner
from hookwork.erasing import ErasedUser, erase_user
from hookwork.errors import PartlyErasedError, SessionBusyError, UnsupportedOperationError, ValidationError
from hookwork.services import ArtifactService, MemoryService, SessionService
from hookwork_inmemory import InMemoryArtifactService, InMemoryMemoryService, InMemorySessionService


async def _body(ctx: InvocationContext) -> AsyncIterator[Event]:
    await ctx.artifacts.save("report.txt", Part(text="private"))
    await ctx.artifacts.save("user:photo.txt", Part(text="private"))
    yield said("a secret")
    await ctx.add_session_to_memory()


async def _two_users(runner: Runner) -> None:
    for user in ("u", "v"):
        for session in ("s", "t"):
            more: Any = {"state_delta": {"user:name": user, "app:shared": 1}}
            async for _ in runner.run(user_id=user, session_id=session, message="hi", **more):
                pass


async def _left(runner: Runner, user: str) -> tuple[int, int, int, dict[str, Any]]:
    key: dict[str, Any] = {"app_name": runner.app_name, "user_id": user}
    assert runner.artifacts is not None
    assert runner.memory is not None
    sessions = await runner.sessions.list_sessions(**key)
    files = await runner.artifacts.list_artifacts(**key, session_id="s")
    found = await runner.memory.search_memory(**key, query="secret")
    state = await runner.sessions.create_session(**key, session_id="new")
    await runner.sessions.delete_session(**key, session_id="new")
    return len(sessions), len(files), len(found), dict(state.state)


async def test_bey_14_one_call_erases_a_user_everywhere() -> None:
    async with runner_of(_body) as runner:
        await _two_users(runner)
        assert await runner.delete_user("u") == ErasedUser(sessions=2, artifacts=3, memories=4)
        assert await _left(runner, "u") == (0, 0, 0, {"app:shared": 1})
        assert await _left(runner, "v") == (2, 2, 2, {"app:shared": 1, "user:name": "v"})
        assert await runner.delete_user("u") == ErasedUser()
        with pytest.raises(ValidationError, match="user_id"):
            await runner.delete_user(" ")


async def test_bey_14_without_files_and_memory_the_sessions_go() -> None:
    service = InMemorySessionService()
    await service.create_session(app_name="a", user_id="u", state={"user:k": 1})
    assert await erase_user(app_name="a", user_id="u", sessions=service) == ErasedUser(sessions=1)
    assert await service.get_user_state(app_name="a", user_id="u") == {}


async def test_bey_14_a_run_under_way_would_write_on() -> None:
    async def body(ctx: InvocationContext) -> AsyncIterator[Event]:
        with pytest.raises(SessionBusyError, match=r"'u'.*stop it first"):
            await runner.delete_user("u")
        assert await runner.delete_user("v") == ErasedUser()
        yield said("done")

    async with runner_of(body) as runner:
        async for _ in runner.run(user_id="u", session_id="s", message="hi"):
            pass


class _OnlyTheContract(InMemorySessionService):
    """A stranger's service, which knows nothing of users."""

    delete_user = SessionService.delete_user


class _NoForgetting(InMemoryMemoryService):
    delete_user = MemoryService.delete_user


class _OnlyFiles(InMemoryArtifactService):
    delete_user = ArtifactService.delete_user


async def test_bey_14_what_cannot_be_erased_is_named_and_the_rest_is_gone() -> None:
    """A typed UnsupportedOperationError, and a repeat says the same."""
    services: dict[str, Any] = {
        "sessions": _OnlyTheContract(),
        "memory": _NoForgetting(),
        "artifacts": _OnlyFiles(),
    }
    async with runner_of(_body, **services) as runner:
        await _two_users(runner)
        with pytest.raises(PartlyErasedError) as partly:
            await runner.delete_user("u")
        error = partly.value
        assert isinstance(error, UnsupportedOperationError)
        assert error.erased == {"artifacts": 3, "sessions": 2}
        text = str(error)
        assert "'u'" in text
        assert "erased 3 artifacts, 2 sessions" in text
        assert "memories (_NoForgetting cannot delete" in text
        assert "state of the user (user: keys), which _OnlyTheContract cannot delete" in text
        assert await _left(runner, "u") == (0, 0, 2, {"app:shared": 1, "user:name": "u"})
        assert await _left(runner, "v") == (2, 2, 2, {"app:shared": 1, "user:name": "v"})
        with pytest.raises(PartlyErasedError) as again:
            await runner.delete_user("u")
        assert again.value.erased == {"artifacts": 0, "sessions": 0}


async def test_bey_14_a_user_without_state_is_erased_by_any_service() -> None:
    service = _OnlyTheContract()
    await service.create_session(app_name="a", user_id="u", state={"app:k": 1})
    assert await erase_user(app_name="a", user_id="u", sessions=service) == ErasedUser(sessions=1)
    assert await service.list_sessions(app_name="a") == []


async def test_bey_14_an_error_of_a_service_ends_it_and_it_can_be_repeated() -> None:
    class Failing(InMemoryMemoryService):
        fails = True

        async def delete_user(self, *, app_name: str, user_id: str) -> int:
            if self.fails:
                raise OSError("disk")
            return await super().delete_user(app_name=app_name, user_id=user_id)

    memory = Failing()
    async with runner_of(_body, memory=memory) as runner:
        await _two_users(runner)
        with pytest.raises(OSError, match="disk"):
            await runner.delete_user("u")
        memory.fails = False
        assert await runner.delete_user("u") == ErasedUser(sessions=2, artifacts=0, memories=4)
