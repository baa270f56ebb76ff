"""Ordered async dispatch of lifecycle hooks over pluggy's public API (tools-plugins §9).

pluggy validates, names and bands the implementations. At freeze each hook is compiled into a tuple of (callable,
plugin name), every callable taking the hook's parameters by position. A call walks that tuple: no task, no signature
work, and a hook nobody implements costs one truth test.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from types import CoroutineType
from typing import Any

import pluggy

from hookwork.catalogue import did_you_mean
from hookwork.errors import PluginError
from hookwork.hookspecs.lifecycle import LIFECYCLE_SPECS
from hookwork.hookspecs.table import LIFECYCLE_HOOKS, Rule
from hookwork.plugins.markers import PROJECT_NAME
from hookwork.plugins.plugin import Plugin, plugin_name

logger = logging.getLogger("hookwork.plugins")

#: (implementation, plugin name), in execution order.
Chain = tuple[tuple[Callable[..., Any], str], ...]

_HOOK_PREFIXES = ("before_", "after_", "on_", "around_", "perform_")


class _LifecycleManager(pluggy.PluginManager):
    """Takes unmarked methods of `Plugin` subclasses as implementations (PGY-15)."""

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        options = super().parse_hookimpl_opts(plugin, name)
        if options is not None and (options["wrapper"] or options["hookwrapper"]):
            raise _wrapper_error(plugin_name(plugin), options["specname"] or name)
        if options is not None or not isinstance(plugin, Plugin) or name not in LIFECYCLE_HOOKS:
            return options
        function = inspect.getattr_static(plugin, name, None)
        if function is None or function is inspect.getattr_static(Plugin, name, None):
            return None
        return {
            "wrapper": False,
            "hookwrapper": False,
            "optionalhook": False,
            "tryfirst": False,
            "trylast": False,
            "specname": None,
        }


def ordered(manager: pluggy.PluginManager, hook: str) -> tuple[pluggy.HookImpl, ...]:
    """A hook's implementations in execution order: tryfirst, normal, trylast, each in registration order."""
    sequence = {name: i for i, (name, _) in enumerate(manager.list_name_plugin())}
    caller = getattr(manager.hook, hook)
    implementations = caller.get_hookimpls()
    for implementation in implementations:
        if implementation.wrapper or implementation.hookwrapper:
            raise _wrapper_error(implementation.plugin_name, hook)
        if implementation.tryfirst and implementation.trylast:
            raise PluginError(f"plugin {implementation.plugin_name!r}: {hook!r} is both tryfirst and trylast")
    return tuple(sorted(implementations, key=lambda i: ((not i.tryfirst) + i.trylast, sequence[i.plugin_name])))


def _wrapper_error(plugin: str, hook: str) -> PluginError:
    """A pluggy wrapper cannot await; the error names the around hook of its stage (PGY-19)."""
    stage = hook.removesuffix("_error")
    for prefix in ("before_", "after_", "on_", "perform_", "around_"):
        stage = stage.removeprefix(prefix)
    around = f"around_{stage}" if f"around_{stage}" in LIFECYCLE_HOOKS else "around_run"
    return PluginError(f"plugin {plugin!r}: a pluggy wrapper on {hook!r} cannot await; implement {around!r} instead")


def positional(implementation: pluggy.HookImpl, parameters: tuple[str, ...], hook: str) -> Callable[..., Any]:
    """The implementation as a callable that takes all of the hook's parameters by position."""
    names = (*implementation.argnames, *implementation.kwargnames)
    code = getattr(inspect.unwrap(implementation.function), "__code__", None)
    if code is not None and code.co_kwonlyargcount:
        # pluggy neither sees nor passes them (PGY-06), so the call would fail in the middle of a run.
        raise PluginError(
            f"plugin {implementation.plugin_name!r}: {hook!r} takes keyword-only parameters; leave out the '*'"
        )
    if names == parameters:
        return implementation.function
    strange = [name for name in names if name not in parameters]
    if strange:
        raise PluginError(
            f"plugin {implementation.plugin_name!r}: {hook!r} has no parameter {strange[0]!r}; "
            f"it offers: {', '.join(parameters) or 'none'}"
        )
    pick = tuple(parameters.index(name) for name in names)
    function = implementation.function
    if pick == tuple(range(len(pick))):
        count = len(pick)
        return lambda *values: function(*values[:count])
    return lambda *values: function(*[values[k] for k in pick])


