"""How many versions of an artifact are kept, and for how long (services BEY-14).

The newest version of a file is never removed, so its numbering goes on and an agent finds what it saved last.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from hookwork.errors import ArtifactNotFoundError, HookworkError, ValidationError
from hookwork.platform import now

if TYPE_CHECKING:
    from hookwork.services import ArtifactService

logger = logging.getLogger("hookwork.artifacts")


class Retention(NamedTuple):
    """Which older versions go.

    Attributes:
        keep_versions: how many of the newest stay; 0: all.
        max_age: seconds after which an older one goes; 0: never.
    """

    keep_versions: int = 0
    max_age: float = 0

    @classmethod
    def checked(cls, keep_versions: Any, max_age: Any) -> Retention:
        """The same, checked. Raises ValidationError unless both are numbers from 0, the first a whole one."""
        if type(keep_versions) is not int or keep_versions < 0:
            raise ValidationError(f"keep_versions must be a whole number from 0, not {keep_versions!r}")
        if isinstance(max_age, bool) or not isinstance(max_age, int | float) or not 0 <= max_age < 1e10:
            raise ValidationError(f"max_age must be a number of seconds from 0, not {max_age!r}")
        return cls(keep_versions, max_age)

    def __bool__(self) -> bool:
        return bool(self.keep_versions or self.max_age)


async def prune_file(service: ArtifactService, file: Mapping[str, str], retention: Retention) -> int:
    """Remove the versions of one file that are not kept; how many.

    Args:
        file: the arguments that name it: ``app_name``, ``user_id``, ``session_id``, ``filename``.
    """
    if not retention:
        return 0
    try:
        older = (await service.list_versions(**file))[:-1]
    except ArtifactNotFoundError:
        return 0
    kept = retention.keep_versions
    doomed = older[: len(older) + 1 - kept] if kept else []
    if retention.max_age:
        doomed += await _too_old(service, file, older[len(doomed) :], retention.max_age)
    for version in doomed:
        await service.delete_artifact(**file, version=version)
    return len(doomed)


async def _too_old(service: ArtifactService, file: Mapping[str, str], versions: list[int], max_age: float) -> list[int]:
    """The first of ascending versions, up to the first that is young enough."""
    limit = now() - timedelta(seconds=max_age)
    for place, version in enumerate(versions):
        try:
            made = (await service.get_artifact_version(**file, version=version)).create_time
        except ArtifactNotFoundError:  # somebody else removed it meanwhile
            continue
        if made is None or made >= limit:
            return versions[:place]
    return versions


async def prune_after_save(service: ArtifactService, file: Mapping[str, str], retention: Retention) -> None:
    """`prune_file` behind a save, which has succeeded whatever becomes of this."""
    if not retention:
        return
    try:
        await prune_file(service, file, retention)
    except HookworkError as error:
        logger.warning("older versions of artifact %r could not be removed: %s", file["filename"], error)
