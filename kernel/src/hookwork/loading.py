"""Agents and Apps from entry points, import paths, files and folders (servers CLI-4)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from hookwork.agent import Agent, as_agent_hint
from hookwork.app import App
from hookwork.catalogue import did_you_mean, install_line
from hookwork.errors import ConfigurationError, HookworkError

if TYPE_CHECKING:
    from types import ModuleType

    from hookwork.plugins.discovery import ExtensionRegistry
    from hookwork.plugins.entry_points import EntryPoint

#: What a module is searched for, in this order.
ATTRIBUTES = ("app", "root_agent")
YAML_NAMES = ("root_agent.yaml", "root_agent.yml")


def load(reference: str, points: Mapping[str, EntryPoint], registry: ExtensionRegistry) -> Agent | App:
    """See `hookwork.resolve.load_agent`."""
    try:
        return _load(reference, points, registry)
    except SystemExit as error:  # it would end the program without a word
        raise ConfigurationError(
            f"agent {reference!r}: {_raised_in(error)}, ends the program on import (SystemExit: {error.code}); put "
            "what is meant for a script under: if __name__ == '__main__'"
        ) from error
    except HookworkError:
        raise
    except Exception as error:
        place = _raised_in(error)
        error.add_note(f"raised on loading agent {reference!r}{f', in {place}' if place else ''}")
        raise


def _raised_in(error: BaseException) -> str:
    """File and line in the module that was being imported, if it got that far."""
    found, frame = "", error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_name == "<module>":
            found = f"{frame.tb_frame.f_code.co_filename}, line {frame.tb_lineno}"
        frame = frame.tb_next
    return found


def _load(reference: str, points: Mapping[str, EntryPoint], registry: ExtensionRegistry) -> Agent | App:
    point = points.get(reference)
    if point is not None:
        return _checked(point.load(), f"agent {reference!r} ({point.distribution})")
    path = Path(reference)
    if path.exists():
        return _from_path(path, registry)
    module, colon, attribute = reference.partition(":")
    if colon and module and attribute and "/" not in reference:
        return _from_module(module, attribute)
    raise ConfigurationError(
        f"no agent is named {reference!r}{did_you_mean(reference, points)}, and there is no such file or folder; "
        f"known agents: {', '.join(sorted(points)) or 'none'}; other forms: module:attribute, path/to/file.py"
    )


def _from_module(module_name: str, attribute: str) -> Agent | App:
    _search_here(Path.cwd())
    try:
        found: Any = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise ConfigurationError(
                f"agent '{module_name}:{attribute}': there is no module {error.name!r}; "
                "it is looked for in the working directory and among the installed packages"
            ) from error
        raise
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [name for name, value in vars(found).items() if isinstance(value, (Agent, App))]
            raise ConfigurationError(
                f"module {module_name!r} has no {attribute!r}{did_you_mean(attribute, names)}; "
                f"agents there: {', '.join(names) or 'none'}"
            )
        found = getattr(found, part)
    return _checked(found, f"'{module_name}:{attribute}'")


def _from_path(path: Path, registry: ExtensionRegistry) -> Agent | App:
    path = path.resolve()
    if path.is_file():
        if path.suffix in (".yaml", ".yml"):
            return _from_yaml(path, registry)
        if path.suffix != ".py":
            raise ConfigurationError(f"{path} is neither a Python file nor a YAML file; it cannot hold an agent")
        return _attribute_of([_import_file(path)], path)
    modules: list[ModuleType] = []
    files = [path / name for name in ("agent.py", "app.py") if (path / name).is_file()]
    if (path / "__init__.py").is_file():
        _search_here(path.parent)
        modules.append(import_module(path.name))
        modules += [import_module(f"{path.name}.{file.stem}") for file in files]
    else:
        modules += [_import_file(file) for file in files]
    if not any(hasattr(module, name) for module in modules for name in ATTRIBUTES):
        for name in YAML_NAMES:
            if (path / name).is_file():
                return _from_yaml(path / name, registry)
    return _attribute_of(modules, path)


def _import_file(path: Path) -> ModuleType:
    """Import a file under its own name, or, where another module has that name, under one made from its path."""
    _search_here(path.parent)
    unique = f"hookwork_agent_{crc32(str(path).encode()):08x}"
    for name in (path.stem, unique):
        present = sys.modules.get(name)
        if present is not None and getattr(present, "__file__", None) == str(path):
            return present
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else unique
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _attribute_of(modules: list[ModuleType], path: Path) -> Agent | App:
    for attribute in ATTRIBUTES:
        for module in modules:
            if isinstance(getattr(module, attribute, None), (Agent, App)):
                return _checked(getattr(module, attribute), f"{path}")
    for attribute in ATTRIBUTES:
        for module in modules:
            if hasattr(module, attribute) and not isinstance(getattr(module, attribute), type(module)):
                return _checked(getattr(module, attribute), f"{attribute!r} of {path}")
    raise ConfigurationError(f"{path} holds no agent; define `app` (an App) or `root_agent` (an agent) there")


def _from_yaml(path: Path, registry: ExtensionRegistry) -> Agent | App:
    if "config" not in registry.provider_names("create_agent"):
        raise ConfigurationError(
            f"{path}: no installed extension reads agents from YAML{install_line('hookwork-config')}"
        )
    made = registry.first("create_agent", only="config", kind="file", config={"path": str(path)})
    return _checked(made, str(path))


def _checked(value: Any, what: str) -> Agent | App:
    if not isinstance(value, (Agent, App)):
        hint = as_agent_hint(value)
        raise ConfigurationError(f"{what} is neither an agent nor an App but {type(value).__name__}{hint}")
    return value


def _search_here(folder: Path) -> None:
    """Let imports find what lies in ``folder``, as ``python file.py`` would; a console script does not by itself."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