def _compile(manager: pluggy.PluginManager, hook: str, rule: Rule, parameters: tuple[str, ...]) -> Chain:
    chain = []
    for implementation in ordered(manager, hook):
        _check_kind(implementation, hook, rule)
        chain.append((positional(implementation, parameters, hook), implementation.plugin_name))
    return tuple(chain)


def _check_kind(implementation: pluggy.HookImpl, hook: str, rule: Rule) -> None:
    """Refuse a kind of function that its hook cannot use, before a run trips over it."""
    function = implementation.function
    is_async = inspect.iscoroutinefunction(function)
    if rule is Rule.EFFECT and not is_async:
        wanted = "must be an async function"
    elif rule is Rule.AROUND and (is_async or inspect.isasyncgenfunction(function)):
        wanted = "must return an async context manager; put @asynccontextmanager on it"
    elif inspect.isasyncgenfunction(function):
        wanted = "must not yield; an async generator is no value"
    else:
        return
    raise PluginError(f"plugin {implementation.plugin_name!r}: {hook!r} {wanted}")


def _check_names(plugin: Any, name: str) -> None:
    """Refuse a public method that looks like a hook and is none (PGY-16)."""
    if not isinstance(plugin, Plugin):
        return
    for attribute in LIFECYCLE_HOOKS:
        member = inspect.getattr_static(type(plugin), attribute, None)
        if member is not None and not callable(member) and not isinstance(member, classmethod | staticmethod):
            raise PluginError(f"plugin {name!r}: {attribute!r} is a hook, so it must be a method, not {member!r}")
    # Of the class only: a callable that an instance keeps under such a name is its own affair.
    for attribute in dir(type(plugin)):
        if attribute not in LIFECYCLE_HOOKS and _looks_like_hook(attribute):
            member = inspect.getattr_static(type(plugin), attribute)
            if callable(member) or isinstance(member, classmethod):
                raise PluginError(
                    f"plugin {name!r}: {attribute!r} is not a hook{did_you_mean(attribute, LIFECYCLE_HOOKS)}; "
                    "a helper method needs a leading underscore"
                )


def _looks_like_hook(attribute: str) -> bool:
    if attribute.startswith(_HOOK_PREFIXES):
        return True
    if attribute.startswith("_") or "_" not in attribute:
        return False
    from difflib import get_close_matches

    return bool(get_close_matches(attribute, LIFECYCLE_HOOKS, n=1, cutoff=0.9))  # befor_tool, after_modle


def _check_object(plugin: Any) -> None:
    """Refuse what pluggy would take without a word and never call."""
    if plugin is None:
        raise PluginError("None is not a plugin; leave it out of the list")
    if isinstance(plugin, type):
        raise PluginError(f"{plugin.__name__} is a class; list an object of it: {plugin.__name__}(…)")
    if isinstance(plugin, str):
        raise PluginError(f"{plugin!r} is a name, not a plugin; resolve names with hookwork.resolve.resolve_plugins")


class Hooks:
    """The lifecycle hooks of one runner, compiled and frozen. One attribute per hook: its `Chain`."""

    __slots__ = (*LIFECYCLE_HOOKS, "plugins")

    def __init__(self, plugins: Iterable[Any] = ()) -> None:
        given = tuple(plugins)
        if not given:
            self.plugins: tuple[tuple[str, Any], ...] = ()
            for hook in LIFECYCLE_HOOKS:
                setattr(self, hook, ())
            return
        manager = _LifecycleManager(PROJECT_NAME)
        for spec in LIFECYCLE_SPECS:
            manager.add_hookspecs(spec)
        self.plugins = tuple(_registered(manager, given))
        try:
            manager.check_pending()
        except pluggy.PluginValidationError as error:
            raise PluginError(str(error)) from error
        for hook, (rule, parameters) in LIFECYCLE_HOOKS.items():
            setattr(self, hook, _compile(manager, hook, rule, parameters))

    def __getattr__(self, name: str) -> Chain:
        # Only reached for a name that is no hook: every hook has its slot.
        raise AttributeError(f"no lifecycle hook named {name!r}")


