"""The session store that a command works on: which one, whose sessions, and finding them by id."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import click
import msgspec

from hookwork.catalogue import did_you_mean
from hookwork.errors import ConfigurationError, SessionNotFoundError
from hookwork.urls import redact_url

if TYPE_CHECKING:
    from hookwork.services import SessionService
    from hookwork.settings import Settings


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """What the options of a command say; None: not given."""

    sessions: str | None = None
    app: str | None = None
    user: str | None = None
    artifacts: str | None = None


class Key(NamedTuple):
    """What identifies a session (services EVT-1)."""

    app_name: str
    user_id: str
    session_id: str


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """An open store, and whose sessions of it are meant.

    Attributes:
        app_name: ``""`` when the command needs none.
        user_id: None: all users of the app.
        name: the store's URL without secrets, for texts.
        artifacts: the store of their files, when the command is about these too.
    """

    service: Any
    app_name: str
    user_id: str | None
    name: str
    artifacts: Any = None

    async def keys(self) -> list[Key]:
        """All sessions, by user and id: the order does not change when a session is used."""
        found = await self.service.list_sessions(app_name=self.app_name, user_id=self.user_id)
        return sorted(Key(session.app_name, session.user_id, session.id) for session in found)

    async def find(self, ids: Iterable[str]) -> list[Key]:
        """The sessions of these ids, in their order, each once.

        Raises:
            SessionNotFoundError: one of them is not there.
            UsageError: an id without ``--user`` is used by several users.
        """
        wanted = list(dict.fromkeys(ids))
        owners = await self._owners(wanted)
        found = []
        for id in wanted:
            users = owners.get(id, [])
            if not users:
                raise SessionNotFoundError(self._absent(id, owners))
            if len(users) > 1:
                raise click.UsageError(f"session {id!r} exists for the users {', '.join(users)}; say which with --user")
            found.append(Key(self.app_name, users[0], id))
        return found

    async def _owners(self, ids: Sequence[str]) -> dict[str, list[str]]:
        """Id → the users that have a session of that id."""
        owners: dict[str, list[str]] = {}
        if self.user_id is not None:
            for id in ids:
                try:
                    await self.service.get_session(
                        app_name=self.app_name, user_id=self.user_id, session_id=id, num_recent_events=0
                    )
                except SessionNotFoundError:
                    continue
                owners[id] = [self.user_id]
            return owners
        for key in await self.keys():
            owners.setdefault(key.session_id, []).append(key.user_id)
        return owners

    def _absent(self, id: str, known: Iterable[str]) -> str:
        of_user = f" of user {self.user_id!r}" if self.user_id is not None else ""
        return (
            f"{self.name} holds no session {id!r}{of_user} of app {self.app_name!r}{did_you_mean(id, known)}; "
            f"see: hookwork sessions list --app {self.app_name}"
        )


class Store(msgspec.Struct, frozen=True, kw_only=True):
    """A store that can be opened again and again, and whose sessions of it are meant; see `Place`.

    Attributes:
        sessions: a URL, or the session service of the project's App, which stays open.
        artifacts: the URL of the store of their files, or None.
    """

    sessions: Any
    settings: Any
    app_name: str
    user_id: str | None
    artifacts: str | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Place]:
        """The open store; closed again when it is left. Raises ConfigurationError when nobody takes the URL."""
        from hookwork.resolve import resolve_artifact_service, resolve_session_service

        files, _ = resolve_artifact_service(self.artifacts, self.settings) if self.artifacts else (None, False)
        service: SessionService
        service, owned = resolve_session_service(self.sessions, self.settings)
        name = redact_url(self.sessions) if isinstance(self.sessions, str) else type(service).__name__
        try:
            yield Place(service=service, app_name=self.app_name, user_id=self.user_id, name=name, artifacts=files)
        finally:
            if files is not None:
                await files.close()
            if owned:
                await service.close()


def located(where: Where, settings: Settings, *, writes: bool = False) -> Store:
    """The store of the options, the project's App and the settings, in this order.

    Args:
        writes: the command may make a store that is not there yet, and needs no app.

    Raises:
        ConfigurationError: no store is named, it ends with its process, or its file is absent.
        UsageError: no app is named.
    """
    sessions, app_name = _named(where, settings)
    if not app_name and not writes:
        raise click.UsageError("whose sessions? name the app: --app NAME, or set `app` or `agent` in the settings")
    _check(sessions, writes=writes)
    return Store(
        sessions=sessions,
        settings=settings,
        app_name=app_name or "",
        user_id=where.user,
        artifacts=_checked_artifacts(where.artifacts),
    )


def _checked_artifacts(url: str | None) -> str | None:
    if url is not None and url.lower().partition(":")[0] == "memory":
        raise ConfigurationError(
            "artifacts in memory end with the process that made them; name a store: --artifacts file:///folder"
        )
    return url


def _named(where: Where, settings: Settings) -> tuple[Any, str | None]:
    """The store and the app's name. The project's App is asked only for what no option says."""
    own, app_name = None, where.app
    if (where.sessions is None or where.app is None) and (settings.app or settings.agent):
        from hookwork.resolve import load_agent

        target = load_agent(None, settings)
        app_name = where.app or target.name
        own = getattr(target, "sessions", None) if target.name == app_name else None
    return where.sessions or own or settings.sessions, app_name


def _check(sessions: Any, *, writes: bool) -> None:
    example = "name the store: --sessions sqlite:///chat.db, or set `sessions` in the settings"
    if not sessions:
        raise ConfigurationError(f"there is no session store; {example}")
    if not isinstance(sessions, str):
        return
    scheme, _, rest = sessions.partition(":")
    path = unquote(rest.partition("?")[0].removeprefix("//").removeprefix("/"))
    sqlite = scheme.lower().partition("+")[0] == "sqlite"
    if scheme.lower() == "memory" or (sqlite and path in ("", ":memory:")):
        raise ConfigurationError(f"sessions in memory end with the process that made them; {example}")
    # Opening an absent SQLite file would make an empty one: of a misspelt name, that would be the answer.
    if sqlite and not writes and not Path(path).exists():
        raise ConfigurationError(f"there is no file {path!r} for {redact_url(sessions)!r}; {example}")
