"""The `hookwork` command: its own two commands, and those that extensions contribute (servers §7).

A contribution names a command, one line of help and the import path of a click command, which is imported only when it
runs. Exit codes: 0 done, 1 failed, 2 paused, 64 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click
import msgspec

from hookwork.catalogue import COMMANDS, did_you_mean, install_line
from hookwork.errors import ConfigurationError, ExtensionError, HookworkError
from hookwork.plugins.discovery import ExtensionRegistry, extensions, use_registry
from hookwork.resolve import switched_off
from hookwork.settings import Settings

logger = logging.getLogger("hookwork.cli")

DONE, FAILED, PAUSED, USAGE, INTERRUPTED = 0, 1, 2, 64, 130

#: The kernel's own commands: help, and where they are.
OWN = {
    "plugins": ("List extensions and plugins, or explain in which order hooks run.", "hookwork.listing:command"),
    "version": ("Print the version.", "hookwork.listing:version_command"),
}


class Contribution(msgspec.Struct, frozen=True):
    """One contributed command. ``owner``: the distribution, or the extension's name where there is none."""

    name: str
    help: str
    target: str
    owner: str


class CommandRegistry:
    """What ``register_commands(cli)`` gets: `add` one command for each name.

    A name belongs to the distribution of the table in `hookwork.catalogue`; any other extension may add one command,
    named as its entry point. What is refused is warned about and fails when it is called; the rest works.
    """

    def __init__(self) -> None:
        self._entries: dict[str, list[Contribution]] = {}
        self._refused: dict[str, str] = {}
        self._extension = ""
        self._owner = ""

    @classmethod
    def collected(cls, registry: ExtensionRegistry) -> CommandRegistry:
        """The commands of all loaded extensions; one whose hook raises is warned about and left out."""
        commands = cls()
        owners = {record.name: record.distribution for record in registry.loaded}
        for name in registry.provider_names("register_commands"):
            commands._extension, commands._owner = name, owners[name] or f"hookwork-{name}"
            try:
                registry.first("register_commands", only=name, cli=commands)
            except Exception as error:
                if os.environ.get("HOOKWORK_STRICT", "") not in ("", "0"):
                    raise
                logger.warning("the commands of %s are left out: %s", commands._owner, _one_line(error))
        return commands

    def add(self, name: str, help: str, target: str) -> None:
        """Contribute a command.

        Args:
            name: the word after ``hookwork``.
            help: one line for ``hookwork --help``.
            target: ``module:attribute`` of a `click.Command`; imported only when the command runs.
        """
        if target.count(":") != 1:
            raise ConfigurationError(f"command {name!r}: {target!r} is no 'module:attribute'")
        entitled = COMMANDS.get(name) == self._owner or name.replace("-", "_") == self._extension.replace("-", "_")
        if name in OWN or (self._extension and not entitled):
            text = f"{self._owner} may add one command named {self._extension!r}, not {name!r}"
            self._refused.setdefault(name, text)
            logger.warning("a command is left out: %s", text)
            return
        self._entries.setdefault(name, []).append(Contribution(name, help, target, self._owner))

    def helps(self) -> dict[str, str]:
        """Command → its line of help, in order of names."""
        found = {name: text for name, (text, _) in OWN.items()}
        for name, entries in self._entries.items():
            clash = len(entries) > 1
            found[name] = f"(claimed by {' and '.join(e.owner for e in entries)})" if clash else entries[0].help
        return dict(sorted(found.items()))

    def find(self, name: str) -> click.Command | None:
        """Import a command; None when nobody has one of that name.

        Raises:
            ConfigurationError: several distributions claim the name, or the one that wants it may not have it.
            ExtensionError: the command cannot be imported.
        """
        if name in OWN:
            return _imported(OWN[name][1], name, "hookwork-kernel")
        entries = self._entries.get(name, [])
        if len(entries) > 1:
            owners = " and ".join(entry.owner for entry in entries)
            raise ConfigurationError(f"command {name!r} is claimed by {owners}; uninstall or disable one of them")
        if entries:
            return _imported(entries[0].target, name, entries[0].owner)
        if name in self._refused and name not in COMMANDS:
            raise ConfigurationError(f"command {name!r} is not available: {self._refused[name]}")
        return None


def _imported(target: str, name: str, owner: str) -> click.Command:
    module, _, attribute = target.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except Exception as error:
        raise ExtensionError(f"command {name!r} of {owner} cannot be loaded: {_one_line(error)}") from error
    if not isinstance(found, click.Command):
        raise ExtensionError(f"command {name!r} of {owner}: {target} is no click command")
    return found


