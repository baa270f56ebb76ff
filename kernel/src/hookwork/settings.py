"""Settings: what a project's configuration file and the environment say (tools-plugins EXT-7).

The nearest ``hookwork.toml``, or ``pyproject.toml`` with a ``[tool.hookwork]`` table, upwards from the working
directory, overridden by ``HOOKWORK_*`` variables, overridden by arguments. Nothing is cached: whoever needs settings
loads them once and hands them on.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from hookwork.catalogue import did_you_mean
from hookwork.errors import ConfigurationError

#: Keys with a text, and keys with a list of texts.
TEXT_KEYS = ("app", "agent", "model", "sessions", "artifacts", "memory")
LIST_KEYS = ("plugins", "disabled")
KEYS = (*TEXT_KEYS, *LIST_KEYS)

logger = logging.getLogger("hookwork.settings")

#: Names the configuration file; ``none``: read no file.
CONFIG_VARIABLE = "HOOKWORK_CONFIG"

_PREFIX = "HOOKWORK_"
#: What variables may say: the keys, and what no file says.
_VARIABLES = (*(key.upper() for key in KEYS), "CONFIG", "EXTENSIONS", "STRICT")
#: How like a known name a variable must be to be a slip: others may use the prefix for names of their own.
_LIKENESS = 0.8

# Any spelling that could make the table (a dependency on hookwork does not): only then is the file parsed, 3 ms.
_MENTION = rb"""(?m)tool["']?\s*\.\s*["']?hookwork|^\s*["']?hookwork["']?\s*[.=]|hookwork["']?\s*=\s*\{"""

_isolated: ContextVar[bool] = ContextVar("hookwork_no_settings", default=False)


class Settings:
    """Settings as they are in force for one runner or command.

    Attributes:
        app, agent: reference to the App or agent to run (entry-point name, ``module:attribute`` or path).
        model: default model name.
        sessions, artifacts, memory: service URLs.
        plugins: names (or ``name:alias``) of lifecycle plugins, in the order in which they run.
        disabled: names of extensions that are left out.
        tables: the tables of extensions and plugins by name.
        source: path of the file, empty when none was read.

    Raises:
        ConfigurationError: an unknown key or a value of a wrong type.
    """

    __slots__ = (*KEYS, "source", "tables")

    app: str | None
    agent: str | None
    model: str | None
    sessions: str | None
    artifacts: str | None
    memory: str | None
    plugins: tuple[str, ...]
    disabled: tuple[str, ...]
    tables: dict[str, dict[str, Any]]
    source: str

    def __init__(
        self, *, tables: Mapping[str, Mapping[str, Any]] | None = None, source: str = "", **values: Any
    ) -> None:
        self.source = source
        self.tables = {name: dict(table) for name, table in (tables or {}).items()}
        for key in TEXT_KEYS:
            setattr(self, key, _text(key, values.pop(key, None), source or "Settings(…)"))
        for key in LIST_KEYS:
            setattr(self, key, _list(key, values.pop(key, ()), source or "Settings(…)"))
        for key in values:
            raise _unknown_key(key, source or "Settings(…)")

    def __repr__(self) -> str:
        from hookwork.urls import redact_url

        shown = [f"{key}={_redacted(getattr(self, key), redact_url)!r}" for key in KEYS if getattr(self, key)]
        return f"Settings({', '.join([*shown, f'tables={sorted(self.tables)}', f'source={self.source!r}'])})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Settings):
            return NotImplemented
        return all(getattr(self, key) == getattr(other, key) for key in (*KEYS, "tables"))

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def load(
        cls,
        start: str | os.PathLike[str] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        config: str | os.PathLike[str] | None = None,
    ) -> Settings:
        """The nearest configuration, overridden by the environment.

        Args:
            start: folder from which to look upwards, even if HOOKWORK_CONFIG is ``none``; None: the working directory.
            environ: variables; None: those of the process.
            config: read this file and look for no other; ``"none"``: read no file.

        Raises:
            ConfigurationError: two configurations in one folder, a file that cannot be read, an unknown key, a value
                of a wrong type.
        """
        given = environ is not None
        if environ is None:
            environ = {} if _isolated.get() else os.environ
        if config is None:
            config = environ.get(CONFIG_VARIABLE) or None
            if config == "none" and start is not None and not given:  # who names a folder wants it read (EXT-7)
                config = None
        path: str | None = None
        if config is None:
            if start is not None or not _isolated.get():
                path = _nearest(os.path.realpath(start if start is not None else os.curdir))
        elif os.fspath(config) != "none":
            path = os.fspath(config)
        settings = NO_SETTINGS if path is None else cls(**_from_file(path))
        from_environment = _from_environment(environ)
        return settings.merged(**from_environment) if from_environment else settings

    def table(self, name: str) -> dict[str, Any]:
        """A copy of the table of an extension or plugin; empty when there is none."""
        return dict(self.tables.get(name, ()))

    def merged(self, **changes: Any) -> Settings:
        """A copy with some values replaced; None leaves a value as it is. Lists replace, ``tables`` merge key by key.

        Raises:
            ConfigurationError: an unknown key or a value of a wrong type.
        """
        tables: dict[str, dict[str, Any]] = {name: dict(table) for name, table in self.tables.items()}
        for name, table in (changes.pop("tables", None) or {}).items():
            tables[name] = {**tables.get(name, {}), **table}
        source = changes.pop("source", self.source)
        values = {key: getattr(self, key) for key in KEYS}
        values.update((key, value) for key, value in changes.items() if value is not None or key not in KEYS)
        return Settings(tables=tables, source=source, **values)

    def check_tables(self, known: Iterable[str]) -> None:
        """Raise ConfigurationError for a table that belongs to none of the ``known`` extensions and plugins."""
        names = sorted(set(known) | {entry.partition(":")[2] or entry for entry in self.plugins})
        for name in self.tables:
            if name not in names:
                near = did_you_mean(name, [*names, *KEYS])
                raise ConfigurationError(
                    f"{self.source or 'settings'}: table {name!r} belongs to no installed extension or plugin"
                    f"{near}; install what it is for, or remove it"
                )


# --- reading ---------------------------------------------------------------------------------------------------------


def _nearest(folder: str) -> str | None:
    """The configuration file of the first folder upwards that has one."""
    # os.path instead of pathlib: that one's import costs every start-up some 4 ms.
    while True:
        own, project = os.path.join(folder, "hookwork.toml"), os.path.join(folder, "pyproject.toml")
        has_project = os.path.isfile(project) and _project_table(project) is not None
        if os.path.isfile(own):
            if has_project:
                raise ConfigurationError(
                    f"both {own} and the [tool.hookwork] table of {project} configure Hookwork; keep one of them"
                )
            return own
        if has_project:
            return project
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def _project_table(path: str) -> Any:
    """The [tool.hookwork] table of a pyproject.toml, None when it has none; most files are not parsed for that."""
    if re.search(_MENTION, _read(path)) is None:
        return None
    tool = _parse(path).get("tool")
    return tool.get("hookwork") if isinstance(tool, dict) else None


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigurationError(f"settings file {path} cannot be read: {error.strerror or error}") from error


def _parse(path: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(_read(path).decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"settings file {path} is not valid TOML: {error}") from error


def _from_file(path: str) -> dict[str, Any]:
    if os.path.basename(path) == "pyproject.toml":
        found = _project_table(path)
        if found is None:
            raise ConfigurationError(f"{path} has no [tool.hookwork] table; add one or name another file")
    else:
        found = _parse(path)
        tool = found.get("tool")
        if isinstance(tool, dict) and "hookwork" in tool:
            raise ConfigurationError(
                f"{path}: [tool.hookwork] belongs in a pyproject.toml; here write its keys at the top level"
            )
    if not isinstance(found, dict):
        raise ConfigurationError(f"{path}: tool.hookwork must be a table, not {_kind(found)}")
    values: dict[str, Any] = {"source": path, "tables": {}}
    for key, value in found.items():
        if key in KEYS:
            values[key] = value
        elif isinstance(value, dict):
            values["tables"][key] = value
        else:
            raise _unknown_key(key, path)
    return values


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """The settings given as variables; an empty one counts as unset, one that is spelt almost like a key is told."""
    values: dict[str, Any] = {}
    for variable, said in environ.items():
        if not variable.startswith(_PREFIX):
            continue
        name = variable.removeprefix(_PREFIX)
        if name not in _VARIABLES:
            _tell_misspelt(name)
        elif (key := name.lower()) in KEYS and (text := said.strip()):
            values[key] = [part.strip() for part in text.split(",") if part.strip()] if key in LIST_KEYS else text
    return values


def _tell_misspelt(name: str) -> None:
    from difflib import get_close_matches

    near = get_close_matches(name, _VARIABLES, n=1, cutoff=_LIKENESS)
    if near:
        logger.warning(
            "environment variable %s is unknown and not read; did you mean %s?", _PREFIX + name, _PREFIX + near[0]
        )


# --- checks ----------------------------------------------------------------------------------------------------------


def _text(key: str, value: Any, where: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f'{where}: {key!r} must be a text, not {_kind(value)}; e.g. {key} = "…"')
    return value


def _list(key: str, value: Any, where: str) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return tuple(value)
    what = _kind(value)
    if isinstance(value, (list, tuple)):
        what = f"a list with {_kind(next(item for item in value if not isinstance(item, str)))} in it"
    raise ConfigurationError(f'{where}: {key!r} must be a list of names, not {what}; e.g. {key} = ["one", "two"]')


def _unknown_key(key: str, where: str) -> ConfigurationError:
    near = did_you_mean(key, KEYS)
    return ConfigurationError(f"{where}: unknown key {key!r}{near}; known keys: {', '.join(KEYS)}, and tables")


def _kind(value: Any) -> str:
    """A value's type in the words of TOML."""
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a text", list: "a list", dict: "a table"}
    return names.get(type(value), f"a {type(value).__name__}")


def _redacted(value: Any, redact: Any) -> Any:
    return redact(value) if isinstance(value, str) else list(value)


# --- the settings in force --------------------------------------------------------------------------------------------

NO_SETTINGS = Settings()

_current: ContextVar[Settings] = ContextVar("hookwork_current_settings", default=NO_SETTINGS)


def current_settings() -> Settings:
    """The settings a provider hook is being asked under, so that it can resolve further names (wrappers)."""
    return _current.get()


def settings_in_force() -> Settings:
    """What a model made of others resolves their names under: the settings of whoever asks for it; in a program that
    builds it by itself, those that a Runner would read. Raises what `Settings.load` raises."""
    settings = _current.get()
    return Settings.load() if settings is NO_SETTINGS else settings


@contextmanager
def use_current(settings: Settings) -> Iterator[None]:
    """Make ``settings`` the current ones while a provider hook runs."""
    token = _current.set(settings)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def use_no_settings() -> Iterator[None]:
    """Isolate this context: `Settings.load` reads only what it is given explicitly, no file and no environment."""
    token = _isolated.set(True)
    try:
        yield
    finally:
        _isolated.reset(token)
