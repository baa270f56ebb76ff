"""Erasing a user: sessions, user state, memories and files, on every service of a runner (services BEY-14)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from hookwork.errors import PartlyErasedError, SessionBusyError, UnsupportedOperationError, ValidationError

if TYPE_CHECKING:
    from hookwork.runner import Runner
    from hookwork.services import ArtifactService, MemoryService, SessionService


class ErasedUser(NamedTuple):
    """How much of a user was there and is gone; state goes with the sessions."""

    sessions: int = 0
    artifacts: int = 0
    memories: int = 0


async def erase_user(
    *,
    app_name: str,
    user_id: str,
    sessions: SessionService,
    artifacts: ArtifactService | None = None,
    memory: MemoryService | None = None,
) -> ErasedUser:
    """Erase a user of an app from the services given. A second call finds nothing and is no error.

    Files go first and the sessions last: a call that broke off is repeated, and still knows which sessions there were.

    Raises:
        PartlyErasedError: a service cannot erase all; the others have been asked, and it says what is left.
    """
    for name, value in (("app_name", app_name), ("user_id", user_id)):
        if not isinstance(value, str) or not value.strip():
            raise ValidationError(f"{name} must be non-empty text", path=name)
    scope = {"app_name": app_name, "user_id": user_id}
    ids = [session.id for session in await sessions.list_sessions(**scope)] if artifacts is not None else []
    erased: dict[str, int] = {}
    kept: list[str] = []
    causes: list[Exception] = []

    async def carry_out(kind: str, erase: Callable[[], Awaitable[int]]) -> None:
        try:
            erased[kind] = await erase()
        except PartlyErasedError as error:
            erased.update(error.erased)
            kept.extend(error.kept)
            causes.append(error)
        except UnsupportedOperationError as error:
            kept.append(f"{kind} ({error})")
            causes.append(error)

    if artifacts is not None:
        await carry_out("artifacts", lambda: artifacts.delete_user(**scope, session_ids=ids))
    if memory is not None:
        await carry_out("memories", lambda: memory.delete_user(**scope))
    await carry_out("sessions", lambda: sessions.delete_user(**scope))
    if kept:
        raise PartlyErasedError(f"of user {user_id!r} in app {app_name!r}", erased=erased, kept=kept) from causes[0]
    return ErasedUser(**erased)


async def erase_user_of(runner: Runner, user_id: str) -> ErasedUser:
    """See `Runner.delete_user`."""
    await runner.open()
    if any(core.user_id == user_id for core in runner.live_runs):
        raise SessionBusyError(
            f"a run of user {user_id!r} is under way and would write on; stop it first, then erase the user"
        )
    return await erase_user(
        app_name=runner.app_name,
        user_id=user_id,
        sessions=runner.sessions,
        artifacts=runner.artifacts,
        memory=runner.memory,
    )
