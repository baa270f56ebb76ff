"""What ``gs:`` URLs give (services URL-1, URL-2, URL-6, URL-8)."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from typing import Any

import pytest
from tests.gcs.servers import make_bucket

from hookwork.errors import ConfigurationError
from hookwork.records.content import Part
from hookwork.resolve import resolve_artifact_service
from hookwork_gcs import GcsArtifactService, extension


@pytest.mark.parametrize("url", ["gs://my-bucket", "GS://my-bucket", "gs://my-bucket/", "gs://my-bucket?timeout=5"])
def test_url_1_buckets(url: str) -> None:
    service = extension.create_artifact_service(url=url, settings={})
    assert isinstance(service, GcsArtifactService)
    assert service.bucket == "my-bucket"


@pytest.mark.parametrize("url", ["memory:", "gs", "gsx://bucket", "file:///gs:", ""])
def test_url_1_other_schemes_are_left_to_others(url: str) -> None:
    assert extension.create_artifact_service(url=url, settings={}) is None


def test_url_2_options_win_over_settings() -> None:
    settings = {"first_version": 0, "legacy_text": True, "timeout": 5}
    service: Any = extension.create_artifact_service(url="gs://my-bucket?nested_names=yes", settings=settings)
    assert (service.first_version, service.legacy_text, service.nested_names) == (0, True, True)
    service = extension.create_artifact_service(url="gs://my-bucket?first_version=1&timeout=2.5", settings=settings)
    assert (service.first_version, service.nested_names) == (1, False)


@pytest.mark.parametrize(
    ("url", "settings", "said"),
    [
        ("gs://my-bucket/path", {}, ["nothing else", "gs://bucket"]),
        ("gs:my-bucket", {}, ["gs://bucket"]),
        ("gs://", {}, ["3 to 222"]),
        ("gs://My_Bucket", {}, ["My_Bucket", "lower-case"]),
        ("gs://my-bucket?legacy_txt=true", {}, ["legacy_txt'", "legacy_text"]),
        ("gs://my-bucket?timeout=soon", {}, ["timeout", "number of seconds", "soon"]),
        ("gs://my-bucket?nested_names=1&nested_names=0", {}, ["twice"]),
        ("gs://my-bucket", {"timeot": 3}, ["tool.hookwork.gcs", "timeot", "timeout"]),
        ("gs://my-bucket", {"timeout": "3"}, ["tool.hookwork.gcs", "number of seconds"]),
        ("gs://ann:secret@my-bucket", {}, ["***"]),
    ],
)
def test_url_2_url_6_wrong_urls_are_named(url: str, settings: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        extension.create_artifact_service(url=url, settings=settings)
    for word in said:
        assert word in str(refusal.value)
    assert "secret" not in str(refusal.value)


async def test_url_9_the_kernel_finds_it_by_its_scheme(gcs: str) -> None:
    make_bucket(gcs, "by-scheme")
    service, owned = resolve_artifact_service("gs://by-scheme")
    assert isinstance(service, GcsArtifactService)
    assert owned
    key: dict[str, Any] = {"app_name": "a", "user_id": "u", "session_id": "s", "filename": "f"}
    assert await service.save_artifact(**key, artifact=Part(text="t")) == 1
    await service.close()


def test_the_entry_point_names_the_light_module() -> None:
    """Design §2: an entry module imports only ``hookwork`` and the standard library; a service, no HTTP library."""
    (found,) = [point for point in entry_points(group="hookwork") if point.name == "gcs"]
    assert found.value == "hookwork_gcs.extension"
    code = (
        "import sys, hookwork_gcs.extension as extension\n"
        "print([name for name in sys.modules if name.startswith('hookwork_gcs.') and name[13:] != 'extension'"
        " or name in ('urllib.parse', 'difflib', 'msgspec', 'hookwork.services')])\n"
        "extension.create_artifact_service(url='gs://my-bucket', settings={})\n"
        "print([name for name in sys.modules if name in ('httpx', 'google.auth', 'requests')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]
