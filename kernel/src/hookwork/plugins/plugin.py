"""What a lifecycle plugin is: an object with hook methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from hookwork.catalogue import did_you_mean
from hookwork.errors import PluginError
from hookwork.hookspecs.table import LIFECYCLE_HOOKS


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
    """A plugin made of functions: ``FunctionPlugin("audit", after_tool=note)``. They take no ``self``.

    Raises:
        PluginError: a keyword that is no hook, or a value that is no function (a partial has no parameter names).
    """

    def __init__(self, name: str, **hooks: Callable[..., Any]) -> None:
        self.name = name
        for hook, function in hooks.items():
            if hook not in LIFECYCLE_HOOKS:
                raise PluginError(f"plugin {name!r}: {hook!r} is not a hook{did_you_mean(hook, LIFECYCLE_HOOKS)}")
            if not inspect.isroutine(function):
                raise PluginError(f"plugin {name!r}: {hook!r} needs a function or a method, not {function!r}")
            setattr(self, hook, function)


def plugin_name(plugin: Any) -> str:
    """The name a plugin goes by: its ``name``, else that of its module or class."""
    name = getattr(plugin, "name", None)
    if name is not None:
        return str(name)
    return plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__name__
