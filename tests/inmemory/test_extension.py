"""What ``memory:`` URLs give (services URL-1, URL-2, URL-8, URL-9)."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from typing import Any

import pytest

from hookwork.errors import ConfigurationError, ValidationError
from hookwork_inmemory import InMemoryArtifactService, InMemoryMemoryService, InMemorySessionService, extension

CREATORS: list[tuple[Any, type]] = [
    (extension.create_session_service, InMemorySessionService),
    (extension.create_artifact_service, InMemoryArtifactService),
    (extension.create_memory_service, InMemoryMemoryService),
]


@pytest.mark.parametrize(("create", "kind"), CREATORS)
@pytest.mark.parametrize("url", ["memory:", "memory://", "MEMORY:", "memory:?", "memory://?"])
def test_url_1_memory_urls_of_all_spellings(create: Any, kind: type, url: str) -> None:
    service = create(url=url, settings={})
    assert type(service) is kind
    assert create(url=url, settings={}) is not service


@pytest.mark.parametrize(("create", "kind"), CREATORS)
@pytest.mark.parametrize("url", ["sqlite:///x.db", "memory", "memoryx:", "file:///memory:", ""])
def test_url_1_other_schemes_are_left_to_others(create: Any, kind: type, url: str) -> None:
    assert create(url=url, settings={}) is None


def test_url_2_options_are_typed_and_win_over_settings() -> None:
    settings = {"max_sessions": 5, "first_version": 0, "max_results": 3}
    sessions: Any = extension.create_session_service(url="memory:", settings=settings)
    assert (sessions.max_sessions, sessions.foreign_appends) == (5, "absorb")
    sessions = extension.create_session_service(url="memory:?max_sessions=7&foreign_appends=refuse", settings=settings)
    assert (sessions.max_sessions, sessions.foreign_appends) == (7, "refuse")
    artifacts: Any = extension.create_artifact_service(url="memory://?nested_names=true", settings=settings)
    assert (artifacts.first_version, artifacts.nested_names) == (0, True)
    memory: Any = extension.create_memory_service(url="memory:?max_results=%32", settings=settings)
    assert memory.max_results == 2


@pytest.mark.parametrize(
    ("url", "settings", "words"),
    [
        ("memory:?max_session=1", {}, ["max_session'", "max_sessions"]),
        ("memory:?max_results=1", {}, ["max_results", "max_sessions"]),
        ("memory:?max_sessions=1&max_sessions=2", {}, ["max_sessions", "twice"]),
        ("memory:?max_sessions=many", {}, ["max_sessions", "whole number", "many"]),
        ("memory://host", {}, ["host"]),
        ("memory:/path?max_sessions=1", {}, ["path"]),
        ("memory:", {"max_sesions": 1}, ["tool.hookwork.inmemory", "max_sesions", "max_sessions"]),
        ("memory:", {"max_sessions": "1"}, ["tool.hookwork.inmemory", "max_sessions", "whole number"]),
        ("memory:", {"nested_names": 1}, ["nested_names", "true or false"]),
    ],
)
def test_url_2_wrong_options_are_named(url: str, settings: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        extension.create_session_service(url=url, settings=settings)
    for word in words:
        assert word in str(refusal.value)


def test_wrong_values_of_options_are_refused() -> None:
    makers: list[Any] = [
        lambda: InMemorySessionService(max_sessions=0),
        lambda: InMemorySessionService(foreign_appends="merge"),  # type: ignore[arg-type]
        lambda: InMemoryArtifactService(first_version=-1),
        lambda: InMemoryMemoryService(max_results=0),
    ]
    for make in makers:
        with pytest.raises(ValidationError):
            make()


def test_the_entry_point_names_the_light_module() -> None:
    """Design §2: an entry module imports only ``hookwork`` and the standard library, and no service yet."""
    (found,) = [point for point in entry_points(group="hookwork") if point.name == "inmemory"]
    assert found.value == "hookwork_inmemory.extension"
    code = (
        "import sys, hookwork_inmemory.extension\n"
        "print([name for name in sys.modules if name.startswith('hookwork_inmemory.') and name[18:] != 'extension'"
        " or name in ('urllib.parse', 'difflib', 'msgspec', 'hookwork.services')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
