"""The options that commands about one agent share (servers CLI-5), and what they open."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from hookwork_console.durations import parse_duration

if TYPE_CHECKING:
    from hookwork.agent import Agent
    from hookwork.app import App
    from hookwork.runner import Runner
    from hookwork.settings import Settings

DEFAULT_USER = "console_user"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the shared options say; None: not given."""

    sessions: str | None = None
    artifacts: str | None = None
    memory: str | None = None
    model: str | None = None
    user: str = DEFAULT_USER
    session: str | None = None
    plugins: str | None = None
    state: tuple[tuple[str, Any], ...] = ()

    def plugin_names(self) -> list[str] | None:
        """The names of ``--plugins``, in order."""
        if self.plugins is None:
            return None
        return [name.strip() for name in self.plugins.split(",") if name.strip()]


def state_pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    """``key=value`` texts as pairs; a value is JSON, or text when it is not JSON."""
    return tuple((key, _json_or_text(text)) for key, text in _pairs(values, "key=value", ctx, param))


def answer_pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """``ID=JSON`` texts as pairs of a call's id and what is answered, as a person would type it."""
    return tuple(_pairs(values, "ID=JSON, e.g. adk-123=yes", ctx, param))


def duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A time span in seconds; see `hookwork_console.durations`."""
    try:
        return None if value is None else parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


def _pairs(values: tuple[str, ...], form: str, ctx: click.Context, param: click.Parameter) -> Iterator[tuple[str, str]]:
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{value!r} is not of the form {form}", ctx, param)
        yield key, text


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


_SHARED: list[Callable[[Any], Any]] = [
    click.option("--sessions", "--session_service_uri", metavar="URL", help="Session service, e.g. sqlite:///chat.db."),
    click.option("--artifacts", "--artifact_service_uri", metavar="URL", help="Artifact service, e.g. file:///folder."),
    click.option("--memory", "--memory_service_uri", metavar="URL", help="Memory service."),
    click.option("--model", metavar="NAME", help="Model of the root agent, e.g. offline or gemini-3-flash."),
    click.option("--user", metavar="ID", default=DEFAULT_USER, show_default=True, help="User id."),
    click.option("--session", metavar="ID", help="Session id; a new session without it."),
    click.option("--plugins", "--extra_plugins", metavar="A,B", help="Plugins by name, in their order."),
    click.option("--config", metavar="FILE", expose_value=False, help="Settings file; 'none' reads none."),
    click.option(
        "--state",
        metavar="K=V",
        multiple=True,
        callback=state_pairs,
        help="A state value, JSON or text; may be repeated.",
    ),
    click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks."),
]


def shared_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the shared options to a click command; ``--config`` and ``--debug`` are read by the kernel's program."""
    for option in reversed(_SHARED):
        function = option(function)
    return function


def sessions_url(target: Agent | App, options: Options, settings: Settings) -> Any:
    """The session service that a runner of these gets: a URL or an object."""
    return options.sessions or getattr(target, "sessions", None) or settings.sessions or "memory:"


def open_runner(target: Agent | App, options: Options, settings: Settings) -> Runner:
    """A Runner as the options, the App and the settings want it, in this order; what nobody names is in memory."""
    from hookwork.runner import Runner

    arguments: dict[str, Any] = {"settings": settings, "model": options.model}
    for name in ("sessions", "artifacts", "memory"):
        given = getattr(options, name)
        if given is not None:
            arguments[name] = given
        elif getattr(target, name, None) is None and getattr(settings, name) is None:
            arguments[name] = "memory:"
    names = options.plugin_names()
    if names is not None:
        arguments["plugins"] = names
    return Runner(target, **arguments)
