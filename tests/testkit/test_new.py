"""`hookwork new` (servers §7): names, what is written, and that nothing is ever overwritten."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from hookwork.cli import main
from hookwork.errors import ConfigurationError
from hookwork.settings import KEYS
from hookwork_testkit.new.names import KINDS, Names, names_of
from hookwork_testkit.new.writing import rendered, series

#: design §6: the groups by which things are found.
GROUPS = {"agent": "hookwork.agents", "extension": "hookwork", "plugin": "hookwork.plugins"}


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """``new(...)``: the command in an empty working directory."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Result:
        code = main(["new", *arguments])
        return Result(code, *capsys.readouterr())

    return run


@pytest.mark.parametrize("given", ["word-count", "word_count", "hookwork-word-count", "hookwork_word_count"])
def test_all_names_are_made_from_one(given: str) -> None:
    assert names_of(given) == Names("word_count", "hookwork-word-count", "hookwork_word_count", "WordCount")


@pytest.mark.parametrize(
    "given",
    ["", "Word", "word count", "word.count", "-word", "word-", "word--count", "2words", "hookwork-2", "wört", "../x",
     "hookwork", "x" * 51],
)  # fmt: skip
def test_other_forms_of_a_name_are_refused(given: str) -> None:
    with pytest.raises(ConfigurationError):
        names_of(given)


@pytest.mark.parametrize("given", ["user", "cache", "llm", "kernel", "retry-and-reflect", "chat", "version"])
def test_names_of_the_kit_itself_are_refused(given: str) -> None:
    with pytest.raises(ConfigurationError, match="Hookwork itself uses"):
        names_of(given)


@pytest.mark.parametrize("given", KEYS)
def test_keys_of_the_settings_are_refused(given: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'{given}' is a key of the settings"):
        names_of(given)


@pytest.mark.parametrize(
    ("version", "expected"), [("0.1.0", ">=0.1,<0.2"), ("0.12.3rc1", ">=0.12,<0.13"), ("2.3.4", ">=2.3,<3")]
)
def test_a_distribution_asks_for_the_series_of_the_kernel_that_wrote_it(version: str, expected: str) -> None:
    assert series(version) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["word-count", "none", "class", "plugin", "x2"])
def test_what_is_written_is_complete_and_valid(kind: str, name: str) -> None:
    names = names_of(name)
    contents = {path.as_posix(): text for path, text in rendered(kind, names, version="0.1.0").items()}
    package = f"src/{names.package}"
    assert {"pyproject.toml", "README.md", f"{package}/__init__.py", f"{package}/py.typed"} <= set(contents)
    assert any(path.startswith("tests/test_") for path in contents)
    project = tomllib.loads(contents["pyproject.toml"])["project"]
    assert project["name"] == names.distribution
    assert all(requirement.endswith(">=0.1,<0.2") for requirement in project["dependencies"])
    [(entry, target)] = project["entry-points"][GROUPS[kind]].items()
    assert entry == names.name
    assert f"src/{target.partition(':')[0].replace('.', '/')}.py" in contents
    for path, text in contents.items():
        assert "$name" not in text
        assert "PACKAGE" not in path
        if path.endswith(".py"):
            compile(text, path, "exec")


def test_cli_new_writes_a_folder_named_after_the_distribution(new: Callable[..., Result], tmp_path: Path) -> None:
    result = new("plugin", "word-count")
    assert result.code == 0
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert "hookwork-word-count/src/hookwork_word_count/plugin.py" in written
    for path in written:
        assert path.removeprefix("hookwork-word-count/") in result.out


def test_nothing_is_overwritten_or_half_written(new: Callable[..., Result], tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "README.md").write_text("precious")
    result = new("agent", "word-count", "--folder", "mine")
    assert result.code == 1
    assert "README.md" in result.err
    assert "overwritten" in result.err
    assert [path.name for path in folder.rglob("*")] == ["README.md"]
    assert (folder / "README.md").read_text() == "precious"


@pytest.mark.parametrize("kind", KINDS)
def test_a_distribution_that_is_installed_is_not_written(kind: str, new: Callable[..., Result], tmp_path: Path) -> None:
    result = new(kind, "weather")
    assert result.code == 1
    assert "hookwork-weather" in result.err
    assert "installed already" in result.err
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_another_distribution_uses_is_refused_for_its_kind(
    new: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path, {"name": "somebodys-agents", "entry-points": {"hookwork.agents": {"word_count": "x:app"}}})
    monkeypatch.syspath_prepend(str(tmp_path))
    result = new("agent", "word-count")
    assert result.code == 1
    assert "'word_count' exists already in somebodys-agents 0.1.0" in result.err
    assert new("plugin", "word-count").code == 0  # a plugin of that name is told apart from an agent


@pytest.mark.parametrize(("kind", "group"), [("plugin", "hookwork"), ("extension", "hookwork.plugins")])
def test_a_plugin_and_an_extension_may_not_share_a_name(
    kind: str, group: str, new: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would share the table of the settings."""
    _install(tmp_path, {"name": "somebodys-parts", "entry-points": {group: {"word_count": "x:y"}}})
    monkeypatch.syspath_prepend(str(tmp_path))
    result = new(kind, "word-count")
    assert result.code == 1
    assert "'word_count' exists already in somebodys-parts 0.1.0" in result.err


def test_a_folder_with_other_files_is_filled(new: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "LICENSE").write_text("mine")
    assert new("agent", "word-count", "--folder", "mine").code == 0
    assert (tmp_path / "mine" / "pyproject.toml").is_file()


def test_a_folder_that_cannot_be_made_is_told(new: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = new("agent", "word-count", "--folder", "file/below")
    assert (result.code, result.out) == (1, "")
    assert "cannot be written" in result.err


@pytest.mark.parametrize("arguments", [("thing", "word-count"), ("plugin", "Word Count"), ("plugin",), ()])
def test_cli_6_wrong_usage_has_its_exit_code(new: Callable[..., Result], arguments: tuple[str, ...]) -> None:
    assert new(*arguments).code == 64


@pytest.mark.parametrize("kind", KINDS)
def test_the_written_tests_pass(kind: str, new: Callable[..., Result], tmp_path: Path) -> None:
    """In this environment, with only the distribution's metadata beside its sources, as an editable install has it."""
    assert new(kind, "word-count").code == 0
    folder = tmp_path / "hookwork-word-count"
    _install(folder / "src", tomllib.loads((folder / "pyproject.toml").read_text())["project"])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder / "src"), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def _install(site: Path, project: dict[str, object]) -> None:
    info = site / f"{str(project['name']).replace('-', '_')}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    groups = project["entry-points"]
    assert isinstance(groups, dict)
    text = ""
    for group, entries in groups.items():
        text += f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
    (info / "entry_points.txt").write_text(text)
