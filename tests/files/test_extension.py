"""What ``file:`` URLs give (services URL-1, URL-2, URL-6, URL-8)."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from hookwork.errors import ConfigurationError, ValidationError
from hookwork.records.content import Part
from hookwork.resolve import resolve_artifact_service
from hookwork_files import FileArtifactService, extension


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("file:///srv/files", "/srv/files"),
        ("FILE:///srv/files", "/srv/files"),
        ("file:/srv/files", "/srv/files"),
        ("file://localhost/srv/files", "/srv/files"),
        ("file:///srv/50%25%20%C3%A4/", "/srv/50% ä"),
        ("file:///srv/files?sync=false", "/srv/files"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX paths")
def test_url_6_folders(url: str, root: str) -> None:
    service = extension.create_artifact_service(url=url, settings={})
    assert isinstance(service, FileArtifactService)
    assert service.root == Path(root)


@pytest.mark.parametrize("url", ["memory:", "files:///x", "file", "gs://bucket", ""])
def test_url_1_other_schemes_are_left_to_others(url: str) -> None:
    assert extension.create_artifact_service(url=url, settings={}) is None


def test_url_2_options_win_over_settings_and_creating_does_no_io(tmp_path: Path) -> None:
    root = tmp_path / "absent"
    settings = {"first_version": 0, "reuse_versions": False, "sync": False}
    service: Any = extension.create_artifact_service(url=f"{root.as_uri()}?nested_names=yes", settings=settings)
    assert (service.first_version, service.nested_names) == (0, True)
    service = extension.create_artifact_service(url=f"{root.as_uri()}?first_version=1", settings=settings)
    assert (service.first_version, service.nested_names) == (1, False)
    assert not root.exists()


@pytest.mark.parametrize(
    ("url", "settings", "said"),
    [
        ("file://host/dir", {}, ["host", "three slashes"]),
        ("file:relative", {}, ["absolute"]),
        ("file:", {}, ["absolute"]),
        ("file:///", {}, ["absolute"]),
        ("file:///a#b", {}, ["%23"]),
        ("file:///a%00b", {}, ["NUL"]),
        ("file:///a?nested_name=true", {}, ["nested_name'", "nested_names"]),
        ("file:///a?sync=maybe", {}, ["sync", "true or false", "maybe"]),
        ("file:///a?sync=1&sync=0", {}, ["twice"]),
        ("file:///a", {"synk": True}, ["tool.hookwork.files", "synk", "sync"]),
        ("file:///a", {"sync": "true"}, ["tool.hookwork.files", "true or false"]),
        ("file://ann:secret@host/dir?x=1", {}, ["***"]),
    ],
)
def test_url_2_url_6_wrong_urls_are_named(url: str, settings: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        extension.create_artifact_service(url=url, settings=settings)
    for word in said:
        assert word in str(refusal.value)
    assert "secret" not in str(refusal.value)


def test_art_4_a_wrong_first_version_is_refused() -> None:
    with pytest.raises(ValidationError):
        extension.create_artifact_service(url="file:///a?first_version=-1", settings={})


async def test_url_9_the_kernel_finds_it_by_its_scheme(tmp_path: Path) -> None:
    service, owned = resolve_artifact_service(tmp_path.as_uri())
    assert isinstance(service, FileArtifactService)
    assert owned
    key: dict[str, Any] = {"app_name": "a", "user_id": "u", "session_id": "s", "filename": "f"}
    assert await service.save_artifact(**key, artifact=Part(text="t")) == 1


def test_the_entry_point_names_the_light_module() -> None:
    """Design §2: an entry module imports only ``hookwork`` and the standard library, and no service yet."""
    (found,) = [point for point in entry_points(group="hookwork") if point.name == "files"]
    assert found.value == "hookwork_files.extension"
    code = (
        "import sys, hookwork_files.extension\n"
        "print([name for name in sys.modules if name.startswith('hookwork_files.') and name[15:] != 'extension'"
        " or name in ('urllib.parse', 'difflib', 'msgspec', 'hookwork.services')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
