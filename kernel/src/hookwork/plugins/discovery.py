"""Installed extensions and their provider hooks (tools-plugins §10).

One registry for the process, made at first need from entry points; `use_extensions` puts another one in its place for a
test's context. Extension modules are imported when the first provider hook is asked; plugins and agents only when
somebody names them.
"""

from __future__ import annotations

import inspect
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import msgspec
import pluggy

from hookwork.catalogue import did_you_mean
from hookwork.errors import ConfigurationError, ExtensionError
from hookwork.hookspecs.table import LIFECYCLE_HOOKS, PROVIDER_HOOKS, PROVIDER_SPECS
from hookwork.plugins.dispatch import ordered, positional
from hookwork.plugins.entry_points import AGENTS, EXTENSIONS, PLUGINS, EntryPoint, by_name, read_entry_points
from hookwork.plugins.markers import PROJECT_NAME
from hookwork.plugins.patterns import ModelPatterns
from hookwork.settings import NO_SETTINGS, Settings, use_current

logger = logging.getLogger("hookwork.extensions")


class ExtensionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What `hookwork plugins` shows of an extension. ``state``: ``loaded``, ``broken``, ``disabled``."""

    name: str
    distribution: str
    version: str
    module: str
    hooks: tuple[str, ...] = ()
    state: str
    error: str = ""


class Extension:
    """One installed extension: where it comes from, and what became of it when it was loaded."""

    __slots__ = ("_instance", "distribution", "error", "hooks", "module", "name", "point", "version")

    def __init__(self, name: str, *, point: EntryPoint | None = None, instance: Any = None) -> None:
        self.name = name
        self.point = point
        self._instance = instance
        self.distribution = point.distribution if point is not None else ""
        self.version = point.version if point is not None else ""
        self.module = point.value if point is not None else getattr(instance, "__name__", type(instance).__name__)
        self.hooks: tuple[str, ...] = ()
        self.error: Exception | None = None

    @property
    def origin(self) -> str:
        """The extension as texts name it."""
        where = f" ({self.distribution} {self.version})" if self.distribution else ""
        return f"extension {self.name!r}{where}"

    def instance(self) -> Any:
        """The module or object, imported at the first call. Raises what the import raises."""
        if self._instance is None:
            assert self.point is not None
            found = self.point.load()
            self._instance = found() if isinstance(found, type) else found
        return self._instance

    def record(self, state: str) -> ExtensionRecord:
        return ExtensionRecord(
            name=self.name,
            distribution=self.distribution,
            version=self.version,
            module=self.module,
            hooks=self.hooks,
            state=state,
            error=_cause(self.error),
        )


class ExtensionRegistry:
    """The extensions of a process, or of a test, in order, with their provider hooks compiled.

    Args:
        candidates: all extensions, in order of (distribution, name).
        allowed: only these names are loaded; None: all.
        disabled: these names are left out.
    """

    def __init__(
        self,
        candidates: Iterable[Extension],
        *,
        plugins: dict[str, EntryPoint] | None = None,
        agents: dict[str, EntryPoint] | None = None,
        allowed: Iterable[str] | None = None,
        disabled: Iterable[str] = (),
        patterns: ModelPatterns | None = None,
    ) -> None:
        self._candidates = tuple(candidates)
        self._allowed = None if allowed is None else frozenset(allowed)
        self._disabled = frozenset(disabled)
        self._views: dict[frozenset[str], ExtensionRegistry] = {self._disabled: self}
        self._lock = threading.RLock()
        self._loading = False
        self._loaded: tuple[Extension, ...] | None = None
        self._manager: pluggy.PluginManager | None = None
        self._chains: dict[str, tuple[tuple[Callable[..., Any], Extension], ...]] = {}
        self.patterns = patterns if patterns is not None else ModelPatterns()
        self.plugins = plugins if plugins is not None else {}
        self.agents = agents if agents is not None else {}

    # --- what is there ------------------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all installed extensions, the skipped and broken ones too; imports nothing."""
        return tuple(dict.fromkeys(extension.name for extension in self._candidates))

    @property
    def loaded(self) -> tuple[ExtensionRecord, ...]:
        """The extensions whose hooks are asked, in order."""
        return tuple(extension.record("loaded") for extension in self._load())

    @property
    def broken(self) -> tuple[ExtensionRecord, ...]:
        """The extensions that could not be loaded, with the reason."""
        self._load()
        return tuple(e.record("broken") for e in self._candidates if e.error is not None and not self._skips(e))

    @property
    def skipped(self) -> tuple[ExtensionRecord, ...]:
        """The extensions left out by ``HOOKWORK_EXTENSIONS`` or ``disabled``; they were not imported here."""
        return tuple(e.record("disabled") for e in self._candidates if self._skips(e))

    def provider_names(self, hook: str) -> tuple[str, ...]:
        """Names of the extensions that implement a provider hook, in execution order."""
        return tuple(extension.name for _, extension in self._chain(hook))

    def without(self, disabled: Iterable[str]) -> ExtensionRegistry:
        """The same registry with further extensions left out; what is loaded already is shared."""
        left_out = self._disabled | frozenset(disabled)
        with self._lock:
            view = self._views.get(left_out)
            if view is None:
                view = ExtensionRegistry(
                    self._candidates,
                    plugins=self.plugins,
                    agents=self.agents,
                    allowed=self._allowed,
                    disabled=left_out,
                    patterns=self.patterns,
                )
                view._views = self._views
                view._lock = self._lock
                self._views[left_out] = view
            return view

    def register_model(self, pattern: str, factory: Callable[[str], Any]) -> None:
        """Name a factory for the model names in which ``pattern`` is found (models REG-2).

        Raises:
            ConfigurationError: the pattern is registered already or no regular expression.
        """
        self.patterns.add(pattern, factory)

    # --- calls --------------------------------------------------------------------------------------------------------

    def first(self, hook: str, *, only: str | None = None, **arguments: Any) -> Any:
        """The first value that is not None, or None.

        Args:
            hook: name of a provider hook.
            only: ask this extension alone.
            arguments: the hook's parameters by name. ``settings`` may be a `Settings`: each extension gets its table.

        Raises:
            Exception: whatever an implementation raises, with a note that names distribution and hook; nobody else
                is asked.
        """
        for call, extension in self._chain(hook):
            if only is None or extension.name == only:
                value = _ask(call, extension, hook, arguments)
                if value is not None:
                    return value
        return None

    def all(self, hook: str, **arguments: Any) -> list[Any]:
        """The values of all implementations that are not None, in order. Raises as `first` does."""
        values = [_ask(call, extension, hook, arguments) for call, extension in self._chain(hook)]
        return [value for value in values if value is not None]

    # --- loading ------------------------------------------------------------------------------------------------------

    def _skips(self, extension: Extension) -> bool:
        if extension.name in self._disabled:
            return True
        return self._allowed is not None and extension.name not in self._allowed

    def _chain(self, hook: str) -> tuple[tuple[Callable[..., Any], Extension], ...]:
        chain = self._chains.get(hook)
        if chain is None:
            if hook not in PROVIDER_HOOKS:
                raise ConfigurationError(f"{hook!r} is no provider hook; there are: {', '.join(PROVIDER_HOOKS)}")
            by_extension = {extension.name: extension for extension in self._load()}
            assert self._manager is not None
            parameters = PROVIDER_HOOKS[hook][1]
            chain = tuple(
                (positional(implementation, parameters, hook), by_extension[implementation.plugin_name])
                for implementation in ordered(self._manager, hook)
            )
            self._chains[hook] = chain
        return chain

    def _load(self) -> tuple[Extension, ...]:
        if self._loaded is not None:
            return self._loaded
        with self._lock:
            if self._loaded is not None:
                return self._loaded
            if self._loading:
                raise ExtensionError(
                    "a provider hook was asked while an extension module was being imported; "
                    "an extension's entry module may define hooks, not use them"
                )
            self._loading = True
            try:
                manager = pluggy.PluginManager(PROJECT_NAME)
                for spec in PROVIDER_SPECS:
                    manager.add_hookspecs(spec)
                chosen = [e for e in self._candidates if not self._skips(e)]
                loaded = tuple(extension for extension in chosen if _admit(manager, extension))
                self._manager, self._loaded = manager, loaded
            finally:
                self._loading = False
        return self._loaded


