"""A service that knows no more than another process would."""

from __future__ import annotations

from typing import Any

from hookwork.records.session import Session
from hookwork_database import DatabaseSessionService
from hookwork_database.loaded import LoadedCache


class Forgetful(DatabaseSessionService):
    """Opens every handle as another process would: nothing is known, and nothing is shared with other handles."""

    async def get_session(self, **arguments: Any) -> Session:
        cache, self._cache = self._cache, LoadedCache(0)
        session = await super().get_session(**arguments)
        self._cache = cache
        return session
