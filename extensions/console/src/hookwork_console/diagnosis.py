"""What `hookwork doctor` looks at: settings, extensions, plugins, agents, models and services, each as findings."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from hookwork.errors import ConfigurationError
from hookwork.urls import redact_url

if TYPE_CHECKING:
    from hookwork.agent import Agent
    from hookwork.app import App
    from hookwork.context import InvocationContext
    from hookwork.model import Model
    from hookwork.plugins.discovery import ExtensionRegistry
    from hookwork.records.event import Event
    from hookwork.runner import Runner
    from hookwork.settings import Settings
    from hookwork_console.options import Options

OK, NOTE, WARNING, FAILURE = "ok", "note", "warning", "failure"
#: seconds that a service, a check or a model call may take.
PATIENCE = 20.0
_NOBODY = {"app_name": "hookwork_doctor", "user_id": "hookwork_doctor"}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at. ``state``: ok, note, warning or failure."""

    area: str
    state: str
    text: str


async def diagnose(reference: str | None, options: Options, load: Any, *, call_models: bool) -> AsyncIterator[Finding]:
    """Look at everything, one finding after another; a failure in one area leaves the others to be looked at.

    Args:
        reference: the agent; None: that of the settings, else every installed one is loaded.
        load: gives the settings, or raises.
        call_models: send each model one short request (it may cost money).
    """
    from hookwork.plugins.discovery import extensions
    from hookwork.version import VERSION

    yield Finding(area="hookwork", state=OK, text=f"{VERSION} on Python {platform.python_version()}")
    registry = extensions()
    for finding in _extensions(registry):
        yield finding
    try:
        settings: Settings = load()
    except ConfigurationError as error:
        yield _failure("settings", error)
        return
    for finding in _settings(settings):
        yield finding
    async for finding in _agents(reference, options, settings, registry, call_models=call_models):
        yield finding


def _extensions(registry: ExtensionRegistry) -> Iterator[Finding]:
    for record in registry.broken:
        text = f"{record.name} of {record.distribution} {record.version} is broken and left out: {record.error}"
        yield Finding(area="extensions", state=FAILURE, text=f"{text}; upgrade or uninstall {record.distribution}")
    names = ", ".join(record.name for record in registry.loaded)
    yield Finding(area="extensions", state=OK if names else WARNING, text=names or "none is installed")


def _settings(settings: Settings) -> Iterator[Finding]:
    from hookwork.resolve import check_tables

    yield Finding(area="settings", state=OK if settings.source else NOTE, text=settings.source or "no settings file")
    try:
        check_tables(settings)
    except ConfigurationError as error:
        yield _failure("settings", error)


async def _agents(
    reference: str | None, options: Options, settings: Settings, registry: ExtensionRegistry, *, call_models: bool
) -> AsyncIterator[Finding]:
    from hookwork.resolve import load_agent, resolve_model

    if reference is None and not (settings.app or settings.agent):
        for name in sorted(registry.agents):
            _, finding = _tried("agents", f"{name} loads", lambda name=name: load_agent(name, settings))
            yield finding
        if (wished := options.model or settings.model) is not None:
            model, finding = _tried("models", f"{wished} is there", lambda: resolve_model(wished, settings))
            if model is None:
                yield finding
            else:
                async for finding in _model(wished, model, settings, registry, call=call_models):
                    yield finding
        target = _nobody()
    else:
        wanted = reference or settings.app or settings.agent
        found, finding = _tried("agent", f"{wanted} loads", lambda: load_agent(reference, settings))
        yield finding
        if found is None:
            return
        target = found
    async for finding in _runner(target, options, settings, registry, call_models=call_models):
        yield finding


def _nobody() -> Agent:
    """Stands in where no agent is named: services and plugins can then be looked at all the same."""
    from hookwork.agent import Agent

    async def silent(ctx: InvocationContext) -> AsyncIterator[Event]:
        return
        yield

    return Agent(name="hookwork_doctor", body=silent)