#: What a hook is told where its caller says nothing of it.
_NOT_SAID = {"addressed": False}


def _ask(call: Callable[..., Any], extension: Extension, hook: str, arguments: dict[str, Any]) -> Any:
    settings = arguments.get("settings")
    given = _NOT_SAID | arguments
    if settings is None or isinstance(settings, Settings):
        whole = settings if settings is not None else NO_SETTINGS
        given["settings"] = whole.table(extension.name)
    else:
        whole = NO_SETTINGS
    try:
        with use_current(whole):
            value = call(*[given[name] for name in PROVIDER_HOOKS[hook][1]])
            if inspect.iscoroutine(value):
                value.close()
                raise ExtensionError(f"{hook!r} returned a coroutine; provider hooks are synchronous")
    except Exception as error:
        table = f", with table {extension.name!r} of {whole.source}" if given.get("settings") and whole.source else ""
        error.add_note(f"raised by {extension.origin} in {hook!r}{table}")
        raise
    return value


def _admit(manager: pluggy.PluginManager, extension: Extension) -> bool:
    """Load an extension and register its hooks; False when it is broken, which is reported once."""
    if extension.error is not None:
        return False
    try:
        instance = extension.instance()
        extension.hooks = _checked_hooks(manager, instance)
        manager.register(instance, name=extension.name)
    except (Exception, SystemExit) as error:
        if manager.has_plugin(extension.name):
            manager.unregister(name=extension.name)
        extension.error = error if isinstance(error, Exception) else ExtensionError(f"it exits: {error!r}")
        text = f"{extension.origin} is broken and skipped: {_cause(extension.error)}"
        if os.environ.get("HOOKWORK_STRICT", "") not in ("", "0"):
            raise ExtensionError(f"{text} (fatal because HOOKWORK_STRICT is set)") from error
        logger.warning("%s; fix or uninstall it, or leave it out by `disabled` in the settings", text)
        return False
    return True


