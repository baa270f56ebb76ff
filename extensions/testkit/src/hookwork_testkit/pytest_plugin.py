"""The pytest plugin: isolation from the developer's own settings, and fixtures.

Its module imports nothing of the kit: the kit's modules are imported when a fixture is used, so that coverage
measurement and start-up of a test session stay what they were.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hookwork.runner import Runner
    from hookwork_testkit.scripted import ScriptedModel

_PREFIX = "HOOKWORK_"
_CONFIG = "HOOKWORK_CONFIG"
_START = datetime(2026, 1, 1, tzinfo=UTC)
_ISOLATION_HELP = (
    "hide HOOKWORK_* variables and the settings files around the project from the whole test session (default: true)"
)


class _Hidden:
    """The developer's HOOKWORK_* variables, taken out of the environment until `restore`."""

    def __init__(self) -> None:
        self._saved = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(_PREFIX)}
        os.environ[_CONFIG] = "none"

    def restore(self) -> None:
        for name in [name for name in os.environ if name.startswith(_PREFIX)]:
            del os.environ[name]
        os.environ.update(self._saved)


_hidden_key = pytest.StashKey[_Hidden]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("hookwork_isolation", _ISOLATION_HELP, type="bool", default=True)


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Hide the environment before the project's own conftest files run: what those set on purpose stays."""
    if early_config.getini("hookwork_isolation"):
        early_config.stash[_hidden_key] = _Hidden()


def pytest_unconfigure(config: pytest.Config) -> None:
    hidden = config.stash.get(_hidden_key, None)
    if hidden is not None:
        hidden.restore()


@pytest.fixture
def hookwork_isolated() -> Iterator[None]:
    """No HOOKWORK_* variable and no settings file for this test; for projects with ``hookwork_isolation = false``."""
    hidden = _Hidden()
    yield
    hidden.restore()


class FixedTime:
    """A clock that stands still until it is moved."""

    def __init__(self, start: datetime = _START) -> None:
        self.now = start

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> datetime:
        """Move the clock; the new time."""
        self.now += timedelta(seconds=seconds)
        return self.now


class CountedIds:
    """UUID-shaped ids in sequence: ``00000000-0000-4000-8000-000000000001``, ``…002`` and so on."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return self.of(self.count)

    @staticmethod
    def of(number: int) -> str:
        """The id that comes at that place, counted from 1."""
        return f"00000000-0000-4000-8000-{number:012d}"


@pytest.fixture
def fixed_time() -> Iterator[FixedTime]:
    """The kit's clock stands at 2026-01-01T00:00:00Z; ``fixed_time.advance(seconds)`` moves it."""
    from hookwork.platform import use_clock

    clock = FixedTime()
    with use_clock(clock):
        yield clock


@pytest.fixture
def counted_ids() -> Iterator[CountedIds]:
    """The kit's ids are counted, so two runs of a test make equal events."""
    from hookwork.platform import use_uuids

    ids = CountedIds()
    with use_uuids(ids):
        yield ids


@pytest.fixture
def scripted_model() -> ScriptedModel:
    """A `ScriptedModel` with an empty script; ``scripted_model.add("hello")`` gives it steps."""
    from hookwork_testkit.scripted import ScriptedModel

    return ScriptedModel()


@pytest.fixture
def runner_factory() -> Callable[..., Runner]:
    """``runner_factory(agent_or_app, **options)``: a Runner with all services in memory and no settings file.

    Use it as ``async with runner_factory(agent) as runner``; every option of `Runner` may be given.
    """

    def build(agent_or_app: Any, **options: Any) -> Runner:
        from hookwork.runner import Runner
        from hookwork.settings import NO_SETTINGS

        in_memory: dict[str, Any] = {
            "sessions": "memory:",
            "artifacts": "memory:",
            "memory": "memory:",
            "settings": NO_SETTINGS,
        }
        return Runner(agent_or_app, **(in_memory | options))

    return build