class _Root(click.Group):
    """The top-level group; contributed commands are resolved when they are named."""

    _registry: CommandRegistry | None = None

    @property
    def registry(self) -> CommandRegistry:
        if self._registry is None:
            self._registry = CommandRegistry.collected(extensions())
        return self._registry

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.registry.helps())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        # The kernel's own commands work whatever state the extensions are in.
        if cmd_name in OWN:
            return _imported(OWN[cmd_name][1], cmd_name, "hookwork-kernel")
        return self.registry.find(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.registry.helps().items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        command = self.get_command(ctx, name)
        if command is None:
            known = self.registry.helps()
            missing = COMMANDS.get(name)
            near = "" if missing else did_you_mean(name, {**known, **COMMANDS})
            remedy = switched_off(missing, extensions()) or install_line(missing)
            raise click.UsageError(f"there is no command {name!r}{near}{remedy}", ctx)
        return name, command, args[1:]


def _root() -> _Root:
    """A fresh group: contributions are collected anew, under the settings of this call."""
    return _Root(
        "hookwork",
        help="Hookwork: run and inspect agents.",
        invoke_without_command=True,
        callback=_no_command,
        context_settings={"help_option_names": ["-h", "--help"]},
        params=[
            click.Option(["--version"], is_flag=True, help="Print the version and exit."),
            click.Option(["--config"], metavar="FILE", help="Read this settings file; 'none' reads no file."),
            click.Option(["--debug"], is_flag=True, help="Show tracebacks."),
        ],
    )


@click.pass_context
def _no_command(ctx: click.Context, version: bool, config: str | None, debug: bool) -> None:
    del config, debug  # read before parsing, from anywhere on the line: see _scan
    if version:
        from hookwork.version import VERSION

        click.echo(f"hookwork {VERSION}")
        ctx.exit(DONE)
    if ctx.invoked_subcommand is None:
        raise click.UsageError(f"no command is given\n\n{ctx.get_help()}", ctx)


def command_settings(**changes: Any) -> Settings:
    """The settings a command works under: ``--config`` or the nearest file, the environment, then these arguments.

    Arguments that are None change nothing. To be called inside a command.
    """
    ctx = click.get_current_context(silent=True)
    config = ctx.find_root().obj if ctx is not None else None
    return Settings.load(config=config).merged(**changes)


# --- the program -----------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and give the exit code; raises nothing.

    Args:
        argv: arguments without the program's name; None: those of the process, which is then ended here if a thread
            of a blocking tool would keep it from ending.
    """
    from hookwork.process import leave, open_streams

    open_streams()
    code = _outcome(list(sys.argv[1:] if argv is None else argv))
    if argv is None:
        leave(code)
    return code


def _outcome(arguments: list[str]) -> int:
    debug, config = _scan(arguments)
    _use_utf8()
    try:
        with _extensions_of(config):
            code = _invoked(arguments, config)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
        return DONE
    except BaseException as error:  # noqa: BLE001 - the end of the program: every error becomes a code and a text
        return _told(error, debug)
    return code


def _invoked(arguments: list[str], config: str | None) -> int:
    root = _root()
    try:
        with root.make_context("hookwork", arguments, obj=config) as ctx:
            if "NO_COLOR" in os.environ:
                ctx.color = False
            value = root.invoke(ctx)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    return value if isinstance(value, int) and not isinstance(value, bool) else DONE


def _told(error: BaseException, debug: bool) -> int:
    """Print an error to stderr, on one line unless ``debug``, and give its exit code."""
    if isinstance(error, SystemExit):
        if isinstance(error.code, str):
            click.echo(error.code, err=True)
        return error.code if isinstance(error.code, int) else FAILED if error.code else DONE
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # its text is the help of a group without a subcommand
        click.echo(error.format_message(), err=True)
        return USAGE
    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx is not None else "hookwork"
        click.echo(f"error: {error.format_message()}", err=True)
        click.echo(f"see: {where} --help", err=True)
        return USAGE
    if debug:
        import traceback

        traceback.print_exception(error)
    text = error.format_message() if isinstance(error, click.ClickException) else _one_line(error)
    click.echo(f"error: {text}", err=True)
    return FAILED


def _one_line(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return f"{error.message}: {'; '.join(_one_line(member) for member in error.exceptions)}"
    text = " ".join(str(error).split()) or "no further text"
    if not isinstance(error, (HookworkError, click.ClickException)):
        text = f"{type(error).__name__}: {text} (--debug shows where)"
    notes = getattr(error, "__notes__", ())
    return f"{text} ({'; '.join(notes)})" if notes else text


def _scan(arguments: Sequence[str]) -> tuple[bool, str | None]:
    """``--debug`` and ``--config`` from anywhere on the line: they are needed before a command is known."""
    debug, config = False, None
    for i, argument in enumerate(arguments):
        if argument == "--":
            break
        if argument == "--debug":
            debug = True
        elif argument.startswith("--config="):
            config = argument.partition("=")[2]
        elif argument == "--config" and i + 1 < len(arguments):
            config = arguments[i + 1]
    return debug, config or None


@contextmanager
def _extensions_of(config: str | None) -> Iterator[None]:
    """Leave out what the settings disable. Faulty settings are for the command that needs them to report."""
    try:
        disabled = Settings.load(config=config).disabled
    except ConfigurationError:
        disabled = ()
    if not disabled:
        yield
        return
    with use_registry(extensions().without(disabled)):
        yield


def _use_utf8() -> None:
    """Results are UTF-8 whatever the locale; what UTF-8 cannot hold is replaced."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and (stream.encoding or "").lower() not in ("utf-8", "utf8"):
            stream.reconfigure(encoding="utf-8", errors="replace")


def _forget_stdout() -> None:
    """Keep the interpreter from complaining about the closed pipe when it flushes at exit."""
    try:
        target = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):
        # No real file behind stdout (an embedding program): nothing will be flushed into the pipe.
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, target)
    os.close(nowhere)
