"""Names and URLs to objects: models, services, plugins (models REG, services URL, tools-plugins EXT-5…EXT-8).

Everything here is synchronous and does no I/O beyond importing what is named. ``settings`` None means the settings a
provider hook is being asked under, else none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hookwork.catalogue import (
    PLUGIN_NAMES,
    SERVICE_SCHEMES,
    did_you_mean,
    distributions,
    install_line,
    likely_model,
    model_distribution,
)
from hookwork.errors import ConfigurationError, PluginError, UnknownModelError
from hookwork.plugins.discovery import ExtensionRecord, ExtensionRegistry, extensions
from hookwork.settings import Settings, current_settings, use_current
from hookwork.urls import redact_url, scheme_of

if TYPE_CHECKING:
    from hookwork.agent import Agent
    from hookwork.app import App
    from hookwork.model import Model
    from hookwork.plugins.entry_points import EntryPoint
    from hookwork.services import ArtifactService, MemoryService, SessionService

#: Kind of service → (provider hook, its contract's name in `hookwork.services`).
_SERVICES = {
    "sessions": ("create_session_service", "SessionService"),
    "artifacts": ("create_artifact_service", "ArtifactService"),
    "memory": ("create_memory_service", "MemoryService"),
}


def _failures(records: Iterable[ExtensionRecord]) -> str:
    """Why extensions that might have answered could not be asked."""
    return "".join(
        f"; extension {record.name!r}{f' ({record.distribution})' if record.distribution else ''} "
        f"failed to load: {record.error}"
        for record in records
    )


def switched_off(distribution: str | None, registry: ExtensionRegistry) -> str:
    """That what would answer is installed but left out, by ``disabled`` or ``HOOKWORK_EXTENSIONS``."""
    return next(
        (
            f"; extension {record.name!r} ({record.distribution}) would, but it is switched off"
            for record in registry.skipped
            if distribution is not None and record.distribution == distribution
        ),
        "",
    )


def _registry(settings: Settings) -> ExtensionRegistry:
    registry = extensions()
    return registry.without(settings.disabled) if settings.disabled else registry


def check_tables(settings: Settings) -> None:
    """Refuse what the settings say about nothing that there is: ``[polcy]`` would leave ``policy`` without its rules,
    and ``disabled = ["ofline"]`` would disable nothing, without a word. Raises ConfigurationError.

    What is not installed may be disabled if Hookwork knows it: one file serves several environments.
    """
    if not settings.tables and not settings.disabled:
        return
    registry = extensions()
    installed = [*registry.names, *registry.plugins]
    settings.check_tables(installed)
    for name in settings.disabled:
        if name not in installed and f"hookwork-{name.replace('_', '-')}" not in distributions():
            raise ConfigurationError(
                f"{settings.source or 'settings'}: 'disabled' names {name!r}, and no extension or plugin is named so"
                f"{did_you_mean(name, installed)}; installed: {', '.join(sorted(set(installed))) or 'none'}"
            )


# --- models ----------------------------------------------------------------------------------------------------------


def resolve_model(model: str | Model, settings: Settings | None = None) -> Model:
    """The model of a name; a Model is given back as it is. Each call with a name builds a new one (models REG-1…9).

    Args:
        model: ``name``, ``provider/name`` (asked of that provider alone), ``wrapper:rest``, or a Model.
        settings: tables for the extensions, and which of them are left out.

    Raises:
        UnknownModelError: nobody takes the name; the text lists the providers and the likely remedy.
        ConfigurationError: several registered patterns match, or a provider gives something that is no model.
    """
    from hookwork.model import Model

    if isinstance(model, Model):
        return model
    if not isinstance(model, str) or not model.strip():
        raise ConfigurationError(f"a model is a Model or a name such as 'offline', not {model!r}")
    settings = settings if settings is not None else current_settings()
    registry = _registry(settings)
    provider, slash, rest = model.partition("/")
    if slash and rest and provider in registry.provider_names("create_model"):
        found = registry.first("create_model", only=provider, name=rest, settings=settings, addressed=True)
        if found is None:
            raise UnknownModelError(f"model {model!r}: provider {provider!r} knows no model {rest!r}")
    else:
        factory = registry.patterns.find(model)
        with use_current(settings):
            found = factory(model) if factory is not None else None
        if factory is None:
            found = registry.first("create_model", name=model, settings=settings)
            if found is None:
                raise UnknownModelError(_unknown_model(model, registry))
    if not isinstance(found, Model):
        raise ConfigurationError(f"model {model!r}: its provider gave {found!r}, which is no hookwork Model")
    return found


def _unknown_model(name: str, registry: ExtensionRegistry) -> str:
    providers = registry.provider_names("create_model")
    text = f"no installed extension takes the model {name!r}; installed providers: {', '.join(providers) or 'none'}"
    prefix, colon, rest = name.partition(":")
    distribution = model_distribution(name)
    if colon and (prefix in providers or distribution == f"hookwork-{prefix}"):
        text += f"; the form is {prefix}/{rest}"
    near = did_you_mean(name, [*providers, *(f"{provider}/" for provider in providers)]) or likely_model(name)
    broken = [record for record in registry.broken if distribution in (None, record.distribution)]
    reasons = _failures(broken)
    installed = any(record.distribution == distribution for record in (*registry.loaded, *broken))
    off = switched_off(distribution, registry)
    if off:
        return text + near + off
    return text + near + reasons + install_line(None if installed else distribution)


# --- services --------------------------------------------------------------------------------------------------------


def resolve_session_service(
    service: str | SessionService | None, settings: Settings | None = None
) -> tuple[SessionService, bool]:
    """(service, owned): the service of a URL (owned: the caller closes it), or the object as it is (not owned).

    None: the settings' URL, else ``memory:``.

    Raises:
        ConfigurationError: no scheme, or nobody installed takes it. Passwords never appear in the text.
    """
    found, owned = _service("sessions", service, settings, default="memory:")
    return found, owned


def resolve_artifact_service(
    service: str | ArtifactService | None, settings: Settings | None = None
) -> tuple[ArtifactService | None, bool]:
    """As `resolve_session_service`; with neither an argument nor a setting there is none: (None, False) (core §3)."""
    return _service("artifacts", service, settings)


def resolve_memory_service(
    service: str | MemoryService | None, settings: Settings | None = None
) -> tuple[MemoryService | None, bool]:
    """As `resolve_session_service`; with neither an argument nor a setting there is none: (None, False) (core §3)."""
    return _service("memory", service, settings)


def _service(kind: str, service: Any, settings: Settings | None, default: str | None = None) -> tuple[Any, bool]:
    from hookwork import services

    settings = settings if settings is not None else current_settings()
    hook, contract = _SERVICES[kind]
    if service is None:
        service = getattr(settings, kind) or default
        if service is None:
            return None, False
    if isinstance(service, getattr(services, contract)):
        return service, False
    if not isinstance(service, str):
        raise ConfigurationError(f"{kind} takes a URL or a {contract}, not {type(service).__name__}")
    registry = _registry(settings)
    scheme = scheme_of(service, kind)
    # Providers get the scheme in lower case, the rest untouched (URL-1).
    found = registry.first(hook, url=scheme + service[len(scheme) :], settings=settings)
    if found is None:
        raise ConfigurationError(_unknown_scheme(scheme, kind, hook, redact_url(service), registry))
    if not isinstance(found, getattr(services, contract)):
        raise ConfigurationError(f"{kind} URL {redact_url(service)!r}: its provider gave no {contract}")
    return found, True


def _unknown_scheme(scheme: str, kind: str, hook: str, url: str, registry: ExtensionRegistry) -> str:
    installed = {record.distribution for record in registry.loaded}
    usable = [known for known, kinds in SERVICE_SCHEMES.items() if kinds.get(kind) in installed]
    base = re.split(r"[+]", scheme, maxsplit=1)[0]
    known = SERVICE_SCHEMES.get(base, {})
    distribution = known.get(kind)
    schemes = ", ".join(usable) or "none"
    text = f"{kind} URL {url!r}: no installed extension takes the scheme {scheme!r} for {kind}"
    if known and distribution is None:
        text += f"; {base!r} exists for {' and '.join(known)} only"
    text += f"; installed schemes for {kind}: {schemes}; extensions asked: "
    text += ", ".join(registry.provider_names(hook)) or "none"
    reasons = [record for record in registry.broken if distribution in (None, record.distribution)]
    text += _failures(reasons)
    off = switched_off(distribution, registry)
    if off:
        return text + off
    near = did_you_mean(scheme, SERVICE_SCHEMES) if not known else ""
    return text + near + install_line(distribution if distribution not in installed else None)


# --- plugins ---------------------------------------------------------------------------------------------------------


def resolve_plugins(plugins: Iterable[Any], settings: Settings | None = None) -> list[Any]:
    """Plugin objects of a list of names (``name``, ``name:alias``) and objects, in that order (EXT-8).

    The class or factory behind a name is called with its table of the settings as keyword arguments; under an alias
    it is the alias's table, and the plugin goes by that alias. Names that the settings disable are left out.

    Raises:
        PluginError: an unknown name, one listed twice, a class that refuses its table.
    """
    settings = settings if settings is not None else current_settings()
    seen: set[str] = set()
    built = []
    for entry in plugins:
        if not isinstance(entry, str):
            built.append(entry)
            continue
        name, alias = (text.strip() for text in entry.partition(":")[::2])
        if name in settings.disabled:
            continue
        if (alias or name) in seen:
            raise PluginError(
                f"plugin {alias or name!r} is listed twice; to use one twice write '{name}:alias' with a table each"
            )
        seen.add(alias or name)
        built.append(_build_plugin(name, alias, settings))
    return built


def _build_plugin(name: str, alias: str, settings: Settings) -> Any:
    points = extensions().plugins
    point = points.get(name)
    if point is None:
        distribution = PLUGIN_NAMES.get(name)
        raise PluginError(
            f"no installed plugin is named {name!r}{did_you_mean(name, points)}; "
            f"known plugins: {', '.join(sorted(points)) or 'none'}{install_line(distribution)}"
        )
    table = settings.table(alias or name)
    target = _loaded(point)
    if callable(target) and not isinstance(target, ModuleType) and not _is_plugin_object(target):
        from hookwork.plugins.options import construct

        where = f"{settings.source or 'settings'}: table {alias or name!r}"
        plugin = construct(target, table, plugin=f"plugin {name!r} ({point.distribution})", where=where)
    elif table:
        raise PluginError(f"plugin {name!r} ({point.distribution}) is an object and takes no options ({_keys(table)})")
    else:
        plugin = target
    if plugin is None:
        raise PluginError(f"plugin {name!r}: {point.value} gave None instead of a plugin")
    if alias:
        try:
            plugin.name = alias
        except AttributeError as error:
            raise PluginError(f"plugin {name!r} cannot be used as {alias!r}: its name is fixed") from error
    return plugin


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except ConfigurationError as error:
        raise PluginError(str(error)) from error
    except SystemExit as error:
        raise PluginError(
            f"plugin {point.name!r} of {point.distribution} {point.version} ends the program on import "
            f"(SystemExit: {error.code}); report it there, or take it off the list of plugins"
        ) from error
    except Exception as error:
        error.add_note(f"raised on importing plugin {point.name!r} of {point.distribution} {point.version}")
        raise


def _is_plugin_object(target: Any) -> bool:
    from hookwork.plugins.plugin import Plugin

    return isinstance(target, Plugin)


def _keys(table: Mapping[str, Any]) -> str:
    return f"keys: {', '.join(table)}" if table else "no keys"


# --- agents ----------------------------------------------------------------------------------------------------------


def load_agent(reference: str | None = None, settings: Settings | None = None) -> Agent | App:
    """The agent or App behind an entry-point name, ``module:attribute``, or a path to a file or folder (CLI-4).

    Args:
        reference: None: the settings' ``app``, else their ``agent``.
        settings: the default reference, and which extensions are left out.

    Raises:
        ConfigurationError: nothing is named so, or it is neither agent nor App. The text lists the known names.
    """
    from hookwork.loading import load

    settings = settings if settings is not None else current_settings()
    reference = reference or settings.app or settings.agent
    points = extensions().agents
    if not reference:
        raise ConfigurationError(
            "no agent is named; give a name, module:attribute or path, or set `agent` in the settings; "
            f"known agents: {', '.join(sorted(points)) or 'none'}"
        )
    with use_current(settings):  # wrappers that the agent's module builds resolve names too
        return load(reference, points, _registry(settings))
