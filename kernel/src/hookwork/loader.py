"""Agents and Apps by name, for servers and launchers (core LDR-1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Self

from hookwork.agent import Agent
from hookwork.app import App
from hookwork.catalogue import did_you_mean
from hookwork.errors import ConfigurationError

if TYPE_CHECKING:
    from hookwork.settings import Settings


class AgentLoader:
    """One agent or App, or several of which the first is the root.

    An App is known by its own name, not by its root agent's. `load_agent` with ``""`` gives the root. The entries of
    `installed` are imported when they are first loaded.

    Raises:
        ConfigurationError: an entry that is neither agent nor App, or two of one name.
    """

    def __init__(self, root: Agent | App, *others: Agent | App) -> None:
        self._entries: dict[str, Agent | App | Callable[[], Agent | App]] = {}
        for entry in (root, *others):
            if not isinstance(entry, (Agent, App)):
                raise ConfigurationError(f"a loader takes agents and Apps, not {type(entry).__name__}")
            self._add(entry.name, entry)
        self._root = root.name

    @classmethod
    def installed(cls, root: str | None = None, settings: Settings | None = None) -> Self:
        """The agents and Apps of the entry-point group ``hookwork.agents``, in the order of their names.

        Args:
            root: the entry that is the root, by its entry-point name; None: the settings' ``app`` or ``agent`` where
                that is such a name, else the first entry.

        Raises:
            ConfigurationError: no agent is installed, or none of that name.
        """
        from hookwork.plugins.discovery import extensions
        from hookwork.resolve import load_agent
        from hookwork.settings import current_settings

        settings = settings if settings is not None else current_settings()
        names = sorted(extensions().agents)
        if not names:
            raise ConfigurationError("no installed distribution brings an agent (entry-point group hookwork.agents)")
        preferred = root or settings.app or settings.agent
        if root is not None and root not in names:
            raise ConfigurationError(f"no installed agent is named {root!r}; known: {', '.join(names)}")
        first = preferred if preferred in names else names[0]
        loader = cls.__new__(cls)
        loader._entries = {}
        loader._root = first
        for name in (first, *(name for name in names if name != first)):
            loader._add(name, partial(load_agent, name, settings))
        return loader

    def _add(self, name: str, entry: Agent | App | Callable[[], Agent | App]) -> None:
        if name in self._entries:
            raise ConfigurationError(f"two agents named {name!r} in one loader; rename one, or wrap it in an App")
        self._entries[name] = entry

    @property
    def root_agent(self) -> Agent | App:
        """The root entry."""
        return self.load_agent()

    def list_agents(self) -> list[str]:
        """All names: the root's, then the others' in the order in which they were given."""
        return list(self._entries)

    def load_agent(self, name: str = "") -> Agent | App:
        """The entry of that name, the root's for ``""``.

        Raises:
            ConfigurationError: no entry has that name; the text lists those there are.
        """
        name = name or self._root
        entry = self._entries.get(name)
        if entry is None:
            near = did_you_mean(name, self._entries)
            raise ConfigurationError(f"no agent is named {name!r}{near}; known agents: {', '.join(self._entries)}")
        if not isinstance(entry, (Agent, App)):
            entry = self._entries[name] = entry()
        return entry
