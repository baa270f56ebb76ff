"""AGENT references: entry points, import paths, files, folders (servers CLI-4)."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from hookwork.agent import Agent
from hookwork.app import App
from hookwork.errors import ConfigurationError
from hookwork.plugins.discovery import use_extensions
from hookwork.plugins.entry_points import AGENTS, EntryPoint
from hookwork.plugins.markers import hookimpl
from hookwork.resolve import load_agent
from hookwork.settings import Settings

AGENT = """
    from hookwork.agent import Agent
    from hookwork.app import App

    async def body(ctx):
        return
        yield

    root_agent = Agent(name="{name}", body=body)
"""


@pytest.fixture(autouse=True)
def _clean_imports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    with use_extensions([], plugins={}, agents={}):
        yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(path: Path, name: str, extra: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(AGENT).format(name=name) + dedent(extra))
    return path


def test_cli_4_an_entry_point_name(tmp_path: Path) -> None:
    write(tmp_path / "fake_shipped.py", "shipped")
    point = EntryPoint("helper", AGENTS, "fake_shipped", "root_agent", "fake-dist", "1.0")
    sys.path.insert(0, str(tmp_path))
    with use_extensions([], plugins={}, agents={"helper": point}):
        assert load_agent("helper").name == "shipped"
        with pytest.raises(ConfigurationError) as caught:
            load_agent("helpr")
    assert "did you mean 'helper'" in str(caught.value)
    assert "known agents: helper" in str(caught.value)


def test_cli_4_module_and_attribute_from_the_working_directory(tmp_path: Path) -> None:
    write(tmp_path / "fake_here.py", "here", "app = App('named', root_agent)\nclass Box: inner = root_agent\nother = 3")
    assert isinstance(load_agent("fake_here:root_agent"), Agent)
    assert isinstance(load_agent("fake_here:app"), App)
    assert load_agent("fake_here:Box.inner").name == "here"
    with pytest.raises(
        ConfigurationError, match=r"no 'root_agnt' .*did you mean 'root_agent'.*agents there: root_agent"
    ):
        load_agent("fake_here:root_agnt")
    with pytest.raises(ConfigurationError, match="neither an agent nor an App but int"):
        load_agent("fake_here:other")
    with pytest.raises(ConfigurationError, match="there is no module 'fake_absent'"):
        load_agent("fake_absent:app")


def test_an_import_error_inside_the_agents_module_is_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "fake_faulty.py").write_text("import no_such_library\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        load_agent("fake_faulty:app")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        load_agent("fake_faulty.py")
    assert "fake_faulty" not in sys.modules


@pytest.mark.parametrize(
    "ends", ["import sys; sys.exit(3)", "import argparse; argparse.ArgumentParser().parse_args(['--x'])"]
)
def test_a_file_that_ends_the_program_on_import_is_named(tmp_path: Path, ends: str) -> None:
    path = tmp_path / "fake_script.py"
    path.write_text(f"\n{ends}\n")
    with pytest.raises(ConfigurationError, match="ends the program on import") as raised:
        load_agent(str(path))
    assert f"{path}, line 2" in str(raised.value)


@pytest.mark.parametrize(("text", "kind"), [("1 / 0", ZeroDivisionError), ("import no_such_library", ImportError)])
def test_a_file_that_fails_on_import_is_named(tmp_path: Path, text: str, kind: type[Exception]) -> None:
    path = tmp_path / "fake_failing.py"
    path.write_text(f"\n{text}\n")
    with pytest.raises(kind) as raised:
        load_agent(str(path))
    assert raised.value.__notes__ == [f"raised on loading agent {str(path)!r}, in {path}, line 2"]


def test_cli_4_a_file_with_app_or_root_agent(tmp_path: Path) -> None:
    path = write(tmp_path / "one" / "fake_file.py", "first")
    assert load_agent(str(path)).name == "first"
    assert load_agent("one/fake_file.py") is load_agent(str(path))
    both = write(tmp_path / "two" / "fake_file.py", "second", "app = App('the_app', root_agent)")
    assert load_agent(str(both)).name == "the_app"


def test_cli_4_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "plain" / "agent.py", "plain_agent")
    assert load_agent("plain").name == "plain_agent"
    write(tmp_path / "fakepackage" / "agent.py", "in_package")
    (tmp_path / "fakepackage" / "__init__.py").write_text("from . import agent\n")
    assert load_agent(str(tmp_path / "fakepackage")).name == "in_package"
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match="holds no agent; define `app`"):
        load_agent("empty")


def test_cli_4_yaml_goes_to_the_config_extension(tmp_path: Path) -> None:
    folder = tmp_path / "yaml"
    folder.mkdir()
    (folder / "root_agent.yaml").write_text("name: x\n")
    with pytest.raises(ConfigurationError, match="hookwork-config, which is not released"):
        load_agent("yaml")
    agent = Agent(name="from_yaml", body=lambda ctx: None)  # type: ignore[arg-type, return-value]
    asked: list[Any] = []

    class Config:
        @hookimpl
        def create_agent(self, kind: str, config: dict[str, Any]) -> Agent:
            asked.append((kind, config))
            return agent

    with use_extensions([("config", Config())], plugins={}, agents={}):
        assert load_agent("yaml") is agent
        assert load_agent(str(folder / "root_agent.yaml")) is agent
    assert asked == [("file", {"path": str(folder / "root_agent.yaml")})] * 2


def test_cli_4_the_default_comes_from_the_settings(tmp_path: Path) -> None:
    write(tmp_path / "fake_set.py", "set_agent")
    assert load_agent(None, Settings(agent="fake_set:root_agent")).name == "set_agent"
    with pytest.raises(ConfigurationError, match="no agent is named; give a name"):
        load_agent()


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(ConfigurationError, match="neither a Python file nor a YAML file"):
        load_agent("notes.txt")
    write(tmp_path / "fake_wrong.py", "x", "app = 3\ndel root_agent")
    with pytest.raises(ConfigurationError, match=r"'app' of .* is neither an agent nor an App but int"):
        load_agent("fake_wrong.py")
