"""The next version of an artifact, whoever else saves (services GCS-2, ART-12, ART-15)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookwork.errors import ArtifactVersionConflictError
from hookwork.platform import new_uuid, random, sleep
from hookwork.telemetry import count_retry
from hookwork_gcs.bucket import Bucket, ObjectError
from hookwork_gcs.contents import SAVE_ID, Kind, Stored
from hookwork_gcs.layout import Place, version_of
from hookwork_gcs.payloads import Payload

ATTEMPTS = 16
#: Seconds: the first back-off, doubled each time, and the longest.
BACKOFF, LONGEST_BACKOFF = 0.01, 1.0


async def versions_of(bucket: Bucket, place: Place) -> dict[int, Stored]:
    """The versions of an artifact by number, ascending; tombstones too, strangers' objects not."""
    prefix = place.prefix
    numbered = ((version_of(stored.name[len(prefix) :]), stored) for stored in await bucket.list(prefix, below=False))
    return dict(sorted((number, stored) for number, stored in numbered if number is not None))


async def save(
    bucket: Bucket,
    place: Place,
    payload: Payload,
    kind: Kind,
    *,
    first_version: int,
    custom_metadata: Mapping[str, Any] | None,
    save_id: str | None,
    reuse_identical: bool,
) -> int:
    """Write the next version and return its number, or that of the version that was saved under the same id.

    ``reuse_identical``: or that of the latest version, if it is the same.

    Raises:
        ArtifactVersionConflictError: other content was saved under the id, or the race was lost every time.
        BackendError: any other failure; it is not tried again here.
    """
    own_id = save_id or new_uuid()
    metadata = kind.metadata(custom_metadata, own_id, payload.sha256)
    for attempt in range(ATTEMPTS):
        if attempt:
            count_retry()
            await sleep(random() * min(LONGEST_BACKOFF, BACKOFF * 2 ** (attempt - 1)))
        versions = await versions_of(bucket, place)
        saved = _saved_before(versions, place, payload, kind, own_id)
        if saved is None and reuse_identical:
            saved = _identical(versions, payload, kind, metadata)
        if saved is not None:
            return saved
        number = max(versions, default=first_version - 1) + 1
        try:
            await bucket.insert(place.object_name(number), payload, kind.content_type, metadata)
        except ObjectError as error:
            if error.status == 412:
                continue
            if error.unclear:
                saved = await _saved_after_all(bucket, place, payload, kind, own_id)
                if saved is not None:
                    return saved
            raise
        return number
    raise ArtifactVersionConflictError(
        f"{place.filename!r}: other saves took the next version {ATTEMPTS} times; save it again"
    )


def _saved_before(
    versions: Mapping[int, Stored], place: Place, payload: Payload, kind: Kind, save_id: str
) -> int | None:
    for number, stored in versions.items():
        if stored.metadata.get(SAVE_ID) == save_id:
            if not stored.holds(kind, payload.md5):
                raise ArtifactVersionConflictError(
                    f"{place.filename!r} was saved with other content under save_id {save_id!r}; use a new id"
                )
            return number
    return None


def _identical(versions: dict[int, Stored], payload: Payload, kind: Kind, metadata: Mapping[str, str]) -> int | None:
    """The latest version, if a save would only write it once more (services BEY-17)."""
    if not versions:
        return None
    number, latest = next(reversed(versions.items()))
    wanted = Stored({"metadata": metadata})
    same = latest.holds(kind, payload.md5) and latest.custom() == wanted.custom() and not latest.is_tombstone
    return number if same else None


async def _saved_after_all(bucket: Bucket, place: Place, payload: Payload, kind: Kind, save_id: str) -> int | None:
    """Whether a write whose answer was lost was carried out."""
    try:
        versions = await versions_of(bucket, place)
    except ObjectError:
        return None  # still unknown: the caller is told of the failed write, which is what matters
    return _saved_before(versions, place, payload, kind, save_id)