async def _runner(
    target: Agent | App, options: Options, settings: Settings, registry: ExtensionRegistry, *, call_models: bool
) -> AsyncIterator[Finding]:
    from hookwork_console.options import open_runner

    runner, finding = _tried(
        "runner", "agents, models, plugins and services fit together", lambda: open_runner(target, options, settings)
    )
    yield finding
    if runner is None:
        return
    async with runner:
        for name, model in _models(runner).items():
            async for finding in _model(name, model, settings, registry, call=call_models):
                yield finding
        yield await _reached(
            "sessions", _shown(runner, "sessions", target, options, settings), runner.sessions.list_sessions(**_NOBODY)
        )
        if runner.artifacts is not None:
            listing = runner.artifacts.list_artifacts(**_NOBODY, session_id="hookwork_doctor")
            yield await _reached("artifacts", _shown(runner, "artifacts", target, options, settings), listing)
        if runner.memory is not None:
            search = runner.memory.search_memory(**_NOBODY, query="hookwork doctor")
            yield await _reached("memory", _shown(runner, "memory", target, options, settings), search)


def _models(runner: Runner) -> dict[str, Model]:
    """The models of all agents: those made from names, and the objects."""
    from hookwork.model import Model

    objects = [getattr(agent, "model", None) for agent in runner.tree]
    return {model.name: model for model in objects if isinstance(model, Model)} | dict(runner.setup.models)


async def _model(
    name: str, model: Model, settings: Settings, registry: ExtensionRegistry, *, call: bool
) -> AsyncIterator[Finding]:
    claims = list(_claims(name, settings, registry))
    if len(claims) > 1:
        text = f"{name} is wanted by {' and '.join(claims)}; {claims[0]} has it. Write {claims[0]}/{name} to decide"
        yield Finding(area="models", state=WARNING, text=text)
    yield Finding(area="models", state=OK, text=f"{name} ({model.capabilities.provider or type(model).__name__})")
    check = getattr(model, "check", None)
    if check is not None:
        yield await _reached("models", f"{name} says it is ready", check())
    if call:
        yield await _reached("models", f"{name} answers", _one_answer(model))


def _claims(name: str, settings: Settings, registry: ExtensionRegistry) -> Iterator[str]:
    """The providers that take a bare name (models REG-3)."""
    for provider in registry.provider_names("create_model"):
        try:
            taken = registry.first("create_model", only=provider, name=name, settings=settings)
        except Exception:  # noqa: BLE001 - who takes the name but fails on it still wants it
            taken = provider
        if taken is not None:
            yield provider


async def _one_answer(model: Model) -> None:
    from hookwork.model import ModelRequest
    from hookwork.model_streams import answer_of
    from hookwork.records.content import text_content

    response = await answer_of(model, ModelRequest(contents=[text_content("Answer with the one word: ok", "user")]))
    if response.error_code:
        raise ConfigurationError(f"{response.error_code}: {response.error_message or 'no further text'}")


async def _reached(area: str, what: str, reaching: Any) -> Finding:
    try:
        async with asyncio.timeout(PATIENCE):
            await reaching
    except TimeoutError:
        return Finding(area=area, state=FAILURE, text=f"{what}: no answer within {PATIENCE:g} s")
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is the finding
        return _failure(area, error, f"{what}: ")
    return Finding(area=area, state=OK, text=what)


def _tried(area: str, what: str, build: Any) -> tuple[Any, Finding]:
    try:
        return build(), Finding(area=area, state=OK, text=what)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is the finding
        return None, _failure(area, error)


def _failure(area: str, error: Exception, before: str = "") -> Finding:
    text = " ".join(str(error).split()) or type(error).__name__
    if not isinstance(error, ConfigurationError):
        text = f"{type(error).__name__}: {text}"
    return Finding(area=area, state=FAILURE, text=before + text)


def _shown(runner: Runner, kind: str, target: Agent | App, options: Options, settings: Settings) -> str:
    """A service for a person: its URL without secrets, else the class of the object."""
    named = getattr(options, kind) or getattr(target, kind, None) or getattr(settings, kind) or "memory:"
    return redact_url(named) if isinstance(named, str) else type(getattr(runner, kind)).__name__
