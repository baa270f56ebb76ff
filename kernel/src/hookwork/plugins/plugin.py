"""What a lifecycle plugin is: an object with hook methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Plugin:
    """Base of plugins: override the hooks you want, by their names, async or not; no marker is needed.

    One object serves all runs of a runner at once: keep per-run data under ``ctx.invocation_id``. A public method
    whose name starts like a hook (``before_``, ``after_``, ``on_``, ``around_``, ``perform_``) must be one; helpers
    take a leading underscore. ``name`` None means the class name.
    """

    name: str | None = None

    # Plugins are compared by identity: two equal ones are still two (tools-plugins PGY-04).
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class FunctionPlugin(Plugin):
    """A plugin made of functions: ``FunctionPlugin("audit", after_tool=note)``. They take no ``self``."""

    def __init__(self, name: str, **hooks: Callable[..., Any]) -> None:
        self.name = name
        self._hooks = hooks
        for hook, function in hooks.items():
            setattr(self, hook, function)


def plugin_name(plugin: Any) -> str:
    """The name a plugin goes by."""
    name = getattr(plugin, "name", None)
    return type(plugin).__name__ if name is None else str(name)