def _checked_hooks(manager: pluggy.PluginManager, instance: Any) -> tuple[str, ...]:
    """Names of the provider hooks that a module or object implements (EXT-3)."""
    hooks = []
    for name in dir(instance):
        options = manager.parse_hookimpl_opts(instance, name)
        if not options:
            continue
        hook = options.get("specname") or name
        if hook in LIFECYCLE_HOOKS:
            raise ExtensionError(
                f"{hook!r} is a lifecycle hook; put it on a plugin and name that under [{PLUGINS}] in the entry points"
            )
        if hook not in PROVIDER_HOOKS:
            raise ExtensionError(f"{hook!r} is no provider hook{did_you_mean(hook, PROVIDER_HOOKS)}")
        function = getattr(instance, name)
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise ExtensionError(f"{hook!r} is async; provider hooks are plain functions")
        if options.get("wrapper") or options.get("hookwrapper"):
            raise ExtensionError(f"{hook!r} is a pluggy wrapper; provider hooks have none")
        if options.get("tryfirst") and options.get("trylast"):
            raise ExtensionError(f"{hook!r} is both tryfirst and trylast")
        strange = set(inspect.signature(function).parameters) - set(PROVIDER_HOOKS[hook][1])
        if strange:
            raise ExtensionError(
                f"{hook!r} has no parameter {min(strange)!r}; it offers: {', '.join(PROVIDER_HOOKS[hook][1])}"
            )
        hooks.append(hook)
    return tuple(hooks)


def _cause(error: Exception | None) -> str:
    if error is None:
        return ""
    text = " ".join(str(error).split())
    return text if isinstance(error, ExtensionError) else f"{type(error).__name__}: {text}" if text else repr(error)


# --- the registry in force -------------------------------------------------------------------------------------------