def _registered(manager: pluggy.PluginManager, plugins: Iterable[Any]) -> Iterable[tuple[str, Any]]:
    seen: dict[str, Any] = {}
    for plugin in plugins:
        _check_object(plugin)
        name = plugin_name(plugin)
        if not name:
            raise PluginError(f"a plugin of type {type(plugin).__name__} has an empty name; set its `name`")
        if name in seen:
            raise PluginError(f"two plugins are named {name!r}; give one of them another `name`")
        _check_names(plugin, name)
        try:
            manager.register(plugin, name=name)
        except (ValueError, pluggy.PluginValidationError) as error:
            why = _strange_argument(manager, plugin) or " ".join(str(error).split())
            raise PluginError(f"plugin {name!r} cannot be used: {why}") from error
        if not isinstance(plugin, Plugin) and not manager.get_hookcallers(plugin):
            # It would be listed and never called: a guard that guards nothing.
            raise PluginError(
                f"plugin {name!r} ({type(plugin).__name__}) implements no hook; derive its class from hookwork.Plugin, "
                "or put @hookimpl on its functions"
            )
        seen[name] = plugin
        yield name, plugin


def _strange_argument(manager: pluggy.PluginManager, plugin: Any) -> str:
    """What a plugin's hook asks for that the hook does not give, ``""`` when that is not what pluggy objects to."""
    for attribute in dir(plugin):
        options = manager.parse_hookimpl_opts(plugin, attribute)
        hook = (options and options.get("specname")) or attribute
        if not options or hook not in LIFECYCLE_HOOKS:
            continue
        offered = LIFECYCLE_HOOKS[hook][1]
        for name, parameter in inspect.signature(getattr(plugin, attribute)).parameters.items():
            if name not in offered and parameter.default is parameter.empty:
                return (
                    f"{hook!r} has no parameter {name!r}{did_you_mean(name, offered)}; it offers: {', '.join(offered)}"
                )
    return ""


NO_HOOKS = Hooks()


def _note(error: BaseException, name: str, hook: str) -> None:
    error.add_note(f"raised by plugin {name!r} in {hook!r}")


def stray(error: BaseException, name: str, hook: str) -> BaseException:
    """A plugin's error as it goes on: a CancelledError that nobody asked for would pass for a cancelled run."""
    task = asyncio.current_task()
    if not isinstance(error, asyncio.CancelledError) or task is None or task.cancelling():
        return error
    return PluginError(f"plugin {name!r} let a CancelledError escape from {hook!r} though nobody cancels the run")


async def first(chain: Chain, hook: str, *values: Any) -> tuple[Any, str] | None:
    """FIRST rule: (value, plugin name) of the first implementation with an opinion, or None."""
    for call, name in chain:
        try:
            result = call(*values)
            if result is not None:
                if type(result) is CoroutineType or inspect.isawaitable(result):
                    result = await result
                    if result is None:
                        continue
                if logger.isEnabledFor(logging.DEBUG):
                    logger.debug("hook %s: plugin %s gave a value", hook, name)
                    if any(result is value for value in values):
                        # Most likely meant as "no opinion"; it silences every plugin after it (TT-11).
                        logger.debug("hook %s: plugin %s returned its input; return None instead", hook, name)
                return result, name
        except asyncio.CancelledError as error:
            if (other := stray(error, name, hook)) is error:
                raise
            raise other from error
        except Exception as error:
            _note(error, name, hook)
            raise
    return None


async def first_callback(callbacks: Sequence[Callable[..., Any]], *values: Any) -> Any:
    """FIRST rule over an agent's own callbacks."""
    for callback in callbacks:
        result = callback(*values)
        if result is not None:
            if type(result) is CoroutineType or inspect.isawaitable(result):
                result = await result
            if result is not None:
                return result
    return None


async def notify(chain: Chain, hook: str, *values: Any) -> None:
    """NOTIFY rule: everybody is called; what they raise is logged, cancellation passes."""
    for call, name in chain:
        try:
            result = call(*values)
            if result is not None and inspect.isawaitable(result):
                await result
        except asyncio.CancelledError as error:
            if stray(error, name, hook) is error:
                raise
            logger.exception("plugin %r raised in %r; the run goes on", name, hook)
        except Exception:
            # An observer's fault must not change the outcome (PLUG-12).
            logger.exception("plugin %r raised in %r; the run goes on", name, hook)
