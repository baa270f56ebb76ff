"""App: the unit that entry points export and runners run (core RUN-2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field

from hookwork.agent import Agent
from hookwork.errors import ConfigurationError, PluginError

if TYPE_CHECKING:
    from hookwork.invocation import RunConfig
    from hookwork.state import Rule

_FORBIDDEN = re.compile(r"[/\\\x00-\x1f\x7f]")


def check_app_name(name: Any) -> None:
    """Raise unless ``name`` can identify an app to all services."""
    if not isinstance(name, str) or not name.strip() or name == "user" or _FORBIDDEN.search(name):
        raise ConfigurationError(
            f"app name {name!r} is not usable: it must be non-empty text, not 'user', without /, \\ or control signs"
        )


def _as_plugins(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise PluginError(f"plugins is a list of plugin objects and names, not {value!r}; write plugins=[…]")
    return tuple(value)


@define(frozen=True, eq=False)
class App:
    """A root agent with what belongs to it. Immutable.

    ``sessions``, ``artifacts`` and ``memory`` are service objects or URLs; None leaves the choice to the settings.
    ``plugins`` run in the order given.

    ``state_schema``: the session state keys that exist and their types: a pydantic model, a TypedDict or another class
    with annotations, or a mapping of keys to types. A write of another key, or of a value of another type, raises
    ValidationError where it is made; keys with a scope (``app:``, ``user:``, ``temp:``) and None pass.

    ``state_merge``: state key → how a write of it is merged with one that another run or process stored meanwhile, in
    place of a StaleSessionError: ``add``, ``append``, ``max``, ``last``, or a function (`hookwork.state_merge`).
    """

    name: str
    root: Agent
    plugins: Sequence[Any] = field(default=(), kw_only=True, converter=_as_plugins)
    sessions: Any = field(default=None, kw_only=True)
    artifacts: Any = field(default=None, kw_only=True)
    memory: Any = field(default=None, kw_only=True)
    config: RunConfig | None = field(default=None, kw_only=True)
    events_compaction: Any = field(default=None, kw_only=True)
    state_schema: Any = field(default=None, kw_only=True)
    state_merge: Mapping[str, Any] | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_app_name(self.name)
        if not isinstance(self.root, Agent):
            raise ConfigurationError(f"app {self.name!r}: root must be an agent, not {type(self.root).__name__}")
        self.state_rules()  # a wrong rule is told where it is written

    def state_rules(self) -> Mapping[str, Rule] | None:
        """State key → how a concurrent write of it is merged; None when no key is. Raises ConfigurationError."""
        if not self.state_merge:
            return None
        from hookwork.state_merge import rules_of

        return rules_of(self.state_merge, f"app {self.name!r}")

    def state_check(self) -> Callable[[str, Any], None] | None:
        """What checks a write of state; None when the app declares no keys. Raises ConfigurationError."""
        if self.state_schema is None:
            return None
        from hookwork.state_schema import check_of

        return check_of(self.state_schema, f"app {self.name!r}")