_process: ExtensionRegistry | None = None
_process_lock = threading.Lock()
_in_context: ContextVar[ExtensionRegistry | None] = ContextVar("hookwork_extensions", default=None)


def extensions() -> ExtensionRegistry:
    """The registry in force: the one of `use_extensions` in this context, else the process-wide one."""
    registry = _in_context.get()
    return registry if registry is not None else _process_wide()


def _process_wide() -> ExtensionRegistry:
    global _process
    if _process is None:
        with _process_lock:
            if _process is None:
                _process = _installed()
    return _process


def _installed() -> ExtensionRegistry:
    points = read_entry_points()
    candidates, owners = [], dict[str, EntryPoint]()
    for point in points[EXTENSIONS]:
        extension = Extension(point.name, point=point)
        owner = owners.setdefault(point.name, point)
        if owner is not point:
            extension.error = ExtensionError(
                f"the extension name {point.name!r} belongs to {owner.distribution} {owner.version} already"
            )
            logger.warning("%s is skipped: %s; uninstall one of the two", extension.origin, extension.error)
        candidates.append(extension)
    listed = os.environ.get("HOOKWORK_EXTENSIONS")
    allowed = None if listed is None else [name.strip() for name in listed.split(",") if name.strip()]
    for name in allowed or ():
        if name not in owners:
            logger.warning("HOOKWORK_EXTENSIONS: no extension is named %r%s", name, did_you_mean(name, owners))
    return ExtensionRegistry(
        candidates, plugins=by_name(points[PLUGINS]), agents=by_name(points[AGENTS]), allowed=allowed
    )


@contextmanager
def use_extensions(
    objects: Iterable[Any],
    *,
    plugins: dict[str, EntryPoint] | None = None,
    agents: dict[str, EntryPoint] | None = None,
) -> Iterator[ExtensionRegistry]:
    """Replace the extensions of the current context by these modules or objects; ``(name, object)`` gives a name.

    Named plugins and agents stay the installed ones unless given.
    """
    candidates: list[Extension] = []
    for item in objects:
        name, instance = item if isinstance(item, tuple) else (_name_of(item), item)
        if any(other.name == name for other in candidates):
            raise ConfigurationError(f"two extensions are named {name!r}; give (name, object) pairs")
        candidates.append(Extension(name, instance=instance))
    installed = _process_wide() if plugins is None or agents is None else None
    registry = ExtensionRegistry(
        candidates,
        plugins=plugins if plugins is not None or installed is None else installed.plugins,
        agents=agents if agents is not None or installed is None else installed.agents,
    )
    with use_registry(registry):
        yield registry


@contextmanager
def use_registry(registry: ExtensionRegistry) -> Iterator[None]:
    """Put a registry in force for the current context."""
    token = _in_context.set(registry)
    try:
        yield
    finally:
        _in_context.reset(token)


def _name_of(instance: Any) -> str:
    name = getattr(instance, "name", None) or getattr(instance, "__name__", None) or type(instance).__name__
    parts = str(name).split(".")
    # A module ``hookwork_offline.extension`` is known by its package, without the prefix that all share.
    return parts[-2].removeprefix("hookwork_") if len(parts) > 1 and parts[-1] == "extension" else parts[-1]


def plugin_entry_points() -> dict[str, EntryPoint]:
    """Lifecycle plugins by name; imported only by ``.load()``, which refuses a name two distributions claim."""
    return extensions().plugins


def agent_entry_points() -> dict[str, EntryPoint]:
    """Agents and Apps by name; imported only by ``.load()``, which refuses a name two distributions claim."""
    return extensions().agents


def register_model(pattern: str, factory: Callable[[str], Any]) -> None:
    """Name a factory for model names, asked before the extensions (models REG-2…REG-5).

    Args:
        pattern: regular expression, searched for in the name (unanchored, case-sensitive).
        factory: called with the name unchanged at every resolution; gives a Model.

    Raises:
        ConfigurationError: the pattern is registered already or no regular expression.
    """
    extensions().register_model(pattern, factory)
