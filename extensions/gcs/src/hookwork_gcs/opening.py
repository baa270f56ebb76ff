"""A service from a ``gs:`` URL (services URL-2, URL-6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hookwork.errors import ConfigurationError, ValidationError
from hookwork.service_options import SECONDS, SWITCH, WHOLE_NUMBER, Option, options_of
from hookwork.urls import redact_url

if TYPE_CHECKING:
    from hookwork_gcs.service import GcsArtifactService

OPTIONS: Mapping[str, Option] = {
    "first_version": WHOLE_NUMBER,
    "nested_names": SWITCH,
    "legacy_text": SWITCH,
    "keep_versions": WHOLE_NUMBER,
    "max_age": SECONDS,
    "timeout": SECONDS,
    "spool_folder": Option(str, str, "a folder"),
}


def artifact_service(url: str, *, settings: Mapping[str, Any] | None = None) -> GcsArtifactService:
    """The service of ``gs://bucket?option=value``; no I/O is done.

    Args:
        settings: the table ``[tool.hookwork.gcs]``; the URL's options win.

    Raises:
        ConfigurationError: no bucket, more than a bucket, or a wrong option.
        ValidationError: an option has no valid value.
    """
    from hookwork_gcs.service import GcsArtifactService, check_bucket

    at = f"artifacts URL {redact_url(url)!r}"
    body, _, query = url.partition(":")[2].partition("?")
    bucket, _, path = body.removeprefix("//").partition("/")
    if not body.startswith("//") or path:
        raise ConfigurationError(f"{at} must name a bucket and nothing else: gs://bucket")
    try:
        check_bucket(bucket)
    except ValidationError as error:
        raise ConfigurationError(f"{at}: {redact_url(str(error))}") from error
    return GcsArtifactService(bucket, **options_of(query, settings, OPTIONS, extension="gcs", at=at))
